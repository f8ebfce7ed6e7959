// Names that programs look for in JSON, keys of members and values such as types, as numbers: the scan of a text tells which of them its
// strings are, so that nobody compares bytes again. They are known when the program starts; none comes from a request.

import { parsedJson } from '../net/json-object.ts';
import { JSON_SCAN_WASM } from './json-scan-wasm.ts';
import { instantiate } from './wasm.ts';

const BACKSLASH = 0x5c;

/** What json-scan.wat exports. */
interface Scanner {
  readonly memory: { readonly buffer: ArrayBuffer };
  /** Returns the address behind the value at `TEXT`, or 0 when json-scan.ts has to read the text. */
  readonly scan: (base: number, tape: number, room: number, levels: number) => number;
  readonly add: (id: number) => void;
  readonly copy: (to: number, from: number, length: number) => void;
  /** Writes JSON text as the inside of a string; returns the address behind it. */
  readonly quote: (to: number, from: number, length: number) => number;
}

/** @internal */
export const scanner: Scanner = instantiate<Scanner>(JSON_SCAN_WASM);

/** Ids are below it. */
const MOST_NAMES = 512;
const MOST_BYTES = 48;
/** The longest way to write a character is an escape. */
const MOST_WRITTEN_BYTES = 6 * MOST_BYTES;

/** Where the module has the names, and bytes of each. */
const ENTRIES = 0x603000;
const ENTRY = 64;

interface Name {
  readonly id: number;
  readonly bytes: Uint8Array;
}

const ids = new Map<string, number>();
/** The names by their length and the low bits of their first letter. */
const slots: Name[][] = Array.from({ length: (MOST_BYTES + 1) << 5 }, () => []);

function slotOf(length: number, first: number): number {
  return (length << 5) | (first & 31);
}

/** The id of a name: 1 to 48 characters of ASCII. Each call with a new one takes a place for ever. */
export function nameId(name: string): number {
  const known = ids.get(name);
  if (known !== undefined) return known;
  const id = ids.size + 1;
  const bytes = Uint8Array.from(Buffer.from(name, 'latin1'));
  if (id >= MOST_NAMES || bytes.length === 0 || bytes.length > MOST_BYTES)
    throw new RangeError(`no room for the name ${name}`);
  ids.set(name, id);
  slots[slotOf(bytes.length, bytes[0] as number)]?.push({ id, bytes });
  const entry = new Uint8Array(scanner.memory.buffer, ENTRIES + ENTRY * id, ENTRY);
  entry.set(bytes);
  entry[ENTRY - 1] = bytes.length;
  scanner.add(id);
  return id;
}

/** The name with this id. */
export function nameOf(id: number): string {
  return [...ids.keys()][id - 1] ?? '';
}

/** The ids of some names. */
export function nameIds<const Names extends string>(...names: readonly Names[]): Readonly<Record<Names, number>> {
  return Object.fromEntries(names.map((name) => [name, nameId(name)])) as Record<Names, number>;
}

/** By id of a name its place in `names`; -1 where it is none of them. */
export function placesById(names: readonly string[]): Int8Array {
  const places = new Int8Array(MOST_NAMES).fill(-1);
  for (const [place, name] of names.entries()) places[nameId(name)] = place;
  return places;
}

/** The id of the name that the string `[start, end)` of `text` is, quotes included, however it is written; 0 when it is none. */
export function readName(text: Buffer, start: number, end: number): number {
  const length = end - start - 2;
  if (length <= MOST_BYTES) {
    const candidates = slots[slotOf(length, text[start + 1] as number)] as readonly Name[];
    for (let index = 0; index < candidates.length; index++) {
      const { bytes, id } = candidates[index] as Name;
      let at = 1;
      while (at < length && text[start + 1 + at] === bytes[at]) at++;
      if (at === length && text[start + 1] === bytes[0]) return id;
    }
  }
  if (length > MOST_WRITTEN_BYTES) return 0;
  for (let pos = start + 1; pos < end - 1; pos++) {
    if (text[pos] === BACKSLASH) return ids.get(parsedJson(text.toString('utf8', start, end)) as string) ?? 0;
  }
  return 0;
}
