// Profiles: how long a step of a machine takes, how that varies, and how much fits into a step and into memory. Built-in
// profiles are in profiles.ts; operators may override single fields.
import { BlockCache, type BlockObserver } from './block-cache.ts';
import type { PrefixCache } from './prefix-cache.ts';
import { SlotCache } from './slot-cache.ts';

/** Memory of keys and values: slots as in llama.cpp's server, or shared blocks as in vLLM. */
export type Memory =
  | { readonly kind: 'slots'; readonly capacityTokens: number; readonly choice: 'similarity' | 'least-recent' }
  | { readonly kind: 'blocks'; readonly blocks: number; readonly blockTokens: number };

/** Rare steps that take much longer: garbage collection, the scheduler of the system, swapping. */
export interface Stalls {
  /** Mean time of work between two of them, milliseconds. */
  readonly everyMs: number;
  /** They follow a Pareto distribution: at least this long, with this shape (the smaller, the heavier the tail), and at most so long. */
  readonly leastMs: number;
  readonly shape: number;
  readonly mostMs: number;
}

/** How a machine differs from its formula. */
export interface Variation {
  /**
   * Step times are multiplied by a log-normal factor with median 1; this is the standard deviation of its logarithm in a step of `stepUs`.
   * Longer steps vary less.
   */
  readonly jitter: number;
  readonly stalls?: Stalls;
  /** Differences between machines of one kind: standard deviation of the logarithm, share of slow ones, and how much slower they are. */
  readonly machines?: { readonly spread: number; readonly slowShare: number; readonly slowFactor: number };
  /** Under steady load the step time grows by up to this factor, with this time constant; it recovers likewise when idle. */
  readonly thermal?: { readonly factor: number; readonly overMs: number };
}

/** What a start costs: time until the model is loaded, and a first phase of slower steps that fades with this time constant of work. */
export interface ColdStart {
  readonly loadMs: number;
  readonly factor: number;
  readonly overMs: number;
}

export interface Profile {
  /** A step with nothing in it: reading the weights, launching the work. Microseconds, as all times here. */
  readonly stepUs: number;
  /** In place of `stepUs` in a step that evaluates prompt tokens. Default: `stepUs`. */
  readonly prefillStepUs?: number;
  /** Each sequence that produces a token in the step by decoding. */
  readonly sequenceUs: number;
  /** Each token in memory that the decoding sequences look back on. */
  readonly memoryTokenUs: number;
  /** Each prompt token evaluated in the step; its inverse is the prefill rate of short prompts. */
  readonly prefillTokenUs: number;
  /** Each pair of a prompt token and a token up to it: attention, quadratic in the length of the prompt. Default 0. */
  readonly prefillPairUs?: number;
  /**
   * `chunked`: decoding goes on beside a part of the waiting prompts, as in vLLM. `first`: waiting prompts are evaluated alone and
   * decoding pauses, as in SGLang by default. Default `chunked`.
   */
  readonly prefill?: 'chunked' | 'first';
  /** Most tokens evaluated in one step, decoding included; at least `maxSequences`. */
  readonly maxBatchTokens: number;
  /** Most sequences at a time; the number of slots. */
  readonly maxSequences: number;
  /** Most tokens of one sequence, prompt and generated. */
  readonly contextTokens: number;
  readonly memory: Memory;
  /** Default: none, every step takes what the formula says. */
  readonly variation?: Variation;
  /** Only for engines that start cold. Default: ready at once. */
  readonly coldStart?: ColdStart;
  /**
   * Every request has steps of its own, whatever else runs: constant pace. A step may take no time then, and the next token waits until
   * the client has taken the last one. Default false: all requests share the steps.
   */
  readonly isPaced?: boolean;
}

/** The profile of a constant pace: this time to the first token, and between two tokens. */
export function pacedProfile(timeToFirstTokenMs: number, interTokenMs: number): Profile {
  return {
    stepUs: interTokenMs * 1000,
    prefillStepUs: timeToFirstTokenMs * 1000,
    sequenceUs: 0,
    memoryTokenUs: 0,
    prefillTokenUs: 0,
    maxBatchTokens: MOST_TOKENS,
    maxSequences: 1,
    contextTokens: MOST_TOKENS,
    memory: { kind: 'slots', capacityTokens: MOST_TOKENS, choice: 'least-recent' },
    isPaced: true,
  };
}

/** More than any request has. */
const MOST_TOKENS = 2 ** 30;

/** Shifting keeps four tokens free and must drop at least one. */
const LEAST_CONTEXT_TOKENS = 8;

/** A place is made for each when the engine is; more run on no machine. */
const MOST_SEQUENCES = 100_000;

/** Throws a RangeError that names the field which makes no sense. */
export function checkProfile(profile: Profile): void {
  const { memory, prefillStepUs = 0, prefillPairUs = 0 } = profile;
  const { stepUs, sequenceUs, memoryTokenUs, prefillTokenUs } = profile;
  const times = { stepUs, sequenceUs, memoryTokenUs, prefillTokenUs, prefillStepUs, prefillPairUs };
  for (const [name, time] of Object.entries(times)) {
    if (!(time >= 0 && time < Infinity)) throw new RangeError(`${name} must be a time, not negative`);
  }
  const counts = {
    maxSequences: [profile.maxSequences, 1],
    maxBatchTokens: [profile.maxBatchTokens, profile.maxSequences],
    contextTokens: [profile.contextTokens, LEAST_CONTEXT_TOKENS],
    ...(memory.kind === 'slots'
      ? { capacityTokens: [memory.capacityTokens, 1] }
      : { blocks: [memory.blocks, 1], blockTokens: [memory.blockTokens, 1] }),
  } as const;
  for (const [name, [count, least]] of Object.entries(counts)) {
    if (!Number.isInteger(count) || count < least)
      throw new RangeError(`${name} must be a whole number from ${least} up`);
  }
  if (profile.maxSequences > MOST_SEQUENCES) {
    throw new RangeError(`maxSequences, the number of slots, must be at most ${MOST_SEQUENCES}`);
  }
}

/** The memory the profile describes, empty. Throws a RangeError when there are no blocks to observe. */
export function createCache(profile: Profile, observer?: BlockObserver): PrefixCache {
  const { memory, maxSequences, contextTokens } = profile;
  if (memory.kind === 'slots' && observer !== undefined) {
    throw new RangeError(
      'slots have no KV events; choose a profile with KV blocks, such as 8b-h100, and no number of slots',
    );
  }
  if (memory.kind === 'slots') return new SlotCache({ ...memory, slots: maxSequences, contextTokens });
  return new BlockCache({ ...memory, sequences: maxSequences }, observer);
}

/** Microseconds that a step with these contents takes by the formula of the profile, whole, at least one unless paced. */
export function stepDurationUs(
  profile: Profile,
  decoding: number,
  memoryTokens: number,
  prefillTokens: number,
  prefillPairs = 0,
): number {
  const { stepUs, prefillStepUs = stepUs, prefillPairUs = 0 } = profile;
  const work =
    (prefillTokens > 0 ? prefillStepUs : stepUs) +
    profile.sequenceUs * decoding +
    profile.memoryTokenUs * memoryTokens +
    profile.prefillTokenUs * prefillTokens +
    prefillPairUs * prefillPairs;
  return Math.max(profile.isPaced === true ? 0 : 1, Math.round(work));
}
