// One search under a manual clock: who is asked, when it answers, what it cancels.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { Coordinator } from '../../src/search/coordinator.ts';
import type { EngineReport, ReportListener } from '../../src/search/engine-client.ts';
import type { EngineQuery } from '../../src/search/engine.ts';
import { hitOf, type Outcome, queryOf } from '../support/search.ts';

class FakeEngine {
  readonly heard: string[] = [];
  readonly asked: { query: EngineQuery; deadlineMs: number; listener: ReportListener }[] = [];

  search(query: EngineQuery, deadlineMs: number, listener: ReportListener): { cancel: (reason: string) => void } {
    this.heard.push('search');
    this.asked.push({ query, deadlineMs, listener });
    return { cancel: (reason) => void this.heard.push(reason) };
  }
}

interface Setup extends Pick<TestSystem, 'clock'> {
  readonly engines: ReadonlyMap<string, FakeEngine>;
  readonly answers: (readonly EngineReport[])[];
  readonly start: (engines: readonly string[]) => Coordinator;
  readonly report: (engine: string, outcome: Outcome) => void;
  readonly heard: (...engines: string[]) => readonly (readonly string[])[];
}

function setUp(): Setup {
  const { clock } = createTestSystem();
  const engines = new Map(['a', 'b', 'c'].map((id) => [id, new FakeEngine()]));
  const answers: (readonly EngineReport[])[] = [];
  return {
    ...{ clock, engines, answers },
    start(ids) {
      const onDone = (reports: readonly EngineReport[]): void => void answers.push(reports);
      const coordinator = new Coordinator({ query: queryOf(ids), engines, clock, deadlineMs: 10_000, onDone });
      coordinator.start();
      return coordinator;
    },
    report: (engine, outcome) => engines.get(engine)?.asked[0]?.listener.onReport({ engine, ...outcome }),
    heard: (...ids) => ids.map((id) => engines.get(id)?.heard ?? []),
  };
}

const HITS = { hits: [hitOf('http://x.org/')] };

t.test('asks all engines at once, with the deadline, and answers when the last reports', async (t) => {
  const b = setUp();
  b.start(['a', 'b', 'c']);
  t.same(b.heard('a', 'b', 'c'), [['search'], ['search'], ['search']]);
  t.match(b.engines.get('a')?.asked[0], {
    deadlineMs: 10_000,
    query: { query: 'rivers', type: 'web', maxResults: 10 },
  });
  b.report('c', HITS);
  b.report('a', { reason: 'suspended' });
  t.same(b.answers, []);
  b.report('b', HITS);
  t.same(b.answers, [
    [
      { engine: 'a', reason: 'suspended' },
      { engine: 'b', ...HITS },
      { engine: 'c', ...HITS },
    ],
  ]);
  t.equal(b.clock.nextDueMs, Infinity, 'no timer is left');
});

t.test('an engine that is not configured fails without being asked', async (t) => {
  const b = setUp();
  b.start(['x', 'a', 'y']);
  b.report('a', HITS);
  t.same(b.answers, [
    [
      { engine: 'x', reason: 'not configured' },
      { engine: 'a', ...HITS },
      { engine: 'y', reason: 'not configured' },
    ],
  ]);
  b.start(['x']);
  t.same(b.answers[1], [{ engine: 'x', reason: 'not configured' }]);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('at the deadline cancels the engines that have not reported, takes what they have, and answers', async (t) => {
  const b = setUp();
  b.start(['a', 'b', 'c']);
  b.report('a', HITS);
  b.clock.advance(9999);
  t.same(b.answers, []);
  b.clock.advance(1);
  t.same(b.heard('b', 'c'), [
    ['search', 'timeout'],
    ['search', 'timeout'],
  ]);
  b.report('b', HITS);
  b.report('c', { reason: 'timeout' });
  t.equal(b.clock.now(), 10_000);
  t.same(b.answers, [
    [
      { engine: 'a', ...HITS },
      { engine: 'b', ...HITS },
      { engine: 'c', reason: 'timeout' },
    ],
  ]);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('does not wait for an engine that does not react to the deadline', async (t) => {
  const b = setUp();
  b.start(['a', 'b']);
  b.report('a', HITS);
  b.clock.advance(10_019);
  t.same(b.answers, []);
  b.clock.advance(1);
  t.same(b.answers, [
    [
      { engine: 'a', ...HITS },
      { engine: 'b', reason: 'timeout' },
    ],
  ]);
  b.report('b', HITS);
  b.clock.advance(60_000);
  t.equal(b.answers.length, 1);
});

t.test('a client that leaves cancels every engine and hears nothing', async (t) => {
  const b = setUp();
  const coordinator = b.start(['a', 'b']);
  coordinator.abort();
  t.same(b.heard('a', 'b'), [
    ['search', 'cancelled'],
    ['search', 'cancelled'],
  ]);
  b.report('a', HITS);
  b.report('b', { reason: 'cancelled' });
  b.clock.advance(60_000);
  t.same(b.answers, []);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('closing answers at once with the reports there are, and cancels the rest', async (t) => {
  const b = setUp();
  const coordinator = b.start(['a', 'b']);
  b.report('a', HITS);
  coordinator.close();
  t.same(b.answers, [
    [
      { engine: 'a', ...HITS },
      { engine: 'b', reason: 'timeout' },
    ],
  ]);
  t.ok(b.engines.get('b')?.heard.includes('cancelled'));
  coordinator.close();
  b.report('b', HITS);
  t.equal(b.answers.length, 1);
});
