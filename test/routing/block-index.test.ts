// Block index: what is found of what was entered, forgetting, capacities, a full table, and clocks that wrap around.
import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { BlockIndex, createBlockIndexMemory, MIN_INDEX_BYTES } from '../../src/routing/block-index.ts';

const MEMBERS = 8;
const KIB = 1024;
const index = (bytes = MIN_INDEX_BYTES): BlockIndex => new BlockIndex(createBlockIndexMemory(bytes, MEMBERS));
const random = createSeededRandom(1);

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
  send(blocks, 0, first);
  send(blocks, 1, first);
  blocks.forget(0, first, 12, 20);
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
  for (let n = 0; n < 200; n++) send(blocks, n % 2, prompt(10));
  t.same(blocks.use(), { held: 2000 * 8, stale: 0, free: 64 * KIB - 2000 * 8 }, 'exact when the sample is all');
  blocks.clear(0);
  t.same(blocks.use(), { held: 1000 * 8, stale: 1000 * 8, free: 64 * KIB - 2000 * 8 });
  const large = index(2 ** 20);
  for (let n = 0; n < 2000; n++) send(large, n % 2, prompt(20));
  t.ok(Math.abs(large.use().held / (40_000 * 8) - 1) < 0.05);
  t.end();
});
