// The health actor of a CRN under random orders of events: requests, their outcomes, probes, deaths of threads, and time. At every
// moment there is at most one trial, an ejection ends in time while probes are good, and the CRN can always come back.
import fc from 'fast-check';
import t from 'tap';
import { ask } from '../../src/actor/ref.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import { FailureRates } from '../../src/routing/breaker.ts';
import { crn, type CrnCommand, type CrnEvent, type CrnOverride, type OverrideResult } from '../../src/routing/crn.ts';
import { hashText, type Member, type Model } from '../../src/routing/model-table.ts';
import { type Choice, Reporter, type Verdict } from '../../src/routing/outcome.ts';
import { Candidates } from '../../src/routing/picker.ts';
import { answerOf, silentDeps } from '../support/crn-deps.ts';
import { NO_HINT, PICKER, pickerDeps } from '../support/picker.ts';

const MAX_MS = 10_000;
const THREADS = 3;
const MODELS = ['a', 'b'];
const URL = 'http://crn';

const SETTINGS = {
  url: URL,
  server: 0,
  members: MODELS.map((model, member) => ({ model, modelCell: member, member })),
  health: { intervalMs: 1000, timeoutMs: 500, path: '/health', rise: 1, fall: 2 },
  ejection: {
    consecutive: 2,
    errorRate: 0.5,
    outlierRate: 0.1,
    outlierFactor: 3,
    minRequests: 4,
    windowMs: 10_000,
    backoffMs: 1000,
    backoffMaxMs: MAX_MS,
  },
};

type Step =
  | { readonly type: 'request'; readonly model: number; readonly thread: number }
  | { readonly type: 'begin'; readonly at: number }
  | { readonly type: 'end'; readonly at: number; readonly verdict: Verdict }
  | { readonly type: 'probe'; readonly status: number | null }
  | { readonly type: 'die'; readonly thread: number }
  | { readonly type: 'override'; readonly override: CrnOverride }
  | { readonly type: 'advance'; readonly ms: number };

const thread = fc.integer({ min: 1, max: THREADS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ type: fc.constant('request'), model: fc.nat(1), thread }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('begin'), at: fc.nat(9) }) },
  {
    weight: 12,
    arbitrary: fc.record({
      type: fc.constant('end'),
      at: fc.nat(9),
      verdict: fc.constantFrom<Verdict>('ok', 'failed', 'failed', 'failed', 'neutral'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('probe'), status: fc.constantFrom(200, 200, 503, null) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('die'), thread }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('override'),
      override: fc.constantFrom<CrnOverride>(
        { action: 'drain' },
        { action: 'return' },
        { action: 'eject', forMs: null },
      ),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ type: fc.constant('advance'), ms: fc.constantFrom(10, 900, 1100, 5000, 12_000) }),
  },
) as fc.Arbitrary<Step>;

/** A request in flight. */
interface Flight {
  readonly choice: Choice;
  readonly thread: number;
  readonly sentMs: number;
}

class World {
  readonly test = createTestSystem();
  readonly events: CrnEvent[] = [];
  flights: Flight[] = [];
  status: number | null = 200;
  drained = false;
  /** Since when probes are good and nobody has drained the CRN; Infinity while not. */
  #goodSinceMs = 0;
  /** Since when the CRN is ejected, and neither on trial nor up; Infinity while not. */
  #outSinceMs = Infinity;
  readonly #boards: Board[];
  readonly #reporters: Reporter[];
  readonly #models: Model[];
  readonly #memory: BoardMemory = createBoardMemory(1, MODELS.length, THREADS);
  readonly #ref;

