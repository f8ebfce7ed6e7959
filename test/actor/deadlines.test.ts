// Deadlines fire in order, at their time and never before, whatever the mix of durations.

import * as fc from 'fast-check';
import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { Deadlines } from '../../src/actor/deadlines.ts';
import type { Deadlined } from '../../src/actor/deadlines.ts';

function entry(expire: () => void): Deadlined {
  return { dueMs: 0, previousDeadline: null, nextDeadline: null, expire };
}

t.test('every deadline that is not removed fires exactly at its time, in order', (t) => {
  const durations = fc.record({ timeoutMs: fc.double({ min: 0.1, max: 20_000, noNaN: true }), removed: fc.boolean() });
  fc.assert(
    fc.property(fc.array(durations, { maxLength: 40 }), fc.integer({ min: 0, max: 5000 }), (entries, gapMs) => {
      const clock = createManualClock(12_345.6);
      const deadlines = new Deadlines(clock);
      const fired: number[] = [];
      const due: number[] = [];
      for (const { timeoutMs, removed } of entries) {
        const added = entry(() => {
          fired.push(added.dueMs);
          if (clock.now() !== added.dueMs) throw new Error(`due ${added.dueMs}, fired ${clock.now()}`);
        });
        deadlines.add(added, timeoutMs);
        if (removed) deadlines.remove(added);
        else due.push(added.dueMs);
        clock.advance(gapMs / 100);
      }
      clock.advance(30_000);
      return JSON.stringify(fired) === JSON.stringify(due.sort((a, b) => a - b)) && deadlines.pending === 0;
    }),
  );
  t.end();
});

t.test('the timer sleeps when nothing is pending', (t) => {
  const clock = createManualClock();
  const deadlines = new Deadlines(clock);
  const waiting = entry(() => t.fail('it was taken back'));
  deadlines.add(waiting, 60_000);
  deadlines.remove(waiting);
  clock.advance(256);
  t.equal(clock.nextDueMs, Infinity);
  t.end();
});

t.test('any number of deadlines shares one timer', (t) => {
  let timers = 0;
  const manual = createManualClock();
  const deadlines = new Deadlines({
    ...manual,
    now: () => manual.now(),
    setTimeout: (callback, delayMs) => {
      timers++;
      return manual.setTimeout(callback, delayMs);
    },
  });
  for (let index = 0; index < 1000; index++)
    deadlines.add(
      entry(() => {}),
      1000,
    );
  t.equal(timers, 1);
  t.equal(deadlines.pending, 1000);
  t.end();
});
