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
    return { thread: this.#thread, generation, sequence: ++this.#sequence, ...metrics.totals(inFlight) };
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
