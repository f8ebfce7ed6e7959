// Members of JSON objects to look for, and where a scan has found them.

/** Most leading elements of an array member that are remembered; conversations seldom have more system messages. */
export const MAX_ELEMENTS = 8;

/** Members to look for; see {@link memberTable}. */
export interface MemberTable {
  /** The spans of an object that has none of the members. */
  readonly absent: readonly number[];
  /** The keys by their length in bytes. */
  readonly byLength: readonly (readonly Member[] | undefined)[];
  /** The keys as text, for keys that are written with escapes. */
  readonly byName: ReadonlyMap<string, Member>;
}

/** One of them. */
export interface Member {
  readonly name: string;
  readonly key: Uint8Array;
  /** Its first byte, by which most others are told. */
  readonly first: number | undefined;
  /** The key as numbers of four bytes, the last ones of which overlap the others; empty for a key of less. */
  readonly words: readonly number[];
  /** Index of the span's start in `Found.spans`; its end is the next item. */
  readonly at: number;
  readonly elements: boolean;
}

/** Result of `scanMembers`. */
export interface Found {
  /** `[start, end)` of each member in table order, flattened; -1 when absent. Of duplicate keys the last wins. */
  readonly spans: number[];
  /** `[start, end)` of the first eight elements of the last array among the `elements` members, flattened. */
  elements: number[];
  /** Earlier ones of duplicate keys: index in `spans`, start and end of each, flattened; null when there are none. */
  repeated: number[] | null;
}

/** Prepares a search for `names` (ASCII keys). For those also in `elements`, the first array elements are remembered. */
export function memberTable(names: readonly string[], elements: readonly string[] = []): MemberTable {
  const byLength: Member[][] = [];
  const byName = new Map<string, Member>();
  for (const [index, name] of names.entries()) {
    const bytes = Buffer.from(name, 'latin1');
    const key = new Uint8Array(bytes);
    const member = {
      ...{ name, key, first: key[0], words: wordsOf(bytes) },
      ...{ at: 2 * index, elements: elements.includes(name) },
    };
    (byLength[name.length] ??= []).push(member);
    byName.set(name, member);
  }
  return { absent: names.flatMap(() => [-1, -1]), byLength: Array.from(byLength), byName };
}

function wordsOf(key: Buffer): number[] {
  if (key.length < 4) return [];
  const words: number[] = [];
  for (let at = 0; at + 4 < key.length; at += 4) words.push(key.readInt32LE(at));
  words.push(key.readInt32LE(key.length - 4));
  return words;
}

/** An empty result for `table`. */
export function found(table: MemberTable): Found {
  return { spans: table.absent.slice(), elements: [], repeated: null };
}

/** Notes where the value of a member stands; one that was found before is repeated. */
export function setMember(into: Found, { at }: Member, start: number, end: number): void {
  const { spans } = into;
  const before = spans[at] as number;
  if (before >= 0) (into.repeated ??= []).push(at, before, spans[at + 1] as number);
  spans[at] = start;
  spans[at + 1] = end;
}
