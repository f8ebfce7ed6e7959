// Rebuilds paragraphs, headings, lists and tables of a PDF from pieces of text with positions, and writes them as HTML. Columns are
// read one after the other; running headers and footers and page numbers are left out.

import { escapeText } from 'entities';

/** A piece of text on a page; lengths in points, x from the left and y from the lower edge. */
export interface Fragment {
  readonly text: string;
  readonly x: number;
  /** Of the base line. */
  readonly y: number;
  readonly width: number;
  /** Of the font. */
  readonly size: number;
  readonly isRightToLeft: boolean;
}

/** The text of a page. */
export interface PageText {
  /** Upright text, in the order of the file. */
  readonly fragments: readonly Fragment[];
  /** Lines that are not laid out: vertical and turned text, in the order of the file. */
  readonly others: readonly string[];
  readonly height: number;
}

/** Text of one line without wide gaps: a line of a column, or a cell of a table. */
interface Segment {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly y: number;
  readonly size: number;
}

/** A line of a column: more than one segment where it is a row. */
interface Line {
  readonly segments: readonly Segment[];
  readonly y: number;
  readonly left: number;
  readonly right: number;
  readonly size: number;
  readonly text: string;
}

interface Block {
  readonly kind: 'paragraph' | 'table';
  readonly text: string;
  readonly size: number;
  readonly rows: readonly (readonly string[])[];
}

/** The pages as HTML. */
export function htmlOfPages(pages: readonly PageText[]): string {
  const segments = pages.map(({ fragments }) => segmentsOf(fragments));
  const running = runningSegments(pages, segments);
  const blocks: Block[] = [];
  pages.forEach(({ others }, index) => {
    const all = segments[index] ?? [];
    const kept = all.filter((segment) => !running.has(segment));
    // A page that has nothing else is not a page with a header.
    for (const column of columnsOf(kept.length === 0 ? all : kept))
      continueParagraph(blocks, blocksOf(linesOf(column)));
    for (const text of others) blocks.push({ kind: 'paragraph', text, size: 0, rows: [] });
  });
  return write(blocks);
}

// --- Lines -----------------------------------------------------------------------------------------------------------------

/** A wider gap, in font sizes, separates columns and cells. */
const WIDE_GAP = 1.4;
/** A wider gap separates words, where the file has no space. */
const WORD_GAP = 0.18;

/**
 * Joins fragments on the same base line that are close to each other. On a page that is read from the right, places are those in a mirror,
 * so that columns, cells and indents are as on others.
 */
function segmentsOf(fragments: readonly Fragment[]): Segment[] {
  const sorted = fragments
    .filter(({ text }) => text.trim() !== '')
    .toSorted((left, right) => right.y - left.y || left.x - right.x);
  const segments: Segment[] = [];
  for (let from = 0; from < sorted.length;) {
    let largest = sorted[from] as Fragment;
    let to = from + 1;
    for (; to < sorted.length && isOnLine(largest, sorted[to] as Fragment); to++)
      if ((sorted[to] as Fragment).size > largest.size) largest = sorted[to] as Fragment;
    for (const segment of joinedOnLine(sorted.slice(from, to))) segments.push(segment);
    from = to;
  }
  if (!isRightToLeft(sorted)) return segments;
  return segments.map((segment) => ({ ...segment, left: -segment.right, right: -segment.left }));
}

/** Base lines of one line of text differ by less, in sizes of its text. */
const SAME_LINE = 0.4;
/** The same of superscripts and subscripts, in sizes of the larger text, and their size in these. */
const SCRIPT_LINE = 0.55;
const MIN_SCRIPT_SIZE = 0.45;
const MAX_SCRIPT_SIZE = 0.9;

/** Much larger text, such as an initial or a watermark, stands beside lines that stay apart. */
function isOnLine(above: Fragment, below: Fragment): boolean {
  const distance = above.y - below.y;
  const larger = Math.max(above.size, below.size);
  const smaller = Math.min(above.size, below.size);
  if (smaller < MIN_SCRIPT_SIZE * larger) return distance < SAME_LINE * smaller;
  return distance < (smaller < MAX_SCRIPT_SIZE * larger ? SCRIPT_LINE : SAME_LINE) * larger;
}

