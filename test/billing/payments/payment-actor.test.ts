// The payment desk behind a link, as between threads: what is asked and answered, and what becomes of tickets whose
// asker is gone.

import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import t from 'tap';
import type { BeginAnswer, Payments, SettleAnswer } from '../../../src/billing/index.ts';
import { createManualClock, createSystem, link, type ManualClock } from '../../../src/actor/index.ts';
import { type PaymentCommand, payments, PaymentClient } from '../../../src/billing/payments/payment-actor.ts';
import { balances, buying, call, CALL_UNITS, openPaymentFixture } from './payment-fixture.ts';

interface Test {
  teardown(run: () => unknown): unknown;
}

interface Room {
  readonly service: PaymentClient;
  readonly clock: ManualClock;
  readonly defects: unknown[];
  /** The thread that asks ends. Resolves when the control thread has heard of it. */
  readonly end: () => Promise<void>;
  /** Resolves when nothing is under way at the desk. */
  readonly drained: () => Promise<null>;
}

function open(t: Test, service: Payments): Room {
  const { port1, port2 } = new MessageChannel();
  const clock = createManualClock();
  const defects: unknown[] = [];
  const control = createSystem({ name: 'control', clock });
  const thread = createSystem({ name: 'thread', clock });
  const [here, there] = [link(control, port1), link(thread, port2)];
  const ref = control.spawn(payments({ service, onDefect: (error) => defects.push(error) }), { name: 'payments' });
  here.expose('payments', ref);
  t.teardown(async () => {
    here.close();
    await Promise.all([control.terminate(), thread.terminate()]);
  });
  there.expose(
    'beacon',
    thread.spawn(() => () => undefined),
  );
  const ended = Promise.withResolvers<void>();
  control.spawn((context) => {
    context.watch(here.ref('beacon'));
    return { receive: () => undefined, signal: ({ type }) => type === 'Terminated' && ended.resolve() };
  });
  const remote = there.ref<PaymentCommand>('payments');
  return {
    service: new PaymentClient(thread, remote, 'thread-1'),
    clock,
    defects,
    end() {
      there.close();
      return ended.promise;
    },
    drained: () => new Promise((resolve) => ref.tell({ type: 'Drain', replyTo: sink(control, resolve) })),
  };
}

function sink(system: ReturnType<typeof createSystem>, resolve: (value: null) => void) {
  return system.spawn<null>(() => (message) => resolve(message));
}

/** A desk whose answers a test gives by hand. */
class HeldPayments implements Payments {
  readonly heard: string[] = [];
  readonly begins: PromiseWithResolvers<BeginAnswer>[] = [];
  readonly settles: PromiseWithResolvers<SettleAnswer>[] = [];
  readonly events = new EventTarget();
  fails = 0;

  purchase(): Promise<never> {
    return Promise.reject(new Error('the ledger is away'));
  }

  begin(): Promise<BeginAnswer> {
    return this.#hold(this.begins, 'begin');
  }

  settle(ticket: string): Promise<SettleAnswer> {
    return this.#hold(this.settles, `settle ${ticket}`);
  }

  cancel(ticket: string): Promise<void> {
    this.#hear(`cancel ${ticket}`);
    return Promise.resolve();
  }

  refund(ticket: string): Promise<void> {
    this.#hear(`refund ${ticket}`);
    return this.fails-- > 0 ? Promise.reject(new Error('the ledger is away')) : Promise.resolve();
  }

  /** Resolves once so many calls have come. */
  async calls(count: number): Promise<void> {
    while (this.heard.length < count) await once(this.events, 'call');
  }

  #hold<T>(list: PromiseWithResolvers<T>[], what: string): Promise<T> {
    const held = Promise.withResolvers<T>();
    list.push(held);
    this.#hear(what);
    return held.promise;
  }

  #hear(what: string): void {
    this.heard.push(what);
    this.events.dispatchEvent(new Event('call'));
  }
}

const TICKET: BeginAnswer = { kind: 'ticket', ticket: 'p1' };
const PAID: SettleAnswer = { kind: 'paid', headers: ['payment-response', 'x'] };

/** A request that has its ticket. */
async function begun(room: Room, held: HeldPayments): Promise<void> {
  const asked = room.service.begin(call('payment'));
  await held.calls(1);
  held.begins[0]?.resolve(TICKET);
  await asked;
}

t.test('purchases and requests are paid through a link, one by one and many at once', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { service, drained } = open(t, fixture.paymentProcessor);
  t.match(await service.purchase(buying(undefined)), { kind: 'offer', offer: { document: { x402Version: 1 } } });
  t.match(await service.purchase(buying(fixture.header(5_000_000))), {
    kind: 'sold',
    body: { credits_transferred: 5_000_000 },
  });
  const answers = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const answer = await service.begin(call(fixture.header(CALL_UNITS)));
      return answer.kind === 'ticket' ? await service.settle(answer.ticket) : answer;
    }),
  );
  t.same(new Set(answers.map(({ kind }) => kind)), new Set(['paid']));
  await drained();
  t.equal(await balances(fixture), 5_000_000n + 20n * CALL_UNITS);
});

