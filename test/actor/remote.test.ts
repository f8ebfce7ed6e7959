// Links between two systems: each rule in one thread, and a smoke test with two threads.

import { MessageChannel, Worker } from 'node:worker_threads';
import t from 'tap';
import type { Test } from 'tap';
import { ask } from '../../src/actor/ref.ts';
import type { Ref } from '../../src/actor/ref.ts';
import { link } from '../../src/actor/remote.ts';
import type { Link, LinkOptions, MessagePortLike } from '../../src/actor/remote.ts';
import { createProbe, createTestSystem } from '../../src/actor/testkit.ts';
import type { TestSystem } from '../../src/actor/testkit.ts';
import type { WorkerCommand } from './fixtures/echo-worker.ts';

interface Get {
  replyTo: Ref<unknown>;
}

/** A port that counts what passes and can hold it back. */
class TappedPort implements MessagePortLike {
  readonly sent: unknown[] = [];
  held: unknown[] | null = null;
  readonly #port: MessagePortLike;

  constructor(port: MessagePortLike) {
    this.#port = port;
  }

  postMessage(value: unknown): void {
    this.sent.push(value);
    if (this.held === null) this.#port.postMessage(value);
    else this.held.push(value);
  }

  on(event: 'message' | 'close', listener: (value: unknown) => void): unknown {
    return this.#port.on(event as 'message', listener);
  }

  close(): void {
    this.#port.close();
  }

  resume(): void {
    const { held } = this;
    this.held = null;
    for (const value of held ?? []) this.#port.postMessage(value);
  }
}

interface Side extends TestSystem {
  link: Link;
  port: TappedPort;
}

function connect(t: Test, options?: LinkOptions): { near: Side; far: Side } {
  const { port1, port2 } = new MessageChannel();
  const [near, far] = [port1, port2].map((raw, index) => {
    const kit = createTestSystem({ name: index === 0 ? 'near' : 'far' });
    const port = new TappedPort(raw);
    return { ...kit, port, link: link(kit.system, port, options) };
  }) as [Side, Side];
  t.teardown(() => near.link.close());
  return { near, far };
}

