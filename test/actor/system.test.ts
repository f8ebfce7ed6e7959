// The actor system: fair turns, statistics, events, termination.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import type { Ref } from '../../src/actor/ref.ts';
import { createSystem } from '../../src/actor/system.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';

t.test('a busy actor starves neither other actors nor the event loop', async (t) => {
  const { system } = createTestSystem();
  let turns = 0;
  let stopped = false;
  const busy: Ref<number> = system.spawn<number>((context) => (count) => {
    turns = count;
    if (!stopped) context.self.tell(count + 1);
  });
  busy.tell(1);
  const heard = new Promise<number>((resolve) => {
    system.spawn<string>(() => () => resolve(turns)).tell('hello');
  });
  t.ok((await heard) <= 64, 'the other actor has its turn after one batch');
  await new Promise<void>((resolve) => void setImmediate(resolve));
  const atFirst = turns;
  await new Promise<void>((resolve) => void setImmediate(resolve));
  t.ok(turns > atFirst && turns - atFirst <= 1100, `one loop handles a bounded number, was ${turns - atFirst}`);
  stopped = true;
});

t.test('promises that keep waking an actor leave room for the event loop', async (t) => {
  const { system } = createTestSystem();
  let rounds = 0;
  let stopped = false;
  const echo = system.spawn<() => void>(() => (done) => done());
  const loop = (async () => {
    while (!stopped) {
      rounds++;
      await new Promise<void>((resolve) => echo.tell(resolve));
    }
  })();
  await new Promise<void>((resolve) => void setImmediate(resolve));
  stopped = true;
  await loop;
  t.ok(rounds <= 1100, `was ${rounds}`);
});

t.test('stats count actors, dead letters, restarts and the deepest mailbox', async (t) => {
  const { system, settle } = createTestSystem({ name: 'counted' });
  t.equal(system.name, 'counted');
  const actor = system.spawn<string>((context) => {
    context.spawn<string>(() => () => {}, { name: 'child' });
    return (message) => {
      if (message === 'crash') throw new Error('crash');
    };
  });
  for (const word of ['a', 'crash', 'b']) actor.tell(word);
  t.match(system.stats(), { actors: 1, deepestMailbox: 3, runnable: 1 });
  await settle();
  t.same(system.stats(), { actors: 2, deadLetters: 0, restarts: 1, deepestMailbox: 0, runnable: 0 });
  system.stop(actor);
  actor.tell('late');
  t.match(system.stats(), { actors: 0, deadLetters: 1 });
});

t.test('terminate stops everything, last started first, and spawns nothing more', async (t) => {
  const { system, settle } = createTestSystem();
  const log: string[] = [];
  for (const name of ['a', 'b']) {
    system.spawn<string>(() => ({ receive() {}, signal: (signal) => void log.push(`${name} ${signal.type}`) }), {
      name,
    });
  }
  await settle();
  await system.terminate();
  t.same(log, ['b PostStop', 'a PostStop']);
  t.throws(() => system.spawn(() => () => {}), /terminated/);
  await system.terminate();
});

t.test('terminate called by an actor waits for its message to end', async (t) => {
  const { system } = createTestSystem();
  const order: string[] = [];
  const ended = new Promise<void>((resolve) => {
    system
      .spawn<string>(() => ({
        receive() {
          void system.terminate().then(resolve);
          order.push('message');
        },
        signal: () => void order.push('stop'),
      }))
      .tell('end');
  });
  await ended;
  t.same(order, ['message', 'stop']);
});

t.test('a name is not that of an actor without one', async (t) => {
  const { system } = createTestSystem();
  t.throws(() => system.spawn(() => () => undefined, { name: '$2' }), /begins with \$/);
  system.spawn(() => () => undefined);
  system.spawn(() => () => undefined);
  await system.terminate();
});

t.test('stops only what it owns', (t) => {
  const one = createTestSystem().system;
  const other = createTestSystem().system;
  const actor = one.spawn(() => () => {});
  t.throws(() => other.stop(actor), /not an actor of/);
  t.end();
});

t.test('a failure nobody handles, and a listener that throws, end the process loudly', async (t) => {
  const entry = new URL('../../src/actor/system.js', import.meta.url).href;
  const run = promisify(execFile);
  const crash = (options: string): Promise<unknown> =>
    run(process.execPath, [
      '--input-type=module',
      '--eval',
      `import { createSystem } from '${entry}';
       const actor = createSystem(${options}).spawn(() => () => { throw new Error('the reason'); }, {
         supervise: { onFailure: 'escalate' } });
       actor.tell('crash');`,
    ]);
  await t.rejects(crash('{}'), { code: 1, stderr: /the reason/ });
  await t.rejects(crash(`{ onFailure() {}, onEvent() { throw new Error('the listener'); } }`), {
    code: 1,
    stderr: /the listener/,
  });
});

t.test('a listener of failures that throws stops no other actor of a process that goes on', async (t) => {
  const entry = new URL('../../src/actor/system.js', import.meta.url).href;
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    `import { createSystem } from '${entry}';
     const system = createSystem({ onFailure() { throw new Error('the listener'); } });
     const other = system.spawn(() => (text) => console.log(text));
     process.on('uncaughtException', ({ message }) => other.tell('after ' + message));
     system.spawn(() => () => { throw new Error('the reason'); }, { supervise: { onFailure: 'escalate' } }).tell('');`,
  ]);
  t.equal(stdout, 'after the listener\n');
});

t.test('a system without options runs on the clock of the process', async (t) => {
  const system = createSystem();
  t.equal(system.name, 'system');
  t.ok(system.clock.now() > 0);
  const ticked = new Promise<string>((resolve) => {
    system.spawn<string>((context) => {
      context.timers.once('tick', 1, 'tick');
      return resolve;
    });
  });
  t.equal(await ticked, 'tick');
  await system.terminate();
});
