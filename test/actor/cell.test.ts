// The life of an actor: order, failure, restart, escalation, stop, watch.

import t from 'tap';
import type { Behavior, Context, Signal } from '../../src/actor/behavior.ts';
import { EscalatedError } from '../../src/actor/cell.ts';
import type { Ref } from '../../src/actor/ref.ts';
import type { Supervision } from '../../src/actor/supervision.ts';
import { createProbe, createTestSystem } from '../../src/actor/testkit.ts';

type Word = string;

/** Notes what it hears and its signals; `crash` crashes it. */
function scribe(log: string[], children: string[] = []): Behavior<Word> {
  return (context) => {
    for (const name of children) context.spawn(scribe(log), { name });
    log.push(`${context.path} starts`);
    return {
      receive(word) {
        if (word === 'crash') throw new Error('crash');
        if (word === 'stop') context.stop();
        log.push(word);
      },
      signal: (signal) => void log.push(`${context.path} ${signal.type}`),
    };
  };
}

async function crashed(supervise: Supervision | undefined, words: string[]) {
  const kit = createTestSystem();
  const log: string[] = [];
  const ref = kit.system.spawn(scribe(log), { name: 'a', ...(supervise === undefined ? {} : { supervise }) });
  for (const word of words) ref.tell(word);
  await kit.settle();
  return { ...kit, log, ref };
}

t.test('a restarted actor loses only the message it crashed on, and its failure is an event', async (t) => {
  const { log, events, system } = await crashed(undefined, ['one', 'crash', 'two']);
  t.same(log, ['test/a starts', 'one', 'test/a PreRestart', 'test/a starts', 'two']);
  t.match(events, [{ type: 'failure', path: 'test/a', error: { message: 'crash' }, decision: 'restart', delayMs: 0 }]);
  t.match(system.stats(), { actors: 1, restarts: 1, deadLetters: 0 });
});

t.test('a resumed actor goes on as it was', async (t) => {
  const { log, events } = await crashed({ onFailure: 'resume' }, ['one', 'crash', 'two']);
  t.same(log, ['test/a starts', 'one', 'two']);
  t.match(events, [{ decision: 'resume' }]);
});

t.test('a stopped actor turns what waits into dead letters', async (t) => {
  const { log, events, system } = await crashed({ onFailure: 'stop' }, ['one', 'crash', 'two']);
  t.same(log, ['test/a starts', 'one', 'test/a PostStop']);
  t.match(events, [{ decision: 'stop' }, { type: 'dead-letter', path: 'test/a', message: 'two', reason: 'stopped' }]);
  t.equal(system.stats().actors, 0);
});

t.test('a restart waits for its back-off while messages gather', async (t) => {
  const supervise: Supervision = { backoff: { minMs: 100, maxMs: 1000, jitter: 0 } };
  const { log, clock, settle, ref } = await crashed(supervise, ['crash', 'one']);
  ref.tell('two');
  clock.advance(99);
  await settle();
  t.same(log, ['test/a starts', 'test/a PreRestart']);
  clock.advance(1);
  await settle();
  t.same(log.slice(2), ['test/a starts', 'one', 'two']);
});

t.test('an actor stopped during its back-off does not come back', async (t) => {
  const { log, clock, system, ref, settle } = await crashed({ backoff: { minMs: 100, maxMs: 100 } }, ['crash', 'one']);
  system.stop(ref);
  clock.advance(1000);
  await settle();
  t.same(log, ['test/a starts', 'test/a PreRestart']);
  t.match(system.stats(), { actors: 0, deadLetters: 1 });
  t.equal(clock.nextDueMs, Infinity);
});

t.test('past its intensity a top-level actor stops and fails the system', async (t) => {
  const { events, failures, system } = await crashed({ maxRestarts: 1 }, ['crash', 'crash', 'lost']);
  t.match(
    events.map((event) => (event.type === 'failure' ? event.decision : event.type)),
    ['restart', 'escalate', 'dead-letter'],
  );
  t.match(failures, [{ path: 'test/a', error: { message: 'crash' } }]);
  t.equal(system.stats().actors, 0);
});

