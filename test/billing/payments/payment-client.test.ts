// The payment processor behind a link, as between threads: commands and answers, and what becomes of tickets whose thread has
// ended. A gate holds every request to the facilitator until the test answers it.

import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import t from 'tap';
import { createManualClock, createSystem, link, type ManualClock, systemClock } from '../../../src/actor/index.ts';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { Facilitator, type Settled, type Verified } from '../../../src/billing/payments/facilitator.ts';
import { PaymentClient } from '../../../src/billing/payments/payment-client.ts';
import type { BeginAnswer, PaymentCommand } from '../../../src/billing/payments/payment-commands.ts';
import { paymentProcessor, type PaymentProcessorDeps } from '../../../src/billing/payments/payment-processor.ts';
import type { RecoveryRound } from '../../../src/billing/payments/settlement.ts';
import { Payer } from '../../support/payer.ts';
import { START_MS } from '../ledger/stores.ts';
import {
  balances,
  buying,
  call,
  CALL_UNITS,
  MERCHANT,
  NO_REPEATS,
  openPaymentFixture,
  type PaymentFixture,
  word,
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
  /** Sends the processor a command in the control thread. */
  readonly tell: (command: PaymentCommand) => void;
  /** One recovery round. */
  readonly recover: () => Promise<RecoveryRound | null>;
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
    chain: null,
    settings: NO_REPEATS,
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
    tell: (command) => ref.tell(command),
    recover: () =>
      new Promise((resolve) => {
        const replyTo = control.spawn<RecoveryRound | null>(() => resolve);
        ref.tell({ type: 'Recover', replyTo });
      }),
  };
}

/** Records what the processor does to payments, in order; the facilitator's answers are given by hand. */
class Held {
  readonly calls: string[] = [];
  readonly verifies: PromiseWithResolvers<Verified>[] = [];
  readonly settles: PromiseWithResolvers<Settled>[] = [];
  readonly #events = new EventTarget();
  /** Postings that the ledger does not take. */
  fails = 0;
  /** Verifications are answered at once. */
  isValid = false;
  /** How often a payment was submitted. */
  submits = 0;

