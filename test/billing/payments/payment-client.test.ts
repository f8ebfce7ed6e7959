// The payment processor behind a link, as between threads: commands and answers, and what becomes of tickets whose thread has
// ended. A gate holds every request to the facilitator until the test answers it.

import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import t from 'tap';
import { createManualClock, createSystem, link, type ManualClock, systemClock } from '../../../src/actor/index.ts';
import type { Ledger } from '../../../src/billing/ledger/store.ts';
import { Facilitator, type Settled, type Verified } from '../../../src/billing/payments/facilitator.ts';
import { PaymentClient } from '../../../src/billing/payments/payment-client.ts';
import {
  type BeginAnswer,
  type PaymentCommand,
  paymentProcessor,
  type PaymentProcessorDeps,
} from '../../../src/billing/payments/payment-processor.ts';
import { START_MS } from '../ledger/stores.ts';
import {
  balances,
  buying,
  call,
  CALL_UNITS,
  MERCHANT,
  openPaymentFixture,
  type PaymentFixture,
} from './payment-fixture.ts';

interface Tap {
  teardown(run: () => unknown): unknown;
}

interface Threads {
  readonly fixture: PaymentFixture;
  /** In the ingress thread. */
  readonly client: PaymentClient;
  readonly clock: ManualClock;
  readonly defects: unknown[];
  /** A request with a payment of its own. */
  readonly begin: () => Promise<BeginAnswer>;
  /** The ingress thread ends. Resolves when the control thread has heard of it. */
  readonly end: () => Promise<void>;
  /** Resolves when nothing is under way in the processor. */
  readonly drained: () => Promise<null>;
}

async function open(t: Tap, change: (ledger: Ledger) => Partial<PaymentProcessorDeps> = () => ({})): Promise<Threads> {
  const fixture = await openPaymentFixture(t);
  const facilitator = new Facilitator({ url: fixture.facilitator.url }, systemClock);
  const { port1, port2 } = new MessageChannel();
  const clock = createManualClock();
  const defects: unknown[] = [];
  const control = createSystem({ name: 'control', clock });
  const thread = createSystem({ name: 'thread', clock });
  const [here, there] = [link(control, port1), link(thread, port2)];
  const processor = paymentProcessor({
    ledger: fixture.ledger,
    facilitator,
    merchant: MERCHANT,
    dateMs: () => START_MS,
    onDefect: (error) => defects.push(error),
    onRound: () => undefined,
    ...change(fixture.ledger),
  });
  const ref = control.spawn(processor, { name: 'payments' });
  here.expose('payments', ref);
  t.teardown(async () => {
    here.close();
    facilitator.close();
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
  const client = new PaymentClient(thread, there.ref<PaymentCommand>('payments'), 'thread-1');
  return {
    fixture,
    client,
    clock,
    defects,
    begin: () => client.begin(call(fixture.header(CALL_UNITS))),
    end() {
      there.close();
      return ended.promise;
    },
    drained: () =>
      new Promise((resolve) => {
        const replyTo = control.spawn<null>(() => resolve);
        ref.tell({ type: 'Drain', replyTo });
      }),
  };
}

/** Records what the processor does to payments, in order; the facilitator's answers are given by hand. */
class Held {
  readonly calls: string[] = [];
  readonly verifies: PromiseWithResolvers<Verified>[] = [];
  readonly settles: PromiseWithResolvers<Settled>[] = [];
  readonly #events = new EventTarget();
  /** Refunds that the ledger does not take. */
  fails = 0;

  /** For `open`. */
  readonly change = (ledger: Ledger): Partial<PaymentProcessorDeps> => ({
    facilitator: {
      verify: () => this.#hold(this.verifies, 'verify'),
      settle: () => this.#hold(this.settles, 'settle'),
    },
    ledger: {
      ...ledger,
      failPayment: async (id, reason) => {
        await ledger.failPayment(id, reason);
        this.#record(reason);
      },
      grant: async (grant) => {
        const answer = this.fails-- > 0 ? away() : ledger.grant(grant);
        this.#record(grant.memo ?? '');
        return await answer;
      },
    },
  });

  /** Resolves once so many calls have come. */
  async reached(count: number): Promise<void> {
    while (this.calls.length < count) await once(this.#events, 'call');
  }

  #hold<T>(list: PromiseWithResolvers<T>[], call: string): Promise<T> {
    const held = Promise.withResolvers<T>();
    list.push(held);
    this.#record(call);
    return held.promise;
  }

  #record(call: string): void {
    this.calls.push(call);
    this.#events.dispatchEvent(new Event('call'));
  }
}

const VALID = { kind: 'valid' } as const;
const SETTLED = { kind: 'settled', transaction: '0x1' } as const;
const REFUND = 'x402: nothing was delivered';

function away(): Promise<never> {
  return Promise.reject(new Error('the ledger is away'));
}

/** The ticket of a request that has begun; its verification is the first that is held. */
async function begun({ begin }: Threads, held: Held): Promise<string> {
  const asked = begin();
  await held.reached(1);
  held.verifies[0]?.resolve(VALID);
  return ticketOf(await asked);
}

function ticketOf(answer: BeginAnswer): string {
  if (answer.kind !== 'ticket') throw new Error(answer.kind);
  return answer.ticket;
}

t.test('purchases and requests are paid through a link, one by one and many at once', async (t) => {
  const { begin, client, drained, fixture } = await open(t);
  t.match(await client.purchase(buying(undefined)), { kind: 'offer', offer: { document: { x402Version: 1 } } });
  t.match(await client.purchase(buying(fixture.header(5_000_000))), {
    kind: 'sold',
    body: { credits_transferred: 5_000_000 },
  });
  const answers = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const answer = await begin();
      return answer.kind === 'ticket' ? await client.settle(answer.ticket) : answer;
    }),
  );
  t.same(new Set(answers.map(({ kind }) => kind)), new Set(['paid']));
  await drained();
  t.equal(await balances(fixture), 5_000_000n + 20n * CALL_UNITS);
});

