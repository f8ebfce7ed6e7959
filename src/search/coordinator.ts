// The search coordinator: races the engines of one search until all have reported or the deadline comes. At the deadline the engines
// are cut off and give the hits they have. From the soft deadline on, half of the engines are enough: the search is answered, and the
// slow engines go on for the cache and for their standing. Each engine has one report; after `abort` none is passed on.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { EngineCall, EngineReport, ReportListener } from './engine-client.ts';
import type { EngineQuery } from './engine.ts';
import type { SearchQuery } from './query.ts';
import type { SearchTrace } from './search-trace.ts';

/** How long engines have at the deadline to give up what they hold: they take no time, unless one is stuck. */
const GRACE_MS = 20;

type Call = Pick<EngineCall, 'cancel' | 'collected' | 'late'>;

export interface CoordinatorOptions {
  readonly query: SearchQuery;
  /** Whose search it is. */
  readonly account: string;
  /** Engine clients by id. */
  readonly engines: ReadonlyMap<
    string,
    { search(query: EngineQuery, deadlineMs: number, listener: ReportListener, account: string): Call }
  >;
  readonly clock: Clock;
  /** When the engines are cut off: counted from the acceptance of the search. */
  readonly deadlineMs: number;
  /** When half of the engines are enough; Infinity: never. */
  readonly softDeadlineMs: number;
  /** Whether what comes after the answer is of use. */
  readonly keepsLate: boolean;
  /** Hears when each engine reports. */
  readonly trace?: SearchTrace | undefined;
  /** Hears of each report before the search is answered, with those of all engines in the order of the request; null: none yet. */
  readonly onReport?: (report: EngineReport, reports: readonly (EngineReport | null)[]) => void;
  /** Hears the reports once, in the order of the request, at the latest 20 ms after the deadline. */
  readonly onDone: (reports: readonly EngineReport[]) => void;
  /** Called once, when no engine is at work any more: with all reports, or null when they were not waited for. */
  readonly onEnd: (reports: readonly EngineReport[] | null) => void;
}

export class Coordinator implements ReportListener {
  readonly #options: CoordinatorOptions;
  /** In the order of the request, as the calls. */
  readonly #reports: (EngineReport | null)[];
  readonly #calls: (Call | null)[];
  #unreported: number;
  #timer: TimerHandle | null = null;
  #isSoft = false;
  #answered = false;
  #ended = false;
  #startedMs = 0;

  /** `onDone` may be called before `start` has returned. */
  constructor(options: CoordinatorOptions) {
    this.#options = options;
    const { length } = options.query.engines;
    this.#reports = new Array<null>(length).fill(null);
    this.#calls = new Array<null>(length).fill(null);
    this.#unreported = length;
  }

  /** Asks all engines at once. */
  start(): void {
    const { account, clock, deadlineMs, engines, query, softDeadlineMs } = this.#options;
    const { engines: asked, ...engineQuery } = query;
    const nowMs = clock.now();
    this.#startedMs = nowMs;
    this.#timer =
      softDeadlineMs < deadlineMs
        ? clock.setTimeout(() => this.#soften(), softDeadlineMs - nowMs)
        : clock.setTimeout(() => this.#expire(), deadlineMs - nowMs);
    for (let at = 0; at < asked.length; at++) {
      const id = asked[at] as string;
      const engine = engines.get(id);
      if (engine === undefined) this.onReport({ engine: id, reason: 'not configured' });
      else this.#calls[at] = engine.search(engineQuery, deadlineMs, this, account);
    }
  }

  onReport(report: EngineReport): void {
    if (this.#ended) return;
    const { clock, onReport, query, trace } = this.#options;
    this.#reports[query.engines.indexOf(report.engine)] = report;
    this.#unreported--;
    trace?.reported(report, clock.now() - this.#startedMs);
    if (!this.#answered) onReport?.(report, this.#reports);
    if (this.#unreported === 0) this.#finish();
    else if (this.#isSoft) this.#answerEarly();
  }

  onPage(): void {
    if (!this.#ended && this.#isSoft) this.#answerEarly();
  }

  /** The last client has left: cancels the engines and reports nothing. */
  abort(): void {
    if (this.#ended) return;
    this.#end(null);
    this.#cancel('cancelled');
  }

  /** Finishes at once with the reports there are, and cancels the engines. */
  close(): void {
    if (this.#ended) return;
    this.#finish();
    this.#cancel('cancelled');
  }

  #soften(): void {
    const { clock, deadlineMs } = this.#options;
    this.#isSoft = true;
    this.#timer = clock.setTimeout(() => this.#expire(), deadlineMs - clock.now());
    this.#answerEarly();
  }

  /** Answers when at least half of the engines that have not failed have hits; those without are slow. */
  #answerEarly(): void {
    if (this.#answered) return;
    const { keepsLate, onDone, query } = this.#options;
    const reports: EngineReport[] = [];
    let answered = 0;
    let slow = 0;
    for (const [at, engine] of query.engines.entries()) {
      const report = this.#reports[at] ?? this.#calls[at]?.collected ?? null;
      reports.push(report ?? { engine, reason: 'slow' });
      if (report === null) slow++;
      else if ('hits' in report) answered++;
    }
    if (answered === 0 || answered < slow) return;
    this.#answered = true;
    onDone(reports);
    // May report, and end the search.
    for (const [at, call] of this.#calls.entries()) if (this.#reports[at] === null) call?.late(keepsLate);
  }

  #expire(): void {
    const { clock } = this.#options;
    this.#cancel('timeout');
    if (!this.#ended) this.#timer = clock.setTimeout(() => this.#finish(), GRACE_MS);
  }

  #cancel(reason: 'timeout' | 'cancelled'): void {
    for (const call of this.#calls) call?.cancel(reason);
  }

  #finish(): void {
    const { onDone, query } = this.#options;
    const reports = query.engines.map((engine, at) => this.#reports[at] ?? { engine, reason: 'timeout' });
    const isFirst = !this.#answered;
    this.#answered = true;
    if (isFirst) onDone(reports);
    this.#end(isFirst ? null : reports);
  }

  #end(late: readonly EngineReport[] | null): void {
    this.#ended = true;
    if (this.#timer !== null) this.#options.clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#options.onEnd(late);
  }
}
