// ZMTP 3.0 over real sockets: exact bytes of the handshake and of frames, and peers that break the protocol.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import { connectZmtp, endpointAddress, type SocketType, ZmtpConnection, ZmtpListener } from '../../src/net/zmtp.ts';

/** Greeting by RFC 23: signature, version 3.0 or higher, mechanism, not as server, filler. */
function greeting({ minor = 0, major = 3, mechanism = 'NULL' } = {}): Buffer {
  const bytes = Buffer.alloc(64);
  bytes.set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, major, minor]);
  bytes.write(mechanism, 12);
  return bytes;
}

function ready(type: string, more = ''): Buffer {
  const name = `\x05READY\x0bSocket-Type\0\0\0${String.fromCharCode(type.length)}${type}${more}`;
  return Buffer.concat([Buffer.of(4, name.length), Buffer.from(name, 'latin1')]);
}

interface Peer {
  /** The other side of the connection, in raw bytes. */
  readonly socket: Socket;
  /** What a connection of `type` reports: `ready`, a message as text, or why it was closed. */
  readonly next: () => Promise<string>;
  readonly read: (bytes: number) => Promise<Buffer>;
}

/** Connects a socket of a type to a server that is played by the test. */
async function play(t: Test, type: SocketType = 'SUB'): Promise<Peer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const reports: string[] = [];
  let wake = Promise.withResolvers<void>();
  const report = (what: string): void => {
    reports.push(what);
    wake.resolve();
  };
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const connection = connectZmtp(`tcp://127.0.0.1:${(server.address() as AddressInfo).port}`, type, {
    onReady: () => report('ready'),
    onMessage: (frames) => report(frames.map((frame) => frame.toString('latin1')).join('|')),
    onClosed: (error) => report(`closed: ${error?.message ?? 'by the peer'}`),
  });
  t.teardown(() => connection.close());
  const [socket] = await accepted;
  socket.on('error', () => {});
  t.teardown(() => socket.destroy());
  return {
    socket,
    next: async () => {
      while (reports.length === 0) {
        await wake.promise;
        wake = Promise.withResolvers();
      }
      return reports.shift() as string;
    },
    read: (bytes) => readBytes(socket, bytes),
  };
}

async function readBytes(socket: Socket, bytes: number): Promise<Buffer> {
  for (;;) {
    const read = socket.read(bytes) as Buffer | null;
    if (read !== null) return read;
    await once(socket, 'readable');
  }
}

t.test('greets, says its type, and reads frames of both lengths', async (t) => {
  const { socket, next, read } = await play(t);
  const greeted = await read(64);
  t.equal(greeted[0], 0xff);
  t.equal(greeted[9], 0x7f);
  t.same([greeted[10], greeted[11]], [3, 0]);
  t.equal(greeted.toString('latin1', 12, 32), 'NULL'.padEnd(20, '\0'));
  t.ok(greeted.subarray(32).every((byte) => byte === 0));
  socket.write(greeting({ minor: 1 }));
  t.same(await read(ready('SUB').length), ready('SUB'));
  socket.write(ready('PUB', '\x08Identity\0\0\0\0'));
  t.equal(await next(), 'ready');
  socket.write(Buffer.from('\x01\x01a\x01\x00\x00\x02bc', 'latin1'));
  t.equal(await next(), 'a||bc');
  const long = Buffer.alloc(9 + 300, 'x');
  long.set([2, 0, 0, 0, 0, 0, 0, 1, 44]);
  socket.write(long);
  t.equal(await next(), 'x'.repeat(300));
});

t.test('reads what arrives byte by byte', async (t) => {
  const { socket, next } = await play(t);
  socket.setNoDelay(true);
  const bytes = Buffer.concat([greeting(), ready('XPUB'), Buffer.from('\x01\x02ab\x00\x03cde\x00\x00', 'latin1')]);
  for (const byte of bytes) {
    socket.write(Buffer.of(byte));
    await new Promise((resolve) => void setImmediate(resolve));
  }
  t.same([await next(), await next(), await next()], ['ready', 'ab|cde', '']);
});

t.test('answers PING with its context, and leaves out other commands', async (t) => {
  const { socket, next, read } = await play(t);
  socket.write(Buffer.concat([greeting({ minor: 1 }), ready('PUB')]));
  t.equal(await next(), 'ready');
  await read(64 + ready('SUB').length);
  socket.write(Buffer.from('\x04\x09\x04PING\x00\x64hi\x04\x04\x03FOO', 'latin1'));
  t.same(await read(9), Buffer.from('\x04\x07\x04PONGhi', 'latin1'));
  socket.write(Buffer.from('\x00\x01z', 'latin1'));
  t.equal(await next(), 'z');
});

