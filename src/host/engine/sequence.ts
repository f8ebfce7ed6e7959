// One sequence in the scheduler, and the job it runs. The scheduler knows steps, memory and time; tokens come from the job.
// `computed < length` between steps: the last token is still to be evaluated, except for a prompt that asks for no tokens.
import { keptTokens, shiftedTokens, truncatePrompt } from './context-window.ts';
import type { CacheAllocation } from './prefix-cache.ts';

/** Value of `sampled` when `next` returned null. */
export const NO_TOKEN = -1;

/** Slots whose tokens wait for the next step: the even ones (0), the odd ones (1), all, or none. */
export type Holding = 0 | 1 | 'all' | null;

/** Room for generated tokens that comes with the prompt's copy; more is added by doubling. */
const FIRST_ROOM_TOKENS = 64;

export class Sequence {
  readonly job: SequenceJob;
  /** The first `length` are its tokens: prompt and generated. */
  tokens: Int32Array;
  length: number;
  /** Leading tokens whose keys and values are in memory. */
  computed = 0;
  readonly promptTokens: number;
  generated = 0;
  allocation: CacheAllocation | null = null;
  /** Tokens it evaluates in the step under way, and the token sampled for its end. */
  chunk = 0;
  sampled: number = NO_TOKEN;
  isCancelled = false;
  /** Whether it stands in the line; kept by it. */
  isWaiting = false;
  /** Whether its last token is held until the next one. */
  #holds = false;
  /** Set when it ends with the next step without taking part in it. */
  endReason: EndReason | null = null;
  preemptions = 0;
  readonly arrivedUs: number;
  startedUs = -1;
  firstTokenUs = -1;
  #slotId = -1;
  #cachedTokens = 0;
  #isTruncated: boolean;
  readonly #keptTokens: number;

  constructor(job: SequenceJob, contextTokens: number, arrivedUs: number) {
    const prompt = job.whenFull === 'shift' ? truncatePrompt(job.prompt, contextTokens, job.keepTokens) : job.prompt;
    this.job = job;
    this.arrivedUs = arrivedUs;
    this.promptTokens = prompt.length;
    this.length = prompt.length;
    this.tokens = new Int32Array(prompt.length + Math.min(job.maxTokens, FIRST_ROOM_TOKENS));
    this.tokens.set(prompt);
    this.#isTruncated = prompt !== job.prompt;
    this.#keptTokens = keptTokens(job.keepTokens, prompt.length, contextTokens);
    if (prompt.length >= contextTokens) this.endReason = 'context';
  }

  /** Starts or restarts it in memory; calls `onStart` the first time. */
  start(allocation: CacheAllocation, atUs: number): void {
    this.allocation = allocation;
    this.computed = allocation.cachedTokens;
    this.#slotId = allocation.slotId;
    if (this.startedUs >= 0) return;
    this.startedUs = atUs;
    this.#cachedTokens = allocation.cachedTokens;
    this.job.onStart(allocation.slotId, allocation.cachedTokens, this.promptTokens);
  }

  /** Whether the step under way evaluates its last token, so that another follows. */
  get isSampling(): boolean {
    return this.computed + this.chunk === this.length && this.generated < this.job.maxTokens;
  }

  sample(): void {
    this.sampled = this.job.next() ?? NO_TOKEN;
  }

  append(token: number): void {
    if (this.length === this.tokens.length) {
      const wider = new Int32Array(this.length * 2);
      wider.set(this.tokens);
      this.tokens = wider;
    }
    this.tokens[this.length++] = token;
    this.generated++;
  }

