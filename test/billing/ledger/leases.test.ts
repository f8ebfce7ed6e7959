// Leases that grow and shrink while they are open, and accounts that pay later: on every store.

import t from 'tap';
import { type LedgerError } from '../../../src/billing/ledger/ledger.ts';
import { charge, debit, openStore, START_MS, STORES, USAGE } from './stores.ts';

const LEASE = { id: 'l', account: 'a', amount: 10n, holder: 'h', ttlMs: 60_000 };
const refusal = (name: LedgerError['refusal']): { name: string; refusal: string } => ({
  name: 'LedgerError',
  refusal: name,
});

for (const name of STORES) {
  t.test(`${name}: a lease is extended as far as the balance allows, and spent as one`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 25n });
    await ledger.lease(LEASE);
    t.same(await ledger.extend('l', 1, 10n), { kind: 'held', amount: 10n, repeated: false });
    t.match(await ledger.extend('l', 2, 10n), { kind: 'held', amount: 5n });
    t.match(await ledger.extend('l', 3, 1n), { kind: 'short', balance: 0n });
    t.match(await ledger.account('a'), { balance: 0n, held: 25n });
    t.match(await charge(ledger, 'l', 'c', 22n, USAGE), { late: false });
    t.match(await ledger.account('a'), { balance: 0n, held: 3n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: a holder gives back what it does not need, never what it has spent`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 10n });
    await ledger.lease(LEASE);
    await charge(ledger, 'l', 'c', 4n, USAGE);
    t.equal(await ledger.giveBack('l', 1, 2n), 2n);
    t.equal(await ledger.giveBack('l', 2, 100n), 4n);
    t.equal(await ledger.giveBack('l', 3, 1n), 0n);
    t.match(await ledger.account('a'), { balance: 6n, held: 0n });
    t.match(await charge(ledger, 'l', 'd', 1n, USAGE), { late: false }, 'beyond the lease the balance pays');
    t.match(await ledger.account('a'), { balance: 5n, held: 0n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: a closed lease is not extended, and no id is used twice`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 100n });
    await ledger.lease(LEASE);
    await ledger.extend('l', 1, 5n);
    await t.rejects(ledger.extend('l', 1, 5n), refusal('id-reused'));
    await ledger.release('l');
    await t.rejects(ledger.extend('l', 2, 5n), refusal('hold-closed'));
    await t.rejects(ledger.giveBack('l', 3, 5n), refusal('hold-closed'));
    await t.rejects(ledger.extend('none', 4, 5n), refusal('hold-unknown'));
    await t.rejects(ledger.extend('l', 5, 0n), refusal('amount-invalid'));
    t.match(await ledger.account('a'), { balance: 100n, held: 0n });
  });

  t.test(
    `${name}: an account that pays later is created by its first charge and charged once for each id`,
    async (t) => {
      const { ledger } = await openStore(t, name);
      t.same(await debit(ledger, 'later', '1', 30n, { ...USAGE, requests: 3 }), { late: false, repeated: false });
      t.same(await debit(ledger, 'later', '1', 30n, USAGE), { late: false, repeated: true });
      await t.rejects(debit(ledger, 'later', '1', 31n, USAGE), refusal('id-reused'));
      t.match(await ledger.account('later'), { balance: -30n, held: 0n });
      t.match(await ledger.usage({ by: [] }), [{ requests: 3n, estimated: 0n, amount: 30n }]);
      t.match(await ledger.audit(), { sound: true });
    },
  );

  t.test(`${name}: charges that sum up estimates count all of them as estimates`, async (t) => {
    const { ledger } = await openStore(t, name);
    await debit(ledger, 'a', '1', 1n, { ...USAGE, measured: false, requests: 7 });
    await debit(ledger, 'a', '2', 1n, USAGE);
    t.match(await ledger.usage({ by: [] }), [{ requests: 8n, estimated: 7n }]);
    await t.rejects(debit(ledger, 'a', '3', 1n, { ...USAGE, requests: -1 }), refusal('amount-invalid'));
  });
}

for (const name of STORES) {
  t.test(`${name}: a gateway whose clock is ahead does not expire leases in use`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 1000n });
    await ledger.lease({ ...LEASE, amount: 1000n });
    const ahead = await again({ dateMs: () => START_MS + 365 * 86_400_000 });
    t.equal(await ahead.expire(), 0);
    t.match(await ahead.lease({ ...LEASE, id: 'm', holder: 'other' }), { kind: 'short', balance: 0n });
    t.same(await ahead.renew('h', 60_000), [{ id: 'l', left: 1000n }]);
    t.match(await ledger.account('a'), { balance: 0n, held: 1000n });
  });

  t.test(`${name}: a charge has the date of its work, whenever it is posted`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    pass(3 * 86_400_000);
    await debit(ledger, 'a', 'c', 5n, USAGE, START_MS);
    t.match(await ledger.usage({ by: ['day'] }), [{ day: '2026-03-31', amount: 5n }]);
    t.match(await ledger.history({ account: 'a' }), [{ dateMs: START_MS }]);
  });

  t.test(`${name}: a charge of a lease that the store does not know is paid by the balance, once`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 10n });
    t.same(await charge(ledger, 'lost', 'c', 4n, USAGE), { late: true, repeated: false });
    t.same(await charge(ledger, 'lost', 'c', 4n, USAGE), { late: false, repeated: true });
    await t.rejects(charge(ledger, 'lost', 'c', 5n, USAGE), refusal('id-reused'));
    t.match(await ledger.account('a'), { balance: 6n, held: 0n });
  });

  t.test(`${name}: an address is one account in any case of its letters`, async (t) => {
    const { ledger } = await openStore(t, name);
    const address = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
    const id = address.toLowerCase();
    t.match(await ledger.createAccount({ id: address }), { id });
    t.match(await ledger.createKey({ id: 'k', hash: 'h', prefix: 'hr', account: address }), { account: id });
    await ledger.grant({ id: 'g', account: address.toUpperCase().replace('0X', '0x'), amount: 10n });
    t.match(await ledger.lease({ ...LEASE, account: address }), { kind: 'held', amount: 10n });
    await charge(ledger, 'l', 'c', 4n, USAGE, { account: address });
    for (const name of [address, id]) {
      t.match(await ledger.account(name), { id, balance: 0n, held: 6n });
      t.match(await ledger.history({ account: name }), [{ kind: 'charge', account: id }, { kind: 'grant' }]);
      t.match(await ledger.usage({ account: name, by: [] }), [{ amount: 4n }]);
      t.equal((await ledger.listKeys(name)).length, 1);
    }
    t.equal((await ledger.listAccounts()).length, 1);
    await ledger.createAccount({ id: 'Acme' });
    t.equal(await ledger.account('acme'), undefined, 'other names are told apart');
  });
}
