// Selects the passage of a text with the most words of a query, as the snippet of a hit.

import { placedWords, type Word } from './words.ts';

const SNIPPET_LENGTH = 300;
/** Characters before the first match, so that it can be read in context. */
const LEAD_LENGTH = 40;
/** Enough places of a frequent word to find a good passage. */
const MAX_MATCHES = 500;

/**
 * At most 300 characters of `text` around the place where most of `terms` (folded words) stand together; the beginning
 * where none occurs. Cut at words, with an ellipsis where text was left out.
 */
export function snippet(text: string, terms: ReadonlySet<string>): string {
  if (text.length <= SNIPPET_LENGTH) return text;
  const matches: Word[] = [];
  for (const word of placedWords(text)) {
    if (terms.has(word.folded)) matches.push(word);
    if (matches.length === MAX_MATCHES) break;
  }
  const start = Math.max(0, bestStart(matches) - LEAD_LENGTH);
  const from = start === 0 ? 0 : afterSpace(text, start);
  const end = Math.min(text.length, from + SNIPPET_LENGTH);
  const to = end === text.length ? end : beforeSpace(text, end, from);
  return `${from > 0 ? '…' : ''}${text.slice(from, to).trim()}${to < text.length ? '…' : ''}`;
}

/** Where the passage with the most different terms begins, the first of the best. */
function bestStart(matches: readonly Word[]): number {
  const inside = new Map<string, number>();
  let best = { distinct: 0, start: 0 };
  let last = 0;
  for (const first of matches) {
    for (let word = matches[last]; word !== undefined; word = matches[++last]) {
      if (word.end - first.start > SNIPPET_LENGTH - LEAD_LENGTH) break;
      inside.set(word.folded, (inside.get(word.folded) ?? 0) + 1);
    }
    if (inside.size > best.distinct) best = { distinct: inside.size, start: first.start };
    const count = inside.get(first.folded) ?? 0;
    if (count <= 1) inside.delete(first.folded);
    else inside.set(first.folded, count - 1);
  }
  return best.start;
}

/** Text without spaces is cut where it is, but never inside a surrogate pair. */
function afterSpace(text: string, from: number): number {
  const space = text.indexOf(' ', from - 1);
  if (space >= 0 && space < from + LEAD_LENGTH) return space + 1;
  return isLowSurrogate(text, from) ? from + 1 : from;
}

function beforeSpace(text: string, end: number, from: number): number {
  const space = text.lastIndexOf(' ', end);
  if (space > from + SNIPPET_LENGTH / 2) return space;
  return isLowSurrogate(text, end) ? end - 1 : end;
}

function isLowSurrogate(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xdc00;
}
