import fc from 'fast-check';
import t from 'tap';
import { Histogram } from '../../src/load/histogram.ts';

t.test('percentiles are within 0.8 % of the exact ones, for any values', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0.001, max: 3_600_000, noNaN: true }), { minLength: 1, maxLength: 300 }),
      fc.integer({ min: 1, max: 100 }),
      (values, percent) => {
        const histogram = new Histogram();
        for (const value of values) histogram.record(value);
        const exact = [...values].sort((a, b) => a - b)[Math.max(1, Math.ceil((percent / 100) * values.length)) - 1]!;
        return Math.abs(histogram.percentile(percent) - exact) <= exact * 0.008 + 0.0011;
      },
    ),
  );
  t.end();
});

t.test('of round numbers of values, a percentile of a tenth of a percent is the one of its rank', (t) => {
  for (const thousands of [1, 2, 10]) {
    const histogram = new Histogram();
    // One in a thousand is slow: 99.9 % of all are not.
    for (let at = 0; at < 1000 * thousands; at++) histogram.record(at % 1000 === 0 ? 5000 : 1);
    t.ok(histogram.distribution().p999 < 1.01, `of ${thousands} thousand`);
    t.ok(histogram.percentile(99.95) > 4900);
  }
  t.end();
});

t.test('count, mean, least and most are exact', (t) => {
  const histogram = new Histogram();
  for (const value of [3, 1, 2, 10, NaN]) histogram.record(value);
  t.match(histogram.distribution(), { count: 4, mean: 4, min: 1, max: 10 });
  t.end();
});

t.test('one that was merged from parts says what one of all would say', (t) => {
  const [whole, odd, even] = [new Histogram(), new Histogram(), new Histogram()];
  for (let at = 1; at < 1000; at++) {
    whole.record(at);
    (at % 2 === 0 ? even : odd).record(at);
  }
  even.merge(odd);
  t.strictSame(even.distribution(), whole.distribution());
  t.strictSame(even.cumulative(), whole.cumulative());
  t.end();
});

t.test('takes negative values, which differences of measurements may have', (t) => {
  const histogram = new Histogram();
  for (const value of [-10, -1, 0, 1, 10]) histogram.record(value);
  const { min, p50, max } = histogram.distribution();
  t.strictSame([min, p50, max], [-10, 0, 10]);
  t.ok(Math.abs(histogram.percentile(40) + 1) < 0.008);
  t.end();
});

t.test('an empty one says zero, and the cumulative shares end at 1', (t) => {
  t.match(new Histogram().distribution(), { count: 0, mean: 0, min: 0, p50: 0, p999: 0, max: 0 });
  const histogram = new Histogram();
  for (let at = 0; at < 50; at++) histogram.record(at);
  const shares = histogram.cumulative().map(([, share]) => share);
  t.equal(shares.at(-1), 1);
  t.ok(shares.every((share, at) => at === 0 || share > shares[at - 1]!));
  t.end();
});