t.test('a price above 32 bits crosses the link whole', async (t) => {
  const fixture = await openPaymentFixture(t);
  const { service } = open(t, fixture.paymentProcessor);
  const price = 123_456_789_012_345_678n;
  const asked = [service.begin(call(undefined, { price })), service.begin(call(undefined, { price }))];
  for (const answer of await Promise.all(asked)) {
    t.match(answer, { offer: { document: { accepts: [{ maxAmountRequired: '123456789013' }] } } });
  }
});

t.test('a ticket is given up when its thread ends', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  await begun(room, held);
  await room.end();
  await held.calls(2);
  t.same(held.heard, ['begin', 'cancel p1']);
});

t.test('a ticket that comes after its thread has ended is given up', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  const asked = room.service.begin(call('payment'));
  await held.calls(1);
  const ended = room.end();
  t.match(await asked, { kind: 'refused', code: 'HR_PAYMENT_UNAVAILABLE' });
  await ended;
  held.begins[0]?.resolve(TICKET);
  await held.calls(2);
  t.same(held.heard, ['begin', 'cancel p1']);
});

t.test('money that arrives for a thread that has ended is given back', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  await begun(room, held);
  const settled = room.service.settle('p1');
  await held.calls(2);
  const ended = room.end();
  t.match(await settled, { kind: 'refused', code: 'HR_PAYMENT_PENDING' });
  await ended;
  held.settles[0]?.resolve(PAID);
  await held.calls(3);
  t.same(held.heard, ['begin', 'settle p1', 'refund p1']);
});

t.test('an answer that comes too late is given up or given back', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  const asked = room.service.begin(call('payment'));
  await held.calls(1);
  room.clock.advance(30_001);
  t.match(await asked, { code: 'HR_PAYMENT_UNAVAILABLE' });
  const second = room.service.begin(call('payment'));
  await held.calls(2);
  held.begins[0]?.resolve(TICKET);
  await held.calls(3);
  t.same(held.heard, ['begin', 'begin', 'cancel p1']);
  held.begins[1]?.resolve({ kind: 'ticket', ticket: 'p2' });
  await second;
  const settled = room.service.settle('p2');
  await held.calls(4);
  room.clock.advance(75_001);
  t.match(await settled, { code: 'HR_PAYMENT_PENDING' });
  const marker = room.service.begin(call('payment'));
  await held.calls(5);
  held.settles[0]?.resolve(PAID);
  await held.calls(6);
  t.equal(held.heard.at(-1), 'refund p2');
  held.begins[2]?.resolve({ kind: 'refused', code: 'HR_PAYMENT_UNAVAILABLE', subject: '' });
  await marker;
});

t.test('a ticket nobody uses is given up in time', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  await begun(room, held);
  room.clock.advance(899_999);
  t.same(held.heard, ['begin']);
  room.clock.advance(2);
  await held.calls(2);
  t.equal(held.heard[1], 'cancel p1');
});

t.test('a paid ticket is given back when its asker has lost the answer, and forgotten otherwise', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  await begun(room, held);
  const settled = room.service.settle('p1');
  await held.calls(2);
  held.settles[0]?.resolve(PAID);
  t.same(await settled, PAID);
  await room.service.cancel('p1');
  await held.calls(3);
  t.equal(held.heard[2], 'refund p1');
  t.match(await room.service.settle('p1'), { code: 'HR_PAYMENT_PENDING' }, 'a ticket settles once');
});

t.test('a refund that the ledger could not take is tried again', async (t) => {
  const held = new HeldPayments();
  held.fails = 1;
  const room = open(t, held);
  await room.service.refund('p9');
  await held.calls(1);
  await room.drained();
  t.equal(room.defects.length, 1);
  room.clock.advance(15_000);
  await held.calls(2);
  t.same(held.heard, ['refund p9', 'refund p9']);
  await room.drained();
});

t.test('a ledger that is away is said in the word that is safe', async (t) => {
  const room = open(t, new HeldPayments());
  t.match(await room.service.purchase(buying(undefined)), { code: 'HR_PAYMENT_UNAVAILABLE' });
  t.match(await room.service.purchase(buying('payment')), { code: 'HR_PAYMENT_PENDING' });
  t.equal(room.defects.length, 2);
});

t.test('more than a cashier can look at are turned away unpaid', async (t) => {
  const held = new HeldPayments();
  const room = open(t, held);
  const asked = Array.from({ length: 257 }, () => room.service.begin(call('payment')));
  t.match(await asked[256], { code: 'HR_PAYMENT_UNAVAILABLE' });
  for (const begin of held.begins) begin.resolve({ kind: 'refused', code: 'HR_PAYMENT_MALFORMED', subject: '' });
  t.match(await asked[0], { code: 'HR_PAYMENT_MALFORMED' });
});
