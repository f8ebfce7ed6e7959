// Random sequences in processes that die and come back: purchases, requests, repeats, lost answers, transactions that are mined late.
// In the end no signature has moved money twice, and all money that has moved is the charge of delivered work, or credit.

import fc from 'fast-check';
import t from 'tap';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { answerOf } from '../../../src/billing/payments/settlement.ts';
import type { Fault } from '../../support/facilitator.ts';
import { Payer } from '../../support/payer.ts';
import {
  balances,
  buying,
  call,
  CALL_UNITS,
  openPaymentFixture,
  type PaymentFixture,
  type TestProcessor,
  word,
} from './payment-fixture.ts';

const FAULTS = ['lost', 'rejected', 'cut', 'error', 'garbled', 'failed', 'pending'] as const satisfies readonly Fault[];
const HEADERS = 6;

/** How a request goes on: cancelled at once, or after it was paid, or its process dies then; else it is delivered. */
const ENDS = ['delivered', 'delivered', 'delivered', 'cancelled', 'given back', 'dies'] as const;

type Step =
  | { readonly kind: 'buy'; readonly header: number; readonly process: 0 | 1 }
  | { readonly kind: 'call'; readonly header: number; readonly process: 0 | 1; readonly end: (typeof ENDS)[number] }
  | { readonly kind: 'fault'; readonly path: '/verify' | '/settle'; readonly fault: (typeof FAULTS)[number] }
  | { readonly kind: 'pass'; readonly seconds: number }
  | { readonly kind: 'mine' }
  | { readonly kind: 'kill' | 'recover'; readonly process: 0 | 1 };

function faultOf(path: '/verify' | '/settle', faults: readonly (typeof FAULTS)[number][]): fc.Arbitrary<Step> {
  return fc.record({ kind: fc.constant('fault' as const), path: fc.constant(path), fault: fc.constantFrom(...faults) });
}

const process_ = fc.constantFrom<0 | 1>(0, 1);
const header = fc.nat(HEADERS - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('buy' as const), header, process: process_ }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('call' as const),
      header,
      process: process_,
      end: fc.constantFrom(...ENDS),
    }),
  },
  { weight: 3, arbitrary: faultOf('/settle', FAULTS) },
  { weight: 1, arbitrary: faultOf('/verify', ['lost', 'error', 'garbled']) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), seconds: fc.integer({ min: 1, max: 100 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('mine' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('kill' as const, 'recover' as const), process: process_ }),
  },
);

/** A ledger that a process can use until it dies. */
function mortal(ledger: Ledger, life: { isOver: boolean }): Ledger {
  return new Proxy(ledger, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) =>
        life.isOver ? Promise.reject(new Error('the process has died')) : Reflect.apply(value, target, args);
    },
  });
}

class Run {
  readonly fixture: PaymentFixture;
  readonly headers: readonly string[];
  readonly processors: TestProcessor[] = [];
  /** Payments whose work was handed over. */
  readonly delivered = new Set<string>();
  readonly words: string[] = [];
  readonly #lives: { isOver: boolean }[] = [];
  readonly #started: TestProcessor[] = [];

  constructor(fixture: PaymentFixture) {
    this.fixture = fixture;
    this.headers = Array.from({ length: HEADERS }, () => fixture.header(CALL_UNITS, { validS: 900 }));
  }

  async start(process: 0 | 1): Promise<void> {
    const life = { isOver: false };
    const processor = await this.fixture.other({ repeats: 1 }, (ledger) => mortal(ledger, life));
    this.#lives[process] = life;
    this.processors[process] = processor;
    this.#started.push(processor);
  }

