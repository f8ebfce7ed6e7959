// Where a piece of content may end. Pieces that follow each other by their ends are the whole content, whatever was asked for; each ends
// at a boundary of its format where one is near, and never inside a character as it is displayed, a tag, or a character reference.

import type { PageFormat } from '../extract/index.ts';

export interface Piece {
  readonly from: number;
  readonly to: number;
  /** What the piece ends in the middle of, where a reader of the format must know; null: nothing such. */
  readonly cutInside: CutInside | null;
}

/** A fenced code block or a table of Markdown, or an element of HTML. */
export type CutInside = 'code' | 'element' | 'table';

/** A piece ends at a boundary only where that leaves at least this share of it. */
const LEAST_SHARE = 1 / 2;

/** A code block or table that does not fit begins the next piece where at least this share of the piece is left without it. */
const LEAST_BEFORE_BLOCK = 1 / 8;

/** Longer runs of characters that are displayed as one are cut: they are no text. */
const LONGEST_GRAPHEME = 64;

/** `&quot;` is the longest character reference that is written. */
const LONGEST_REFERENCE = 6;

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/**
 * The piece of at most `most` code units from `start` on, or of one character or tag that is longer. It ends after a paragraph where one
 * ends in its second half, else after a line, a sentence or a word. In Markdown it ends before a code block or a table that does not fit
 * any more; in HTML after the last whole element that fits.
 */
export function pieceOf(content: string, start: number, most: number, format: PageFormat): Piece {
  let from = Math.min(start, content.length);
  if (isInsidePair(content, from)) from--;
  if (content.length - from <= most) return { from, to: content.length, cutInside: null };
  const range = { from, limit: from + most, least: from + Math.ceil(most * LEAST_SHARE) };
  if (format === 'html') return htmlPiece(content, range);
  if (format === 'markdown') return markdownPiece(content, range);
  return { from, to: firstEnd(content, range), cutInside: null };
}

interface Range {
  readonly from: number;
  /** The piece ends here at the latest, and at `least` or later where it can. */
  readonly limit: number;
  readonly least: number;
}

/** Ends of paragraphs, lines, sentences and words, in scripts with spaces and without. */
const MARKS: readonly (readonly string[])[] = [['\n\n'], ['\n'], ['. ', '! ', '? ', '。', '！', '？'], [' ']];

/** The best end of a piece of text. */
function firstEnd(content: string, { from, least, limit }: Range): number {
  const piece = content.slice(from, limit);
  for (const marks of MARKS) {
    const ends = marks.map((mark) => {
      const at = piece.lastIndexOf(mark);
      return at === -1 ? 0 : from + at + mark.length;
    });
    const end = Math.max(...ends);
    if (end >= least && end > from) return end;
  }
  return graphemeEnd(content, from, limit);
}

function markdownPiece(content: string, range: Range): Piece {
  const { from, limit } = range;
  const to = firstEnd(content, range);
  const block = codeAround(content, to) ?? tableAround(content, from, to);
  if (block === null) return { from, to, cutInside: null };
  const isWorth = block.start - from >= (limit - from) * LEAST_BEFORE_BLOCK && block.start > from;
  return isWorth ? { from, to: block.start, cutInside: null } : { from, to, cutInside: block.kind };
}

interface AroundBlock {
  readonly kind: 'code' | 'table';
  /** Of its first line. */
  readonly start: number;
}

/** Marks of quotes, lists and footnotes before the first line of a block, and indentation. */
const MARKERS = /^(?:[ >]|[-*+] |\d{1,9}[.)] |\[\^[^\]\s]*\]: )*$/;
const ROW = /^(?:[ >]|[-*+] |\d{1,9}[.)] |\[\^[^\]\s]*\]: )*\|/;

/** Longer starts of lines hold text. */
const MAX_MARKERS = 200;

/**
 * The fenced code block that a position is in (CommonMark 0.31.2, section 4.5), by fences of backticks, which the writer uses. A fence is
 * the first run of backticks in its line. Linear in the position.
 */
function codeAround(content: string, position: number): AroundBlock | null {
  let open: { start: number; length: number } | null = null;
  for (let at = content.indexOf('```'); at !== -1 && at < position;) {
    const end = endOfBackticks(content, at + 3);
    const lineEnd = indexOrEnd(content, '\n', end);
    if (open === null) {
      const start = fenceLine(content, at);
      // The text after an opening fence has no backticks: what has is code within a line.
      if (start !== null && start < position && (end === lineEnd || !content.slice(end, lineEnd).includes('`')))
        open = { start, length: end - at };
    } else if (end - at >= open.length) {
      // The longest run within the code is shorter than its fence.
      if (position <= lineEnd && lineEnd < content.length) return { kind: 'code', start: open.start };
      open = null;
    }
    at = content.indexOf('```', lineEnd);
  }
  return open === null ? null : { kind: 'code', start: open.start };
}

