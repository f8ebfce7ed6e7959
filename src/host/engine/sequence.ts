// One job inside the scheduler: its tokens, how many of them are in memory, what it holds and when what happened. Made by
// scheduler.ts, moved through steps by batch.ts. `computed < length` between steps: the last token is always still to be
// evaluated, except for a prompt that asks for no tokens.
import { keptTokens, shiftedTokens, truncatePrompt } from './context-window.ts';
import type { EndReason, Job, JobEnd } from './engine.ts';
import type { Lease } from './prefix-cache.ts';

/** What `sampled` holds when `next` said null. */
export const NO_TOKEN = -1;

/** Slots whose tokens wait for the next step: the even ones (0), the odd ones (1), or none. */
export type Holding = 0 | 1 | null;

/** Room for generated tokens that comes with the prompt's copy; more is added by doubling. */
const FIRST_ROOM_TOKENS = 64;

export class Sequence {
  readonly job: Job;
  /** The first `length` are its tokens: prompt and generated. */
  tokens: Int32Array;
  length: number;
  /** Leading tokens whose keys and values are in memory. */
  computed = 0;
  readonly promptTokens: number;
  generated = 0;
  lease: Lease | null = null;
  /** Tokens it evaluates in the step under way, and the token sampled for its end. */
  chunk = 0;
  sampled: number = NO_TOKEN;
  isCancelled = false;
  /** Whether it stands in the line; kept by it. */
  isWaiting = false;
  /** Whether its last token waits for the next one. */
  #holds = false;
  /** Set when it ends with the next step without taking part in it. */
  doom: EndReason | null = null;
  preemptions = 0;
  readonly arrivedUs: number;
  startedUs = -1;
  firstTokenUs = -1;
  #slotId = -1;
  #cachedTokens = 0;
  #isTruncated: boolean;
  readonly #keptTokens: number;

  constructor(job: Job, contextTokens: number, arrivedUs: number) {
    const prompt = job.whenFull === 'shift' ? truncatePrompt(job.prompt, contextTokens, job.keepTokens) : job.prompt;
    this.job = job;
    this.arrivedUs = arrivedUs;
    this.promptTokens = prompt.length;
    this.length = prompt.length;
    this.tokens = new Int32Array(prompt.length + Math.min(job.maxTokens, FIRST_ROOM_TOKENS));
    this.tokens.set(prompt);
    this.#isTruncated = prompt !== job.prompt;
    this.#keptTokens = keptTokens(job.keepTokens, prompt.length, contextTokens);
    if (prompt.length >= contextTokens) this.doom = 'context';
  }

  /** Takes its place; tells the job when it is the first time. */
  start(lease: Lease, atUs: number): void {
    this.lease = lease;
    this.computed = lease.cachedTokens;
    this.#slotId = lease.slotId;
    if (this.startedUs >= 0) return;
    this.startedUs = atUs;
    this.#cachedTokens = lease.cachedTokens;
    this.job.onStart(lease.slotId, lease.cachedTokens, this.promptTokens);
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

  /** Tells the job of its new token, which waits for the next one when it is the turn of the slots that hold theirs. */
  publish(token: number, atUs: number, holding: Holding): void {
    this.#holds = this.job.mayWait && this.generated > 1 && (this.#slotId & 1) === holding;
    this.job.onToken(token, atUs, this.#holds);
  }

  /** Lets a token go that waits for one which is not going to come with the next step. */
  handOver(): void {
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

  end(reason: EndReason, atUs: number): JobEnd {
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
      isTruncated: this.#isTruncated,
      preemptions: this.preemptions,
    };
  }
}
