// The scheduler on a virtual clock: contents and duration of steps, queueing, preemption, ends.

import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import { createVirtualClock } from '../../../src/host/engine/engine-clock.ts';
import type { Profile } from '../../../src/host/engine/profile.ts';
import { Scheduler } from '../../../src/host/engine/scheduler.ts';
import { createJob, profile } from './jobs.ts';

function setUp(changes: Partial<Profile> = {}) {
  const clock = createVirtualClock();
  return { clock, scheduler: new Scheduler({ profile: profile(changes), clock }) };
}

t.test('the first token comes with the end of the prompt, the others a step apart', (t) => {
  const { clock, scheduler } = setUp();
  const one = createJob(5, { maxTokens: 3 });
  scheduler.submit(one.job);
  t.same(one.starts, [[0, 0, 5]]);
  clock.run();
  t.same(one.tokens, [1000, 1001, 1002]);
  t.same(one.atUs, [15_000, 25_000, 35_000]);
  t.match(one.ends, [{ reason: 'length', firstTokenUs: 15_000, endedUs: 35_000, generatedTokens: 3, slotId: 0 }]);
  t.equal(one.ends.length, 1);
  t.end();
});

t.test('a long prompt is evaluated in chunks and slows the others down while it lasts', (t) => {
  const { clock, scheduler } = setUp({ maxBatchTokens: 9 });
  const fast = createJob(1, { maxTokens: 5 });
  scheduler.submit(fast.job);
  const long = createJob(17, { maxTokens: 1 });
  scheduler.submit(long.job);
  clock.run();
  // 11 alone; 8, 8 and 1 prompt tokens beside it; 10 alone again.
  t.same(fast.atUs, [11_000, 29_000, 47_000, 58_000, 68_000]);
  t.same(long.atUs, [58_000]);
  t.equal(long.ends[0]?.startedUs, 11_000);
  t.end();
});

t.test('prompts share what is left of the budget, the older first', (t) => {
  const { clock, scheduler } = setUp({ maxBatchTokens: 10 });
  const fast = createJob(1, { maxTokens: 1 });
  const older = createJob(12, { maxTokens: 1, cachePrompt: false });
  const newer = createJob(6, { maxTokens: 1, cachePrompt: false });
  for (const { job } of [fast, older, newer]) scheduler.submit(job);
  clock.run();
  // 10 tokens of the older; its last 2 and all 6 of the newer.
  t.same([older.atUs, newer.atUs], [[49_000], [49_000]]);
  t.equal(newer.ends[0]?.startedUs, 31_000);
  t.equal(scheduler.state().counts.prefillTokens, 19);
  t.end();
});

t.test('two long prompts never exceed the budget of a step', (t) => {
  const { clock, scheduler } = setUp({ maxBatchTokens: 10 });
  const jobs = [1, 15, 15].map((length) => createJob(length, { maxTokens: 1, cachePrompt: false }));
  for (const { job } of jobs) scheduler.submit(job);
  clock.run();
  // 11 alone; then 10, 5 + 5 and 10 tokens.
  t.same(
    jobs.map(({ atUs }) => atUs),
    [[11_000], [51_000], [71_000]],
  );
  t.end();
});

t.test('sequences without a slot are queued first come first served', (t) => {
  const { clock, scheduler } = setUp({ maxSequences: 1 });
  const jobs = [1, 2, 3].map(() => createJob(5, { maxTokens: 2, cachePrompt: false }));
  for (const { job } of jobs) scheduler.submit(job);
  t.match(scheduler.state(), { running: 1, waiting: 2 });
  clock.run();
  t.same(
    jobs.map(({ ends }) => ends[0]?.startedUs),
    [0, 25_000, 50_000],
  );
  t.end();
});

t.test('no tokens asked for only brings the prompt into the cache', (t) => {
  const { clock, scheduler } = setUp();
  const first = createJob(9, { maxTokens: 0, next: () => t.fail('nothing is sampled') as never });
  scheduler.submit(first.job);
  clock.run();
  t.match(first.ends, [{ reason: 'length', generatedTokens: 0, firstTokenUs: 0, endedUs: 19_000 }]);
  const second = createJob(9, { maxTokens: 1 });
  scheduler.submit(second.job);
  clock.run();
  t.same(second.starts, [[0, 8, 9]]);
  t.end();
});

