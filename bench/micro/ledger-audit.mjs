// Makes many charges in SQL (10 million by default, over three months) and measures a full audit and an incremental one, and how
// long commits take meanwhile. Run after a build: node bench/micro/ledger-audit.mjs [charges] [sqlite|postgres].
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../dist/src/actor/clock.js';
import { openLedger } from '../../dist/src/billing/ledger/ledger.js';
import { execute } from '../../dist/test/billing/ledger/stores.js';
import { postgresDatabase } from '../../dist/test/support/postgres.js';

const CHARGES = Number(process.argv[2] ?? 10_000_000);
const STORES = process.argv[3] === undefined ? ['sqlite', 'postgres'] : [process.argv[3]];
const ACCOUNTS = 1000;
const DAYS = 28;
const MONTHS = [0, 1, 2];
const EACH = Math.floor(CHARGES / MONTHS.length);
const DAY_MS = 86_400_000;
const USAGE = { key: 'k', model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
const SUMS = 'requests, estimated, input_tokens, cached_tokens, output_tokens, amount';

const rowsOf = (name, month) => {
  const table = `charges_2026_0${month + 1}`;
  const from = Date.UTC(2026, month, 1);
  const series =
    name === 'postgres'
      ? `generate_series(0, ${EACH - 1}) as s (i)`
      : `(with recursive n (i) as (select 0 union all select i + 1 from n where i < ${EACH - 1}) select i from n) s`;
  const day =
    name === 'postgres'
      ? `to_char(to_timestamp(g.d * 86400) at time zone 'UTC', 'YYYY-MM-DD')`
      : `date(g.d * 86400, 'unixepoch')`;
  const perAccount = Math.ceil(EACH / ACCOUNTS);
  return [
    `insert into ${table} (account, date_ms, id, amount, input_tokens, cached_tokens, output_tokens, member, key, model, price,
     requests, measured) select 1000 + i / ${perAccount},
     ${from} + cast(i % ${perAccount} as bigint) * ${Math.floor((DAYS * DAY_MS) / perAccount)}, i, 1000000 + i % 97, 900, 100, 300, 0,
     2000 + i % 3, 2010 + i % 4, 0, 1, 1 from ${series}`,
    `insert into usage_daily (account, key_id, model, day, payer, ${SUMS})
     select a.name, k.name, m.name, ${day}, a.name, g.r, 0, g.i, g.c, g.o, g.s from (
       select account, key, model, date_ms / ${DAY_MS} as d, sum(requests) as r, sum(input_tokens) as i, sum(cached_tokens) as c,
       sum(output_tokens) as o, sum(amount) as s from ${table} where id < ${EACH} and account >= 1000 group by 1, 2, 3, 4) g
     join names a on a.num = g.account join names k on k.num = g.key join names m on m.num = g.model`,
  ];
};

const namesOf = (name) => {
  const numbers = [...Array(ACCOUNTS).keys()].map((at) => `(${1000 + at}, 'a${at}')`);
  const others = ['k0', 'k1', 'k2'].map((key, at) => `(${2000 + at}, '${key}')`);
  const models = ['m0', 'm1', 'm2', 'm3'].map((model, at) => `(${2010 + at}, '${model}')`);
  const accounts = [...Array(ACCOUNTS).keys()].map((at) => `('a${at}', '', 0, 0, 0)`);
  return [
    `insert into names (num, name) values ${[...numbers, ...others, ...models].join(', ')}`,
    `insert into accounts (id, label, created_ms, balance, held) values ${accounts.join(', ')}`,
    ...MONTHS.flatMap((month) => rowsOf(name, month)),
    'create table sums as select payer, sum(amount) as total from usage_daily group by payer',
    'create index sums_of_payer on sums (payer)',
    "update accounts set balance = -(select total from sums where payer = accounts.id) where id in (select payer from sums) and id <> 'live'",
    'drop table sums',
    'analyze',
  ];
};

const percentile = (waits, share) => waits.sort((a, b) => a - b)[Math.floor((waits.length - 1) * share)]?.toFixed(1);

for (const name of STORES) {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const url = name === 'sqlite' ? `sqlite:${join(folder, 'ledger.db')}` : await postgresDatabase();
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => Date.now() });
  const charge = (id, dateMs) => ledger.charge([{ id, account: 'live', amount: 1n, usage: USAGE, dateMs }]);
  for (const month of MONTHS) await charge('first', Date.UTC(2026, month, 1));
  const began = performance.now();
  for (const sql of namesOf(name)) await execute(name, url, sql);
  console.log(`${name} | ${CHARGES} charges made in ${((performance.now() - began) / 1000).toFixed(1)} s`);
  for (const full of [true, false]) {
    const waits = [];
    let auditing = true;
    const audited = ledger.audit({ full }).finally(() => (auditing = false));
    const start = performance.now();
    const commit = async () => {
      for (let at = 0; auditing; at++) {
        const from = performance.now();
        await charge(`${full}-${at}`, Date.now());
        waits.push(performance.now() - from);
      }
    };
    await commit();
    const { movements, problems, sound } = await audited;
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(
      `${name} | ${full ? 'full' : 'incremental'} audit of ${movements} movements ${sound ? 'sound' : problems[0]} in ${seconds} s |`,
      `${waits.length} commits meanwhile, p50 ${percentile(waits, 0.5)} ms, p99 ${percentile(waits, 0.99)} ms`,
    );
  }
  await ledger.close();
  rmSync(folder, { recursive: true });
}
