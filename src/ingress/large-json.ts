// Responses of JSON or text that may have megabytes, such as pages: encoded in pieces, with the event loop turning between them, so that
// other requests of the thread go on. What fits into one piece is answered at once.

import type { Exchange } from './exchange.ts';
import { JSON_HEADERS } from './respond.ts';

/** Characters that are encoded in one turn: about a millisecond, three where each is escaped. */
const PIECE_CHARACTERS = 262_144;

/** What JSON can say. Members that are undefined are left out. */
type Json = string | number | boolean | null | undefined | readonly Json[] | { readonly [name: string]: Json };

/** Responds with a JSON document of plain data, as `respondJson` does, later where it is large. It must not change meanwhile. */
export function respondLargeJson(
  exchange: Exchange,
  status: number,
  value: object,
  headers: readonly string[] = [],
): void {
  const allHeaders = [...JSON_HEADERS, ...headers];
  if (exchange.handValue(status, allHeaders, value)) return;
  respondPieces(exchange, status, allHeaders, encoded(value));
}

/** Responds with a text, later where it is large. `headers` name its type. */
export function respondLargeText(exchange: Exchange, status: number, headers: readonly string[], text: string): void {
  respondPieces(exchange, status, headers, encodedText(text));
}

/** Responds with all pieces, of which one is encoded in a turn of the event loop. */
function respondPieces(
  exchange: Exchange,
  status: number,
  headers: readonly string[],
  pieces: Generator<Buffer, Buffer>,
): void {
  const done: Buffer[] = [];
  const encodeNext = (): void => {
    // The client has left, or the gateway has answered that it shuts down.
    if (exchange.handedOver) return;
    const piece = pieces.next();
    if (piece.done !== true) {
      done.push(piece.value);
      setImmediate(encodeNext);
      return;
    }
    if (done.length === 0) exchange.respond(status, headers, piece.value);
    else respondJoined(exchange, status, headers, [...done, piece.value]);
  };
  encodeNext();
}

/** Copies one piece in a turn: all at once take most of a millisecond for each megabyte, since the memory is new. */
function respondJoined(
  exchange: Exchange,
  status: number,
  headers: readonly string[],
  pieces: readonly Buffer[],
): void {
  const body = Buffer.allocUnsafeSlow(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let length = 0;
  let next = 0;
  const copyNext = (): void => {
    if (exchange.handedOver) return;
    const piece = pieces[next++];
    if (piece === undefined) {
      exchange.respond(status, headers, body);
      return;
    }
    body.set(piece, length);
    length += piece.byteLength;
    setImmediate(copyNext);
  };
  copyNext();
}

/** The bytes of `JSON.stringify` between two texts, in pieces; the last one is returned. */
export function* encoded(value: object, before = '', after = ''): Generator<Buffer, Buffer> {
  let text = before;
  for (const part of partsOf(value as Json)) {
    text += part;
    if (text.length < PIECE_CHARACTERS) continue;
    yield Buffer.from(text);
    text = '';
  }
  return Buffer.from(text + after);
}

/** The bytes of a text, in pieces; the last one is returned. */
function* encodedText(text: string): Generator<Buffer, Buffer> {
  let from = 0;
  while (text.length - from > PIECE_CHARACTERS) {
    const to = endOfPart(text, from);
    yield Buffer.from(text.slice(from, to));
    from = to;
  }
  return Buffer.from(text.slice(from));
}

/** Where a part that begins at `from` ends: a surrogate pair stays in one. */
function endOfPart(text: string, from: number): number {
  const to = Math.min(text.length, from + PIECE_CHARACTERS);
  return to < text.length && (text.charCodeAt(to - 1) & 0xfc00) === 0xd800 ? to + 1 : to;
}

function* partsOf(value: Json): Generator<string, undefined> {
  if (typeof value === 'string') {
    yield* partsOfString(value);
  } else if (typeof value !== 'object' || value === null) {
    yield JSON.stringify(value ?? null);
  } else if (isArray(value)) {
    yield '[';
    for (const [at, item] of value.entries()) {
      if (at > 0) yield ',';
      yield* partsOf(item);
    }
    yield ']';
  } else {
    let mark = '{';
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue;
      yield `${mark}${JSON.stringify(name)}:`;
      yield* partsOf(member);
      mark = ',';
    }
    yield mark === '{' ? '{}' : '}';
  }
}

/** A surrogate pair stays in one part: alone, its halves would be escaped. */
function* partsOfString(text: string): Generator<string, undefined> {
  if (text.length <= PIECE_CHARACTERS) {
    yield JSON.stringify(text);
    return;
  }
  yield '"';
  for (let from = 0; from < text.length;) {
    const to = endOfPart(text, from);
    yield JSON.stringify(text.slice(from, to)).slice(1, -1);
    from = to;
  }
  yield '"';
}

function isArray(value: object): value is readonly Json[] {
  return Array.isArray(value);
}
