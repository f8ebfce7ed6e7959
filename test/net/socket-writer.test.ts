// Writes below the stream of a socket, and the same calls on sockets that are written to as streams.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { duplexPair, type Duplex } from 'node:stream';
import t, { type Test } from 'tap';
import { freeMemory } from '../../src/net/large-memory.ts';
import { SocketWriter } from '../../src/net/socket-writer.ts';

interface Pair {
  readonly near: Socket;
  /** Does not read before `resume`. */
  readonly far: Socket;
}

async function pair(test: Test): Promise<Pair> {
  const server = createServer({ pauseOnConnect: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const near = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', noDelay: true });
  const [far] = await accepted;
  await once(near, 'connect');
  test.teardown(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return { near, far };
}

function collect(socket: Duplex): () => Buffer {
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  return () => Buffer.concat(pieces);
}

/** `length` bytes that differ from those of other seeds. */
function bytesOf(length: number, seed: number): Buffer {
  return Buffer.alloc(length, `${seed} is repeated `);
}

const LARGE = 8 * 1024 * 1024;

t.test('what the kernel takes at once leaves its memory free', async (t) => {
  const { near, far } = await pair(t);
  const received = collect(far.resume());
  const writer = new SocketWriter(near, () => t.fail('nothing was queued'));
  const bytes = Buffer.alloc(4);
  for (const text of ['one ', 'two ']) {
    bytes.write(text);
    t.equal(writer.write(bytes), 0);
  }
  t.equal(writer.write(Buffer.from('three '), Buffer.from('four')), 0, 'two parts');
  near.end();
  await once(far, 'end');
  t.equal(received().toString(), 'one two three four');
});

t.test('what it does not take is sent in order, counts as queued until it has left, and is told once', async (t) => {
  const { near, far } = await pair(t);
  const drained = Promise.withResolvers<void>();
  let drains = 0;
  const writer = new SocketWriter(near, () => {
    drains++;
    drained.resolve();
  });
  const parts = [bytesOf(LARGE, 1), bytesOf(100, 2), bytesOf(LARGE, 3), bytesOf(7, 4)];
  const [first, second, third, fourth] = parts as [Buffer, Buffer, Buffer, Buffer];
  t.equal(writer.write(first), LARGE);
  t.equal(writer.write(second), LARGE + 100);
  t.equal(writer.write(third, fourth), 2 * LARGE + 107);
  // Other sockets write meanwhile.
  const other = await pair(t);
  const others = collect(other.far.resume());
  const otherWriter = new SocketWriter(other.near, null);
  for (let i = 0; i < 10; i++) t.equal(otherWriter.write(bytesOf(10, i)), 0);
  const received = collect(far.resume());
  await drained.promise;
  t.equal(writer.queuedBytes, 0);
  t.equal(drains, 1);
  t.equal(writer.write(Buffer.from('end')), 0, 'the next write');
  near.end();
  other.near.end();
  await Promise.all([once(far, 'end'), once(other.far, 'end')]);
  t.ok(received().equals(Buffer.concat([...parts, Buffer.from('end')])));
  t.ok(others().equals(Buffer.concat(Array.from({ length: 10 }, (_, i) => bytesOf(10, i)))));
});

t.test('the memory of a queued write is not freed before it has left or is dropped', async (t) => {
  const { near, far } = await pair(t);
  const drained = Promise.withResolvers<void>();
  const writer = new SocketWriter(near, drained.resolve);
  const sent = bytesOf(LARGE, 1);
  t.ok(writer.write(Buffer.from('head '), sent) > 0);
  freeMemory(sent);
  t.equal(sent.byteLength, LARGE);
  const received = collect(far.resume());
  await drained.promise;
  freeMemory(sent);
  t.equal(sent.byteLength, 0);
  near.end();
  await once(far, 'end');
  t.ok(received().equals(Buffer.concat([Buffer.from('head '), bytesOf(LARGE, 1)])));

  const other = await pair(t);
  const dropped = bytesOf(LARGE, 2);
  t.ok(new SocketWriter(other.near, null).write(dropped) > 0);
  other.near.destroy();
  freeMemory(dropped);
  t.equal(dropped.byteLength, LARGE, 'the socket closes in a later turn');
  await once(other.near, 'close');
  freeMemory(dropped);
  t.equal(dropped.byteLength, 0);
});

/** What is sent in one turn of a large message. */
const PART = 512 * 1024;

for (const head of ['', 'head ']) {
  t.test(`a large message ${head === '' ? 'alone' : 'behind a small one'} leaves in parts, a turn each`, async (t) => {
    const { near, far } = await pair(t);
    const received = collect(far.resume());
    const drained = Promise.withResolvers<void>();
    let drains = 0;
    const writer = new SocketWriter(near, () => {
      drains++;
      drained.resolve();
    });
    const large = bytesOf(LARGE + 1, 1);
    const length = head.length + large.byteLength;
    const queued = head === '' ? writer.writeInTurns(large) : writer.writeInTurns(Buffer.from(head), large);
    t.ok(queued >= length - PART - head.length && queued <= length, `${queued} of ${length} wait`);
    freeMemory(large);
    t.equal(large.byteLength, LARGE + 1, 'its memory is needed');
    const [first] = (await once(far, 'data')) as [Buffer];
    t.ok(first.byteLength <= PART + head.length);
    let turns = 0;
    let before = writer.queuedBytes;
    while (writer.queuedBytes > 0) {
      await new Promise(setImmediate);
      t.ok(before - writer.queuedBytes <= 2 * PART + head.length, 'a part or two end in a turn');
      before = writer.queuedBytes;
      turns++;
    }
    t.ok(turns >= 8, `${turns} turns`);
    await drained.promise;
    freeMemory(large);
    t.equal(large.byteLength, 0, 'its memory is free');
    t.equal(writer.write(Buffer.from('end')), 0, 'the next write');
    near.end();
    await once(far, 'end');
    t.ok(received().equals(Buffer.concat([Buffer.from(head), bytesOf(LARGE + 1, 1), Buffer.from('end')])));
    t.equal(drains, 1);
  });
}

t.test('a message of one part is written at once', async (t) => {
  const { near, far } = await pair(t);
  const received = collect(far.resume());
  const writer = new SocketWriter(near, null);
  writer.writeInTurns(Buffer.from('head '), bytesOf(PART, 1));
  near.end();
  await once(far, 'end');
  t.ok(received().equals(Buffer.concat([Buffer.from('head '), bytesOf(PART, 1)])));
});

for (const reads of [true, false]) {
  t.test(`the rest of a large message is dropped with a socket that is ${reads ? '' : 'not '}read`, async (t) => {
    const { near, far } = await pair(t);
    if (reads) far.resume();
    const writer = new SocketWriter(near, () => t.fail('it has not left'));
    const large = bytesOf(LARGE, 2);
    t.ok(writer.writeInTurns(large) > 0);
    near.destroy();
    freeMemory(large);
    t.equal(large.byteLength, LARGE, 'the socket closes in a later turn');
    await once(near, 'close');
    await new Promise(setImmediate);
    t.equal(writer.queuedBytes, 0);
    freeMemory(large);
    t.equal(large.byteLength, 0);
  });
}

t.test('a reset within a large message destroys the socket with one error', async (t) => {
  const { near, far } = await pair(t);
  const writer = new SocketWriter(near, () => t.fail('it has not left'));
  const errors: Error[] = [];
  near.on('error', (error) => errors.push(error));
  const closed = new Promise((resolve) => near.once('close', resolve));
  t.ok(writer.writeInTurns(bytesOf(LARGE, 3)) > 0);
  far.resetAndDestroy();
  await closed;
  await new Promise(setImmediate);
  t.equal(errors.length, 1);
  t.same([writer.isOpen, writer.queuedBytes], [false, 0]);
});

t.test('a large message leaves a stream in parts', async (t) => {
  const [near, far] = duplexPair() as [Duplex, Duplex];
  const drained = Promise.withResolvers<void>();
  const writer = new SocketWriter(near as unknown as Socket, drained.resolve);
  t.equal(writer.writeInTurns(Buffer.from('head '), bytesOf(LARGE, 4)), LARGE + 5);
  const received = collect(far);
  await drained.promise;
  await new Promise(setImmediate);
  t.ok(received().equals(Buffer.concat([Buffer.from('head '), bytesOf(LARGE, 4)])));
});

t.test('the socket ends behind what is queued', async (t) => {
  const { near, far } = await pair(t);
  const writer = new SocketWriter(near, null);
  const bytes = bytesOf(LARGE, 5);
  t.equal(writer.write(bytes), LARGE);
  near.end();
  const received = collect(far.resume());
  await once(far, 'end');
  t.ok(received().equals(bytes));
});

t.test('a write that fails destroys the socket with its error, and nothing more is sent', async (t) => {
  const { near, far } = await pair(t);
  const writer = new SocketWriter(near, () => t.fail('nothing has left'));
  far.resetAndDestroy();
  // The reset has come when a write fails.
  const closed = new Promise((resolve) => near.once('close', resolve));
  const errors: NodeJS.ErrnoException[] = [];
  near.on('error', (error) => errors.push(error));
  near.pause();
  while (!near.destroyed) {
    writer.write(Buffer.from('x'));
    await new Promise(setImmediate);
  }
  await closed;
  t.equal(errors.length, 1);
  t.match(errors[0]?.code, /^(?:EPIPE|ECONNRESET)$/);
  t.notOk(writer.isOpen);
  t.equal(writer.write(Buffer.from('more')), 0);
});

t.test('a queued write that fails destroys the socket', async (t) => {
  const { near, far } = await pair(t);
  const writer = new SocketWriter(near, () => t.fail('it has not left'));
  t.equal(writer.write(bytesOf(LARGE, 6)), LARGE);
  const failed = once(near, 'error') as Promise<[NodeJS.ErrnoException]>;
  far.resetAndDestroy();
  const [error] = await failed;
  t.match(error.code, /^(?:EPIPE|ECONNRESET)$/);
});

t.test('a socket that is destroyed forgets what is queued', async (t) => {
  const { near } = await pair(t);
  const writer = new SocketWriter(near, () => t.fail('it has not left'));
  t.equal(writer.write(bytesOf(LARGE, 7)), LARGE);
  near.destroy();
  await once(near, 'close');
  await new Promise(setImmediate);
  t.equal(writer.write(Buffer.from('more')), 0, 'the memory is free');
});

t.test('a socket without such a handle is written to as a stream', async (t) => {
  const [near, far] = duplexPair() as [Duplex, Duplex];
  let drains = 0;
  const writer = new SocketWriter(near as unknown as Socket, () => drains++);
  t.equal(writer.write(Buffer.from('one ')), 4, 'nobody reads');
  t.equal(writer.write(Buffer.from('two '), Buffer.from('three')), 13);
  const received = collect(far);
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  t.equal(writer.queuedBytes, 0);
  t.equal(received().toString(), 'one two three');
  t.equal(drains, 1);
  t.ok(writer.isOpen);
});
