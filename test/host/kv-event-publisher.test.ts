// KV events of a host: what the block cache reports, the wire format, batches, replay, and the gateway's subscription to it.
import { Unpackr } from 'msgpackr';
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { BlockCache, type BlockObserver } from '../../src/host/engine/block-cache.ts';
import type { CacheAllocation } from '../../src/host/engine/prefix-cache.ts';
import { createHost } from '../../src/host/index.ts';
import { KvEventPublisher, type KvEventSettings } from '../../src/host/kv-event-publisher.ts';
import { connectZmtp } from '../../src/net/zmtp.ts';
import { writeSequence } from '../../src/routing/kv-event-batch.ts';
import { KvEventSubscription } from '../../src/routing/kv-event-subscription.ts';
import { Random } from '../support/random.ts';

const BLOCK = 4;
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'bigint' });

/** Keeps what is stored and not removed. */
class Mirror implements BlockObserver {
  /** Parent by name. */
  readonly blocks = new Map<number, number>();
  changes = 0;

  stored(name: number, parent: number): void {
    this.changes++;
    this.blocks.set(name, parent);
  }

  removed(name: number): void {
    this.changes++;
    if (!this.blocks.delete(name)) throw new Error('removed, but never stored');
  }

  cleared(): void {
    this.changes++;
    this.blocks.clear();
  }
}

t.test('what a cache reports as stored and not removed is what it finds', async (t) => {
  const random = new Random(7);
  const mirror = new Mirror();
  const cache = new BlockCache({ blocks: 24, blockTokens: BLOCK, sequences: 4 }, mirror);
  const running: { allocation: CacheAllocation; tokens: Int32Array }[] = [];
  const prompts = Array.from({ length: 40 }, () => {
    const shared = Array.from({ length: random.below(12) }, (_, at) => at);
    return Int32Array.from([...shared, ...Array.from({ length: 1 + random.below(16) }, () => random.below(3))]);
  });
  let found = 0;
  for (let round = 0; round < 4000; round++) {
    if (random.chance(0.5) && running.length > 0) {
      const [{ allocation, tokens }] = running.splice(random.below(running.length), 1) as [(typeof running)[0]];
      cache.release(allocation, tokens, tokens.length);
    } else {
      const tokens = random.pick(prompts);
      const allocation = cache.admit(tokens, tokens.length, true, -1);
      if (allocation !== null) running.push({ allocation, tokens });
    }
    if (running.length === 0 && random.chance(0.02)) cache.clear();
    const held = cache.cachedTokens(random.pick(prompts), BLOCK * 5) / BLOCK;
    if (held > 0) found++;
    if (mirror.blocks.size < held) t.fail(`finds ${held} blocks, but reported ${mirror.blocks.size}`);
  }
  t.ok(found > 100);
  t.ok(mirror.changes > 1000);
  while (running.length > 0) {
    const { allocation, tokens } = running.pop() as (typeof running)[0];
    cache.release(allocation, tokens, tokens.length);
  }
  t.equal(mirror.blocks.size * BLOCK, cache.idleTokens, 'every block that can be found, and no other');
  const depth = (name: number): number => (name === 0 ? 0 : 1 + depth(mirror.blocks.get(name) ?? 0));
  t.ok(
    [...mirror.blocks.keys()].every((name) => depth(name) <= 7),
    'chains lead to the beginning of a prompt',
  );
});

/** Subscribes, and returns what resolves with the next message. */
function listen(t: Test, endpoint: string, topic = ''): () => Promise<readonly Buffer[]> {
  const messages: (readonly Buffer[])[] = [];
  let wake = Promise.withResolvers<void>();
  const connection = connectZmtp(endpoint, 'SUB', {
    onReady: () => void connection.send([Buffer.from(`\x01${topic}`)]),
    onMessage: (frames) => {
      messages.push(frames);
      wake.resolve();
    },
    onClosed: () => {},
  });
  t.teardown(() => connection.close());
  return async () => {
    while (messages.length === 0) {
      await wake.promise;
      wake = Promise.withResolvers();
    }
    return messages.shift() as readonly Buffer[];
  };
}

async function open(
  t: Test,
  settings: Partial<KvEventSettings> = {},
): Promise<{ publisher: KvEventPublisher; endpoint: string }> {
  const publisher = new KvEventPublisher({ endpoint: 'tcp://127.0.0.1:*', ...settings });
  await publisher.open();
  t.teardown(() => publisher.close());
  return { publisher, endpoint: publisher.endpoint as string };
}

/** Publishes until a subscriber hears it: a subscription takes its time to arrive. */
async function heard(publisher: KvEventPublisher, next: () => Promise<readonly Buffer[]>): Promise<readonly Buffer[]> {
  const arrived = next();
  let isHere = false;
  void arrived.then(() => (isHere = true));
  while (!isHere) {
    publisher.cleared();
    await new Promise((resolve) => void setImmediate(resolve));
  }
  return arrived;
}

