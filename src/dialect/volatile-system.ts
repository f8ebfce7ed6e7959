// The line `x-anthropic-billing-header: …` that Claude Code puts before its system text. It changes with every request, so that no KV
// cache has the prompt behind it. The changes that take it out of a messages request leave all other bytes as they are.

import { bodyTape as tape, type NamedBody, type ScannedBody, SPAN, without } from './body-scan.ts';
import { nameIds } from './json-names.ts';
import { JsonTape, MAX_READ_VALUES, type Range } from './json-tape.ts';

const BEGINNING = Buffer.from('x-anthropic-billing-header:');

/** The line is in the first block; those behind the first few are not looked at. */
const MOST_BLOCKS = 8;

const BACKSLASH = 0x5c;
const NAME = nameIds('system', 'text');

/**
 * Takes such a line out of `system`, a text or a list of blocks. A block that is nothing else goes.
 * @returns the same ones where there is none, and where it has more values than a tape takes. Otherwise the body is in the memory of `body`,
 *   which is not to be used any more.
 */
export function withoutVolatileSystem(body: Buffer, scan: ScannedBody): NamedBody {
  if ((scan.spans[SPAN.system] as number) < 0 || scan.values > MAX_READ_VALUES) return { body, scan };
  tape.read(body);
  const ranges: Range[] = [];
  const end = tape.next(JsonTape.ROOT);
  for (let key = tape.first(JsonTape.ROOT); key < end; key = tape.next(tape.valueOf(key))) {
    if (tape.name(key) === NAME.system) addRanges(body, tape.valueOf(key), ranges);
  }
  const shorter = ranges.length === 0 ? { body, scan } : without(body, scan, ranges);
  tape.release();
  return shorter;
}

/** Adds what has to go, in order. */
function addRanges(body: Buffer, system: number, ranges: Range[]): void {
  if (tape.isString(system)) {
    const lineEnd = endOfLine(body, system);
    if (lineEnd > 0) ranges.push({ start: tape.start(system) + 1, end: lineEnd });
    return;
  }
  if (!tape.isArray(system)) return;
  let keptEnd = -1;
  /** Where the blocks begin that go and have no kept one behind them yet. */
  let from = -1;
  let blockEnd = -1;
  let count = 0;
  const end = tape.next(system);
  for (let block = tape.first(system); block < end; block = tape.next(block)) {
    const isUnread = count++ === MOST_BLOCKS;
    const text = isUnread ? JsonTape.NONE : tape.member(block, NAME.text);
    const lineEnd = tape.isString(text) ? endOfLine(body, text) : 0;
    blockEnd = tape.end(block);
    if (lineEnd > 0 && lineEnd === tape.end(text) - 1) {
      if (from < 0) from = tape.start(block);
      continue;
    }
    if (from >= 0) ranges.push({ start: from, end: tape.start(block) });
    from = -1;
    if (lineEnd > 0) ranges.push({ start: tape.start(text) + 1, end: lineEnd });
    if (isUnread) return;
    keptEnd = blockEnd;
  }
  if (from >= 0) ranges.push({ start: keptEnd < 0 ? from : keptEnd, end: blockEnd });
}

/** Where the line at the beginning of a string ends, with the line ends behind it; 0 when that is another line. */
function endOfLine(body: Buffer, text: number): number {
  const start = tape.start(text) + 1;
  const end = tape.end(text) - 1;
  for (let at = 0; at < BEGINNING.length; at++) if (body[start + at] !== BEGINNING[at]) return 0;
  let pos = start + BEGINNING.length;
  while (pos < end && lineEndAt(body, pos) === 0) pos += body[pos] === BACKSLASH ? 2 : 1;
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
