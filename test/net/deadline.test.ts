// DeadlineQueue on a manual clock: precision, moving and clearing, and a comparison with a list that is searched.
import fc from 'fast-check';
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import { type Deadline, DeadlineQueue } from '../../src/net/deadline.ts';

const TICK_MS = 10;

function open(): { clock: ManualClock; queue: DeadlineQueue; timers: () => number } {
  const manual = createManualClock(1000);
  let timers = 0;
  const clock: ManualClock = {
    ...manual,
    now: () => manual.now(),
    get nextDueMs() {
      return manual.nextDueMs;
    },
    setTimeout(callback, delayMs) {
      timers++;
      return manual.setTimeout(callback, delayMs);
    },
  };
  return { clock, queue: new DeadlineQueue(clock, TICK_MS), timers: () => timers };
}

t.test('expires once, never early and at most a tick late', async (t) => {
  const { clock, queue } = open();
  const expired: number[] = [];
  queue.deadline({ expire: () => expired.push(clock.now()) }).set(100);
  clock.advance(99);
  t.same(expired, []);
  clock.advance(TICK_MS + 1);
  t.same(expired, [1100]);
  clock.advance(10_000);
  t.equal(expired.length, 1);
  t.equal(clock.nextDueMs, Infinity, 'no timer without deadlines');
});

t.test('can be moved, cleared and set again', async (t) => {
  const { clock, queue } = open();
  let expired = 0;
  const deadline = queue.deadline({ expire: () => expired++ });
  deadline.clear();
  deadline.set(100);
  clock.advance(90);
  deadline.set(100);
  clock.advance(90);
  t.equal(expired, 0);
  deadline.clear();
  deadline.clear();
  clock.advance(1000);
  t.equal(expired, 0);
  deadline.set(5);
  clock.advance(20);
  t.equal(expired, 1);
});

t.test('an expiry may set, clear and create deadlines', async (t) => {
  const { clock, queue } = open();
  const seen: string[] = [];
  const second = queue.deadline({ expire: () => seen.push('second') });
  const again: Deadline = queue.deadline({
    expire: () => {
      seen.push('first');
      second.clear();
      queue.deadline({ expire: () => seen.push('third') }).set(1);
      if (seen.length < 3) again.set(50);
    },
  });
  again.set(50);
  second.set(50);
  clock.advance(300);
  t.same(seen, ['first', 'third', 'first', 'third']);
});

t.test('thousands of deadlines of a few durations need a few timers', async (t) => {
  const { clock, queue, timers } = open();
  const deadlines = Array.from({ length: 5000 }, () => queue.deadline({ expire: () => undefined }));
  for (const deadline of deadlines) {
    deadline.set(3000);
    deadline.set(600_000);
    deadline.set(60_000);
    deadline.clear();
    clock.advance(0.1);
  }
  t.ok(timers() <= 4, `${timers()} timers`);
});

t.test('moving a deadline by its own duration sets no timer and never lets it live a tick longer', async (t) => {
  const { clock, queue, timers } = open();
  const expired: string[] = [];
  const moved = queue.deadline({ expire: () => expired.push(`moved at ${clock.now()}`) });
  const later = queue.deadline({ expire: () => expired.push(`later at ${clock.now()}`) });
  moved.set(1000);
  for (let i = 0; i < 80; i++) {
    clock.advance(10);
    moved.set(1000);
    if (i === 70) later.set(1000);
  }
  t.equal(timers(), 1);
  // Last moved at 1800, and set before that at 1710: the other one is due first although it was queued later.
  clock.advance(910 + TICK_MS);
  t.same(expired, ['later at 2710']);
  clock.advance(90);
  t.same(expired, ['later at 2710', 'moved at 2800']);
  t.equal(clock.nextDueMs, Infinity);
});

type Step = readonly [kind: 'set' | 'clear' | 'advance', which: number, ms: number];

const advance = fc.tuple(fc.constant('advance' as const), fc.constant(0), fc.constantFrom(0, 0.3, 1, 7, 10, 33, 200));
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.constant('set' as const), fc.nat(7), fc.constantFrom(1, 5, 10, 25, 25.5, 100)),
  fc.tuple(fc.constant('clear' as const), fc.nat(7), fc.constant(0)),
  advance,
);
/** Deadlines of one duration that are moved again and again, as by the pieces of streams. */
const move: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.constant('set' as const), fc.nat(7), fc.constant(100)),
  fc.tuple(fc.constant('advance' as const), fc.constant(0), fc.constantFrom(1, 7, 10, 33)),
);
const script = fc.oneof(fc.array(step, { maxLength: 60 }), fc.array(move, { maxLength: 60 }));

t.test('expires like a list of deadlines that is searched', async () => {
  fc.assert(
    fc.property(script, (steps) => {
      const { clock, queue } = open();
      const due = new Array<number>(8).fill(Infinity);
      const early: string[] = [];
      const deadlines = due.map((_, at) =>
        queue.deadline({
          expire: () => {
            if (due[at] === Infinity || clock.now() < (due[at] as number)) early.push(`${at} at ${clock.now()}`);
            due[at] = Infinity;
          },
        }),
      );
      for (const [kind, which, ms] of steps) {
        if (kind === 'advance') clock.advance(ms);
        else if (kind === 'clear') deadlines[which]?.clear();
        else deadlines[which]?.set(ms);
        if (kind !== 'advance') due[which] = kind === 'set' ? clock.now() + ms : Infinity;
        // None is overdue by more than a tick.
        if (due.some((dueMs) => dueMs + TICK_MS < clock.now())) return false;
      }
      clock.advance(1000);
      return early.length === 0 && due.every((dueMs) => dueMs === Infinity) && clock.nextDueMs === Infinity;
    }),
    { numRuns: 3000 },
  );
});

t.test('an error of one owner surfaces and takes no deadline from the others', async (t) => {
  const { clock, queue } = open();
  const expired: string[] = [];
  queue.deadline({ expire: () => expired.push('before') }).set(100);
  const fails = (): void => {
    throw new Error('oh');
  };
  queue.deadline({ expire: fails }).set(100);
  queue.deadline({ expire: () => expired.push('behind') }).set(100);
  queue.deadline({ expire: () => expired.push('later') }).set(500);
  t.throws(() => clock.advance(120), 'oh');
  t.same(expired, ['before', 'behind']);
  clock.advance(500);
  t.same(expired, ['before', 'behind', 'later']);
});

t.test('an owner that takes its errors keeps them', async (t) => {
  const { clock, queue } = open();
  const seen: unknown[] = [];
  const error = new Error('oh');
  const fails = (): void => {
    throw error;
  };
  queue.deadline({ expire: fails, onDefect: (thrown) => seen.push(thrown) }).set(100);
  queue.deadline({ expire: () => seen.push('behind') }).set(100);
  clock.advance(120);
  t.same(seen, [error, 'behind']);
});
