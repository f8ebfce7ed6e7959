// Members of JSON objects to look for, and where a scan has found them.

import { placesById } from './json-names.ts';

/** Most leading elements of an array member that are remembered; conversations seldom have more system messages. */
export const MAX_ELEMENTS = 8;

/** Members to look for; see {@link memberTable}. */
export interface MemberTable {
  /** The spans of an object that has none of the members. */
  readonly absent: readonly number[];
  readonly names: readonly string[];
  /** By id of a name (`json-names.ts`) its index in `names`; -1 where it is none of them. */
  readonly places: Int8Array;
  /** Whether the first elements of each are remembered. */
  readonly elements: readonly boolean[];
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

/** Prepares a search for `names`, which are as `nameId` takes them. For those also in `elements`, the first array elements are remembered. */
export function memberTable(names: readonly string[], elements: readonly string[] = []): MemberTable {
  return {
    absent: names.flatMap(() => [-1, -1]),
    names,
    places: placesById(names),
    elements: names.map((name) => elements.includes(name)),
  };
}

/** An empty result for `table`. */
export function found(table: MemberTable): Found {
  return { spans: table.absent.slice(), elements: [], repeated: null };
}

/** Notes where the value of the member at `place` in the table stands; one that was found before is repeated. */
export function setMember(into: Found, place: number, start: number, end: number): void {
  const { spans } = into;
  const at = 2 * place;
  const before = spans[at] as number;
  if (before >= 0) (into.repeated ??= []).push(at, before, spans[at + 1] as number);
  spans[at] = start;
  spans[at + 1] = end;
}
