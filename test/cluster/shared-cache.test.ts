// The cache that gateways share, over an engine in memory under a manual clock: lifetimes, bounds, deadlines, and entries that no gateway
// wrote.
import { zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { sharedCache } from '../../src/cluster/shared-cache.ts';
import { ENTRY_BYTES, SharedCache, sharedKey, type SharedKind } from '../../src/net/shared-cache.ts';
import { type FakeCacheEngine, fakeCacheEngine } from '../support/cache-engine.ts';

interface Setup extends TestSystem {
  readonly engine: FakeCacheEngine;
  readonly writes: string[];
  readonly gateway: () => SharedCache;
}

function setUp(mostBytes = 10_000_000): Setup {
  const test = createTestSystem();
  const engine = fakeCacheEngine(test.clock);
  const writes: string[] = [];
  const gateway = (): SharedCache => {
    const actor = test.system.spawn(
      sharedCache({
        engine,
        mostBytes: () => mostBytes,
        onWrite: (kind, result) => void writes.push(`${kind} ${result}`),
      }),
    );
    const cache = new SharedCache(actor, test.clock);
    cache.configure(true);
    return cache;
  };
  return { ...test, engine, writes, gateway };
}

type Found = readonly [answer: string | null, remainingMs: number];

function get(cache: SharedCache, key: string, kind: SharedKind = 'page'): Promise<Found> {
  return new Promise((resolve) => {
    cache.get(
      kind,
      key,
      (bytes) => bytes.toString(),
      (answer, remainingMs) => resolve([answer, remainingMs]),
    );
  });
}

/** Resolves when a number of writes has ended. */
async function written({ writes }: Setup, count: number): Promise<void> {
  while (writes.length < count) await new Promise((resolve) => void setImmediate(resolve));
}

const KEY = sharedKey(['a']);
const NAME = `{test}:cache:page:${KEY}`;

t.test('what one gateway shares another finds, with what is left of its lifetime', async (t) => {
  const b = setUp();
  const [one, two] = [b.gateway(), b.gateway()];
  t.same(await get(two, KEY), [null, 0]);
  one.set('page', KEY, 'the page', 60_000, 'account');
  await written(b, 1);
  b.clock.advance(20_000);
  t.same(await get(two, KEY), ['the page', 40_000]);
  t.same(await get(two, KEY, 'search'), [null, 0], 'no other cache has it');
  b.clock.advance(40_000);
  t.same(await get(two, KEY), [null, 0]);
  t.match(two.counts, { page: { hit: 1, miss: 2 }, search: { miss: 1 } });
  t.same(b.writes, ['page written']);
});

t.test('keys and entries say nothing in clear text', async (t) => {
  const b = setUp();
  b.gateway().set('search', sharedKey(['secret query']), 'secret answer', 1000, '');
  await written(b, 1);
  const [name = '', { value } = { value: Buffer.alloc(0) }] = [...b.engine.entries][0] ?? [];
  t.match(name, /^\{test\}:cache:search:[\w-]{43}$/);
  t.notMatch(name, /secret/);
  t.equal(value[0], 1, 'begins with the version of the format');
});

t.test('nothing is asked while gateways do not share, and while the engine is away', async (t) => {
  const b = setUp();
  const cache = b.gateway();
  cache.configure(false);
  t.same(await get(cache, KEY), [null, 0]);
  cache.set('page', KEY, 'page', 1000, '');
  cache.configure(true);
  b.engine.connected = false;
  t.same(await get(cache, KEY), [null, 0]);
  cache.set('page', KEY, 'page', 1000, '');
  await written(b, 1);
  t.same(b.engine.asked, []);
  t.equal(cache.counts.page.skipped, 2);
  t.same(b.writes, ['page dropped']);
});

t.test('a lookup ends after 20 ms; after five such ones there is none for a second', async (t) => {
  const b = setUp();
  const cache = b.gateway();
  b.engine.isSlow = true;
  for (let lookup = 1; lookup <= 5; lookup++) {
    const found = get(cache, KEY);
    await b.advance(19);
    t.equal(cache.counts.page.timeout, lookup - 1);
    await b.advance(1);
    t.same(await found, [null, 0]);
    t.equal(cache.counts.page.timeout, lookup);
  }
  t.same(await get(cache, KEY), [null, 0], 'at once');
  t.equal(cache.counts.page.skipped, 1);
  await b.advance(1000);
  const trial = get(cache, KEY);
  await b.advance(20);
  t.same(await trial, [null, 0]);
  t.same(await get(cache, KEY), [null, 0]);
  t.match(cache.counts.page, { timeout: 6, skipped: 2 }, 'one trial a second');
  b.engine.isSlow = false;
  await b.advance(1000);
  await get(cache, KEY);
  await get(cache, KEY);
  t.equal(cache.counts.page.miss, 2);
});

t.test('an engine that refuses is no error of a request', async (t) => {
  const b = setUp();
  const cache = b.gateway();
  b.engine.fails = true;
  t.same(await get(cache, KEY), [null, 0]);
  cache.set('page', KEY, 'page', 1000, '');
  await written(b, 1);
  t.equal(cache.counts.page.error, 1);
  t.same(b.writes, ['page error']);
});

t.test('entries that no gateway wrote are misses and are counted', async (t) => {
  const entry = (body: string | Buffer): Buffer => Buffer.concat([Buffer.of(1), zstdCompressSync(body)]);
  const bomb = entry(Buffer.alloc(ENTRY_BYTES + 1));
  t.ok(bomb.length < 10_000, 'a small bomb');
  const poisoned: Readonly<Record<string, Buffer>> = {
    garbage: Buffer.from('garbage'),
    'one byte': Buffer.of(1),
    'no compressed data': Buffer.concat([Buffer.of(1), Buffer.from('garbage')]),
    'a truncated frame': entry(`${KEY}${'page '.repeat(1000)}`).subarray(0, 30),
    'another version': Buffer.concat([Buffer.of(2), zstdCompressSync(`${KEY}page`)]),
    'too long': Buffer.concat([Buffer.of(1), Buffer.alloc(1024 * 1024)]),
    bomb,
    'an entry of another key': entry(`${sharedKey(['b'])}page`),
    'one that its reader refuses': entry(`${KEY}{`),
  };
  for (const [name, value] of Object.entries(poisoned)) {
    const b = setUp();
    const cache = b.gateway();
    b.engine.entries.set(NAME, { value, endMs: 1000 });
    const found = await new Promise((resolve) => {
      cache.get('page', KEY, (bytes) => JSON.parse(bytes.toString()) as string, resolve);
    });
    t.equal(found, null, name);
    t.match(cache.counts.page, { invalid: 1, hit: 0, miss: 0 }, name);
  }
  const b = setUp();
  const cache = b.gateway();
  b.engine.entries.set(NAME, { value: entry(`${KEY}page`), endMs: Infinity });
  t.same(await get(cache, KEY), [null, 0], 'one without a lifetime');
  t.equal(cache.counts.page.invalid, 1);
});

t.test('what is too long is not shared', async (t) => {
  const b = setUp();
  const cache = b.gateway();
  cache.set('page', KEY, 'x'.repeat(ENTRY_BYTES + 1), 1000, '');
  const noise = Buffer.alloc(1_100_000, 0);
  for (let i = 0, state = 1; i < noise.length; i++) noise[i] = (state = Math.imul(state, 48271) >>> 0) >>> 24;
  cache.set('page', KEY, noise, 1000, '');
  await written(b, 1);
  t.same(b.writes, ['page large']);
  t.equal(b.engine.entries.size, 0);
});

t.test('beyond the memory of a cache the oldest entries of this gateway leave the engine', async (t) => {
  const b = setUp(2000);
  const cache = b.gateway();
  for (let i = 0; i < 40; i++) {
    cache.set('page', sharedKey([i]), `page ${i}`, 60_000, 'account');
    await written(b, i + 1);
  }
  await b.settle();
  t.ok(b.engine.entries.size > 2 && b.engine.entries.size <= 20, `${b.engine.entries.size} entries`);
  t.same(await get(cache, sharedKey([0])), [null, 0]);
  t.equal((await get(cache, sharedKey([39])))[0], 'page 39');
});

t.test(
  'an entry that is large for the memory of the cache is not written, since it would not be counted',
  async (t) => {
    const b = setUp(400_000);
    const cache = b.gateway();
    const noise = Buffer.alloc(100_000, 0);
    for (let i = 0, state = 1; i < noise.length; i++) noise[i] = (state = Math.imul(state, 48271) >>> 0) >>> 24;
    for (let i = 0; i < 10; i++) {
      cache.set('page', sharedKey([i]), noise, 60_000, 'account');
      await written(b, i + 1);
    }
    await b.settle();
    const bytes = [...b.engine.entries.values()].reduce((sum, { value }) => sum + value.length, 0);
    t.ok(bytes <= 400_000, `${bytes} bytes`);
    t.equal(b.writes[0], 'page large');
  },
);

t.test('writes under way are bounded', async (t) => {
  const b = setUp();
  const cache = b.gateway();
  for (let i = 0; i < 100; i++) cache.set('page', sharedKey([i]), 'page', 60_000, '');
  await written(b, 32);
  await b.settle();
  t.equal(b.engine.entries.size, 32);
  cache.set('page', KEY, 'page', 60_000, '');
  await written(b, 33);
});
