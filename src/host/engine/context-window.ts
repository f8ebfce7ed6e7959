// Truncation of prompts and shifting of full contexts, with the arithmetic of llama.cpp's server. Pure functions.
/** Tokens that have to stay free after the kept ones. */
const LEAST_FREE_TOKENS = 4;

/** The kept tokens of a prompt: negative is all of it, and some room is always left to move in. */
export function keptTokens(keepTokens: number, promptTokens: number, contextTokens: number): number {
  const wanted = keepTokens < 0 ? promptTokens : Math.min(keepTokens, promptTokens);
  return Math.min(wanted, contextTokens - LEAST_FREE_TOKENS);
}

/**
 * The prompt itself when it is shorter than the context. Otherwise a copy without whole blocks, each half of the context
 * that is not kept, from behind the kept tokens, until it fits.
 */
export function truncatePrompt(prompt: Int32Array, contextTokens: number, keepTokens: number): Int32Array {
  if (prompt.length < contextTokens) return prompt;
  const kept = keptTokens(keepTokens, prompt.length, contextTokens);
  const block = Math.floor((contextTokens - kept) / 2);
  const dropped = Math.floor((prompt.length - kept - block) / block) * block;
  const short = new Int32Array(prompt.length - dropped);
  short.set(prompt.subarray(0, kept));
  short.set(prompt.subarray(kept + dropped), kept);
  return short;
}

/** Tokens a shift drops from behind the kept ones. */
export function shiftedTokens(length: number, kept: number): number {
  return Math.floor((length - kept - 1) / 2);
}
