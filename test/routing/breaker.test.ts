// Breaker: consecutive failures, failure rates, and the lengths of ejections.
import t from 'tap';
import { Breaker, type BreakerSettings, FailureRates } from '../../src/routing/breaker.ts';

const SETTINGS: BreakerSettings = {
  consecutive: 5,
  errorRate: 0.5,
  outlierRate: 0.1,
  outlierFactor: 3,
  minRequests: 20,
  windowMs: 10_000,
  backoffMs: 1000,
  backoffMaxMs: 60_000,
};

/** The random number that does not change the length. */
const MIDDLE = 0.5;

const breaker = (settings: Partial<BreakerSettings> = {}): Breaker =>
  new Breaker({ ...SETTINGS, ...settings }, [0], new FailureRates());

/** The results of `count` failures. */
const fail = (b: Breaker, count: number, nowMs: number): boolean[] =>
  Array.from({ length: count }, () => b.failed(0, nowMs, []));

t.test('consecutive failures ask for ejection, and a success resets their count', async (t) => {
  const b = breaker();
  t.same(fail(b, 4, 0), [false, false, false, false]);
  b.ok(0, 0, 1);
  t.same(fail(b, 5, 0), [false, false, false, false, true]);
  t.equal(b.failed(0, 0, []), true, 'further failures ask again');
});

t.test('the failure rate asks for ejection once there are enough requests', async (t) => {
  const b = breaker({ consecutive: 1000 });
  b.ok(0, 0, 9);
  t.same(fail(b, 11, 0).lastIndexOf(false), 9, 'the twentieth request decides');
  const good = breaker({ consecutive: 1000 });
  good.ok(0, 0, 100);
  t.same(fail(good, 99, 0).includes(true), false);
  t.equal(good.failed(0, 0, []), true);
});

t.test('the window drops its older half', async (t) => {
  const b = breaker({ consecutive: 1000, minRequests: 10 });
  b.ok(0, 0, 100);
  t.equal(fail(b, 20, 5000).includes(true), false, 'the good ones still count');
  const later = breaker({ consecutive: 1000, minRequests: 10 });
  later.ok(0, 0, 100);
  later.ok(0, 6000, 1);
  t.equal(fail(later, 12, 10_100).includes(true), true, 'those of the half before last do not');
  const idle = breaker({ consecutive: 1000, minRequests: 10 });
  fail(idle, 9, 0);
  t.equal(idle.failed(0, 100_000, []), false, 'nor does what is older than the window');
});

t.test('consecutive failures count however far apart they are', async (t) => {
  const b = breaker();
  const asked = [0, 1, 2, 3, 4].map((minute) => b.failed(0, minute * 60_000, []));
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

t.test('the random number spreads the length by ±10 %, but not beyond the longest', async (t) => {
  t.equal(breaker().eject(0, 0), 900);
  t.ok(Math.abs(breaker().eject(0, 0.999) - 1100) < 1);
  t.equal(breaker({ backoffMaxMs: 1000 }).eject(0, 0.999), 1000);
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

/** Breakers of CRNs that have one model; CRN `at` has member `at`. */
const fleet = (count: number, settings: Partial<BreakerSettings> = {}): Breaker[] => {
  const rates = new FailureRates();
  return Array.from({ length: count }, (_, at) => new Breaker({ ...SETTINGS, ...settings }, [at], rates));
};

/** Whether the last of `total` outcomes, evenly mixed with `failures`, asks for ejection. */
const run = (b: Breaker, member: number, total: number, failures: number, peers: readonly number[]): boolean => {
  let asked = false;
  for (let i = 0; i < total; i++) {
    if (Math.floor(((i + 1) * failures) / total) > Math.floor((i * failures) / total)) {
      asked = b.failed(member, 0, peers);
    } else {
      b.ok(member, 0, 1);
    }
  }
  return asked;
};

t.test('a failure rate of 0.1 asks for ejection where it is three times that of the other CRNs', async (t) => {
  for (const [own, peer, asked] of [
    [10, 3, true],
    [10, 4, false],
    [9, 0, false],
    [10, 0, true],
    [30, 10, true],
    [30, 11, false],
  ] as const) {
    const [suspect, other] = fleet(2) as [Breaker, Breaker];
    run(other, 1, 100, peer, [0]);
    t.equal(run(suspect, 0, 100, own, [1]), asked, `${own} % beside ${peer} %`);
  }
});

t.test('a rate is compared only where each CRN has at least 20 requests', async (t) => {
  for (const [own, peer, asked] of [
    [20, 20, true],
    [19, 20, false],
    [20, 19, false],
    [20, 0, false],
  ] as const) {
    const [suspect, other] = fleet(2) as [Breaker, Breaker];
    other.ok(1, 0, peer);
    t.equal(run(suspect, 0, own, 4, [1]), asked, `${own} requests beside ${peer}`);
  }
});

t.test('the other CRNs are compared as one, without those that have too few requests', async (t) => {
  const [suspect, bad, good] = fleet(3) as [Breaker, Breaker, Breaker];
  run(bad, 1, 19, 9, []);
  good.ok(2, 0, 20);
  t.equal(run(suspect, 0, 20, 2, [1, 2]), true);
  const [second, other, third] = fleet(3) as [Breaker, Breaker, Breaker];
  run(other, 1, 20, 9, []);
  third.ok(2, 0, 80);
  t.equal(run(second, 0, 20, 5, [1, 2]), false, '0.25 beside 0.09');
  t.equal(run(second, 0, 20, 20, [1, 2]), true);
});

t.test('a CRN is an outlier for one of its models even if it serves the others well', async (t) => {
  const rates = new FailureRates();
  const shared = new Breaker(SETTINGS, [0, 1], rates);
  const peer = new Breaker(SETTINGS, [2], rates);
  peer.ok(2, 0, 50);
  shared.ok(1, 0, 1000);
  t.equal(run(shared, 0, 20, 4, [2]), true);
});

t.test('the rate of a CRN is that of all its models', async (t) => {
  const shared = new Breaker({ ...SETTINGS, consecutive: 1000 }, [0, 1], new FailureRates());
  for (let i = 0; i < 19; i++) t.equal(shared.failed(i % 2, 0, []), false);
  t.equal(shared.failed(0, 0, []), true);
});
