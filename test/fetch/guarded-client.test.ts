// The response of the guarded client, driven as undici drives it, and the buffer that holds its body.
import fc from 'fast-check';
import t from 'tap';
import type { Dispatcher } from 'undici';
import { createManualClock } from '../../src/actor/clock.ts';
import { GrowingBytes, GuardedResponse } from '../../src/fetch/guarded-client.ts';

interface Bench {
  readonly response: GuardedResponse;
  /** What the response asked of its connection. */
  readonly calls: string[];
  readonly write: (piece: string | Buffer) => void;
  readonly end: () => Promise<void>;
  readonly fail: (error: Error) => void;
}

function bench(): Bench {
  const calls: string[] = [];
  const controller = {
    pause: () => calls.push('pause'),
    resume: () => calls.push('resume'),
    abort: () => calls.push('abort'),
  } as unknown as Dispatcher.DispatchController;
  const response = new GuardedResponse(createManualClock(), 1000, new AbortController().signal);
  response.onRequestStart(controller);
  response.onResponseStart(controller, 200, { 'x-list': ['a', 'b'], 'x-one': 'c' });
  return {
    ...{ response, calls },
    write: (piece) => response.onResponseData(controller, Buffer.from(piece)),
    async end() {
      response.onResponseEnd();
      // The end is reported after two turns of the event loop.
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    },
    fail: (error) => response.onResponseError(controller, error),
  };
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

t.test('a response has its status and joined headers at the head', async (t) => {
  const { response } = bench();
  t.equal(await response.head, response);
  t.equal(response.status, 200);
  t.same(response.headers, { 'x-list': 'a, b', 'x-one': 'c' });
});

t.test('iteration gives what has come since, in one piece', async (t) => {
  const { response, write, end } = bench();
  const pieces = response[Symbol.asyncIterator]();
  write('a');
  write('b');
  t.equal(textOf((await pieces.next()).value as Uint8Array), 'ab');
  const waiting = pieces.next();
  write('c');
  t.equal(textOf((await waiting).value as Uint8Array), 'c');
  await end();
  t.same(await pieces.next(), { done: true, value: undefined });
  t.same(await pieces.next(), { done: true, value: undefined });
});

t.test('collect gathers the body up to a size', async (t) => {
  const { response, write, end } = bench();
  const small = response.collect(3);
  write('abcd');
  t.equal(await small, false);
  t.equal(response.length, 4);
  const whole = response.collect(10);
  write('ef');
  await end();
  t.equal(await whole, true);
  t.equal(textOf(response.take()), 'abcdef');
});

t.test('the connection is paused while the reader is behind', async (t) => {
  const { response, calls, write } = bench();
  write(Buffer.alloc(65_535));
  t.same(calls, []);
  write(Buffer.alloc(1));
  write(Buffer.alloc(1));
  t.same(calls, ['pause']);
  response.take();
  t.same(calls, ['pause', 'resume']);
  const collected = response.collect(100_000);
  write(Buffer.alloc(100_000));
  t.same(calls, ['pause', 'resume'], 'not while the reader wants more');
  write(Buffer.alloc(1));
  t.same(calls, ['pause', 'resume', 'pause']);
  t.equal(await collected, false);
  response.collect(200_000).catch(() => undefined);
  t.same(calls, ['pause', 'resume', 'pause', 'resume']);
});

t.test('a body fails with the error of the connection, at once', async (t) => {
  const one = bench();
  const waiting = one.response.collect(10);
  one.fail(new Error('cut off'));
  await t.rejects(waiting, { code: 'HR_FETCH_FAILED', subject: 'connection closed' });
  const other = bench();
  other.write('a');
  other.fail(new Error('cut off'));
  await t.rejects(other.response[Symbol.asyncIterator]().next(), { code: 'HR_FETCH_FAILED' });
});

t.test('closing ends the connection once, and not after the end of the body', async (t) => {
  const { response, calls, write } = bench();
  response.close();
  response.close();
  t.same(calls, ['abort']);
  write('late');
  t.equal(await response.collect(0), true);
  const ended = bench();
  await ended.end();
  ended.response.close();
  t.same(ended.calls, []);
});

t.test('growing bytes keep every byte in order, in a buffer of their size', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 5000 })), (pieces) => {
      const bytes = new GrowingBytes();
      for (const piece of pieces) bytes.append(piece);
      const expected = Buffer.concat(pieces);
      const { length } = bytes;
      const taken = bytes.take();
      return (
        length === expected.length &&
        expected.equals(taken) &&
        taken.buffer.byteLength === taken.byteLength &&
        bytes.length === 0
      );
    }),
  );
  t.pass('held');
});

t.test('growing bytes start anew after they were taken', async (t) => {
  const bytes = new GrowingBytes();
  bytes.append(Buffer.from('one'));
  const first = bytes.take();
  bytes.append(Buffer.from('two'));
  t.equal(textOf(bytes.take()), 'two');
  t.equal(textOf(first), 'one');
});
