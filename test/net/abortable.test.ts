import { getEventListeners } from 'node:events';
import { test } from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { abortable, atMost, joinedSignal } from '../../src/net/abortable.ts';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

test('work ends with its signal, which nothing is left in', async (t) => {
  const controller = new AbortController();
  t.equal(await abortable(controller.signal, Promise.resolve('done')), 'done');
  await t.rejects(abortable(controller.signal, Promise.reject(new Error('failed'))), { message: 'failed' });
  t.equal(listeners(controller.signal), 0);
  const endless = abortable(controller.signal, new Promise(() => undefined));
  controller.abort(new Error('left'));
  await t.rejects(endless, { message: 'left' });
  await t.rejects(abortable(controller.signal, new Promise(() => undefined)), { message: 'left' });
});

test('a joined signal is aborted with the first of others, and only until it is released', (t) => {
  const [long, short] = [new AbortController(), new AbortController()];
  const first = joinedSignal(long.signal, short.signal);
  const second = joinedSignal(long.signal, new AbortController().signal);
  t.notOk(first.signal.aborted);
  short.abort(new Error('short'));
  t.match(first.signal.reason, { message: 'short' });
  t.notOk(second.signal.aborted);
  first.release();
  second.release();
  t.equal(listeners(long.signal), 0, 'nothing is left in a signal that lives on');
  long.abort(new Error('long'));
  t.match(first.signal.reason, { message: 'short' });
  t.notOk(second.signal.aborted);
  t.match(joinedSignal(new AbortController().signal, long.signal).signal.reason, { message: 'long' });
  t.end();
});

test('work is waited for as long as is said, and its failure is heard before', async (t) => {
  const clock = createManualClock();
  await atMost(clock, 100, Promise.resolve('done'));
  await t.rejects(atMost(clock, 100, Promise.reject(new Error('failed'))), { message: 'failed' });
  const work = Promise.withResolvers<void>();
  const waited = atMost(clock, 100, work.promise);
  clock.advance(100);
  await waited;
  work.reject(new Error('late'));
  await new Promise((resolve) => setImmediate(resolve));
  t.pass('a late failure is nobody’s');
});
