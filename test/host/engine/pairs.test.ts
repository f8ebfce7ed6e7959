// When a step has very many sequences, tokens leave in pairs: who waits, for how long, and what never does.
import { createManualClock } from '../../../src/actor/clock.ts';
import { Scheduler } from '../../../src/host/engine/scheduler.ts';
import type { SequenceJob } from '../../../src/host/engine/sequence.ts';
import { timeJob } from '../../../src/host/engine/server-timings.ts';
import { createJob, profile } from './jobs.ts';
import t from 'tap';

interface Line {
  readonly job: SequenceJob;
  /** One entry for each write: the tokens in it, and when it left. */
  readonly writes: { tokens: number[]; atMs: number }[];
  /** When each token became final. */
  readonly dueMs: number[];
}

/** A scheduler with more streams than it writes one by one and steps of 10 ms, and what each client receives. */
function loadedScheduler(
  streams: number,
  options: Partial<SequenceJob> = {},
  changes: Parameters<typeof profile>[0] = {},
) {
  const clock = createManualClock();
  const scheduler = new Scheduler({ profile: profile({ prefillTokenUs: 0, ...changes }), clock, pairAbove: 2 });
  const line = (): Line => {
    const writes: Line['writes'] = [];
    const dueMs: number[] = [];
    let held: number[] = [];
    const write = (): void => {
      if (held.length > 0) writes.push({ tokens: held, atMs: clock.now() });
      held = [];
    };
    const { job } = createJob(1, {
      mayWait: true,
      cachePrompt: false,
      onToken(token, _atUs, waits) {
        held.push(token);
        dueMs.push(clock.now());
        if (!waits) write();
      },
      onDue: write,
      onEnd: write,
      ...options,
    });
    return { job, writes, dueMs };
  };
  const lines = Array.from({ length: streams }, line);
  for (const { job } of lines) scheduler.submit(job);
  return { clock, scheduler, lines, line };
}

const sent = ({ writes }: Line): number[] => writes.flatMap(({ tokens }) => tokens);

t.test('in a large batch a token is at most one step late and never overtaken, and two leave in one write', (t) => {
  const { clock, lines } = loadedScheduler(6);
  clock.advance(200);
  for (const line of lines) {
    t.same(
      sent(line),
      Array.from({ length: sent(line).length }, (_, at) => 1000 + at),
    );
    const leftMs = line.writes.flatMap(({ tokens, atMs }) => tokens.map(() => atMs));
    const lateMs = leftMs.map((ms, at) => ms - line.dueMs[at]!);
    t.ok(lateMs.every((ms) => ms === 0 || ms === 10));
    t.ok(lateMs.includes(10), 'some wait');
    t.equal(line.writes[0]!.atMs, line.dueMs[0], 'the first does not');
    t.ok(line.writes.slice(3).every(({ tokens }) => tokens.length === 2));
  }
  t.end();
});

t.test('the first token of a stream that joins a large batch leaves at once', (t) => {
  const { clock, scheduler, line } = loadedScheduler(4);
  clock.advance(45);
  const late = [line(), line()];
  for (const { job } of late) scheduler.submit(job);
  clock.advance(15);
  for (const { writes } of late) t.same(writes, [{ tokens: [1000], atMs: 60 }]);
  t.end();
});

t.test('one half of the streams is written at every step', (t) => {
  const { clock, lines } = loadedScheduler(6);
  clock.advance(50);
  const writers = (): number[] => lines.flatMap(({ writes }, at) => (writes.at(-1)!.atMs === clock.now() ? [at] : []));
  const first = writers();
  clock.advance(10);
  const second = writers();
  t.equal(first.length, 3);
  t.same(
    [...first, ...second].sort((a, b) => a - b),
    [0, 1, 2, 3, 4, 5],
  );
  t.end();
});

t.test('nothing waits in a step of few, nor of a job that does not let it', (t) => {
  for (const { clock, lines } of [loadedScheduler(2), loadedScheduler(6, { mayWait: false })]) {
    clock.advance(100);
    for (const { writes, dueMs } of lines) {
      t.same(
        writes.map(({ atMs }) => atMs),
        dueMs,
      );
    }
  }
  t.end();
});

t.test('the last token leaves with the end', (t) => {
  const { clock, lines } = loadedScheduler(6, { maxTokens: 5 });
  clock.advance(60);
  for (const line of lines) {
    t.same(sent(line), [1000, 1001, 1002, 1003, 1004]);
    t.equal(line.writes.at(-1)!.atMs, line.dueMs.at(-1));
  }
  t.end();
});

t.test('what waits leaves when memory pressure pushes its sequence out', (t) => {
  const memory = { kind: 'blocks', blocks: 6, blockTokens: 4 } as const;
  const { clock, scheduler, lines } = loadedScheduler(4, {}, { memory });
  for (let step = 0; step < 12; step++) {
    clock.advance(10);
    for (const line of lines) {
      const waitingMs = line.dueMs.slice(sent(line).length).map((ms) => clock.now() - ms);
      t.ok(waitingMs.every((ms) => ms < 10));
    }
  }
  t.ok(scheduler.state().counts.preemptions > 0);
  t.end();
});

t.test('server timings show when a held token was sent', (t) => {
  const clock = createManualClock();
  const scheduler = new Scheduler({ profile: profile({ prefillTokenUs: 0 }), clock, pairAbove: 0 });
  const { job } = createJob(1, { mayWait: true, maxTokens: 4 });
  const timed = timeJob(job, clock);
  scheduler.submit(timed.job);
  clock.advance(100);
  const { tokensUs, handedUs } = timed.timings();
  t.same(tokensUs, [10_000, 20_000, 30_000, 40_000]);
  t.equal(handedUs.length, 4);
  t.ok(handedUs.some((us, at) => us === tokensUs[at]! + 10_000));
  t.equal(handedUs[3], 40_000, 'the last one at once');
  t.end();
});
