// The history: steps on the clock, differences of the threads' counts, quantiles of merged histograms, ranges, and memory.

import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/index.ts';
import { type CrnGauges, History, type HistoryDocument, type HistorySample } from '../../src/admin/history.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import type { Log } from '../../src/telemetry/log.ts';
import type { ThreadTotals } from '../../src/telemetry/totals.ts';

/** 12:00:00 of a day. */
const NOON_MS = Date.UTC(2026, 10, 22, 12);
const CHAT = '/v1/chat/completions';

/** A thread with the metrics of a data plane. */
class FakeThread {
  metrics = new Metrics();
  generation = 1;
  inFlight = new Map<string, number>();
  #sequence = 0;
  readonly #thread: number;

  constructor(thread: number) {
    this.#thread = thread;
  }

  /** Requests that took so many seconds. */
  requests(model: string, seconds: readonly number[], status = 200): void {
    const cells = this.metrics.of(CHAT, model);
    for (const each of seconds) {
      cells.count(status, '');
      cells.duration.observe(each);
    }
  }

  totals(): ThreadTotals {
    const { generation, inFlight, metrics } = this;
    const { isLast, ...totals } = metrics.totals(0, inFlight);
    const models = [...totals.models];
    for (let part = 1, last = isLast; !last; part++) {
      const next = metrics.totals(part, inFlight);
      models.push(...next.models);
      last = next.isLast;
    }
    return { thread: this.#thread, generation, sequence: ++this.#sequence, ...totals, models };
  }

  restart(): void {
    this.metrics = new Metrics();
    this.generation++;
    this.#sequence = 0;
  }
}

interface Fixture {
  readonly history: History;
  readonly clock: ManualClock;
  readonly threads: readonly FakeThread[];
  readonly warnings: unknown[];
  sample: () => Promise<HistorySample>;
  models: string[];
  crns: CrnGauges[];
  /** What the wall clock is ahead of `clock`. */
  readonly wall: { offsetMs: number };
  /** Advances to the end of so many steps of 5 s. */
  steps: (count: number) => Promise<void>;
  read: (range: '15m' | '1h' | '6h' | '24h', of?: { model: string } | { crn: string }) => HistoryDocument;
}

/** `startMs`: time since noon. */
function start(startMs = 0, threadCount = 1): Fixture {
  const clock = createManualClock(7000);
  const threads = Array.from({ length: threadCount }, (_, thread) => new FakeThread(thread));
  const warnings: unknown[] = [];
  const wall = { offsetMs: NOON_MS + startMs - 7000 };
  const fixture: Fixture = {
    clock,
    threads,
    warnings,
    models: ['m'],
    crns: [],
    wall,
    sample: async () => ({
      threads: threads.map((thread) => thread.totals()),
      models: fixture.models,
      crns: fixture.crns,
    }),
    history: new History({
      clock,
      epochMs: () => clock.now() + wall.offsetMs,
      sample: () => fixture.sample(),
      log: { warn: (...said: unknown[]) => warnings.push(said) } as unknown as Log,
    }),
    steps: async (count) => {
      for (let step = 0; step < count; step++) {
        clock.advance(clock.nextDueMs - clock.now());
        await settled();
      }
    },
    read: (range, of) => {
      const document = fixture.history.read(range, of ?? null);
      if (document === null) throw new Error('no history');
      return document;
    },
  };
  fixture.history.start();
  return fixture;
}

/** A step is over when its sample has been taken. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
}

t.test('steps end at multiples of 5 s of the wall clock and have rates of their time', async (t) => {
  const { clock, history, read, steps, threads } = start(12_000);
  const [thread] = threads as [FakeThread];
  t.same(read('1h', { model: 'm' }).dateMs, [], 'nothing is known of any name before the first sample');
  thread.requests('m', [0.1, 0.1, 0.1]);
  await steps(1);
  t.equal(clock.now(), 7000 + 3000, 'the first step is short');
  thread.requests('m', [0.1, 0.1]);
  thread.requests('m', [0.1], 503);
  await steps(2);
  const { dateMs, fromMs, series, stepMs } = read('15m');
  t.equal(stepMs, 5000);
  t.equal(fromMs, NOON_MS + 25_000 - 900_000);
  t.same(
    dateMs,
    [15_000, 20_000, 25_000].map((ms) => NOON_MS + ms),
  );
  t.same(series['requestsPerS'], [1, 0.6, 0]);
  t.same(series['errorsPerS'], [0, 0.2, 0]);
  t.same(read('1h', { model: 'm' }).series, series);
  t.equal(history.read('1h', { model: 'x' }), null);
  t.equal(history.read('1h', { crn: 'http://x' }), null);
  history.close();
  t.equal(clock.nextDueMs, Infinity);
});

t.test('quantiles of a point are of all threads and of its time alone, also of a minute', async (t) => {
  const { history, read, steps, threads } = start(0, 2);
  const [first, second] = threads as [FakeThread, FakeThread];
  first.requests(
    'm',
    Array.from({ length: 90 }, () => 0.1),
  );
  second.requests(
    'm',
    Array.from({ length: 10 }, () => 1),
  );
  await steps(1);
  first.requests('m', [8]);
  await steps(11);
  const { series } = read('15m');
  const close = (value: number | null | undefined, exact: number, why: string): void => {
    t.ok(Math.abs((value ?? 0) / exact - 1) < 0.045, `${why}: ${value}`);
  };
  close(series['latencyP50Ms']?.[0], 100, 'median');
  close(series['latencyP95Ms']?.[0], 1000, 'the slow tenth is of another thread');
  close(series['latencyP50Ms']?.[1], 8000, 'nothing of the step before');
  t.same(series['latencyP99Ms']?.slice(2), Array(10).fill(null));
  const day = read('24h');
  t.same([day.stepMs, day.dateMs], [60_000, [NOON_MS + 60_000]]);
  close(day.series['latencyP50Ms']?.[0], 100, 'median of the minute');
  close(day.series['latencyP95Ms']?.[0], 1000, 'not an average');
  t.same(day.series['requestsPerS'], [1.68]);
  t.same(read('6h').series, day.series);
  history.close();
});

t.test('the gateway has the requests of all models; its quantiles leave out those that name none', async (t) => {
  const { history, read, steps, threads } = start();
  const [thread] = threads as [FakeThread];
  thread.requests('m', [1]);
  thread.requests(
    '',
    Array.from({ length: 99 }, () => 0.001),
  );
  thread.inFlight.set('m', 7);
  await steps(1);
  t.match(read('15m').series, { requestsPerS: [20], inFlight: [7] });
  t.ok((read('15m').series['latencyP50Ms']?.[0] ?? 0) > 950);
  t.ok((read('15m', { model: '' }).series['latencyP99Ms']?.[0] ?? 9) < 1.1);
  history.close();
});

t.test('a thread that does not answer is counted when it does, one that was restarted from 0', async (t) => {
  const fixture = start(0, 2);
  const { history, read, steps, threads } = fixture;
  const [first, second] = threads as [FakeThread, FakeThread];
  const all = fixture.sample;
  first.requests('m', [0.1]);
  second.requests('m', [0.1, 0.1]);
  second.inFlight.set('m', 3);
  await steps(1);
  fixture.sample = async () => ({ ...(await all()), threads: [first.totals()] });
  second.requests('m', [0.1, 0.1, 0.1, 0.1]);
  await steps(1);
  fixture.sample = all;
  await steps(1);
  second.restart();
  second.inFlight.clear();
  second.requests('m', [0.1]);
  await steps(1);
  t.same(read('15m').series['requestsPerS'], [0.6, 0, 0.8, 0.2]);
  t.same(read('15m').series['inFlight'], [3, 3, 3, 0], 'as of its last answer');
  const stale = second.totals();
  second.requests('m', [0.1]);
  history.take([second.totals()]);
  history.take([stale]);
  await steps(1);
  t.equal(read('15m').series['requestsPerS']?.at(-1), 0.2, 'a report that comes late counts nothing twice');
  history.close();
});

t.test('a model and a CRN that were dropped and have come back within a step are counted from 0', async (t) => {
  const fixture = start();
  const { history, read, steps, threads } = fixture;
  const [thread] = threads as [FakeThread];
  fixture.crns = [{ crn: 'http://a', inFlight: 0, firstByteMs: 0, backlogBytes: 0 }];
  thread.requests('m', new Array<number>(100).fill(0.1));
  for (let i = 0; i < 100; i++) thread.metrics.attempt('http://a', 'ok', '');
  await steps(1);
  const nobody = { crns: new Set<string>(), models: new Set<string>() };
  for (const nowMs of [0, 300_000]) thread.metrics.keep(nobody, nowMs);
  thread.requests('m', [0.2, 0.2]);
  thread.metrics.attempt('http://a', 'ok', '');
  await steps(1);
  t.same(read('15m', { model: 'm' }).series['requestsPerS'], [20, 0.4]);
  t.same(read('15m').series['requestsPerS'], [20, 0.4]);
  t.ok((read('15m', { model: 'm' }).series['latencyP50Ms']?.[1] ?? 0) > 150);
  t.same(read('15m', { crn: 'http://a' }).series['attemptsPerS'], [20, 0.2]);
  t.equal(history.recent('m').requestsPerS, 10.2);
  history.close();
});

t.test('a step that cannot be read is left out, and so is the time of a suspended process', async (t) => {
  const fixture = start();
  const { clock, history, read, steps, threads, wall, warnings } = fixture;
  const [thread] = threads as [FakeThread];
  const all = fixture.sample;
  await steps(1);
  fixture.sample = () => Promise.reject(new Error('no reading'));
  thread.requests('m', [0.1, 0.1]);
  await steps(1);
  t.match(warnings, [[{ problem: 'no reading' }, /could not be read/]]);
  fixture.sample = all;
  await steps(1);
  t.same(read('15m').series['requestsPerS'], [0, null, 0.2], 'its requests are in the next step, of twice the time');
  const late: PromiseWithResolvers<HistorySample> = Promise.withResolvers();
  fixture.sample = () => late.promise;
  await steps(1);
  clock.advance(42_000);
  late.resolve(await all());
  await settled();
  fixture.sample = all;
  await steps(1);
  const { dateMs, series } = read('15m');
  t.equal(clock.now(), 7000 + 65_000, 'the next step ends on a multiple again');
  t.same(dateMs.at(-1), NOON_MS + 65_000);
  t.same(series['requestsPerS'], [0, null, 0.2, 0, ...Array(8).fill(null), 0]);
  wall.offsetMs += 3_600_000;
  t.equal(read('15m').dateMs.at(-1), NOON_MS + 65_000 + 3_600_000, 'dates follow corrections of the clock');
  history.close();
});

t.test('a CRN has rates, shares and gauges; it is forgotten a day after it has gone', async (t) => {
  const fixture = start();
  const { history, read, steps, threads } = fixture;
  const [{ metrics }] = threads as [FakeThread];
  const url = 'http://x';
  fixture.crns = [{ crn: url, inFlight: 2, firstByteMs: 40, backlogBytes: 3000 }];
  metrics.attempt(url, 'ok', '');
  metrics.attempt(url, 'failed', 'reset');
  metrics.prompt(url, 'm', 750, 250);
  metrics.cached(url, 'm', 200, 90, 50);
  await steps(1);
  fixture.crns = [{ crn: url, inFlight: 0, firstByteMs: 40, backlogBytes: 0 }];
  await steps(1);
  t.same(read('15m', { crn: url }).series, {
    attemptsPerS: [0.4, 0],
    failuresPerS: [0.2, 0],
    inFlight: [2, 0],
    firstByteMs: [40, null],
    predictedHit: [0.75, null],
    reportedHit: [0.25, null],
    backlogBytes: [3000, 0],
  });
  fixture.crns = [];
  fixture.models = [];
  await steps(17_280);
  t.not(history.read('24h', { crn: url }), null);
  t.equal(read('1h').dateMs.length, 720);
  t.equal(read('24h').dateMs.length, 1441, 'with the minute that is not over');
  await steps(1);
  t.equal(history.read('24h', { crn: url }), null);
  t.equal(history.read('24h', { model: 'm' }), null);
  history.close();
});

t.test('idle models and CRNs take no memory for points; busy ones a bounded one', async (t) => {
  const fixture = start();
  const { history, steps, threads } = fixture;
  const [{ metrics }] = threads as [FakeThread];
  fixture.models = Array.from({ length: 50 }, (_, at) => `m${at}`);
  fixture.crns = Array.from({ length: 50 }, (_, at) => ({
    ...{ crn: `http://${at}`, inFlight: 0, firstByteMs: at, backlogBytes: 0 },
  }));
  await steps(20);
  t.equal(history.bytes, 0);
  // More than the steps of an hour, which are kept.
  for (let step = 0; step < 1000; step++) {
    metrics.attempt('http://1', 'ok', '');
    await steps(1);
  }
  t.ok(history.bytes > 0 && history.bytes <= 7 * 2 * (780 + 1500), String(history.bytes));
  history.close();
});

t.test('with more models than are kept, busy ones keep their history, and idle ones have an empty one', async (t) => {
  const fixture = start();
  const { history, read, steps, threads } = fixture;
  const [thread] = threads as [FakeThread];
  fixture.models = Array.from({ length: 600 }, (_, at) => `m${at}`);
  const busy = ['m0', 'm599'];
  for (let step = 0; step < 4; step++) {
    for (const model of busy) thread.requests(model, [0.1]);
    await steps(1);
  }
  await steps(2);
  for (const model of busy) t.same(read('15m', { model }).series['requestsPerS'], [0.2, 0.2, 0.2, 0.2, 0, 0], model);
  t.same(
    fixture.models.filter((model) => read('15m', { model }).dateMs.length === 6).length,
    512,
    'as many as are kept have all steps',
  );
  t.equal(read('15m', { model: 'm598' }).dateMs.length, 0);
  t.equal(history.read('15m', { model: 'nobody' }), null);
  history.close();
});

t.test('the figures of the last minute go up to the last report', async (t) => {
  const { clock, history, steps, threads } = start();
  const [thread] = threads as [FakeThread];
  thread.requests('m', [9]);
  await steps(1);
  thread.metrics.of(CHAT, 'm').countTokens(100, 25, 10);
  thread.metrics.of(CHAT, 'm').countCost(3e12);
  thread.metrics.prompt('http://x', 'm', 30, 10);
  for (let step = 0; step < 12; step++) {
    thread.requests('m', [0.1]);
    await steps(1);
  }
  clock.advance(2000);
  thread.requests('m', [0.1, 0.1], 500);
  history.take([thread.totals()]);
  const figures = history.recent('m');
  t.match(figures, { seconds: 62, requestsPerS: 14 / 62, errorsPerS: 2 / 62, cachedShare: 0.25, predictedShare: 0.75 });
  t.match(figures, { inputTokensPerS: 100 / 62, cachedTokensPerS: 25 / 62, outputTokensPerS: 10 / 62 });
  t.ok(Math.abs(figures.usdPerHour - (3 / 62) * 3600) < 1e-9);
  t.ok((figures.latencyMs.p99 ?? 0) < 105, 'the slow one was before');
  t.same(history.recent(null), figures);
  t.match(history.recent('other'), { requestsPerS: 0, latencyMs: { p50: null } });
  history.close();
});
