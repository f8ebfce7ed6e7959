// Results over time: counts and sums per second, or per 2, 4, 8 … seconds of a long run, so that the size is bounded.
// Confidence intervals are computed from it.
import type { Sample } from './sample.ts';

/** What ended in one stretch of the run. */
export interface Stretch {
  /** Its beginning, from the start of the run. */
  readonly fromMs: number;
  ok: number;
  errors: number;
  outputTokens: number;
  /** Of what went well, those with output of the model in a stream. */
  texts: number;
  /** Sums over these, and over what went well. */
  ttftMs: number;
  e2eMs: number;
}

/** Most stretches; when there would be more, neighbours become one. */
const MOST = 600;

/** Stretches of a run that means are made from for an interval. */
const BATCHES = 10;
/** Quantile 0.975 of Student's t with 9 degrees of freedom: ten batches. */
const T_BATCHES = 2.262;

/** Half the width of a 95 % interval around a mean, from the means of ten parts of the run; undefined when it is too short. */
export interface Confidence {
  readonly requestsPerSecond: number;
  readonly ttftMeanMs: number | undefined;
  readonly e2eMeanMs: number;
}

export class Series {
  #widthMs = 1000;
  #stretches: Stretch[] = [];

  get widthMs(): number {
    return this.#widthMs;
  }

  get stretches(): readonly Stretch[] {
    return this.#stretches;
  }

  /** Counts a request where it ended. */
  add(sample: Sample): void {
    const stretch = this.#at(Math.max(sample.intendedMs + sample.e2eMs, 0));
    if (sample.outcome !== 'ok') {
      stretch.errors++;
      return;
    }
    stretch.ok++;
    stretch.outputTokens += sample.outputTokens;
    stretch.e2eMs += sample.e2eMs;
    if (Number.isNaN(sample.ttftMs)) return;
    stretch.texts++;
    stretch.ttftMs += sample.ttftMs;
  }

  /** Between these two times; undefined when that is less than two stretches to a batch, or one batch had no answer. */
  confidence(fromMs: number, toMs: number): Confidence | undefined {
    const first = Math.ceil(fromMs / this.#widthMs);
    const size = Math.floor((Math.floor(toMs / this.#widthMs) - first) / BATCHES);
    if (size < 2) return undefined;
    const batches = Array.from({ length: BATCHES }, (_, at) => {
      const start = first + at * size;
      return merged(this.#stretches.slice(start, start + size));
    });
    if (batches.some(({ ok }) => ok === 0)) return undefined;
    const seconds = (size * this.#widthMs) / 1000;
    const streams = batches.every(({ texts }) => texts > 0);
    return {
      requestsPerSecond: halfWidth(batches.map(({ ok }) => ok / seconds)),
      ttftMeanMs: streams ? halfWidth(batches.map(({ ttftMs, texts }) => ttftMs / texts)) : undefined,
      e2eMeanMs: halfWidth(batches.map(({ e2eMs, ok }) => e2eMs / ok)),
    };
  }

  #at(atMs: number): Stretch {
    while (atMs >= MOST * this.#widthMs) this.#halve();
    const index = Math.floor(atMs / this.#widthMs);
    while (this.#stretches.length <= index) this.#stretches.push(empty(this.#stretches.length * this.#widthMs));
    return this.#stretches[index] as Stretch;
  }

  #halve(): void {
    this.#widthMs *= 2;
    const pairs = Math.ceil(this.#stretches.length / 2);
    this.#stretches = Array.from({ length: pairs }, (_, at) => merged(this.#stretches.slice(2 * at, 2 * at + 2)));
  }
}

function empty(fromMs: number): Stretch {
  return { fromMs, ok: 0, errors: 0, outputTokens: 0, texts: 0, ttftMs: 0, e2eMs: 0 };
}

function merged(parts: readonly Stretch[]): Stretch {
  const all = empty(parts[0]?.fromMs ?? 0);
  for (const part of parts) {
    for (const name of ['ok', 'errors', 'outputTokens', 'texts', 'ttftMs', 'e2eMs'] as const) all[name] += part[name];
  }
  return all;
}

function halfWidth(means: readonly number[]): number {
  const mean = means.reduce((sum, one) => sum + one, 0) / means.length;
  const variance = means.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (means.length - 1);
  return T_BATCHES * Math.sqrt(variance / means.length);
}
