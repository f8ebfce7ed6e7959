// Splits text into words, equally for index, query and snippet: runs of letters and digits, single ideographs and kana, words of a
// dictionary where a script of letters has no spaces; folded to lower case without accents.

/** Ideographs and kana are matched character by character: all characters of a query must occur. */
const WORD = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]|[[\p{L}\p{M}\p{N}]--[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}]]+/gv;

/** Scripts of few letters without spaces. */
const UNSPACED = /[\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/u;
const SEGMENTER = new Intl.Segmenter('th', { granularity: 'word' });

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
  return UNSPACED.test(text) ? Array.from(written(text), ([word]) => word) : (text.match(WORD) ?? []);
}

/** The words of a text, as written, with their places. */
function* written(text: string): Generator<readonly [word: string, start: number]> {
  for (const { 0: run, index } of text.matchAll(WORD)) {
    if (!UNSPACED.test(run)) yield [run, index];
    else for (const { index: at, segment } of SEGMENTER.segment(run)) yield [segment, index + at];
  }
}

/** The words of a text with their places, one at a time. */
export function* placedWords(text: string): Generator<Word> {
  for (const [word, start] of written(text)) {
    const folded = fold(word);
    if (folded !== null) yield { folded, start, end: start + word.length };
  }
}

/** The form words are compared in; null for what is not indexed. */
export function fold(word: string): string | null {
  if (word.length > MAX_WORD_LENGTH) return null;
  if (ASCII.test(word)) return word.toLowerCase();
  const folded = word.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return folded === '' ? null : folded;
}