/** Whether most text is right-to-left. */
function isRightToLeft(parts: readonly Fragment[]): boolean {
  return parts.reduce((sum, { text, isRightToLeft: isTurned }) => sum + (isTurned ? text.length : -text.length), 0) > 0;
}

function joinedOnLine(line: readonly Fragment[]): Segment[] {
  const segments: Segment[] = [];
  let parts: Fragment[] = [];
  let right = -Infinity;
  for (const fragment of line.toSorted((one, other) => one.x - other.x)) {
    const before = parts.at(-1);
    if (isDrawnAgain(before, fragment)) continue;
    if (before !== undefined && fragment.x - right > WIDE_GAP * Math.max(before.size, fragment.size)) {
      segments.push(segmentOf(parts, right));
      parts = [];
      right = -Infinity;
    }
    parts.push(fragment);
    right = Math.max(right, fragment.x + fragment.width);
  }
  if (parts.length > 0) segments.push(segmentOf(parts, right));
  return segments;
}

/** Size and base line are those of the longest fragment: others are initials, superscripts and symbols. */
function segmentOf(parts: readonly Fragment[], right: number): Segment {
  const { size, y } = parts.reduce((longest, part) => (part.text.length > longest.text.length ? part : longest));
  return { text: textOf(parts), left: (parts[0] as Fragment).x, right, y, size };
}

/** A text that is drawn again with a small shift is bold, or has a shadow. The same letter twice in a word stands further off. */
const MAX_SHIFT = 0.2;

function isDrawnAgain(last: Fragment | undefined, { size, text, width, x, y }: Fragment): boolean {
  if (last?.text !== text) return false;
  return x - last.x < Math.min(MAX_SHIFT * size, width / 2) && Math.abs(y - last.y) < MAX_SHIFT * size;
}

/** The text of fragments from left to right; a line that is mostly right-to-left is read from the right. */
function textOf(parts: readonly Fragment[]): string {
  const turned = isRightToLeft(parts);
  const ordered = turned ? parts.toReversed() : parts;
  let line = '';
  let previous: Fragment | undefined;
  for (const part of ordered) {
    if (previous !== undefined) {
      const [left, right] = turned ? [part, previous] : [previous, part];
      const gap = right.x - (left.x + left.width);
      const isDense = DENSE_END.test(previous.text) || DENSE_START.test(part.text);
      if (gap > WORD_GAP * part.size && !isDense) line += ' ';
    }
    line += part.text;
    previous = part;
  }
  return line.split(/\s+/).join(' ').trim();
} // oxfmt-ignore

/** Lines of one column from the top, with cells of the same base line together. */
function linesOf(column: readonly Segment[]): Line[] {
  const lines: Segment[][] = [];
  for (const segment of column.toSorted((above, below) => below.y - above.y)) {
    const line = lines.at(-1);
    const isSame = line !== undefined && (line[0] as Segment).y - segment.y < 0.4 * segment.size;
    if (isSame) line.push(segment);
    else lines.push([segment]);
  }
  return lines.map((unsorted) => {
    const segments = unsorted.toSorted((left, right) => left.left - right.left);
    const [first] = segments as [Segment, ...Segment[]];
    return {
      segments,
      y: first.y,
      left: first.left,
      right: extentOf(segments).to,
      size: segments.reduce((most, { size }) => Math.max(most, size), 0),
      text: segments.map(({ text }) => text).join(' '),
    };
  });
}

// --- Columns ---------------------------------------------------------------------------------------------------------------

const MIN_COLUMN_LINES = 4;
/** Pages have no more columns than two to this power. */
const MAX_SPLITS = 3;
/** Lines that cross the space between columns, such as headings, per line in the columns. */
const MAX_CROSSING = 0.35;
/** Columns of text fill their width; cells do not. */
const MIN_FILL = 0.55;
const MIN_COLUMN_CHARACTERS = 14;

