// Faster clocks keep their factor, virtual ones jump from timer to timer in order.

import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import { createSpedClock, createVirtualClock } from '../../../src/host/engine/engine-clock.ts';

t.test('a sped-up clock shows more time and waits less', (t) => {
  const manual = createManualClock(10);
  const clock = createSpedClock(manual, 4);
  let firedAt = 0;
  clock.setTimeout(() => (firedAt = clock.now()), 100);
  const never = clock.setTimeout(() => t.fail('was cleared'), 100);
  clock.clearTimeout(never);
  manual.advance(24);
  t.equal(firedAt, 0);
  manual.advance(1);
  t.equal(firedAt, 140);
  t.throws(() => createSpedClock(manual, 0), RangeError);
  t.end();
});

t.test('a virtual clock passes only from timer to timer', (t) => {
  const clock = createVirtualClock();
  const seen: number[] = [];
  const again = (): void => {
    seen.push(clock.now());
    if (seen.length < 1000) clock.setTimeout(again, 0.1);
  };
  clock.setTimeout(again, 0.1);
  t.equal(clock.run(), 1000);
  t.ok(seen.every((at, index) => index === 0 || at > seen[index - 1]!));
  t.notOk(clock.step());
  const endless = (): void => void clock.setTimeout(endless, 1);
  endless();
  t.throws(() => clock.run(50), RangeError);
  t.end();
});

t.test('a virtual clock with turns moves by itself, one timer a turn', (t) => {
  const turns: (() => void)[] = [];
  const clock = createVirtualClock((run) => turns.push(run));
  const seen: number[] = [];
  clock.setTimeout(() => seen.push(clock.now()), 20);
  clock.setTimeout(() => seen.push(clock.now()), 10);
  t.equal(turns.length, 1, 'nothing runs within setTimeout');
  while (turns.length > 0) turns.shift()!();
  t.same(seen, [10, 20]);
  t.end();
});
