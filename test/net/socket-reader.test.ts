// Reads below the stream of a socket: the same bytes, pauses and ends as with the option `onread` alone.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import t, { type Test } from 'tap';
import { readBelowStream } from '../../src/net/socket-reader.ts';

interface Reader {
  readonly near: Socket;
  readonly far: Socket;
  /** What has been read. */
  text: string;
  /** Returned for each read. */
  goesOn: boolean;
}

async function reader(test: Test): Promise<Reader> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const buffer = Buffer.alloc(1024);
  const onRead = (length: number): boolean => {
    read.text += buffer.toString('latin1', 0, length);
    return read.goesOn;
  };
  const { port } = server.address() as AddressInfo;
  const near = connect({ port, host: '127.0.0.1', onread: { buffer, callback: onRead } });
  await once(near, 'connect');
  readBelowStream(near, onRead);
  const [far] = await accepted;
  const read: Reader = { near, far, text: '', goesOn: true };
  test.teardown(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return read;
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

const WORDS = Array.from({ length: 1000 }, (_, i) => `${i} `).join('');

t.test('every byte is read once, and the end is told by the stream', async (t) => {
  const read = await reader(t);
  read.far.end(WORDS);
  await once(read.near, 'end');
  t.equal(read.text, WORDS);
});

t.test('false stops reading until the socket is resumed', async (t) => {
  const read = await reader(t);
  read.goesOn = false;
  read.far.write(WORDS);
  await until(() => read.text !== '');
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  t.equal(read.text, WORDS.slice(0, 1024), 'one read');
  read.goesOn = true;
  read.near.resume();
  await until(() => read.text === WORDS);
  read.near.pause();
  read.far.write('more');
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  t.equal(read.text, WORDS, 'a pause holds as well');
  read.near.resume();
  await until(() => read.text === `${WORDS}more`);
});

t.test('a reset is an error of the stream', async (t) => {
  const read = await reader(t);
  const failed = once(read.near, 'error') as Promise<[NodeJS.ErrnoException]>;
  read.far.resetAndDestroy();
  const [error] = await failed;
  t.equal(error.code, 'ECONNRESET');
});

t.test('a socket that is destroyed in its callback reads no more', async (t) => {
  const read = await reader(t);
  const closed = once(read.near, 'close');
  let reads = 0;
  readBelowStream(read.near, () => {
    reads++;
    read.near.destroy();
    return false;
  });
  read.far.on('error', () => {});
  read.far.write(WORDS);
  await closed;
  t.equal(reads, 1);
});

t.test('a socket without a handle is left alone', async (t) => {
  const socket = new Socket();
  readBelowStream(socket, () => t.fail('nothing is read'));
  socket.destroy();
});
