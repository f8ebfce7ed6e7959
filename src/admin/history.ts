// The figures of the last day, kept in memory: an hour at steps of 5 s, a day at steps of a minute, of the gateway, of each model
// and of each CRN; and the figures of the last minute. Threads report counts since their start; a step has the differences.
// Quantiles come from the histograms of all threads for exactly the time of a step, and are never averaged.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { messageOf } from '../errors.ts';
import { BUCKETS, quantileOf } from '../telemetry/exponential-buckets.ts';
import type { Log } from '../telemetry/log.ts';
import { addCounts, trimCounts } from '../telemetry/series.ts';
import {
  CRN_COUNTS,
  MODEL_COUNTS,
  MODEL_HISTOGRAMS,
  type ModelTotals,
  type ThreadTotals,
} from '../telemetry/totals.ts';
import { HistoryPoints } from './history-points.ts';

const STEP_MS = 5000;
const STEPS_PER_MINUTE = 12;
const MINUTE_MS = STEP_MS * STEPS_PER_MINUTE;
const FINE_STEPS = 720;
const COARSE_STEPS = 1440;
const DAY_STEPS = COARSE_STEPS * STEPS_PER_MINUTE;

/** Models and CRNs that are kept, present ones and those of the last day. Beyond, who has been gone or idle for longest is forgotten. */
const MAX_MODELS = 512;
const MAX_CRNS = 2048;

/** What may be asked for. */
const RANGES = {
  '15m': { steps: 180, isFine: true },
  '1h': { steps: FINE_STEPS, isFine: true },
  '6h': { steps: 360, isFine: false },
  '24h': { steps: COARSE_STEPS, isFine: false },
} as const;

export type HistoryRange = keyof typeof RANGES;

export const HISTORY_RANGES = Object.keys(RANGES) as readonly HistoryRange[];

/** Answer of `GET /history`. Dates in milliseconds since 1970. */
export interface HistoryDocument {
  readonly range: HistoryRange;
  /** Time between two points. */
  readonly stepMs: number;
  /** Begin of the range; points begin later where the gateway has not run for so long. */
  readonly fromMs: number;
  /** End of the step of each point. A point of a minute that is not over ends with its last step of 5 s. */
  readonly dateMs: readonly number[];
  /** Values by point, by the names below: those of the gateway and of models, or those of CRNs. Null: nothing was measured. */
  readonly series: Readonly<Record<string, readonly (number | null)[]>>;
}

/** Series of the gateway and of models. Quantiles of the gateway are of requests that name a model. */
const MODEL_SERIES = [
  ...['requestsPerS', 'errorsPerS', 'abortedPerS'],
  ...['latencyP50Ms', 'latencyP95Ms', 'latencyP99Ms'],
  ...['firstByteP50Ms', 'firstByteP95Ms', 'firstByteP99Ms'],
  ...['gapP50Ms', 'gapP99Ms'],
  ...['inputTokensPerS', 'cachedTokensPerS', 'outputTokensPerS', 'cachedShare', 'usdPerHour'],
  ...['inFlight', 'waiting'],
] as const;

/** Series of CRNs. */
const CRN_SERIES = [
  ...['attemptsPerS', 'failuresPerS', 'inFlight', 'firstByteMs', 'predictedHit', 'reportedHit', 'backlogBytes'],
] as const;

/** Three quantiles in milliseconds; null without a measurement. */
export interface Quantiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/** Figures over the last minute, up to the moment of the document; shorter after the start. Null: nothing was measured. */
export interface RecentFigures {
  /** Time that the figures cover: 55 to 65 s. */
  readonly seconds: number;
  readonly requestsPerS: number;
  readonly errorsPerS: number;
  readonly abortedPerS: number;
  /** From the head of a request to the end of its answer. */
  readonly latencyMs: Quantiles;
  /** From the head of a request to the first piece of its stream. */
  readonly firstByteMs: Quantiles;
  /** Between two pieces of a stream. */
  readonly gapMs: Quantiles;
  readonly inputTokensPerS: number;
  /** Part of the input tokens. */
  readonly cachedTokensPerS: number;
  readonly outputTokensPerS: number;
  /** Share of the input tokens that came from caches, as CRNs report it; null without input. */
  readonly cachedShare: number | null;
  /** Share of the bytes of prompts that was expected in caches when CRNs were chosen; null without prompts. */
  readonly predictedShare: number | null;
  readonly usdPerHour: number;
}

