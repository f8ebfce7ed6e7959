// The built-in profiles. Each says where its figures come from; docs/simulated-engine.md has them as a table. `derived` is arithmetic
// from data sheets, `assumed` has no public source.
//
// Arithmetic of a model of 8B with 16 bits: 16.1 GB of weights, 128 KiB of keys and values a token, 16 GFLOP a prompt token,
// 4 x 32 layers x 4096 = 0.52 MFLOP a pair of tokens; of 70B: 141 GB, 320 KiB, 141 GFLOP, 2.6 MFLOP. Prompts run at half of a card's peak.
//
// Jitter: inter-token latencies of 5.1 ms p50 and 6.1 ms p95 with nothing else running (vLLM 0.23, ai.wmx.dev/benchmarks) give 0.11, and
// of 51.75 ms p50 and 55.0 ms p99 (vLLM, forums.developer.nvidia.com/t/354399) give 0.026. Profiles interpolate on logarithms of their
// step time, and so do longer steps. Stalls: vLLM and SGLang stall for 50 to 300 ms in a full garbage collection (sglang#9241, vllm#33575) and rarely for 0.7 to 2 s
// (vllm#48229); how often is assumed. Machines: outliers up to 1.5 times slower than the median (arXiv 2208.11035); share and
// spread are assumed. Cold start: weights read at 2 GB/s and, with vLLM, 20 s of compiling, both assumed.
import { type Profile, type Variation, stepDurationUs } from './profile.ts';

export type ProfileName = keyof typeof DEFINED;

/** A profile and what it stands for. */
interface DefinedProfile extends Profile {
  /** Model, server and hardware, and how the figures are known. */
  readonly about: string;
}

const MACHINES = { spread: 0.03, slowShare: 0.01, slowFactor: 1.5 };

/** Servers in Python: a stall in 20 seconds of work. */
function pythonServer(jitter: number): Variation {
  return { jitter, stalls: { everyMs: 20_000, leastMs: 50, shape: 1.5, mostMs: 2000 }, machines: MACHINES };
}

/** llama.cpp has no garbage collection: a stall in a minute of work, from the system. All of it is assumed. */
function nativeServer(jitter: number): Variation {
  return { jitter, stalls: { everyMs: 60_000, leastMs: 20, shape: 1.5, mostMs: 500 }, machines: MACHINES };
}

