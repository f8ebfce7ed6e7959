// Subscriptions to KV events over real sockets: order, gaps, replay, restarts, garbage and floods.
import { once } from 'node:events';
import { createServer } from 'node:net';
import t, { type Test } from 'tap';
import type { Clock } from '../../src/actor/index.ts';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { ZmtpListener } from '../../src/net/zmtp.ts';
import { KvEventSubscription, type KvEventSubscriptionDeps } from '../../src/routing/kv-event-subscription.ts';
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

const UNHEARD: Omit<KvEventSubscriptionDeps, 'clock'> = {
  onApplied: () => {},
  onCleared: () => {},
  onConnection: () => {},
  onRejected: () => {},
  onReplayFailed: () => {},
};

interface Scene {
  readonly publisher: ScriptedPublisher;
  readonly subscription: KvEventSubscription;
  readonly clock: ManualClock;
  /** Whether there was a connection, at each report. */
  readonly reports: readonly boolean[];
  /** Resolves when the connection is lost. */
  readonly disconnected: Promise<void>;
  /** What is said of replays that have failed. */
  readonly failures: readonly string[];
  /** What has happened and `next` has not returned yet. */
  readonly happened: readonly string[];
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
  const reports: boolean[] = [];
  const failures: string[] = [];
  const subscription = new KvEventSubscription(
    { endpoint, ...(replay && { replay: replayEndpoint }), ...(topic !== undefined && { topic }) },
    {
      clock,
      onApplied: () => note('applied'),
      onCleared: note,
      onRejected: () => note('rejected'),
      onReplayFailed: (error) => failures.push(error.message),
      onConnection: (connected) => {
        reports.push(connected);
        if (!connected) disconnected.resolve();
      },
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
  return { publisher, subscription, clock, disconnected: disconnected.promise, failures, happened, next, reports };
}

function blocks(from: number, count: number): Buffer {
  return batch(stored(hashes(from, count), BLOCK));
}

t.test('applies batches in order and counts them', async (t) => {
  const { publisher, subscription, clock, next } = await subscribe(t);
  await publisher.subscription();
  clock.advance(1234);
  publisher.send(0, blocks(0, 10));
  publisher.send(1, batch(removed(hashes(0, 4)), stored(hashes(10, 2), BLOCK)));
  t.same([await next(), await next()], ['applied', 'applied']);
  t.equal(subscription.residency.residentTokens, 8 * BLOCK);
  t.match(subscription.counts, { connected: true, events: 3, lost: 0, rejected: 0, restarts: 0, lastMs: 1234 });
  publisher.send(2, batch(CLEARED));
  t.same([await next(), await next()], ['cleared', 'applied']);
  t.equal(subscription.residency.residentTokens, 0);
});

t.test('reads its own topic only', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { topic: 'kv@a' });
  t.equal(await publisher.subscription(), 'kv@a');
  publisher.send(0, blocks(0, 1), 'kv@other');
  publisher.send(0, blocks(10, 1), 'kv@ab');
  publisher.send(0, blocks(20, 5), 'kv@a');
  t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 5 * BLOCK);
  t.match(subscription.counts, { events: 1, rejected: 0, restarts: 0 });
});

t.test('a lost batch makes the contents unknown and clears nothing', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(0, blocks(0, 10));
  publisher.send(3, blocks(30, 2));
  t.same([await next(), await next()], ['applied', 'applied'], 'no clearing');
  t.equal(subscription.counts.lost, 2);
  t.equal(subscription.residency.residentTokens, 2 * BLOCK, 'only what is known since');
});

t.test('lost batches are asked for again where the server replays', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  publisher.send(0, blocks(0, 10));
  t.equal(await next(), 'applied');
  for (let number = 0; number < 6; number++) publisher.kept.set(number, blocks(number * 10, 10));
  publisher.send(4, blocks(40, 10));
  t.same([await next(), await next(), await next(), await next()], ['applied', 'applied', 'applied', 'applied']);
  t.same(publisher.asked, [1]);
  t.equal(subscription.residency.residentTokens, 50 * BLOCK);
  t.match(subscription.counts, { lost: 0, replayed: 3 });
  publisher.send(5, blocks(50, 1));
  t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 51 * BLOCK, 'what the replay had too much of is not applied twice');
});

