// Counts the lists and maps of MessagePack without making them: values follow each other, and each says by its first bytes how long it is.

/** Of the first bytes from 0xc0 to 0xdf: the bytes behind them that every such value has, its length included. */
const HEADS = [
  0, 0, 0, 0, 1, 2, 4, 2, 3, 5, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17, 1, 2, 4, 2, 4, 2, 4,
] as const;

/** Bytes of the length that bin, ext and str begin with, by their first byte. */
const LENGTHS: ReadonlyMap<number, number> = new Map([
  ...([0xc4, 0xc7, 0xd9].map((first) => [first, 1]) as [number, number][]),
  ...([0xc5, 0xc8, 0xda].map((first) => [first, 2]) as [number, number][]),
  ...([0xc6, 0xc9, 0xdb].map((first) => [first, 4]) as [number, number][]),
]);

/** Whether there are more than `most`. What is malformed is counted as far as it can be read. */
export function hasMoreContainers(bytes: Buffer, most: number): boolean {
  let count = 0;
  for (let at = 0; at < bytes.byteLength && count <= most;) {
    const first = bytes[at] as number;
    if ((first >= 0x80 && first <= 0x9f) || (first >= 0xdc && first <= 0xdf)) count++;
    at += 1 + sizeBehind(bytes, at, first);
  }
  return count > most;
}

/** Bytes of a value behind its first one; of a list or a map, those before its first entry. */
function sizeBehind(bytes: Buffer, at: number, first: number): number {
  if (first >= 0xa0 && first <= 0xbf) return first & 0x1f;
  if (first < 0xc0 || first > 0xdf) return 0;
  const size = HEADS[first - 0xc0] as number;
  const length = LENGTHS.get(first);
  if (length === undefined) return size;
  return at + length < bytes.byteLength ? size + bytes.readUIntBE(at + 1, length) : Infinity;
}
