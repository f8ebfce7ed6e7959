// Aggregates the samples of a run in bounded memory.
import { AddedLatency } from './added-latency.ts';
import { Histogram } from './histogram.ts';
import type { LoadResponse } from './load-client.ts';
import { type Limits, meets } from './load-limits.ts';
import type { Sample } from './sample.ts';
import { Series } from './time-series.ts';
/** What is measured of the requests that went well. */
export type Measure = 'e2e' | 'service' | 'head' | 'ttfe' | 'ttft' | 'itl' | 'tpot';

/** Most different words for what went wrong. */
const MOST_OUTCOMES = 64;

export class Recorder {
  ok = 0;
  errors = 0;
  /** Within all limits. */
  good = 0;
  promptTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  bytes = 0;
  /** Requests whose tokens the server counted. */
  counted = 0;
  readonly outcomes: Map<string, number> = new Map();
  readonly measures: Readonly<Record<Measure, Histogram>> = {
    e2e: new Histogram(),
    service: new Histogram(),
    head: new Histogram(),
    ttfe: new Histogram(),
    ttft: new Histogram(),
    itl: new Histogram(),
    tpot: new Histogram(),
  };
  /** How much later than they should requests left. */
  readonly lateness: Histogram = new Histogram();
  /** From a request's sending to its failure. */
  readonly failing: Histogram = new Histogram();
  readonly series: Series = new Series();
  readonly truth: AddedLatency = new AddedLatency();
  readonly #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get requests(): number {
    return this.ok + this.errors;
  }

  add(sample: Sample, answer: LoadResponse): void {
    this.lateness.record(sample.lateMs);
    this.series.add(sample);
    this.bytes += sample.bytes;
    if (sample.outcome !== 'ok') {
      this.errors++;
      this.failing.record(sample.serviceMs);
      const known = this.outcomes.has(sample.outcome) || this.outcomes.size < MOST_OUTCOMES;
      const outcome = known ? sample.outcome : 'others';
      this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
      return;
    }
    this.ok++;
    if (meets(this.#limits, sample)) this.good++;
    this.#addTokens(sample, answer);
    this.#addTimes(sample);
    this.truth.add(answer);
  }

  #addTokens(sample: Sample, answer: LoadResponse): void {
    this.promptTokens += sample.promptTokens ?? 0;
    this.cachedTokens += sample.cachedTokens ?? 0;
    this.outputTokens += sample.outputTokens;
    if (answer.outputTokens !== undefined) this.counted++;
  }

  #addTimes(sample: Sample): void {
    const { e2e, service, head, ttfe, ttft, itl, tpot } = this.measures;
    e2e.record(sample.e2eMs);
    service.record(sample.serviceMs);
    head.record(sample.headMs);
    ttfe.record(sample.ttfeMs);
    ttft.record(sample.ttftMs);
    tpot.record(sample.tpotMs);
    for (const gapMs of sample.gapsMs) itl.record(gapMs);
  }
}
