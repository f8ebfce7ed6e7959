// The audit must find what it promises to find: each case spoils one thing behind the ledger's back.

import { existsSync, renameSync } from 'node:fs';
import t from 'tap';
import { debit, execute, openStore, START_MS, STORES, USAGE } from './stores.ts';

const SPOILS: readonly (readonly [string, string, RegExp])[] = [
  [
    'a movement changed',
    "update movements set amount = amount + 1 where id = 'grant:1'",
    /All accounts add up to -0\.000000000001 USD,.*'a' has 0\.00000000008 USD, its movements add up to 0\.000000000081 USD/,
  ],
  [
    'a balance raised',
    "update accounts set balance = balance + 7 where id = 'a'",
    /has 0\.000000000087 USD, its movements add up to 0\.00000000008 USD/,
  ],
  [
    'held credit without a hold',
    "update accounts set held = held + 1 where id = 'a'",
    /holds 0\.000000000031 USD.* 0\.00000000003 USD/,
  ],
  ['a hold closed alone', "update holds set state = 'closed' where id = 'open'", /open holds add up to 0\.00 USD/],
  [
    'a movement removed',
    "delete from movements where id = 'grant:1'",
    /has 0\.00000000008 USD, its movements add up to -0\.00000000002 USD/,
  ],
  ['an account removed', "delete from accounts where id = 'b'", /Movements of 'b' have no account/],
  [
    'a charge changed',
    'update charges_2026_03 set amount = 19',
    /Usage of 'a' for 'm' on 2026-03-31 is 0\.00000000002 USD.*to 0\.000000000019 USD/,
  ],
  ['a charge removed', 'delete from charges_2026_03', /on 2026-03-31 is 0\.00000000002 USD .*add up to 0\.00 USD/],
  [
    'a charge of another model',
    "update usage_daily set model = 'n'",
    /for 'n' on 2026-03-31 is 0\.00000000002 USD .*add up to 0\.00 USD/,
  ],
  [
    'usage without a charge',
    'update usage_daily set amount = amount - 1',
    /is 0\.000000000019 USD and.*to 0\.00000000002 USD/,
  ],
  ['tokens that no charge has', 'update usage_daily set output_tokens = 1', /Usage of 'a'/],
  [
    'a payment settled without its money',
    "update payments set state = 'settled' where nonce = 'n'",
    /settled and not posted/,
  ],
];

for (const name of STORES) {
  for (const [what, sql, sentence] of SPOILS) {
    t.test(`${name}: the audit finds ${what}`, async (t) => {
      const { ledger, url } = await openStore(t, name);
      for (const id of ['a', 'b']) await ledger.createAccount({ id });
      await ledger.grant({ id: '1', account: 'a', amount: 100n });
      await ledger.grant({ id: '2', account: 'b', amount: 5n });
      const hold = { account: 'a', amount: 30n, holder: 'x', ttlMs: 0 };
      await ledger.hold({ ...hold, id: 'open' });
      await ledger.hold({ ...hold, id: 'done' });
      await ledger.settle('done', 20n, USAGE);
      const payment = { network: 'x', asset: 'x', payer: 'x', nonce: 'n', purpose: '', amount: 1n, validUntilMs: 1 };
      await ledger.reservePayment(payment);
      t.match(await ledger.audit(), { sound: true, sum: 0n, movements: 3n, accounts: 2n, openHolds: 1n, problems: [] });
      await execute(name, url, sql);
      const report = await ledger.audit();
      t.equal(report.sound, false);
      t.match(report.problems.join(', '), sentence);
    });
  }
}

const DAY_MS = 86_400_000;

