// Budgets in both stores: what they are for, what was spent of them, and alerts that are given once.

import pg from 'pg';
import t from 'tap';
import type { Change, Ledger, LedgerRefusal, NewBudget, SpendingRow } from '../../../src/billing/ledger/ledger.ts';
import { debit, openStore, START_MS, STORES, USAGE } from './stores.ts';

const budgetOf = (more: Partial<NewBudget> = {}): NewBudget => ({
  ...{ id: 'b1', account: 'a', key: null, model: null, period: 'month', limit: 1000n, soft: null },
  ...more,
});

async function withKeys(ledger: Ledger): Promise<void> {
  await ledger.createAccount({ id: 'a' });
  await ledger.createAccount({ id: 'b' });
  await ledger.createKey({ id: 'k1', hash: 'h1', prefix: 'p', account: 'a', limits: { requestsPerMinute: 5 } });
  await ledger.rotateKey('k1', { id: 'k2', hash: 'h2', prefix: 'p', expiresMs: null }, 1000);
}

function refusal(name: LedgerRefusal): { refusal: LedgerRefusal; name: string } {
  return { name: 'LedgerError', refusal: name };
}

/** In an order of their own. */
function sorted(rows: readonly SpendingRow[]): string[] {
  return rows.map(({ account, amount, key, model }) => `${account} ${key} ${model} ${amount}`).sort();
}

