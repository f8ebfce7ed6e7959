import { exponential } from '../../../../src/host/engine/sampling/candidates.ts';
import fc from 'fast-check';
import t from 'tap';

t.test('it is the exponential to thirteen digits', async () => {
  fc.assert(
    fc.property(fc.double({ min: -699, max: 0, noNaN: true }), (x) => {
      const exact = Math.exp(x);
      return Math.abs(exponential(x) - exact) <= exact * 1e-13;
    }),
    { numRuns: 20_000 },
  );
});

t.test('nothing is less likely than nothing', async (t) => {
  t.equal(exponential(0), 1);
  t.equal(exponential(-0), 1);
  t.equal(exponential(-701), 0);
  t.equal(exponential(-Infinity), 0);
});
