// Dialects as settings name them, and a bit for each, so that the dialects of a server are one number.

/** By the word of the settings. */
export const DIALECT_BITS = { chat: 1, completions: 2, responses: 4, messages: 8, llama: 16 } as const;

/** A dialect as settings name it. */
export type DialectWord = keyof typeof DIALECT_BITS;

/** The words, in the order of their bits. */
export const DIALECT_WORDS: readonly DialectWord[] = Object.keys(DIALECT_BITS) as DialectWord[];

/** What settings say of the dialects of a server. `auto`: they are found out. */
export type DialectsSetting = 'auto' | readonly DialectWord[];

/** Whether a value is `auto` or a list of one or more dialects. */
export function isDialectsSetting(value: unknown): value is DialectsSetting {
  if (!Array.isArray(value)) return value === 'auto';
  return value.length > 0 && value.every((word) => DIALECT_WORDS.includes(word as DialectWord));
}

/** The dialects of a server as `Member.dialects`. */
export function declaredDialects(setting: DialectsSetting): number {
  return setting === 'auto' ? 0 : dialectMask(setting);
}

/** The bits of these dialects. */
export function dialectMask(words: readonly DialectWord[]): number {
  let mask = 0;
  for (const word of words) mask |= DIALECT_BITS[word];
  return mask;
}

/** The words of these bits. */
export function dialectWords(mask: number): DialectWord[] {
  return DIALECT_WORDS.filter((word) => (mask & DIALECT_BITS[word]) !== 0);
}
