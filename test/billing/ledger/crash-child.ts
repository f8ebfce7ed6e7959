// A process that buys, holds and spends until it is killed; started by `crash.slow.test.ts`. Started again it does the same
// from the beginning with the same ids, as clients do that got no answer. Each line it prints is a promise it had kept.
// Arguments: store URL, step to die at, how often that step passes before.

import { writeSync } from 'node:fs';
import { systemClock } from '../../../src/actor/clock.ts';
import { paymentId } from '../../../src/billing/ledger/commands.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { type Ledger, LedgerError } from '../../../src/billing/ledger/ledger.ts';
import { charge } from './stores.ts';
import { chargeOf, LANES, NOW_MS, PRICE, ROUNDS } from './crash-plan.ts';

const [url = '', dyingStep = '', passes = '0'] = process.argv.slice(2);

function say(line: string): void {
  writeSync(1, `${line}\n`);
}

async function buy(ledger: Ledger, lane: number, round: number): Promise<void> {
  const key = { network: 'test', asset: 'usd', payer: `lane-${lane}`, nonce: `${round}` };
  const id = paymentId(key);
  const reserved = await ledger.reservePayment({ ...key, purpose: 'credits', amount: PRICE, validUntilMs: 1 });
  if (reserved.kind === 'reserved') say(`reserved ${id}`);
  const state = reserved.kind === 'taken' ? reserved.payment.state : 'reserved';
  if (state !== 'settled') {
    await ledger.submitPayment(id, 'signed');
    await ledger.settlePayment(id, { kind: 'credit', account: `lane-${lane}` }, `receipt ${id}`);
  }
  say(`bought ${id}`);
}

async function spend(ledger: Ledger, lane: number, round: number): Promise<void> {
  const id = `${lane}-${round}`;
  const request = { account: `lane-${lane}`, holder: `lane-${lane}`, ttlMs: 1e12 };
  const amount = chargeOf(lane, round);
  const usage = { key: 'k', model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
  await ledger.hold({ ...request, id, amount: 100n }).catch((error: unknown) => {
    // Settled before the crash; settling again must say so.
    if (!(error instanceof LedgerError && error.refusal === 'hold-closed')) throw error;
  });
  await ledger.settle(id, amount, usage);
  say(`settled ${id}`);
  const lease = `lease-${lane}`;
  await ledger.lease({ ...request, id: lease, amount: 200n });
  await charge(ledger, lease, id + '-charge', amount, usage, { account: request.account });
  say(`charged ${id}`);
}

const left = { passes: Number(passes) };
const ledger = await openLedger(url, {
  clock: systemClock,
  dateMs: () => NOW_MS,
  ownDates: true,
  lingerMs: 0,
  onStep(step) {
    if (step === dyingStep && left.passes-- === 0) process.kill(process.pid, 'SIGKILL');
  },
});
await Promise.all(
  Array.from({ length: LANES }, async (_, lane) => {
    for (let round = 0; round < ROUNDS; round++) {
      await buy(ledger, lane, round);
      await spend(ledger, lane, round);
    }
  }),
);
await ledger.close();
say('finished');