/** What the control plane knows of a CRN at the end of a step. */
export interface CrnGauges {
  readonly crn: string;
  readonly inFlight: number;
  /** Peak-EWMA of the time to first byte, of the slowest model. */
  readonly firstByteMs: number;
  readonly backlogBytes: number;
}

/** Everything at the end of a step. */
export interface HistorySample {
  /** Threads that have answered. */
  readonly threads: readonly ThreadTotals[];
  /** Configured and found models. */
  readonly models: readonly string[];
  readonly crns: readonly CrnGauges[];
}

/** Counts, gauges and histograms of a span of time. */
class Sums {
  readonly counts: Float64Array;
  /** Sums over `steps`. */
  readonly gauges: Float64Array;
  readonly histograms: readonly Float64Array[];
  steps = 0;
  seconds = 0;

  constructor(counts: number, gauges: number, histograms: number) {
    this.counts = new Float64Array(counts);
    this.gauges = new Float64Array(gauges);
    this.histograms = Array.from({ length: histograms }, () => new Float64Array(BUCKETS));
  }

  /** Adds what happened in another span. */
  add({ counts, gauges, histograms, seconds, steps }: Sums): void {
    this.steps += steps;
    this.seconds += seconds;
    addAll(this.counts, counts);
    addAll(this.gauges, gauges);
    for (const [at, own] of this.histograms.entries()) addAll(own, histograms[at] as Float64Array);
  }

  clear(): void {
    this.counts.fill(0);
    this.gauges.fill(0);
    for (const histogram of this.histograms) histogram.fill(0);
    this.steps = 0;
    this.seconds = 0;
  }
}

function addAll(sums: Float64Array, values: Float64Array): void {
  for (let at = 0; at < sums.length; at++) sums[at] = (sums[at] as number) + (values[at] as number);
}

/** What a step of a model leaves for the figures of the last minute. */
interface RecentStep {
  readonly counts: Float64Array;
  readonly histograms: readonly ReturnType<typeof trimCounts>[];
}

/** The gateway, a model or a CRN. */
class Subject {
  /** The step that is not over, and the minute without it. */
  readonly step: Sums;
  readonly minute: Sums;
  readonly fine: HistoryPoints;
  readonly coarse: HistoryPoints;
  /** Of the last steps, the oldest first; models and the gateway only. */
  readonly recent: RecentStep[] = [];
  /** The first step, the last one in which it was there, and the last one in which anything was counted. */
  readonly firstStep: number;
  lastStep: number;
  busyStep = 0;
  /** Number of the minute that `minute` is of. */
  minuteNumber = 0;

  constructor(kind: Kind, step: number) {
    this.step = new Sums(kind.counts, kind.gauges, kind.histograms);
    this.minute = new Sums(kind.counts, kind.gauges, kind.histograms);
    this.fine = new HistoryPoints(FINE_STEPS, kind.idle);
    this.coarse = new HistoryPoints(COARSE_STEPS, kind.idle);
    this.firstStep = step;
    this.lastStep = step;
  }
}

/** How the sums of a span become the row of a point. */
interface Kind {
  readonly series: readonly string[];
  readonly counts: number;
  readonly gauges: number;
  readonly histograms: number;
  readonly idle: readonly (number | null)[];
  row(sums: Sums): readonly (number | null)[];
}

const MODEL_KIND: Kind = {
  series: MODEL_SERIES,
  counts: MODEL_COUNTS.length,
  /** In flight, waiting. */
  gauges: 2,
  histograms: MODEL_HISTOGRAMS.length,
  idle: modelRow(new Sums(MODEL_COUNTS.length, 2, MODEL_HISTOGRAMS.length)),
  row: modelRow,
};

const CRN_KIND: Kind = {
  series: CRN_SERIES,
  counts: CRN_COUNTS.length,
  /** In flight, time to first byte, backlog. */
  gauges: 3,
  histograms: 0,
  idle: crnRow(new Sums(CRN_COUNTS.length, 3, 0)),
  row: crnRow,
};

