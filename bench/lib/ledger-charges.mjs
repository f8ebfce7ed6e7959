// Makes a ledger with many charges in SQL: over three months, a thousand accounts, three keys and four models, with the sums of
// usage and the balances that belong to them, so that every audit finds it sound.

import { execute } from '../../dist/test/billing/ledger/stores.js';

const ACCOUNTS = 1000;
const DAYS = 28;
const MONTHS = [0, 1, 2];
const DAY_MS = 86_400_000;
const USAGE = { key: 'k', model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
const SUMS = 'requests, estimated, input_tokens, cached_tokens, output_tokens, amount';

/** Charges the account `live`, which is none of the thousand. */
export function chargeLive(ledger, id, dateMs) {
  return ledger.charge([{ id, account: 'live', amount: 1n, usage: USAGE, dateMs }]);
}

/** Numbers from 0 to `count` - 1 as the column `i` of `s`. */
function series(store, count) {
  return store === 'postgres'
    ? `generate_series(0, ${count - 1}) as s (i)`
    : `(with recursive n (i) as (select 0 union all select i + 1 from n where i < ${count - 1}) select i from n) s`;
}

function chargesOf(store, month, count) {
  const table = `charges_2026_0${month + 1}`;
  const from = Date.UTC(2026, month, 1);
  const day =
    store === 'postgres'
      ? `to_char(to_timestamp(g.d * 86400) at time zone 'UTC', 'YYYY-MM-DD')`
      : `date(g.d * 86400, 'unixepoch')`;
  const perAccount = Math.ceil(count / ACCOUNTS);
  return [
    `insert into ${table} (account, date_ms, id, amount, input_tokens, cached_tokens, output_tokens, member, key, model, price,
     requests, measured) select 1000 + i / ${perAccount},
     ${from} + cast(i % ${perAccount} as bigint) * ${Math.floor((DAYS * DAY_MS) / perAccount)}, i, 1000000 + i % 97, 900, 100, 300, 0,
     2000 + i % 3, 2010 + i % 4, 0, 1, 1 from ${series(store, count)}`,
    `insert into usage_daily (account, key_id, model, day, payer, ${SUMS})
     select a.name, k.name, m.name, ${day}, a.name, g.r, 0, g.i, g.c, g.o, g.s from (
       select account, key, model, date_ms / ${DAY_MS} as d, sum(requests) as r, sum(input_tokens) as i, sum(cached_tokens) as c,
       sum(output_tokens) as o, sum(amount) as s from ${table} where id < ${count} and account >= 1000 group by 1, 2, 3, 4) g
     join names a on a.num = g.account join names k on k.num = g.key join names m on m.num = g.model`,
  ];
}

function statements(store, count) {
  const each = Math.floor(count / MONTHS.length);
  const numbers = [...Array(ACCOUNTS).keys()].map((at) => `(${1000 + at}, 'a${at}')`);
  const others = ['k0', 'k1', 'k2'].map((key, at) => `(${2000 + at}, '${key}')`);
  const models = ['m0', 'm1', 'm2', 'm3'].map((model, at) => `(${2010 + at}, '${model}')`);
  const accounts = [...Array(ACCOUNTS).keys()].map((at) => `('a${at}', '', 0, 0, 0)`);
  return [
    `insert into names (num, name) values ${[...numbers, ...others, ...models].join(', ')}`,
    `insert into accounts (id, label, created_ms, balance, held) values ${accounts.join(', ')}`,
    ...MONTHS.flatMap((month) => chargesOf(store, month, each)),
    'create table sums as select payer, sum(amount) as total from usage_daily group by payer',
    'create index sums_of_payer on sums (payer)',
    "update accounts set balance = -(select total from sums where payer = accounts.id) where id in (select payer from sums) and id <> 'live'",
    'drop table sums',
    'analyze',
  ];
}

/** Fills the empty ledger at `url`; `store` is `sqlite` or `postgres`. Says how many seconds it took. */
export async function makeCharges(store, url, ledger, count) {
  for (const month of MONTHS) await chargeLive(ledger, 'first', Date.UTC(2026, month, 1));
  const began = performance.now();
  for (const sql of statements(store, count)) await execute(store, url, sql);
  return (performance.now() - began) / 1000;
}

/** Adds records of single requests, for reports on them. */
export async function makeRequestRecords(store, url, count) {
  const id =
    store === 'postgres' ? `'req_0' || lpad(i::text, 20, '0')` : `'req_0' || substr('00000000000000000000' || i, -20)`;
  await execute(
    store,
    url,
    `insert into requests (id, date_ms, request_id, account, key_id, endpoint, model, status, code, input_tokens, cached_tokens,
     output_tokens, measured, amount, duration_ms, first_byte_ms) select ${id}, ${Date.UTC(2026, 0, 1)} + i, 'r', 'a0', 'k0',
     '/v1/chat/completions', 'm0', 200, '', 900, 100, 300, 1, 1000000, 1000, 100 from ${series(store, count)}`,
  );
}
