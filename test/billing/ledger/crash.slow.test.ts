// Killed at any point and started again, until it gets through: what was promised is there, nothing is there twice.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import { chargeId, chargeNumber } from '../../../src/billing/ledger/charges.ts';
import { type CommitStep, openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { chargeOf, LANES, NOW_MS, PRICE, ROUNDS } from './crash-plan.ts';
import { emptyStore, START_MS, STORES } from './stores.ts';
import { COMPILE_CACHE } from '../../support/compile-cache.ts';

const CHILD = fileURLToPath(new URL('crash-child.js', import.meta.url));

/** Where the process dies: at a step of its nth commit, or when its nth line was read. */
type Cut = { readonly step: CommitStep; readonly passes: number } | { readonly lines: number };

const STEPS: readonly CommitStep[] = ['begun', 'loaded', 'written', 'committed'];

/** Every step of early and later commits, and some points that nobody chose. */
const CUTS: readonly Cut[] = [
  ...[0, 1, 2, 3, 5, 8, 13].flatMap((passes) => STEPS.map((step) => ({ step, passes }))),
  ...[1, 2, 7, 19, 40, 61].map((lines) => ({ lines })),
];

interface Life {
  readonly lines: string[];
  readonly finished: boolean;
}

async function live(url: string, cut: Cut | undefined): Promise<Life> {
  const args = cut !== undefined && 'step' in cut ? [cut.step, `${cut.passes}`] : [];
  const child = spawn(process.execPath, [CHILD, url, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: COMPILE_CACHE,
  });
  const exit = once(child, 'exit');
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (cut !== undefined && 'lines' in cut && lines.length === cut.lines) child.kill('SIGKILL');
  }
  const [code, signal] = (await exit) as [number | null, string | null];
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`The process failed: ${code} ${signal}`);
  return { lines, finished: lines.at(-1) === 'finished' };
}

async function look<T>(url: string, work: (ledger: Ledger) => Promise<T>): Promise<T> {
  const ledger = await openLedger(url, { clock: systemClock, dateMs: () => 1 });
  try {
    return await work(ledger);
  } finally {
    await ledger.close();
  }
}

/** What had been promised before the process died, looked up in what it left. */
async function broken(ledger: Ledger, promises: ReadonlySet<string>): Promise<string[]> {
  const charged = new Set<string>();
  for (let lane = 0; lane < LANES; lane++) {
    const history = await ledger.history({ account: `lane-${lane}`, limit: 1000 });
    for (const { id } of history) charged.add(id);
  }
  const kept = (promise: string): boolean => {
    const [what, id] = promise.split(' ');
    if (what === 'bought') return charged.has(`payment:${id}`);
    if (what === 'settled') return charged.has(chargeId(NOW_MS, chargeNumber(`settle:${id}`)));
    return what !== 'charged' || charged.has(chargeId(START_MS, chargeNumber(`${id}-charge`)));
  };
  return [...promises].filter((promise) => !kept(promise));
}

for (const name of STORES) {
  t.test(`${name}: killed at ${CUTS.length} points, nothing bought is lost and nothing is charged twice`, async (t) => {
    const promises = new Set<string>();
    const reserved: string[] = [];
    let kills = 0;
    let url = await emptyStore(t, name);
    const complete = async (): Promise<void> => {
      t.equal((await live(url, undefined)).finished, true, 'in the end it gets through');
      await look(url, async (ledger) => {
        t.match(await ledger.audit(), { sound: true, sum: 0n, problems: [] });
        for (let lane = 0; lane < LANES; lane++) {
          let worth = 0n;
          for (let round = 0; round < ROUNDS; round++) worth += PRICE - 2n * chargeOf(lane, round);
          const account = await ledger.account(`lane-${lane}`);
          t.equal((account?.balance ?? 0n) + (account?.held ?? 0n), worth, 'every purchase and every charge once');
        }
        t.same(await ledger.paymentsIn('reserved'), []);
        t.same(await ledger.paymentsIn('submitted'), []);
      });
    };
    for (const cut of CUTS) {
      const { lines, finished } = await live(url, cut);
      for (const line of lines) promises.add(line);
      reserved.push(...lines.filter((line) => line.startsWith('reserved')));
      promises.delete('finished');
      if (!finished) kills++;
      await look(url, async (ledger) => {
        const { problems } = await ledger.audit();
        const lost = await broken(ledger, promises);
        if (problems.length > 0 || lost.length > 0) t.fail(JSON.stringify(cut), { problems, lost });
      });
      if (!finished) continue;
      // It got past its cut: from here on a new store dies.
      await complete();
      t.equal(new Set(reserved).size, reserved.length, 'no nonce was given out twice');
      url = await emptyStore(t, name);
      promises.clear();
      reserved.length = 0;
    }
    await complete();
    t.equal(new Set(reserved).size, reserved.length, 'no nonce was given out twice');
    t.ok(kills >= CUTS.length * 0.8, `${kills} of ${CUTS.length} cuts killed the process`);
  });
}
