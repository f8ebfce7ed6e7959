// Subscriptions to KV events over real sockets: order, gaps, replay, restarts, garbage and floods.
import { once } from 'node:events';
import { createServer } from 'node:net';
import t, { type Test } from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { loadZeroMq } from '../../src/net/zeromq.ts';
import { KvEventSubscription } from '../../src/routing/kv-event-subscription.ts';
import {
  batch,
  CLEARED,
  hashes,
  msgpack,
  removed,
  ScriptedPublisher,
  sequence,
  stored,
} from '../support/kv-publisher.ts';

const BLOCK = 16;

interface Scene {
  readonly publisher: ScriptedPublisher;
  readonly subscription: KvEventSubscription;
  readonly clock: ManualClock;
  /** Resolves when the connection is lost. */
  readonly disconnected: Promise<void>;
  /** Resolves with what happens next: `applied`, `cleared`, `restarted` or `rejected`. */
  readonly next: () => Promise<string>;
}

interface SceneOptions {
  readonly replay?: boolean;
  readonly topic?: string;
}

async function subscribe(t: Test, { replay = false, topic }: SceneOptions = {}): Promise<Scene> {
  const publisher = await ScriptedPublisher.open(t);
  const { endpoint, replayEndpoint } = publisher;
  const happened: string[] = [];
  let wake = Promise.withResolvers<void>();
  const note = (what: string): void => {
    happened.push(what);
    wake.resolve();
  };
  const clock = createManualClock();
  const disconnected = Promise.withResolvers<void>();
  const subscription = new KvEventSubscription(
    { endpoint, ...(replay && { replay: replayEndpoint }), ...(topic !== undefined && { topic }) },
    {
      zeromq: await loadZeroMq(),
      clock,
      onApplied: () => note('applied'),
      onCleared: note,
      onRejected: () => note('rejected'),
      onConnection: (connected) => void (connected || disconnected.resolve()),
    },
  );
  t.teardown(() => subscription.close());
  const next = async (): Promise<string> => {
    while (happened.length === 0) {
      await wake.promise;
      wake = Promise.withResolvers();
    }
    return happened.shift() as string;
  };
  return { publisher, subscription, clock, disconnected: disconnected.promise, next };
}

function blocks(from: number, count: number): Buffer {
  return batch(stored(hashes(from, count), BLOCK));
}

t.test('applies batches in order and counts them', async (t) => {
  const { publisher, subscription, clock, next } = await subscribe(t);
  await publisher.subscription();
  clock.advance(1234);
  await publisher.send(0, blocks(0, 10));
  await publisher.send(1, batch(removed(hashes(0, 4)), stored(hashes(10, 2), BLOCK)));
  t.same([await next(), await next()], ['applied', 'applied']);
  t.equal(subscription.residency.residentTokens, 8 * BLOCK);
  t.match(subscription.counts, { connected: true, events: 3, lost: 0, rejected: 0, restarts: 0, lastMs: 1234 });
  await publisher.send(2, batch(CLEARED));
  t.same([await next(), await next()], ['cleared', 'applied']);
  t.equal(subscription.residency.residentTokens, 0);
});

t.test('reads its own topic only', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { topic: 'kv@a' });
  t.equal(await publisher.subscription(), 'kv@a');
  await publisher.send(0, blocks(0, 1), 'kv@other');
  await publisher.send(0, blocks(10, 1), 'kv@ab');
  await publisher.send(0, blocks(20, 5), 'kv@a');
  t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 5 * BLOCK);
  t.match(subscription.counts, { events: 1, rejected: 0, restarts: 0 });
});

t.test('a lost batch makes the contents unknown and clears nothing', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  await publisher.send(0, blocks(0, 10));
  await publisher.send(3, blocks(30, 2));
  t.same([await next(), await next()], ['applied', 'applied'], 'no clearing');
  t.equal(subscription.counts.lost, 2);
  t.equal(subscription.residency.residentTokens, 2 * BLOCK, 'only what is known since');
});

t.test('lost batches are asked for again where the server replays', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  await publisher.send(0, blocks(0, 10));
  t.equal(await next(), 'applied');
  for (let number = 0; number < 6; number++) publisher.kept.set(number, blocks(number * 10, 10));
  await publisher.send(4, blocks(40, 10));
  t.same([await next(), await next(), await next(), await next()], ['applied', 'applied', 'applied', 'applied']);
  t.same(publisher.asked, [1]);
  t.equal(subscription.residency.residentTokens, 50 * BLOCK);
  t.match(subscription.counts, { lost: 0, replayed: 3 });
  await publisher.send(5, blocks(50, 1));
  t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 51 * BLOCK, 'what the replay had too much of is not applied twice');
});

t.test('what the server does not keep any more stays lost', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  await publisher.send(0, blocks(0, 10));
  t.equal(await next(), 'applied');
  publisher.kept.set(4, blocks(40, 10));
  await publisher.send(5, blocks(50, 10));
  t.same([await next(), await next()], ['applied', 'applied']);
  t.equal(subscription.residency.residentTokens, 20 * BLOCK);
  t.equal(subscription.counts.lost, 3);
});

