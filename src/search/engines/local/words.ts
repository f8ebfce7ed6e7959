// Splits text into words, equally for index, query and snippet: runs of letters and digits, single ideographs and kana,
// folded to lower case without accents.

/** Scripts without spaces are matched character by character: all characters of a query must occur. */
const WORD = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]|[[\p{L}\p{M}\p{N}]--[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]]+/gv;

/** Longer words are encoded data, which would fill the index and are never searched for. */
const MAX_WORD_LENGTH = 64;

/** Only their case is folded: normalising them would take most of the time of a query. */
const ASCII = /^[a-z0-9]+$/i;

export interface Word {
  readonly folded: string;
  readonly start: number;
  readonly end: number;
}

/** The words of a text, as written. */
export function words(text: string): string[] {
  return text.match(WORD) ?? [];
}

/** The words of a text with their places, one at a time. */
export function* placedWords(text: string): Generator<Word> {
  for (const match of text.matchAll(WORD)) {
    const folded = fold(match[0]);
    if (folded !== null) yield { folded, start: match.index, end: match.index + match[0].length };
  }
}

/** The form words are compared in; null for what is not indexed. */
export function fold(word: string): string | null {
  if (word.length > MAX_WORD_LENGTH) return null;
  if (ASCII.test(word)) return word.toLowerCase();
  const folded = word.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return folded === '' ? null : folded;
}
