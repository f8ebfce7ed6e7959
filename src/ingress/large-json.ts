// JSON responses that may have megabytes, such as pages: encoded in pieces, with the event loop turning between them, so that other
// requests of the thread go on. What fits into one piece is answered at once.

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
  const pieces = encoded(value);
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
    const body = done.length === 0 ? piece.value : Buffer.concat([...done, piece.value]);
    exchange.respond(status, allHeaders, body);
  };
  encodeNext();
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
    let to = Math.min(text.length, from + PIECE_CHARACTERS);
    if (to < text.length && (text.charCodeAt(to - 1) & 0xfc00) === 0xd800) to++;
    yield JSON.stringify(text.slice(from, to)).slice(1, -1);
    from = to;
  }
  yield '"';
}

function isArray(value: object): value is readonly Json[] {
  return Array.isArray(value);
}
