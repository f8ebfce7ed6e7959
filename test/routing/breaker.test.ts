// Breaker: consecutive failures, failure rates, and the lengths of ejections.
import t from 'tap';
import { Breaker, type BreakerSettings } from '../../src/routing/breaker.ts';

const SETTINGS: BreakerSettings = {
  consecutive: 5,
  errorRate: 0.5,
  minRequests: 20,
  windowMs: 10_000,
  backoffMs: 1000,
  backoffMaxMs: 60_000,
};

/** The random number that does not change the length. */
const MIDDLE = 0.5;

const breaker = (settings: Partial<BreakerSettings> = {}): Breaker => new Breaker({ ...SETTINGS, ...settings });

/** The results of `count` failures. */
const fail = (b: Breaker, count: number, nowMs: number): boolean[] =>
  Array.from({ length: count }, () => b.failed(nowMs));

t.test('consecutive failures ask for ejection, and a success resets their count', async (t) => {
  const b = breaker();
  t.same(fail(b, 4, 0), [false, false, false, false]);
  b.ok(0, 1);
  t.same(fail(b, 5, 0), [false, false, false, false, true]);
  t.equal(b.failed(0), true, 'further failures ask again');
});

t.test('the failure rate asks for ejection once there are enough requests', async (t) => {
  const b = breaker({ consecutive: 1000 });
  b.ok(0, 9);
  t.same(fail(b, 11, 0).lastIndexOf(false), 9, 'the twentieth request decides');
  const good = breaker({ consecutive: 1000 });
  good.ok(0, 100);
  t.same(fail(good, 99, 0).includes(true), false);
  t.equal(good.failed(0), true);
});

t.test('the window drops its older half', async (t) => {
  const b = breaker({ consecutive: 1000, minRequests: 10 });
  b.ok(0, 100);
  t.equal(fail(b, 20, 5000).includes(true), false, 'the good ones still count');
  const later = breaker({ consecutive: 1000, minRequests: 10 });
  later.ok(0, 100);
  later.ok(6000, 1);
  t.equal(fail(later, 12, 10_100).includes(true), true, 'those of the half before last do not');
  const idle = breaker({ consecutive: 1000, minRequests: 10 });
  fail(idle, 9, 0);
  t.equal(idle.failed(100_000), false, 'nor does what is older than the window');
});

t.test('consecutive failures count however far apart they are', async (t) => {
  const b = breaker();
  const asked = [0, 1, 2, 3, 4].map((minute) => b.failed(minute * 60_000));
  t.same(asked, [false, false, false, false, true]);
});

t.test('each ejection in a row lasts twice as long, up to the maximum', async (t) => {
  const b = breaker();
  let now = 0;
  const lengths = Array.from({ length: 9 }, () => {
    const length = b.eject(now, MIDDLE);
    now += length;
    return length;
  });
  t.same(lengths, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

t.test('the random number spreads the length by ±10 %', async (t) => {
  t.equal(breaker().eject(0, 0), 900);
  t.ok(Math.abs(breaker().eject(0, 0.999) - 1100) < 1);
});

t.test('after a long time without an ejection the length starts again', async (t) => {
  const b = breaker();
  b.eject(0, MIDDLE);
  t.equal(b.eject(1000 + 240_000, MIDDLE), 2000, 'not yet');
  t.equal(b.eject(1000 + 242_000 + 240_001, MIDDLE), 1000);
});

t.test('an ejection resets all counts', async (t) => {
  const b = breaker();
  fail(b, 5, 0);
  b.eject(0, MIDDLE);
  t.same(fail(b, 5, 1000), [false, false, false, false, true]);
});

t.test('the length stays finite after a hundred ejections in a row', async (t) => {
  const b = breaker({ backoffMaxMs: Number.MAX_SAFE_INTEGER });
  for (let i = 0; i < 100; i++) t.ok(Number.isFinite(b.eject(0, MIDDLE)));
});