/** Lets both event loops turn until something holds; the test's own deadline ends a vain wait. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise<void>((resolve) => void setImmediate(resolve));
}

t.test('a ref to an exposed name is told across, in order, one frame per turn', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<number>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<number>('probe');
  for (let value = 0; value < 5000; value++) ref.tell(value);
  for (let value = 0; value < 5000; value++) await probe.expect(value);
  t.equal(near.port.sent.length, 1);
});

t.test('one small message travels as a plain clone, batches and bytes packed', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<unknown>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<unknown>('probe');
  const bytes = new Uint8Array([0, 127, 255]);
  for (const message of [{ small: true }, 'x'.repeat(5000), { deep: [bytes] }]) {
    ref.tell(message);
    await probe.expect(message);
  }
  t.same(
    near.port.sent.map((frame) => frame instanceof Uint8Array),
    [false, true, true],
  );
});

t.test('values arrive as they were', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<unknown>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<unknown>('probe');
  const values = [
    null,
    undefined,
    -0.5,
    2n ** 70n,
    { a: undefined, b: [1, { c: 'ü' }] },
    new Date(1234),
    new Map([['k', new Set([1])]]),
    new Float64Array([1.5]),
    new Uint8Array([1, 2, 3]),
    new Uint8Array(100_000).fill(7),
  ];
  for (const value of values) ref.tell(value);
  for (const value of values) await probe.expect(value);
  for (const value of values) {
    ref.tell(value);
    await probe.expect(value);
  }
  ref.tell(new RangeError('out'));
  t.match(await probe.next(), { name: 'RangeError', message: 'out' });
  ref.tell({ body: Buffer.from('bytes') });
  t.same(await probe.next(), { body: new Uint8Array(Buffer.from('bytes')) });
});

t.test('asks cross, alone and in a batch, and leave nothing behind', async (t) => {
  const { near, far } = connect(t);
  const echo = far.system.spawn<{ value: number; replyTo: Ref<number> }>(
    () =>
      ({ value, replyTo }) =>
        replyTo.tell(value),
  );
  far.link.expose('echo', echo);
  const ref = near.link.ref<{ value: number; replyTo: Ref<number> }>('echo');
  const question = (value: number): Promise<number> =>
    ask<{ value: number; replyTo: Ref<number> }, number>(ref, (replyTo) => ({ value, replyTo }), { timeoutMs: 1000 });
  t.equal(await question(7), 7);
  t.same(await Promise.all([1, 2, 3].map(question)), [1, 2, 3]);
  t.same(near.link.stats(), { queued: 0, exports: 0, watches: 0 });
  t.same(far.link.stats(), { queued: 0, exports: 0, watches: 0 });
});

t.test('an ask over a link meets its deadline and drops its ref', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<Get>(far.system);
  far.link.expose('silent', probe.ref);
  const answer = ask<Get, unknown>(near.link.ref<Get>('silent'), (replyTo) => ({ replyTo }), { timeoutMs: 50 });
  const { replyTo } = await probe.next();
  t.equal(near.link.stats().exports, 1);
  near.clock.advance(50);
  await t.rejects(answer, { code: 'HR_ACTOR_ASK_TIMEOUT' });
  t.equal(near.link.stats().exports, 0);
  replyTo.tell('late');
  await until(() => near.events.length > 0);
  t.match(near.events[0], { type: 'dead-letter', reason: 'late', message: 'late' });
});

t.test('an ask to an unknown name or to a full mailbox of the peer fails at once', async (t) => {
  const { near, far } = connect(t);
  const get = (name: string): Promise<unknown> =>
    ask<Get, unknown>(near.link.ref<Get>(name), (replyTo) => ({ replyTo }), { timeoutMs: 1000 });
  await t.rejects(get('nobody'), { code: 'HR_ACTOR_TERMINATED' });
  t.match(far.events, [{ type: 'dead-letter', reason: 'stopped' }]);
  const full = far.system.spawn<Get>(() => () => {}, { mailbox: { capacity: 1, overflow: 'drop-new' } });
  far.link.expose('full', full);
  const first = get('full');
  await t.rejects(get('full'), { code: 'HR_ACTOR_MAILBOX_FULL' });
  near.link.close();
  await t.rejects(first, { code: 'HR_ACTOR_TERMINATED' });
});

t.test('an ask whose question is dropped from the mailbox fails at once, here and over a link', async (t) => {
  const { near, far } = connect(t);
  const stopping = far.system.spawn<Get | 'stop'>((context) => (message) => message === 'stop' && context.stop());
  const full = far.system.spawn<Get>(() => () => undefined, { mailbox: { capacity: 1, overflow: 'drop-old' } });
  far.link.expose('stopping', stopping);
  far.link.expose('full', full);
  const options = { timeoutMs: 60_000 };
  const question = (replyTo: Ref<unknown>): Get => ({ replyTo });
  for (const ref of [near.link.ref<Get>('full'), full]) {
    const dropped = ask<Get, unknown>(ref, question, options);
    void ask<Get, unknown>(ref, question, options).catch(() => undefined);
    await t.rejects(dropped, { code: 'HR_ACTOR_MAILBOX_FULL' });
  }
  const ref = near.link.ref<Get | 'stop'>('stopping');
  ref.tell('stop');
  await t.rejects(ask(ref, question, options), { code: 'HR_ACTOR_TERMINATED' });
});

t.test('refs in messages work on the other side and, sent back, are the original refs', async (t) => {
  const { near, far } = connect(t);
  const mirror = far.system.spawn<{ ref: Ref<string>; replyTo: Ref<Ref<string>> }>(() => ({ ref, replyTo }) => {
    ref.tell('from far');
    replyTo.tell(ref);
  });
  far.link.expose('mirror', mirror);
  const probe = createProbe<string>(near.system, 'home');
  const ref = near.link.ref<{ ref: Ref<string>; replyTo: Ref<Ref<string>> }>('mirror');
  const back = await ask<{ ref: Ref<string>; replyTo: Ref<Ref<string>> }, Ref<string>>(
    ref,
    (replyTo) => ({ ref: probe.ref, replyTo }),
    { timeoutMs: 1000 },
  );
  t.equal(back, probe.ref, 'a ref that comes home is the ref that left');
  await probe.expect('from far');
  t.equal(near.link.stats().exports, 1, 'a ref of a living actor stays reachable');
  near.system.stop(probe.ref);
  t.equal(near.link.stats().exports, 0);
});

t.test('watch works over a link and can be taken back', async (t) => {
  const { near, far } = connect(t);
  const target = far.system.spawn<string>(() => () => {});
  const other = far.system.spawn<string>(() => () => {});
  far.link.expose('target', target);
  far.link.expose('other', other);
  const probe = createProbe(near.system);
  const [ref, otherRef] = [near.link.ref<string>('target'), near.link.ref<string>('other')];
  near.system.spawn((context) => {
    context.watch(otherRef);
    context.unwatch(otherRef);
    return () => {};
  });
  probe.watch(ref);
  await until(() => far.link.stats().watches === 1);
  far.system.stop(target);
  far.system.stop(other);
  t.equal(await probe.nextTerminated(), ref);
  t.same([near.link.stats().watches, far.link.stats().watches], [0, 0]);
  probe.watch(near.link.ref('target'));
  await probe.nextTerminated();
});

t.test('when the port closes, watchers are told, asks fail and messages become dead letters', async (t) => {
  const { near, far } = connect(t);
  const silent = createProbe<Get>(far.system);
  far.link.expose('silent', silent.ref);
  const ref = near.link.ref<Get>('silent');
  const probe = createProbe(near.system);
  probe.watch(ref);
  const answer = ask<Get, unknown>(ref, (replyTo) => ({ replyTo }), { timeoutMs: 1000 });
  const { replyTo } = await silent.next();
  const farWatcher = createProbe(far.system);
  farWatcher.watch(replyTo);
  await until(() => near.link.stats().watches === 2);
  far.link.close();
  await t.rejects(answer, { code: 'HR_ACTOR_TERMINATED' });
  await near.link.closed;
  await far.link.closed;
  t.equal(await probe.nextTerminated(), ref);
  t.equal(await farWatcher.nextTerminated(), replyTo);
  ref.tell({ replyTo });
  t.match(near.events.at(-1), { type: 'dead-letter', reason: 'stopped' });
  await t.rejects(
    ask<Get, unknown>(ref, (to) => ({ replyTo: to }), { timeoutMs: 1000 }),
    { code: 'HR_ACTOR_TERMINATED' },
  );
  probe.watch(near.link.ref('silent'));
  await probe.nextTerminated();
  for (const side of [near, far]) t.same(side.link.stats(), { queued: 0, exports: 0, watches: 0 });
});

t.test('close sends what was told before', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<string>(far.system);
  far.link.expose('probe', probe.ref);
  near.link.ref<string>('probe').tell('last words');
  near.link.close();
  await probe.expect('last words');
  await far.link.closed;
});

t.test('a message that cannot be sent is a dead letter, and those around it arrive', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<unknown>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<unknown>('probe');
  const unsendable = { callback: (): void => {} };
  for (const message of ['before', unsendable, 'after']) ref.tell(message);
  await probe.expect('before');
  await probe.expect('after');
  t.match(near.events, [{ type: 'dead-letter', path: 'link/probe', reason: 'unsendable', message: unsendable }]);
});

t.test('a message that the port does not take is a dead letter', async (t) => {
  const { near, far } = connect(t);
  const probe = createProbe<unknown>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<unknown>('probe');
  // Looks like a plain object, which can be cloned.
  ref.tell(new Proxy({ text: 'alone' }, {}));
  await until(() => near.events.length === 1);
  t.match(near.events, [{ type: 'dead-letter', path: 'link/probe', reason: 'unsendable' }]);
  ref.tell('behind');
  await probe.expect('behind');
  t.equal(near.link.stats().queued, 0);
});

t.test('a full outgoing queue turns messages into dead letters', async (t) => {
  const { near, far } = connect(t, { maxQueued: 3 });
  const probe = createProbe<number>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<number>('probe');
  for (let value = 1; value <= 5; value++) ref.tell(value);
  t.same(
    near.events.map((event) => event.type === 'dead-letter' && [event.reason, event.message]),
    [
      ['overflow', 4],
      ['overflow', 5],
    ],
  );
  for (let value = 1; value <= 3; value++) await probe.expect(value);
  await probe.expectNone();
});

t.test('sending stops when a peer does not acknowledge, and every message arrives afterwards', async (t) => {
  const { near, far } = connect(t, { maxQueued: 100_000 });
  const probe = createProbe<number>(far.system);
  far.link.expose('probe', probe.ref);
  const ref = near.link.ref<number>('probe');
  far.port.held = [];
  const total = 20_000;
  for (let value = 0; value < total; value++) ref.tell(value);
  await until(() => probe.received.length === 8192);
  await probe.expectNone().catch(() => {});
  t.equal(near.link.stats().queued, total - 8192, 'the rest waits on this side');
  far.port.resume();
  await until(() => probe.received.length === total);
  t.ok(probe.received.every((value, index) => value === index));
});

t.test('a frame that cannot be read closes the link and is reported', async (t) => {
  const { near, far } = connect(t);
  near.port.postMessage(new Uint8Array([0xc1, 0xff]));
  await far.link.closed;
  await near.link.closed;
  t.match(far.events, [{ type: 'link-failure' }]);
});

t.test('a ref forwarded over a second link works, and is released when its ask ends', async (t) => {
  const first = connect(t);
  const { port1, port2 } = new MessageChannel();
  const third = createTestSystem({ name: 'third' });
  const middle = link(first.far.system, port1);
  const end = link(third.system, port2);
  t.teardown(() => middle.close());
  const echo = third.system.spawn<Get>(
    () =>
      ({ replyTo }) =>
        replyTo.tell('from the third'),
  );
  end.expose('echo', echo);
  const proxy = first.far.system.spawn<Get>(() => (message) => middle.ref<Get>('echo').tell(message));
  first.far.link.expose('proxy', proxy);
  const ref = first.near.link.ref<Get>('proxy');
  t.equal(await ask<Get, unknown>(ref, (replyTo) => ({ replyTo }), { timeoutMs: 1000 }), 'from the third');
  await until(() => middle.stats().exports === 0);
  t.same(first.near.link.stats(), { queued: 0, exports: 0, watches: 0 });
});

t.test('a ref that comes back after its actor has ended leads to no other actor', async (t) => {
  const { near, far } = connect(t);
  const inbox = createProbe<Ref<string>>(near.system);
  const outbox = createProbe<Ref<string>>(far.system);
  near.link.expose('inbox', inbox.ref);
  far.link.expose('outbox', outbox.ref);
  const [gone, other] = [createProbe<string>(near.system), createProbe<string>(far.system)];
  // Each is the first ref that its side exports.
  near.link.ref<Ref<string>>('outbox').tell(gone.ref);
  far.link.ref<Ref<string>>('inbox').tell(other.ref);
  await inbox.next();
  near.system.stop(gone.ref);
  far.link.ref<Ref<string>>('inbox').tell(await outbox.next());
  const back = await inbox.next();
  t.equal(back.path, gone.ref.path);
  back.tell('for the one that is gone');
  await until(() => far.events.length + other.received.length === 1);
  t.same(other.received, []);
  t.match(far.events, [{ type: 'dead-letter', message: 'for the one that is gone' }]);
  const watcher = createProbe(near.system);
  watcher.watch(back);
  t.equal(await watcher.nextTerminated(), back);
});

t.test('a ref that is forwarded again and again is held once, until it ends or the link closes', async (t) => {
  const first = connect(t);
  const { port1, port2 } = new MessageChannel();
  const third = createTestSystem({ name: 'third' });
  const middle = link(first.far.system, port1);
  const end = link(third.system, port2);
  const sink = createProbe<Get>(third.system);
  end.expose('sink', sink.ref);
  const relay = first.far.system.spawn<Get>(() => (message) => middle.ref<Get>('sink').tell(message));
  first.far.link.expose('relay', relay);
  const own = createProbe<unknown>(first.near.system);
  const ref = first.near.link.ref<Get>('relay');
  for (let message = 0; message < 100; message++) ref.tell({ replyTo: own.ref });
  for (let message = 0; message < 100; message++) (await sink.next()).replyTo.tell(message);
  for (let message = 0; message < 100; message++) await own.expect(message);
  t.equal(middle.stats().exports, 1);
  t.equal(first.far.link.stats().watches, 1);
  first.near.system.stop(own.ref);
  await until(() => middle.stats().exports === 0);
  const other = createProbe<unknown>(first.near.system);
  ref.tell({ replyTo: other.ref });
  (await sink.next()).replyTo.tell('there');
  await other.expect('there');
  middle.close();
  await until(() => first.far.link.stats().watches === 0);
});

t.test('links two threads', async (t) => {
  const { system, events } = createTestSystem({ name: 'main' });
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL('./fixtures/echo-worker.js', import.meta.url), {
    workerData: port2,
    transferList: [port2],
  });
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  const thread = link(system, port1);
  const ref = thread.ref<WorkerCommand>('echo');
  const options = { timeoutMs: 60_000 };

  await t.test('answers asks, with bytes intact', async (t) => {
    const value = { bytes: new Uint8Array(1_000_000).map((_, index) => index), text: 'täxt' };
    t.same(await ask<WorkerCommand, unknown>(ref, (replyTo) => ({ type: 'Echo', value, replyTo }), options), value);
    const many = Array.from({ length: 100 }, (_, index) =>
      ask<WorkerCommand, unknown>(ref, (replyTo) => ({ type: 'Echo', value: index, replyTo }), options),
    );
    t.same(
      await Promise.all(many),
      many.map((_, index) => index),
    );
  });

  await t.test('tells in order, past the window of the link', async (t) => {
    const probe = createProbe<number>(system);
    ref.tell({ type: 'Count', to: probe.ref, upTo: 12_000 });
    await probe.next({ timeoutMs: 30_000 });
    await until(() => probe.received.length === 12_000);
    t.ok(probe.received.every((value, index) => value === index + 1));
    system.stop(probe.ref);
  });

  await t.test('gives refs to its children, which can be told and watched', async (t) => {
    const child = await ask<WorkerCommand, Ref<string>>(ref, (replyTo) => ({ type: 'Spawn', replyTo }), options);
    t.match(child.path, /^worker\/.*\/child$/);
    const probe = createProbe(system);
    probe.watch(child);
    child.tell('stop');
    t.equal(await probe.nextTerminated({ timeoutMs: 30_000 }), child);
  });

  await t.test('takes its watchers and asks along when it dies', async (t) => {
    const probe = createProbe(system);
    probe.watch(ref);
    const answer = ask<WorkerCommand, unknown>(ref, (replyTo) => ({ type: 'Ignore', replyTo }), options);
    ref.tell({ type: 'Exit' });
    await t.rejects(answer, { code: 'HR_ACTOR_TERMINATED' });
    t.equal(await probe.nextTerminated({ timeoutMs: 30_000 }), ref);
    await thread.closed;
    await exited;
  });
  t.same(events, []);
});
