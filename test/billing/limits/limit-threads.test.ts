// Limits over real threads that admit and settle at the same time, and are ended while they do.

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import type { Budget } from '../../../src/billing/limits/budgets.ts';
import type { KeyBounds, LimitCell, LimitMemory } from '../../../src/billing/limits/limit-table.ts';
import { createLimitMemory, LimitTable } from '../../../src/billing/limits/limit-table.ts';
import { EXCESS, FIRST_ROW, type LimitWorkerData, ROW } from './fixtures/limit-layout.ts';

const THREADS = 4;
const CELL: LimitCell = { index: 0, generation: 1 };
const NOW = Date.UTC(2026, 10, 22);
const WITHOUT: KeyBounds = { runningRequests: undefined, requestsPerMinute: undefined, tokensPerMinute: undefined };

const budgetOf = (limit: number): Budget => ({
  ...{ id: 'b', account: 'a', key: null, model: null, period: 'day', limit, soft: null, cell: CELL },
});

interface Threads {
  readonly memory: LimitMemory;
  readonly held: Int32Array;
  readonly start: (thread: number) => Worker;
}

function threadsOf(bounds: KeyBounds, limit: number, attempts: LimitWorkerData['attempts']): Threads {
  // The first row is that of the thread of the test.
  const memory = createLimitMemory(THREADS + 1, 1);
  const held = new Int32Array(new SharedArrayBuffer(4 * (FIRST_ROW + (THREADS + 1) * ROW)));
  const payer = { account: 'a', lineage: 'k', allowance: { cell: CELL, ...bounds } };
  const shared = { memory, payer, budget: budgetOf(limit), nowMs: NOW, held: held.buffer, attempts };
  const start = (thread: number): Worker =>
    new Worker(new URL('fixtures/limit-worker.js', import.meta.url), {
      workerData: { ...shared, thread } satisfies LimitWorkerData,
    });
  return { memory, held, start };
}

const NUMBERS = Array.from({ length: THREADS }, (_, at) => at + 1);

for (const [name, bounds, limit] of [
  ['requests a minute', { ...WITHOUT, requestsPerMinute: 5000 }, 1e9],
  ['tokens a minute', { ...WITHOUT, tokensPerMinute: 5000 }, 1e9],
  ['running requests', { ...WITHOUT, runningRequests: 5000 }, 1e9],
  ['a budget', WITHOUT, 5000],
] as const) {
  t.test(`${name}: of ${THREADS} threads that want more, exactly as many are admitted as the limit says`, async () => {
    const { start } = threadsOf(bounds, limit, 10_000);
    const workers = NUMBERS.map(start);
    const admitted = await Promise.all(workers.map(async (worker) => ((await once(worker, 'message')) as [number])[0]));
    t.equal(
      admitted.reduce((sum, count) => sum + count, 0),
      5000,
      admitted.join(', '),
    );
    await Promise.all(workers.map((worker) => worker.terminate()));
  });
}

t.test('no limit is exceeded while threads are ended, and what they held returns', async (t) => {
  const KILLS = 16;
  const bounds = { ...WITHOUT, runningRequests: 5, tokensPerMinute: 1000 };
  const { held, memory, start } = threadsOf(bounds, 900, 'churn');
  const control = new LimitTable(memory, 0);
  let kills = 0;
  const live = async (thread: number): Promise<void> => {
    while (kills < KILLS) {
      const worker = start(thread);
      for (let rounds = 1 + (kills % 3); rounds > 0; rounds--) await once(worker, 'message');
      await worker.terminate();
      kills++;
      held.fill(0, FIRST_ROW + thread * ROW, FIRST_ROW + (thread + 1) * ROW);
      control.clearThread(thread);
    }
  };
  await Promise.all(NUMBERS.map(live));
  t.equal(held[EXCESS], 0, 'what all threads held was never more than a limit');
  t.ok(kills >= KILLS);
  for (let running = 0; running < bounds.runningRequests; running++) {
    const tokens = running === 0 ? bounds.tokensPerMinute : 0;
    t.equal(control.admitKey(CELL, bounds, tokens, tokens, NOW), 'admitted', `request ${running}`);
  }
  t.equal(control.admitKey(CELL, bounds, 0, 0, NOW), 'running');
  t.equal(control.admitBudget(CELL, 900, 900, 900, Math.floor(NOW / 86_400_000)), 'admitted');
});
