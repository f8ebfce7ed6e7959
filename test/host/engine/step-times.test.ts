// Step times of one machine: the formula alone, and what the seed adds to it.
import t from 'tap';
import type { Profile } from '../../../src/host/engine/profile.ts';
import { StepTimes, derivedSeed } from '../../../src/host/engine/step-times.ts';
import { profile } from './jobs.ts';

const DECODE = { decodingCount: 4, memoryTokens: 1000, prefillTokens: 0, prefillPairs: 0 };

function timesOf(
  machine: Profile,
  settings: Partial<ConstructorParameters<typeof StepTimes>[1]>,
  steps: number,
): number[] {
  const times = new StepTimes(machine, { seed: 1, ...settings });
  let nowUs = 0;
  return Array.from({ length: steps }, () => {
    const us = times.next(nowUs, DECODE);
    nowUs += us;
    return us;
  });
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]!;
}

t.test('without variation every step takes what the formula says', async (t) => {
  const plain = profile({ sequenceUs: 100, memoryTokenUs: 2, prefillPairUs: 0.5, prefillStepUs: 20_000 });
  t.same(new Set(timesOf(plain, {}, 50)), new Set([10_000 + 400 + 2000]));
  t.same(new Set(timesOf({ ...plain, variation: { jitter: 0.5 } }, { seed: null }, 50)), new Set([12_400]));
  t.same(new Set(timesOf(plain, { slowdown: 1.5 }, 50)), new Set([18_600]));
  const prefill = { decodingCount: 0, memoryTokens: 0, prefillTokens: 10, prefillPairs: 55 };
  t.equal(new StepTimes(plain, { seed: null }).next(0, prefill), 20_000 + 10_000 + 28);
});

t.test('jitter is log-normal around the formula, the same for the same seed', async (t) => {
  const varied = profile({ variation: { jitter: 0.1 } });
  const times = timesOf(varied, {}, 20_000);
  t.same(timesOf(varied, {}, 20_000), times);
  t.not(timesOf(varied, { seed: 2 }, 1)[0], times[0]);
  t.ok(Math.abs(quantile(times, 0.5) / 10_000 - 1) < 0.005, 'median 1');
  t.ok(Math.abs(Math.log(quantile(times, 0.95) / 10_000) / 0.1 - 1.645) < 0.05);
  t.ok(Math.abs(Math.log(quantile(times, 0.05) / 10_000) / 0.1 + 1.645) < 0.05);
});

t.test('long steps vary less', async (t) => {
  const varied = profile({ sequenceUs: 22_500, variation: { jitter: 0.1 } });
  const times = timesOf(varied, {}, 20_000);
  t.ok(Math.abs(quantile(times, 0.5) / 100_000 - 1) < 0.005, 'ten times the least step');
  t.ok(Math.abs(Math.log(quantile(times, 0.95) / 100_000) / (0.1 * 10 ** -0.62) - 1.645) < 0.05);
});

t.test('stalls are rare, at least so long, with a heavy tail, and bounded', async (t) => {
  const stalls = { everyMs: 1000, leastMs: 100, shape: 1.5, mostMs: 2000 };
  const times = timesOf(profile({ variation: { jitter: 0, stalls } }), {}, 100_000);
  const stalled = times.filter((us) => us > 10_000).map((us) => (us - 10_000) / 1000);
  t.ok(stalled.length > 850 && stalled.length < 1150, `${stalled.length} stalls in 1000 s of work`);
  t.ok(Math.min(...stalled) >= 100);
  t.equal(Math.max(...stalled), 2000);
  // P(X > x) = (least / x) ^ shape
  t.ok(Math.abs(quantile(stalled, 0.5) / (100 * 2 ** (1 / 1.5)) - 1) < 0.1);
  t.ok(Math.abs(quantile(stalled, 0.9) / (100 * 10 ** (1 / 1.5)) - 1) < 0.15);
});

t.test('machines of one kind differ, and few are slow', async (t) => {
  const machines = { spread: 0.03, slowShare: 0.1, slowFactor: 2 };
  const varied = profile({ variation: { jitter: 0, machines } });
  const factors = Array.from(
    { length: 2000 },
    (_, seed) => timesOf(varied, { seed: derivedSeed(seed, 'x') }, 1)[0]! / 10_000,
  );
  const slow = factors.filter((factor) => factor > 1.5);
  t.ok(slow.length > 150 && slow.length < 250, `${slow.length} of 2000`);
  t.ok(Math.abs(quantile(slow, 0.5) - 2) < 0.05);
  t.ok(
    Math.abs(
      quantile(
        factors.filter((factor) => factor < 1.5),
        0.95,
      ) - Math.exp(0.03 * 1.645),
    ) < 0.01,
  );
});

t.test('load makes a machine slower, and rest makes it as fast as before', async (t) => {
  const thermal = { factor: 1.4, overMs: 10_000 };
  const times = new StepTimes(profile({ variation: { jitter: 0, thermal } }), { seed: 1 });
  let nowUs = 0;
  const step = (): number => {
    const us = times.next(nowUs, DECODE);
    nowUs += us;
    return us;
  };
  t.equal(step(), 10_000);
  while (nowUs < 10_000_000) step();
  t.ok(Math.abs(step() / 10_000 - (1 + 0.4 * (1 - Math.exp(-1)))) < 0.01);
  while (nowUs < 100_000_000) step();
  t.ok(step() > 13_990);
  nowUs += 10_000_000;
  t.ok(Math.abs(step() / 10_000 - (1 + 0.4 * Math.exp(-1))) < 0.01);
  nowUs += 1_000_000_000;
  t.equal(step(), 10_000);
});

t.test('a cold machine is slow at first', async (t) => {
  const cold = profile({ coldStart: { loadMs: 5000, factor: 3, overMs: 1000 } });
  const times = timesOf(cold, { isCold: true }, 1000);
  t.equal(times[0], 30_000);
  t.ok(times[50]! < times[0]! && times[50]! > 10_500);
  t.equal(times.at(-1), 10_000);
  t.equal(timesOf(cold, {}, 1)[0], 10_000);
});
