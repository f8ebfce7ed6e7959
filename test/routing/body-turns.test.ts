// Large bodies are handed over a few at a time, by turns of the accounts.

import t from 'tap';
import { BodyTurns } from '../../src/routing/index.ts';

interface Fixture {
  readonly turns: BodyTurns;
  /** What was handed over, and where a turn ended. */
  readonly seen: string[];
  readonly add: (account: string, name: string, takesMs: number) => void;
}

function start(): Fixture {
  let nowMs = 0;
  const seen: string[] = [];
  const turns = new BodyTurns(() => nowMs);
  const add = (account: string, name: string, takesMs: number): void =>
    turns.add(account, 100_000, () => {
      nowMs += takesMs;
      seen.push(name);
    });
  return { turns, seen, add };
}

/** What is handed over in each of so many turns of the event loop. */
async function turnsOf(seen: string[], count: number): Promise<string[]> {
  const each: string[] = [];
  for (let turn = 0; turn < count; turn++) {
    await new Promise(setImmediate);
    each.push(seen.splice(0).join(' '));
  }
  return each;
}

t.test('a turn of the event loop hands over one body that takes long, or several that do not', async (t) => {
  const { add, seen } = start();
  for (const name of ['long1', 'long2']) add('a', name, 100);
  for (const name of ['short1', 'short2', 'short3', 'short4']) add('a', name, 0.7);
  t.same(seen, [], 'not in this turn');
  t.same(await turnsOf(seen, 5), ['long1', 'long2', 'short1 short2 short3', 'short4', '']);
  add('a', 'later', 0);
  t.same(await turnsOf(seen, 1), ['later']);
});

t.test('an account does not wait for all bodies of another one', async (t) => {
  const { add, seen } = start();
  for (let body = 0; body < 50; body++) add('a', `a${body}`, 100);
  t.same(await turnsOf(seen, 2), ['a0', 'a1']);
  add('b', 'b0', 100);
  t.ok((await turnsOf(seen, 2)).includes('b0'));
  const order = await turnsOf(seen, 48);
  t.equal(order.filter((name) => name.startsWith('a')).length, 47, 'each is handed over');
});

t.test('what is handed over may bring further bodies', async (t) => {
  const { add, seen, turns } = start();
  turns.add('a', 100_000, () => {
    add('a', 'further', 0);
    seen.push('first');
  });
  t.same(await turnsOf(seen, 1), ['first further']);
});
