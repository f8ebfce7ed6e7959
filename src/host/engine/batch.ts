// The contents of a scheduler step. Every running sequence decodes one token; the rest of the token budget goes to prefill,
// in order of arrival, in chunks. With `prefill: 'first'` a step that evaluates prompts does nothing else. When memory is exhausted, the newest sequence is preempted and queued again. Nothing is
// allocated per token.
import type { PrefixCache } from './prefix-cache.ts';
import type { Profile } from './profile.ts';
import type { EndReason, Sequence } from './sequence.ts';

export class Batch {
  /** Sequences whose prompts are in memory, and those whose prompts are on the way; both by age. All the former are older. */
  readonly decoding: Sequence[] = [];
  readonly prefilling: Sequence[] = [];
  /** Sequences that end with the step and take no part in it. */
  readonly ending: Sequence[] = [];
  /** Of the packed step: tokens its decoding sequences look back on, prompt tokens it evaluates. */
  memoryTokens = 0;
  prefillTokens = 0;
  /** Sequences that decode in it: all of `decoding` or none. */
  decodingCount = 0;
  /** Pairs of a prompt token of the step and a token up to it. */
  prefillPairs = 0;
  readonly #profile: Profile;
  readonly #cache: PrefixCache;
  readonly #waiting: WaitingQueue;
  readonly #counts: SchedulerCounts;

  constructor(profile: Profile, cache: PrefixCache, waiting: WaitingQueue, counts: SchedulerCounts) {
    this.#profile = profile;
    this.#cache = cache;
    this.#waiting = waiting;
    this.#counts = counts;
  }

  get running(): number {
    return this.decoding.length + this.prefilling.length;
  }

  /** Decides what the step that begins now contains. False when there is nothing to do. */
  pack(startUs: number): boolean {
    const { preemptions } = this.#counts;
    const { maxBatchTokens, prefill } = this.#profile;
    this.prefillTokens = 0;
    this.prefillPairs = 0;
    if (prefill === 'first') {
      this.#packPrefill(startUs, maxBatchTokens);
      if (this.prefillTokens > 0) return this.#pauseDecoding();
    }
    this.#packDecoding();
    // A sequence that was just preempted must not be admitted again in the same step.
    if (prefill !== 'first') {
      const mayAdmit = preemptions === this.#counts.preemptions;
      this.#packPrefill(startUs, maxBatchTokens - this.decoding.length, mayAdmit);
    }
    return this.running > 0 || this.ending.length > 0;
  }

  #packPrefill(startUs: number, budget: number, mayAdmit = true): void {
    for (const sequence of this.prefilling) this.#addChunk(sequence, budget);
    if (mayAdmit) this.#admit(startUs, budget);
  }

  #pauseDecoding(): true {
    this.memoryTokens = 0;
    this.decodingCount = 0;
    for (const sequence of this.decoding) {
      sequence.chunk = 0;
      sequence.releaseHeld();
    }
    return true;
  }

  /** Asks every sequence that completes its evaluation in this step for its next token. */
  sample(): void {
    if (this.decodingCount > 0) for (const sequence of this.decoding) sequence.sample();
    for (const sequence of this.prefilling) if (sequence.isSampling) sequence.sample();
  }

  #packDecoding(): void {
    let memoryTokens = 0;
    for (let at = 0; at < this.decoding.length; at++) {
      const sequence = this.decoding[at]!;
      if (sequence.length >= this.#profile.contextTokens) this.#shift(sequence);
      if (sequence.length > sequence.allocation!.roomTokens && !this.#makeRoom(sequence)) break;
      memoryTokens += sequence.computed;
      sequence.chunk = 1;
    }
    this.memoryTokens = memoryTokens;
    this.decodingCount = this.decoding.length;
  }

  #shift(sequence: Sequence): void {
    const kept = sequence.shift();
    this.#counts.shifts++;
    if (sequence.allocation !== null) this.#cache.shift(sequence.allocation, kept);
  }

  /** Grows what the sequence holds at the cost of newer ones. False when it was itself the newest and had to go. */
  #makeRoom(sequence: Sequence): boolean {
    const allocation = sequence.allocation!;
    while (sequence.length > allocation.roomTokens) {
      if (this.#cache.grow(allocation)) continue;
      const isAlone = this.running === 1;
      const newest = (this.prefilling.pop() ?? this.decoding.pop())!;
      this.#evict(newest);
      if (isAlone) this.#endReason(newest, 'out-of-memory');
      else if (newest.isCancelled) this.#endReason(newest, 'cancelled');
      else this.#requeue(newest);
      if (newest === sequence) return false;
    }
    return true;
  }

  #evict(sequence: Sequence): void {
    this.#cache.release(sequence.allocation!, sequence.tokens, sequence.computed);
    sequence.releaseHeld();
    sequence.allocation = null;
    sequence.computed = 0;
    sequence.chunk = 0;
  }

  #requeue(sequence: Sequence): void {
    sequence.preemptions++;
    this.#counts.preemptions++;
    this.#waiting.pushFront(sequence);
  }

  #endReason(sequence: Sequence, reason: EndReason): void {
    sequence.endReason ??= reason;
    this.ending.push(sequence);
  }

  #addChunk(sequence: Sequence, budget: number): void {
    const chunk = Math.min(sequence.length - sequence.computed, budget - this.prefillTokens);
    sequence.chunk = chunk;
    this.prefillTokens += chunk;
    this.prefillPairs += chunk * sequence.computed + (chunk * (chunk + 1)) / 2;
  }

  #admit(startUs: number, budget: number): void {
    const { maxSequences, contextTokens } = this.#profile;
    while (this.prefillTokens < budget && this.running < maxSequences) {
      const sequence = this.#waiting.first;
      // A late step begins in the past: sequences that arrived after its beginning are not part of it.
      if (sequence === undefined || sequence.arrivedUs > startUs) return;
      if (sequence.length >= contextTokens && sequence.endReason === null) this.#shift(sequence);
      if (sequence.endReason !== null || !this.#cache.fits(sequence.length)) {
        this.#waiting.shift();
        this.#endReason(sequence, 'out-of-memory');
        continue;
      }
      const { tokens, length, job } = sequence;
      const allocation = this.#cache.admit(tokens, length, job.cachePrompt, job.slotId);
      if (allocation === null) return;
      this.#waiting.shift();
      this.prefilling.push(sequence);
      if (sequence.startedUs < 0) {
        this.#counts.promptTokens += length;
        this.#counts.cachedTokens += allocation.cachedTokens;
      }
      sequence.start(allocation, startUs);
      this.#addChunk(sequence, budget);
    }
  }
}

