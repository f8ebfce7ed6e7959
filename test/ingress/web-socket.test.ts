// Handshakes and WebSockets over a connection in memory: pings by a manual clock, memory of messages, arbitrary bytes.

import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { EndCause } from '../../src/ingress/exchange.ts';
import { handshakeFault, ServerSocket, type SocketConnection } from '../../src/ingress/web-socket.ts';
import { DeadlineQueue } from '../../src/net/deadline.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

const HANDSHAKE: Readonly<Record<string, string>> = {
  connection: 'keep-alive, Upgrade',
  upgrade: 'WebSocket',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  'sec-websocket-version': '13',
};

function headOf(changes: Readonly<Record<string, string>> = {}, method = 'GET'): Parameters<typeof handshakeFault>[0] {
  const headers = Object.entries({ ...HANDSHAKE, ...changes }).flat();
  return { method, path: '/v1/responses', query: '', headers, remoteAddress: '' };
}

/** A connection that keeps what is sent. */
class MemoryConnection implements SocketConnection {
  sent: Buffer = Buffer.alloc(0);
  over: EndCause | null = null;
  isCut = false;
  errors: unknown[] = [];
  /** The client does not take what is sent. */
  isBlocked = false;
  isRead = true;

  sendBytes(bytes: Uint8Array): boolean {
    this.sent = Buffer.concat([this.sent, bytes]);
    return !this.isBlocked;
  }

  readOn(): void {
    this.isRead = true;
  }

  endSide(): void {}

  cut(): void {
    this.isCut = true;
  }

  socketOver(cause: EndCause): void {
    this.over = cause;
  }

  report(error: unknown): void {
    this.errors.push(error);
  }
}

interface Opened {
  readonly socket: ServerSocket;
  readonly connection: MemoryConnection;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly budget: BodyBudget;
  readonly messages: { readonly text: string; readonly isText: boolean }[];
}

function open(
  onMessage?: (socket: ServerSocket) => void,
  onDrain = (_socket: ServerSocket): void => undefined,
): Opened {
  const clock = createManualClock();
  const connection = new MemoryConnection();
  const budget = new BodyBudget(1024 * 1024);
  const messages: { text: string; isText: boolean }[] = [];
  const listener = {
    onMessage: (message: Buffer, isText: boolean): void => {
      messages.push({ text: message.toString(), isText });
      onMessage?.(socket);
    },
    onWritable: (): void => undefined,
    onCut: (): void => undefined,
    onEnded: (): void => undefined,
    onDrain: (): void => onDrain(socket),
  };
  const shared = { budget, deadlines: new DeadlineQueue(clock) };
  const socket: ServerSocket = new ServerSocket(connection, headOf(), ['x-request-id', '1'], listener, 100_000, shared);
  return { socket, connection, clock, budget, messages };
}

/** A masked frame of a client (RFC 6455 §5.2). */
function frame(opcode: number, payload: Buffer, isFinal = true): Buffer {
  const head =
    payload.length < 126
      ? [payload.length | 0x80]
      : payload.length < 65_536
        ? [0xfe, payload.length >> 8, payload.length & 0xff]
        : [0xff, 0, 0, 0, 0, 0, payload.length >> 16, (payload.length >> 8) & 0xff, payload.length & 0xff];
  const mask = Buffer.from([1, 2, 3, 4]);
  const masked = payload.map((byte, at) => byte ^ (mask[at % 4] as number));
  return Buffer.concat([Buffer.from([opcode | (isFinal ? 0x80 : 0), ...head]), mask, masked]);
}

t.test('a handshake without fault is told from others', async (t) => {
  t.equal(handshakeFault(headOf()), null);
  t.equal(handshakeFault(headOf({}, 'POST')), 'none');
  t.equal(handshakeFault(headOf({ upgrade: 'h2c' })), 'none');
  t.equal(handshakeFault(headOf({ connection: 'keep-alive' })), 'malformed');
  t.equal(handshakeFault(headOf({ connection: 'upgrades' })), 'malformed');
  t.equal(handshakeFault(headOf({ 'sec-websocket-key': 'short' })), 'malformed');
  t.equal(handshakeFault(headOf({ 'sec-websocket-version': '8' })), 'version');
});

t.test('a list of protocols that fills the head costs little', async (t) => {
  const names = Array.from({ length: 4000 }, (_, at) => at.toString(36)).join(',');
  const tookMs = cpuMsOf(() => {
    for (let i = 0; i < 100; i++) handshakeFault(headOf({ 'sec-websocket-protocol': names }));
  });
  t.ok(tookMs < 2000, `${tookMs} ms for 100`);
});