/** The start of a line whose text begins at `at`; null where other text is before it. */
function fenceLine(content: string, at: number): number | null {
  if (at === 0) return at;
  const unit = content.charCodeAt(at - 1);
  if (unit === LINE_FEED) return at;
  // Every mark ends with one of the two.
  if (unit !== SPACE && unit !== GREATER_THAN) return null;
  const least = Math.max(0, at - MAX_MARKERS);
  const before = content.slice(least, at);
  const end = before.lastIndexOf('\n');
  if (end === -1 && least > 0) return null;
  return MARKERS.test(before.slice(end + 1)) ? least + end + 1 : null;
}

/** The table that a position is in: between two of its rows, or in one. Where it begins matters only behind `from`. */
function tableAround(content: string, from: number, position: number): AroundBlock | null {
  const line = content.lastIndexOf('\n', position - 1) + 1;
  if (!isRow(content, line)) return null;
  let start = line;
  while (start > from && start > 1) {
    const before = content.lastIndexOf('\n', start - 2) + 1;
    if (!isRow(content, before)) break;
    start = before;
  }
  return start === position ? null : { kind: 'table', start };
}

function isRow(content: string, line: number): boolean {
  return ROW.test(content.slice(line, line + MAX_MARKERS));
}

/** In the HTML that is written, `<` and `>` stand in tags alone, and a line begins with a tag only where an element of the content begins. */
function htmlPiece(content: string, range: Range): Piece {
  const { from, limit } = range;
  for (let at = content.lastIndexOf('\n<', limit - 1); at > from; at = content.lastIndexOf('\n<', at - 1)) {
    if (content.charAt(at + 2) !== '/') return { from, to: at + 1, cutInside: null };
  }
  return { from, to: outsideOfMarkup(content, from, elementEnd(content, range)), cutInside: 'element' };
}

/** Elements in which a cut tears the least. */
const CLOSING = ['</li>', '</tr>', '</p>', '</dd>', '</blockquote>'];

function elementEnd(content: string, range: Range): number {
  const { from, least, limit } = range;
  const piece = content.slice(from, limit);
  const ends = CLOSING.map((tag) => {
    const at = piece.lastIndexOf(tag);
    return at === -1 ? 0 : from + at + tag.length;
  });
  const end = Math.max(...ends);
  return end >= least && end > from ? end : firstEnd(content, range);
}

/** Moves an end out of a tag or a character reference: before it, or after one that the piece begins with. */
function outsideOfMarkup(content: string, from: number, to: number): number {
  const open = content.lastIndexOf('<', to - 1);
  if (open >= from && content.lastIndexOf('>', to - 1) < open)
    return open > from ? open : Math.min(content.length, indexOrEnd(content, '>', to) + 1);
  const reference = content.lastIndexOf('&', to - 1);
  const isInside =
    reference >= from && to - reference < LONGEST_REFERENCE && !content.slice(reference, to).includes(';');
  if (!isInside) return to;
  return reference > from ? reference : Math.min(content.length, indexOrEnd(content, ';', to) + 1);
}

/** The last end of a displayed character at or before `limit`, else the first one after `from`. */
function graphemeEnd(content: string, from: number, limit: number): number {
  const begin = Math.max(from, limit - LONGEST_GRAPHEME);
  const window = content.slice(begin, limit + LONGEST_GRAPHEME);
  const { index = 0, segment = '' } = GRAPHEMES.segment(window).containing(limit - begin) ?? {};
  const last = begin + index;
  if (last > from && !isInsidePair(content, last)) return last;
  const next = last + segment.length;
  return isInsidePair(content, next) ? next + 1 : Math.max(next, from + 1);
}

function isInsidePair(text: string, at: number): boolean {
  const [before, unit] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  return before >= 0xd800 && before < 0xdc00 && unit >= 0xdc00 && unit < 0xe000;
}

const BACKTICK = 96;
const GREATER_THAN = 62;
const LINE_FEED = 10;
const SPACE = 32;

/** Runs may be as long as the content: the expression is several times as fast as a loop over them. */
const BACKTICKS = /`*/y;

function endOfBackticks(content: string, from: number): number {
  if (content.charCodeAt(from) !== BACKTICK) return from;
  BACKTICKS.lastIndex = from;
  BACKTICKS.test(content);
  return BACKTICKS.lastIndex;
}

function indexOrEnd(text: string, mark: string, from: number): number {
  const at = text.indexOf(mark, from);
  return at === -1 ? text.length : at;
}
