// The line `x-anthropic-billing-header: …` that Claude Code puts before its system text. It changes with every request, so that no KV
// cache has the prompt behind it. The changes that take it out of a messages request leave all other bytes as they are.

import { type ScannedBody, SPAN } from './body-scan.ts';
import { scanMembers, skipSpace, skipValue } from './json-scan.ts';
import { found, memberTable } from './member-table.ts';
import { type BodyEdit, edited } from './output-limit.ts';

const BEGINNING = Buffer.from('x-anthropic-billing-header:');

/** The line is in the first block; those behind the first few are not looked at. */
const MOST_BLOCKS = 8;
/** The depth was checked with the body; reading needs a limit all the same. */
const MAX_DEPTH = 65_536;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;

const BLOCK = memberTable(['text']);

/**
 * Takes such a line out of `system`, a text or a list of blocks. A block that is nothing else goes.
 * @returns the same body where there is none
 */
export function withoutVolatileSystem(body: Buffer, { repeated, spans }: ScannedBody): Buffer {
  const start = spans[SPAN.system] as number;
  if (start < 0) return body;
  const edits: BodyEdit[] = [];
  addEdits(body, start, spans[SPAN.system + 1] as number, edits);
  for (let at = 0; repeated !== null && at < repeated.length; at += 3) {
    if (repeated[at] === SPAN.system) addEdits(body, repeated[at + 1] as number, repeated[at + 2] as number, edits);
  }
  return edited(body, edits);
}

function addEdits(body: Buffer, start: number, end: number, edits: BodyEdit[]): void {
  if (body[start] === QUOTE) {
    const lineEnd = endOfLine(body, start, end);
    if (lineEnd > 0) edits.push({ start: start + 1, end: lineEnd, text: '' });
    return;
  }
  if (body[start] !== OPEN_ARRAY) return;
  let keptEnd = -1;
  /** Where the blocks begin that go and have no kept one behind them yet. */
  let from = -1;
  let pos = skipSpace(body, start + 1, end);
  for (let count = 0; body[pos] !== CLOSE_ARRAY; count++) {
    const blockStart = pos;
    const isUnread = count === MOST_BLOCKS;
    const text = isUnread ? null : textOf(body, blockStart, end);
    const lineEnd = text === null ? 0 : endOfLine(body, text.start, text.end);
    const isGone = text !== null && lineEnd === text.end - 1;
    if (isGone) {
      if (from < 0) from = blockStart;
    } else {
      if (from >= 0) edits.push({ start: from, end: blockStart, text: '' });
      from = -1;
      if (text !== null && lineEnd > 0) edits.push({ start: text.start + 1, end: lineEnd, text: '' });
      if (isUnread) return;
    }
    const blockEnd = skipValue(body, blockStart, end, 0, MAX_DEPTH);
    if (!isGone) keptEnd = blockEnd;
    pos = skipSpace(body, blockEnd, end);
    if (body[pos] === COMMA) pos = skipSpace(body, pos + 1, end);
    else if (isGone) edits.push({ start: keptEnd < 0 ? from : keptEnd, end: blockEnd, text: '' });
  }
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** The text of a block, quotes included; null when it has none. */
function textOf(body: Buffer, start: number, end: number): Span | null {
  if (body[start] !== OPEN_OBJECT) return null;
  const members = found(BLOCK);
  scanMembers(body, start, end, BLOCK, members, MAX_DEPTH);
  const [textStart = -1, textEnd = -1] = members.spans;
  return textStart >= 0 && body[textStart] === QUOTE ? { start: textStart, end: textEnd } : null;
}

/** Where the line at the beginning of a string ends, with the line ends behind it; 0 when that is another line. */
function endOfLine(body: Buffer, start: number, end: number): number {
  for (let at = 0; at < BEGINNING.length; at++) if (body[start + 1 + at] !== BEGINNING[at]) return 0;
  let pos = start + 1 + BEGINNING.length;
  while (pos < end - 1 && lineEndAt(body, pos) === 0) pos += body[pos] === BACKSLASH ? 2 : 1;
  for (let length = lineEndAt(body, pos); length > 0; length = lineEndAt(body, pos)) pos += length;
  return pos;
}

const NEXT_LINE = Buffer.from('\\n');
const ESCAPED_LINE_FEED = Buffer.from('\\u000a');
const LOWER_CASE = 0x20;

/** Bytes of the line end that is written at `pos` in a string, as two characters or as an escaped line feed; 0: there is none. */
function lineEndAt(body: Buffer, pos: number): number {
  if (body[pos] !== BACKSLASH) return 0;
  if (body[pos + 1] === NEXT_LINE[1]) return NEXT_LINE.length;
  const last = ESCAPED_LINE_FEED.length - 1;
  for (let at = 1; at < last; at++) if (body[pos + at] !== ESCAPED_LINE_FEED[at]) return 0;
  return ((body[pos + last] as number) | LOWER_CASE) === ESCAPED_LINE_FEED[last] ? ESCAPED_LINE_FEED.length : 0;
}