t.test('what the server does not keep any more stays lost', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  publisher.send(0, blocks(0, 10));
  t.equal(await next(), 'applied');
  publisher.kept.set(4, blocks(40, 10));
  publisher.send(5, blocks(50, 10));
  t.same([await next(), await next()], ['applied', 'applied']);
  t.equal(subscription.residency.residentTokens, 20 * BLOCK);
  t.equal(subscription.counts.lost, 3);
});

t.test('a subscriber that joins late replays from the beginning and loses nothing', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  for (let number = 0; number < 7; number++) publisher.kept.set(number, blocks(number, 1));
  publisher.send(7, blocks(7, 1));
  for (let number = 0; number < 8; number++) t.equal(await next(), 'applied');
  t.same(publisher.asked, [0]);
  t.match(subscription.counts, { lost: 0, replayed: 7 });
  t.equal(subscription.residency.residentTokens, 8 * BLOCK);
});

t.test('a number that falls back is a restart', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(900, blocks(0, 10));
  t.equal(await next(), 'applied');
  t.equal(subscription.counts.lost, 0, 'batches before the first connection are not lost');
  publisher.send(2, blocks(20, 3));
  t.same([await next(), await next()], ['restarted', 'applied']);
  t.match(subscription.counts, { restarts: 1 });
  t.equal(subscription.residency.residentTokens, 3 * BLOCK);
});

/** Lets time pass until something has happened. */
async function pass(clock: ManualClock, promise: Promise<unknown>): Promise<void> {
  let hasHappened = false;
  void promise.then(() => (hasHappened = true));
  while (!hasHappened) {
    clock.advance(100);
    await new Promise((resolve) => void setImmediate(resolve));
  }
}

t.test('connects again when the server comes back on its port', async (t) => {
  const { publisher, subscription, clock, disconnected, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(5, blocks(0, 10));
  t.equal(await next(), 'applied');
  await publisher.close();
  await disconnected;
  t.equal(subscription.counts.connected, false);
  const second = await ScriptedPublisher.open(t, publisher.endpoint);
  await pass(clock, second.subscription());
  second.send(0, blocks(0, 1));
  t.same([await next(), await next()], ['restarted', 'applied']);
  t.equal(subscription.residency.residentTokens, BLOCK);
  t.equal(subscription.counts.connected, true);
});

t.test('garbage is rejected, and the next batch is read', async (t) => {
  const { publisher, subscription, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(0, blocks(0, 10));
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
    publisher.sendFrames(frames);
    t.equal(await next(), 'rejected');
  }
  t.equal(subscription.counts.rejected, garbage.length);
  publisher.send(3, blocks(30, 2));
  t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 2 * BLOCK);
  t.equal(subscription.counts.lost, 0, 'a rejected batch has arrived');
});

t.test('a server that sends a frame above the limit is cut off, and its later events are read', async (t) => {
  const { publisher, subscription, clock, disconnected, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(0, blocks(0, 1));
  t.equal(await next(), 'applied');
  publisher.send(1, Buffer.alloc(5 * 1024 * 1024));
  await disconnected;
  await pass(clock, publisher.subscription());
  publisher.send(2, blocks(20, 4));
  t.equal(await next(), 'applied');
  t.match(subscription.counts, { lost: 1, rejected: 0 });
});

t.test('goes on trying while something else answers at the endpoint, and reports it once', async (t) => {
  const { publisher, clock, disconnected, next, reports } = await subscribe(t);
  const { endpoint } = publisher;
  await publisher.subscription();
  await publisher.close();
  await disconnected;
  let visits = 0;
  const third = Promise.withResolvers<void>();
  const web = createServer((socket) => {
    if (++visits === 3) third.resolve();
    socket.on('error', () => {}).resume();
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
  });
  web.listen(Number(endpoint.split(':').at(-1)), '127.0.0.1');
  await pass(clock, third.promise);
  web.close();
  await once(web, 'close');
  const second = await ScriptedPublisher.open(t, endpoint);
  await pass(clock, second.subscription());
  second.send(0, blocks(0, 1));
  t.equal(await next(), 'applied');
  t.same(reports, [true, false, true]);
});

/** A clock that stands still and ends each wait at once, until it was asked for so many. */
function clockOfDelays(count: number): { clock: Clock; delays: number[]; reached: Promise<void> } {
  const delays: number[] = [];
  const { promise: reached, resolve } = Promise.withResolvers<void>();
  const clock: Clock = {
    now: () => 0,
    clearTimeout: () => {},
    setTimeout: (callback, delayMs) => {
      delays.push(delayMs);
      if (delays.length === count) resolve();
      else setImmediate(callback);
      return {};
    },
  };
  return { clock, delays, reached };
}

t.test('waits longer after each attempt that fails, up to 30 s', async (t) => {
  const publisher = await ScriptedPublisher.open(t);
  await publisher.close();
  const { clock, delays, reached } = clockOfDelays(12);
  const reports: (Error | null)[] = [];
  const subscription = new KvEventSubscription(
    { endpoint: publisher.endpoint },
    { ...UNHEARD, clock, onConnection: (_, error) => reports.push(error) },
  );
  t.teardown(() => subscription.close());
  await reached;
  t.same(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000]);
  t.match(reports, [{ code: 'ECONNREFUSED' }]);
});

