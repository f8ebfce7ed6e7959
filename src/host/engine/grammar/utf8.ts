// Ranges of characters as sequences of byte ranges, so that grammars can be matched byte by byte and a token that ends
// within a character needs no special care. Surrogates have no UTF-8 form and are left out.
import type { CodeRange } from './gbnf.ts';

/** Bytes from `from` to `to`, both included. */
export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

/** Last code point of each encoded length, and the two ends of the surrogates. */
const BORDERS = [0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff, 0x10ffff];
const isSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdfff;

/** Byte sequences that encode exactly the characters of a range. */
export function encodeRange({ from, to }: CodeRange): ByteRange[][] {
  const sequences: ByteRange[][] = [];
  let start = from;
  for (const border of BORDERS) {
    if (start > to) break;
    const end = Math.min(border, to);
    if (start > end) continue;
    if (!isSurrogate(start)) sequences.push(...encodeSameLength(bytesOf(start), bytesOf(end)));
    start = end + 1;
  }
  return sequences;
}

/** Splits a range whose ends have equally many bytes until each part is a product of byte ranges. */
function encodeSameLength(low: readonly number[], high: readonly number[]): ByteRange[][] {
  const [first, ...lowRest] = low as [number, ...number[]];
  const [last, ...highRest] = high as [number, ...number[]];
  if (lowRest.length === 0) return [[{ from: first, to: last }]];
  const before = (byte: ByteRange, rests: ByteRange[][]): ByteRange[][] => rests.map((rest) => [byte, ...rest]);
  if (first === last) return before({ from: first, to: first }, encodeSameLength(lowRest, highRest));
  const least = lowRest.map(() => 0x80);
  const most = lowRest.map(() => 0xbf);
  const lowIsFull = lowRest.every((byte) => byte === 0x80);
  const highIsFull = highRest.every((byte) => byte === 0xbf);
  const middle = { from: lowIsFull ? first : first + 1, to: highIsFull ? last : last - 1 };
  return [
    ...(lowIsFull ? [] : before({ from: first, to: first }, encodeSameLength(lowRest, most))),
    ...(middle.from <= middle.to ? before(middle, encodeSameLength(least, most)) : []),
    ...(highIsFull ? [] : before({ from: last, to: last }, encodeSameLength(least, highRest))),
  ];
}

function bytesOf(code: number): number[] {
  const tail = (shift: number): number => 0x80 | ((code >> shift) & 0x3f);
  if (code < 0x80) return [code];
  if (code < 0x800) return [0xc0 | (code >> 6), tail(0)];
  if (code < 0x1_0000) return [0xe0 | (code >> 12), tail(6), tail(0)];
  return [0xf0 | (code >> 18), tail(12), tail(6), tail(0)];
}
