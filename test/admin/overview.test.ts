// What one document costs: with thousands of models and servers, not more than a few readings of each number.

import type { IncomingMessage, ServerResponse } from 'node:http';
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
    ...{ cluster: null, discovery: [] },
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

t.test(
  'a wall clock that is set back neither keeps an old document nor shortens the time since the start',
  async (t) => {
    const clock = createManualClock(5000);
    let [dateMs, stage] = [Date.UTC(2026, 10, 22), 'starting'];
    const parts = {
      ...{ crns: [], caches: [], planes: [], ejectedUntilMs: new Map(), kvEvents: new Map(), engines: [], pages: [] },
      ...{ accounts: null, responses: [], cluster: null, discovery: [] },
    };
    const routes = new OverviewRoutes({
      ...{ version: '1', tokens: { any: false }, clock, epochMs: () => dateMs, startedMs: 1000, publicUrl: () => null },
      parts: async () => ({ ...parts, stage }),
      ...{ history: { take: () => {}, recent: () => NO_FIGURES }, spentOn: async () => null, reload: null },
    } as unknown as OverviewRoutesOptions);
    const read = (): Promise<Record<string, unknown>> =>
      new Promise((resolve) => {
        const res = {
          writeHead: () => res,
          end: (body: string) => resolve(JSON.parse(body) as Record<string, unknown>),
        } as unknown as ServerResponse;
        routes.answer({ method: 'GET', headers: {} } as IncomingMessage, res, '/overview');
      });
    t.match(await read(), { dateMs, uptimeMs: 4000, stage: 'starting' });
    dateMs -= 3_600_000;
    stage = 'ready';
    clock.advance(2000);
    t.match(await read(), { dateMs, uptimeMs: 6000, stage: 'ready' });
  },
);