for (const name of STORES) {
  t.test(
    `${name}: a budget is set, changed in place, listed by pages and removed, and watchers hear of it`,
    async (t) => {
      const { again, ledger } = await openStore(t, name);
      await withKeys(ledger);
      const heard = Promise.withResolvers<Change>();
      await (await again()).watch((change) => heard.resolve(change));
      const made = await ledger.budgets.set(budgetOf({ soft: 800n }));
      t.match(made, { id: 'b1', account: 'a', key: null, model: null, period: 'month', limit: 1000n, soft: 800n });
      t.match(await ledger.budgets.set(budgetOf({ id: 'other', limit: 5n })), { id: 'b1', limit: 5n, soft: null });
      t.match(await ledger.budgets.set(budgetOf({ id: 'b2', period: 'day' })), { id: 'b2' });
      t.match(await ledger.budgets.set(budgetOf({ id: 'b3', account: null, key: 'k2', model: 'm' })), {
        id: 'b3',
        account: 'a',
        key: 'k1',
      });
      t.match(await ledger.budgets.set(budgetOf({ id: 'b4', account: null, model: 'm' })), { id: 'b4', account: null });
      const ids = async (...query: Parameters<Ledger['budgets']['list']>): Promise<string[]> =>
        (await ledger.budgets.list(...query)).map(({ id }) => id);
      t.same(await ids(), ['b1', 'b2', 'b3', 'b4']);
      t.same(await ids('a'), ['b1', 'b2', 'b3']);
      t.same(await ids(undefined, { after: 'b1', limit: 2 }), ['b2', 'b3']);
      t.match(await ledger.budgets.remove('b2'), { id: 'b2' });
      t.equal(await ledger.budgets.find('b2'), undefined);
      t.match(await ledger.budgets.find('b4'), { model: 'm', limit: 1000n });
      await t.rejects(ledger.budgets.remove('b2'), refusal('budget-unknown'));
      await t.rejects(ledger.budgets.set(budgetOf({ account: 'nobody' })), refusal('account-unknown'));
      await t.rejects(ledger.budgets.set(budgetOf({ key: 'nothing' })), refusal('key-unknown'));
      await t.rejects(ledger.budgets.set(budgetOf({ account: 'b', key: 'k1' })), refusal('key-unknown'));
      t.same(await heard.promise, { kind: 'budget', budget: 'b1' });
    },
  );

  t.test(
    `${name}: spending is summed by account, chain of keys and model; or by model over all accounts`,
    async (t) => {
      const { ledger } = await openStore(t, name);
      await withKeys(ledger);
      const day = 86_400_000;
      await debit(ledger, 'a', '1', 1n, { ...USAGE, key: 'k1' }, START_MS - day);
      await debit(ledger, 'a', '2', 10n, { ...USAGE, key: 'k1' });
      await debit(ledger, 'a', '3', 100n, { ...USAGE, key: 'k2' });
      await debit(ledger, 'a', '4', 1000n, { ...USAGE, key: null, model: 'n' });
      await debit(ledger, 'b', '5', 10_000n, { ...USAGE, key: 'static:1' });
      const spending = async (...query: Parameters<Ledger['budgets']['spending']>): Promise<string[]> =>
        sorted(await ledger.budgets.spending(...query));
      const all = { accounts: ['a', 'b', 'c'], models: [], from: '2026-03-01', to: null };
      t.same(await spending(all), ['a  n 1000', 'a k1 m 111', 'b static:1 m 10000']);
      t.same(await spending({ ...all, to: '2026-03-31' }), ['a k1 m 1']);
      t.same(await spending({ ...all, from: '2026-03-31', accounts: ['a'] }), ['a  n 1000', 'a k1 m 110']);
      t.same(await spending({ ...all, accounts: [], models: ['m', 'n', 'x'] }), ['null  m 10111', 'null  n 1000']);
      await t.rejects(ledger.budgets.spending({ ...all, from: "2026' or 1=1" }), refusal('date-invalid'));
      const many = Array.from({ length: 1200 }, (_, at) => `x${at}`);
      t.same(await spending({ ...all, accounts: [...many, 'b'] }), ['b static:1 m 10000']);
    },
  );

  t.test(
    `${name}: an alert is given once in a period, by one of all processes; a changed budget alerts again`,
    async (t) => {
      const { again, ledger } = await openStore(t, name);
      await withKeys(ledger);
      await ledger.budgets.set(budgetOf());
      const ledgers = [ledger, await again(), await again()];
      const alert = { budget: 'b1', threshold: 'soft', startsMs: 5 } as const;
      const event = { type: 'budget.reached', account: 'a', data: {} } as const;
      const given = await Promise.all(ledgers.map((each) => each.budgets.noteAlert(alert, event)));
      t.equal(given.filter(Boolean).length, 1);
      t.equal(await ledger.budgets.noteAlert({ ...alert, threshold: 'hard' }, event), true);
      t.equal(await ledger.budgets.noteAlert({ ...alert, startsMs: 6 }, event), true);
      t.equal(await ledger.budgets.noteAlert({ ...alert, startsMs: 6 }, event), false);
      await ledger.budgets.set(budgetOf({ limit: 2000n }));
      t.equal(await ledger.budgets.noteAlert({ ...alert, startsMs: 6 }, event), true);
      await ledger.webhooks.fanOut((type) => (type === 'budget.reached' ? ['hook'] : []));
      t.equal((await ledger.webhooks.list({})).length, 4, 'one event for each alert');
    },
  );

  t.test(`${name}: a key is edited in place; what is not named stays, and null removes`, async (t) => {
    const { ledger } = await openStore(t, name);
    await withKeys(ledger);
    await ledger.editKey('k1', { limits: { tokensPerMinute: 9, runningRequests: 2 }, label: 'x' });
    t.match(await ledger.findKey('h1'), {
      label: 'x',
      limits: { requestsPerMinute: 5, tokensPerMinute: 9, runningRequests: 2 },
    });
    const edited = await ledger.editKey('k1', { limits: { requestsPerMinute: null }, expiresMs: null });
    t.strictSame(edited.limits, { tokensPerMinute: 9, runningRequests: 2 });
    t.equal(edited.expiresMs, null);
    t.strictSame((await ledger.findKey('h1'))?.limits, edited.limits);
    await t.rejects(ledger.editKey('nothing', {}), refusal('key-unknown'));
  });
}

t.test('postgres: what is read every 5 s uses the indexes of days', async (t) => {
  const { url } = await openStore(t, 'postgres');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.teardown(() => client.end());
  const columns =
    'account, key_id, model, day, requests, estimated, input_tokens, cached_tokens, output_tokens, amount, payer';
  await client.query(
    `insert into accounts (id, label, created_ms, balance, held) select 'a' || i, '', 0, 0, 0 from generate_series(1, 2000) i`,
  );
  await client.query(`insert into usage_daily (${columns})
    select 'a' || a, '', 'm' || m, to_char(date '2026-01-01' + d, 'YYYY-MM-DD'), 1, 0, 1, 0, 1, 1, 'a' || a
    from generate_series(1, 2000) a, generate_series(1, 2) m, generate_series(0, 24) d`);
  await client.query('analyze usage_daily');
  const plan = async (where: string): Promise<string> => {
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `explain select sum(amount) from usage_daily where ${where}`,
    );
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  };
  t.match(await plan("account = any(array['a5', 'a7']) and day >= '2026-01-24'"), /usage_daily_of_account/);
  t.match(await plan("model = any(array['m1']) and day >= '2026-01-25'"), /usage_daily_of_(model|day)/);
});
