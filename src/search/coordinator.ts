// The search coordinator: races the engines of one search until all have reported or the deadline comes. At the deadline
// the engines are cut off and give the hits they have. Each engine has one report; after `abort` none is passed on.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { FlightWork } from '../net/answer-cache.ts';
import type { EngineCall, EngineReport, ReportListener } from './engine-client.ts';
import type { EngineQuery } from './engine.ts';
import type { SearchQuery } from './query.ts';

/** How long engines have at the deadline to give up what they hold: they take no time, unless one is stuck. */
const GRACE_MS = 20;

type Call = Pick<EngineCall, 'cancel'>;

export interface CoordinatorOptions {
  readonly query: SearchQuery;
  /** Engine clients by id. */
  readonly engines: ReadonlyMap<
    string,
    { search(query: EngineQuery, deadlineMs: number, listener: ReportListener): Call }
  >;
  readonly clock: Clock;
  /** When the engines are cut off: counted from the acceptance of the search. */
  readonly deadlineMs: number;
  /** Hears the reports once, in the order of the request, at the latest 20 ms after the deadline. */
  readonly onDone: (reports: readonly EngineReport[]) => void;
}

export class Coordinator implements FlightWork, ReportListener {
  readonly #options: CoordinatorOptions;
  readonly #reports = new Map<string, EngineReport>();
  readonly #calls: Call[] = [];
  #timer: TimerHandle | null = null;
  #ended = false;

  /** `onDone` may be called before `start` has returned. */
  constructor(options: CoordinatorOptions) {
    this.#options = options;
  }

  /** Asks all engines at once. */
  start(): void {
    const { clock, deadlineMs, engines, query } = this.#options;
    const { query: text, type, maxResults } = query;
    this.#timer = clock.setTimeout(() => this.#expire(), deadlineMs - clock.now());
    for (const id of query.engines) {
      const engine = engines.get(id);
      if (engine === undefined) this.onReport({ engine: id, reason: 'not configured' });
      else this.#calls.push(engine.search({ query: text, type, maxResults }, deadlineMs, this));
    }
  }

  onReport(report: EngineReport): void {
    if (this.#ended) return;
    this.#reports.set(report.engine, report);
    if (this.#reports.size === this.#options.query.engines.length) this.#finish();
  }

  /** The last client has left: cancels the engines and reports nothing. */
  abort(): void {
    this.#end();
    for (const call of this.#calls) call.cancel('cancelled');
  }

  /** Finishes at once with the reports there are, and cancels the engines. */
  close(): void {
    if (this.#ended) return;
    this.#finish();
    for (const call of this.#calls) call.cancel('cancelled');
  }

  #expire(): void {
    const { clock } = this.#options;
    for (const call of this.#calls) call.cancel('timeout');
    if (!this.#ended) this.#timer = clock.setTimeout(() => this.#finish(), GRACE_MS);
  }

  #finish(): void {
    this.#end();
    const { onDone, query } = this.#options;
    onDone(query.engines.map((engine) => this.#reports.get(engine) ?? { engine, reason: 'timeout' }));
  }

  #end(): void {
    this.#ended = true;
    if (this.#timer !== null) this.#options.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}