  constructor() {
    const { clock, system } = this.test;
    const memory = this.#memory;
    this.#boards = Array.from({ length: THREADS }, (_, at) => new Board(memory, at));
    this.#ref = system.spawn(
      crn(SETTINGS, {
        board: this.board,
        rates: new FailureRates(),
        peers: () => [],
        ...silentDeps(memory),
        probe: () =>
          this.status === null ? Promise.reject(new Error('no response')) : Promise.resolve(answerOf(this.status)),
        mayEject: () => true,
        isDrained: () => this.drained,
        onEvent: (event) => this.events.push(event),
      }),
    );
    this.#reporters = this.#boards.map(
      (board) => new Reporter(board, clock, (outcome) => this.#ref.tell({ type: 'Outcome', outcome })),
    );
    this.#models = MODELS.map((id, member) => {
      const one: Member = {
        url: URL,
        server: 0,
        member,
        hash: hashText(URL),
        apiKey: undefined,
        weight: 1,
        dialects: 0,
      };
      return { id, members: [one], budget: member };
    });
  }

  get board(): Board {
    return this.#boards[0] as Board;
  }

  get nowMs(): number {
    return this.test.clock.now();
  }

  async take(each: Step): Promise<void> {
    const decisions = this.decisions;
    const flight = each.type === 'begin' || each.type === 'end' ? this.flights[each.at] : undefined;
    const onTrial = this.board.standing(0) === STANDING.probing;
    const bystander = flight !== undefined && !(flight.choice.trial || !onTrial);
    const old = flight !== undefined && flight.choice.epoch !== this.board.epoch(0);
    await this.#do(each);
    if ((bystander || old) && this.decisions > decisions) {
      throw new Error(`${old ? 'an old request' : 'another request than the trial'} has decided`);
    }
    this.check();
  }

  /** Ejections and returns so far. */
  get decisions(): number {
    return this.events.filter(({ type }) => type === 'ejected' || type === 'returned').length;
  }

  async #do(each: Step): Promise<void> {
    switch (each.type) {
      case 'request':
        this.request(each.model, each.thread);
        break;
      case 'begin': {
        const flight = this.flights[each.at];
        if (flight !== undefined) this.#reporters[flight.thread]?.begun(flight.choice);
        break;
      }
      case 'end':
        this.end(each.at, each.verdict);
        break;
      case 'probe':
        this.status = each.status;
        break;
      case 'die':
        // What the thread had batched is lost as well.
        this.flights = this.flights.filter((flight) => flight.thread !== each.thread);
        this.board.clearThread(each.thread);
        break;
      case 'override':
        await this.override(each.override);
        break;
      case 'advance':
        await this.advance(each.ms);
    }
    await this.test.settle();
  }

  request(model: number, by: number): Flight {
    const deps = pickerDeps(this.#boards[by] as Board, this.#memory, () => this.nowMs);
    const candidates = new Candidates(this.#models[model] as Model, deps, { ...PICKER, slowStartMs: 0 }, NO_HINT);
    const member = candidates.next();
    const flight = {
      choice: { member: member as Member, epoch: candidates.epoch, trial: candidates.trial },
      thread: by,
      sentMs: this.nowMs,
    };
    if (member !== undefined) this.flights.push(flight);
    return flight;
  }

  end(at: number, verdict: Verdict): void {
    const [flight] = this.flights.splice(at, 1);
    if (flight === undefined) return;
    this.#boards[flight.thread]?.leave(0);
    this.#reporters[flight.thread]?.report(flight.choice, verdict, verdict === 'failed' ? 'reset' : null);
  }

  async override(override: CrnOverride): Promise<void> {
    if (override.action === 'drain') this.drained = true;
    if (override.action === 'return') this.drained = false;
    const message = (replyTo: Parameters<Parameters<typeof ask<CrnCommand, OverrideResult>>[1]>[0]): CrnCommand => ({
      type: 'Override',
      override,
      replyTo,
    });
    const result = ask<CrnCommand, OverrideResult>(this.#ref, message, { timeoutMs: 1000 });
    await this.test.settle();
    await result;
  }

  /** In steps, so that nothing that is wrong for a moment is missed. */
  async advance(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 250) {
      await this.test.advance(Math.min(250, ms - passed));
      this.check();
    }
  }

  check(): void {
    const standing = this.board.standing(0);
    const epoch = this.board.epoch(0);
    const trials = this.flights.filter(({ choice }) => choice.trial && choice.epoch === epoch);
    const young = trials.filter(({ sentMs }) => this.nowMs - sentMs < MAX_MS);
    if (standing === STANDING.probing && young.length > 1) throw new Error(`${young.length} trials at the same time`);
    if (this.status !== 200 || this.drained) this.#goodSinceMs = Infinity;
    else if (this.#goodSinceMs === Infinity) this.#goodSinceMs = this.nowMs;
    if (standing !== STANDING.down) this.#outSinceMs = Infinity;
    else if (this.#outSinceMs === Infinity) this.#outSinceMs = this.nowMs;
    // Probes need up to 1.1 s to notice that they are good again.
    const outMs = this.nowMs - Math.max(this.#outSinceMs, this.#goodSinceMs + 1100);
    if (outMs > MAX_MS + 250) throw new Error(`out of use for ${outMs} ms while probes are good`);
    const counted = this.board.inFlight(0);
    if (counted !== this.flights.length) throw new Error(`${counted} in flight, not ${this.flights.length}`);
    if (this.board.standing(1) !== standing) throw new Error('the models of a CRN have the same probes and ejections');
  }

  /** The CRN serves well from now on: it is up after one request, wherever it was. */
  async recover(): Promise<void> {
    this.status = 200;
    if (this.drained) await this.override({ action: 'return' });
    // Trials that hang are repeated at least every 6 times the longest ejection.
    await this.test.advance(7 * MAX_MS + 3000);
    const flight = this.request(0, 1);
    this.end(this.flights.indexOf(flight), 'ok');
    await this.test.settle();
    this.check();
    if (this.board.standing(0) !== STANDING.up) throw new Error(`standing ${this.board.standing(0)} at the end`);
  }
}

t.test('whatever happens in whatever order, trials are single, ejections end, and the CRN comes back', async (t) => {
  let returned = 0;
  let trials = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), async (steps) => {
      const world = new World();
      await world.test.settle();
      for (const each of steps) await world.take(each);
      trials += world.flights.filter(({ choice }) => choice.trial).length;
      await world.recover();
      returned += world.events.filter(({ type }) => type === 'returned').length;
    }),
    { numRuns: 300, seed: 1 },
  );
  t.ok(returned > 30 && trials > 10, `the runs have ejections (${returned} returns) and open trials (${trials})`);
});
