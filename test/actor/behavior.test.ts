// The public types of behaviors and refs: a wrong assignment fails the build.

import t from 'tap';
import type { Actor, Behavior } from '../../src/actor/behavior.ts';
import { ask } from '../../src/actor/ref.ts';
import type { Ref } from '../../src/actor/ref.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';

type Command = { type: 'Add'; by: number } | { type: 'Get'; replyTo: Ref<number> };

const counter: Behavior<Command> = () => {
  let count = 0;
  return (command) => (command.type === 'Add' ? void (count += command.by) : command.replyTo.tell(count));
};

t.test('a behavior is a function or an object with receive, and keeps its state to itself', async (t) => {
  const { system } = createTestSystem();
  class Doubler implements Actor<Command> {
    #count = 0;
    receive(command: Command): void {
      if (command.type === 'Add') this.#count += command.by * 2;
      else command.replyTo.tell(this.#count);
    }
  }
  for (const [behavior, expected] of [
    [counter, 5],
    [() => new Doubler(), 10],
  ] as [Behavior<Command>, number][]) {
    const ref = system.spawn(behavior);
    ref.tell({ type: 'Add', by: 2 });
    ref.tell({ type: 'Add', by: 3 });
    t.equal(await ask<Command, number>(ref, (replyTo) => ({ type: 'Get', replyTo }), { timeoutMs: 10 }), expected);
  }
});

t.test('refs narrow and never widen', (t) => {
  const wide = { path: 'wide', tell: () => {} } as Ref<string | number>;
  const narrow: Ref<string> = wide;
  const any: Ref<never> = narrow;
  // @ts-expect-error a ref of strings takes no numbers
  const widened: Ref<string | number> = narrow;
  t.equal(any, widened as Ref<never>);
  t.end();
});