/** Consumed entries are dropped when there are this many and they are half of the queue. */
const COMPACT_AT = 1024;

export class WaitingQueue {
  #queue: (Sequence | undefined)[] = [];
  #head = 0;
  #cancelled = 0;

  get size(): number {
    return this.#queue.length - this.#head - this.#cancelled;
  }

  /** The next in line that was not cancelled. */
  get first(): Sequence | undefined {
    while (this.#queue[this.#head]?.isWaiting === false) {
      this.#cancelled--;
      this.#pass();
    }
    return this.#queue[this.#head];
  }

  push(sequence: Sequence): void {
    sequence.isWaiting = true;
    this.#queue.push(sequence);
  }

  pushFront(sequence: Sequence): void {
    sequence.isWaiting = true;
    if (this.#head === 0) this.#queue.unshift(sequence);
    else this.#queue[--this.#head] = sequence;
  }

  shift(): Sequence | undefined {
    const first = this.first;
    if (first === undefined) return undefined;
    first.isWaiting = false;
    this.#pass();
    return first;
  }

  /** Takes one out that stands in the line. */
  cancel(sequence: Sequence): void {
    sequence.isCancelled = true;
    sequence.isWaiting = false;
    this.#cancelled++;
  }

  #pass(): void {
    this.#queue[this.#head++] = undefined;
    if (this.#head < COMPACT_AT || this.#head * 2 < this.#queue.length) return;
    this.#queue = this.#queue.slice(this.#head);
    this.#head = 0;
  }
}

/** Sums since the scheduler was made. */
export interface SchedulerCounts {
  steps: number;
  /** Time spent in steps. */
  stepUs: number;
  /** Prompt tokens of started sequences, and how many of them were found in the cache. */
  promptTokens: number;
  cachedTokens: number;
  /** Tokens evaluated as prompt, those of preempted sequences again included. */
  prefillTokens: number;
  generatedTokens: number;
  /** Sequences preempted for lack of memory. */
  preemptions: number;
  /** Times the context of a sequence moved. */
  shifts: number;
  readonly ended: Record<EndReason, number>;
}

/** All zero. */
export function createCounts(): SchedulerCounts {
  return {
    ...{ steps: 0, stepUs: 0, promptTokens: 0, cachedTokens: 0, prefillTokens: 0, generatedTokens: 0 },
    ...{ preemptions: 0, shifts: 0 },
    ended: { stopped: 0, length: 0, context: 0, cancelled: 0, 'out-of-memory': 0 },
  };
}

export interface SchedulerState {
  readonly running: number;
  readonly waiting: number;
  /** Memory in tokens: held by running sequences, kept for reuse, in all. */
  readonly usedTokens: number;
  readonly idleTokens: number;
  readonly capacityTokens: number;
  /** The most that a step was published late. */
  readonly mostBehindUs: number;
  /** Steps published later than one step's duration. */
  readonly lateSteps: number;
  readonly counts: Readonly<SchedulerCounts>;
}
