// Block index: what is found of what was entered, forgetting, capacities, a full table, and clocks that wrap around.
import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { blockBytes } from '../../src/dialect/prompt-blocks.ts';
import { BlockIndex, createBlockIndexMemory, MIN_INDEX_BYTES } from '../../src/routing/block-index.ts';

const MEMBERS = 8;
const KIB = 1024;
/** Of a prompt of 1 MiB. */
const MAX_BLOCKS = 128 + 480;
const index = (bytes = MIN_INDEX_BYTES): BlockIndex => new BlockIndex(createBlockIndexMemory(bytes, MEMBERS));
let random = createSeededRandom(1);
t.beforeEach(() => {
  random = createSeededRandom(1);
});

/** Hashes of a new prompt of so many blocks; the first ones are those of `before`. */
function prompt(count: number, before: Int32Array = new Int32Array(0), shared: number = before.length / 2): Int32Array {
  const hashes = Int32Array.from({ length: 2 * count }, () => Math.floor(random() * 2 ** 32));
  hashes.set(before.subarray(0, 2 * Math.min(shared, count)));
  return hashes;
}

/** Enters a prompt as a request does. Returns what was held before. */
function send(at: BlockIndex, member: number, hashes: Int32Array): number {
  const count = hashes.length / 2;
  const matched = at.matched(member, hashes, count);
  at.enter(member, hashes, count);
  return matched;
}

t.test('a member holds what it was sent, up to the first other block', (t) => {
  const memory = createBlockIndexMemory(MIN_INDEX_BYTES, MEMBERS);
  const [one, two] = [new BlockIndex(memory), new BlockIndex(memory)];
  const first = prompt(10);
  t.equal(one.matched(3, first, 10), 0);
  one.enter(3, first, 10);
  for (let count = 0; count <= 10; count++) t.equal(two.matched(3, first, count), count);
  t.equal(two.matched(2, first, 10), 0, 'another member');
  t.equal(two.matched(3, prompt(20, first), 20), 10, 'a longer prompt');
  t.equal(two.matched(3, prompt(20, first, 7), 20), 7, 'another one that begins alike');
  t.equal(two.matched(3, prompt(10), 10), 0, 'a different one');
  t.end();
});

t.test('what is forgotten is not found, and found again once it was sent again', (t) => {
  const blocks = index();
  const first = prompt(20);
  const enteredAt = blocks.enter(0, first, 20);
  send(blocks, 1, first);
  blocks.withdraw(0, first, 12, 20, enteredAt);
  t.equal(blocks.matched(0, first, 20), 12, 'a tail');
  t.equal(blocks.matched(1, first, 20), 20);
  t.equal(send(blocks, 0, first), 12);
  t.equal(blocks.matched(0, first, 20), 20);
  blocks.clear(0);
  t.equal(blocks.matched(0, first, 20), 0, 'a member');
  t.equal(blocks.matched(1, first, 20), 20);
  t.equal(send(blocks, 0, first), 0);
  t.equal(blocks.matched(0, first, 20), 20);
  t.end();
});

t.test('an entry that is withdrawn takes what was not entered again since', (t) => {
  const blocks = index();
  const [first, second] = [prompt(20), prompt(20)];
  second.set(first.subarray(0, 2 * 8));
  const enteredAt = blocks.enter(0, first, 20);
  const again = blocks.enter(0, second, 20);
  t.not(again, enteredAt);
  blocks.withdraw(0, first, 0, 20, enteredAt);
  t.equal(blocks.matched(0, first, 20), 8);
  t.equal(blocks.matched(0, second, 20), 20);
  const known = blocks.enter(0, second, 20);
  t.not(blocks.enter(0, second, 20), known, 'also where all was held already');
  blocks.withdraw(0, second, 0, 20, known);
  t.equal(blocks.matched(0, second, 20), 20);
  t.end();
});

t.test('what is entered between a refused prompt and its rewinding stays held', (t) => {
  const blocks = index(2 ** 24);
  const first = prompt(20);
  blocks.enter(0, first, 20);
  const refused = Array.from({ length: 400 }, () => {
    const hashes = prompt(600);
    return { hashes, enteredAt: blocks.enter(0, hashes, 600), aged: blocks.aged };
  });
  const meanwhile = prompt(20);
  blocks.enter(0, meanwhile, 20);
  for (const { hashes, enteredAt, aged } of refused) {
    blocks.withdraw(0, hashes, 0, 600, enteredAt);
    blocks.rewind(0, aged);
  }
  t.equal(blocks.matched(0, meanwhile, 20), 20);
  t.equal(blocks.matched(0, first, 20), 20);
  t.equal(blocks.matched(0, refused[0]?.hashes as Int32Array, 600), 0);
  t.end();
});

