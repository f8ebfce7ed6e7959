// How much text an answer holds, for answers whose tokens nobody has counted: bytes of the texts in its JSON, and how many bytes a
// token of a model has on average. Bytes come closer to tokens than characters do: a Chinese character has three.

import { skipSpace, skipValue } from './json-scan.ts';

const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const MAX_DEPTH = 256;

/** The names as they are searched for: without the first quote, which every member has. */
export function textMembers(...names: readonly string[]): readonly Buffer[] {
  return names.map((name) => Buffer.from(`${name}"`));
}

/** The arguments of a call in the messages dialect: an object, all of which was generated. */
export const TOOL_INPUT: Buffer = Buffer.from('input"');

/** Where the last text that was found lies. */
const found = { count: 0, start: 0, end: 0 };

/**
 * Bytes of the texts in members with these names, at any level. Quotes inside of texts are escaped, so that text cannot match. What is in a
 * `TOOL_INPUT`, which comes first of the names, counts with it alone.
 */
export function textBytes(json: Buffer, names: readonly Buffer[]): number {
  let bytes = 0;
  found.count = 0;
  /** Start and end of each object that counts as a whole, flattened. */
  const inputs: number[] = [];
  for (const name of names) {
    let input = 0;
    let next = 0;
    for (let at = json.indexOf(name); at >= 0; at = json.indexOf(name, next)) {
      next = at + name.length;
      while ((inputs[input + 1] ?? Infinity) <= at) input += 2;
      if ((inputs[input] ?? Infinity) < at) {
        next = inputs[input + 1] as number;
        continue;
      }
      const colon = skipSpace(json, next, json.length);
      if (json[at - 1] !== QUOTE || json[colon] !== COLON) continue;
      const start = skipSpace(json, colon + 1, json.length);
      const isText = json[start] === QUOTE;
      if (!isText && (name !== TOOL_INPUT || json[start] !== OPEN_OBJECT)) continue;
      const end = skipValue(json, start, json.length, 0, MAX_DEPTH);
      if (end < 0) continue;
      bytes += isText ? end - start - 2 : end - start;
      if (!isText) inputs.push(start, end);
      found.count++;
      found.start = start + 1;
      found.end = end - 1;
    }
  }
  return bytes;
}

/** Counts the text in the events of one stream. Nearly every event differs from the one before in its text alone. */
export class TextCounter {
  bytes = 0;
  readonly #names: readonly Buffer[];
  // Fields without #, whose reading is a third cheaper before code is optimised: every event of a stream reads them all.
  /** @internal Bytes of an event before its text and from the closing quote on, as in the last one with one text. */
  before: number = NOT_KNOWN;
  /** @internal */
  after = 0;
  /** @internal The four bytes before the text, of which the last one is a quote, and the byte behind its closing quote. */
  opening1 = 0;
  /** @internal */
  opening2 = 0;
  /** @internal */
  opening3 = 0;
  /** @internal */
  closing = 0;

  constructor(names: readonly Buffer[]) {
    this.#names = names;
  }

  /** Adds the event whose JSON is `[start, end)`. */
  add(piece: Buffer, start: number, end: number): void {
    const from = start + this.before;
    const to = end - this.after;
    const isLikeLast =
      from <= to &&
      piece[to] === QUOTE &&
      piece[to + 1] === this.closing &&
      piece[from - 1] === QUOTE &&
      piece[from - 2] === this.opening3 &&
      piece[from - 3] === this.opening2 &&
      piece[from - 4] === this.opening1;
    if (isLikeLast) this.bytes += to - from;
    else this.#search(piece.subarray(start, end));
  }

  #search(event: Buffer): void {
    this.bytes += textBytes(event, this.#names);
    if (found.count !== 1 || found.start < 4 || found.start === found.end) return;
    this.before = found.start;
    this.after = event.length - found.end;
    this.opening1 = event[found.start - 4] as number;
    this.opening2 = event[found.start - 3] as number;
    this.opening3 = event[found.start - 2] as number;
    this.closing = event[found.end + 1] as number;
  }
}

/** Beyond every event. */
const NOT_KNOWN = 2 ** 30;

/** Bytes of a token of English on average; that of a model of which nothing is known. */
const USUAL_BYTES = 4;
/** Averages beyond these are not those of delivered text, but of hidden tokens or wrong counts. */
const FEWEST_BYTES = 2;
const MOST_BYTES = 12;
/** An answer with fewer tokens says little. */
const LEAST_TOKENS = 16;
/** Weight of one answer in the average. */
const WEIGHT = 1 / 16;

/** How many bytes of text a token has on average, learnt by model from answers whose tokens were counted. */
export class TokenSizes {
  readonly #sizes = new Map<string, number>();

  of(model: string): number {
    return this.#sizes.get(model) ?? USUAL_BYTES;
  }

  note(model: string, bytes: number, tokens: number): void {
    if (tokens < LEAST_TOKENS || bytes === 0) return;
    const size = Math.min(Math.max(bytes / tokens, FEWEST_BYTES), MOST_BYTES);
    const known = this.of(model);
    this.#sizes.set(model, known + (size - known) * WEIGHT);
  }
}