t.test('past its intensity a child fails its parent, whose own supervision answers', async (t) => {
  const { system, events, settle } = createTestSystem();
  const children: Ref<Word>[] = [];
  const log: string[] = [];
  system.spawn<Word>(
    (context) => {
      children.push(context.spawn(scribe(log), { name: 'child', supervise: { maxRestarts: 0 } }));
      return () => {};
    },
    { name: 'parent' },
  );
  await settle();
  children[0]?.tell('crash');
  await settle();
  t.match(events, [
    { path: 'test/parent/child', decision: 'escalate' },
    { path: 'test/parent', decision: 'restart', error: { code: 'HR_ACTOR_ESCALATED', path: 'test/parent/child' } },
  ]);
  t.ok(events[1]?.type === 'failure' && events[1].error instanceof EscalatedError);
  t.equal(children.length, 2, 'the parent started a new child');
  children[1]?.tell('alive');
  await settle();
  t.equal(log.at(-1), 'alive');
  t.equal(system.stats().actors, 2);
});

t.test('a behavior that throws is a failure like any other; it cannot be resumed', async (t) => {
  const { system, events, failures, settle } = createTestSystem();
  const broken: Behavior<Word> = () => {
    throw new Error('no start');
  };
  system.spawn(broken, { name: 'a', supervise: { maxRestarts: 2 } });
  system.spawn(broken, { name: 'b', supervise: { onFailure: 'resume' } });
  await settle();
  const decisions = events.map((event) => (event.type === 'failure' ? `${event.path} ${event.decision}` : event.type));
  t.same(
    decisions.filter((line) => line.startsWith('test/a')),
    ['test/a restart', 'test/a restart', 'test/a escalate'],
  );
  t.same(
    decisions.filter((line) => line.startsWith('test/b')),
    ['test/b stop'],
  );
  t.equal(failures.length, 1);
});

t.test('children stop before their parent, in reverse order of start', async (t) => {
  const { system, settle } = createTestSystem();
  const log: string[] = [];
  const root = system.spawn(scribe(log, ['1', '2', '3']), { name: 'root' });
  await settle();
  log.length = 0;
  system.stop(root);
  t.same(log, ['test/root/3 PostStop', 'test/root/2 PostStop', 'test/root/1 PostStop', 'test/root PostStop']);
});

t.test('children of a crashed incarnation stop in reverse order before its last signal', async (t) => {
  const { system, settle } = createTestSystem();
  const log: string[] = [];
  const root = system.spawn(scribe(log, ['1', '2']), { name: 'r' });
  await settle();
  log.length = 0;
  root.tell('crash');
  await settle();
  t.same(log.slice(0, 3), ['test/r/2 PostStop', 'test/r/1 PostStop', 'test/r PreRestart']);
  t.same(log.slice(3).sort(), ['test/r starts', 'test/r/1 starts', 'test/r/2 starts']);
});

t.test('an actor that stops itself finishes the current message', async (t) => {
  const { log, events } = await crashed(undefined, ['stop', 'two']);
  t.same(log, ['test/a starts', 'stop', 'test/a PostStop']);
  t.match(events, [{ type: 'dead-letter', message: 'two' }]);
});

t.test('a parent stopped by its own child waits for the child to finish its message', async (t) => {
  const { system, settle } = createTestSystem();
  const log: string[] = [];
  const root = system.spawn<Word>(
    (context) => {
      const child = context.spawn<Word>(() => ({
        receive() {
          system.stop(root);
          log.push('child finishes its message');
        },
        signal: (signal) => void log.push(`child ${signal.type}`),
      }));
      child.tell('go');
      return { receive() {}, signal: (signal) => void log.push(`parent ${signal.type}`) };
    },
    { name: 'root' },
  );
  await settle();
  t.same(log, ['child finishes its message', 'child PostStop', 'parent PostStop']);
  t.equal(system.stats().actors, 0);
});