t.test('a member holds the last blocks up to its capacity, first ones longer than last ones', (t) => {
  const blocks = index();
  t.equal(blocks.capacity(0), 16 * KIB * KIB, 'assumed');
  blocks.setCapacity(0, 20 * KIB);
  t.equal(blocks.capacity(0), 20 * KIB);
  const [first, second] = [prompt(20), prompt(30)];
  send(blocks, 0, first);
  t.equal(blocks.matched(0, first, 20), 20);
  send(blocks, 0, second);
  t.equal(blocks.matched(0, first, 20), 10, '40 blocks in all');
  t.equal(blocks.matched(0, second, 30), 30);
  blocks.setCapacity(0, 10 * KIB);
  t.equal(blocks.matched(0, first, 20), 0, 'less capacity');
  t.equal(blocks.matched(0, second, 30), 20);
  blocks.setCapacity(0, 30 * KIB);
  t.equal(blocks.matched(0, first, 20), 20, 'a block that is found again was only judged as gone');
  t.end();
});

t.test('long blocks count four units each', (t) => {
  const blocks = index();
  const [first, second] = [prompt(200), prompt(10)];
  blocks.setCapacity(0, (128 + 72 * 4) * 512);
  send(blocks, 0, first);
  t.equal(blocks.matched(0, first, 200), 200);
  send(blocks, 0, second);
  t.equal(blocks.matched(0, first, 200), 198, 'with two units more than 10 units less 2 blocks of 4');
  t.end();
});

t.test('capacities are limited', (t) => {
  const blocks = index();
  for (const [given, taken] of [
    [0, 512],
    [1e12, 2 ** 30],
    [700.4, 700],
  ] as const) {
    blocks.setCapacity(1, given);
    t.equal(blocks.capacity(1), taken);
  }
  blocks.reset(1);
  t.equal(blocks.capacity(1), 16 * KIB * KIB, 'a reset forgets it');
  t.throws(() => createBlockIndexMemory(MIN_INDEX_BYTES, 4097), /at most 4096 members/);
  t.end();
});

t.test('what is in use is estimated', (t) => {
  const blocks = index(MIN_INDEX_BYTES);
  t.same(blocks.use(), { held: 0, stale: 0, free: 64 * KIB });
  for (let n = 0; n < 100; n++) send(blocks, n % 2, prompt(10));
  t.same(blocks.use(), { held: 1000 * 8, stale: 0, free: 64 * KIB - 1000 * 8 }, 'exact when the sample is all');
  blocks.clear(0);
  t.same(blocks.use(), { held: 500 * 8, stale: 500 * 8, free: 64 * KIB - 1000 * 8 });
  const large = index(2 ** 20);
  for (let n = 0; n < 2000; n++) send(large, n % 2, prompt(20));
  t.ok(Math.abs(large.use().held / (40_000 * 8) - 1) < 0.05);
  t.end();
});

t.test('units are those of the blocks of prompts', (t) => {
  const blocks = index();
  const first = prompt(MAX_BLOCKS);
  for (let count = 1; count <= MAX_BLOCKS; count += 37) {
    blocks.reset(0);
    blocks.setCapacity(0, blockBytes(count));
    blocks.enter(0, first, MAX_BLOCKS);
    t.equal(blocks.matched(0, first, MAX_BLOCKS), count);
  }
  t.end();
});

/** The true cache: units in the order of their last use; the first ones of a prompt are used last. */
class Cache {
  readonly #units = new Set<number>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  matched(hashes: Int32Array): number {
    let at = 0;
    while (2 * at < hashes.length && this.#units.has(hashes[2 * at] as number)) at++;
    return at;
  }

