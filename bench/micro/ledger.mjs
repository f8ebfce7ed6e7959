// Micro benchmark of the ledger on SQLite and PostgreSQL: settlements per second of charges against leases, with many concurrent
// callers that each wait for their own durable commit. Run after a build: node bench/micro/ledger.mjs [callers] [settlements].
// PostgreSQL is a temporary cluster on this machine, or the server that HEADRACE_TEST_POSTGRES names.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLedger } from '../../dist/src/billing/ledger/ledger.js';
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
      await ledger.charge([{ lease: `lease-${at % ACCOUNTS}`, id: `charge-${at}`, amount: 123_456_789n, usage }]);
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
    const lease = { id: `lease-${at}`, account: `a${at}`, amount, holder: 'bench', expiresMs: 1e15 };
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
    `${(SETTLEMENTS / seconds).toFixed(0)} settlements/s`,
    `${(commits / seconds).toFixed(0)} commits/s`,
    `${((user + system) / SETTLEMENTS).toFixed(1)} us CPU a settlement`,
    `wait p50 ${percentile(waits, 0.5)} ms, p99 ${percentile(waits, 0.99)} ms`,
    `audit ${sound ? 'sound' : 'UNSOUND'} in ${audited.toFixed(2)} s`,
  ];
  console.log(`${name}, ${CALLERS} callers | ${figures.join(' | ')}`);
  await ledger.close();
}
rmSync(folder, { recursive: true });