t.test('a subscriber that joins late replays from the beginning and loses nothing', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  for (let number = 0; number < 7; number++) publisher.kept.set(number, blocks(number, 1));
  await publisher.send(7, blocks(7, 1));
  for (let number = 0; number < 8; number++) t.equal(await next(), 'applied');
  t.same(publisher.asked, [0]);
  t.match(subscription.counts, { lost: 0, replayed: 7 });
  t.equal(subscription.residency.residentTokens, 8 * BLOCK);
});

t.test('a number that falls back is a restart', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  await publisher.send(900, blocks(0, 10));
  t.equal(await next(), 'applied');
  t.equal(subscription.counts.lost, 0, 'batches before the first connection are not lost');
  await publisher.send(2, blocks(20, 3));
  t.same([await next(), await next()], ['restarted', 'applied']);
  t.match(subscription.counts, { restarts: 1 });
  t.equal(subscription.residency.residentTokens, 3 * BLOCK);
});

t.test('connects again when the server comes back on its port', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  await publisher.send(5, blocks(0, 10));
  t.equal(await next(), 'applied');
  publisher.close();
  const second = await ScriptedPublisher.open(t, publisher.endpoint);
  await second.subscription();
  await second.send(0, blocks(0, 1));
  t.same([await next(), await next()], ['restarted', 'applied']);
  t.equal(subscription.residency.residentTokens, BLOCK);
  t.equal(subscription.counts.connected, true);
});

t.test('garbage is rejected, and the next batch is read', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  await publisher.send(0, blocks(0, 10));
  t.equal(await next(), 'applied');
  const garbage: (string | Uint8Array)[][] = [
    [''],
    ['', sequence(1)],
    ['', sequence(1), batch(CLEARED), 'more'],
    ['', 'short', batch(CLEARED)],
    ['', sequence(-1n), batch(CLEARED)],
    ['', sequence(1), 'no msgpack'],
    ['', sequence(2), msgpack([1.5, [['BlockRemoved', 7]]])],
  ];
  for (const frames of garbage) {
    await publisher.sendFrames(frames);
    t.equal(await next(), 'rejected');
  }
  t.equal(subscription.counts.rejected, garbage.length);
  await publisher.send(3, blocks(30, 2));
  t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 2 * BLOCK);
  t.equal(subscription.counts.lost, 0, 'a rejected batch has arrived');
});

t.test('a server that sends a frame above the limit is cut off, and its later events are read', async (t) => {
  const { publisher, subscription, clock, disconnected, next } = await subscribe(t);
  await publisher.subscription();
  await publisher.send(0, blocks(0, 1));
  t.equal(await next(), 'applied');
  await publisher.send(1, Buffer.alloc(5 * 1024 * 1024));
  await disconnected;
  t.equal(subscription.counts.connected, false);
  clock.advance(2000);
  await publisher.subscription();
  await publisher.send(2, blocks(20, 4));
  t.equal(await next(), 'applied');
  t.match(subscription.counts, { lost: 1, rejected: 0 });
});

t.test('connects to a server that broke the protocol at first', async (t) => {
  const { publisher, clock, disconnected, next } = await subscribe(t);
  const { endpoint } = publisher;
  await publisher.subscription();
  publisher.close();
  await disconnected;
  const web = createServer(
    (socket) =>
      void socket
        .on('error', () => {})
        .resume()
        .end('HTTP/1.1 400 Bad Request\r\n\r\n'),
  );
  web.listen(Number(endpoint.split(':').at(-1)), '127.0.0.1');
  await once(web, 'connection');
  web.close();
  await once(web, 'close');
  const second = await ScriptedPublisher.open(t, endpoint);
  clock.advance(2000);
  await second.subscription();
  await second.send(0, blocks(0, 1));
  t.equal(await next(), 'applied');
});

t.test('a flood is read to its end; what does not fit in the queues is lost and counted', async (t) => {
  const { publisher, subscription } = await subscribe(t);
  const { counts } = subscription;
  await publisher.subscription();
  let sent = 0;
  while (sent < 20_000) await publisher.send(sent, blocks(sent++, 1));
  // The end of the flood may be lost too, which only a later batch tells.
  do {
    await publisher.send(sent, blocks(sent++, 1));
    await new Promise((resolve) => void setImmediate(resolve));
  } while (counts.events + counts.lost < sent);
  t.ok(counts.events > 0);
  t.match(counts, { rejected: 0, restarts: 0 });
});

t.test('closing ends a subscription while a replay hangs', async (t) => {
  const { publisher, subscription } = await subscribe(t, { replay: true });
  await publisher.subscription();
  const held = publisher.holdReplays();
  await publisher.send(9, blocks(0, 1));
  t.equal(await held, 0);
  subscription.close();
});
