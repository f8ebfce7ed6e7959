// Counters of a scheduler and what it says of itself.
import type { EndReason } from './engine.ts';

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
  readonly tallies: Readonly<Tallies>;
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
