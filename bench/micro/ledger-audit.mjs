// Makes many charges in SQL (10 million by default, over three months) and measures a full audit and an incremental one, and how
// long commits take meanwhile. Run after a build: node bench/micro/ledger-audit.mjs [charges] [sqlite|postgres].
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../dist/src/actor/clock.js';
import { openLedger } from '../../dist/src/billing/ledger/open-ledger.js';
import { postgresDatabase } from '../../dist/test/support/postgres.js';
import { chargeLive, makeCharges } from '../lib/ledger-charges.mjs';

const CHARGES = Number(process.argv[2] ?? 10_000_000);
const STORES = process.argv[3] === undefined ? ['sqlite', 'postgres'] : [process.argv[3]];

const percentile = (waits, share) => waits.sort((a, b) => a - b)[Math.floor((waits.length - 1) * share)]?.toFixed(1);

for (const name of STORES) {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const url = name === 'sqlite' ? `sqlite:${join(folder, 'ledger.db')}` : await postgresDatabase();
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => Date.now() });
  const seconds = await makeCharges(name, url, ledger, CHARGES);
  console.log(`${name} | ${CHARGES} charges made in ${seconds.toFixed(1)} s`);
  for (const full of [true, false]) {
    const waits = [];
    let auditing = true;
    const audited = ledger.audit({ full }).finally(() => (auditing = false));
    const start = performance.now();
    const commit = async () => {
      for (let at = 0; auditing; at++) {
        const from = performance.now();
        await chargeLive(ledger, `${full}-${at}`, Date.now());
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
