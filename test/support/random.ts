// A seeded generator of random numbers, and random changes of bytes, for tests that make many inputs fast.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number in [0, 1) (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from 0 to `limit` - 1. */
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }
}

const INSERTS = [
  '\r',
  '\n',
  '\r\n',
  '\r\n\r\n',
  '\0',
  ' ',
  '\t',
  ':',
  ';',
  ',',
  '0',
  '1',
  'a',
  '\x7f',
  '\xff',
  '\x0b',
  '#',
  '?',
].concat([
  'Content-Length: 3\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Host: y\r\n',
  '\r\n ',
  '0\r\n\r\n',
  'HTTP/1.1',
  'connection: close\r\n',
]);

/** `bytes` with one to three random changes. */
export function mutated(bytes: Buffer, random: Random): Buffer {
  let out = bytes;
  for (let count = 1 + random.below(3); count > 0; count--) {
    const at = random.below(out.byteLength + 1);
    const to = Math.min(out.byteLength, at + 1 + random.below(random.chance(0.8) ? 3 : 40));
    const [before, part, after] = [out.subarray(0, at), out.subarray(at, to), out.subarray(to)];
    switch (random.below(5)) {
      case 0:
        out = Buffer.concat([before, Buffer.from([random.below(256)]), out.subarray(at + 1)]);
        break;
      case 1:
        out = Buffer.concat([before, after]);
        break;
      case 2:
        out = Buffer.concat([before, part, part, after]);
        break;
      case 3:
        out = before;
        break;
      default:
        out = Buffer.concat([before, Buffer.from(random.pick(INSERTS), 'latin1'), part, after]);
    }
  }
  return out;
}

/** A message with one more field line, at a random place of its head. */
export function withExtraLine(message: string, random: Random): string {
  const lines = message.split('\r\n');
  lines.splice(1 + random.below(Math.max(1, lines.indexOf(''))), 0, `x-extra: ${random.below(10)}`);
  return lines.join('\r\n');
}
