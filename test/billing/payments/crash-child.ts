// A process that sells credits and requests until it is killed; started by `crash.slow.test.ts`, which is its facilitator.
// Started again it does the same from the beginning with the same signatures, as clients do that got no answer. Each
// line it prints is a promise it had kept. Arguments: store URL, facilitator URL, node URL, step to die at, how often that passes.

import { writeSync } from 'node:fs';
import { Chain } from '../../../src/billing/payments/chain.ts';
import { Facilitator } from '../../../src/billing/payments/facilitator.ts';
import type { BeginAnswer } from '../../../src/billing/payments/payment-commands.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { systemClock } from '../../../src/actor/clock.ts';
import { headerV1 } from '../../support/payer.ts';
import { ATTEMPTS, CALL_UNITS, LANES, nonceOf, NOW_MS, payerOf, PURCHASE_UNITS, ROUNDS } from './crash-plan.ts';
import { call, MERCHANT, RESOURCE, TestProcessor, wanted } from './payment-fixture.ts';

const [store = '', facilitator = '', node = '', dyingStep = '', passes = '0'] = process.argv.slice(2);

function say(line: string): void {
  writeSync(1, `${line}\n`);
}

async function buy(paymentProcessor: TestProcessor, lane: number, round: number): Promise<void> {
  const payer = payerOf(lane);
  const nonce = nonceOf(round, 'buy', 0);
  const payment = headerV1(payer, wanted(PURCHASE_UNITS), { nonce, nowS: NOW_MS / 1000 });
  const amount = PURCHASE_UNITS / 1_000_000;
  const answer = await paymentProcessor.purchase({ address: payer.address, amount, resource: RESOURCE, payment });
  if (answer.kind !== 'sold') throw new Error(JSON.stringify(answer));
  say(`sold ${lane} ${nonce} ${answer.body.item_hash}`);
}

/** Signs another payment when one got stuck: reserved or submitted without an end, it waits for the end of its validity. */
async function ask(paymentProcessor: TestProcessor, lane: number, round: number, attempt = 0): Promise<void> {
  const nonce = nonceOf(round, 'call', attempt);
  const payment = headerV1(payerOf(lane), wanted(CALL_UNITS), { nonce, nowS: NOW_MS / 1000 });
  const begun = await paymentProcessor.begin(call(payment, { digest: `${lane}-${round}` }));
  if (begun.kind === 'ticket') {
    const paid = await paymentProcessor.settle(begun.ticket);
    if (paid.kind !== 'paid') throw new Error(JSON.stringify(paid));
    await paymentProcessor.delivered(begun.ticket);
    say(`served ${lane} ${nonce}`);
  } else if (begun.kind === 'offer' && begun.offer.headers.includes('x-payment-response')) {
    say(`spent ${lane} ${nonce}`);
  } else if (isStuck(begun) && attempt + 1 < ATTEMPTS) {
    say(`stuck ${lane} ${nonce}`);
    await ask(paymentProcessor, lane, round, attempt + 1);
  } else {
    throw new Error(JSON.stringify(begun));
  }
}

function isStuck(begun: BeginAnswer): boolean {
  if (begun.kind === 'refused') return begun.code === 'HR_PAYMENT_PENDING';
  return begun.kind === 'offer' && begun.offer.reason === 'duplicate_settlement';
}

const left = { passes: Number(passes) };
const ledger = await openLedger(store, {
  clock: systemClock,
  dateMs: () => NOW_MS,
  lingerMs: 0,
  onStep(step) {
    if (step === dyingStep && left.passes-- === 0) process.kill(process.pid, 'SIGKILL');
  },
});
const client = new Facilitator({ url: facilitator }, systemClock);
const chain = new Chain({ url: node }, MERCHANT.chain, systemClock);
const deps = { ledger, facilitator: client, chain, merchant: MERCHANT, dateMs: () => NOW_MS };
const paymentProcessor = TestProcessor.start({ ...deps, settings: { graceMs: 0 } });
await paymentProcessor.recover();
await Promise.all(
  Array.from({ length: LANES }, async (_, lane) => {
    for (let round = 0; round < ROUNDS; round++) {
      await buy(paymentProcessor, lane, round);
      await ask(paymentProcessor, lane, round);
    }
  }),
);
client.close();
chain.close();
await ledger.close();
say('finished');
