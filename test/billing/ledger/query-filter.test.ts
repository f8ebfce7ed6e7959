// Queries with optional conditions.

import t from 'tap';
import { pageRows, QueryFilter } from '../../../src/billing/ledger/query-filter.ts';

t.test('names parameters in the order in which they were added', async (t) => {
  const filter = new QueryFilter();
  filter.compare('account =', 'a');
  filter.compare('model =', undefined);
  filter.add('key_id is null');
  const cursor = filter.param('c');
  filter.add(`(day, id) > (${cursor}, ${filter.param(7n)})`);
  t.equal(filter.where, 'where account = $1 and key_id is null and (day, id) > ($2, $3)');
  t.equal(filter.limit(10), 'limit $4');
  t.same(filter.params, ['a', 'c', 7n, 10n]);
});

t.test('is empty without conditions and limit', async (t) => {
  const filter = new QueryFilter();
  t.equal(filter.where, '');
  t.equal(filter.limit(undefined), '');
  t.same(filter.params, []);
});

t.test('a page has 1 to 1,000 rows, 50 by default', async (t) => {
  t.same([undefined, 0, -3, 2.9, 1000, 1001].map(pageRows), [50, 1, 1, 2, 1000, 1000]);
});
