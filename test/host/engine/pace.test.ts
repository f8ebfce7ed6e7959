// Constant pace: the header that sets it, and a scheduler with a paced profile, whose steps belong to one job.
import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import { parsePace } from '../../../src/host/engine/pace.ts';
import { pacedProfile } from '../../../src/host/engine/profile.ts';
import { Scheduler } from '../../../src/host/engine/scheduler.ts';
import { createJob } from './jobs.ts';

t.test('the pace header is read part by part and refuses what it does not know', async (t) => {
  t.same(parsePace(undefined), {});
  t.same(parsePace('ttft=0, itl=2.5,tokens=64'), { timeToFirstTokenMs: 0, interTokenMs: 2.5, tokens: 64 });
  t.same(parsePace('itl=0'), { interTokenMs: 0 });
  for (const spec of ['itl', 'itl=', 'itl=-1', 'itl=x', 'speed=3']) t.throws(() => parsePace(spec), /pace/);
});

t.test('tokens leave at the pace, and the end comes with the last one', async (t) => {
  const clock = createManualClock(100);
  let left = 3;
  const { job, atUs, ends } = createJob(500, { cachePrompt: false, next: () => (left-- > 0 ? 1 : null) });
  const scheduler = new Scheduler({ profile: pacedProfile(30, 10), clock });
  scheduler.submit(job);
  clock.advance(49.9);
  t.same(atUs, [130_000, 140_000]);
  clock.advance(0.1);
  t.same(atUs, [130_000, 140_000, 150_000]);
  t.match(ends, [{ reason: 'stopped', firstTokenUs: 130_000, endedUs: 150_000, promptTokens: 500, cachedTokens: 0 }]);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('a stream that was late goes on at its pace and does not catch up', async (t) => {
  const clock = createManualClock();
  let behindMs = 0;
  const late = { ...clock, now: () => clock.now() + behindMs };
  const { job, atUs } = createJob(1, { cachePrompt: false });
  const scheduler = new Scheduler({ profile: pacedProfile(0, 10), clock: late });
  scheduler.submit(job);
  t.same(atUs, [0], 'at once');
  behindMs = 500;
  clock.advance(10);
  t.same(atUs, [0, 10_000, 510_000], '49 tokens are not made up for');
  clock.advance(20);
  t.same(atUs, [0, 10_000, 510_000, 520_000, 530_000]);
  scheduler.close();
});

t.test('without time between tokens, they leave until the client is full, and go on when it is not', async (t) => {
  const clock = createManualClock();
  let room = 3;
  let resume = (): void => {};
  const held: boolean[] = [];
  let due = 0;
  const { job, ends } = createJob(1, {
    cachePrompt: false,
    maxTokens: 5,
    mayWait: true,
    onToken: (_token, _atUs, waits) => held.push(waits),
    onDue: () => void due++,
    rest: () => (--room > 0 ? undefined : new Promise<void>((resolve) => (resume = resolve))),
  });
  const scheduler = new Scheduler({ profile: pacedProfile(0, 0), clock });
  scheduler.submit(job);
  t.same([held, due], [[false, true, true], 1], 'all but the first are held, and leave together');
  t.equal(clock.nextDueMs, Infinity);
  clock.advance(1000);
  t.equal(held.length, 3);
  room = 100;
  resume();
  await Promise.resolve();
  clock.advance(0);
  t.match([held.length, ends], [5, [{ reason: 'length', generatedTokens: 5 }]]);
});

t.test('a job that is cancelled while its client is full ends, and stays ended', async (t) => {
  const clock = createManualClock();
  let resume = (): void => {};
  const rest = (): Promise<void> => new Promise<void>((resolve) => (resume = resolve));
  const { job, tokens, ends } = createJob(1, { cachePrompt: false, rest });
  const scheduler = new Scheduler({ profile: pacedProfile(0, 0), clock });
  scheduler.submit(job);
  scheduler.close();
  t.match([tokens.length, ends], [1, [{ reason: 'cancelled' }]]);
  resume();
  await Promise.resolve();
  t.same([tokens.length, ends.length, clock.nextDueMs], [1, 1, Infinity]);
});