t.test('null from the sampler ends the sequence with that step', (t) => {
  const { clock, scheduler } = setUp();
  let left = 2;
  const one = createJob(1, { next: () => (left-- > 0 ? 7 : null) });
  scheduler.submit(one.job);
  clock.run();
  t.same(one.tokens, [7, 7]);
  t.match(one.ends, [{ reason: 'stopped', endedUs: 31_000, generatedTokens: 2 }]);
  t.end();
});

t.test('cancelling frees at once what waits and at the end of the step what runs', (t) => {
  const { clock, scheduler } = setUp({ maxSequences: 1 });
  const runs = createJob(1);
  const waits = createJob(1);
  const next = createJob(1, { maxTokens: 1 });
  for (const { job } of [runs, waits, next]) scheduler.submit(job);
  clock.step();
  t.ok(scheduler.cancel(waits.job));
  t.match(waits.ends, [{ reason: 'cancelled', slotId: -1, generatedTokens: 0 }]);
  t.ok(scheduler.cancel(runs.job));
  t.notOk(scheduler.cancel(runs.job), 'once');
  t.same(runs.ends, []);
  clock.step();
  t.match(runs.ends, [{ reason: 'cancelled', generatedTokens: 1, endedUs: 21_000 }]);
  clock.run();
  t.match(next.ends, [{ reason: 'length', startedUs: 21_000 }]);
  t.equal(scheduler.state().usedTokens, 0);
  t.end();
});

t.test('memory pressure pushes out the newest, which is computed again and loses nothing', (t) => {
  const { clock, scheduler } = setUp({ memory: { kind: 'blocks', blocks: 10, blockTokens: 4 } });
  const old = createJob(8, { maxTokens: 24, cachePrompt: false });
  const young = createJob(8, { maxTokens: 24, cachePrompt: false });
  scheduler.submit(old.job);
  scheduler.submit(young.job);
  clock.run();
  t.equal(old.ends[0]?.preemptions, 0);
  t.ok(young.ends[0]!.preemptions > 0);
  t.equal(scheduler.state().counts.preemptions, young.ends[0]?.preemptions);
  for (const { tokens, starts, ends } of [old, young]) {
    t.same(
      tokens,
      Array.from({ length: 24 }, (_, at) => 1000 + at),
    );
    t.equal(starts.length, 1);
    t.equal(ends[0]?.reason, 'length');
  }
  t.ok(young.ends[0]!.endedUs > old.ends[0]!.endedUs);
  t.end();
});

t.test('a sequence that can never fit ends out of memory, at once or when it has grown too long', (t) => {
  const { clock, scheduler } = setUp({ memory: { kind: 'blocks', blocks: 2, blockTokens: 4 } });
  const large = createJob(9);
  const grows = createJob(5);
  scheduler.submit(large.job);
  t.same(large.ends, [], 'never before submit returns');
  scheduler.submit(grows.job);
  clock.run();
  t.match(large.ends, [{ reason: 'out-of-memory', generatedTokens: 0, slotId: -1 }]);
  t.match(grows.ends, [{ reason: 'out-of-memory', generatedTokens: 4 }]);
  t.equal(scheduler.state().usedTokens, 0);
  t.end();
});

for (const memory of [
  { kind: 'blocks', blocks: 8, blockTokens: 4 },
  { kind: 'slots', capacityTokens: 32, choice: 'similarity' },
] as const) {
  t.test(`a full context ends the sequence or moves, as the job wants (${memory.kind})`, (t) => {
    const { clock, scheduler } = setUp({ contextTokens: 16, maxSequences: 1, memory });
    const stops = createJob(10);
    const shifts = createJob(10, { whenFull: 'shift', keepTokens: 3, maxTokens: 20 });
    const cut = createJob(40, { whenFull: 'shift', keepTokens: 4, maxTokens: 1 });
    const tooLong = createJob(16);
    for (const { job } of [stops, shifts, cut, tooLong]) scheduler.submit(job);
    clock.run();
    t.match(stops.ends, [{ reason: 'context', generatedTokens: 6, isTruncated: false }]);
    t.match(shifts.ends, [{ reason: 'length', generatedTokens: 20, isTruncated: true }]);
    t.match(cut.ends, [{ reason: 'length', promptTokens: 10, isTruncated: true }]);
    t.match(tooLong.ends, [{ reason: 'context', generatedTokens: 0 }]);
    t.equal(scheduler.state().usedTokens, 0);
    t.end();
  });
}

