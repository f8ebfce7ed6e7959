// A test fixture around `Failover`: a board, deadlines on a manual clock, connections to real servers on loopback, and a
// `TestDownstream` as the client. Candidates come in the order in which the CRNs are given.

import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import { dialectOf, type Translation, type UsageWatch } from '../../src/dialect/index.ts';
import type { HeadraceError } from '../../src/errors.ts';
import { ConnectionPool } from '../../src/net/client.ts';
import { DeadlineQueue } from '../../src/net/deadline.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { Failure, Verdict } from '../../src/routing/outcome.ts';
import { type AffinityHint, Candidates, type PromptHashes } from '../../src/routing/picker.ts';
import { hashText, type Member } from '../../src/routing/model-table.ts';
import { RetryBudget } from '../../src/routing/retry-budget.ts';
import {
  type Approval,
  type Attempt,
  type Downstream,
  Failover,
  type ContinuationKind,
  type FailoverDeps,
  type Hedging,
  Peers,
  type RequestForm,
  requestLines,
  RunningAttempts,
  translatedForm,
  type UpstreamListener,
  type UpstreamRequest,
} from '../../src/upstream/index.ts';
import { TestDownstream } from './downstream.ts';
import { NO_HINT, PICKER, pickerDeps } from './picker.ts';

const RULES = { peers: new Peers([]), scheme: 'http', via: 'headrace-0' };

/** The part of a tap test that this fixture needs. */
export interface Test {
  teardown(run: () => unknown): unknown;
}

export interface BenchOptions {
  readonly urls: readonly string[];
  readonly timeouts?: Partial<FailoverDeps['timeouts']>;
  readonly relay?: Partial<FailoverDeps['relay']>;
  readonly apiKey?: string;
  readonly maxConnections?: number;
  readonly burst?: number;
  readonly hedging?: Hedging;
  readonly continuation?: ContinuationKind;
  /** Standing of every member; up when absent. */
  readonly standing?: 'up' | 'down';
}

export interface Ask {
  readonly path?: string;
  readonly query?: string;
  readonly headers?: readonly string[];
  readonly body?: Buffer | object;
  readonly stream?: boolean;
  readonly approval?: Approval;
  readonly keyChecked?: boolean;
  /** To what the request can be translated; default null, nothing. */
  readonly translation?: Translation | null;
  readonly usage?: UsageWatch;
  /** Default 1. */
  readonly choices?: number;
  /** Default `taught`. */
  readonly unknownPath?: RequestForm['unknownPath'];
  /** Default: a `TestDownstream`. */
  readonly client?: Downstream;
}

/** One request, and what has been recorded of it. */
export interface Run {
  readonly downstream: TestDownstream;
  /** Verdict and failure of every attempt, with the index of its CRN. */
  readonly attempts: [crn: number, verdict: Verdict, failure: Failure | null][];
  /** When the first piece of a stream was handed to the client, and the seconds between all pieces. */
  streamMs: number;
  readonly gaps: number[];
  /** The gateway's own error, when that was the answer. */
  error: HeadraceError | null;
  /** Resolves once this many attempts have ended. */
  attempted(count: number): Promise<void>;
}

/** Start of the manual clock, beyond every slow start. */
const START_MS = 1_000_000;

export class Bench {
  readonly clock: ManualClock = createManualClock(START_MS);
  readonly board: Board;
  readonly budget: RetryBudget;
  readonly members: Member[];
  readonly pools: Map<string, ConnectionPool> = new Map();
  readonly #memory: BoardMemory;
  readonly #options: BenchOptions;
  readonly #deps: FailoverDeps;

