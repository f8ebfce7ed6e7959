// The `paced` profile of the simulated engine: tokens leave at a fixed pace, whatever else runs, without batching and
// caching. A request may set its own pace. A stream pauses while the client's socket is full.
import type { Sink } from '../model-engine.ts';
import type { Pacer, Step } from './pacer.ts';
import type { EndReason, SequenceJob } from './sequence.ts';
/** Pace of an answer, in milliseconds; `tokens`, when given, is its exact length. */
export interface Pace {
  readonly timeToFirstTokenMs: number;
  /** 0: as fast as the socket takes it. */
  readonly interTokenMs: number;
  readonly tokens?: number;
}

/** Defaults of the profile. */
export interface PacedSettings extends Pick<Pace, 'timeToFirstTokenMs' | 'interTokenMs'> {
  /** Tokens of an answer when the request names no maximum. */
  readonly maxTokens: number;
  /** Tokens after which the model ends by itself when the request allows more. */
  readonly naturalTokens: number;
}

/** No answer is longer, whatever is asked. */
const MAX_TOKENS = 1_000_000;

/**
 * Reads `ttft=0,itl=5,tokens=64` (header `x-headrace-sim`; milliseconds, milliseconds, tokens), each part optional. Throws an
 * Error that names the part it does not understand.
 */
export function parsePace(spec: string | undefined): Partial<Pace> {
  const pace: { timeToFirstTokenMs?: number; interTokenMs?: number; tokens?: number } = {};
  for (const part of (spec ?? '').split(',')) {
    if (part.trim() === '') continue;
    const [name, value = ''] = part.trim().split('=', 2);
    const amount = Number(value);
    if (value === '' || !(amount >= 0 && amount < Infinity)) throw new Error(`cannot read the pace '${part.trim()}'`);
    if (name === 'ttft') pace.timeToFirstTokenMs = amount;
    else if (name === 'itl') pace.interTokenMs = amount;
    else if (name === 'tokens') pace.tokens = Math.floor(amount);
    else throw new Error(`unknown pace '${name}'; known: ttft, itl, tokens`);
  }
  return pace;
}

/** How many words the model says: as many as asked for (`isCut`), or fewer because it ends by itself. */
export function pacedLength(
  { maxTokens, naturalTokens }: PacedSettings,
  limit: number,
  ignoreEos: boolean,
): { readonly tokens: number; readonly isCut: boolean } {
  if (limit < 0) return { tokens: Math.min(maxTokens, MAX_TOKENS), isCut: false };
  const tokens = Math.min(limit, ignoreEos ? MAX_TOKENS : naturalTokens, MAX_TOKENS);
  return { tokens, isCut: tokens === limit };
}

export interface PacedSequenceDeps {
  readonly job: SequenceJob;
  readonly sink: Sink;
  readonly pace: Pick<Pace, 'timeToFirstTokenMs' | 'interTokenMs'>;
  readonly promptTokens: number;
  /** Tokens of the job before its end of sequence. */
  readonly tokens: number;
  /** Whether the end comes from the limit of the request and not from the model. */
  readonly isCut: boolean;
  readonly pacer: Pacer;
}

/** One job under way. */
export class PacedSequence implements Step {
  dueMs: number;
  cancelled = false;
  readonly #deps: PacedSequenceDeps;
  readonly #arrivedMs: number;
  #generated = 0;
  /** The source gave its end. */
  #hasEnded = false;
  #isOver = false;

  constructor(deps: PacedSequenceDeps) {
    this.#deps = deps;
    this.#arrivedMs = deps.pacer.now();
    this.dueMs = this.#arrivedMs + deps.pace.timeToFirstTokenMs;
  }

  /** Begins: within this call when the first token is due now. */
  start(): void {
    const { job, sink, pace, pacer, promptTokens } = this.#deps;
    job.onStart(0, 0, promptTokens);
    if (sink.isWhole === true) {
      while (this.#sample());
      this.dueMs += pace.interTokenMs * Math.max(0, this.#generated - 1);
    }
    if (this.dueMs === this.#arrivedMs) this.run();
    else pacer.schedule(this);
  }

  /** Hands over what is due: one token, or as many as the socket takes when there is no time between tokens. */
  run(): void {
    const { job, sink, pace } = this.#deps;
    const dueUs = this.dueMs * 1000;
    if (sink.isWhole === true) {
      job.onToken(0, dueUs, false);
      return this.#end();
    }
    const waits = pace.interTokenMs === 0;
    let rest: Promise<void> | undefined;
    do {
      const goesOn = this.#sample();
      job.onToken(0, dueUs, waits);
      if (!goesOn) return this.#end();
      rest = sink.rest?.();
    } while (waits && rest === undefined);
    if (waits) job.onDue();
    if (rest === undefined) this.#again();
    else void rest.then(() => this.#again());
  }

  /** Samples the next token; false when the sequence ends with it, or has none. */
  #sample(): boolean {
    const { job, tokens } = this.#deps;
    if (this.#generated < tokens) {
      this.#generated++;
      this.#hasEnded = job.next() === null;
    }
    return !this.#hasEnded && this.#generated < tokens;
  }

  #again(): void {
    if (this.cancelled) return;
    const { pace, pacer } = this.#deps;
    // From the due time and not from now: a late timer must not slow the stream. Never in the past: a stream that fell
    // behind continues at its pace instead of catching up in a burst.
    this.dueMs = Math.max(this.dueMs + pace.interTokenMs, pacer.now());
    pacer.schedule(this);
  }

  /** Ends it, if it has not ended; harmless afterwards. */
  cancel(): void {
    if (this.cancelled || this.#isOver) return;
    this.cancelled = true;
    this.#report('cancelled');
  }

  #end(): void {
    const { job, isCut } = this.#deps;
    // The job learns from its source that the model has ended.
    if (!this.#hasEnded && !isCut) job.next();
    this.#report(this.#hasEnded || !isCut ? 'stopped' : 'length');
  }

  #report(reason: EndReason): void {
    const { job, pace, promptTokens } = this.#deps;
    this.#isOver = true;
    const arrivedUs = this.#arrivedMs * 1000;
    const firstTokenUs = arrivedUs + pace.timeToFirstTokenMs * 1000;
    job.onEnd({
      reason,
      arrivedUs,
      startedUs: arrivedUs,
      firstTokenUs,
      endedUs: firstTokenUs + this.#generated * pace.interTokenMs * 1000,
      slotId: 0,
      promptTokens,
      cachedTokens: 0,
      generatedTokens: this.#generated,
      isTruncated: false,
      preemptions: 0,
    });
  }
}