t.test(
  'a server that ends each connection after its handshake is waited for as one that cannot be reached',
  async (t) => {
    const server = await ZmtpListener.listen('tcp://127.0.0.1:*', 'PUB', (from) => from.close());
    t.teardown(() => server.close());
    const { clock, delays, reached } = clockOfDelays(6);
    const subscription = new KvEventSubscription({ endpoint: server.endpoint }, { ...UNHEARD, clock });
    t.teardown(() => subscription.close());
    await reached;
    t.same(delays, [100, 200, 400, 800, 1600, 3200]);
  },
);

t.test('so is one that ends each connection after its first batch', async (t) => {
  let end = (): void => undefined;
  const server = await ZmtpListener.listen('tcp://127.0.0.1:*', 'PUB', (from) => {
    end = () => from.close();
    from.send([Buffer.from('kv'), sequence(0), blocks(0, 1)]);
  });
  t.teardown(() => server.close());
  const { clock, delays, reached } = clockOfDelays(6);
  const subscription = new KvEventSubscription(
    { endpoint: server.endpoint },
    { ...UNHEARD, clock, onApplied: () => end() },
  );
  t.teardown(() => subscription.close());
  await reached;
  t.same(delays, [100, 200, 400, 800, 1600, 3200]);
});

t.test('a connection that was good for a while is opened again at once', async (t) => {
  const { publisher, clock, disconnected, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(5, blocks(0, 10));
  t.equal(await next(), 'applied');
  clock.advance(10_000);
  await publisher.close();
  await disconnected;
  t.equal(clock.nextDueMs - clock.now(), 100);
});

t.test('a flood is read to its end', async (t) => {
  const { publisher, subscription } = await subscribe(t);
  const { counts } = subscription;
  await publisher.subscription();
  const flood = 20_000;
  for (let number = 0; number < flood; number++) publisher.send(number, blocks(number, 1));
  while (counts.events + counts.lost < flood) await new Promise((resolve) => void setImmediate(resolve));
  t.match(counts, { events: flood, lost: 0, rejected: 0, restarts: 0 });
});

t.test('a batch of many clearings is one', async (t) => {
  const { publisher, next } = await subscribe(t);
  await publisher.subscription();
  publisher.send(0, batch(CLEARED, CLEARED, stored(hashes(0, 1), BLOCK), CLEARED));
  publisher.send(1, blocks(0, 1));
  t.same([await next(), await next(), await next()], ['cleared', 'applied', 'applied']);
});

interface Slow {
  /** When batches were applied. */
  readonly applied: readonly number[];
  /** Resolves when the next one is. */
  readonly next: () => Promise<void>;
}

/** Another subscription to a publisher, whose batches take 100 ms each. */
function subscribeSlowly(t: Test, { publisher, clock }: Scene, replay?: string): Slow {
  const applied: number[] = [];
  let wake = Promise.withResolvers<void>();
  const slow = new KvEventSubscription(
    { endpoint: publisher.endpoint, ...(replay !== undefined && { replay }) },
    {
      ...UNHEARD,
      clock,
      onApplied: () => {
        applied.push(clock.now());
        clock.advance(100);
        wake.resolve();
      },
    },
  );
  t.teardown(() => slow.close());
  const next = async (): Promise<void> => {
    await wake.promise;
    wake = Promise.withResolvers();
  };
  return { applied, next };
}

t.test('a server whose batches take long is not read for a while', async (t) => {
  const scene = await subscribe(t);
  const { publisher, clock, next } = scene;
  await publisher.subscription();
  const slow = subscribeSlowly(t, scene);
  await publisher.subscription();
  publisher.send(0, blocks(0, 1));
  await slow.next();
  t.equal(await next(), 'applied');
  for (let number = 1; number < 5; number++) {
    publisher.send(number, blocks(number, 1));
    t.equal(await next(), 'applied', 'by the other subscription');
  }
  t.same(slow.applied, [0]);
  clock.advance(400);
  await slow.next();
  t.same(slow.applied.slice(0, 2), [0, 500], 'a quarter of the time');
});

t.test('nor is a replay', async (t) => {
  const scene = await subscribe(t, { replay: true });
  const { publisher, clock, next } = scene;
  await publisher.subscription();
  const slow = subscribeSlowly(t, scene, publisher.replayEndpoint);
  await publisher.subscription();
  // More than one read of a socket takes.
  for (let number = 0; number < 3; number++) publisher.kept.set(number, blocks(number * 4000, 4000));
  publisher.send(3, blocks(12_000, 1));
  await slow.next();
  for (let number = 0; number < 4; number++) t.equal(await next(), 'applied', 'by the other subscription');
  // More turns of the event loop than the rest of the replay takes to be read.
  for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => void setImmediate(resolve));
  t.same(slow.applied, [0]);
  clock.advance(400);
  await slow.next();
  t.same(slow.applied, [0, 500]);
  clock.advance(400);
  await slow.next();
  t.same(slow.applied.slice(0, 3), [0, 500, 1000]);
});

