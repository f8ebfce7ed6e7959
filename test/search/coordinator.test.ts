// One search under a manual clock: who is asked, when it answers, what it cancels.
import t from 'tap';
import { createProbe, createTestSystem, type Probe, type TestSystem } from '../../src/actor/testkit.ts';
import { coordinator, type CoordinatorCommand, type Report } from '../../src/search/coordinator.ts';
import type { EngineCommand, EngineReport } from '../../src/search/engine-actor.ts';
import type { Ref } from '../../src/actor/index.ts';
import { hitOf, queryOf } from '../support/search.ts';

interface Bench extends TestSystem {
  readonly engines: Record<string, Probe<EngineCommand>>;
  readonly answers: (readonly Report[])[];
  readonly start: (engines: readonly string[]) => Promise<Ref<CoordinatorCommand>>;
  readonly report: (engine: string, report: EngineReport) => Promise<void>;
}

function bench(): Bench {
  const test = createTestSystem();
  const engines: Record<string, Probe<EngineCommand>> = {};
  for (const id of ['a', 'b', 'c']) engines[id] = createProbe(test.system);
  const answers: (readonly Report[])[] = [];
  return {
    ...{ ...test, engines, answers },
    async start(ids) {
      const ref = test.system.spawn(
        coordinator({
          query: queryOf(ids),
          engine: (id) => engines[id]?.ref,
          deadlineMs: 10_000,
          onDone: (reports) => void answers.push(reports),
        }),
      );
      await test.settle();
      return ref;
    },
    async report(engine, report) {
      const [command] = engines[engine]?.received ?? [];
      if (command?.type === 'Search') command.report(report);
      await test.settle();
    },
  };
}

const HITS = { hits: [hitOf('http://x.org/')] };

function kinds(b: Bench, engine: string): string[] {
  return (b.engines[engine]?.received ?? []).map((command) =>
    command.type === 'Cancel' ? `Cancel${command.timedOut ? ' timed out' : ''}` : command.type,
  );
}

t.test('asks all engines at once, with the deadline, and answers when the last reports', async (t) => {
  const b = bench();
  await b.start(['a', 'b', 'c']);
  t.same(
    ['a', 'b', 'c'].map((id) => kinds(b, id)),
    [['Search'], ['Search'], ['Search']],
  );
  const [command] = b.engines['a']?.received ?? [];
  t.match(command, { type: 'Search', deadlineMs: 10_000, query: { query: 'rivers', type: 'web', maxResults: 10 } });
  await b.report('c', HITS);
  await b.report('a', { reason: 'suspended' });
  t.same(b.answers, []);
  await b.report('b', HITS);
  t.same(b.answers, [
    [
      { engine: 'a', reason: 'suspended' },
      { engine: 'b', ...HITS },
      { engine: 'c', ...HITS },
    ],
  ]);
  t.equal(b.system.stats().actors, 3, 'it has ended');
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('an engine that is not configured fails without being asked', async (t) => {
  const b = bench();
  await b.start(['x', 'a', 'y']);
  await b.report('a', HITS);
  t.same(b.answers, [
    [
      { engine: 'x', reason: 'not configured' },
      { engine: 'a', ...HITS },
      { engine: 'y', reason: 'not configured' },
    ],
  ]);
  await b.start(['x']);
  t.same(b.answers[1], [{ engine: 'x', reason: 'not configured' }]);
});

t.test('cuts off the late at the deadline, takes what they have, and answers', async (t) => {
  const b = bench();
  await b.start(['a', 'b', 'c']);
  await b.report('a', HITS);
  await b.advance(9999);
  t.same(b.answers, []);
  await b.advance(1);
  t.same(
    ['a', 'b', 'c'].map((id) => kinds(b, id)),
    [['Search'], ['Search', 'Cancel timed out'], ['Search', 'Cancel timed out']],
  );
  await b.report('b', HITS);
  await b.report('c', { reason: 'timeout' });
  t.equal(b.clock.now(), 10_000);
  t.same(b.answers, [
    [
      { engine: 'a', ...HITS },
      { engine: 'b', ...HITS },
      { engine: 'c', reason: 'timeout' },
    ],
  ]);
});

t.test('an engine that does not even let go is not waited for', async (t) => {
  const b = bench();
  await b.start(['a', 'b']);
  await b.report('a', HITS);
  await b.advance(10_020);
  t.same(b.answers, [
    [
      { engine: 'a', ...HITS },
      { engine: 'b', reason: 'timeout' },
    ],
  ]);
  await b.report('b', HITS);
  await b.advance(60_000);
  t.equal(b.answers.length, 1);
});

t.test('a client that leaves takes every call along and hears nothing', async (t) => {
  const b = bench();
  const ref = await b.start(['a', 'b']);
  await b.report('a', HITS);
  ref.tell({ type: 'Abort' });
  await b.settle();
  t.same(kinds(b, 'a'), ['Search']);
  t.same(kinds(b, 'b'), ['Search', 'Cancel']);
  await b.report('b', HITS);
  await b.advance(60_000);
  t.same(b.answers, []);
});

t.test('searches are told apart', async (t) => {
  const b = bench();
  for (let i = 0; i < 100; i++) await b.start(['a']);
  const askers = new Set((b.engines['a']?.received ?? []).map((command) => 'asker' in command && command.asker));
  t.equal(askers.size, 100);
});