function modelRow({ counts, gauges, histograms, seconds, steps }: Sums): (number | null)[] {
  const [requests = 0, errors = 0, aborted = 0, input = 0, cached = 0, output = 0, usd = 0] = counts;
  const [latency, firstByte, gap] = histograms.map(quantilesOf);
  const perS = (count: number): number => (seconds === 0 ? 0 : count / seconds);
  return [
    ...[perS(requests), perS(errors), perS(aborted)],
    ...[latency?.p50 ?? null, latency?.p95 ?? null, latency?.p99 ?? null],
    ...[firstByte?.p50 ?? null, firstByte?.p95 ?? null, firstByte?.p99 ?? null],
    ...[gap?.p50 ?? null, gap?.p99 ?? null],
    ...[perS(input), perS(cached), perS(output), shareOf(cached, input), perS(usd) * 3600],
    ...Array.from(gauges, (gauge) => (steps === 0 ? 0 : gauge / steps)),
  ];
}

function crnRow({ counts, gauges, seconds, steps }: Sums): (number | null)[] {
  const [attempts = 0, failures = 0, hitBytes = 0, missBytes = 0, promptTokens = 0, cachedTokens = 0] = counts;
  const [inFlight = 0, firstByteMs = 0, backlogBytes = 0] = Array.from(gauges, (gauge) => gauge / Math.max(steps, 1));
  const perS = (count: number): number => (seconds === 0 ? 0 : count / seconds);
  return [
    ...[perS(attempts), perS(failures), inFlight],
    // It is as of the last request, so that it says nothing of a time without any.
    ...[attempts === 0 && inFlight === 0 ? null : firstByteMs],
    ...[shareOf(hitBytes, hitBytes + missBytes), shareOf(cachedTokens, promptTokens), backlogBytes],
  ];
}

/** A part of a whole; null of nothing. */
export function shareOf(part: number, whole: number): number | null {
  return whole <= 0 ? null : part / whole;
}

function quantilesOf(counts: Float64Array): Quantiles {
  const ms = (quantile: number): number | null => {
    const seconds = quantileOf(counts, quantile);
    return seconds === null ? null : seconds * 1000;
  };
  return { p50: ms(0.5), p95: ms(0.95), p99: ms(0.99) };
}

/** The last report of a thread. */
interface Reported {
  readonly generation: number;
  readonly sequence: number;
  readonly models: ReadonlyMap<string, ModelTotals>;
  /** Where the counts of a CRN begin. */
  readonly crns: ReadonlyMap<string, number>;
  readonly crnCounts: Float64Array;
}

export interface HistoryOptions {
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Reads everything; leaves out threads that do not answer in time. Called every 5 s. */
  readonly sample: () => Promise<HistorySample>;
  readonly log: Log;
}

export class History {
  readonly #options: HistoryOptions;
  readonly #gateway: Subject;
  readonly #models = new Map<string, Subject>();
  readonly #crns = new Map<string, Subject>();
  /** Configured and found models, as of the last step. */
  #present: ReadonlySet<string> = new Set();
  readonly #threads = new Map<number, Reported>();
  /** When step 0 ended: on a full minute of the wall clock at the start. */
  readonly #originMs: number;
  /** The last steps that are over, the oldest first: those of the last minute. */
  readonly #recentSeconds: number[] = [];
  /** The step that is not over. It ends at `#originMs + #step * STEP_MS`. */
  #step: number;
  /** When it began, and when threads were read last. */
  #beganMs: number;
  #takenMs: number;
  /** Steps and minutes of which there are points. */
  readonly #fineSteps = new HistoryPoints(FINE_STEPS, [null]);
  readonly #coarseSteps = new HistoryPoints(COARSE_STEPS, [null]);
  #timer: TimerHandle | null = null;
  #closed = false;

  constructor(options: HistoryOptions) {
    const { clock, epochMs } = options;
    const nowMs = clock.now();
    this.#options = options;
    this.#originMs = nowMs - (epochMs() % MINUTE_MS);
    this.#step = this.#stepAfter(nowMs);
    this.#beganMs = nowMs;
    this.#takenMs = nowMs;
    this.#gateway = new Subject(MODEL_KIND, this.#step);
  }