t.test('out of memory on demand ends all sequences, empties the cache and continues', (t) => {
  const { clock, scheduler } = setUp({ maxSequences: 1 });
  const runs = createJob(9);
  const waits = createJob(9);
  scheduler.submit(runs.job);
  scheduler.submit(waits.job);
  clock.step();
  scheduler.outOfMemory();
  clock.step();
  t.match(runs.ends, [{ reason: 'out-of-memory', generatedTokens: 2 }]);
  t.match(waits.ends, [{ reason: 'out-of-memory', generatedTokens: 0 }]);
  t.match(scheduler.state(), { usedTokens: 0, idleTokens: 0, running: 0, waiting: 0 });
  const later = createJob(9, { maxTokens: 1 });
  scheduler.submit(later.job);
  clock.run();
  t.match(later.ends, [{ reason: 'length', cachedTokens: 0, startedUs: 29_000 }]);
  t.end();
});

t.test('closing cancels everything and takes no more', async (t) => {
  const { clock, scheduler } = setUp();
  const endless = createJob(1);
  scheduler.submit(endless.job);
  scheduler.close();
  t.match(endless.ends, [{ reason: 'cancelled' }]);
  t.equal(clock.run(), 0, 'no timer is left');
  t.equal(scheduler.state().usedTokens, 0);
  t.notOk(scheduler.submit(createJob(1).job));
});

t.test('a late process keeps the schedule, and gives it up only when hopelessly late', (t) => {
  let lateMs = 0;
  const manual = createManualClock();
  const clock = { ...manual, now: () => manual.now() + lateMs };
  const scheduler = new Scheduler({ profile: profile(), clock });
  const one = createJob(1, { maxTokens: 40 });
  scheduler.submit(one.job);
  manual.advance(11);
  t.same(one.atUs, [11_000]);
  lateMs = 25;
  manual.advance(10);
  t.same(one.atUs, [11_000, 21_000, 31_000, 41_000], 'two steps are made good at once, each at its own time');
  t.match(scheduler.state(), { mostBehindUs: 25_000, lateSteps: 2 });
  lateMs = 1525;
  manual.advance(10);
  t.same(one.atUs.slice(4), [51_000], 'the next step begins now and not when it should have');
  manual.advance(20);
  t.ok(one.atUs[5]! > 1_000_000);
  scheduler.close();
  t.end();
});

t.test('the state counts what the scheduler has done', (t) => {
  const { clock, scheduler } = setUp({ maxSequences: 2 });
  const one = createJob(8, { maxTokens: 200 });
  scheduler.submit(one.job);
  for (let steps = 0; steps < 121; steps++) clock.step();
  t.match(scheduler.state().counts, { steps: 121, promptTokens: 8, prefillTokens: 8, generatedTokens: 121 });
  t.end();
});

t.test('what cannot be a job or a profile is refused', (t) => {
  const { scheduler } = setUp();
  t.throws(() => scheduler.submit(createJob(0).job), RangeError);
  const one = createJob(1);
  scheduler.submit(one.job);
  t.throws(() => scheduler.submit(one.job), RangeError);
  t.throws(() => setUp({ maxBatchTokens: 4 }), /maxBatchTokens/);
  t.throws(() => setUp({ stepUs: -1 }), /stepUs/);
  t.throws(
    () => setUp({ maxSequences: 100_001, maxBatchTokens: 100_001 }),
    /the number of slots, must be at most 100000/,
  );
  t.end();
});

t.test('prompts may come before decoding, which pauses', async (t) => {
  const clock = createManualClock();
  const machine = { sequenceUs: 0, prefillTokenUs: 100, maxBatchTokens: 64 };
  const arrive = (prefill: 'chunked' | 'first') => {
    const scheduler = new Scheduler({ profile: profile({ ...machine, prefill }), clock });
    const first = createJob(4, { cachePrompt: false, maxTokens: 6 });
    const long = createJob(160, { cachePrompt: false, maxTokens: 1 });
    const startMs = clock.now();
    scheduler.submit(first.job);
    clock.advance(11);
    scheduler.submit(long.job);
    clock.advance(500);
    const since = (us: number): number => Math.round(us / 100 - startMs * 10) / 10;
    return { decoded: first.atUs.map(since), evaluated: long.atUs.map(since) };
  };
  const chunked = arrive('chunked');
  const before = arrive('first');
  t.same(before.decoded.slice(0, 2), [10.4, 20.4], 'the step under way goes on');
  t.same(before.evaluated, [66.4], 'three chunks of at most 64 tokens with nothing beside them');
  t.same(before.decoded.slice(2), [76.4, 86.4, 96.4, 106.4]);
  t.equal(chunked.decoded.length, 6);
  t.ok(chunked.decoded.at(-1)! < before.decoded.at(-1)!, 'beside decoding, every step has a token');
});