t.test('a price above 32 bits crosses the link whole', async (t) => {
  const { client } = await open(t);
  const price = 123_456_789_012_345_678n;
  const asked = [client.begin(call(undefined, { price })), client.begin(call(undefined, { price }))];
  for (const answer of await Promise.all(asked)) {
    t.match(answer, { offer: { document: { accepts: [{ maxAmountRequired: '123456789013' }] } } });
  }
});

t.test('a ticket is cancelled when its thread ends', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  await begun(threads, held);
  await threads.end();
  await held.reached(2);
  t.same(held.calls, ['verify', 'cancelled']);
});

t.test('a ticket that comes after its thread has ended is cancelled', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const asked = threads.begin();
  await held.reached(1);
  const ended = threads.end();
  t.match(await asked, { kind: 'refused', code: 'HR_PAYMENT_UNAVAILABLE' });
  await ended;
  held.verifies[0]?.resolve(VALID);
  await held.reached(2);
  t.same(held.calls, ['verify', 'cancelled']);
});

t.test('money that arrives for a thread that has ended is refunded', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const settled = threads.client.settle(await begun(threads, held));
  await held.reached(2);
  const ended = threads.end();
  t.match(await settled, { kind: 'refused', code: 'HR_PAYMENT_PENDING' });
  await ended;
  held.settles[0]?.resolve(SETTLED);
  await held.reached(3);
  t.same(held.calls, ['verify', 'settle', REFUND]);
});