/** The segments of a page, divided into columns in reading order. Segments over several columns divide these. */
function columnsOf(segments: readonly Segment[], depth = 0): Segment[][] {
  const gutter = depth >= MAX_SPLITS ? null : gutterOf(segments);
  if (gutter === null) return segments.length === 0 ? [] : [[...segments]];
  const groups: Segment[][] = [];
  let left: Segment[] = [];
  let right: Segment[] = [];
  let across: Segment[] = [];
  const endColumns = (): void => {
    groups.push(...columnsOf(left, depth + 1), ...columnsOf(right, depth + 1));
    [left, right] = [[], []];
  };
  for (const segment of segments.toSorted((above, below) => below.y - above.y)) {
    if (segment.left < gutter && segment.right > gutter) {
      if (left.length + right.length > 0) endColumns();
      across.push(segment);
      continue;
    }
    if (across.length > 0) groups.push(across);
    across = [];
    (segment.right <= gutter ? left : right).push(segment);
  }
  if (across.length > 0) groups.push(across);
  endColumns();
  return groups;
}

/** The middle of the space between two columns of text, each of which may be two itself where `inner` is true; null where there are none. */
function gutterOf(segments: readonly Segment[], inner = true): number | null {
  if (segments.length < 2 * MIN_COLUMN_LINES) return null;
  const { from, to } = extentOf(segments);
  const width = Math.ceil(to - from);
  if (!(width > 50 && width < 20_000)) return null;
  // The number of segments over each point of the width, by its changes.
  const changes = new Int32Array(width + 2);
  for (const { left, right } of segments) {
    changes[Math.floor(left - from)]! += 1;
    changes[Math.min(Math.ceil(right - from), width + 1)]! -= 1;
  }
  const spaces: { middle: number; crossing: number; length: number }[] = [];
  let over = 0;
  let start = -1;
  let crossing = 0;
  for (let at = 0; at <= width; at++) {
    over += changes[at] as number;
    const isInside = at > 0.15 * width && at < 0.85 * width;
    if (isInside && start !== -1 && over === crossing) continue;
    if (start !== -1 && at - start >= MIN_GUTTER)
      spaces.push({ middle: from + (start + at) / 2, crossing, length: at - start });
    [start, crossing] = isInside ? [at, over] : [-1, 0];
  }
  const likely = spaces.toSorted((left, right) => left.crossing - right.crossing || right.length - left.length);
  const tried = likely.slice(0, inner ? MAX_TRIED : MAX_TRIED_INNER);
  return tried.find(({ middle }) => areColumns(segments, middle, inner))?.middle ?? null;
}

/** Spaces that are checked, the most likely first. */
const MAX_TRIED = 6;
const MAX_TRIED_INNER = 2;
/** Narrower spaces are between words that happen to stand below each other. */
const MIN_GUTTER = 6;

function areColumns(segments: readonly Segment[], gutter: number, inner: boolean): boolean {
  const left = segments.filter(({ right }) => right <= gutter);
  const right = segments.filter((segment) => segment.left >= gutter);
  const crossing = segments.length - left.length - right.length;
  if (Math.min(left.length, right.length) < MIN_COLUMN_LINES) return false;
  if (crossing > MAX_CROSSING * (left.length + right.length)) return false;
  return [left, right].every((side) => isText(side) || (inner && gutterOf(side, false) !== null));
}

function extentOf(segments: readonly Segment[]): { readonly from: number; readonly to: number } {
  let [from, to] = [Infinity, -Infinity];
  for (const { left, right } of segments) {
    from = Math.min(from, left);
    to = Math.max(to, right);
  }
  return { from, to };
}

/** Whether segments are lines of text: most fill the width, and have more than a few words. */
function isText(segments: readonly Segment[]): boolean {
  const { from, to } = extentOf(segments);
  const fill = median(segments.map(({ left, right }) => (right - left) / Math.max(to - from, 1)));
  const characters = median(segments.map(({ text }) => (DENSE_END.test(text) ? 3 : 1) * text.length));
  return fill >= MIN_FILL && characters >= MIN_COLUMN_CHARACTERS;
}

// --- Running headers and footers -------------------------------------------------------------------------------------------

/** Lines at the upper and lower edge that may be running ones. */
const EDGE_LINES = 3;
const PAGE_NUMBER =
  /^(?:[-–—|\s]*(?:page|seite|página|p\.)?\s*(?:\d{1,4}|[ivxlc]{1,7})(?:\s*(?:\/|of|von|de|sur)\s*\d{1,4})?[-–—|\s]*)$/iu;