  /** Publishes its new token, which is held until the next one when its slot is among those that hold. */
  publish(token: number, atUs: number, holding: Holding): void {
    this.#holds = this.job.mayWait && this.generated > 1 && (holding === 'all' || (this.#slotId & 1) === holding);
    this.job.onToken(token, atUs, this.#holds);
  }

  /** Publishes a held token when the next one does not come with the next step. */
  releaseHeld(): void {
    if (!this.#holds) return;
    this.#holds = false;
    this.job.onDue();
  }

  /** Drops half of what follows the kept tokens; the number of kept tokens. */
  shift(): number {
    const kept = this.#keptTokens;
    const dropped = shiftedTokens(this.length, kept);
    this.tokens.copyWithin(kept, kept + dropped, this.length);
    this.length -= dropped;
    this.computed = Math.max(0, this.computed - dropped);
    this.#isTruncated = true;
    return kept;
  }

  end(reason: EndReason, atUs: number): SequenceEnd {
    const endedUs = Math.max(atUs, this.arrivedUs);
    const startedUs = this.startedUs < 0 ? endedUs : this.startedUs;
    return {
      reason,
      arrivedUs: this.arrivedUs,
      startedUs,
      firstTokenUs: this.firstTokenUs < 0 ? startedUs : this.firstTokenUs,
      endedUs,
      slotId: this.#slotId,
      promptTokens: this.promptTokens,
      cachedTokens: this.#cachedTokens,
      generatedTokens: this.generated,
      computedTokens: this.computed,
      isTruncated: this.#isTruncated,
      preemptions: this.preemptions,
    };
  }
}

/** One sequence on its way through the scheduler. */
export interface SequenceJob {
  /** Prompt tokens, beginning-of-sequence included; at least one. */
  readonly prompt: Int32Array;
  /** Most tokens to generate; Infinity until the context is full. 0 only evaluates the prompt into the cache. */
  readonly maxTokens: number;
  /** Whether the prefix may come from, and stay in, the prefix cache. */
  readonly cachePrompt: boolean;
  /** Slot that is wanted; -1: any. Taken when idle; shared blocks have no slots of their own and choose freely. */
  readonly slotId: number;
  /** First prompt tokens that truncation and shifting leave alone (`n_keep`); negative: the whole prompt. */
  readonly keepTokens: number;
  /**
   * What happens when the context is full: `shift` cuts long prompts in the middle, and drops half of what follows the kept tokens
   * whenever generation arrives at the end; `stop` ends the sequence with reason `context`, a prompt that does not fit
   * before its first token.
   */
  readonly whenFull: 'shift' | 'stop';
  /**
   * Whether every second token may wait for the next one when a step has very many sequences, so that two leave in one
   * write.
   */
  readonly mayWait: boolean;
  /**
   * Samples the next token; called once per step in which this sequence would produce one, when the step begins, so that
   * publishing at its end costs little. Null ends the sequence with that step (end of sequence, stop string, grammar
   * complete) and publishes nothing.
   */
  readonly next: () => number | null;
  /**
   * It got a slot for the first time: tokens of the prompt found in the cache, and tokens of the prompt after truncation.
   * May be called, as may `next`, before `submit` returns.
   */
  readonly onStart: (slotId: number, cachedTokens: number, promptTokens: number) => void;
  /** A token became final at the end of a step. With `waits` it is sent with the next one, or when `onDue` is called. */
  readonly onToken: (token: number, atUs: number, waits: boolean) => void;
  /** Sends the held token now: no next step follows, or one without this sequence. */
  readonly onDue: () => void;
  /** Resolves when the client can take more; undefined when it can now. Asked with constant pace alone. */
  readonly rest?: (() => Promise<void> | undefined) | undefined;
  /** Called exactly once, after every other callback and never before `submit` returns. */
  readonly onEnd: (end: SequenceEnd) => void;
}

/** `stopped`: `next` returned null; `length`: `maxTokens` reached; `context`: context full and `whenFull` is `stop`. */
export type EndReason = 'stopped' | 'length' | 'context' | 'cancelled' | 'out-of-memory';

/** Why and when a sequence ended. */
export interface SequenceEnd {
  readonly reason: EndReason;
  readonly arrivedUs: number;
  /** Beginning of the step that took it in; `endedUs` when none did. */
  readonly startedUs: number;
  /** End of the step that produced the first token; `startedUs` when there was none. */
  readonly firstTokenUs: number;
  readonly endedUs: number;
  /** The last slot it sat in; -1: none. */
  readonly slotId: number;
  /** Prompt tokens after truncation, cached ones included. */
  readonly promptTokens: number;
  /** Prompt tokens that were found in the cache when it started. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  /** Leading tokens whose keys and values were in memory. */
  readonly computedTokens: number;
  /** Whether the prompt was cut or the context moved. */
  readonly isTruncated: boolean;
  /** Times it was preempted for lack of memory and started again. */
  readonly preemptions: number;
}