  async kill(process: 0 | 1): Promise<void> {
    (this.#lives[process] as { isOver: boolean }).isOver = true;
    await this.start(process);
  }

  /** Takes steps at once; the time of timers passes meanwhile. */
  async take(round: readonly Step[]): Promise<void> {
    let isPending = true;
    const ended = Promise.all(round.map((one) => this.#take(one))).finally(() => (isPending = false));
    while (isPending) {
      for (const { clock } of this.#started) clock.advance(20);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await ended;
  }

  async #take(step: Step): Promise<void> {
    const { fixture, headers, processors, words } = this;
    switch (step.kind) {
      case 'fault':
        fixture.facilitator.faults.push(step);
        break;
      case 'pass':
        fixture.pass(step.seconds * 1000);
        break;
      case 'mine':
        fixture.facilitator.mine();
        break;
      case 'kill':
        await this.kill(step.process);
        break;
      case 'recover':
        await (processors[step.process] as TestProcessor).recover().catch(() => undefined);
        break;
      case 'buy': {
        const request = buying(headers[step.header], { amount: Number(CALL_UNITS) / 1e6 });
        words.push(word(await (processors[step.process] as TestProcessor).purchase(request)));
        break;
      }
      case 'call':
        words.push(await this.#call(step));
        break;
    }
  }

  async #call({ end, header, process }: Extract<Step, { readonly kind: 'call' }>): Promise<string> {
    const processor = this.processors[process] as TestProcessor;
    const begun = await processor.begin(call(this.headers[header]));
    if (begun.kind !== 'ticket') return word(begun);
    const { ticket } = begun;
    if (end === 'cancelled') processor.cancel(ticket);
    if (end === 'cancelled') return end;
    const paid = await processor.settle(ticket);
    if (paid.kind !== 'paid') return word(paid);
    if (end === 'dies') await this.kill(process);
    else if (end === 'given back') processor.cancel(ticket);
    if (end !== 'delivered') return end;
    this.delivered.add(ticket.replace(/^x402:/, '').replace(/#\d+$/, ''));
    processor.deliver(ticket);
    return 'served';
  }

  /** The end of all validity, without faults. */
  async settleAll(): Promise<void> {
    const { facilitator } = this.fixture;
    facilitator.faults.length = 0;
    for (let round = 0; round < 12; round++) {
      await this.take([{ kind: 'pass', seconds: 100 }, { kind: 'mine' }]);
      await this.take([{ kind: 'recover', process: 0 }]);
      await this.take([{ kind: 'recover', process: 1 }]);
    }
  }

  /** Everything that is wrong. */
  async wrongs(): Promise<string[]> {
    const { chain, facilitator, ledger } = this.fixture;
    const wrong: string[] = [];
    for (const { id } of await ledger.paymentsIn('submitted')) wrong.push(`${id} stays open`);
    const settled = await ledger.paymentsIn('settled');
    const moved = new Set(facilitator.transfers.map(({ nonce }) => nonce));
    for (const { nonce } of settled) if (!moved.has(nonce)) wrong.push(`${nonce} is settled and has not moved`);
    for (const nonce of moved) {
      if (!settled.some((payment) => payment.nonce === nonce)) wrong.push(`${nonce} has moved and is not posted`);
    }
    for (const payment of settled) {
      const isCharge = answerOf(payment)?.credited === false;
      if (isCharge && !this.delivered.has(payment.id)) wrong.push(`${payment.id} was charged and not delivered`);
    }
    await balances(this.fixture).catch((error: Error) => wrong.push(error.message));
    for (const processor of this.#started) await processor.drained();
    chain.close();
    facilitator.close();
    return wrong;
  }
}

for (const repeats of ['answered', 'refused'] as const) {
  t.test(`money moves at most once, and is delivered work or credit, where repeats are ${repeats}`, async (t) => {
    const words = new Map<string, number>();
    const sequences = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 5, maxLength: 14 });
    await fc.assert(
      fc.asyncProperty(sequences, async (rounds) => {
        const run = new Run(await openPaymentFixture(t, { rpc: true, repeats, settleTimeoutMs: 2000 }));
        await run.start(0);
        await run.start(1);
        for (const round of rounds) await run.take(round);
        await run.settleAll();
        for (const one of run.words) words.set(one, (words.get(one) ?? 0) + 1);
        const wrong = await run.wrongs();
        if (wrong.length > 0) throw new Error(wrong.join('; '));
      }),
      { numRuns: 8 },
    );
    for (const one of ['sold', 'served']) t.ok((words.get(one) ?? 0) > 0, JSON.stringify([...words]));
  });
}

t.test('the payer of the tests is the one of the vectors', async (t) => {
  const seed = BigInt('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');
  t.equal(new Payer(seed).address, '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266');
});
