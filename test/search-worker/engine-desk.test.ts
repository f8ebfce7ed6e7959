// The desk with an engine in this process, under a manual clock.
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/index.ts';
import { holdGate } from '../../src/actor/testkit.ts';
import { EngineError, type EngineHit, type InProcessEngine, type Report } from '../../src/search/index.ts';
import { EngineDesk } from '../../src/search-worker/engine-desk.ts';
import { Numbers } from '../../src/search-worker/numbers.ts';
import { specOf } from '../support/search.ts';
import { until } from '../support/system.ts';

const HITS = [{ title: 'T', url: 'http://a.example/', snippet: '' }];

function deskOf(
  t: Test,
  search: InProcessEngine['search'],
): { state: EngineDesk; clock: ReturnType<typeof createManualClock>; notices: string[] } {
  const clock = createManualClock(1000);
  const notices: string[] = [];
  const engine: InProcessEngine = { kind: 'index', documentation: 'README.md', types: ['web'], search };
  const state = new EngineDesk({
    spec: specOf('index', { workers: [engine] }),
    timeoutMs: 9000,
    clock,
    random: () => 0,
    epochMs: () => 0,
    numbers: new Numbers(),
    onNotice: (sentence) => notices.push(sentence),
  });
  t.teardown(() => state.close());
  return { state, clock, notices };
}

const ask = (state: EngineDesk): Promise<Report> =>
  new Promise((resolve) => void state.search({ query: 'x', type: 'web', maxResults: 5 }, resolve));

t.test('is ready once its engine has answered a first search', async (t) => {
  const gate = holdGate();
  const { state } = deskOf(t, async () => {
    await gate.wait();
    return HITS;
  });
  t.equal(state.ready, false);
  gate.release();
  await until('ready', () => state.ready);
});

t.test('tries again when it is asked, and complains once', async (t) => {
  let works = false;
  let tries = 0;
  const { state, notices } = deskOf(t, async () => {
    tries++;
    if (!works) throw new EngineError('invalid');
    return HITS;
  });
  await until('tries', () => !state.ready && tries > 2);
  works = true;
  await until('ready', () => state.ready);
  t.strictSame(notices, ['the engine index cannot answer: look at its settings']);
});

t.test('answers with what the engine finds', async (t) => {
  const { state } = deskOf(t, async () => HITS);
  t.strictSame(await ask(state), { engine: 'index', hits: HITS });
});

t.test('answers at the deadline, whatever the engine does', async (t) => {
  const held = holdGate();
  let asked = 0;
  const { state, clock } = deskOf(t, async (): Promise<readonly EngineHit[]> => {
    asked++;
    await held.wait();
    return [];
  });
  const report = ask(state);
  await until('asked', () => asked === 2);
  clock.advance(9000);
  t.strictSame(await report, { engine: 'index', reason: 'timeout' });
  held.release();
});

t.test('says how long a suspended engine is left alone', async (t) => {
  const { state, clock } = deskOf(t, async () => {
    throw new EngineError('rate limited', { retryAfterMs: 60_000 });
  });
  t.equal(state.suspendedMs, 0);
  t.strictSame(await ask(state), { engine: 'index', reason: 'rate limited' });
  clock.advance(20_000);
  t.equal(state.suspendedMs, 40_000);
  t.equal(state.retryAfterMs, 40_000);
  t.strictSame(await ask(state), { engine: 'index', reason: 'suspended' });
});

t.test('a search that is left tells its engine', async (t) => {
  const signals: AbortSignal[] = [];
  const { state } = deskOf(t, (_query, signal) => {
    signals.push(signal);
    return new Promise(() => undefined);
  });
  const leave = state.search({ query: 'x', type: 'web', maxResults: 5 }, () => t.fail('was left'));
  await until('asked', () => signals.length === 2);
  leave();
  await until('aborted', () => signals[1]?.aborted === true);
});