  use(hashes: Int32Array): void {
    for (let at = hashes.length - 2; at >= 0; at -= 2) {
      this.#units.delete(hashes[at] as number);
      this.#units.add(hashes[at] as number);
    }
    for (const unit of this.#units) {
      if (this.#units.size <= this.#capacity) break;
      this.#units.delete(unit);
    }
  }
}

/** Prompts of growing conversations, half of which share a preamble. */
function* conversations(requests: number): Generator<Int32Array> {
  const preamble = prompt(12);
  const open = Array.from({ length: 24 }, (_, n) => prompt(14, preamble, n % 2 === 0 ? 12 : 0));
  for (let n = 0; n < requests; n++) {
    const at = Math.floor(random() ** 2 * open.length);
    const before = open[at] as Int32Array;
    yield before;
    const grown = before.length / 2 + 1 + Math.floor(random() * 6);
    open[at] = grown < 90 ? prompt(grown, before) : prompt(14, preamble, at % 2 === 0 ? 12 : 0);
  }
}

t.test('what is matched is what an LRU cache of the same capacity holds', (t) => {
  for (const capacity of [200, 600, 1200]) {
    const [blocks, cache] = [index(2 ** 20), new Cache(capacity)];
    blocks.setCapacity(0, capacity * 512);
    let [wrong, held, total] = [0, 0, 0];
    for (const hashes of conversations(3000)) {
      const [predicted, truth] = [send(blocks, 0, hashes), cache.matched(hashes)];
      cache.use(hashes);
      wrong += Math.abs(predicted - truth);
      held += truth;
      total += hashes.length / 2;
    }
    t.ok(held > total / 5 && held < total * 0.95, `${held} of ${total} held`);
    t.ok(wrong < total * 0.03, `${wrong} of ${total} wrong`);
  }
  t.end();
});

t.test('a full table keeps the first blocks of prompts longer than the last ones', (t) => {
  const blocks = index(MIN_INDEX_BYTES);
  blocks.setCapacity(0, 2 ** 30);
  // More entries than there are slots.
  const prompts = Array.from({ length: 24 }, () => prompt(MAX_BLOCKS));
  for (const hashes of prompts) blocks.enter(0, hashes, MAX_BLOCKS);
  const { held, stale, free } = blocks.use();
  t.equal(held + stale + free, MIN_INDEX_BYTES, 'bounded');
  t.ok(free < MIN_INDEX_BYTES / 50, `${free} bytes free`);
  const isKept = (hashes: Int32Array, block: number): boolean => blocks.matched(0, hashes.subarray(2 * block), 1) === 1;
  /** Of 100 blocks of each prompt. */
  const keptOf = (list: readonly Int32Array[], from: number): number =>
    list.reduce(
      (sum, hashes) =>
        sum + Array.from({ length: 100 }, (_, at) => at).filter((at) => isKept(hashes, from + at)).length,
      0,
    );
  t.ok(keptOf(prompts.slice(-6), 0) > 590, 'of the youngest prompts all first blocks are there, of 600');
  t.ok(keptOf(prompts.slice(0, 6), 0) < 150, 'of the oldest ones few');
  const [first, last] = [keptOf(prompts, 0), keptOf(prompts, MAX_BLOCKS - 100)];
  t.ok(first > last + 60, `of 2400, ${first} first and ${last} last ones`);
  t.end();
});

t.test('what a member does not hold any more makes room for what others hold', (t) => {
  const blocks = index(MIN_INDEX_BYTES);
  blocks.setCapacity(0, 2 ** 30);
  blocks.setCapacity(1, 100 * 512);
  const first = Array.from({ length: 80 }, () => prompt(50));
  for (const hashes of first) blocks.enter(0, hashes, 50);
  // Younger, but most of it stale: the slots would not do for all.
  for (let n = 0; n < 200; n++) blocks.enter(1, prompt(50), 50);
  for (let n = 0; n < 10; n++) blocks.enter(0, prompt(50), 50);
  const matched = first.reduce((sum, hashes) => sum + blocks.matched(0, hashes, 50), 0);
  t.ok(matched > 80 * 50 * 0.95, `${matched} of ${80 * 50}`);
  t.end();
});

t.test('a hot prefix of a full table stays', (t) => {
  const blocks = index(MIN_INDEX_BYTES);
  blocks.setCapacity(0, 2 ** 30);
  const preamble = prompt(20);
  for (let n = 0; n < 1000; n++) blocks.enter(0, prompt(50, preamble), 50);
  t.equal(blocks.matched(0, preamble, 20), 20);
  t.end();
});

t.test('clocks and stamps wrap around', (t) => {
  for (const start of [2 ** 31, 2 ** 32]) {
    const memory = createBlockIndexMemory(MIN_INDEX_BYTES, MEMBERS);
    const [blocks, clocks] = [new BlockIndex(memory), new Int32Array(memory.clocks)];
    blocks.setCapacity(0, 100 * 512);
    clocks[0] = (start - 45) | 0;
    const [first, second, third] = [prompt(40), prompt(30), prompt(80)];
    blocks.enter(0, first, 40);
    blocks.enter(0, second, 30);
    t.equal(blocks.matched(0, first, 40), 40);
    t.equal(blocks.matched(0, second, 30), 30);
    blocks.enter(0, third, 80);
    t.equal(blocks.matched(0, first, 40), 0);
    t.equal(blocks.matched(0, second, 30), 20, 'of 100 units 80 are younger');
    t.equal(blocks.matched(0, third, 80), 80);
  }
  t.end();
});

t.test('a member holds nothing after any number of clearings below the limit', (t) => {
  const blocks = index();
  const first = prompt(40);
  blocks.setCapacity(0, 2 ** 30);
  blocks.enter(0, first, 40);
  for (let n = 1; n < 2 ** 11; n++) {
    blocks.clear(0);
    if (blocks.matched(0, first, 40) !== 0) t.fail(`held after ${n} clearings`);
  }
  t.end();
});

t.test('a line that is used takes old entries before they can come back', (t) => {
  const memory = createBlockIndexMemory(MIN_INDEX_BYTES, MEMBERS);
  const [blocks, clocks] = [new BlockIndex(memory), new Int32Array(memory.clocks)];
  const first = prompt(40);
  blocks.setCapacity(0, 2 ** 20);
  blocks.enter(0, first, 40);
  // Each line gets 31 entries on average while the clock goes around.
  for (let n = 0; n < 640; n++) {
    clocks[0] = ((clocks[0] as number) + 2 ** 32 / 640 - 50) | 0;
    blocks.enter(0, prompt(50), 50);
  }
  t.equal(blocks.matched(0, first, 40), 0);
  t.end();
});
