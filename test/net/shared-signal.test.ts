// A thread that sleeps until memory that it shares with others has changed.

import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { SharedSignal } from '../../src/net/shared-signal.ts';

function pair(): { writer: SharedSignal; sleeper: SharedSignal } {
  const words = new Int32Array(new SharedArrayBuffer(8));
  return { writer: new SharedSignal(words, 1), sleeper: new SharedSignal(words, 1) };
}

/** Tasks that V8 has posted run in a later turn of the loop. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

t.test('wakes once for any number of changes, and again when it waits again', async (t) => {
  const { sleeper, writer } = pair();
  let woken = 0;
  writer.raise();
  sleeper.wait(() => void woken++);
  await turns();
  t.equal(woken, 0, 'what was raised before the wait is looked at by who waits');
  for (let change = 0; change < 3; change++) writer.raise();
  t.equal(woken, 0, 'not within the call');
  await turns();
  t.equal(woken, 1);
  writer.raise();
  await turns();
  t.equal(woken, 1);
  sleeper.wait(() => void woken++);
  writer.raise();
  await turns();
  t.equal(woken, 2);
});

t.test('the last wait counts, and none after a stop', async (t) => {
  const { sleeper, writer } = pair();
  const woken: string[] = [];
  sleeper.wait(() => void woken.push('first'));
  sleeper.wait(() => void woken.push('second'));
  writer.raise();
  await turns();
  t.same(woken, ['second']);
  sleeper.wait(() => void woken.push('stopped'));
  sleeper.stop();
  await turns();
  writer.raise();
  await turns();
  t.same(woken, ['second']);
  sleeper.stop();
  sleeper.wait(() => void woken.push('again'));
  writer.raise();
  await turns();
  t.same(woken, ['second', 'again']);
});
