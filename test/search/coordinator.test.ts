// One search under a manual clock: who is asked, when it answers, what it cancels.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { Coordinator, type CoordinatorOptions } from '../../src/search/coordinator.ts';
import type { EngineClient, EngineReport, ReportListener } from '../../src/search/engine-client.ts';
import type { EngineQuery } from '../../src/search/engine.ts';
import { hitOf, type Outcome, queryOf } from '../support/search.ts';

class FakeEngine {
  readonly heard: string[] = [];
  readonly asked: { query: EngineQuery; deadlineMs: number; listener: ReportListener }[] = [];

  /** The pages that it has while it goes on. */
  collected: EngineReport | null = null;

  search(query: EngineQuery, deadlineMs: number, listener: ReportListener): ReturnType<EngineClient['search']> {
    this.heard.push('search');
    this.asked.push({ query, deadlineMs, listener });
    return this as unknown as ReturnType<EngineClient['search']>;
  }

  cancel(reason: string): void {
    this.heard.push(reason);
  }

  late(isKept: boolean): void {
    this.heard.push(isKept ? 'late' : 'late, not kept');
  }
}

interface Setup extends Pick<TestSystem, 'clock'> {
  readonly engines: ReadonlyMap<string, FakeEngine>;
  readonly answers: (readonly EngineReport[])[];
  readonly late: (readonly EngineReport[] | null)[];
  readonly start: (engines: readonly string[], options?: Partial<CoordinatorOptions>) => Coordinator;
  readonly report: (engine: string, outcome: Outcome) => void;
  readonly heard: (...engines: string[]) => readonly (readonly string[])[];
}

function setUp(): Setup {
  const { clock } = createTestSystem();
  const engines = new Map(['a', 'b', 'c'].map((id) => [id, new FakeEngine()]));
  const answers: (readonly EngineReport[])[] = [];
  const late: (readonly EngineReport[] | null)[] = [];
  return {
    ...{ clock, engines, answers, late },
    start(ids, options = {}) {
      const coordinator = new Coordinator({
        ...{ query: queryOf(ids), account: 'me', engines, clock, deadlineMs: 10_000, softDeadlineMs: Infinity },
        keepsLate: true,
        onDone: (reports) => void answers.push(reports),
        onEnd: (reports) => void late.push(reports),
        ...options,
      });
      coordinator.start();
      return coordinator;
    },
    report(engine, outcome) {
      const report = 'hits' in outcome ? { engine, calls: 1, ...outcome } : { engine, ...outcome };
      engines.get(engine)?.asked[0]?.listener.onReport(report);
    },
    heard: (...ids) => ids.map((id) => engines.get(id)?.heard ?? []),
  };
}

const HITS = { hits: [hitOf('http://x.org/')], calls: 1 };

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

const SOFT = { softDeadlineMs: 4000 };

t.test('at the soft deadline answers with half of the engines, and names the others slow', async (t) => {
  const b = setUp();
  b.start(['a', 'b', 'c'], SOFT);
  b.report('a', HITS);
  b.report('c', HITS);
  b.clock.advance(3999);
  t.same(b.answers, []);
  b.clock.advance(1);
  t.same(b.answers, [
    [
      { engine: 'a', ...HITS },
      { engine: 'b', reason: 'slow' },
      { engine: 'c', ...HITS },
    ],
  ]);
  t.same(b.heard('a', 'b'), [['search'], ['search', 'late']]);
  b.report('b', HITS);
  t.equal(b.answers.length, 1);
  t.same(b.late, [['a', 'b', 'c'].map((engine) => ({ engine, ...HITS }))], 'hears what came late');
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('past the soft deadline answers as soon as half of the engines have', async (t) => {
  const b = setUp();
  b.start(['a', 'b', 'c'], SOFT);
  b.report('a', HITS);
  b.clock.advance(6000);
  t.same(b.answers, [], 'one of three');
  b.report('b', HITS);
  t.match(b.answers, [[{ engine: 'a' }, { engine: 'b' }, { engine: 'c', reason: 'slow' }]]);
  b.clock.advance(4000);
  t.same(b.heard('c'), [['search', 'late', 'timeout']], 'the deadline stays');
  b.clock.advance(20);
  t.match(b.late, [[{ engine: 'a' }, { engine: 'b' }, { engine: 'c', reason: 'timeout' }]]);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('engines that have failed are not waited for, and count for nothing', async (t) => {
  const b = setUp();
  b.start(['a', 'b', 'c'], SOFT);
  b.report('a', { reason: 'suspended' });
  b.report('b', { reason: 'engine failed' });
  b.clock.advance(9999);
  t.same(b.answers, [], 'nobody has answered');
  const c = setUp();
  c.start(['a', 'b', 'c', 'x'], SOFT);
  c.report('a', HITS);
  c.report('b', { reason: 'engine failed' });
  c.clock.advance(4000);
  t.match(c.answers, [
    [
      { engine: 'a' },
      { reason: 'engine failed' },
      { engine: 'c', reason: 'slow' },
      { engine: 'x', reason: 'not configured' },
    ],
  ]);
});

t.test('the pages that an engine has at the soft deadline are an answer of it', async (t) => {
  const b = setUp();
  b.start(['a', 'b'], { ...SOFT, keepsLate: false });
  const page: EngineReport = { engine: 'a', ...HITS };
  Object.assign(b.engines.get('a') ?? {}, { collected: page });
  b.clock.advance(4000);
  t.same(b.answers, [[page, { engine: 'b', reason: 'slow' }]]);
  t.same(b.heard('a', 'b'), [
    ['search', 'late, not kept'],
    ['search', 'late, not kept'],
  ]);
});

t.test('past the soft deadline the first page of an engine is enough, whatever pages follow', async (t) => {
  const b = setUp();
  b.start(['a', 'b'], SOFT);
  const engine = b.engines.get('a') as FakeEngine;
  b.clock.advance(4000);
  t.same(b.answers, []);
  b.clock.advance(1000);
  const page = { engine: 'a', ...HITS };
  engine.collected = page;
  engine.asked[0]?.listener.onPage();
  t.same(b.answers, [[page, { engine: 'b', reason: 'slow' }]]);
  engine.asked[0]?.listener.onPage();
  t.equal(b.answers.length, 1);
});

t.test('closing after the answer cancels the slow engines, and answers nothing more', async (t) => {
  const b = setUp();
  const coordinator = b.start(['a', 'b'], SOFT);
  b.report('a', HITS);
  b.clock.advance(4000);
  coordinator.close();
  t.same(b.heard('b'), [['search', 'late', 'cancelled']]);
  t.same([b.answers.length, b.late.length, b.clock.nextDueMs], [1, 1, Infinity]);
});
