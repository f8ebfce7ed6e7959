// Random sequences in two processes: purchases, requests, repeats, lost answers. Whatever happens, in the end the
// ledger has what the token says has moved, and no signature has moved money twice.

import fc from 'fast-check';
import t from 'tap';
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

const FAULTS = ['lost', 'cut', 'error', 'garbled'] as const;
const HEADERS = 6;
/** How long payments are valid, less the time before their end in which the facilitator refuses them. */
const VALID_S = 300 - 6;
/** When, after the sequence, lost answers are asked about for the first time. */
const FIRST_ASK_S = 120;

type Step =
  | { readonly kind: 'buy' | 'call'; readonly header: number; readonly process: 0 | 1; readonly cancels: boolean }
  | { readonly kind: 'fault'; readonly path: '/verify' | '/settle'; readonly fault: (typeof FAULTS)[number] }
  | { readonly kind: 'pass'; readonly seconds: number }
  | { readonly kind: 'recover'; readonly process: 0 | 1 };

const process_ = fc.constantFrom<0 | 1>(0, 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom('buy' as const, 'call' as const),
      header: fc.nat(HEADERS - 1),
      process: process_,
      cancels: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      path: fc.constantFrom('/settle' as const, '/settle' as const, '/verify' as const),
      fault: fc.constantFrom(...FAULTS),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pass' as const), seconds: fc.integer({ min: 1, max: 70 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('recover' as const), process: process_ }) },
);

function secondsOf(rounds: readonly (readonly Step[])[]): number {
  return rounds.flat().reduce((sum, one) => sum + (one.kind === 'pass' ? one.seconds : 0), 0);
}

async function serve(paymentProcessor: TestProcessor, header: string, cancels: boolean): Promise<string> {
  const begun = await paymentProcessor.begin(call(header));
  if (begun.kind !== 'ticket') return word(begun);
  if (!cancels) {
    const paid = word(await paymentProcessor.settle(begun.ticket));
    if (paid === 'paid') await paymentProcessor.delivered(begun.ticket);
    return paid;
  }
  await paymentProcessor.cancelled(begun.ticket);
  return 'cancelled';
}

async function take(
  fixture: PaymentFixture,
  processors: readonly TestProcessor[],
  headers: readonly string[],
  step: Step,
): Promise<string> {
  switch (step.kind) {
    case 'fault':
      fixture.facilitator.faults.push(step);
      return '';
    case 'pass':
      fixture.pass(step.seconds * 1000);
      return '';
    case 'recover':
      await processors[step.process]?.recover();
      return '';
    default: {
      const paymentProcessor = processors[step.process] as TestProcessor;
      const header = headers[step.header] as string;
      if (step.kind === 'call') return await serve(paymentProcessor, header, step.cancels);
      return word(await paymentProcessor.purchase(buying(header, { amount: Number(CALL_UNITS) / 1e6 })));
    }
  }
}

t.test('no money moves twice, and none that moved is forgotten', async (t) => {
  let sold = 0;
  let paid = 0;
  const sequences = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 5, maxLength: 14 });
  await fc.assert(
    fc.asyncProperty(sequences, async (rounds) => {
      const fixture = await openPaymentFixture(t);
      const processors = [fixture.paymentProcessor, await fixture.other()];
      const headers = Array.from({ length: HEADERS }, () => fixture.header(CALL_UNITS));
      const buyers = new Map<number, number>();
      for (const round of rounds) {
        // All steps of a round at once.
        const words = await Promise.all(round.map((one) => take(fixture, processors, headers, one)));
        sold += words.filter((one) => one === 'sold').length;
        for (const [at, one] of words.entries()) {
          const { header } = round[at] as { header?: number };
          if (one !== 'paid' || header === undefined) continue;
          paid++;
          buyers.set(header, (buyers.get(header) ?? 0) + 1);
        }
      }
      fixture.facilitator.faults.length = 0;
      for (let wait = 0; wait < 6; wait++) {
        fixture.pass(FIRST_ASK_S * 1000);
        for (const paymentProcessor of processors) await paymentProcessor.recover();
      }
      // An answer was lost and the payment has expired since: only the chain can tell, and the operator decides.
      const moved = new Set(fixture.facilitator.transfers.map(({ nonce }) => nonce));
      for (const { nonce } of await fixture.ledger.paymentsIn('submitted')) {
        if (moved.has(nonce)) throw new Error('money moved, and its payment stays open');
        if (secondsOf(rounds) + FIRST_ASK_S < VALID_S) throw new Error('a payment stays open that could be settled');
      }
      if ([...buyers.values()].some((times) => times > 1)) throw new Error('one payment was served twice');
      await balances(fixture);
      fixture.facilitator.close();
    }),
    { numRuns: 25 },
  );
  t.ok(sold > 0 && paid > 0, `${sold} sold, ${paid} paid`);
});

t.test('the payer of the tests is the one of the vectors', async (t) => {
  const seed = BigInt('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');
  t.equal(new Payer(seed).address, '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266');
});