const DEFINED = {
  /**
   * llama-server with Llama 3 8B in 4 bits (Q4_0) on an RTX 4090, 32 slots that share 131,072 cells. Batches of 16, 32, 64 and 512 tokens at
   * 1930, 3428, 5420 and 10,359 tokens/s (llama.cpp#15131, #7676): 8.3, 9.3, 11.8 and 49.4 ms; 102.8 tokens/s behind 32,768 tokens
   * (#17505), of which 4.3 ms is reading them at 1008 GB/s. Pairs: derived, 165 TFLOPS.
   */
  '8b-rtx4090': {
    about: 'Llama 3 8B in 4 bits, llama-server, RTX 4090: llama.cpp#15131, #7676, #17505',
    stepUs: 5400,
    sequenceUs: 120,
    memoryTokenUs: 0.13,
    prefillTokenUs: 86,
    prefillPairUs: 0.0064,
    maxBatchTokens: 2048,
    maxSequences: 32,
    contextTokens: 32_768,
    memory: { kind: 'slots', capacityTokens: 131_072, choice: 'similarity' },
    variation: nativeServer(0.1),
    coldStart: { loadMs: 3000, factor: 2, overMs: 500 },
  },
  /**
   * llama-server with Qwen 2 7B in 8 bits on an Apple M2 Ultra, four slots (its default). 12.7, 14.7 and 17.8 ms a step with 1, 2 and 4
   * sequences of 512 tokens, 13.4, 16.1 and 20.5 ms with 4096 tokens, 1519 to 1641 prompt tokens/s (llama.cpp#16894; it names the backend
   * Metal with 16 threads, not the machine). Pairs: derived, 27 TFLOPS. Memory for prompts: assumed.
   */
  '7b-m2-ultra': {
    about: 'Qwen 2 7B in 8 bits, llama-server, Apple M2 Ultra: llama.cpp#16894',
    stepUs: 10_900,
    sequenceUs: 1700,
    memoryTokenUs: 0.19,
    prefillTokenUs: 600,
    prefillPairUs: 0.03,
    maxBatchTokens: 2048,
    maxSequences: 4,
    contextTokens: 32_768,
    memory: { kind: 'slots', capacityTokens: 65_536, choice: 'similarity' },
    variation: nativeServer(0.06),
    coldStart: { loadMs: 4000, factor: 2, overMs: 1000 },
  },
  /**
   * llama-server with Llama 2 7B in 4 bits on the CPU of a desktop (13900K, DDR5-6400), four slots: 54.7 ms a token with 8 threads,
   * 18.1 ms a prompt token with 32 (llama.cpp#34). Each further sequence costs what a prompt token does; memory (512 KiB a token at 80 GB/s)
   * and pairs (the same operations a second as prompts): derived.
   */
  '7b-cpu': {
    about: 'Llama 2 7B in 4 bits, llama-server, Core i9-13900K: llama.cpp#34',
    stepUs: 36_700,
    sequenceUs: 18_000,
    memoryTokenUs: 6.5,
    prefillTokenUs: 18_110,
    prefillPairUs: 0.7,
    maxBatchTokens: 512,
    maxSequences: 4,
    contextTokens: 4096,
    memory: { kind: 'slots', capacityTokens: 16_384, choice: 'similarity' },
    variation: nativeServer(0.03),
    coldStart: { loadMs: 2000, factor: 1.5, overMs: 2000 },
  },
  /**
   * vLLM with Llama 3.1 8B in 16 bits on an H100: 6.48 and 6.59 ms between tokens with 1 and 4 requests, 14.0 ms to the first token
   * (InferenceBench, yobitelcomm.github.io/bench/recipes/concurrency-sweep); 27,670 prompt tokens/s (sglang#1060), which is 36 us a
   * token with pairs. Memory and pairs: derived, 3.35 TB/s and 989 TFLOPS. Cache: nine tenths of 80 GB less weights and 4 GB.
   */
  'vllm-8b-h100': {
    about: 'Llama 3.1 8B in 16 bits, vLLM, H100 80 GB: InferenceBench concurrency sweep, sglang#1060',
    stepUs: 6420,
    sequenceUs: 25,
    memoryTokenUs: 0.039,
    prefillTokenUs: 32,
    prefillPairUs: 0.00106,
    maxBatchTokens: 8192,
    maxSequences: 256,
    contextTokens: 131_072,
    memory: { kind: 'blocks', blocks: 24_576, blockTokens: 16 },
    variation: pythonServer(0.095),
    coldStart: { loadMs: 28_000, factor: 3, overMs: 1000 },
  },
  /** The same on an H200, derived: what reads memory takes 3.35/4.8 of the time, the rest as long; nine tenths of 141 GB. */
  'vllm-8b-h200': {
    about: 'Llama 3.1 8B in 16 bits, vLLM, H200: derived from vllm-8b-h100 by memory bandwidth',
    stepUs: 4970,
    sequenceUs: 25,
    memoryTokenUs: 0.0273,
    prefillTokenUs: 32,
    prefillPairUs: 0.00106,
    maxBatchTokens: 8192,
    maxSequences: 256,
    contextTokens: 131_072,
    memory: { kind: 'blocks', blocks: 50_900, blockTokens: 16 },
    variation: pythonServer(0.11),
    coldStart: { loadMs: 28_000, factor: 3, overMs: 1000 },
  },
  /**
   * SGLang with Llama 3.1 8B in 16 bits on an A100 80 GB: 11.93 and 14.41 ms between tokens (median) at 4 and 8 requests/s, which are 6.3
   * and 17.4 requests at a time by their durations of 1.56 and 2.18 s, 32 ms to the first token (SGLang 0.3.0, benchmark_vllm_060). Prompts are
   * evaluated before decoding goes on. Prompt tokens, pairs and memory: derived, 312 TFLOPS and 2.04 TB/s; pages of 16 tokens.
   */
  'sglang-8b-a100': {
    about: 'Llama 3.1 8B in 16 bits, SGLang, A100 80 GB: SGLang 0.3.0 benchmark_vllm_060',
    stepUs: 10_500,
    sequenceUs: 200,
    memoryTokenUs: 0.064,
    prefillTokenUs: 103,
    prefillPairUs: 0.0034,
    prefill: 'first',
    maxBatchTokens: 8192,
    maxSequences: 256,
    contextTokens: 131_072,
    memory: { kind: 'blocks', blocks: 25_600, blockTokens: 16 },
    variation: pythonServer(0.07),
    coldStart: { loadMs: 20_000, factor: 3, overMs: 1000 },
  },
  /**
   * vLLM with Llama 3.1 8B in 16 bits on an L4, all derived, since no figures of this pair were found: 16.1 GB at 80 % of 300 GB/s, 121 TFLOPS,
   * nine tenths of 24 GB less weights and 1 GB.
   */
  'vllm-8b-l4': {
    about: 'Llama 3.1 8B in 16 bits, vLLM, L4: derived from the data sheet',
    stepUs: 67_000,
    sequenceUs: 150,
    memoryTokenUs: 0.44,
    prefillTokenUs: 265,
    prefillPairUs: 0.0087,
    maxBatchTokens: 2048,
    maxSequences: 256,
    contextTokens: 8192,
    memory: { kind: 'blocks', blocks: 2200, blockTokens: 16 },
    variation: pythonServer(0.026),
    coldStart: { loadMs: 28_000, factor: 3, overMs: 3000 },
  },
  /**
   * vLLM with Llama 3.1 70B in 16 bits on four H100: 21.67 and 24.45 ms between tokens (SGLang) at 4 and 8 requests/s, which are 12 and 32.5
   * requests at a time by their durations of 3.0 and 4.06 s; vLLM has 23.58 and 29.15 ms a token there with prompts in between (SGLang
   * 0.3.0, benchmark_vllm_060). Prompt tokens, pairs and memory: derived, four times 989 TFLOPS and 3.35 TB/s.
   */
  'vllm-70b-4xh100': {
    about: 'Llama 3.1 70B in 16 bits, vLLM, 4 x H100 80 GB: SGLang 0.3.0 benchmark_vllm_060',
    stepUs: 20_000,
    sequenceUs: 120,
    memoryTokenUs: 0.0245,
    prefillTokenUs: 71,
    prefillPairUs: 0.0013,
    maxBatchTokens: 8192,
    maxSequences: 256,
    contextTokens: 131_072,
    memory: { kind: 'blocks', blocks: 26_500, blockTokens: 16 },
    variation: pythonServer(0.047),
    coldStart: { loadMs: 90_000, factor: 3, overMs: 2000 },
  },
  /**
   * Steady: decode times of 10-15 ms between tokens, about two times that with 256 sequences, as llm-d's simulator lists them for 8B on an H100;
   * the rest is arithmetic.
   */
  '8b-h100': {
    about: '8B in 16 bits on an H100, steady: every step takes what the formula says',
    stepUs: 11_500,
    sequenceUs: 20,
    memoryTokenUs: 0.039,
    prefillTokenUs: 32,
    maxBatchTokens: 2048,
    maxSequences: 256,
    contextTokens: 32_768,
    memory: { kind: 'blocks', blocks: 24_576, blockTokens: 16 },
  },
  /** Steady: 18-28 ms between tokens, about three times that with 256 sequences, as llm-d's simulator lists them for 70B on eight H100. */
  '70b-8xh100': {
    about: '70B in 16 bits on 8 x H100, steady',
    stepUs: 22_000,
    sequenceUs: 120,
    memoryTokenUs: 0.0122,
    prefillTokenUs: 36,
    maxBatchTokens: 2048,
    maxSequences: 256,
    contextTokens: 32_768,
    memory: { kind: 'blocks', blocks: 76_800, blockTokens: 16 },
  },
  /** Steady: four slots for 8B in 4 bits at about 80 GB/s, derived. */
  'small-box': {
    about: '8B in 4 bits at 80 GB/s with four slots, steady',
    stepUs: 60_000,
    sequenceUs: 4000,
    memoryTokenUs: 1.6,
    prefillTokenUs: 10_000,
    maxBatchTokens: 512,
    maxSequences: 4,
    contextTokens: 4096,
    memory: { kind: 'slots', capacityTokens: 16_384, choice: 'similarity' },
  },
  /** No machine: 20 ms whatever is in a step, 50 tokens a second for every stream. */
  even: {
    about: 'no machine: every step takes 20 ms, whatever is in it',
    stepUs: 20_000,
    sequenceUs: 0,
    memoryTokenUs: 0,
    prefillTokenUs: 0,
    maxBatchTokens: 65_536,
    maxSequences: 4096,
    contextTokens: 8192,
    memory: { kind: 'blocks', blocks: 262_144, blockTokens: 16 },
  },
} satisfies Readonly<Record<string, DefinedProfile>>;

