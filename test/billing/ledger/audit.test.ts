// The audit must find what it promises to find: each case spoils one thing behind the ledger's back.

import t from 'tap';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { openStore, type StoreName, STORES, USAGE } from './stores.ts';

async function spoil(name: StoreName, url: string, sql: string): Promise<void> {
  if (name === 'sqlite') {
    const file = new DatabaseSync(url.slice('sqlite:'.length), { enableForeignKeyConstraints: false });
    file.exec(sql);
    file.close();
    return;
  }
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`set session_replication_role = replica; ${sql}`);
  await client.end();
}

const SPOILS: readonly (readonly [string, string, RegExp])[] = [
  [
    'a movement changed',
    "update movements set amount = amount + 1 where id = 'grant:1'",
    /All accounts add up to -1,.*Account 'a' has 80, its movements add up to 81/,
  ],
  [
    'a balance raised',
    "update accounts set balance = balance + 7 where id = 'a'",
    /has 87, its movements add up to 80/,
  ],
  ['held credit without a hold', "update accounts set held = held + 1 where id = 'a'", /holds 31.* 30/],
  ['a hold closed alone', "update holds set state = 'closed' where id = 'open'", /open holds add up to 0/],
  ['a movement removed', "delete from movements where id = 'grant:1'", /has 80, its movements add up to -20/],
  ['an account removed', "delete from accounts where id = 'b'", /Movements of 'b' have no account/],
  ['a charge changed', 'update charges_2026_03 set amount = 19', /Usage of 'a' for 'm' on 2026-03-31 is 20.*to 19/],
  ['a charge removed', 'delete from charges_2026_03', /on 2026-03-31 is 20 .*add up to 0/],
  ['a charge of another model', "update usage_daily set model = 'n'", /for 'n' on 2026-03-31 is 20 .*add up to 0/],
  ['usage without a charge', 'update usage_daily set amount = amount - 1', /is 19 and.*to 20/],
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
      await spoil(name, url, sql);
      const report = await ledger.audit();
      t.equal(report.sound, false);
      t.match(report.problems.join(', '), sentence);
    });
  }
}
