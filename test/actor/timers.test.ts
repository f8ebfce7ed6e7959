// Timers of an incarnation: on time, and not delivered after cancel, restart or stop.

import t from 'tap';
import type { Context } from '../../src/actor/behavior.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';

t.test('once ticks once, every ticks on its grid', async (t) => {
  const { system, clock, advance } = createTestSystem();
  const seen: [string, number][] = [];
  system.spawn<string>((context) => {
    context.timers.once('one', 15, 'once');
    context.timers.every('beat', 10, 'beat');
    return (message) => void seen.push([message, clock.now()]);
  });
  await advance(35);
  t.same(seen, [
    ['beat', 10],
    ['once', 15],
    ['beat', 20],
    ['beat', 30],
  ]);
});

t.test('ticks that could not be handled in time are skipped, and the grid is kept', async (t) => {
  const { system, clock, settle } = createTestSystem();
  const seen: number[] = [];
  system.spawn<string>((context) => {
    context.timers.every('beat', 10, 'beat');
    return () => void seen.push(clock.now());
  });
  await settle();
  clock.advance(47);
  await settle();
  t.same(seen, [47], 'four ticks in one step are one message');
  clock.advance(3);
  await settle();
  t.same(seen, [47, 50]);
});

t.test('a cancelled tick is not delivered even when it already waits', async (t) => {
  const { system, clock, settle } = createTestSystem();
  const seen: string[] = [];
  let cancel = (): void => {};
  let has = (): boolean => false;
  system.spawn<string>((context) => {
    context.timers.once('tick', 10, 'tick');
    cancel = () => context.timers.cancel('tick');
    has = () => context.timers.has('tick');
    return (message) => void seen.push(message);
  });
  await settle();
  t.ok(has());
  clock.advance(10);
  cancel();
  await settle();
  t.same(seen, []);
  t.notOk(has());
});

t.test('setting a key again replaces its timer', async (t) => {
  const { system, advance } = createTestSystem();
  const seen: string[] = [];
  system.spawn<string>((context) => {
    context.timers.once('tick', 10, 'old');
    context.timers.once('tick', 20, 'new');
    return (message) => void seen.push(message);
  });
  await advance(50);
  t.same(seen, ['new']);
});

t.test('a restart and a stop cancel all timers, also ticks on their way', async (t) => {
  const { system, clock, settle, advance } = createTestSystem();
  const seen: string[] = [];
  let incarnation = 0;
  const actor = system.spawn<string>((context) => {
    const name = `incarnation ${++incarnation}`;
    if (incarnation === 1) context.timers.every('beat', 10, name);
    else context.timers.once('tick', 100, name);
    return (message) => {
      if (message === 'crash') throw new Error('crash');
      seen.push(message);
    };
  });
  await advance(10);
  t.same(seen, ['incarnation 1']);
  actor.tell('crash');
  clock.advance(10);
  await settle();
  await advance(50);
  t.same(seen, ['incarnation 1']);
  system.stop(actor);
  await advance(1000);
  t.same(seen, ['incarnation 1']);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('a tick is delivered past a full mailbox, behind what waits', async (t) => {
  const { system, clock, settle } = createTestSystem();
  const seen: string[] = [];
  const actor = system.spawn<string>(
    (context) => {
      context.timers.once('tick', 10, 'tick');
      return (message) => void seen.push(message);
    },
    { mailbox: { capacity: 2, overflow: 'drop-new' } },
  );
  await settle();
  for (const message of ['a', 'b', 'dropped']) actor.tell(message);
  clock.advance(10);
  await settle();
  t.same(seen, ['a', 'b', 'tick']);
});

t.test('an ended incarnation sets no timers', async (t) => {
  const { system, clock, settle } = createTestSystem();
  const contexts: Context<string>[] = [];
  const actor = system.spawn<string>((context) => {
    contexts.push(context);
    return () => {};
  });
  await settle();
  system.stop(actor);
  contexts[0]?.timers.every('beat', 10, 'beat');
  t.equal(clock.nextDueMs, Infinity);
});
