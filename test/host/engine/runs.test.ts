// Whole runs of the simulated engine on a manual clock: the same seed, name and arrivals give the same run; cold starts, the network,
// and a restart.
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { type ManualClock, createManualClock, createSeededRandom } from '../../../src/actor/testkit.ts';
import { DEFAULT_OPTIONS } from '../../../src/host/completion-options.ts';
import {
  type SimulatedDeps,
  type SimulatedSettings,
  createSimulatedEngine,
} from '../../../src/host/engine/simulated-engine.ts';
import type { CompletionEnd, ModelEngine, Sink, Task } from '../../../src/host/model-engine.ts';
import { planFleet } from '../../../src/host/index.ts';

function task(text: string, tokens = 12): Task {
  return {
    model: 'm',
    prompt: { kind: 'chat', turns: [{ role: 'user', text }], speaks: 'prose' },
    options: { ...DEFAULT_OPTIONS, n_predict: tokens, cache_prompt: true },
    whenFull: 'stop',
    timingsId: null,
  };
}

/** Everything that a sink is told, with the time. */
function recorder(clock: ManualClock, log: string[], id: number): Sink {
  const add = (what: string, ...more: unknown[]): void =>
    void log.push(`${clock.now()} ${id} ${what} ${JSON.stringify(more)}`);
  return {
    start: (...given) => add('start', ...given),
    text: (text) => add('text', text),
    leave: () => add('leave'),
    end: (end) => add('end', end),
  };
}

/** Two minutes of requests at random to an engine; what its sinks were told. */
function run(settings: Partial<SimulatedDeps>): string[] {
  const clock = createManualClock();
  const engine = createSimulatedEngine({ models: ['m'], clock, seed: 3, name: 'one', ...settings });
  const random = createSeededRandom(9);
  const log: string[] = [];
  for (let request = 0; request < 200; request++) {
    const words = 'the miller opens the gate '.repeat(1 + Math.floor(random() * 40));
    const running = engine.complete(task(`${request % 7} ${words}`), recorder(clock, log, request));
    clock.advance(random() * 60);
    if (random() < 0.1) running.cancel();
  }
  clock.advance(120_000);
  log.push(JSON.stringify(engine.figures()));
  return log;
}

/** The texts of the requests of a run that were not cancelled, without times and the order between requests. */
function textsOf(log: readonly string[]): string[] {
  const ended = new Set(log.filter((line) => line.includes(' end ')).map((line) => line.split(' ')[1]));
  const texts = log.filter((line) => line.includes(' text ') && ended.has(line.split(' ')[1]));
  return texts.map((line) => line.slice(line.indexOf(' ') + 1)).toSorted();
}

const MACHINES: readonly SimulatedSettings[] = [
  {},
  { profile: 'vllm-8b-h100', networkMs: 3 },
  { profile: 'sglang-8b-a100', coldStart: true },
  { profile: { ...{ stepUs: 8000, maxSequences: 3 }, variation: { jitter: 0.3 } } },
  { profile: 'paced' },
];

t.test('the same seed, name and arrivals give the same run, step for step and byte for byte', async (t) => {
  for (const settings of MACHINES) {
    const first = run(settings);
    t.ok(first.length > 1000);
    t.strictSame(run(settings), first);
  }
});

t.test('hosts with other names or seeds have other step times', async (t) => {
  const first = run({ profile: 'vllm-8b-h100' });
  t.notOk(isDeepStrictEqual(run({ profile: 'vllm-8b-h100', name: 'two' }), first));
  t.notOk(isDeepStrictEqual(run({ profile: 'vllm-8b-h100', seed: 4 }), first));
  const steady = run({ profile: 'vllm-8b-h100', variation: false });
  t.notOk(isDeepStrictEqual(steady, first));
  const texts = textsOf(first);
  t.ok(texts.length > 1000);
  t.strictSame(textsOf(steady), texts, 'the variation changes times, not texts');
  const planned = planFleet({ defaults: { models: ['m'], seed: 3 }, hosts: [{ count: 3, name: 'x' }] }, '127.0.0.1');
  t.same(new Set(planned.map(({ settings }) => settings.name)).size, 3, 'and hosts of a fleet have names');
});

interface Timed {
  readonly atMs: number;
  readonly end: CompletionEnd;
}

/** Completes one request on a manual clock that goes on until it has ended. */
function complete(engine: ModelEngine, clock: ManualClock, text: string, tokens = 2): Timed {
  let timed: Timed | null = null;
  const sink: Sink = { start: () => {}, text: () => {}, end: (end) => void (timed = { atMs: clock.now(), end }) };
  engine.complete(task(text, tokens), sink);
  for (let ms = 0; timed === null && ms < 60_000; ms++) clock.advance(1);
  return timed!;
}

t.test('a cold engine loads first, and its first steps are slow; after a restart likewise', async (t) => {
  const clock = createManualClock();
  const profile = { variation: { jitter: 0 }, coldStart: { loadMs: 4000, factor: 3, overMs: 1000 } };
  const engine = createSimulatedEngine({ models: ['m'], clock, profile, coldStart: true });
  for (const start of ['first', 'second']) {
    engine.open!();
    t.equal(engine.health(), 'loading', start);
    clock.advance(3999);
    t.equal(engine.health(), 'loading');
    clock.advance(1);
    t.equal(engine.health(), 'ready');
    const cold = complete(engine, clock, 'hello', 3).end;
    t.equal(cold.cachedTokens, 0, 'nothing is in memory');
    for (let request = 0; request < 30; request++) complete(engine, clock, `warm up ${request}`, 20);
    const warm = complete(engine, clock, 'other', 3).end;
    t.ok(cold.generationMs > 2.8 * warm.generationMs, `${cold.generationMs} and ${warm.generationMs} ms`);
    await engine.close();
    t.equal(clock.nextDueMs, Infinity);
  }
  const warm = createSimulatedEngine({ models: ['m'], clock, profile });
  warm.open!();
  t.equal(warm.health(), 'ready');
  await warm.close();
});

t.test('the network delays requests, and a request that is cancelled on its way never arrives', async (t) => {
  const clock = createManualClock();
  const engine = createSimulatedEngine({ models: ['m'], clock, profile: 'even', networkMs: 10 });
  const times: number[] = [];
  for (let request = 0; request < 300; request++) {
    const before = clock.now();
    times.push(complete(engine, clock, 'hello', 1).atMs - before - 20);
  }
  const sorted = times.toSorted((a, b) => a - b);
  t.ok(Math.abs(sorted[150]! - 10) < 1, `median ${sorted[150]}`);
  t.ok(sorted[285]! > 12 && sorted[285]! < 30, `p95 ${sorted[285]}`);
  const log: string[] = [];
  const running = engine.complete(task('hello'), recorder(clock, log, 0));
  t.equal(engine.figures().waiting, 0, 'it is not there yet');
  running.cancel();
  clock.advance(1000);
  t.same(log, []);
  t.equal(clock.nextDueMs, Infinity);
  await engine.close();
});
