// Turns of connections whose reads fill the buffer. What they do on real sockets is in client.test.ts.

import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { FullReads } from '../../src/net/full-reads.ts';

t.test('a turn lets four read on, in the order in which they stopped', async (t) => {
  const turns = new FullReads();
  const read: number[] = [];
  const stop = (connection: number): void => turns.add(() => read.push(connection));
  for (let connection = 0; connection < 6; connection++) stop(connection);
  t.same(read, []);
  await setImmediate();
  t.same(read, [0, 1, 2, 3]);
  stop(6);
  await setImmediate();
  t.same(read, [0, 1, 2, 3, 4, 5, 6]);
  await setImmediate();
  stop(7);
  await setImmediate();
  t.equal(read.at(-1), 7);
});

t.test('one that stops while it reads on does so in one turn like all', async (t) => {
  const turns = new FullReads();
  let read = 0;
  const again = (): void => {
    read++;
    if (read <= 5) turns.add(again);
  };
  again();
  for (let turn = 1; turn <= 5; turn++) {
    t.equal(read, turn);
    await setImmediate();
  }
});
