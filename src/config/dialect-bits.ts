// Dialects as settings name them, and a bit for each, so that the dialects of a server are one number.

/** By the word of the settings. */
export const DIALECT_BITS = { chat: 1, completions: 2, responses: 4, messages: 8, llama: 16 } as const;

/** A dialect as settings name it. */
export type DialectWord = keyof typeof DIALECT_BITS;

/** The bits of these dialects. */
export function dialectMask(words: readonly DialectWord[]): number {
  let mask = 0;
  for (const word of words) mask |= DIALECT_BITS[word];
  return mask;
}