t.test(
  'a handshake with fields that repeat or name no protocols has a fault, so that its refusal is that of all errors',
  (t) => {
    const repeated = (...fields: string[]): ReturnType<typeof handshakeFault> => {
      const head = headOf();
      return handshakeFault({ ...head, headers: [...fields, ...head.headers] });
    };
    t.equal(repeated('sec-websocket-key', 'BBBBBBBBBBBBBBBBBBBBBB=='), 'malformed');
    t.equal(repeated('upgrade', 'foo'), 'malformed');
    t.equal(repeated('sec-websocket-version', '7'), 'version');
    t.equal(repeated('connection', 'close'), null, 'a list');
    for (const protocols of ['a, a', 'a,,b', 'a"', '']) {
      t.equal(handshakeFault(headOf({ 'sec-websocket-protocol': protocols })), 'malformed', protocols);
    }
    t.equal(repeated('sec-websocket-protocol', 'a', 'sec-websocket-protocol', 'b, c'), null);
    t.equal(repeated('sec-websocket-protocol', 'a', 'sec-websocket-protocol', 'b, a'), 'malformed');
    t.end();
  },
);

t.test('messages come whole, in pieces and in fragments', async (t) => {
  const { connection, messages, socket } = open();
  t.match(connection.sent.toString('latin1'), /^HTTP\/1\.1 101 [\s\S]*x-request-id: 1\r\n/);
  socket.received(frame(1, Buffer.from('one')));
  const two = frame(1, Buffer.from('two'));
  for (const byte of two) socket.received(Buffer.from([byte]));
  socket.received(Buffer.concat([frame(1, Buffer.from('th'), false), frame(0, Buffer.from('ree'))]));
  socket.received(frame(2, Buffer.from('four')));
  await turn();
  t.strictSame(messages, [
    { text: 'one', isText: true },
    { text: 'two', isText: true },
    { text: 'three', isText: true },
    { text: 'four', isText: false },
  ]);
});

t.test('a silent client is asked for a sign, and given up without one', async (t) => {
  const { clock, connection, socket } = open();
  const before = connection.sent.length;
  clock.advance(30_010);
  await turn();
  t.strictSame(connection.sent.subarray(before), Buffer.from([0x89, 0]), 'a ping');
  socket.received(frame(0xa, Buffer.alloc(0)));
  clock.advance(30_010);
  await turn();
  t.equal(connection.isCut, false, 'the pong was a sign');
  clock.advance(30_010);
  await turn();
  t.equal(connection.isCut, true);
  t.equal(connection.over, 'gone');
});

t.test('a client that does not answer the close of a shutdown within 5 s is given up', async (t) => {
  const closes = (socket: ServerSocket): void => socket.close(1001, 'the gateway shuts down');
  const { clock, connection, socket } = open(undefined, closes);
  socket.drain();
  clock.advance(4990);
  await turn();
  t.equal(connection.isCut, false);
  clock.advance(20);
  await turn();
  t.equal(connection.over, 'gone');
  const busy = open();
  busy.socket.drain();
  busy.clock.advance(30_000);
  await turn();
  t.equal(busy.connection.isCut, false, 'nothing changes where a response runs');
  busy.socket.closed();
});

t.test('what is sent of a message is memory of request bodies until it is whole or the socket is over', async (t) => {
  const { budget, messages, socket } = open();
  const message = frame(1, Buffer.alloc(90_000, 0x61));
  socket.received(message.subarray(0, 60_000));
  t.ok(budget.usedBytes >= 60_000);
  socket.received(message.subarray(60_000));
  await turn();
  t.equal(messages.length, 1);
  t.equal(budget.usedBytes, 0);
  socket.received(message.subarray(0, 60_000));
  socket.closed();
  t.equal(budget.usedBytes, 0);
});

t.test('what comes with the end of a message counts as the beginning of the next one', async (t) => {
  // With the handshake, and later.
  for (const isLater of [false, true]) {
    const { budget, messages, socket } = open();
    if (isLater) await turn();
    const next = frame(1, Buffer.alloc(90_000, 0x61));
    socket.received(Buffer.concat([frame(1, Buffer.from('one')), next.subarray(0, 80_000)]));
    await turn();
    t.equal(messages.length, 1);
    t.ok(budget.usedBytes >= 60_000, `${budget.usedBytes}`);
    socket.received(next.subarray(80_000));
    await turn();
    t.equal(messages.length, 2);
    t.equal(budget.usedBytes, 0);
    socket.closed();
  }
});

