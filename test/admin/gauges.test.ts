// Dates that the admin listener shows of what ends by the clock of the process.

import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { type CrnStatus, Gauges } from '../../src/admin/gauges.ts';
import { EngineCells } from '../../src/search/engine-board.ts';
import { EngineBoard } from '../../src/search/index.ts';

t.test('ends of ejections and suspensions follow a wall clock that is set, and so do their lengths', async (t) => {
  const clock = createManualClock(1000);
  let dateMs = Date.UTC(2026, 10, 22);
  const cells = new EngineCells();
  const gauges = new Gauges(cells, clock, () => dateMs);
  const board = new EngineBoard(cells.memory);
  const cell = cells.of(['e'])['e'] as number;
  const permit = board.acquire(cell, clock.now(), 'a');
  board.fail(cell, permit ?? 0n, 'rate limited', clock.now(), { account: 'a', query: 'q' });
  const url = 'http://crn';
  gauges.note({ type: 'ejected', url, failure: 'status', forMs: 10_000 } as unknown as Parameters<Gauges['note']>[0]);
  const crns = [{ url }] as unknown as CrnStatus[];
  for (const jumpMs of [0, 3_600_000, -7_200_000]) {
    dateMs += jumpMs;
    t.equal(gauges.ejections(crns).get(url), dateMs + 10_000);
    t.same(gauges.engines(['e']), [['e', dateMs + 10_000]]);
  }
});