t.test('an answer that comes too late is cancelled or refunded', async (t) => {
  const held = new Held();
  const { begin, client, clock } = await open(t, held.change);
  const asked = begin();
  await held.reached(1);
  clock.advance(30_001);
  t.match(await asked, { code: 'HR_PAYMENT_UNAVAILABLE' });
  // The link keeps the order: when the next command has arrived, so has the one before.
  const second = begin();
  await held.reached(2);
  held.verifies[0]?.resolve(VALID);
  await held.reached(3);
  t.same(held.calls, ['verify', 'verify', 'cancelled']);
  held.verifies[1]?.resolve(VALID);
  const settled = client.settle(ticketOf(await second));
  await held.reached(4);
  clock.advance(75_001);
  t.match(await settled, { code: 'HR_PAYMENT_PENDING' });
  const third = begin();
  await held.reached(5);
  held.settles[0]?.resolve(SETTLED);
  await held.reached(6);
  t.equal(held.calls.at(-1), REFUND);
  held.verifies[2]?.resolve({ kind: 'unavailable' });
  await third;
});

t.test('a ticket that stays unused is cancelled in time', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  await begun(threads, held);
  threads.clock.advance(899_999);
  await threads.drained();
  t.same(held.calls, ['verify']);
  threads.clock.advance(2);
  await held.reached(2);
  t.equal(held.calls[1], 'cancelled');
});

t.test('a paid ticket is refunded when its thread has lost the answer, and settles once', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const { client, drained } = threads;
  const ticket = await begun(threads, held);
  const settled = client.settle(ticket);
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  t.match(await settled, { kind: 'paid' });
  t.match(await client.settle(ticket), { code: 'HR_PAYMENT_PENDING' }, 'a ticket settles once');
  await client.cancel(ticket);
  await held.reached(3);
  t.equal(held.calls[2], REFUND);
  t.match(await client.settle(ticket), { code: 'HR_PAYMENT_PENDING' });
  await drained();
  const { payer, ledger } = threads.fixture;
  t.equal((await ledger.account(payer.address))?.balance, call(undefined).price);
});

t.test('a paid ticket whose answer was not lost is forgotten in time', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const ticket = await begun(threads, held);
  const settled = threads.client.settle(ticket);
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  t.match(await settled, { kind: 'paid' });
  threads.clock.advance(120_000);
  await threads.drained();
  await threads.client.cancel(ticket);
  t.match(await threads.client.settle(ticket), { code: 'HR_PAYMENT_PENDING' });
  await threads.drained();
  t.same(held.calls, ['verify', 'settle']);
});

t.test('a refund that the ledger could not take is tried again', async (t) => {
  const held = new Held();
  held.fails = 1;
  const threads = await open(t, held.change);
  const { client, clock, defects, drained, fixture } = threads;
  const ticket = await begun(threads, held);
  const settled = client.settle(ticket);
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  await settled;
  await client.refund(ticket);
  await held.reached(3);
  await drained();
  t.equal(defects.length, 1);
  t.equal((await fixture.ledger.account(fixture.payer.address))?.balance, 0n);
  clock.advance(15_000);
  await held.reached(4);
  t.same(held.calls, ['verify', 'settle', REFUND, REFUND]);
  await drained();
  t.equal((await fixture.ledger.account(fixture.payer.address))?.balance, call(undefined).price);
});

t.test('when the ledger fails, a purchase is pending if money may have moved', async (t) => {
  const { client, defects, fixture } = await open(t, (ledger) => ({
    ledger: { ...ledger, account: away, findPayment: away },
  }));
  t.match(await client.purchase(buying(undefined, { address: 'acme' })), { code: 'HR_PAYMENT_UNAVAILABLE' });
  t.match(await client.purchase(buying(fixture.header(5_000_000))), { code: 'HR_PAYMENT_PENDING' });
  t.equal(defects.length, 2);
});

t.test('when too many requests are judged at once, further ones are refused unpaid', async (t) => {
  const held = new Held();
  const { begin } = await open(t, held.change);
  const asked = Array.from({ length: 257 }, begin);
  t.match(await asked[256], { code: 'HR_PAYMENT_UNAVAILABLE' });
  await held.reached(256);
  for (const verify of held.verifies) verify.resolve({ kind: 'invalid', reason: 'insufficient_funds' });
  t.match(await asked[0], { offer: { reason: 'insufficient_funds' } });
  await Promise.all(asked);
});