  /** Begins to sample. */
  start(): void {
    if (this.#timer === null && !this.#closed) this.#schedule();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) this.#options.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Bytes of the points, without what is constant for each model and CRN. */
  get bytes(): number {
    const subjects = [this.#gateway, ...this.#models.values(), ...this.#crns.values()];
    return subjects.reduce((sum, { coarse, fine }) => sum + fine.bytes + coarse.bytes, 0);
  }

  /** Takes over what threads have counted; a report that is older than one taken before changes nothing. */
  take(threads: readonly ThreadTotals[]): void {
    for (const totals of threads) this.#takeThread(totals);
    this.#takenMs = this.#options.clock.now();
  }

  /** The figures of the last minute of a model, or of the gateway; zeros and nulls for a model that has had no request. */
  recent(model: string | null): RecentFigures {
    const sums = new Sums(MODEL_KIND.counts, MODEL_KIND.gauges, MODEL_KIND.histograms);
    const subject = model === null ? this.#gateway : this.#models.get(model);
    for (const { counts, histograms } of subject?.recent ?? []) {
      addAll(sums.counts, counts);
      for (const [at, histogram] of histograms.entries()) addCounts(sums.histograms[at] as Float64Array, histogram);
    }
    if (model === null) for (const [id, { step }] of this.#models) addToGateway(sums, id, step);
    else if (subject !== undefined) sums.add(subject.step);
    const openMs = this.#takenMs - this.#beganMs;
    const seconds = this.#recentSeconds.reduce((sum, one) => sum + one, 0) + openMs / 1000;
    const rates = Array.from(sums.counts, (count) => (seconds <= 0 ? 0 : count / seconds));
    const [requests = 0, errors = 0, aborted = 0, input = 0, cached = 0, output = 0, usd = 0, bytes = 0, hits = 0] =
      rates;
    const [latencyMs, firstByteMs, gapMs] = sums.histograms.map(quantilesOf) as [Quantiles, Quantiles, Quantiles];
    return {
      ...{ seconds, requestsPerS: requests, errorsPerS: errors, abortedPerS: aborted, latencyMs, firstByteMs, gapMs },
      ...{ inputTokensPerS: input, cachedTokensPerS: cached, outputTokensPerS: output, usdPerHour: usd * 3600 },
      ...{ cachedShare: shareOf(cached, input), predictedShare: shareOf(hits, bytes) },
    };
  }

  /** The points of a range; null for a model or a CRN that is not known. Without both: of the gateway. */
  read(range: HistoryRange, of: { readonly model: string } | { readonly crn: string } | null): HistoryDocument | null {
    const isCrn = of !== null && 'crn' in of;
    const kind = isCrn ? CRN_KIND : MODEL_KIND;
    let subject = of === null ? this.#gateway : isCrn ? this.#crns.get(of.crn) : this.#models.get(of.model);
    // Nothing is known of any name before the first sample, and nothing is kept of models that are too many and idle.
    const isNew =
      this.#step === this.#gateway.firstStep || (of !== null && 'model' in of && this.#present.has(of.model));
    if (subject === undefined && isNew) subject = new Subject(kind, this.#step);
    if (subject === undefined) return null;
    const { clock, epochMs } = this.#options;
    const { isFine, steps: points } = RANGES[range];
    const stepMs = isFine ? STEP_MS : MINUTE_MS;
    // Dates follow corrections of the wall clock; steps do not.
    const originMs = epochMs() - clock.now() + this.#originMs;
    const dateMs: number[] = [];
    const rows: (readonly (number | null)[])[] = [];
    const last = isFine ? this.#step - 1 : Math.floor((this.#step - 1) / STEPS_PER_MINUTE);
    const first = isFine ? subject.firstStep : Math.ceil(subject.firstStep / STEPS_PER_MINUTE);
    const [ring, steps] = isFine ? [subject.fine, this.#fineSteps] : [subject.coarse, this.#coarseSteps];
    for (let step = Math.max(last - points + 1, first); step <= last; step++) {
      dateMs.push(Math.round(originMs + step * stepMs));
      const isThere = steps.read(step, 0) !== null;
      rows.push(kind.series.map((_, column) => (isThere ? ring.read(step, column) : null)));
    }
    if (!isFine && subject.minute.steps > 0) {
      dateMs.push(Math.round(originMs + (this.#step - 1) * STEP_MS));
      rows.push(kind.row(subject.minute));
    }
    const fromMs = Math.round(originMs + (last - points) * stepMs);
    const series = kind.series.map((name, column) => [name, rows.map((row) => row[column] ?? null)] as const);
    return { range, stepMs, fromMs, dateMs, series: Object.fromEntries(series) };
  }

  #stepAfter(nowMs: number): number {
    return Math.floor((nowMs - this.#originMs) / STEP_MS) + 1;
  }

  /** Times of steps are multiples from the origin, so that a late timer delays none after it. */
  #schedule(): void {
    const { clock } = this.#options;
    const dueMs = this.#originMs + this.#step * STEP_MS;
    this.#timer = clock.setTimeout(() => void this.#tick(), Math.max(dueMs - clock.now(), 0));
  }

  async #tick(): Promise<void> {
    const { clock, log, sample } = this.#options;
    try {
      const { crns, models, threads } = await sample();
      if (this.#closed) return;
      this.take(threads);
      this.#endStep(models, crns);
    } catch (error) {
      log.warn({ problem: messageOf(error) }, 'the figures of a step could not be read');
    }
    // A process that was suspended leaves steps out.
    this.#step = Math.max(this.#step + 1, this.#stepAfter(clock.now()));
    if (!this.#closed) this.#schedule();
  }

  #endStep(models: readonly string[], crns: readonly CrnGauges[]): void {
    const nowMs = this.#options.clock.now();
    const seconds = (nowMs - this.#beganMs) / 1000;
    this.#beganMs = nowMs;
    this.#recentSeconds.push(seconds);
    if (this.#recentSeconds.length > STEPS_PER_MINUTE) this.#recentSeconds.shift();
    const step = this.#step;
    this.#fineSteps.write(step, [1]);
    this.#coarseSteps.write(Math.ceil(step / STEPS_PER_MINUTE), [1]);
    this.#setGauges();
    for (const { backlogBytes, crn, firstByteMs, inFlight } of crns) {
      const subject = this.#crn(crn);
      subject.lastStep = step;
      subject.step.gauges.set([inFlight, firstByteMs, backlogBytes]);
    }
    this.#present = new Set(models);
    for (const model of models) if (this.#models.size < MAX_MODELS) this.#model(model);
    for (const [model, subject] of this.#models) {
      if (model === '' || this.#present.has(model)) subject.lastStep = step;
      if (subject.step.counts.some((count) => count > 0)) subject.busyStep = step;
      addToGateway(this.#gateway.step, model, subject.step);
      addAll(this.#gateway.step.gauges, subject.step.gauges);
    }
    this.#endStepOf(this.#gateway, MODEL_KIND, seconds);
    for (const subject of this.#models.values()) this.#endStepOf(subject, MODEL_KIND, seconds);
    for (const subject of this.#crns.values()) this.#endStepOf(subject, CRN_KIND, seconds);
    forget(this.#models, step, MAX_MODELS);
    forget(this.#crns, step, MAX_CRNS);
  }

  #endStepOf(subject: Subject, kind: Kind, seconds: number): void {
    const { fine, minute, recent, step } = subject;
    step.steps = 1;
    step.seconds = seconds;
    fine.write(this.#step, kind.row(step));
    const number = Math.ceil(this.#step / STEPS_PER_MINUTE);
    // Steps up to the end of its minute may have been left out.
    if (minute.steps > 0 && subject.minuteNumber !== number) endMinute(subject, kind);
    subject.minuteNumber = number;
    minute.add(step);
    if (kind.histograms > 0) {
      recent.push({ counts: step.counts.slice(), histograms: step.histograms.map(trimCounts) });
      if (recent.length > STEPS_PER_MINUTE) recent.shift();
    }
    step.clear();
    if (this.#step % STEPS_PER_MINUTE === 0) endMinute(subject, kind);
  }

  #takeThread({ crnCounts, crns, generation, models, sequence, thread }: ThreadTotals): void {
    let before = this.#threads.get(thread);
    if (before !== undefined && before.generation !== generation) {
      // Of a thread that was there before this one: what it counted last is lost with it.
      if (before.generation > generation) return;
      before = undefined;
    }
    if (before !== undefined && before.sequence >= sequence) return;
    for (const totals of models) this.#addModel(totals, before?.models.get(totals.model));
    const places = new Map<string, number>();
    for (const [index, crn] of crns.entries()) {
      const place = index * CRN_COUNTS.length;
      places.set(crn, place);
      this.#addCrn(crn, crnCounts, place, before);
    }
    const byId = new Map(models.map((totals) => [totals.model, totals]));
    this.#threads.set(thread, { generation, sequence, models: byId, crns: places, crnCounts });
  }

  #addModel({ counts, histograms, model }: ModelTotals, last: ModelTotals | undefined): void {
    const before = last !== undefined && isContinued(last.counts, counts) ? last : undefined;
    const isUnchanged = before !== undefined && counts.every((count, at) => count === before.counts[at]);
    if (isUnchanged && !this.#models.has(model)) return;
    const { step } = this.#model(model);
    for (let at = 0; at < counts.length; at++) {
      step.counts[at] = (step.counts[at] as number) + (counts[at] as number) - (before?.counts[at] ?? 0);
    }
    for (const [at, histogram] of histograms.entries()) {
      const sums = step.histograms[at] as Float64Array;
      addCounts(sums, histogram);
      const old = before?.histograms[at];
      if (old !== undefined) addCounts(sums, old, -1);
    }
  }

  #addCrn(crn: string, counts: Float64Array, place: number, before: Reported | undefined): void {
    const { step } = this.#crn(crn);
    const own = counts.subarray(place, place + CRN_COUNTS.length);
    const placeBefore = before?.crns.get(crn) ?? -1;
    const last = placeBefore < 0 ? undefined : before?.crnCounts.subarray(placeBefore, placeBefore + own.length);
    const old = last !== undefined && isContinued(last, own) ? last : undefined;
    for (let at = 0; at < own.length; at++) {
      step.counts[at] = (step.counts[at] as number) + (own[at] as number) - (old?.[at] ?? 0);
    }
  }

  /** As of the last report of each thread, also of one that has not answered this time. */
  #setGauges(): void {
    for (const { models } of this.#threads.values()) {
      for (const { inFlight, model, waiting } of models.values()) {
        if (inFlight > 0 || waiting > 0) addAll(this.#model(model).step.gauges, Float64Array.of(inFlight, waiting));
      }
    }
  }

  #model(model: string): Subject {
    return subjectOf(this.#models, model, MODEL_KIND, this.#step);
  }

  #crn(crn: string): Subject {
    return subjectOf(this.#crns, crn, CRN_KIND, this.#step);
  }
}

/** Whether counts go on from former ones. Those of a name that had left, was dropped and has come back since begin at 0. */
function isContinued(before: Float64Array, after: Float64Array): boolean {
  return before.every((count, at) => count <= (after[at] as number));
}

function subjectOf(subjects: Map<string, Subject>, id: string, kind: Kind, step: number): Subject {
  let subject = subjects.get(id);
  if (subject === undefined) {
    subject = new Subject(kind, step);
    subjects.set(id, subject);
  }
  return subject;
}

function endMinute({ coarse, minute, minuteNumber }: Subject, kind: Kind): void {
  coarse.write(minuteNumber, kind.row(minute));
  minute.clear();
}

/** Adds what happened to a model; without its histograms where requests name none: health checks would be most of them. */
function addToGateway(sums: Sums, model: string, { counts, histograms }: Sums): void {
  addAll(sums.counts, counts);
  if (model === '') return;
  for (const [at, own] of sums.histograms.entries()) addAll(own, histograms[at] as Float64Array);
}

/** Forgets who has not been there for a day, and beyond `most` who has been gone, or else idle, for longest. */
function forget(subjects: Map<string, Subject>, step: number, most: number): void {
  for (const [id, { lastStep }] of subjects) if (step - lastStep > DAY_STEPS) subjects.delete(id);
  if (subjects.size <= most) return;
  const oldest = [...subjects].toSorted(([, a], [, b]) => a.lastStep - b.lastStep || a.busyStep - b.busyStep);
  for (const [id] of oldest.slice(0, subjects.size - most)) subjects.delete(id);
}
