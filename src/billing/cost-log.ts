// Records of finished requests on their way into the store: gathered in each ingress thread, sent in batches to one actor of the
// control plane, written there in one transaction per round. What does not fit is dropped and counted; no request waits for it.

import type { Behavior, Clock, Context, Ref, TimerHandle } from '../actor/index.ts';
import type { LedgerMetrics } from '../telemetry/ledger-metrics.ts';
import { RecurringProblem } from '../telemetry/recurring-problem.ts';
import { type RequestRecord, requestRecordId } from './ledger/request-records.ts';
import type { Ledger } from './ledger/ledger.ts';

/** A record without its id, which the control plane gives, and with its amount as a number. */
export type FinishedRecord = Omit<RequestRecord, 'id' | 'amount'> & {
  /** Pico-USD. */
  readonly cost: number;
};

export type CostLogCommand =
  | { readonly type: 'Record'; readonly records: readonly FinishedRecord[] }
  | { readonly type: 'Configure'; readonly settings: CostLogSettings }
  | { readonly type: 'Write' }
  | { readonly type: 'Prune' }
  /** Answered when what has arrived is written or given up. */
  | { readonly type: 'Flush'; readonly replyTo: Ref<'flushed'> };

export interface CostLogSettings {
  readonly retentionMs: number;
  /** Most records that are kept. */
  readonly rows: number;
}

export interface CostLogDeps {
  /** Null while it is opening. */
  readonly ledger: () => Ledger | null;
  readonly settings: CostLogSettings;
  /** Tells the ids of this process from those of others. */
  readonly tag: string;
  readonly metrics: Pick<LedgerMetrics, 'recordsDropped'>;
  readonly onProblem: (error: unknown, what: string) => void;
  /** A problem that happened again and again is over. */
  readonly onOver?: (what: string) => void;
}

/** Interval between two batches of a thread, and between two writes. */
const FLUSH_MS = 500;

/** Records that a thread sends at once, and that it keeps at most while the control plane is busy. */
const BATCH = 500;

/** Records that wait while the store is away: some 20 MB. */
const MAX_WAITING = 50_000;

/** Records of one transaction. */
const WRITE_ROWS = 2000;

const RETRY_MS = 2000;

/** Interval at which old records are removed. */
const PRUNE_MS = 60_000;

/** Every so many of these intervals the records are counted, which walks over an index of all of them. */
const COUNT_EVERY = 10;

/** The records of one ingress thread. */
export class CostLogClient {
  readonly #log: Ref<CostLogCommand>;
  readonly #clock: Clock;
  #records: FinishedRecord[] = [];
  #timer: TimerHandle | null = null;

  constructor(log: Ref<CostLogCommand>, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  add(record: FinishedRecord): void {
    this.#records.push(record);
    if (this.#records.length >= BATCH) this.flush();
    else this.#timer ??= this.#clock.setTimeout(this.#due, FLUSH_MS);
  }

  /** Sends what has been gathered. */
  flush(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#records.length === 0) return;
    this.#log.tell({ type: 'Record', records: this.#records });
    this.#records = [];
  }

  readonly #due = (): void => {
    this.#timer = null;
    this.flush();
  };
}

export function costLog(deps: CostLogDeps): Behavior<CostLogCommand> {
  return (context) => new CostLog(deps, context);
}

class CostLog {
  readonly #deps: CostLogDeps;
  readonly #context: Context<CostLogCommand>;
  readonly #writes: RecurringProblem;
  #settings: CostLogSettings;
  #waiting: RequestRecord[] = [];
  #writing: Promise<void> | null = null;
  #count = 0;
  #rounds = 0;

  constructor(deps: CostLogDeps, context: Context<CostLogCommand>) {
    this.#deps = deps;
    this.#context = context;
    this.#settings = deps.settings;
    this.#writes = new RecurringProblem('requests could not be recorded; it is tried again', {
      clock: () => context.clock,
      onProblem: deps.onProblem,
      onOver: deps.onOver,
    });
    context.timers.once('prune', PRUNE_MS, { type: 'Prune' });
  }

  receive(command: CostLogCommand): void {
    switch (command.type) {
      case 'Record':
        this.#add(command.records);
        break;
      case 'Configure':
        this.#settings = command.settings;
        break;
      case 'Write':
        this.#write();
        break;
      case 'Prune':
        this.#context.timers.once('prune', PRUNE_MS, { type: 'Prune' });
        this.#prune();
        break;
      case 'Flush':
        void this.#flush().then(() => command.replyTo.tell('flushed'));
        break;
    }
  }

  #add(records: readonly FinishedRecord[]): void {
    for (const { cost, ...record } of records) {
      if (this.#waiting.length >= MAX_WAITING) {
        this.#deps.metrics.recordsDropped();
        continue;
      }
      const id = requestRecordId(record.dateMs, this.#deps.tag, this.#count++);
      this.#waiting.push({ ...record, id, amount: BigInt(Math.ceil(cost)) });
    }
    this.#write();
  }

  #write(): void {
    const ledger = this.#deps.ledger();
    if (this.#writing !== null || this.#waiting.length === 0) return;
    if (ledger === null) {
      this.#context.timers.once('write', RETRY_MS, { type: 'Write' });
      return;
    }
    const batch = this.#waiting.slice(0, WRITE_ROWS);
    this.#writing = ledger.requests.add(batch).then(
      () => {
        this.#writes.succeeded();
        this.#waiting = this.#waiting.slice(batch.length);
        this.#writing = null;
        if (this.#waiting.length > 0) this.#context.self.tell({ type: 'Write' });
      },
      (error: unknown) => {
        this.#writing = null;
        this.#writes.failed(error);
        this.#context.timers.once('write', RETRY_MS, { type: 'Write' });
      },
    );
  }

  /** Ends when nothing waits, or when the store takes nothing more. */
  async #flush(): Promise<void> {
    for (let before = Infinity; this.#waiting.length > 0 && this.#waiting.length < before;) {
      before = this.#waiting.length;
      this.#write();
      await this.#writing;
    }
    if (this.#waiting.length > 0) {
      this.#deps.onProblem(new Error(`${this.#waiting.length} of them`), 'records of requests are lost');
    }
  }

  #prune(): void {
    const { rows, retentionMs } = this.#settings;
    const counts = this.#rounds++ % COUNT_EVERY === 0;
    const ledger = this.#deps.ledger();
    const pruned = ledger?.requests.prune(ledger.dateMs() - retentionMs, counts ? rows : null);
    pruned?.catch((error: unknown) => this.#deps.onProblem(error, 'old records of requests could not be removed'));
  }
}