for (const name of STORES) {
  t.test(`${name}: days that were found sound are not read again, unless all is asked for`, async (t) => {
    const { ledger, pass, url } = await openStore(t, name);
    await debit(ledger, 'a', '1', 10n, USAGE);
    await debit(ledger, 'a', '2', 10n, USAGE, START_MS + DAY_MS);
    pass(DAY_MS);
    t.match(await ledger.audit(), { sound: true, movements: 2n });
    await execute(name, url, 'update charges_2026_03 set amount = 9');
    t.match(await ledger.audit(), { sound: true, movements: 2n }, 'yesterday was compared');
    await execute(name, url, 'update charges_2026_04 set amount = 9');
    t.match(
      (await ledger.audit()).problems,
      [/on 2026-04-01 is 0\.00000000001 USD .*add up to 0\.000000000009 USD/],
      'today goes on',
    );
    t.match((await ledger.audit({ full: true })).problems, [
      /on 2026-03-31 is 0\.00000000001 USD/,
      /on 2026-04-01 is 0\.00000000001 USD/,
    ]);
    t.match(
      (await ledger.audit()).problems,
      [/on 2026-03-31 is 0\.00000000001 USD/, /on 2026-04-01 is 0\.00000000001 USD/],
      'not sound any more',
    );
    t.match(await ledger.prune(START_MS + DAY_MS), { months: [], kept: ['2026_03'] });
    await execute(name, url, 'update charges_2026_03 set amount = 10; update charges_2026_04 set amount = 10');
    t.match(await ledger.audit(), { sound: true, problems: [] });
    await execute(name, url, 'update usage_daily set output_tokens = 0');
    t.match((await ledger.audit()).problems, [/on 2026-04-01/], 'tokens of an audited day are not read either');
  });

  t.test(`${name}: a charge that comes late has its day read again`, async (t) => {
    const { ledger, pass, url } = await openStore(t, name);
    await debit(ledger, 'a', '1', 10n, USAGE);
    pass(DAY_MS);
    t.match(await ledger.audit(), { sound: true, movements: 1n });
    await debit(ledger, 'a', 'late', 5n, USAGE);
    t.match(await ledger.audit(), { sound: true, movements: 2n });
    await execute(name, url, 'update charges_2026_03 set amount = 6 where amount = 5');
    t.match(await ledger.audit(), { sound: true }, 'found sound before');
    await debit(ledger, 'a', 'later', 1n, USAGE);
    t.match((await ledger.audit()).problems, [/is 0\.000000000016 USD .*add up to 0\.000000000017 USD/]);
  });

  t.test(`${name}: payments and expiring credit that were tampered with are reported`, async (t) => {
    const { ledger, url } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 10n, expiresMs: START_MS + DAY_MS });
    const key = { network: 'n', asset: 's', payer: '0xp', nonce: '1' };
    await ledger.reservePayment({ ...key, purpose: 'p', amount: 7n, validUntilMs: START_MS });
    await ledger.settlePayment('n|s|0xp|1', { kind: 'credit', account: 'a' }, '{}');
    t.match(await ledger.audit(), { sound: true, problems: [] });
    await execute(name, url, 'update accounts set expiring = 11');
    t.match((await ledger.audit()).problems, [
      /^Account 'a' has 0\.000000000011 USD that expires, its grants add up to 0\.00000000001 USD$/,
    ]);
    await execute(name, url, 'update accounts set expiring = 10; update payments set amount = 8');
    t.match((await ledger.audit()).problems, [
      /^Payment 'n\|s\|0xp\|1' is 0\.000000000008 USD, and 0\.000000000007 USD was posted$/,
    ]);
    await execute(name, url, 'delete from payments');
    t.match((await ledger.audit()).problems, [/^Payment 'n\|s\|0xp\|1' is .*posted and not settled$/]);
  });
}

t.test('the audit of a file runs in a thread of its own, beside commits', async (t) => {
  const { ledger } = await openStore(t, 'sqlite');
  await debit(ledger, 'a', '1', 10n, USAGE);
  let threads = 0;
  const count = (): void => void threads++;
  process.on('worker', count);
  t.teardown(() => process.off('worker', count));
  const [report] = await Promise.all([ledger.audit(), debit(ledger, 'a', '2', 10n, USAGE)]);
  t.match(report, { sound: true });
  t.equal(threads, 1);
});

t.test('the audit of a file that is gone fails, and makes no new one', async (t) => {
  const { ledger, url } = await openStore(t, 'sqlite');
  const file = url.slice('sqlite:'.length);
  renameSync(file, `${file}.moved`);
  await t.rejects(ledger.audit(), { message: /was moved, deleted or replaced/ });
  t.notOk(existsSync(file));
  renameSync(`${file}.moved`, file);
  t.match(await ledger.audit(), { sound: true });
});

t.test('postgres: a charge that the database refuses is parked, and reported by every audit', async (t) => {
  const { ledger } = await openStore(t, 'postgres');
  const charges = ['good', 'a\0b', 'better'].map((model, at) => {
    return { id: `c${at}`, account: 'a', amount: 7n, usage: { ...USAGE, model }, dateMs: START_MS };
  });
  t.match(await ledger.charge(charges), [
    { status: 'fulfilled', value: { repeated: false } },
    { status: 'fulfilled', value: { repeated: false, parked: /invalid byte sequence/ } },
    { status: 'fulfilled', value: { repeated: false } },
  ]);
  t.match(await ledger.account('a'), { balance: -14n }, 'the rest was posted');
  await ledger.charge(charges);
  t.match(await ledger.audit(), {
    sound: false,
    problems: [/^A charge of 0\.000000000007 USD of 2026-03-31T23:59:00.000Z is parked: invalid byte/],
  });
});
