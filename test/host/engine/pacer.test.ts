import { type Clock, createManualClock } from '../../../src/actor/clock.ts';
import { parsePace } from '../../../src/host/engine/paced-sequence.ts';
import { type Step, Pacer } from '../../../src/host/engine/pacer.ts';
import t from 'tap';

t.test('steps run in the order of their due times, whatever the order they came in', async (t) => {
  const clock = createManualClock(1000);
  const pacer = new Pacer(clock);
  const ran: number[] = [];
  for (let at = 0; at < 200; at++) {
    const ms = (at * 77) % 200;
    pacer.after(ms, () => ran.push(ms));
  }
  clock.advance(99);
  t.same(
    ran,
    Array.from({ length: 100 }, (_, ms) => ms),
  );
  clock.advance(200);
  t.equal(ran.length, 200);
});

t.test('all steps share one timer, and none is left when no step waits', async (t) => {
  const clock = createManualClock(1000);
  const timers = new Set<object>();
  let set = 0;
  const counted: Clock = {
    now: () => clock.now(),
    setTimeout(run, ms) {
      set++;
      const timer = clock.setTimeout(() => {
        timers.delete(timer);
        run();
      }, ms);
      timers.add(timer);
      return timer;
    },
    clearTimeout(timer) {
      timers.delete(timer);
      clock.clearTimeout(timer);
    },
  };
  const pacer = new Pacer(counted);
  for (let at = 0; at < 50; at++) pacer.after(50 - at, () => t.ok(timers.size <= 1));
  t.equal(timers.size, 1);
  clock.advance(50);
  t.equal(timers.size, 0);

  for (let at = 0; at < 50; at++) pacer.after(10, () => pacer.after(50 - at, () => {}));
  set = 0;
  clock.advance(10);
  t.equal(set, 1, 'set once for all that was scheduled in one firing');
});

t.test('a cancelled step is dropped unrun', async (t) => {
  const clock = createManualClock(1000);
  const pacer = new Pacer(clock);
  const step = pacer.after(10, () => t.fail('ran'));
  step.cancelled = true;
  clock.advance(20);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('a step that is due again waits for the next firing', async (t) => {
  const clock = createManualClock(1000);
  const pacer = new Pacer(clock);
  const ran: string[] = [];
  let rounds = 0;
  const eager: Step = {
    dueMs: pacer.now() + 5,
    cancelled: false,
    run() {
      ran.push('eager');
      if (++rounds < 3) pacer.schedule(eager);
    },
  };
  pacer.schedule(eager);
  pacer.after(5, () => ran.push('other'));
  clock.advance(5);
  t.same(ran.slice(0, 2).sort(), ['eager', 'other']);
  t.equal(rounds, 3);
});

t.test('clear drops every step and its timer', async (t) => {
  const clock = createManualClock(1000);
  const pacer = new Pacer(clock);
  pacer.after(10, () => t.fail('ran'));
  pacer.clear();
  t.equal(clock.nextDueMs, Infinity);
  clock.advance(20);
});

t.test('the pace header is read part by part and refuses what it does not know', async (t) => {
  t.same(parsePace(undefined), {});
  t.same(parsePace('ttft=0, itl=2.5,tokens=64'), { timeToFirstTokenMs: 0, interTokenMs: 2.5, tokens: 64 });
  t.same(parsePace('itl=0'), { interTokenMs: 0 });
  for (const spec of ['itl', 'itl=', 'itl=-1', 'itl=x', 'speed=3']) t.throws(() => parsePace(spec), /pace/);
});
