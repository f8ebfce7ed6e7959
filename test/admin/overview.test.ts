// What one document costs: with thousands of models and servers, not more than a few readings of each number.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { OverviewRoutes, type OverviewRoutesOptions } from '../../src/admin/overview-routes.ts';
import { buildOverview, type OverviewParts } from '../../src/admin/overview.ts';
import type { RecentFigures } from '../../src/admin/history.ts';
import { NO_FIGURES } from '../support/metric-values.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { ValueFamily } from '../../src/telemetry/series.ts';

const CHAT = '/v1/chat/completions';
const MODELS = 300;

/** Counts how often labels are read. */
class Reads {
  count = 0;

  of(family: ValueFamily): ValueFamily {
    const note = (): number => this.count++;
    const values = family.values.map(({ labels, value }) => ({
      value,
      get labels() {
        note();
        return labels;
      },
    }));
    return { ...family, values };
  }
}

t.test('a number is read a few times, however many models and servers there are', async (t) => {
  const metrics = new Metrics();
  const reads = new Reads();
  const names = Array.from({ length: MODELS }, (_, at) => ({ model: `m${at}`, url: `http://${at}` }));
  for (const { model, url } of names) {
    const cells = metrics.of(CHAT, model);
    cells.count(200, '');
    cells.count(503, '');
    cells.countTokens(30, 20, 10);
    metrics.attempt(url, 'ok', '');
    metrics.attempt(url, 'failed', 'status');
    metrics.prompt(url, model, 10, 20);
  }
  const families = metrics.snapshot();
  const parts = {
    stage: 'serving',
    crns: names.map(({ model, url }) => ({
      ...{ model, url, standing: 'up', inFlight: 0, firstByteMs: 1, dialects: null, lacks: [], lastProbe: null },
    })),
    caches: names.map(({ model, url }) => ({ crn: url, model, backlogBytes: 5, capacityBytes: 7, bytesPerS: 9 })),
    planes: [
      {
        thread: 1,
        metrics: families.map((family) => (family.type === 'histogram' ? family : reads.of(family))),
        recent: { failovers: [['http://7', 3]], crnFailures: [], errors: [], troubles: [] },
      },
    ],
    ...{ ejectedUntilMs: new Map(), kvEvents: new Map(), engines: [], pages: [], accounts: null, responses: [] },
    ...{ cluster: null, discovery: [], kept: [] },
  } as unknown as OverviewParts;
  const overview = buildOverview(parts, {
    ...{ dateMs: 1, uptimeMs: 1, version: '1', orders: false, publicUrl: null, reloadable: false, spentTodayUsd: null },
    recent: () => ({}) as RecentFigures,
  });
  t.match(overview.models.at(-1), {
    ...{ model: `m${MODELS - 1}`, requests: 2, errors: 1, tokens: { input: 30, cached: 20, output: 10 } },
    ...{ promptBytes: 30, predictedBytes: 10 },
  });
  t.match(overview.crns[7], {
    ...{ url: 'http://7', attempts: 2, failures: 1, failovers: 3, backlogBytes: 5, predictedHit: 1 / 3 },
    models: [{ model: 'm7', capacityBytes: 7, bytesPerS: 9 }],
  });
  const numbers = families.reduce((sum, { values }) => sum + values.length, 0);
  t.ok(reads.count < 10 * numbers, `${reads.count} readings of ${numbers} numbers`);
});

/** Routes of a gateway without any traffic. */
function routesOf(
  clock: ReturnType<typeof createManualClock>,
  more: Partial<OverviewRoutesOptions>,
  stage: () => string = () => 'ready',
): { readonly read: () => Promise<Record<string, unknown>> } {
  const parts = {
    ...{
      crns: [],
      caches: [],
      planes: [],
      kept: [],
      ejectedUntilMs: new Map(),
      kvEvents: new Map(),
      engines: [],
      pages: [],
    },
    ...{ accounts: [], responses: [], cluster: null, discovery: [] },
  };
  const routes = new OverviewRoutes({
    ...{ version: '1', tokens: { any: false }, clock, startedMs: 1000, publicUrl: () => null },
    ...{ epochMs: () => Date.UTC(2026, 10, 22), parts: async () => ({ ...parts, stage: stage() }) },
    ...{ history: { take: () => {}, recent: () => NO_FIGURES }, spentOn: async () => null, reload: null },
    ...more,
  } as unknown as OverviewRoutesOptions);
  const read = (): Promise<Record<string, unknown>> =>
    new Promise((resolve) => {
      const res = {
        writeHead: () => res,
        end: (body: string) => resolve(JSON.parse(body) as Record<string, unknown>),
      } as unknown as ServerResponse;
      routes.answer({ method: 'GET', headers: {} } as IncomingMessage, res, '/overview');
    });
  return { read };
}

t.test(
  'a wall clock that is set back neither keeps an old document nor shortens the time since the start',
  async (t) => {
    const clock = createManualClock(5000);
    let [dateMs, stage] = [Date.UTC(2026, 10, 22), 'starting'];
    const { read } = routesOf(clock, { epochMs: () => dateMs }, () => stage);
    t.match(await read(), { dateMs, uptimeMs: 4000, stage: 'starting' });
    dateMs -= 3_600_000;
    stage = 'ready';
    clock.advance(2000);
    t.match(await read(), { dateMs, uptimeMs: 6000, stage: 'ready' });
  },
);

t.test('a ledger that does not answer holds no document up, and is asked once', async (t) => {
  const clock = createManualClock(5000);
  const asked: PromiseWithResolvers<string | null>[] = [];
  const { read } = routesOf(clock, {
    spentOn: () => {
      const answer = Promise.withResolvers<string | null>();
      asked.push(answer);
      return answer.promise;
    },
  });
  const first = read();
  await turn();
  clock.advance(1000);
  t.match(await first, { ledger: { spentTodayUsd: null } });
  for (let i = 0; i < 20; i++) {
    const next = read();
    await turn();
    clock.advance(1000);
    t.match(await next, { ledger: { spentTodayUsd: null } });
  }
  t.equal(asked.length, 1);
  asked[0]?.resolve('1.5');
  await turn();
  clock.advance(1000);
  t.match(await read(), { ledger: { spentTodayUsd: '1.5' } });
  clock.advance(10_000);
  t.match(await read(), { ledger: { spentTodayUsd: '1.5' } }, 'that of before while it is asked again');
  t.equal(asked.length, 2);
});
