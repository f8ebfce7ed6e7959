// Sums of what was spent of budgets, out of the rows of the ledger.

import t from 'tap';
import type { BudgetScope } from '../../../src/billing/limits/budgets.ts';
import { sumSpending } from '../../../src/billing/limits/budget-spending.ts';
import type { SpendingRow } from '../../../src/billing/ledger/ledger.ts';

function sums(scopes: readonly BudgetScope[], rows: readonly SpendingRow[]): Promise<Map<BudgetScope, bigint>> {
  return sumSpending(
    scopes,
    async () => [...rows],
    (scope) => ({ ...scope, period: 'month' }),
    () => '2030-01-01',
    null,
  );
}

t.test('a budget counts the rows of its account, key and model', async (t) => {
  const rows = [
    { account: 'a', key: 'k', model: 'm', amount: 1n },
    { account: 'a', key: 'k', model: 'n', amount: 20n },
    { account: 'a', key: '', model: 'm', amount: 300n },
    { account: 'b', key: 'k', model: 'm', amount: 4000n },
    { account: null, key: '', model: 'm', amount: 50_000n },
  ];
  const scopes = [
    { account: 'a', key: null, model: null },
    { account: 'a', key: 'k', model: null },
    { account: 'a', key: null, model: 'm' },
    { account: 'a', key: 'k', model: 'n' },
    { account: 'b', key: null, model: 'n' },
    { account: null, key: null, model: 'm' },
  ];
  t.strictSame([...(await sums(scopes, rows)).values()], [321n, 21n, 301n, 20n, 0n, 50_000n]);
});

t.test('the rows of an account are read once, however many of its keys have budgets', async (t) => {
  let reads = 0;
  const rows = Array.from({ length: 1000 }, (_, at) => ({
    account: 'a',
    get key() {
      reads++;
      return `k${at}`;
    },
    model: 'm',
    amount: BigInt(at),
  }));
  const scopes = rows.map((_, at) => ({ account: 'a', key: `k${at}`, model: null }));
  t.equal((await sums(scopes, rows)).get(scopes[7] as BudgetScope), 7n);
  t.equal(reads, 1000);
});
