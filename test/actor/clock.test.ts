// The manual clock moves only when told and runs timers in the order of real time; the system clock is monotonic.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import t from 'tap';
import { createManualClock, systemClock } from '../../src/actor/clock.ts';

t.test('the manual clock stands still until it is advanced', (t) => {
  const clock = createManualClock(100);
  t.equal(clock.now(), 100);
  clock.advance(2.5);
  t.equal(clock.now(), 102.5);
  t.end();
});

t.test('timers run in order of due time, then of creation, each at its own time', (t) => {
  const clock = createManualClock();
  const seen: [string, number][] = [];
  clock.setTimeout(() => seen.push(['late', clock.now()]), 30);
  clock.setTimeout(() => seen.push(['first', clock.now()]), 10);
  clock.setTimeout(() => seen.push(['second', clock.now()]), 10);
  clock.setTimeout(() => seen.push(['never', clock.now()]), 41);
  t.equal(clock.nextDueMs, 10);
  clock.advance(40);
  t.same(seen, [
    ['first', 10],
    ['second', 10],
    ['late', 30],
  ]);
  t.equal(clock.nextDueMs, 41);
  t.end();
});

t.test('a timer set by a timer runs within the same step when it is due', (t) => {
  const clock = createManualClock();
  const seen: number[] = [];
  clock.setTimeout(() => clock.setTimeout(() => seen.push(clock.now()), 5), 5);
  clock.advance(9);
  t.same(seen, []);
  clock.advance(1);
  t.same(seen, [10]);
  t.end();
});

t.test('a cleared timer does not run, and clearing again is harmless', (t) => {
  const clock = createManualClock();
  const handle = clock.setTimeout(() => t.fail('it was cleared'), 5);
  clock.clearTimeout(handle);
  clock.clearTimeout(handle);
  clock.advance(10);
  t.equal(clock.nextDueMs, Infinity);
  t.end();
});

t.test('the manual clock does not go back, also where a timer advances it', (t) => {
  const clock = createManualClock();
  clock.setTimeout(() => clock.advance(20), 5);
  clock.advance(10);
  t.equal(clock.now(), 25);
  t.end();
});

t.test('a timer beyond the longest delay of the platform waits for all of it', (t) => {
  const delays: number[] = [];
  const { setTimeout } = globalThis;
  const longMs = 2 ** 31 - 1;
  globalThis.setTimeout = ((callback: () => void, delayMs: number) => {
    delays.push(delayMs);
    const timer = setTimeout(() => undefined, 0);
    if (delays.length < 4) callback();
    return timer;
  }) as typeof setTimeout;
  t.teardown(() => (globalThis.setTimeout = setTimeout));
  const handle = systemClock.setTimeout(() => t.fail('it is not due'), 3 * longMs + 0.5);
  systemClock.clearTimeout(handle);
  t.same(delays, [longMs, longMs, longMs, 1]);
  t.end();
});

t.test('the system clock is monotonic and its timers are never early', async (t) => {
  const startMs = systemClock.now();
  await new Promise<void>((resolve) => systemClock.setTimeout(resolve, 2.2));
  t.ok(systemClock.now() - startMs >= 2.2 - 1, 'within the resolution of the platform');
  const handle = systemClock.setTimeout(() => t.fail('it was cleared'), 1);
  systemClock.clearTimeout(handle);
});

t.test('timers of a thread that stood still run behind the reads of what has come meanwhile', async (t) => {
  const server = createServer((socket) => socket.on('data', () => undefined)).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[socket]] = await Promise.all([once(server, 'connection'), once(client, 'connect')]);
  const seen: string[] = [];
  client.on('data', () => seen.push('read'));
  const passed = new Promise<void>((resolve) => {
    systemClock.setTimeout(() => {
      seen.push('timer');
      resolve();
    }, 5);
  });
  const other = systemClock.setTimeout(() => seen.push('cleared'), 5);
  client.on('data', () => systemClock.clearTimeout(other));
  socket.end('x');
  const untilMs = systemClock.now() + 20;
  while (systemClock.now() < untilMs);
  await passed;
  t.same(seen, ['read', 'timer'], 'a timer that is cleared by what was read does not run');
});
