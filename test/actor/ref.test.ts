// Asks: one answer, always a deadline, an error where no answer comes.

import t from 'tap';
import type { Behavior } from '../../src/actor/behavior.ts';
import { ask, AskTimeoutError, MailboxFullError, TerminatedError } from '../../src/actor/ref.ts';
import type { Ref } from '../../src/actor/ref.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';

interface Get {
  replyTo: Ref<string>;
}

const silent: Behavior<Get> = () => () => {};

t.test('an ask resolves with the answer and leaves no deadline behind', async (t) => {
  const { system, clock, advance } = createTestSystem();
  const echo = system.spawn<Get>(
    () =>
      ({ replyTo }) =>
        replyTo.tell('here'),
  );
  t.equal(await ask<Get, string>(echo, (replyTo) => ({ replyTo }), { timeoutMs: 100 }), 'here');
  await advance(1000);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('an ask fails at its deadline, not before, and a late answer is a dead letter', async (t) => {
  const { system, clock, events, settle } = createTestSystem();
  const held: Ref<string>[] = [];
  const actor = system.spawn<Get>(
    () =>
      ({ replyTo }) =>
        void held.push(replyTo),
  );
  let failure: unknown;
  ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs: 333 }).catch((error: unknown) => (failure = error));
  await settle();
  clock.advance(332.5);
  await settle();
  t.equal(failure, undefined);
  clock.advance(0.5);
  await settle();
  t.ok(failure instanceof AskTimeoutError);
  t.match(failure, { code: 'HR_ACTOR_ASK_TIMEOUT' });
  held[0]?.tell('too late');
  t.match(events, [{ type: 'dead-letter', reason: 'late', message: 'too late' }]);
});

t.test('only the first answer counts', async (t) => {
  const { system } = createTestSystem();
  const actor = system.spawn<Get>(() => ({ replyTo }) => {
    replyTo.tell('first');
    replyTo.tell('second');
  });
  t.equal(await ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs: 10 }), 'first');
  t.equal(system.stats().deadLetters, 1);
});

t.test('an ask fails when the actor has stopped or stops before it answers', async (t) => {
  const { system } = createTestSystem();
  const actor = system.spawn(silent);
  const open = ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs: 10 });
  system.stop(actor);
  await t.rejects(open, { code: 'HR_ACTOR_TERMINATED' });
  await t.rejects(
    ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs: 10 }),
    TerminatedError,
  );
});

t.test('an ask that meets a full mailbox fails at once', async (t) => {
  const { system } = createTestSystem();
  const actor = system.spawn(silent, { mailbox: { capacity: 1, overflow: 'drop-new' } });
  const first = ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs: 10 });
  const second = ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs: 10 });
  await t.rejects(second, MailboxFullError);
  system.stop(actor);
  await t.rejects(first, TerminatedError);
});

t.test('an ask survives the restart of its actor while the question waits', async (t) => {
  const { system } = createTestSystem();
  const actor = system.spawn<Get | 'crash'>(() => (message) => {
    if (message === 'crash') throw new Error('crash');
    message.replyTo.tell('second incarnation');
  });
  actor.tell('crash');
  t.equal(await ask(actor, (replyTo: Ref<string>) => ({ replyTo }), { timeoutMs: 10 }), 'second incarnation');
});

t.test('an ask needs a deadline and a ref of the kernel', async (t) => {
  const { system } = createTestSystem();
  const actor = system.spawn(silent);
  for (const timeoutMs of [0, -1, NaN, Infinity]) {
    await t.rejects(
      ask<Get, string>(actor, (replyTo) => ({ replyTo }), { timeoutMs }),
      RangeError,
    );
  }
  const foreign: Ref<Get> = { path: 'nowhere', tell: () => {} };
  t.throws(() => ask<Get, string>(foreign, (replyTo) => ({ replyTo }), { timeoutMs: 1 }), TypeError);
});

t.test('a reply ref can be watched: it ends with the answer', async (t) => {
  const { system, settle } = createTestSystem();
  const ended: string[] = [];
  const watcher = system.spawn<Ref<string>>((context) => ({
    receive: (ref) => context.watch(ref),
    signal: (signal) => void (signal.type === 'Terminated' && ended.push(signal.ref.path)),
  }));
  let replyTo: Ref<string> | undefined;
  const actor = system.spawn<Get>(() => (message) => void (replyTo = message.replyTo), { name: 'asked' });
  const answer = ask<Get, string>(actor, (ref) => ({ replyTo: ref }), { timeoutMs: 10 });
  await settle();
  watcher.tell(replyTo as Ref<string>);
  await settle();
  t.same(ended, []);
  replyTo?.tell('now');
  await settle();
  t.same(ended, ['test/asked/ask']);
  t.equal(await answer, 'now');
});