t.test('PONGs do not collect for a peer that reads nothing', async (t) => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const own = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let heard = Promise.withResolvers<void>();
  const connection = new ZmtpConnection(own, 'SUB', {
    onReady: () => {},
    onMessage: () => heard.resolve(),
    onClosed: (error) => heard.reject(error ?? new Error('closed')),
  });
  t.teardown(() => connection.close());
  const [peer] = await accepted;
  t.teardown(() => peer.destroy());
  peer.write(Buffer.concat([greeting({ minor: 1 }), ready('PUB')]));
  const ping = Buffer.from(`\x04\x17\x04PING\0\x64${'x'.repeat(16)}`, 'latin1');
  const pings = Buffer.concat([...Array.from({ length: 10_000 }, () => ping), Buffer.from('\x00\x01z', 'latin1')]);
  const flood = async (): Promise<number> => {
    heard = Promise.withResolvers();
    peer.write(pings);
    await heard.promise;
    return own.writableLength;
  };
  while ((await flood()) === 0) continue;
  t.ok((await flood()) <= ping.length, 'one waits at most');
  peer.resume();
  while (own.writableLength > 0) await new Promise((resolve) => void setImmediate(resolve));
  let answered = 0;
  peer.on('data', (chunk: Buffer) => (answered += chunk.length));
  await flood();
  while (answered === 0) await new Promise((resolve) => void setImmediate(resolve));
  t.pass('PINGs are answered again');
});

t.test('a peer that breaks the protocol is disconnected, with what is wrong', async (t) => {
  const hello = Buffer.concat([greeting(), ready('PUB')]);
  const long = (flags: number, size: bigint): Buffer => {
    const head = Buffer.alloc(9, flags);
    head.writeBigUInt64BE(size, 1);
    return Buffer.concat([hello, head]);
  };
  const broken: [Buffer, RegExp][] = [
    [Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'.padEnd(80)), /does not speak ZMTP/],
    [greeting({ major: 2 }), /speaks a ZMTP before 3\.0/],
    [greeting({ mechanism: 'CURVE' }), /wants the ZMTP mechanism "CURVE", not NULL/],
    [Buffer.concat([greeting(), Buffer.from('\x00\x01a')]), /a ZMTP message before READY/],
    [Buffer.concat([greeting(), Buffer.from('\x04\x05\x04PING')]), /a ZMTP command before READY/],
    [Buffer.concat([greeting(), Buffer.from('\x04\x0a\x05ERROR\x03bad')]), /the peer refuses: bad/],
    [Buffer.concat([greeting(), ready('ROUTER')]), /a SUB socket cannot talk to "ROUTER"/],
    [Buffer.concat([greeting(), Buffer.from('\x04\x08\x05READY\x30a')]), /broken ZMTP metadata/],
    [
      Buffer.concat([greeting(), Buffer.from('\x04\x0d\x05READY\x01a\xff\xff\xff\xff1', 'latin1')]),
      /broken ZMTP metadata/,
    ],
    [
      Buffer.concat([hello, Buffer.from(`\x04\x18\x04PING\0\x64${'x'.repeat(17)}`, 'latin1')]),
      /a ZMTP PING with a context of more than 16 bytes/,
    ],
    [Buffer.concat([hello, Buffer.of(8, 0)]), /unknown flags/],
    [Buffer.concat([hello, Buffer.of(5, 0)]), /unknown flags/],
    [long(2, 4n * 1024n * 1024n + 1n), /a ZMTP message of more than 4194304 bytes/],
    [long(2, 2n ** 64n - 1n), /a ZMTP message of more than 4194304 bytes/],
    [long(6, 8193n), /a ZMTP message of more than 8192 bytes/],
    [Buffer.concat([hello, Buffer.from('\x01\x00'.repeat(17))]), /a ZMTP message of more than 16 frames/],
  ];
  for (const [bytes, message] of broken) {
    const { socket, next } = await play(t);
    socket.write(bytes);
    let report = await next();
    if (report === 'ready') report = await next();
    t.match(report, message);
  }
});

t.test('frames of one message share its bound', async (t) => {
  const { socket, next } = await play(t);
  const part = Buffer.alloc(9 + 1024 * 1024);
  part.set([3, 0, 0, 0, 0, 0, 16, 0, 0]);
  socket.write(Buffer.concat([greeting(), ready('PUB'), part, part, part, part, Buffer.of(0, 1, 0)]));
  t.equal(await next(), 'ready');
  t.match(await next(), /a ZMTP message of more than 4194304 bytes/);
});

t.test('a peer that ends the connection is no error', async (t) => {
  const { socket, next } = await play(t);
  socket.write(Buffer.concat([greeting(), ready('PUB')]));
  socket.end();
  t.same([await next(), await next()], ['ready', 'closed: by the peer']);
});

t.test(
  'a listening socket reads subscriptions of both versions, and drops what a slow peer does not take',
  async (t) => {
    const seen: string[] = [];
    const third = Promise.withResolvers<void>();
    const listener = await ZmtpListener.listen('tcp://127.0.0.1:*', 'PUB', (_, frames) => {
      seen.push(frames.map((frame) => frame.toString('latin1')).join('|'));
      if (seen.length === 3) third.resolve();
    });
    t.teardown(() => listener.close());
    const socket = connect(endpointAddress(listener.endpoint));
    t.teardown(() => socket.destroy());
    socket.write(Buffer.concat([greeting({ minor: 1 }), ready('SUB')]));
    socket.write(Buffer.from('\x00\x03\x01kv\x04\x0c\x09SUBSCRIBEkv\x04\x09\x06CANCELkv', 'latin1'));
    await third.promise;
    t.same(seen, ['\x01kv', '\x01kv', '\x00kv']);
    const [connection] = listener.connections;
    const megabyte = [Buffer.alloc(1024 * 1024)];
    let sent = 0;
    while (connection?.send(megabyte) === true) sent++;
    t.ok(sent >= 64 && sent < 100, `${sent} MiB were taken`);
  },
);

t.test('a message that comes byte by byte takes no object for each', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const seen: string[] = [];
  const [socket] = duplexPair();
  const plain = (): Socket => socket as Socket;
  Object.assign(socket, { setNoDelay: plain, setKeepAlive: plain, setTimeout: plain });
  const connection = new ZmtpConnection(socket as Socket, 'ROUTER', {
    onReady: () => seen.push('ready'),
    onMessage: ([frame]) => seen.push(`${frame?.length}`),
    onClosed: () => undefined,
  });
  t.teardown(() => connection.close());
  socket.emit('data', Buffer.concat([greeting(), ready('DEALER'), Buffer.from('\x02\0\0\0\0\0\0\x10\0', 'latin1')]));
  const pieces: WeakRef<Buffer>[] = [];
  for (let at = 0; at < 4096; at++) {
    const piece = Buffer.alloc(1);
    if (at < 4000) pieces.push(new WeakRef(piece));
    if (at === 4095) {
      await new Promise(setImmediate);
      collect();
      t.equal(pieces.filter((each) => each.deref() !== undefined).length, 0);
    }
    socket.emit('data', piece);
  }
  t.same(seen, ['ready', '4096']);
});