  /** For `open`. */
  readonly change = (ledger: Ledger): Partial<PaymentProcessorDeps> => ({
    facilitator: {
      verify: () => (this.isValid ? Promise.resolve(VALID) : this.#hold(this.verifies, 'verify')),
      settle: () => this.#hold(this.settles, 'settle'),
    },
    ledger: {
      ...ledger,
      failPayment: async (id, reason) => {
        await ledger.failPayment(id, reason);
        this.#record(reason);
      },
      submitPayment: async (id, request) => {
        await ledger.submitPayment(id, request);
        this.submits++;
      },
      settlePayment: async (id, target, answer) => {
        const posted = this.fails-- > 0 ? away() : ledger.settlePayment(id, target, answer);
        this.#record(target.kind);
        return await posted;
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
      if (answer.kind !== 'ticket') return answer;
      const paid = await client.settle(answer.ticket);
      client.deliver(answer.ticket);
      return paid;
    }),
  );
  t.same(new Set(answers.map(({ kind }) => kind)), new Set(['paid']));
  await client.settle('nobody');
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

t.test('money that arrives for a thread that has ended becomes credit', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const settled = threads.client.settle(await begun(threads, held));
  await held.reached(2);
  const ended = threads.end();
  t.match(await settled, { kind: 'refused', code: 'HR_PAYMENT_PENDING' });
  await ended;
  held.settles[0]?.resolve(SETTLED);
  await held.reached(3);
  t.same(held.calls, ['verify', 'settle', 'credit']);
});

t.test('what is answered too late is cancelled, or becomes credit', async (t) => {
  const held = new Held();
  const { begin, client, clock } = await open(t, held.change);
  const asked = begin();
  await held.reached(1);
  clock.advance(40_001);
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
  clock.advance(100_001);
  t.match(await settled, { code: 'HR_PAYMENT_PENDING' });
  const third = begin();
  await held.reached(5);
  held.settles[0]?.resolve(SETTLED);
  await held.reached(6);
  t.equal(held.calls.at(-1), 'credit');
  held.verifies[2]?.resolve({ kind: 'unavailable' });
  await third;
});

t.test('a ticket whose answer was under way when it was given up is cancelled', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  await begun(threads, held);
  threads.tell({ type: 'Leave', call: 'thread/payer-thread-1/1' });
  await threads.drained();
  t.same(held.calls, ['verify', 'cancelled']);
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

t.test('a paid ticket becomes credit when its thread has lost the answer, and settles once', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const { client, drained } = threads;
  const ticket = await begun(threads, held);
  const settled = client.settle(ticket);
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  t.match(await settled, { kind: 'paid' });
  t.match(await client.settle(ticket), { code: 'HR_PAYMENT_PENDING' }, 'a ticket settles once');
  client.cancel(ticket);
  await held.reached(3);
  t.equal(held.calls[2], 'credit');
  t.match(await client.settle(ticket), { code: 'HR_PAYMENT_PENDING' });
  await drained();
  const { payer, ledger } = threads.fixture;
  t.equal((await ledger.account(payer.address))?.balance, call(undefined).price);
});

t.test('a paid ticket is charged with its delivery, once', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const { client, drained, fixture } = threads;
  const ticket = await begun(threads, held);
  client.deliver(ticket);
  const settled = client.settle(ticket);
  client.deliver(ticket);
  // The link keeps the order: when a later command is answered, these have arrived.
  await client.settle('nobody');
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  t.match(await settled, { kind: 'paid' });
  await drained();
  t.same(held.calls, ['verify', 'settle'], 'what is not paid yet cannot be delivered');
  client.deliver(ticket);
  client.deliver(ticket);
  client.cancel(ticket);
  t.match(await client.settle(ticket), { code: 'HR_PAYMENT_PENDING' });
  await drained();
  t.same(held.calls, ['verify', 'settle', 'charge']);
  t.match(await fixture.ledger.usage({ by: [] }), [{ requests: 1n, amount: call(undefined).price }]);
});

t.test('a paid ticket is shown to other processes as long as its work goes on, and then becomes credit', async (t) => {
  const held = new Held();
  const threads = await open(t, held.change);
  const { clock, drained } = threads;
  const ticket = await begun(threads, held);
  const settled = threads.client.settle(ticket);
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  await settled;
  t.equal(held.submits, 2, 'before the money moves, and with its transaction');
  for (let times = 1; times < 30; times++) {
    clock.advance(30_000);
    await drained();
    t.equal(held.submits, 2 + times);
  }
  t.same(held.calls, ['verify', 'settle']);
  clock.advance(30_000);
  await held.reached(3);
  t.equal(held.calls[2], 'credit');
});

t.test('a delivery that the ledger could not take is posted with a later round', async (t) => {
  const held = new Held();
  // Each posting is tried twice at once.
  held.fails = 2;
  const threads = await open(t, held.change);
  const { client, drained, fixture, recover } = threads;
  const ticket = await begun(threads, held);
  const settled = client.settle(ticket);
  await held.reached(2);
  held.settles[0]?.resolve(SETTLED);
  await settled;
  client.deliver(ticket);
  await held.reached(4);
  await drained();
  t.equal((await fixture.ledger.findPayment(ticket))?.state, 'submitted');
  t.match(await recover(), { posted: 1, open: 0 });
  t.same(held.calls, ['verify', 'settle', 'charge', 'charge', 'charge']);
  t.equal((await fixture.ledger.findPayment(ticket))?.state, 'settled');
});

t.test('when the ledger fails, a purchase is pending if money may have moved', async (t) => {
  const { client, defects, fixture } = await open(t, (ledger) => ({
    ledger: { ...ledger, account: away, findPayment: away },
  }));
  t.match(await client.purchase(buying(undefined, { address: 'acme' })), { code: 'HR_PAYMENT_UNAVAILABLE' });
  t.match(await client.purchase(buying(fixture.header(5_000_000))), { code: 'HR_PAYMENT_PENDING' });
  t.equal(defects.length, 2);
});

t.test('verifications and unpaid work are limited for each payer and in total, by turns', async (t) => {
  const held = new Held();
  const { client, clock, fixture } = await open(t, held.change);
  const payers = Array.from({ length: 16 }, (_, at) => new Payer(BigInt(1000 + at)));
  const from = (payer: Payer): Promise<BeginAnswer> => client.begin(call(fixture.header(CALL_UNITS, { payer })));
  const [greedy] = payers as [Payer];
  const flood = Array.from({ length: 30 }, () => from(greedy));
  await Promise.all(flood.slice(20).map(async (answer) => t.equal(word(await answer), 'HR_PAYMENT_LIMIT')));
  t.equal(held.verifies.length, 4, 'four of one payer are verified at once, 16 wait');
  const others = payers.slice(1).map(from);
  await held.reached(12);
  for (let at = 0; at < 12; at++) held.verifies[at]?.resolve(VALID);
  await held.reached(12 + 11);
  t.equal(held.verifies.length, 23, 'at most four of one payer again');
  held.isValid = true;
  for (const { resolve } of held.verifies) resolve(VALID);
  for (const answer of others) t.equal(word(await answer), 'ticket', 'nobody waits behind the flood');
  await client.settle('nobody');
  clock.advance(8000);
  const words = await Promise.all(flood.map(async (answer) => word(await answer)));
  t.equal(words.filter((one) => one === 'ticket').length, 1, 'a payer that has never paid begins with one');
  t.equal(words.filter((one) => one === 'HR_PAYMENT_LIMIT').length, 29);
});
