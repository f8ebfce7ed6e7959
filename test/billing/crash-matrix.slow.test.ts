// Kills a gateway at each point of its work with credit, on both stores, and counts what was lost: nothing for the customer, whose
// credit is there or was charged for what was delivered; for the operator at most what was delivered and not yet written.
// `TAP_TIMEOUT=1500 node dist/test/billing/crash-matrix.slow.test.js full` tries each point at several of its passes and prints the
// matrix.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { systemClock, systemEpochMs } from '../../src/actor/index.ts';
import type { Ledger } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { GRANT, POINTS } from './crash-points.ts';
import { emptyStore, type StoreName, STORES } from './ledger/stores.ts';
import { COMPILE_CACHE } from '../support/compile-cache.ts';

const CHILD = fileURLToPath(new URL('crash-matrix-child.js', import.meta.url));
const isFull = process.argv.includes('full');
const PASSES = isFull ? [0, 1, 2, 5, 9] : [0];
const POLL_MS = 50;
/** Ten times what it takes. */
const TIMEOUT_MS = 600_000;

interface Victim {
  readonly delivered: bigint;
  readonly died: boolean;
}

async function kill(url: string, point: string, passes: number): Promise<Victim> {
  const child = spawn(process.execPath, [CHILD, url, point, `${passes}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: COMPILE_CACHE,
  });
  const exit = once(child, 'exit');
  let text = '';
  for await (const piece of child.stdout.setEncoding('utf8')) text += String(piece);
  const [code, signal] = (await exit) as [number | null, string | null];
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`The gateway failed at '${point}': ${code} ${signal}`);
  let delivered = 0n;
  for (const [, amount = '0'] of text.matchAll(/^delivered (\d+)$/gm)) delivered += BigInt(amount);
  return { delivered, died: signal === 'SIGKILL' };
}

/** As the next gateway on the store does: what the dead one had leased returns. */
async function expireAll(ledger: Ledger): Promise<void> {
  for (;;) {
    await ledger.expire();
    if ((await ledger.account('a'))?.held === 0n) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Pico-USD that the customer and the operator have lost, over these passes of the point. */
async function lossesAt(
  store: StoreName,
  point: string,
): Promise<{ kills: number; customer: bigint; operator: bigint }> {
  let kills = 0;
  let customer = 0n;
  let operator = 0n;
  for (const passes of PASSES) {
    const cleanups: (() => unknown)[] = [];
    const url = await emptyStore({ teardown: (run: () => unknown) => void cleanups.push(run) } as never, store);
    const ledger = await openLedger(url, { clock: systemClock, dateMs: systemEpochMs });
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: GRANT });
    const { delivered, died } = await kill(url, point, passes);
    if (died) kills++;
    await expireAll(ledger);
    const charged = (await ledger.usage({ account: 'a', by: [] }))[0]?.amount ?? 0n;
    const balance = (await ledger.account('a'))?.balance ?? 0n;
    const report = await ledger.audit();
    if (!report.sound) throw new Error(`${store}, killed at '${point}': ${report.problems.join(' ')}`);
    const overcharged = charged > delivered ? charged - delivered : 0n;
    customer += GRANT - charged - balance + overcharged;
    operator += delivered > charged ? delivered - charged : 0n;
    await ledger.close();
    for (const cleanup of cleanups) cleanup();
  }
  return { kills, customer, operator };
}

for (const store of STORES) {
  t.test(`${store}: wherever a gateway dies, its customers lose nothing`, async (t) => {
    t.setTimeout(TIMEOUT_MS);
    let kills = 0;
    for (const point of POINTS) {
      const losses = await lossesAt(store, point);
      kills += losses.kills;
      t.equal(losses.customer, 0n, point);
      if (isFull)
        t.comment(`${point}: killed ${losses.kills}, customer ${losses.customer}, operator ${losses.operator}`);
    }
    t.ok(kills >= POINTS.length, `killed ${kills} times at ${POINTS.length} points`);
  });
}