t.test('writes batches as vLLM does', async (t) => {
  const { publisher, endpoint } = await open(t, { topic: 'kv-events' });
  const next = listen(t, endpoint, 'kv-events');
  const [topic, number] = await heard(publisher, next);
  t.equal(String(topic), 'kv-events');
  t.equal(number?.length, 8);
  const tokens = Int32Array.from({ length: 16 }, (_, at) => 1000 + at);
  publisher.stored(0x1f_ffff_ffff_ffff, 0, tokens, 0, 4);
  publisher.stored(22, 0x1f_ffff_ffff_ffff, tokens, 4, 8);
  publisher.stored(33, 7, tokens, 8, 12);
  publisher.removed(22);
  publisher.removed(33);
  publisher.stored(44, 0, tokens, 0, 4);
  publisher.cleared();
  let batch: [number, unknown[][], number];
  let sequence = (number as Buffer).readBigUInt64BE();
  do {
    const [, later, payload] = await next();
    t.equal((later as Buffer).readBigUInt64BE(), ++sequence, 'numbers have no holes');
    batch = unpackr.unpack(payload as Buffer) as typeof batch;
  } while (batch[1].length === 1);
  const [time, events, rank] = batch;
  t.equal(typeof time, 'number');
  t.equal(rank, 0);
  t.same(events, [
    ['BlockStored', [0x1f_ffff_ffff_ffffn, 22n], null, [...tokens.subarray(0, 8)], 4, null, 'GPU', null],
    ['BlockStored', [33n], 7n, [...tokens.subarray(8, 12)], 4, null, 'GPU', null],
    ['BlockRemoved', [22n, 33n], 'GPU'],
    ['BlockStored', [44n], null, [...tokens.subarray(0, 4)], 4, null, 'GPU', null],
    ['AllBlocksCleared'],
  ]);
});

t.test('a subscription that joins late reads what happened before from the replay', async (t) => {
  const { publisher, endpoint } = await open(t, { replay: 'tcp://127.0.0.1:*' });
  const tokens = Int32Array.from({ length: 64 }, (_, at) => at);
  for (let block = 0; block < 16; block++) publisher.stored(block + 1, block, tokens, block * 4, block * 4 + 4);
  await new Promise((resolve) => void setImmediate(resolve));
  publisher.removed(16);
  await new Promise((resolve) => void setImmediate(resolve));
  let isReplayed = false;
  const subscription = new KvEventSubscription(
    { endpoint, replay: publisher.replayEndpoint as string },
    {
      clock: createManualClock(),
      onApplied: () => (isReplayed = subscription.counts.replayed >= 2),
      onCleared: () => {},
      onConnection: () => {},
      onRejected: (error) => t.fail(error.message),
      onReplayFailed: (error) => t.fail(error.message),
    },
  );
  t.teardown(() => subscription.close());
  for (let block = 100; !isReplayed; block++) {
    publisher.stored(block, 15, tokens, 0, 4);
    await new Promise((resolve) => void setImmediate(resolve));
  }
  t.ok(subscription.residency.residentTokens >= 15 * 4);
  t.equal(subscription.residency.removedTokens, 4);
  t.equal(subscription.counts.lost, 0);
});

t.test('a replay is not repeated while its subscriber has not read the one before', async (t) => {
  const { publisher } = await open(t, { replay: 'tcp://127.0.0.1:*' });
  const tokens = Int32Array.from({ length: 1_000_000 }, () => 1000);
  const batches = 10;
  for (let at = 0; at < batches; at++) {
    publisher.stored(at + 1, at, tokens, 0, tokens.length);
    await new Promise((resolve) => void setImmediate(resolve));
  }
  const numbers: bigint[] = [];
  let ended = Promise.withResolvers<void>();
  const isReady = Promise.withResolvers<void>();
  const connection = connectZmtp(publisher.replayEndpoint as string, 'DEALER', {
    onReady: isReady.resolve,
    onMessage: ([, number, payload]) => {
      numbers.push((number as Buffer).readBigUInt64BE());
      if (payload?.length === 0) ended.resolve();
    },
    onClosed: () => {},
  });
  t.teardown(() => connection.close());
  await isReady.promise;
  const request = (from: number): boolean => connection.send([Buffer.alloc(0), writeSequence(from)]);
  const end = 2n ** 64n - 1n;
  connection.pause();
  for (let count = 0; count < 20; count++) request(0);
  // The requests have been read once one on another connection is answered.
  await replayed(t, publisher.replayEndpoint as string);
  connection.resume();
  await ended.promise;
  ended = Promise.withResolvers();
  request(batches - 2);
  await ended.promise;
  const all = Array.from({ length: batches }, (_, at) => BigInt(at));
  t.same(numbers, [...all, end, ...all.slice(-2), end]);
});

/** Resolves with the end of a replay of nothing. */
function replayed(t: Test, endpoint: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const connection = connectZmtp(endpoint, 'DEALER', {
      onReady: () => void connection.send([Buffer.alloc(0), writeSequence(Number.MAX_SAFE_INTEGER)]),
      onMessage: () => resolve(),
      onClosed: reject,
    });
    t.teardown(() => connection.close());
  });
}

t.test('an address can be bound again once it is closed, and one that is taken is an error', async (t) => {
  const { publisher, endpoint } = await open(t);
  const second = new KvEventPublisher({ endpoint });
  await t.rejects(second.open(), { code: 'EADDRINUSE' });
  await publisher.close();
  await second.open();
  t.equal(second.endpoint, endpoint);
  await second.close();
  t.equal(second.endpoint, null);
});

t.test('a host refuses KV events where there are none', async (t) => {
  const kvEvents = 'tcp://127.0.0.1:*';
  t.throws(() => createHost({ models: ['a'], kvEvents }), /slots have no KV events; choose a profile/);
  t.throws(() => createHost({ models: ['a'], engine: 'steps', kvEvents }), /slots have no KV events; choose a profile/);
  t.throws(() => createHost({ models: ['a', 'b'], engine: '8b-h100', kvEvents }), /KV events are those of one model/);
  const real = { complete: () => {}, models: ['a'] } as never;
  t.throws(() => createHost({ models: ['a'], engine: real, kvEvents }), /a real one publishes its own/);
  const host = createHost({ models: ['a'], engine: '8b-h100', kvEvents });
  t.equal(host.kvEvents, null);
  await host.listen();
  t.match(host.kvEvents, { endpoint: /^tcp:\/\/127\.0\.0\.1:\d+$/, replay: null });
  await host.close();
  t.equal(host.kvEvents, null);
});
