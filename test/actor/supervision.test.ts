// Supervision decides by directive, intensity within the period, and back-off.

import t from 'tap';
import { backoffMs, Supervisor } from '../../src/actor/supervision.ts';

const half = (): number => 0.5;

t.test('restarts at once by default', (t) => {
  t.same(new Supervisor({}).decide(new Error('x'), 0, half), { directive: 'restart', delayMs: 0 });
  t.end();
});

t.test('more restarts than the intensity within the period escalate; older ones are forgotten', (t) => {
  const supervisor = new Supervisor({ maxRestarts: 2, withinMs: 100 });
  const at = (nowMs: number): string => supervisor.decide(new Error('x'), nowMs, half).directive;
  t.same([at(0), at(99), at(99)], ['restart', 'restart', 'escalate']);
  t.equal(at(100), 'restart', 'the first one has left the period');
  t.equal(at(101), 'escalate');
  t.end();
});

t.test('the delay doubles from restart to restart up to its maximum, and starts over when the period is quiet', (t) => {
  const supervisor = new Supervisor({ withinMs: 1000, backoff: { minMs: 10, maxMs: 50, jitter: 0 } });
  const at = (nowMs: number): number => supervisor.decide(new Error('x'), nowMs, half).delayMs;
  t.same([at(0), at(1), at(2), at(3)], [10, 20, 40, 50]);
  t.equal(at(2000), 10);
  t.end();
});

t.test('jitter shortens the delay by up to its share', (t) => {
  t.equal(
    backoffMs({ minMs: 100, maxMs: 1000, jitter: 0.5 }, 1, () => 0),
    100,
  );
  t.equal(backoffMs({ minMs: 100, maxMs: 1000, jitter: 0.5 }, 1, half), 75);
  t.equal(backoffMs({ minMs: 100, maxMs: 1000, factor: 3, jitter: 0 }, 3, half), 900);
  t.end();
});

t.test('the directive may depend on the error; a decision that throws escalates', (t) => {
  const supervisor = new Supervisor({
    onFailure: (error) => {
      if (error instanceof TypeError) return 'resume';
      throw new Error('undecided');
    },
  });
  t.equal(supervisor.decide(new TypeError(), 0, half).directive, 'resume');
  t.equal(supervisor.decide(new RangeError(), 0, half).directive, 'escalate');
  t.end();
});