t.test('what arrives during a replay is applied behind it', async (t) => {
  const { publisher, subscription, next } = await subscribe(t, { replay: true });
  await publisher.subscription();
  for (let number = 0; number < 50; number++) publisher.kept.set(number, blocks(number, 1));
  for (let number = 50; number < 100; number++) publisher.send(number, blocks(number, 1));
  for (let number = 0; number < 100; number++) t.equal(await next(), 'applied');
  t.equal(subscription.residency.residentTokens, 100 * BLOCK);
  t.match(subscription.counts, { lost: 0, replayed: 50 });
  t.same(publisher.asked, [0]);
});

t.test('a replay that does not end in time counts as lost', async (t) => {
  const { publisher, subscription, clock, next, failures } = await subscribe(t, { replay: true });
  await publisher.subscription();
  publisher.send(0, blocks(0, 1));
  t.equal(await next(), 'applied');
  const held = publisher.holdReplays();
  publisher.send(9, blocks(9, 1));
  t.equal(await held, 1);
  clock.advance(10_000);
  t.equal(await next(), 'applied');
  t.match(subscription.counts, { lost: 8, replayed: 0 });
  t.same(failures, ['no whole answer within 10000 ms']);
});

t.test('the first of replays that fail in a row is reported', async (t) => {
  const { publisher, next, failures } = await subscribe(t, { replay: true });
  await publisher.subscription();
  const sendAndRead = async (number: number): Promise<void> => {
    publisher.send(number, blocks(number, 1));
    t.equal(await next(), 'applied');
  };
  await sendAndRead(2);
  t.same(failures, [], 'a server that keeps nothing any more answers');
  await publisher.closeReplays();
  await sendAndRead(4);
  await sendAndRead(6);
  t.equal(failures.length, 1);
  t.match(failures, [/ECONNREFUSED/]);
});

t.test('a replay that the server ends before its end has failed', async (t) => {
  const { publisher, next, failures } = await subscribe(t, { replay: true });
  await publisher.subscription();
  const held = publisher.holdReplays();
  publisher.send(2, blocks(2, 1));
  await held;
  await publisher.closeReplays();
  t.equal(await next(), 'applied');
  t.same(failures, ['closed by the CRN']);
});

t.test('closing ends a subscription while a replay hangs', async (t) => {
  const { publisher, subscription, failures, happened } = await subscribe(t, { replay: true });
  await publisher.subscription();
  const held = publisher.holdReplays();
  publisher.send(9, batch(CLEARED));
  t.equal(await held, 0);
  subscription.close();
  t.same(failures, []);
  await new Promise((resolve) => void setImmediate(resolve));
  t.same(happened, [], 'what waited for the replay is not applied');
  t.equal(subscription.counts.events, 0);
});