t.test('a signal handler that throws at the end is reported and stops nothing', async (t) => {
  const { system, events, settle } = createTestSystem();
  const touchy: Behavior<Word> = () => ({
    receive: () => {
      throw new Error('crash');
    },
    signal: (signal) => {
      throw new Error(`in ${signal.type}`);
    },
  });
  const ref = system.spawn(touchy, { name: 'a' });
  ref.tell('x');
  await settle();
  system.stop(ref);
  t.match(events, [
    { type: 'failure', decision: 'restart' },
    { type: 'signal-failure', path: 'test/a', error: { message: 'in PreRestart' } },
    { type: 'signal-failure', path: 'test/a', error: { message: 'in PostStop' } },
  ]);
  t.equal(system.stats().actors, 0);
});

t.test('Terminated comes once, after the messages told before', async (t) => {
  const { system, settle } = createTestSystem();
  const seen: unknown[] = [];
  const watcher = system.spawn<Word>(() => ({
    receive: (word) => void seen.push(word),
    signal: (signal) => void seen.push(signal),
  }));
  let watched: Ref<never> | undefined;
  const watching = system.spawn<Word>((context) => {
    const child = context.spawn<Word>((inner) => (word) => {
      watcher.tell(word);
      inner.stop();
    });
    watched = child;
    context.watch(child);
    context.watch(child);
    child.tell('result');
    return {
      receive() {},
      signal: (signal: Signal) => void (signal.type === 'Terminated' && seen.push(signal.ref === child)),
    };
  });
  await settle();
  t.same(seen, ['result', true]);
  const probe = createProbe(system);
  probe.watch(watched as Ref<never>);
  t.equal(await probe.nextTerminated(), watched, 'watching what has ended ends at once');
  system.stop(watching);
});

t.test('an unwatched end is not delivered even when it was on its way', async (t) => {
  const { system, settle } = createTestSystem();
  const signals: string[] = [];
  const target = system.spawn<Word>(() => () => {});
  let context: Context<Word> | undefined;
  system.spawn<Word>((own) => {
    context = own;
    own.watch(target);
    return { receive() {}, signal: (signal) => void signals.push(signal.type) };
  });
  await settle();
  system.stop(target);
  context?.unwatch(target);
  await settle();
  t.same(signals, []);
});

t.test('watches outlive a restart, children that the restart stopped excepted', async (t) => {
  const { system, settle } = createTestSystem();
  const target = system.spawn<Word>(() => () => {}, { name: 'target' });
  const seen: string[] = [];
  const watcher = system.spawn<Word>((context) => {
    context.watch(target);
    context.watch(context.spawn<Word>(() => () => {}));
    return {
      receive() {
        throw new Error('crash');
      },
      signal: (signal) => void (signal.type === 'Terminated' && seen.push(signal.ref.path)),
    };
  });
  watcher.tell('crash');
  await settle();
  t.same(seen, []);
  system.stop(target);
  await settle();
  t.same(seen, ['test/target']);
});

t.test('overflow drops the newest, the oldest, or throws at the sender; all become dead letters', async (t) => {
  for (const overflow of ['drop-new', 'drop-old', 'fail'] as const) {
    const { system, events, settle } = createTestSystem();
    const log: string[] = [];
    const ref = system.spawn<Word>(() => (word) => void log.push(word), { mailbox: { capacity: 2, overflow } });
    ref.tell('1');
    ref.tell('2');
    if (overflow === 'fail') t.throws(() => ref.tell('3'), { code: 'HR_ACTOR_MAILBOX_FULL' });
    else ref.tell('3');
    await settle();
    t.same(log, overflow === 'drop-old' ? ['2', '3'] : ['1', '2'], overflow);
    t.match(events, [{ type: 'dead-letter', reason: 'overflow', message: overflow === 'drop-old' ? '1' : '3' }]);
  }
});

t.test('names are unique among living siblings and free again after the stop', async (t) => {
  const { system } = createTestSystem();
  const first = system.spawn(scribe([]), { name: 'a' });
  t.throws(() => system.spawn(scribe([]), { name: 'a' }), /already/);
  t.equal(system.stats().actors, 1);
  system.stop(first);
  t.equal(system.spawn(scribe([]), { name: 'a' }).path, 'test/a');
  t.not(system.spawn(scribe([])).path, system.spawn(scribe([])).path);
});
