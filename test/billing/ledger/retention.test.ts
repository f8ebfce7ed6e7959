import { join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import { openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import { debit, execute, openStore, START_MS, STORES, USAGE } from './stores.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const DAY_MS = 86_400_000;

for (const name of STORES) {
  t.test(`${name}: charges of a month go when an audit found all of it sound, and the sums stay`, async (t) => {
    const { ledger, pass, url } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 100n });
    await debit(ledger, 'a', 'old', 10n, USAGE);
    await debit(ledger, 'a', 'new', 5n, USAGE, START_MS + DAY_MS);
    const april = START_MS + DAY_MS;
    t.match(await ledger.prune(april), { months: [], kept: ['2026_03'] }, 'no audit yet');
    await ledger.audit();
    t.match(await ledger.prune(april), { kept: ['2026_03'] }, 'the last day of the month is not over');
    pass(DAY_MS);
    await ledger.audit();
    t.match(await ledger.prune(null), { months: [], kept: [] });
    await debit(ledger, 'a', 'late', 1n, USAGE);
    t.match(await ledger.prune(april), { kept: ['2026_03'] }, 'a charge came after the audit');
    t.match(await ledger.audit(), { sound: true, movements: 4n });
    const columns =
      'account, amount, input_tokens, cached_tokens, output_tokens, member, key, model, price, requests, measured';
    const more = `insert into charges_2026_03 (date_ms, id, ${columns}) select 1774915200000, 1, ${columns} from charges_2026_03 limit 1`;
    await execute(name, url, more);
    t.match(await ledger.prune(april), { kept: ['2026_03'] }, 'a charge that the audit has not read');
    await execute(name, url, 'delete from charges_2026_03 where date_ms = 1774915200000');
    t.match(await ledger.prune(april), { months: ['2026_03'], kept: [] });
    t.match(await ledger.prune(april), { months: [], kept: [] });
    t.match(await ledger.history({ account: 'a' }), [{ kind: 'charge', amount: -5n }, { kind: 'grant' }]);
    t.match(await ledger.usage({ by: ['day'] }), [{ amount: 11n }, { amount: 5n }]);
    t.match(await ledger.audit({ full: true }), { sound: true, movements: 4n, problems: [] });
    const charge = { account: 'a', amount: 1n, usage: USAGE };
    const outcomes = await ledger.charge([
      { ...charge, id: 'later', dateMs: START_MS },
      { ...charge, id: 'beside', dateMs: START_MS + DAY_MS },
    ]);
    t.match(outcomes, [{ value: { parked: /were removed/ } }, { value: { late: false, repeated: false } }]);
    t.match(await ledger.account('a'), { balance: 83n });
    t.match(await ledger.audit(), {
      sound: false,
      problems: [/^A charge of 0.000000000001 USD of 2026-03-31.* is parked: .*were removed/],
    });
  });

  t.test(`${name}: closed leases are removed a day after they expired, others stay`, async (t) => {
    const { ledger, url } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 100n });
    const lease = { account: 'a', amount: 10n, holder: 'x', ttlMs: 0 };
    for (const id of ['old', 'open', 'fresh']) await ledger.lease({ ...lease, id });
    await ledger.hold({ ...lease, id: 'hold' });
    for (const id of ['old', 'fresh', 'hold']) await ledger.release(id);
    t.match(await ledger.prune(null), { leases: 0 });
    await execute(name, url, `update holds set expires_ms = expires_ms - ${2 * DAY_MS} where id <> 'fresh'`);
    t.match(await ledger.prune(null), { leases: 1 });
    t.equal(await ledger.findHold('old'), undefined);
    for (const id of ['open', 'fresh', 'hold']) t.match(await ledger.findHold(id), { id });
    t.match(await ledger.audit(), { sound: true, openHolds: 1n });
  });
}

t.test('a backup is a copy of the file while others write, and never replaces a file', async (t) => {
  const { ledger } = await openStore(t, 'sqlite');
  await debit(ledger, 'a', '1', 10n, USAGE);
  const file = join(temporaryFolder(t), 'copy.db');
  await Promise.all([ledger.backUp(file), debit(ledger, 'a', '2', 10n, USAGE)]);
  const copy = await openLedger(`sqlite:${file}`, { clock: systemClock, dateMs: () => START_MS });
  t.match(await copy.history({ account: 'a' }), [{ amount: -10n }]);
  t.match(await copy.audit({ full: true }), { sound: true });
  await copy.close();
  await t.rejects(ledger.backUp(file), { name: 'LedgerError', message: /exists/ });
});

t.test('a store on PostgreSQL is backed up by its own tools', async (t) => {
  const { ledger } = await openStore(t, 'postgres');
  await t.rejects(ledger.backUp('x'), { name: 'LedgerError', message: /pg_dump/ });
});
