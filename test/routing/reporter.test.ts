import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { Outcome } from '../../src/routing/classify.ts';
import { Reporter } from '../../src/routing/reporter.ts';

function open(): { board: Board; clock: ReturnType<typeof createManualClock>; told: Outcome[]; reporter: Reporter } {
  const clock = createManualClock();
  const board = new Board(createBoardMemory(3, 3, 1), 0);
  const told: Outcome[] = [];
  return { board, clock, told, reporter: new Reporter(board, clock, (outcome) => told.push(outcome)) };
}

const ok = (member: number, count: number): Outcome => ({ member, verdict: 'ok', failure: null, count });

t.test('good requests are counted and told together', async (t) => {
  const { reporter, told, clock } = open();
  for (let i = 0; i < 1000; i++) reporter.report(i % 2, 'ok', null);
  clock.advance(249);
  t.same(told, []);
  clock.advance(1);
  t.same(told, [ok(0, 500), ok(1, 500)]);
  clock.advance(10_000);
  t.equal(told.length, 2);
  t.equal(clock.nextDueMs, Infinity, 'nothing to tell, no timer');
  reporter.report(0, 'ok', null);
  clock.advance(250);
  t.same(told[2], ok(0, 1));
});

t.test('a failure is told at once, behind the good requests before it', async (t) => {
  const { reporter, told, clock } = open();
  reporter.report(0, 'ok', null);
  reporter.report(1, 'ok', null);
  reporter.report(0, 'failed', 'reset');
  t.same(told, [ok(0, 1), { member: 0, verdict: 'failed', failure: 'reset', count: 1 }]);
  clock.advance(250);
  t.same(told[2], ok(1, 1));
  t.equal(told.length, 3);
});

t.test('what says nothing is not told, except about a CRN on trial', async (t) => {
  const { reporter, told, board } = open();
  reporter.report(0, 'neutral', 'client gone');
  t.same(told, []);
  board.setStanding(0, STANDING.probing, 0);
  reporter.report(0, 'neutral', 'client gone');
  reporter.report(0, 'ok', null);
  t.same(
    told.map(({ verdict }) => verdict),
    ['neutral', 'ok'],
  );
});

t.test('what is left can be told before the end', async (t) => {
  const { reporter, told } = open();
  reporter.report(2, 'ok', null);
  reporter.flush();
  reporter.flush();
  t.same(told, [ok(2, 1)]);
});