t.test('pieces of a message count with what each takes in memory', async (t) => {
  const { budget, connection, socket } = open();
  const message = frame(1, Buffer.alloc(90_000, 0x61));
  for (let at = 0; at < 5000; at++) socket.received(message.subarray(at, at + 1));
  t.ok(budget.usedBytes >= 500_000, `${budget.usedBytes}`);
  for (let at = 5000; at < 10_000; at++) socket.received(message.subarray(at, at + 1));
  await turn();
  t.ok(connection.sent.includes(Buffer.from([0x03, 0xf5])));
  socket.closed();
  t.equal(budget.usedBytes, 0);
});

t.test('control frames in pieces take no memory of request bodies either', async (t) => {
  const { budget, connection, socket } = open();
  budget.take(1024 * 1024, false);
  const pong = frame(0xa, Buffer.from('x'));
  for (let round = 0; round < 1000; round++) {
    for (const byte of pong) socket.received(Buffer.from([byte]));
    await turn();
  }
  t.notOk(connection.sent.includes(Buffer.from([0x03, 0xf5])));
  socket.closed();
});

t.test('without memory the socket is closed with 1013', async (t) => {
  const { budget, connection, socket } = open();
  budget.take(1024 * 1024, false);
  socket.received(frame(1, Buffer.alloc(60_000, 0x61)).subarray(0, 50_000));
  await turn();
  t.ok(connection.sent.includes(Buffer.from([0x03, 0xf5])));
  socket.closed();
});

t.test('what comes behind a piece that found no memory is not read as a message', async (t) => {
  const { budget, messages, socket } = open();
  budget.take(1024 * 1024, false);
  socket.received(frame(1, Buffer.alloc(60_000, 0x61)).subarray(0, 50_000));
  budget.give(1024 * 1024, false);
  socket.received(frame(1, Buffer.from('a text within the message')));
  await turn();
  t.strictSame(messages, []);
  socket.closed();
});

t.test('control frames take no memory of request bodies', async (t) => {
  const { budget, messages, socket } = open();
  const pings = Buffer.concat(Array.from({ length: 50 }, () => frame(9, Buffer.alloc(100))));
  const pongs = Buffer.concat(Array.from({ length: 1000 }, () => frame(0xa, Buffer.alloc(0))));
  for (let round = 0; round < 100; round++) {
    socket.received(pings);
    socket.received(pongs);
    await turn();
  }
  t.equal(budget.usedBytes, 0);
  const message = frame(1, Buffer.alloc(90_000, 0x61), false);
  socket.received(message);
  socket.received(pings);
  await turn();
  t.ok(budget.usedBytes >= 90_000, 'those between the frames of a message free nothing of it');
  socket.received(frame(0, Buffer.alloc(0)));
  await turn();
  t.equal(messages.length, 1);
  t.equal(budget.usedBytes, 0);
  socket.closed();
});

t.test('a client that sends and does not read is not read either, until it does', async (t) => {
  const { connection, socket } = open((opened) => opened.send(Buffer.alloc(300)));
  connection.isBlocked = true;
  const flood = Buffer.concat(Array.from({ length: 500 }, () => frame(1, Buffer.alloc(100))));
  let rounds = 0;
  for (; connection.isRead && rounds < 1000; rounds++) {
    connection.isRead = socket.received(flood);
    await turn();
    await turn();
  }
  t.ok(rounds < 100, `read on after ${rounds} rounds`);
  connection.isBlocked = false;
  socket.drained();
  await turn();
  t.equal(connection.isRead, true);
  socket.closed();
});

t.test('an error of the listener costs the socket alone', async (t) => {
  const { connection, socket } = open(() => {
    throw new Error('a defect');
  });
  socket.received(frame(1, Buffer.from('x')));
  await turn();
  t.match(connection.errors, [{ message: 'a defect' }]);
  t.equal(connection.isCut, true);
});

t.test('arbitrary bytes throw nothing and leave no memory behind', async () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array)),
    fc
      .tuple(fc.integer({ min: 0, max: 15 }), fc.uint8Array({ maxLength: 200 }), fc.boolean())
      .map(([opcode, payload, isFinal]) => frame(opcode, Buffer.from(payload), isFinal)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(bytes, { maxLength: 12 }), async (pieces) => {
      const { budget, connection, socket } = open();
      for (const piece of pieces) socket.received(piece);
      await turn();
      socket.ended();
      await turn();
      socket.closed();
      return budget.usedBytes === 0 && connection.errors.length === 0 && connection.over !== null;
    }),
    { numRuns: 2000 },
  );
});
