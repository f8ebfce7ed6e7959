// Records of requests on their way into the store.

import t, { type Test } from 'tap';
import { ask, createSystem, type Ref } from '../../src/actor/index.ts';
import type { Ledger } from '../../src/billing/ledger/ledger.ts';
import { type FinishedRecord, costLog, type CostLogCommand } from '../../src/billing/cost-log.ts';
import { openStore, START_MS } from './ledger/stores.ts';

const RECORD: FinishedRecord = {
  dateMs: START_MS,
  requestId: 'request',
  account: 'a',
  key: 'key-1',
  endpoint: '/v1/chat/completions',
  model: 'm',
  status: 200,
  code: '',
  inputTokens: 1,
  cachedTokens: 0,
  outputTokens: 1,
  measured: true,
  cost: 1,
  durationMs: 1,
  firstByteMs: null,
};

function startLog(t: Test, ledger: () => Ledger | null, problems: string[]): Ref<CostLogCommand> {
  const system = createSystem({ name: 'records' });
  t.teardown(() => system.terminate());
  return system.spawn(
    costLog({
      ledger,
      settings: { retentionMs: 86_400_000, rows: 1_000_000 },
      tag: 'tagtag',
      metrics: { recordsDropped: () => problems.push('dropped') },
      onProblem: (error, what) => problems.push(`${what}: ${(error as Error).message}`),
    }),
  );
}

const flush = (log: Ref<CostLogCommand>): Promise<'flushed'> =>
  ask<CostLogCommand, 'flushed'>(log, (replyTo) => ({ type: 'Flush', replyTo }), { timeoutMs: 20_000 });

t.test('a flush writes all that has arrived, also more than one transaction takes', async (t) => {
  const { ledger } = await openStore(t, 'sqlite');
  const problems: string[] = [];
  const log = startLog(t, () => ledger, problems);
  log.tell({ type: 'Record', records: Array.from({ length: 4500 }, () => RECORD) });
  await flush(log);
  let found = 0;
  let before: string | undefined;
  for (;;) {
    const page = await ledger.requests.list({ limit: 1000, ...(before !== undefined && { before }) });
    found += page.length;
    before = page.at(-1)?.id;
    if (page.length < 1000) break;
  }
  t.equal(found, 4500);
  t.same(problems, []);
});

t.test('a flush says what is lost when there is no store', async (t) => {
  const problems: string[] = [];
  const log = startLog(t, () => null, problems);
  log.tell({ type: 'Record', records: [RECORD, RECORD] });
  await flush(log);
  t.same(problems, ['records of requests are lost: 2 of them']);
});
