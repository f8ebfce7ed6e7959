// A simulation of routing on a manual clock: requests that arrive at random choose CRNs with the picker, and their outcomes reach
// the CRN registry through the reporter, as in a gateway. CRNs are scripts. Everything random comes from one seed.

import { createSeededRandom, createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { Ref } from '../../src/actor/ref.ts';
import { BlockIndex } from '../../src/routing/block-index.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { CrnEvent } from '../../src/routing/crn.ts';
import { crnRegistry, type CrnRegistryCommand, type CrnRegistrySettings } from '../../src/routing/crn-registry.ts';
import { hashText, ModelTable, type ModelTableData } from '../../src/routing/model-table.ts';
import { type Candidate, type Failure, Reporter, type Verdict } from '../../src/routing/outcome.ts';
import { Candidates, type PickerDeps, type PickerSettings } from '../../src/routing/picker.ts';
import { RetryBudget } from '../../src/routing/retry-budget.ts';
import { answerOf, silentDeps } from './crn-deps.ts';
import { NO_HINT, PICKER, pickerDeps } from './picker.ts';

/** The settings of a gateway that sets none. */
const SETTINGS: CrnRegistrySettings = {
  health: { intervalMs: 5000, timeoutMs: 2000, path: '/health', rise: 1, fall: 2 },
  ejection: {
    consecutive: 5,
    errorRate: 0.5,
    outlierRate: 0.1,
    outlierFactor: 3,
    minRequests: 20,
    windowMs: 10_000,
    backoffMs: 1000,
    backoffMaxMs: 10_000,
  },
  maxShare: 0.5,
};

/** What a CRN does with one request. */
export interface Play {
  /** When the first byte of a good answer comes; null: no answer begins. */
  readonly firstByteMs: number | null;
  readonly endMs: number;
  readonly verdict: Verdict;
  readonly failure: Failure | null;
}

/** Takes an answer while it happens. */
export interface Live {
  begun(): void;
  ended(verdict: Verdict, failure: Failure | null): void;
}

/** Says at once what it does with a request, or null: then it tells `live`, later. */
export type Script = (random: () => number, live: Live) => Play | null;

/** One that says it at once. */
export type Known = (random: () => number) => Play;

/** Answers in 40 to 80 ms, and ends 100 ms later. */
export const GOOD: Known = (random) => {
  const firstByteMs = 40 + 40 * random();
  return { firstByteMs, endMs: firstByteMs + 100, verdict: 'ok', failure: null };
};

/** Fails every request after `endMs`. */
export const failing =
  (failure: Failure, endMs: number, verdict: Verdict = 'failed'): Known =>
  () => ({ firstByteMs: null, endMs, verdict, failure });

export interface SimulationOptions {
  readonly scripts: readonly Script[];
  readonly seed: number;
  /** Whether requests have conversations and cookies. */
  readonly affinity: boolean;
  /** Mean time between two requests in milliseconds; 50 by default. */
  readonly gapMs?: number;
}

/** One attempt. */
export interface Try {
  /** Number of its request, from 0. */
  readonly request: number;
  readonly crn: number;
  readonly trial: boolean;
  readonly atMs: number;
}

/** Conversations at the same time. */
const CONVERSATIONS = 40;

export class Simulation {
  readonly test: TestSystem;
  readonly board: Board;
  readonly tries: Try[] = [];
  readonly events: CrnEvent[] = [];
  /** Requests that have been answered, and that have not. */
  answered = 0;
  unanswered = 0;
  /** Scripts by CRN; may be changed while the simulation runs. */
  readonly scripts: Script[];
  readonly #memory: BoardMemory;
  readonly #random: () => number;
  readonly #picker: PickerSettings;
  readonly #deps: PickerDeps;
  readonly #reporter: Reporter;
  readonly #registry: Ref<CrnRegistryCommand>;
  readonly #gapMs: number;
  readonly #cookies = new Map<number, string>();
  #table: ModelTable = new ModelTable({ version: 0, models: [] });
  #requests = 0;

  constructor({ scripts, seed, affinity, gapMs = 50 }: SimulationOptions) {
    const count = scripts.length;
    this.test = createTestSystem({ seed });
    this.#random = createSeededRandom(seed + 1000);
    this.#gapMs = gapMs;
    this.scripts = [...scripts];
    this.#memory = createBoardMemory(count, count, 1);
    this.board = new Board(this.#memory, 0);
    this.#picker = { ...PICKER, affinity };
    this.#deps = pickerDeps(this.board, this.#memory, () => this.test.clock.now(), this.#random);
    this.#registry = this.test.system.spawn(
      crnRegistry({
        board: this.board,
        memory: this.#memory,
        blockIndex: new BlockIndex(this.#memory.blocks),
        ...silentDeps(this.#memory),
        probe: () => Promise.resolve(answerOf(200)),
        onTable: (table: ModelTableData) => {
          this.#table = new ModelTable(table);
        },
        onEvent: (event) => this.events.push(event),
        onProbed: () => undefined,
      }),
      { name: 'crns' },
    );
    this.#reporter = new Reporter(this.board, this.test.clock, (outcome) =>
      this.#registry.tell({ type: 'Outcome', outcome }),
    );
  }

  /** Starts the actors and waits until every CRN is up and its slow start over. */
  async start(): Promise<void> {
    const servers = this.scripts.map((_, at) => ({ url: `http://10.0.0.${at}:8000` }));
    this.#registry.tell({ type: 'Configure', models: [{ id: 'm', servers }], settings: SETTINGS });
    await this.test.settle();
    await this.test.advance(20_000);
  }

  /** Lets `count` requests arrive; what they do may last longer. */
  async run(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      this.#request();
      await this.test.advance(this.#gapMs * 2 * this.#random());
    }
  }

  standing(crn: number): number {
    return this.board.standing(this.#table.models[0]?.members[crn]?.member as number);
  }

  /** Attempts on a CRN by requests from number `from` on, without the trials. */
  triesOn(crn: number, from: number): number {
    return this.tries.filter((each) => each.crn === crn && each.request >= from && !each.trial).length;
  }

  trialsOn(crn: number): number {
    return this.tries.filter((each) => each.crn === crn && each.trial).length;
  }

  isUp(crn: number): boolean {
    return this.standing(crn) === STANDING.up;
  }

  #request(): void {
    const request = this.#requests++;
    const conversation = Math.floor(this.#random() * CONVERSATIONS);
    const [model] = this.#table.models;
    if (model === undefined) throw new Error('the simulation has not been started');
    const session = hashText(`conversation ${conversation}`);
    const hint = { ...NO_HINT, url: this.#cookies.get(conversation), session, bytes: 4000 };
    const candidates = new Candidates(model, this.#deps, this.#picker, hint);
    const budget = new RetryBudget(this.#memory, model.budget, { ratio: 0.2, burst: 64 });
    budget.deposit();
    const next = (): void => {
      const member = candidates.next();
      if (member === undefined) {
        this.unanswered++;
        return;
      }
      const { charged, enteredAt, epoch, matched, aged, trial, work } = candidates;
      const choice: Candidate = { member, epoch, trial, matched, enteredAt, aged, charged, work };
      const crn = model.members.indexOf(member);
      this.tries.push({ request, crn, trial: choice.trial, atMs: this.test.clock.now() });
      this.#attempt(candidates, choice, this.scripts[crn] as Script, (verdict, failure) => {
        if (verdict === 'ok') {
          this.answered++;
          if (!candidates.preferredFit) this.#cookies.set(conversation, member.url);
        } else if (failure === 'connect' || budget.withdraw()) {
          next();
        } else {
          this.unanswered++;
        }
      });
    };
    next();
  }

  #attempt(
    candidates: Candidates,
    choice: Candidate,
    script: Script,
    done: (verdict: Verdict, failure: Failure | null) => void,
  ): void {
    const { clock } = this.test;
    let hasBegun = false;
    const begin = (elapsedMs: number): void => {
      hasBegun = true;
      candidates.prefilled(choice, elapsedMs);
      this.#reporter.begun(choice);
    };
    const ended = (verdict: Verdict, failure: Failure | null): void => {
      if (!hasBegun) candidates.abandoned(choice, false);
      this.board.leave(choice.member.server);
      this.#reporter.report(choice, verdict, failure);
      done(verdict, failure);
    };
    const sentMs = clock.now();
    const play = script(this.#random, { begun: () => begin(clock.now() - sentMs), ended });
    if (play === null) return;
    const { endMs, failure, firstByteMs, verdict } = play;
    if (firstByteMs !== null) clock.setTimeout(() => begin(firstByteMs), firstByteMs);
    clock.setTimeout(() => ended(verdict, failure), endMs);
  }
}
