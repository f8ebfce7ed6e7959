// Gateways with one PostgreSQL database and clocks that differ: what ends at a date, and what one takes over from another, follows the
// clock of the database.

import t, { type Test } from 'tap';
import { createManualClock } from '../../../src/actor/testkit.ts';
import { systemClock, systemEpochMs } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import type { Ledger, PaymentRequest } from '../../../src/billing/ledger/ledger.ts';
import { postgresDatabase } from '../../support/postgres.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const PAYMENT: Omit<PaymentRequest, 'validUntilMs'> = {
  ...{ network: 'base', asset: '0xaa', payer: '0xbb', nonce: '0xcc', purpose: 'call:d', amount: 5n },
};

/** A ledger of a gateway whose wall clock is so far ahead of the one of the database. */
async function openAhead(t: Test, url: string, aheadMs: number): Promise<Ledger> {
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => systemEpochMs() + aheadMs, lingerMs: 0 });
  t.teardown(() => ledger.close());
  return ledger;
}

t.test('a gateway whose clock is ahead takes back no credit before its time, and removes no response', async (t) => {
  const url = await postgresDatabase();
  const right = await openAhead(t, url, 0);
  const ahead = await openAhead(t, url, 2 * DAY_MS);
  await right.createAccount({ id: 'a' });
  await right.grant({ id: 'g', account: 'a', amount: 1000n, expiresMs: systemEpochMs() + DAY_MS });
  const record = {
    ...({
      account: 'a',
      id: 'resp_1',
      createdMs: systemEpochMs(),
      status: 'completed',
      model: 'm',
      previous: null,
    } as const),
    ...{ input: '[]', output: '[]', response: '{}', items: [] },
  };
  await right.responses.apply([{ type: 'add', record, ttlMs: DAY_MS }]);
  await ahead.expire();
  t.equal(await ahead.responses.prune(), 0);
  t.match(await right.account('a'), { balance: 1000n });
  t.not(await ahead.responses.find({ account: 'a', id: 'resp_1' }), undefined);
});

t.test('a gateway whose clock is behind grants no credit that has expired', async (t) => {
  const url = await postgresDatabase();
  const behind = await openAhead(t, url, -2 * DAY_MS);
  await behind.createAccount({ id: 'a' });
  const expired = { id: 'g', account: 'a', amount: 1n, expiresMs: systemEpochMs() - HOUR_MS };
  await t.rejects(behind.grant(expired), { name: 'LedgerError', refusal: 'date-invalid' });
});

t.test('gateways agree since when a payment is as it is', async (t) => {
  const url = await postgresDatabase();
  const [one, other] = [await openAhead(t, url, HOUR_MS), await openAhead(t, url, -HOUR_MS)];
  const reserved = await one.reservePayment({ ...PAYMENT, validUntilMs: systemEpochMs() + HOUR_MS });
  if (reserved.kind !== 'reserved') throw new Error(reserved.kind);
  await one.submitPayment(reserved.id, '{}');
  const changedMs = (await other.findPayment(reserved.id))?.changedMs ?? 0;
  for (const ledger of [one, other]) {
    const ageMs = ledger.dateMs() - changedMs;
    t.ok(Math.abs(ageMs) < 60_000, `${ageMs} ms`);
  }
});

t.test('a wall clock that is set while the gateway runs changes no date of the store', async (t) => {
  let aheadMs = 0;
  const clock = createManualClock();
  const dateMs = (): number => systemEpochMs() + aheadMs;
  const postgres = await openLedger(await postgresDatabase(), { clock: systemClock, dateMs });
  const file = await openLedger(':memory:', { clock, dateMs });
  t.teardown(() => Promise.all([postgres.close(), file.close()]));
  aheadMs = DAY_MS;
  t.ok(postgres.dateMs() - systemEpochMs() < HOUR_MS);
  t.ok(file.dateMs() - systemEpochMs() > HOUR_MS, 'a file has the clock of its machine');
});
