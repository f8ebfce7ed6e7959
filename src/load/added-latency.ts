// Latency added between client and engine, from the engine's own timings of each request (`x-headrace-truth`): before the
// first token, between tokens, and each way. The first two are differences of durations and need no common clock; for the
// ways, the possible offset of the clocks is reported.
import { membersOf, parsedJson } from '../net/json-object.ts';
import { type HistogramSummary, Histogram } from './histogram.ts';
import type { LoadResponse } from './load-client.ts';

/** What is read of the engine's account, in microseconds of its clock. */
interface EngineTimings {
  readonly arrivedUs: number;
  readonly startedUs: number;
  readonly handedUs: readonly number[];
}

/** What the accounts come to; all in milliseconds. */
export interface AddedLatencyReport {
  /** Requests whose account came. */
  readonly requests: number;
  /** Requests of these whose tokens had not one text each, as those of a character in several tokens: their gaps are left out. */
  readonly unmatched: number;
  /** The engine's own: how long requests waited in it, and the time to the first token from their arrival. */
  readonly engineQueue: HistogramSummary;
  readonly engineTtft: HistogramSummary;
  /** Time to first text seen here, from sending, less that of the engine. */
  readonly addedTtft: HistogramSummary;
  /** Each gap between texts seen here, less that between the same tokens; around zero, as what is late once is early next. */
  readonly addedGap: HistogramSummary;
  /** Each token: how much later than the fastest one of the run it came over. */
  readonly tokenDelay: HistogramSummary;
  /** From sending to arrival at the engine, and from the first token to its text here, as the clocks say. */
  readonly requestWay: HistogramSummary;
  readonly answerWay: HistogramSummary;
  /** How much the engine's clock can be ahead of ours at least and at most; the ways are off by what it really is. */
  readonly clock: { readonly leastMs: number; readonly mostMs: number; readonly sped: number };
}

/** Clocks that differ by less than this share run at the same speed. */
const SAME_SPEED = 1e-6;

export class AddedLatency {
  #requests = 0;
  #unmatched = 0;
  #sped = 1;
  readonly #engineQueue = new Histogram();
  readonly #engineTtft = new Histogram();
  readonly #addedTtft = new Histogram();
  readonly #addedGap = new Histogram();
  /** With the offset of the clocks in it, which is the same for all: taken off in the end. */
  readonly #tokenWays = new Histogram();
  readonly #requestWay = new Histogram();
  readonly #answerWay = new Histogram();

  /** Takes the account of an answer; without one, or with one that cannot be read, nothing. */
  add(answer: LoadResponse): void {
    const timings = answer.serverTimings === undefined ? undefined : readTimings(answer.serverTimings);
    const [firstTextMs] = answer.textMs;
    const handedUs = timings?.handedUs[0];
    if (timings === undefined || firstTextMs === undefined || handedUs === undefined) return;
    // A host may run faster than real time: its clock starts at the same zero, so one reading gives the factor.
    const ratio = timings.arrivedUs / 1000 / answer.sentMs;
    const sped = Math.abs(ratio - 1) < SAME_SPEED ? 1 : Math.round(ratio * 1e5) / 1e5;
    this.#sped = sped;
    const realMs = (us: number): number => us / 1000 / sped;
    this.#requests++;
    const engineTtftMs = realMs(handedUs - timings.arrivedUs);
    this.#engineQueue.record(realMs(timings.startedUs - timings.arrivedUs));
    this.#engineTtft.record(engineTtftMs);
    this.#addedTtft.record(firstTextMs - answer.sentMs - engineTtftMs);
    this.#requestWay.record(realMs(timings.arrivedUs) - answer.sentMs);
    this.#answerWay.record(firstTextMs - realMs(handedUs));
    this.#addTokens(answer.textMs, timings.handedUs.map(realMs));
  }

  #addTokens(textMs: readonly number[], handedMs: readonly number[]): void {
    // The token that ends an answer has no text of its own.
    const surplus = handedMs.length - textMs.length;
    if (surplus !== 0 && surplus !== 1) {
      this.#unmatched++;
      return;
    }
    let beforeMs = NaN;
    textMs.forEach((atMs, at) => {
      const wayMs = atMs - (handedMs[at] as number);
      this.#tokenWays.record(wayMs);
      this.#addedGap.record(wayMs - beforeMs);
      beforeMs = wayMs;
    });
  }

  /** Undefined when no account came. */
  report(): AddedLatencyReport | undefined {
    if (this.#requests === 0) return undefined;
    const requestWay = this.#requestWay.distribution();
    const answerWay = this.#answerWay.distribution();
    return {
      requests: this.#requests,
      unmatched: this.#unmatched,
      engineQueue: this.#engineQueue.distribution(),
      engineTtft: this.#engineTtft.distribution(),
      addedTtft: this.#addedTtft.distribution(),
      addedGap: this.#addedGap.distribution(),
      tokenDelay: shifted(this.#tokenWays.distribution()),
      requestWay,
      answerWay,
      // Neither way can take less than nothing.
      clock: { leastMs: -answerWay.min, mostMs: requestWay.min, sped: this.#sped },
    };
  }
}

/** Counted from the least. */
function shifted(all: HistogramSummary): HistogramSummary {
  const { count, min } = all;
  const less = (value: number): number => Math.max(value - min, 0);
  return {
    count,
    mean: less(all.mean),
    min: 0,
    ...{ p50: less(all.p50), p90: less(all.p90), p95: less(all.p95), p99: less(all.p99), p999: less(all.p999) },
    max: less(all.max),
  };
}

function readTimings(text: string): EngineTimings | undefined {
  const timings: Partial<EngineTimings> = membersOf(parsedJson(text));
  const { arrivedUs, startedUs, handedUs } = timings;
  const isWhole = Number.isFinite(arrivedUs) && Number.isFinite(startedUs) && Array.isArray(handedUs);
  return isWhole ? (timings as EngineTimings) : undefined;
}
