// Server timings: when each token was due and when it was handed over.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createManualClock } from '../../../src/actor/clock.ts';
import { Scheduler } from '../../../src/host/engine/scheduler.ts';
import { TimingsLog, timeJob } from '../../../src/host/engine/server-timings.ts';
import { createJob, profile } from './jobs.ts';

import t from 'tap';

t.test('timings are the queue, the first token and each token in microseconds', (t) => {
  let lateMs = 0;
  const manual = createManualClock();
  const clock = { ...manual, now: () => manual.now() + lateMs };
  const scheduler = new Scheduler({ profile: profile({ maxSequences: 1 }), clock });
  const other = createJob(1, { maxTokens: 1 });
  const one = createJob(4, { maxTokens: 2, cachePrompt: false });
  const timed = timeJob(one.job, clock);
  scheduler.submit(other.job);
  scheduler.submit(timed.job);
  t.match(timed.timings(), { arrivedUs: 0, tokensUs: [] });
  manual.advance(11);
  lateMs = 2;
  manual.advance(14);
  manual.advance(10);
  t.match(timed.timings(), {
    arrivedUs: 0,
    startedUs: 11_000,
    firstTokenUs: 25_000,
    queueUs: 11_000,
    tokensUs: [25_000, 35_000],
    handedUs: [27_000, 35_000],
    end: { reason: 'length', endedUs: 35_000 },
  });
  t.same(one.tokens, [1000, 1001], 'the job itself was served');
  t.equal(one.ends.length, 1);
  t.end();
});

t.test('the log forgets the oldest', (t) => {
  const log = new TimingsLog(2);
  const { timings } = timeJob(createJob(1).job, createManualClock(5));
  for (const id of ['a', 'b', 'a', 'c']) log.add(id, timings);
  for (const id of ['a', 'c']) t.equal(log.get(id)?.arrivedUs, 5000);
  t.equal(log.get('b'), undefined);
  t.end();
});

t.test('kept timings of a job that has ended do not keep the job', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const clock = createManualClock();
  const run = (): readonly [() => object, WeakRef<object>] => {
    const scheduler = new Scheduler({ profile: profile(), clock });
    const { job } = createJob(1, { maxTokens: 1 });
    const timed = timeJob(job, clock);
    scheduler.submit(timed.job);
    clock.advance(1000);
    return [timed.timings, new WeakRef(job)];
  };
  const [timings, job] = run();
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  t.match(timings(), { end: { reason: 'length' } });
  t.equal(job.deref(), undefined);
});
