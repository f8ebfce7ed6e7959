// The context acts for one incarnation only: piped results, children and stops of an ended one have no effect.

import t from 'tap';
import type { Context } from '../../src/actor/behavior.ts';
import { createTestSystem, holdGate } from '../../src/actor/testkit.ts';

t.test('pipe tells the actor the outcome of a promise', async (t) => {
  const { system, settle } = createTestSystem();
  const seen: string[] = [];
  system.spawn<string>((context) => {
    context.pipe(Promise.resolve(7), (value) => `ok ${value}`, String);
    context.pipe(Promise.reject(new Error('no')), String, (error) => `failed ${(error as Error).message}`);
    return (message) => void seen.push(message);
  });
  await settle();
  t.same(seen.sort(), ['failed no', 'ok 7']);
});

t.test('a piped result is delivered past a full mailbox, behind what waits', async (t) => {
  const { system, settle } = createTestSystem();
  const seen: string[] = [];
  const gate = holdGate();
  const actor = system.spawn<string>(
    (context) => {
      context.pipe(gate.wait(), () => 'piped', String);
      return (message) => void seen.push(message);
    },
    { mailbox: { capacity: 1, overflow: 'drop-new' } },
  );
  await gate.arrived;
  await settle();
  gate.release();
  actor.tell('one');
  await settle();
  t.same(seen, ['one', 'piped']);
});

t.test('a result that finds its incarnation restarted or stopped is a dead letter', async (t) => {
  const { system, events, settle } = createTestSystem();
  const seen: string[] = [];
  const gates = [holdGate(), holdGate()];
  let incarnation = 0;
  const actor = system.spawn<string>((context) => {
    const mine = incarnation++;
    const gate = gates[mine];
    if (gate !== undefined) context.pipe(gate.wait(), () => `result of ${mine}`, String);
    return (message) => {
      if (message === 'crash') throw new Error('crash');
      seen.push(message);
    };
  });
  await settle();
  actor.tell('crash');
  await settle();
  gates[0]?.release();
  await settle();
  system.stop(actor);
  gates[1]?.release();
  await settle();
  t.same(seen, []);
  t.same(
    events.map((event) => (event.type === 'dead-letter' ? event.reason : event.type)),
    ['failure', 'late', 'late'],
  );
});

t.test('a result already waiting when its incarnation crashes is a dead letter, too', async (t) => {
  const { system, events, settle } = createTestSystem();
  const seen: string[] = [];
  const gate = holdGate();
  let first = true;
  const actor = system.spawn<string>((context) => {
    if (first) context.pipe(gate.wait(), () => 'stale', String);
    first = false;
    return (message) => {
      if (message === 'crash') throw new Error('crash');
      seen.push(message);
    };
  });
  await settle();
  // More than one loop's worth, so that the result arrives while the crash still waits.
  for (let index = 0; index < 2000; index++) actor.tell('filler');
  actor.tell('crash');
  gate.release();
  await settle();
  t.equal(seen.length, 2000);
  t.notOk(seen.includes('stale'));
  t.match(events.at(-1), { type: 'dead-letter', reason: 'late' });
});

t.test('a mapping that throws is a failure of the actor', async (t) => {
  const { system, events, settle } = createTestSystem();
  let started = 0;
  system.spawn<string>((context) => {
    if (started++ === 0) {
      context.pipe(
        Promise.resolve(1),
        () => {
          throw new Error('bad mapping');
        },
        String,
      );
    }
    return () => {};
  });
  await settle();
  t.match(events, [{ type: 'failure', error: { message: 'bad mapping' }, decision: 'restart' }]);
});

t.test('a context stops its own children only', async (t) => {
  const { system, settle } = createTestSystem();
  const contexts: Context<string>[] = [];
  const parent = system.spawn<string>((context) => {
    contexts.push(context);
    return () => {};
  });
  const unrelated = system.spawn<string>(() => () => {});
  await settle();
  const context = contexts[0] as Context<string>;
  t.equal(context.self, parent);
  t.equal(context.path, parent.path);
  t.equal(context.random, system.random);
  const child = context.spawn<string>(() => () => {}, { name: 'child' });
  t.equal(child.path, `${parent.path}/child`);
  t.equal(system.stats().actors, 3);
  context.stop(child);
  t.equal(system.stats().actors, 2);
  t.throws(() => context.stop(unrelated), /not a child/);
});

t.test('the context of an ended incarnation starts, stops and watches nothing', async (t) => {
  const { system, settle } = createTestSystem();
  const contexts: Context<string>[] = [];
  const actor = system.spawn<string>((context) => {
    contexts.push(context);
    return () => {
      throw new Error('crash');
    };
  });
  actor.tell('crash');
  await settle();
  t.throws(() => contexts[0]?.spawn(() => () => {}), /ended/);
  contexts[0]?.stop();
  contexts[0]?.watch(actor);
  contexts[0]?.unwatch(actor);
  t.equal(system.stats().actors, 1);
});