/** Text at the edges that comes again on other pages, and page numbers. */
function runningSegments(pages: readonly PageText[], segments: readonly (readonly Segment[])[]): ReadonlySet<Segment> {
  const edges = pages.map(({ height }, index) => edgesOf(linesOf(segments[index] ?? []), height));
  const counts = countOf(edges.map((lines) => lines.map(keyOf)));
  const offsets = countOf(edges.map((lines, index) => lines.flatMap((line) => numbersOf(line, index))));
  const needed = Math.max(2, Math.min(3, pages.length));
  const running = new Set<Segment>();
  edges.forEach((lines, index) => {
    const height = pages[index]?.height ?? 0;
    for (const line of lines) {
      const isAtEdge = line.y < 0.09 * height || line.y > 0.92 * height;
      const isRepeated = (counts.get(keyOf(line)) ?? 0) >= needed && (pages.length > 2 || isAtEdge);
      const isNumbered = numbersOf(line, index).some((offset) => (offsets.get(offset) ?? 0) >= NUMBERED_PAGES);
      const isPageNumber = isAtEdge && pages.length > 1 && PAGE_NUMBER.test(line.text);
      if (isRepeated || isNumbered || isPageNumber) for (const segment of line.segments) running.add(segment);
    }
  });
  return running;
}

/** Number of pages that have each value. */
function countOf<T>(pages: readonly (readonly T[])[]): ReadonlyMap<T, number> {
  const counts = new Map<T, number>();
  for (const values of pages) for (const value of new Set(values)) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/** The first and last lines of a page, within its upper and lower sixth. */
function edgesOf(lines: readonly Line[], height: number): Line[] {
  const sorted = lines.toSorted((above, below) => below.y - above.y);
  const isNearEdge = ({ y }: Line): boolean => y > 0.84 * height || y < 0.16 * height;
  return [...new Set([...sorted.slice(0, EDGE_LINES), ...sorted.slice(-EDGE_LINES)])].filter(isNearEdge);
}

/** Lines with a number that grows with the pages are running ones when so many pages have them. */
const NUMBERED_PAGES = 3;
const MAX_RUNNING_CHARACTERS = 120;

/** The distance of the numbers at both ends of a line from the page at `index`. */
function numbersOf({ text }: Line, index: number): number[] {
  if (text.length > MAX_RUNNING_CHARACTERS || LEADERS.test(text)) return [];
  return [/^\d{1,4}(?=\s|$)/, /(?<=^|\s)\d{1,4}$/].flatMap((pattern) => {
    const number = pattern.exec(text)?.[0];
    return number === undefined ? [] : [Number(number) - index];
  });
}

/** The text without numbers and case, with its rough position. */
function keyOf({ text, y }: Line): string {
  return `${Math.round(y / 12)} ${text.replaceAll(/\d+/g, '#').toLowerCase()}`;
}

// --- Blocks ----------------------------------------------------------------------------------------------------------------

const DENSE_END = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}。、，：；）」』】]$/u;
const DENSE_START = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}。、，：；（「『【]/u;
const SENTENCE_END = /[.!?:;。！？؟।…"'”’)\]]$/;
const BULLET = /^(?:[•◦▪‣●○■□∙·\uf0b7\uf0a7]|[-–*](?=\s))\s*/u;
/** Dots between an entry of a table of contents and its page. */
const LEADERS = /(?:[.·]\s?){4,}\s*[\divxlc]+$/i;
/** Characters at the end of a line that are looked through for them, since that takes time by their square. */
const MAX_LEADERS = 100;
const NUMBERED = /^(?:\d{1,3}[.)]|\(?[a-z]\))\s/i;

