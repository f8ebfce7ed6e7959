// Pauses between messages about choices, by the rate of choices.

import t from 'tap';
import { TellingPace } from '../../src/cluster/telling-pace.ts';

/** The pause of a gateway that chooses so often, in milliseconds. */
function pauseOf(choicesPerS: number, together: number): number {
  const pace = new TellingPace();
  let nowMs = 1000;
  for (let message = 0; message < 100; message++) {
    const before = nowMs;
    nowMs = Math.max(Math.min(pace.dueMs(together), before + 1000), before + 1000 / choicesPerS);
    pace.sent(((nowMs - before) * choicesPerS) / 1000, nowMs);
  }
  return pace.dueMs(together) - nowMs;
}

t.test('choices share a message, within 20 to 100 ms', async (t) => {
  t.equal(pauseOf(1, 4), 100);
  t.ok(Math.abs(pauseOf(80, 4) - 50) < 5, String(pauseOf(80, 4)));
  t.equal(pauseOf(1000, 4), 20);
  t.equal(pauseOf(1000, 0), 20);
  t.ok(pauseOf(400, Infinity) < 41, 'never more than 16 together');
});

t.test('the first choice after a pause is told at once', async (t) => {
  const pace = new TellingPace();
  t.equal(pace.dueMs(4), -Infinity);
  pace.sent(1, 1000);
  t.ok(pace.dueMs(4) <= 1100);
});
