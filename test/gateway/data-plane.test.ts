// What a data plane tells the control plane about itself.

import t from 'tap';
import { openPlane } from '../support/controlled-plane.ts';

t.test('generations of planes are counted by the clock, not by a date that may be set back', async (t) => {
  const { clock, plane } = await openPlane(t, 0);
  t.equal(plane.totals(0).generation, clock.now());
});