export const PROFILES: Readonly<Record<ProfileName, DefinedProfile>> = DEFINED;

export const PROFILE_NAMES: readonly ProfileName[] = Object.keys(DEFINED) as ProfileName[];

/** A machine with slots, since the default host speaks the llama-style API. */
export const DEFAULT_PROFILE: ProfileName = '8b-rtx4090';

/** What a profile amounts to, by its formula. */
export interface ProfileFigures {
  /** Milliseconds of a step that decodes so many sequences of 1000 tokens each. */
  readonly decodeMs: (sequences: number) => number;
  /** Milliseconds from the arrival of a prompt at an idle engine to its first token. */
  readonly firstTokenMs: (promptTokens: number) => number;
  /** Tokens that the cache holds. */
  readonly cacheTokens: number;
}

export function figuresOf(profile: Profile): ProfileFigures {
  const { maxBatchTokens, memory } = profile;
  return {
    decodeMs: (sequences) => stepDurationUs(profile, sequences, sequences * 1000, 0) / 1000,
    firstTokenMs: (promptTokens) => {
      let us = 0;
      for (let from = 0; from < promptTokens; from += maxBatchTokens) {
        const chunk = Math.min(maxBatchTokens, promptTokens - from);
        us += stepDurationUs(profile, 0, 0, chunk, chunk * from + (chunk * (chunk + 1)) / 2);
      }
      return us / 1000;
    },
    cacheTokens: memory.kind === 'slots' ? memory.capacityTokens : memory.blocks * memory.blockTokens,
  };
}

/** Heads and cells of a table of the profiles. Contexts have 1000 tokens; a prompt beyond the context of a profile has no time. */
export function profileTable(): { readonly heads: readonly string[]; readonly rows: readonly (readonly string[])[] } {
  const heads = ['profile', 'ms/token', 'with 16', 'first of 1k', 'first of 32k', 'KV tokens', 'what it is'];
  const written = (ms: number): string => (ms < 100 ? ms.toFixed(1) : ms.toFixed(0));
  const rows = PROFILE_NAMES.map((name) => {
    const profile = PROFILES[name];
    const { decodeMs, firstTokenMs, cacheTokens } = figuresOf(profile);
    const most = Math.min(16, profile.maxSequences);
    const long = profile.contextTokens > 32_000 ? written(firstTokenMs(32_000)) : '-';
    const times = [written(decodeMs(1)), written(decodeMs(most)), written(firstTokenMs(1000)), long];
    return [name, ...times, String(cacheTokens), profile.about];
  });
  return { heads, rows };
}
