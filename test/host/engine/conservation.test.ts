// Whatever happens to an engine under pressure, what goes in comes out once, memory is given back, and the same seed and
// arrivals give the same history.

import type { Test } from 'tap';
import t from 'tap';
import { createVirtualClock } from '../../../src/host/engine/engine-clock.ts';
import type { Memory } from '../../../src/host/engine/profile.ts';
import { Scheduler } from '../../../src/host/engine/scheduler.ts';
import { type Watched, createDice, createJob, profile } from './jobs.ts';

const MEMORIES: readonly Memory[] = [
  { kind: 'blocks', blocks: 24, blockTokens: 4 },
  { kind: 'slots', capacityTokens: 160, choice: 'similarity' },
  { kind: 'slots', capacityTokens: 384, choice: 'least-recent' },
];

interface Story {
  readonly jobs: readonly Watched[];
  readonly history: readonly unknown[];
}

function live(t: Test, memory: Memory, seed: number): Story {
  const dice = createDice(seed);
  const clock = createVirtualClock();
  const scheduler = new Scheduler({
    profile: profile({ memory, maxSequences: 6, maxBatchTokens: 20, contextTokens: 64 }),
    clock,
  });
  const jobs: Watched[] = [];
  const history: unknown[] = [];
  const arrive = (): void => {
    // Three families of prompts, so that beginnings are shared.
    const family = dice(3) * 100;
    const prompt = Array.from({ length: 1 + dice(80) }, (_, at) => (at < 24 ? family + at : dice(5)));
    const mortality = dice(4) === 0 ? 30 : 10_000;
    const one: Watched = createJob(prompt, {
      maxTokens: dice(8) === 0 ? Infinity : dice(90),
      cachePrompt: dice(4) > 0,
      slotId: dice(8) - 1,
      keepTokens: dice(12) - 1,
      whenFull: dice(2) === 0 ? 'shift' : 'stop',
      next: () => (dice(mortality) === 0 ? null : dice(50)),
    });
    jobs.push(one);
    scheduler.submit(one.job);
  };
  for (let event = 0; event < 400; event++) {
    if (dice(3) === 0) arrive();
    if (dice(9) === 0 && jobs.length > 0) scheduler.cancel(jobs[dice(jobs.length)]!.job);
    if (dice(150) === 0) scheduler.outOfMemory();
    clock.step();
    const { usedTokens, idleTokens, capacityTokens, running, waiting } = scheduler.state();
    if (usedTokens + idleTokens > capacityTokens) t.fail(`holds ${usedTokens} + ${idleTokens} tokens`);
    const open = jobs.filter(({ ends }) => ends.length === 0).length;
    if (running + waiting > open) t.fail('counts more than there are');
    history.push([clock.now(), usedTokens, idleTokens, running, waiting]);
  }
  for (const { job } of jobs) if (job.maxTokens === Infinity) scheduler.cancel(job);
  clock.run();
  t.match(scheduler.state(), { running: 0, waiting: 0, usedTokens: 0 });
  history.push(
    scheduler.state(),
    jobs.map(({ tokens, atUs, ends }) => [tokens, atUs, ends]),
  );
  return { jobs, history };
}

for (const memory of MEMORIES) {
  t.test(`every job ends once with what it asked for, and memory is returned: ${JSON.stringify(memory)}`, (t) => {
    let preemptions = 0;
    let cached = 0;
    for (let seed = 1; seed <= 12; seed++) {
      for (const { job, tokens, atUs, starts, ends } of live(t, memory, seed).jobs) {
        const [end] = ends;
        if (ends.length !== 1 || end === undefined) return t.fail(`ended ${ends.length} times`);
        const isRight =
          end.generatedTokens === tokens.length &&
          (end.reason !== 'length' || tokens.length === job.maxTokens) &&
          tokens.length <= job.maxTokens &&
          starts.length <= 1 &&
          end.cachedTokens < end.promptTokens &&
          (job.cachePrompt || end.cachedTokens === 0) &&
          end.arrivedUs <= end.startedUs &&
          end.startedUs <= end.firstTokenUs &&
          end.firstTokenUs <= end.endedUs &&
          atUs.every((at, index) => index === 0 || at > atUs[index - 1]!);
        if (!isRight) t.fail(JSON.stringify({ end, asked: job.maxTokens, got: tokens.length }));
        preemptions += end.preemptions;
        cached += end.cachedTokens;
      }
    }
    t.ok(cached > 0, `${cached} tokens came from the cache`);
    t.ok(memory.kind === 'slots' && memory.capacityTokens === 384 ? preemptions === 0 : preemptions > 0);
    t.end();
  });

  t.test(`the same seed gives the same history: ${JSON.stringify(memory)}`, (t) => {
    t.same(live(t, memory, 77).history, live(t, memory, 77).history);
    t.not(JSON.stringify(live(t, memory, 78).history), JSON.stringify(live(t, memory, 77).history));
    t.end();
  });
}