function blocksOf(lines: readonly Line[]): Block[] {
  const blocks: Block[] = [];
  /** Of the paragraph under way. */
  let text = '';
  const usualGap = usualGapsOf(lines);
  let first = lines[0] as Line;
  let previous: Line | undefined;
  for (let at = 0; at < lines.length; at++) {
    const end = tableEnd(lines, at);
    if (end > at) {
      blocks.push(tableOf(lines.slice(at, end)));
      previous = undefined;
      at = end - 1;
      continue;
    }
    const line = lines[at] as Line;
    const block = blocks.at(-1);
    if (previous === undefined || block === undefined || isBreak(first, previous, line, usualGap(line.size))) {
      text = '';
      blocks.push({ kind: 'paragraph', text: line.text, size: line.size, rows: [] });
      first = line;
    } else {
      // To look at the text, rather than at its last line, would take time for all of it.
      text += written(previous.text, line.text);
      blocks[blocks.length - 1] = { ...block, text: text + line.text };
    }
    previous = line;
  }
  return blocks;
}

/** Whether a paragraph that began with `first` ends between two lines: by the gap, the size, a list mark, or the indents. */
function isBreak(first: Line, above: Line, below: Line, usualGap: number): boolean {
  const gap = above.y - below.y;
  const size = Math.max(above.size, below.size);
  if (gap > 1.3 * Math.max(usualGap, size)) return true;
  if (Math.abs(above.size - below.size) > 0.15 * size) return true;
  if (BULLET.test(below.text) || LEADERS.test(above.text.slice(-MAX_LEADERS))) return true;
  if (BULLET.test(first.text) && below.left < first.left + 0.2 * size) return true;
  const ended = SENTENCE_END.test(above.text);
  if (NUMBERED.test(below.text) && (ended || NUMBERED.test(above.text))) return true;
  if (ended && above !== first && above.left - below.left > 0.8 * size) return true;
  return ended && below.left - above.left > 0.8 * size && !BULLET.test(above.text);
}

/** Adds the blocks of a column; a paragraph that the column before cut off goes on. */
function continueParagraph(blocks: Block[], added: readonly Block[]): void {
  const [first, ...rest] = added;
  if (first === undefined) return;
  const last = blocks.at(-1);
  const end = last?.text.slice(-LONGEST_END) ?? '';
  const goesOn =
    last?.kind === 'paragraph' &&
    first.kind === 'paragraph' &&
    Math.abs(last.size - first.size) < 0.1 * first.size &&
    last.text.length > 40 &&
    !SENTENCE_END.test(end) &&
    (/^\p{Ll}/u.test(first.text) || DENSE_END.test(end) || HYPHEN_END.test(end));
  if (goesOn) blocks[blocks.length - 1] = { ...last, text: written(last.text, first.text) + first.text };
  else blocks.push(first);
  for (const block of rest) blocks.push(block);
}

const HYPHEN_END = /\p{Ll}[-\u00ad\u2010]$/u;
/** UTF-16 code units that the end of a line is judged by. */
const LONGEST_END = 3;

/** A text as it is written before the next line: hyphenated words without the hyphen, scripts without spaces without one. */
function written(above: string, below: string): string {
  const end = above.slice(-LONGEST_END);
  if (HYPHEN_END.test(end) && /^\p{Ll}/u.test(below)) return above.slice(0, -1);
  return DENSE_END.test(end) && DENSE_START.test(below) ? above : `${above} `;
}

const MIN_ROWS = 2;
/** Lines with more parts are drawings. */
const MAX_CELLS = 40;

/** One past the last row of the table that begins at `from`, or `from` where none does. */
function tableEnd(lines: readonly Line[], from: number): number {
  const first = lines[from] as Line;
  if (first.segments.length < 2 || first.segments.length > MAX_CELLS) return from;
  let end = from;
  while (end < lines.length && isRow(lines[end] as Line, first)) end++;
  return end - from >= MIN_ROWS ? end : from;
}

/** Whether the cells of a line begin or end where those of the first row do. */
function isRow({ segments, size }: Line, first: Line): boolean {
  if (segments.length < 2 || segments.length > MAX_CELLS) return false;
  const near = (left: number, right: number): boolean => Math.abs(left - right) < 1.5 * size;
  const matching = segments.filter((cell) =>
    first.segments.some(
      (other) =>
        near(cell.left, other.left) ||
        near(cell.right, other.right) ||
        near((cell.left + cell.right) / 2, (other.left + other.right) / 2),
    ),
  );
  return matching.length >= Math.min(segments.length, first.segments.length, 2);
}

