// The engine of a worker, in this process, under a manual clock.
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/index.ts';
import { holdGate } from '../../src/actor/testkit.ts';
import { EngineError, type EngineHit, type InProcessEngine, type EngineReport } from '../../src/search/index.ts';
import { ServedEngine } from '../../src/search-worker/served-engine.ts';
import { WorkerMetrics } from '../../src/search-worker/worker-metrics.ts';
import { specOf } from '../support/search.ts';
import { until } from '../support/system.ts';

const HITS = [{ title: 'T', url: 'http://a.example/', snippet: '' }];

function serve(
  t: Test,
  search: InProcessEngine['search'],
): { served: ServedEngine; clock: ReturnType<typeof createManualClock>; notices: string[] } {
  const clock = createManualClock(1000);
  const notices: string[] = [];
  const engine: InProcessEngine = { kind: 'index', documentation: 'README.md', types: ['web'], search };
  const served = new ServedEngine({
    spec: specOf('index', { workers: [engine] }),
    timeoutMs: 9000,
    clock,
    random: () => 0,
    epochMs: () => 0,
    metrics: new WorkerMetrics(),
    onNotice: (sentence) => notices.push(sentence),
  });
  t.teardown(() => served.close());
  return { served, clock, notices };
}

const ask = (served: ServedEngine): Promise<EngineReport> =>
  new Promise((resolve) => void served.search({ query: 'x', type: 'web', maxResults: 5 }, '', resolve));

t.test('is ready once its engine has answered a first search', async (t) => {
  const gate = holdGate();
  const { served } = serve(t, async () => {
    await gate.wait();
    return HITS;
  });
  t.equal(served.ready, false);
  gate.release();
  await until('ready', () => served.ready);
});

t.test('tries again at every check, and notifies once', async (t) => {
  let works = false;
  let tries = 0;
  const { served, notices } = serve(t, async () => {
    tries++;
    if (!works) throw new EngineError('invalid');
    return HITS;
  });
  await until('tries', () => !served.ready && tries > 2);
  works = true;
  await until('ready', () => served.ready);
  t.strictSame(notices, ['the engine index cannot answer: look at its settings']);
});

t.test('tries again after a first search that never ends', async (t) => {
  const signals: AbortSignal[] = [];
  const { served, clock, notices } = serve(t, (_query, signal) => {
    signals.push(signal);
    return signals.length === 1 ? new Promise(() => undefined) : Promise.resolve(HITS);
  });
  t.equal(served.ready, false);
  clock.advance(9000);
  t.equal(signals[0]?.aborted, true);
  await until('ready', () => served.ready);
  t.strictSame(notices, []);
});

t.test('answers with what the engine finds', async (t) => {
  const { served } = serve(t, async () => HITS);
  t.strictSame(await ask(served), { engine: 'index', hits: HITS, calls: 1 });
});

t.test('answers at the deadline, whatever the engine does', async (t) => {
  const held = holdGate();
  let asked = 0;
  const { served, clock } = serve(t, async (): Promise<readonly EngineHit[]> => {
    asked++;
    await held.wait();
    return [];
  });
  const report = ask(served);
  await until('asked', () => asked === 2);
  clock.advance(9000);
  t.strictSame(await report, { engine: 'index', reason: 'timeout' });
  held.release();
});

t.test('gives the rest of a suspension', async (t) => {
  const { served, clock } = serve(t, async () => {
    throw new EngineError('rate limited', { retryAfterMs: 60_000 });
  });
  t.equal(served.suspendedMs, 0);
  t.strictSame(await ask(served), { engine: 'index', reason: 'rate limited' });
  clock.advance(20_000);
  t.equal(served.suspendedMs, 40_000);
  t.equal(served.retryAfterMs, 40_000);
  t.strictSame(await ask(served), { engine: 'index', reason: 'suspended' });
});

t.test('an aborted search fires the signal of its engine', async (t) => {
  const signals: AbortSignal[] = [];
  const { served } = serve(t, (_query, signal) => {
    signals.push(signal);
    return new Promise(() => undefined);
  });
  const leave = served.search({ query: 'x', type: 'web', maxResults: 5 }, '', () => t.fail('was left'));
  await until('asked', () => signals.length === 2);
  leave();
  await until('aborted', () => signals[1]?.aborted === true);
});
