// A gateway as far as limits are concerned: the limit table, the manager of slices and requests that wait, on a manual clock and an
// engine in memory, with a clock of its own, lag and outages under the control of a test.

import type { ManualClock } from '../../src/actor/index.ts';
import type { SliceNotice, SliceStore } from '../../src/billing/index.ts';
import { SliceManager } from '../../src/billing/main-thread.ts';
import type { Budget } from '../../src/billing/limits/budgets.ts';
import {
  type Exceeded,
  KeyLimiter,
  type LimitReservation,
  type RequestBound,
} from '../../src/billing/limits/key-limiter.ts';
import { createLimitMemory, LimitTable, type SliceUse } from '../../src/billing/limits/limit-table.ts';
import type { Ref } from '../../src/actor/index.ts';
import { advance } from './advance.ts';
import type { LimitEngine } from './limit-engine.ts';

export interface KeyBoundsOf {
  readonly runningRequests: number | undefined;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
}

/** What gateways of a test have in common. */
export class LimitNetwork {
  readonly clock: ManualClock;
  readonly engine: LimitEngine;
  /** The clock of the engine at the zero of the manual one. */
  readonly engineEpochMs: number;
  /** From a gateway to the engine, and back. */
  lagMs = 1;
  running = true;
  readonly gateways: LimitGateway[] = [];
  /** Claims in all calls. */
  claims = 0;

  constructor(clock: ManualClock, engine: LimitEngine, engineEpochMs: number) {
    this.clock = clock;
    this.engine = engine;
    this.engineEpochMs = engineEpochMs;
  }

  get engineNowMs(): number {
    return this.engineEpochMs + this.clock.now();
  }

  stop(): void {
    this.running = false;
    for (const gateway of this.gateways) gateway.manager.lose('the engine is away');
  }

  start(): void {
    this.running = true;
    this.engine.clear();
    for (const gateway of this.gateways) if (gateway.isAlive) gateway.connect();
  }

  advance(ms: number): Promise<void> {
    return advance(this.clock, ms);
  }
}

export type Admission = LimitReservation | Exceeded;

const LINEAGE = 'key_a';
const PAYER = { account: 'a', lineage: LINEAGE };
const MODEL = 'm';

export class LimitGateway {
  readonly manager: SliceManager;
  isAlive = true;
  /** Its clock is so far from the engine's. */
  skewMs: number;
  readonly name: string;
  readonly #network: LimitNetwork;
  readonly #bounds: KeyBoundsOf;
  readonly #limiter: KeyLimiter;
  readonly #waiting = new Map<number, (use: SliceUse) => void>();
  readonly #store: SliceStore;
  readonly table: LimitTable;
  #count = 0;
  /** Requests that have waited. */
  waits = 0;

  constructor(network: LimitNetwork, name: string, bounds: KeyBoundsOf, skewMs: number, budget: Budget | null = null) {
    this.#network = network;
    this.name = name;
    this.#bounds = bounds;
    this.skewMs = skewMs;
    const memory = createLimitMemory(2, 1);
    this.table = new LimitTable(memory, 0);
    this.manager = new SliceManager({
      table: this.table,
      clock: network.clock,
      epochMs: () => this.epochMs,
      onState: () => undefined,
    });
    this.#limiter = new KeyLimiter(memory, 1, (kind, cell) => this.manager.receive({ type: 'Refill', kind, cell }));
    const replyTo = { tell: (notice: SliceNotice) => this.#told(notice) } as unknown as Ref<SliceNotice>;
    this.manager.receive({ type: 'Join', thread: 1, replyTo });
    const { requestsPerMinute = -1, runningRequests = -1, tokensPerMinute = -1 } = bounds;
    this.manager.putKey(LINEAGE, { index: 0, generation: 1 }, [runningRequests, requestsPerMinute, tokensPerMinute]);
    if (budget !== null) {
      this.manager.putBudget(budget);
      this.#limiter.updateBudgets({ reset: true, put: [budget], drop: [] });
    }
    this.#store = {
      exchange: async (claims) => {
        const { clock, engine } = network;
        if (!network.running) throw new Error('the engine is away');
        await this.#lag();
        if (!network.running) throw new Error('the engine is away');
        network.claims += claims.length;
        const grants = engine.exchange(name, claims, Math.floor(network.engineEpochMs + clock.now()));
        await this.#lag();
        return grants;
      },
      recall: (ids) => {
        clockRecall(network, this, ids);
      },
    };
    network.gateways.push(this);
    if (network.running) this.connect();
  }

  get epochMs(): number {
    return this.#network.engineNowMs + this.skewMs;
  }

  connect(): void {
    this.manager.share(this.#store);
  }

  /** Ends without a word. */
  kill(): void {
    this.isAlive = false;
    this.manager.share(null);
  }

  /** `done` hears what became of the request, now or within 50 ms. */
  request(bound: RequestBound, done: (admission: Admission) => void): void {
    const payer = { ...PAYER, allowance: { cell: { index: 0, generation: 1 }, ...this.#bounds } };
    const admitted = this.#limiter.admit(payer, MODEL, bound, this.epochMs);
    if (admitted.kind !== 'slice') {
      done(admitted);
      return;
    }
    this.waits++;
    const id = ++this.#count;
    this.#waiting.set(id, (use) => {
      const second = this.#limiter.admit(payer, MODEL, bound, this.epochMs, use);
      if (second.kind === 'slice') throw new Error('a request that has waited needs a slice');
      done(second);
    });
    const need = this.#limiter.needOf(payer, MODEL, bound, this.epochMs);
    this.manager.receive({ type: 'Wait', thread: 1, id, need });
  }

  settle(reservation: LimitReservation, tokens: number, amount: number): void {
    const payer = { ...PAYER, allowance: { cell: { index: 0, generation: 1 }, ...this.#bounds } };
    this.#limiter.settle(reservation, payer, MODEL, tokens, amount, this.epochMs);
  }

  #told({ id, use }: SliceNotice): void {
    if (!this.isAlive) return;
    const go = this.#waiting.get(id);
    this.#waiting.delete(id);
    go?.(use);
  }

  #lag(): Promise<void> {
    return new Promise((resolve) => void this.#network.clock.setTimeout(resolve, this.#network.lagMs));
  }
}

function clockRecall(network: LimitNetwork, from: LimitGateway, ids: readonly string[]): void {
  network.clock.setTimeout(() => {
    if (!network.running) return;
    for (const gateway of network.gateways) if (gateway !== from && gateway.isAlive) gateway.manager.recall(ids);
  }, 2 * network.lagMs);
}