  constructor(t: Test, options: BenchOptions) {
    const { urls, apiKey, maxConnections = 100, standing = 'up' } = options;
    this.#options = options;
    const memory = createBoardMemory(urls.length, urls.length, 1);
    this.#memory = memory;
    this.board = new Board(memory, 0);
    this.budget = new RetryBudget(memory, 0, { ratio: 0, burst: options.burst ?? 100 });
    this.members = urls.map((url, at) => ({
      url,
      server: at,
      member: at,
      hash: hashText(url),
      apiKey,
      weight: 1,
      dialects: 0,
    }));
    for (const { member } of this.members) this.board.setStanding(member, STANDING[standing], 0);
    for (const url of urls)
      this.pools.set(
        url,
        new ConnectionPool(new URL(url).origin, { maxConnections, keepAliveMs: 60_000, clock: this.clock }),
      );
    this.#deps = {
      board: this.board,
      deadlines: new DeadlineQueue(this.clock, 1),
      timeouts: { connectMs: 1000, headersMs: 5000, firstByteMs: null, idleMs: 3000, ...options.timeouts },
      clock: this.clock,
      pool: (member) => this.pools.get(member.url) as ConnectionPool,
      relay: { keepAliveMs: null, ...options.relay },
      heldEventBytes: 64 * 1024,
      running: new RunningAttempts(this.board, this.clock),
      hedging: options.hedging ?? null,
      continuation: options.continuation ?? 'off',
    };
    t.teardown(() => {
      for (const pool of this.pools.values()) pool.close();
    });
  }

  /** Requests in flight on all CRNs, as the board counts them. */
  get inFlight(): number {
    return this.members.reduce((sum, { server }) => sum + this.board.inFlight(server), 0);
  }

  /** Declares the dialects of a CRN: bits of `DIALECT_BITS`. */
  declare(crn: number, dialects: number): void {
    this.members[crn] = { ...(this.members[crn] as Member), dialects };
  }

  ask(ask: Ask = {}): Run {
    const { path = '/v1/chat/completions', stream = true } = ask;
    const downstream = new TestDownstream();
    const client = ask.client ?? downstream;
    const waiting: { count: number; resolve: () => void }[] = [];
    const run: Run = {
      downstream,
      attempts: [],
      streamMs: 0,
      gaps: [],
      error: null,
      attempted: (count) =>
        run.attempts.length >= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count, resolve })),
    };
    const body = ask.body ?? { model: 'm', stream, messages: [{ role: 'user', content: 'hello' }] };
    const listener: UpstreamListener = {
      onAttempt: () => [],
      onOutcome: ({ failure, member, verdict }) => {
        run.attempts.push([member.server, verdict as Verdict, failure]);
        for (const entry of waiting) if (entry.count === run.attempts.length) entry.resolve();
      },
      onAnswer: ({ begunMs, member, number, sentMs }: Attempt, into) => {
        const waitedMs = sentMs === 0 ? Number.NaN : (begunMs || this.clock.now()) - sentMs;
        into.push('x-served-by', member.url, 'x-attempts', String(number), 'x-waited', String(waitedMs));
      },
      onFirstPiece: (nowMs) => {
        run.streamMs = nowMs;
      },
      onFailed: (error) => {
        run.error = error;
        client.start(error.status, error.headers, 0);
        client.end();
      },
    };
    const { translation = null } = ask;
    let translated: RequestForm | null = null;
    const request: UpstreamRequest & { untranslatable: HeadraceError | null } = {
      usage: ask.usage ?? null,
      approval: ask.approval ?? null,
      keyChecked: ask.keyChecked ?? false,
      model: 'm',
      account: 'acme',
      translator: null,
      unknownPath: ask.unknownPath ?? 'taught',
      untranslatable: null,
      translated: () => {
        try {
          if (translation !== null && request.untranslatable === null)
            translated ??= translatedForm(request, translation);
        } catch (error) {
          request.untranslatable = error as HeadraceError;
        }
        return translated;
      },
      path: path + (ask.query ?? ''),
      lines: requestLines(RULES, {
        headers: ask.headers ?? [],
        remoteAddress: '',
        requestId: 'id-1',
        credential: '',
        readable: stream,
      }),
      body: Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)),
      stream,
      dialect: dialectOf(path),
      choices: ask.choices ?? 1,
      candidates: this.#candidates({
        ...NO_HINT,
        dialectBit: dialectOf(path)?.bit ?? 0,
        translatedBit: translation?.to.bit ?? 0,
        get isUntranslatable() {
          return request.untranslatable !== null;
        },
      }),
      budget: this.budget,
      gaps: { observe: (seconds) => run.gaps.push(seconds) },
      listener,
    };
    new Failover(this.#deps, request, client).start();
    return run;
  }

  #candidates(hint: AffinityHint): Candidates {
    const left = [...this.members];
    // In the order of the test instead of the picker's.
    class InOrder extends Candidates {
      protected override choose(_: PromptHashes, nowMs: number): Member | undefined {
        const at = left.findIndex((member) => this.formOf(member, nowMs) !== 'none');
        return at < 0 ? undefined : left.splice(at, 1)[0];
      }
    }
    const model = { id: 'm', members: this.members, budget: 0 };
    const deps = pickerDeps(this.board, this.#memory, () => this.clock.now());
    const candidates = new InOrder(model, deps, PICKER, hint);
    candidates.admitted = this.#options.standing !== 'down';
    candidates.lastResort = this.#options.standing === 'down';
    return candidates;
  }
}
