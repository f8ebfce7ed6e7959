// What the tests of the dialects share: a stream read to its end.

/** Everything an async iterable yields, in order; rejects as it does. */
export async function gather<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
