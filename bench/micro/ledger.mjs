// Micro benchmark of the ledger on SQLite and PostgreSQL: charges per second against leases, with many concurrent
// callers that each wait for their own durable commit, beside a plain loop of one INSERT of the same row in each commit and one of
// as many in each commit as the ledger takes. Run after a build: node bench/micro/ledger.mjs [callers] [settlements].
// PostgreSQL is a temporary cluster on this machine, or the server that HEADRACE_TEST_POSTGRES names.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { openLedger } from '../../dist/src/billing/ledger/open-ledger.js';
import { systemClock } from '../../dist/src/actor/clock.js';
import { postgresDatabase } from '../../dist/test/support/postgres.js';

const CALLERS = Number(process.argv[2] ?? 1000);
const SETTLEMENTS = Number(process.argv[3] ?? 50_000);
const ACCOUNTS = 100;

const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
const STORES = { sqlite: `sqlite:${join(folder, 'ledger.db')}`, postgres: await postgresDatabase() };
const usage = { key: 'k', model: 'm', inputTokens: 900, cachedTokens: 100, outputTokens: 300, measured: true };

const percentile = (sorted, share) => sorted[Math.floor((sorted.length - 1) * share)].toFixed(1);

async function settleAll(ledger) {
  const waits = [];
  let next = 0;
  const caller = async () => {
    while (next < SETTLEMENTS) {
      const at = next++;
      const began = performance.now();
      const account = `a${at % ACCOUNTS}`;
      const charge = { account, lease: `lease-${at % ACCOUNTS}`, id: `charge-${at}`, amount: 123_456_789n, usage };
      await ledger.charge([{ ...charge, dateMs: Date.now() }]);
      waits.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return waits.sort((a, b) => a - b);
}

for (const [name, url] of Object.entries(STORES)) {
  let commits = 0;
  const onStep = (step) => (commits += step === 'committed' ? 1 : 0);
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => Date.now(), onStep });
  const amount = 10n ** 15n;
  const lend = async (_, at) => {
    await ledger.createAccount({ id: `a${at}` });
    await ledger.grant({ id: `${at}`, account: `a${at}`, amount });
    const lease = { id: `lease-${at}`, account: `a${at}`, amount, holder: 'bench', ttlMs: 1e12 };
    await ledger.lease(lease);
  };
  await Promise.all(Array.from({ length: ACCOUNTS }, lend));
  commits = 0;
  const cpu = process.cpuUsage();
  const began = performance.now();
  const waits = await settleAll(ledger);
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const { sound } = await ledger.audit();
  const audited = (performance.now() - began) / 1000 - seconds;
  const figures = [
    `${(SETTLEMENTS / seconds).toFixed(0)} charges/s`,
    `${(commits / seconds).toFixed(0)} commits/s`,
    `${((user + system) / SETTLEMENTS).toFixed(1)} us CPU a charge`,
    `wait p50 ${percentile(waits, 0.5)} ms, p99 ${percentile(waits, 0.99)} ms`,
    `audit ${sound ? 'sound' : 'UNSOUND'} in ${audited.toFixed(2)} s`,
  ];
  console.log(`${name}, ${CALLERS} callers | ${figures.join(' | ')}`);
  await ledger.close();
}
/** The row of a charge and nothing else: what the database and the disk can do. */
const ROW = 'insert into plain values ($1, $2, $3, 123456789, 900, 100, 300, 0, 1, 2, 0, 1, 1)';
const TABLE = `create table plain (account integer, date_ms bigint, id bigint, amount bigint, input bigint, cached bigint,
  output bigint, member integer, key integer, model integer, price integer, requests integer, measured smallint,
  primary key (account, date_ms, id))`;

let at = 0;

/** Inserts for some seconds, `batch` rows in each commit; rows per second. */
async function plain(run, batch) {
  const began = performance.now();
  const first = at;
  while (performance.now() - began < 3000) {
    await run('begin');
    for (let row = 0; row < batch; row++) await run(ROW, [at % ACCOUNTS, 1_900_000_000_000 + at, at++]);
    await run('commit');
  }
  return (((at - first) / (performance.now() - began)) * 1000).toFixed(0);
}

const file = new DatabaseSync(join(folder, 'plain.db'));
file.exec(`pragma journal_mode = wal; pragma synchronous = full; ${TABLE}`);
const insert = file.prepare(ROW.replaceAll('$', '?'));
const onFile = (sql, values) => (values === undefined ? file.exec(sql) : insert.run(...values));
const client = new pg.Client({ connectionString: STORES.postgres });
await client.connect();
await client.query(TABLE);
const onServer = (text, values) => client.query(values === undefined ? text : { name: 'row', text, values });
for (const { name, run } of [
  { name: 'sqlite', run: onFile },
  { name: 'postgres', run: onServer },
]) {
  console.log(
    `${name}, plain INSERT | ${await plain(run, 1)} rows/s, one a commit | ${await plain(run, 1000)} rows/s, 1000 a commit`,
  );
}
await client.end();
file.close();
rmSync(folder, { recursive: true });
