// Links between two systems, in one thread for the rules and in two for the real thing.

import { MessageChannel, Worker } from 'node:worker_threads';
import t from 'tap';
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

function connect(t: Tap.Test, options?: LinkOptions): { near: Side; far: Side } {
  const { port1, port2 } = new MessageChannel();
  const [near, far] = [port1, port2].map((raw, index) => {
    const kit = createTestSystem({ name: index === 0 ? 'near' : 'far' });
    const port = new TappedPort(raw);
    return { ...kit, port, link: link(kit.system, port, options) };
  }) as [Side, Side];
  t.teardown(() => near.link.close());
  return { near, far };
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
  const late = near.nextEvent();
  replyTo.tell('late');
  t.match(await late, { type: 'dead-letter', reason: 'late', message: 'late' });
});

t.test('an ask to a name nobody has, or to a full mailbox over there, fails at once', async (t) => {
  const { near, far } = connect(t);
  const get = (name: string): Promise<unknown> =>
    ask<Get, unknown>(near.link.ref<Get>(name), (replyTo) => ({ replyTo }), { timeoutMs: 1000 });
  await t.rejects(get('nobody'), { code: 'HR_ACTOR_TERMINATED' });
  t.match(far.events, [{ type: 'dead-letter', reason: 'stopped' }]);
  const full = far.system.spawn<Get>(() => () => {}, { mailbox: { capacity: 1, overflow: 'drop-new' } });
  far.link.expose('full', full);
  const outcomes = await Promise.allSettled([get('full'), get('full'), Promise.resolve().then(() => near.link.close())]);
  t.match(outcomes[0], { status: 'rejected', reason: { code: 'HR_ACTOR_TERMINATED' } });
});