/** Cells by the columns of the widest row. */
function tableOf(lines: readonly Line[]): Block {
  const widest = lines.reduce((most, line) => (line.segments.length > most.segments.length ? line : most));
  const rows = lines.map(({ segments }) => {
    if (segments.length === widest.segments.length) return segments.map(({ text }) => text);
    const cells = widest.segments.map(() => '');
    for (const { left, right, text } of segments) {
      const middles = widest.segments.map((cell) => Math.abs(cell.left + cell.right - left - right));
      const column = middles.indexOf(Math.min(...middles));
      cells[column] = cells[column] === '' ? text : `${cells[column]} ${text}`;
    }
    return cells;
  });
  return { kind: 'table', text: '', size: lines[0]?.size ?? 0, rows };
}

// --- HTML ------------------------------------------------------------------------------------------------------------------

/** Larger text than the body by this factor is a heading. */
const HEADING_FACTOR = 1.14;
const MAX_HEADING_CHARACTERS = 200;

function write(blocks: readonly Block[]): string {
  const level = headingLevels(blocks);
  const parts: string[] = [];
  let isInList = false;
  for (const { kind, text, size, rows } of blocks) {
    const isItem = kind === 'paragraph' && BULLET.test(text);
    if (isItem !== isInList) parts.push(isItem ? '<ul>' : '</ul>');
    isInList = isItem;
    if (kind === 'table') parts.push(tableHtml(rows));
    else if (isItem) parts.push(`<li>${escapeText(text.replace(BULLET, ''))}</li>`);
    else {
      const rank = text.length <= MAX_HEADING_CHARACTERS && /\p{L}/u.test(text) ? level.get(rounded(size)) : undefined;
      const element = rank === undefined ? 'p' : `h${rank}`;
      parts.push(`<${element}>${escapeText(text)}</${element}>`);
    }
  }
  if (isInList) parts.push('</ul>');
  return parts.join('');
}

function tableHtml(rows: readonly (readonly string[])[]): string {
  const written = rows.map((row) => `<tr>${row.map((cell) => `<td>${escapeText(cell)}</td>`).join('')}</tr>`);
  return `<table>${written.join('')}</table>`;
}

/** Levels of headings by size: the largest is 1. The size that most text has is the body's. */
function headingLevels(blocks: readonly Block[]): ReadonlyMap<number, number> {
  const characters = new Map<number, number>();
  for (const { kind, text, size } of blocks)
    if (kind === 'paragraph' && size > 0) characters.set(rounded(size), (characters.get(rounded(size)) ?? 0) + text.length);
  const [[body] = [0]] = [...characters].toSorted(([, left], [, right]) => right - left);
  const sizes = [...characters.keys()].filter((size) => size >= HEADING_FACTOR * body).toSorted((left, right) => right - left);
  return new Map(sizes.map((size, index) => [size, Math.min(index + 1, 6)]));
} // oxfmt-ignore

/** Sizes that differ by less than half a point are the same. */
function rounded(size: number): number {
  return Math.round(2 * size) / 2;
}

/** Lines of one size with fewer distances between them are spaced as most of their column. */
const MIN_GAPS = 3;
/** Lines that are further apart, in sizes, are no lines of one text. */
const MAX_GAP = 2;

/** The usual distance of the lines of a column, by their size. */
function usualGapsOf(lines: readonly Line[]): (size: number) => number {
  const all: number[] = [];
  const bySize = new Map<number, number[]>();
  lines.forEach((line, index) => {
    const above = lines[index - 1];
    const gap = above === undefined ? 0 : above.y - line.y;
    if (above === undefined || gap <= 1) return;
    all.push(gap);
    const size = rounded(line.size);
    if (rounded(above.size) === size) {
      const gaps = bySize.get(size) ?? [];
      gaps.push(gap);
      bySize.set(size, gaps);
    }
  });
  const usual = median(all);
  const medians = new Map<number, number>();
  for (const [size, gaps] of bySize) {
    const own = median(gaps);
    if (gaps.length >= MIN_GAPS && own <= MAX_GAP * size) medians.set(size, own);
  }
  return (size) => medians.get(rounded(size)) ?? usual;
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? 0;
}
