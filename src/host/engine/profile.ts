// Hardware profiles: how long a step takes, how much fits into it and into memory. Operators may override single fields of a
// built-in profile.
import { BlockCache, type BlockObserver } from './block-cache.ts';
import type { PrefixCache } from './prefix-cache.ts';
import { SlotCache } from './slot-cache.ts';
/** Memory of keys and values: slots as in llama.cpp's server, or shared blocks as in vLLM. */
export type Memory =
  | { readonly kind: 'slots'; readonly capacityTokens: number; readonly choice: 'similarity' | 'least-recent' }
  | { readonly kind: 'blocks'; readonly blocks: number; readonly blockTokens: number };

export interface Profile {
  /** A step with nothing in it: reading the weights, launching the work. Microseconds, as all times here. */
  readonly stepUs: number;
  /** Each sequence that produces a token in the step by decoding. */
  readonly sequenceUs: number;
  /** Each token in memory that the decoding sequences look back on. */
  readonly memoryTokenUs: number;
  /** Each prompt token evaluated in the step; its inverse is the prefill rate. */
  readonly prefillTokenUs: number;
  /** Most tokens evaluated in one step, decoding included; at least `maxSequences`. */
  readonly maxBatchTokens: number;
  /** Most sequences at a time; the number of slots. */
  readonly maxSequences: number;
  /** Most tokens of one sequence, prompt and generated. */
  readonly contextTokens: number;
  readonly memory: Memory;
}

export type ProfileName = '8b-h100' | '70b-8xh100' | 'small-box' | 'even';

/**
 * Decode times match published ones: 10-15 ms between tokens for 8B on an H100, 18-28 ms for 70B on eight, about two and
 * three times that with 256 sequences. The rest is arithmetic in 16 bits: two floating-point operations per parameter and
 * prompt token at half of the peak (0.99 PFLOPS a card), keys and values read at 3.35 TB/s (128 KiB a token for 8B,
 * 320 KiB for 70B), and nine tenths of 80 GB a card less weights and working space for them. The small box has four slots
 * for 8B in 4 bits at about 80 GB/s. `even` takes 20 ms whatever is in a step: 50 tokens a second for every stream.
 */
export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  '8b-h100': {
    stepUs: 11_500,
    sequenceUs: 20,
    memoryTokenUs: 0.039,
    prefillTokenUs: 32,
    maxBatchTokens: 2048,
    maxSequences: 256,
    contextTokens: 32_768,
    memory: { kind: 'blocks', blocks: 24_576, blockTokens: 16 },
  },
  '70b-8xh100': {
    stepUs: 22_000,
    sequenceUs: 120,
    memoryTokenUs: 0.0122,
    prefillTokenUs: 36,
    maxBatchTokens: 2048,
    maxSequences: 256,
    contextTokens: 32_768,
    memory: { kind: 'blocks', blocks: 76_800, blockTokens: 16 },
  },
  'small-box': {
    stepUs: 60_000,
    sequenceUs: 4000,
    memoryTokenUs: 1.6,
    prefillTokenUs: 10_000,
    maxBatchTokens: 512,
    maxSequences: 4,
    contextTokens: 4096,
    memory: { kind: 'slots', capacityTokens: 16_384, choice: 'similarity' },
  },
  even: {
    stepUs: 20_000,
    sequenceUs: 0,
    memoryTokenUs: 0,
    prefillTokenUs: 0,
    maxBatchTokens: 65_536,
    maxSequences: 4096,
    contextTokens: 8192,
    memory: { kind: 'blocks', blocks: 262_144, blockTokens: 16 },
  },
};

/** Shifting keeps four tokens free and must drop at least one. */
const LEAST_CONTEXT_TOKENS = 8;

/** Throws a RangeError that names the field which makes no sense. */
export function checkProfile(profile: Profile): void {
  const { memory } = profile;
  const times = ['stepUs', 'sequenceUs', 'memoryTokenUs', 'prefillTokenUs'] as const;
  for (const name of times) {
    if (!(profile[name] >= 0 && profile[name] < Infinity)) throw new RangeError(`${name} must be a time, not negative`);
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

/** Duration of a step with these contents, whole microseconds, at least one. */
export function stepDurationUs(
  profile: Profile,
  decoding: number,
  memoryTokens: number,
  prefillTokens: number,
): number {
  const work =
    profile.stepUs +
    profile.sequenceUs * decoding +
    profile.memoryTokenUs * memoryTokens +
    profile.prefillTokenUs * prefillTokens;
  return Math.max(1, Math.round(work));
}