t.test('a listening socket frees its address, and refuses types that do not fit', async (t) => {
  const listener = await ZmtpListener.listen('tcp://127.0.0.1:*', 'ROUTER', () => {});
  const closed = Promise.withResolvers<Error | null>();
  connectZmtp(listener.endpoint, 'SUB', { onReady: () => {}, onMessage: () => {}, onClosed: closed.resolve });
  t.match((await closed.promise)?.message, /a SUB socket cannot talk to "ROUTER"/);
  await t.rejects(
    ZmtpListener.listen(listener.endpoint, 'PUB', () => {}),
    { code: 'EADDRINUSE' },
  );
  const { endpoint } = listener;
  await listener.close();
  const again = await ZmtpListener.listen(endpoint, 'PUB', () => {});
  await again.close();
});

t.test('endpoints are tcp, with names, addresses and wildcards', async (t) => {
  t.same(endpointAddress('tcp://*:5557'), { host: '0.0.0.0', port: 5557 });
  t.same(endpointAddress('tcp://127.0.0.1:*'), { host: '127.0.0.1', port: 0 });
  t.same(endpointAddress('tcp://[::1]:1'), { host: '::1', port: 1 });
  t.same(endpointAddress('tcp://gpu-1.local:65535'), { host: 'gpu-1.local', port: 65_535 });
  for (const wrong of ['ipc:///tmp/kv', 'tcp://a', 'tcp://a:70000', 'tcp://:1', 'a:1', 'tcp://a:1/x']) {
    t.throws(() => endpointAddress(wrong), /is not an endpoint such as tcp:\/\/10\.0\.0\.1:5557/);
  }
});
