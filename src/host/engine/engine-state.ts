// What can be seen of an engine from outside: its condition, what is in it, what it has done. Filled by batch.ts and
// scheduler.ts, shown by `/slots`, `/metrics` and `/health`.
import type { EndReason } from './engine.ts';

/** Whether steps are made. `draining` still works off what it has; `closed` does nothing any more. */
export type Condition = 'loading' | 'ready' | 'paused' | 'draining' | 'closed';

/** Sums since the engine was made. */
export interface Tallies {
  steps: number;
  /** Time spent in steps. */
  stepUs: number;
  /** Prompt tokens of started sequences, and how many of them were found in the cache. */
  promptTokens: number;
  cachedTokens: number;
  /** Tokens evaluated as prompt, those of sequences begun again included. */
  prefillTokens: number;
  generatedTokens: number;
  /** Sequences pushed out by memory pressure. */
  preemptions: number;
  /** Times the context of a sequence moved. */
  shifts: number;
  readonly ended: Record<EndReason, number>;
}

export interface EngineState {
  readonly condition: Condition;
  readonly running: number;
  readonly waiting: number;
  readonly maxSequences: number;
  /** Memory in tokens: held by running sequences, kept for reuse, in all. */
  readonly usedTokens: number;
  readonly idleTokens: number;
  readonly capacityTokens: number;
  /** Generated in the last full second of the engine's clock. */
  readonly tokensPerSecond: number;
  readonly slowFactor: number;
  /** How late the last step was published, and the latest of all. */
  readonly behindUs: number;
  readonly mostBehindUs: number;
  /** Steps published later than one step's duration. */
  readonly lateSteps: number;
  /** Time given up because the process was too far behind to make it good. */
  readonly slippedUs: number;
  readonly tallies: Readonly<Tallies>;
}

/** One slot; the numbers are of the sequence in it, zero when idle. */
export interface SlotState {
  readonly slotId: number;
  readonly isProcessing: boolean;
  readonly promptTokens: number;
  /** Tokens in memory. */
  readonly computedTokens: number;
  readonly generatedTokens: number;
  /** Infinity when it generates until it stops by itself. */
  readonly remainingTokens: number;
}

export function createTallies(): Tallies {
  return {
    steps: 0,
    stepUs: 0,
    promptTokens: 0,
    cachedTokens: 0,
    prefillTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    shifts: 0,
    ended: { stopped: 0, length: 0, context: 0, cancelled: 0, 'out-of-memory': 0 },
  };
}

/** Tokens a second, over windows of one second of the engine's clock. */
export class Rate {
  #windowUs = 0;
  #tokens = 0;
  #perSecond = 0;
  #atUs = 0;

  add(tokens: number, atUs: number): void {
    const isFirst = this.#windowUs === 0 || atUs - this.#atUs > 1e6;
    this.#atUs = atUs;
    // The tokens that open a window were made before it.
    if (isFirst) return this.#open(atUs);
    this.#tokens += tokens;
    const passedUs = atUs - this.#windowUs;
    if (passedUs < 1e6) return;
    this.#perSecond = (this.#tokens * 1e6) / passedUs;
    this.#tokens = 0;
    this.#windowUs = atUs;
  }

  /** 0 when nothing was added for more than a second. */
  read(nowUs: number): number {
    return nowUs - this.#atUs > 1e6 ? 0 : this.#perSecond;
  }

  #open(atUs: number): void {
    this.#windowUs = atUs;
    this.#tokens = 0;
    this.#perSecond = 0;
  }
}
