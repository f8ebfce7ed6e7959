import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { RecurringProblem } from '../../src/telemetry/recurring-problem.ts';

t.test('a problem is told at once, then once a minute with its number, and when it is over', async (t) => {
  const clock = createManualClock();
  const told: string[] = [];
  const problem = new RecurringProblem('leases could not be renewed', {
    clock: () => clock,
    onProblem: (error, what) => told.push(`${String(error)}: ${what}`),
    onOver: (what) => told.push(what),
  });
  problem.succeeded();
  t.same(told.splice(0), [], 'nothing was wrong');
  for (let second = 0; second < 90; second++) {
    problem.failed('full');
    clock.advance(1000);
  }
  t.same(told.splice(0), [
    'full: leases could not be renewed',
    'full: leases could not be renewed, and 59 times before',
  ]);
  problem.succeeded();
  clock.advance(3999);
  problem.succeeded();
  t.same(told.splice(0), [], 'it may fail again at once');
  clock.advance(1);
  t.same(told.splice(0), ['it works again: leases could not be renewed, 90 times'], 'though no more work comes');
  problem.succeeded();
  t.same(told.splice(0), []);
  problem.failed('full', 'two leases could not be renewed');
  t.same(told, ['full: two leases could not be renewed'], 'the next one is told at once');
});

t.test('the end of work that is done once is told at once', async (t) => {
  const clock = createManualClock();
  const told: string[] = [];
  const problem = new RecurringProblem('the store could not be opened', {
    clock: () => clock,
    onProblem: () => undefined,
    onOver: (what) => told.push(what),
  });
  problem.ended();
  problem.failed('locked');
  problem.ended();
  t.same(told, ['it works again: the store could not be opened, 1 time']);
  t.equal(problem.active, false);
});

t.test('a problem that alternates with successes is told once a minute', async (t) => {
  const clock = createManualClock();
  const told: string[] = [];
  const problem = new RecurringProblem('it failed', {
    clock: () => clock,
    onProblem: (_error, what) => told.push(what),
  });
  for (let second = 0; second < 60; second++) {
    problem.failed('locked');
    clock.advance(500);
    problem.succeeded();
    clock.advance(500);
  }
  t.same(told, ['it failed']);
});
