// Connections and their pool against scripted servers on real sockets, and compared with undici.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTls, type TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import { Client } from 'undici';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import {
  type Connection,
  ConnectionPool,
  type DispatchError,
  type DispatchHandler,
  type DispatchOptions,
  type PoolSettings,
} from '../../src/net/client.ts';
import { fullReads } from '../../src/net/full-reads.ts';
import { NameCache } from '../../src/net/name-cache.ts';
import { CERTIFICATE, KEY } from '../support/certificate.ts';
import { startBatching } from '../support/batching.ts';
import { answer, chunk, chunkedHead, rawCrn, type RawRequest } from '../support/upstream-crn.ts';

/** Records the calls of a handler, in order. */
class Recorder implements DispatchHandler {
  readonly calls: string[] = [];
  readonly pieces: Buffer[] = [];
  connection: Connection | null = null;
  status = 0;
  headers: readonly string[] = [];
  error: DispatchError | null = null;
  onData: (() => void) | null = null;
  readonly #over = Promise.withResolvers<void>();
  #waiting: { readonly holds: () => boolean; readonly resolve: () => void } | null = null;

  get over(): Promise<void> {
    return this.#over.promise;
  }

  get text(): string {
    return Buffer.concat(this.pieces).toString('latin1');
  }

  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = { holds, resolve };
      this.#changed('');
    });
  }

  onRequestSent(connection: Connection): void {
    this.connection = connection;
    this.#changed('sent');
  }

  onResponseStart(status: number, headers: readonly string[]): void {
    this.status = status;
    this.headers = headers;
    this.#changed('head');
  }

  onResponseData(piece: Buffer): void {
    // Its memory is used again.
    this.pieces.push(Buffer.from(piece));
    this.#changed('data');
    this.onData?.();
  }

  onResponseEnd(): void {
    this.#changed('end');
    this.#over.resolve();
  }

  onResponseError(error: DispatchError): void {
    this.error = error;
    this.#changed('error');
    this.#over.resolve();
  }

  #changed(event: string): void {
    if (event !== '' && this.calls.at(-1) !== event) this.calls.push(event);
    if (this.#waiting?.holds() === true) this.#waiting.resolve();
  }
}

const POST: DispatchOptions = { method: 'POST', path: '/a?b', headers: [], body: Buffer.from('hello') };

type Tap = { teardown(run: () => unknown): unknown };

class Bench {
  readonly pool: ConnectionPool;
  readonly clock: ManualClock;

  constructor(
    t: Tap,
    url: string,
    settings: Partial<PoolSettings> = {},
    clock: ManualClock = createManualClock(1_000_000),
  ) {
    this.clock = clock;
    this.pool = new ConnectionPool(url, { maxConnections: 3, keepAliveMs: 60_000, clock: this.clock, ...settings });
    t.teardown(() => this.pool.close());
  }

  ask(options: Partial<DispatchOptions> = {}, fresh = false): Recorder {
    const recorder = new Recorder();
    this.send(recorder, options, fresh);
    return recorder;
  }

  send(recorder: Recorder, options: Partial<DispatchOptions> = {}, fresh = false): void {
    recorder.connection = this.pool.dispatch({ ...POST, ...options }, recorder, fresh);
  }

  async get(options: Partial<DispatchOptions> = {}, fresh = false): Promise<Recorder> {
    const recorder = this.ask(options, fresh);
    await recorder.over;
    return recorder;
  }

  /** Resolves when this many connections are open. */
  async open(count: number): Promise<void> {
    while (this.pool.openConnections !== count) await turn();
  }
}

const run = promisify(execFile);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const faultOf = ({ error }: Recorder): string | undefined => error?.fault;

t.test('a process without a free file descriptor blames no server', async (t) => {
  const crns = await Promise.all([1, 2].map(() => rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'ok')))));
  const child = fileURLToPath(new URL('client-descriptors-child.js', import.meta.url));
  const command = `ulimit -n 48; exec "$0" "$@"`;
  const { stdout } = await run('sh', ['-c', command, process.execPath, child, ...crns.map(({ url }) => url)]);
  t.equal(
    stdout,
    '200, 200, no connection free: EMFILE, 200',
    'an open connection is of use, a new one is not possible',
  );
});

t.test('a machine without a free local port blames no server, one without an address for it does', async (t) => {
  const child = fileURLToPath(new URL('client-ports-child.js', import.meta.url));
  const command = [
    'ip link set lo up',
    'echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range',
    'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6',
    'exec "$0" "$@"',
  ].join(' && ');
  const namespace = ['-rn', 'sh', '-c', command, process.execPath];
  const isAllowed = await run('unshare', [...namespace, '-e', '']).then(
    () => true,
    () => false,
  );
  if (!isAllowed) {
    t.pass('this system allows no network namespace');
    return;
  }
  const { stdout } = await run('unshare', [...namespace, child]);
  const short = 'no connection free: EADDRNOTAVAIL';
  t.equal(stdout, `200, 200, ${short}, connect: EADDRNOTAVAIL, ${short}, 200`);
});

t.test('sends heads and bodies as given, on one connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'hi', 'X-A: caf\xe9')));
  const b = new Bench(t, crn.url);
  for (let i = 0; i < 3; i++) {
    const { calls, status, headers, text } = await b.get({ headers: ['x-b', 'caf\xe9', 'x-c', ''] });
    t.same(calls, ['sent', 'head', 'data', 'end']);
    t.same([status, headers, text], [200, ['content-length', '2', 'x-a', 'caf\xe9'], 'hi']);
    t.equal(crn.requests[i]?.body.toString(), 'hello');
  }
  const host = new URL(crn.url).host;
  const lines = ['POST /a?b HTTP/1.1', `host: ${host}`, 'connection: keep-alive', 'x-b: caf\xe9', 'x-c: '];
  t.equal(crn.requests[0]?.head, [...lines, 'content-length: 5'].join('\r\n'));
  t.same([b.pool.openConnections, crn.sockets.size], [1, 1]);
});

t.test('a GET without a body has no Content-Length', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', '')));
  await new Bench(t, crn.url).get({ method: 'GET', body: Buffer.alloc(0) });
  t.notMatch(crn.requests[0]?.head, /content-length/);
});

t.test('a large body arrives byte for byte', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', '')));
  const b = new Bench(t, crn.url);
  for (const bytes of [65_535, 65_536, 5_000_000]) {
    const body = Buffer.alloc(bytes, 'abcdefg');
    await b.get({ body });
    t.ok(crn.requests.at(-1)?.body.equals(body));
  }
  t.equal(crn.sockets.size, 1);
});

t.test('a head that fits is written into the room before its body, and not a byte before it', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', '')));
  const b = new Bench(t, crn.url);
  const [before, hello] = ['~'.repeat(4096), 'hello'];
  for (const room of [undefined, 0, 20, before.length]) {
    const memory = Buffer.from(before + hello);
    await b.get({ body: memory.subarray(before.length), ...(room !== undefined && { room }) });
    const { body, head } = crn.requests.at(-1) as RawRequest;
    t.equal(body.toString(), hello);
    const isThere = room === before.length;
    const written = isThere ? `${head}\r\n\r\n${hello}` : hello;
    t.equal(memory.toString(), (before + hello).slice(0, -written.length) + written);
  }
  t.equal(crn.sockets.size, 1);
});

const UNSENDABLE: Record<string, Partial<DispatchOptions>> = {
  'a path without a slash': { path: 'a' },
  'a path with a space': { path: '/a b' },
  'a path with a line end': { path: '/a\r\nb: c' },
  'a path beyond latin1': { path: '/\u0100' },
  'a name that is empty': { headers: ['', 'a'] },
  'a name with a space': { headers: ['a b', 'a'] },
  'a name with a colon': { headers: ['a:b', 'a'] },
  'a name in upper case': { headers: ['A', 'a'] },
  'a name that is not ASCII': { headers: ['caf\xe9', 'a'] },
  'a value with CR': { headers: ['a', 'b\rc'] },
  'a value with LF': { headers: ['a', 'b\nc'] },
  'a value with NUL': { headers: ['a', 'b\0'] },
  'a value with DEL': { headers: ['a', 'b\x7f'] },
  'a value beyond latin1': { headers: ['a', '\u2028'] },
  'a length of its own': { headers: ['content-length', '1'] },
  'a coding of its own': { headers: ['transfer-encoding', 'chunked'] },
  'a host of its own': { headers: ['host', 'a'] },
};

for (const [name, options] of Object.entries(UNSENDABLE)) {
  t.test(`${name} is not sent`, async (t) => {
    const b = new Bench(t, 'http://127.0.0.1:1');
    const recorder = b.ask(options);
    t.same([recorder.calls, faultOf(recorder), b.pool.openConnections], [['error'], 'unsendable', 0]);
    t.equal(recorder.connection, null);
  });
}

t.test('no path, name or value changes the structure of a request', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', '')));
  const b = new Bench(t, crn.url);
  const word = fc.string({ unit: 'binary', maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(word, word, word, async (path, name, value) => {
      const recorder = await b.get({ path: `/${path}`, headers: [name, value] });
      if (faultOf(recorder) === 'unsendable') return true;
      const lines = crn.requests.at(-1)?.head.split('\r\n');
      return lines?.length === 5 && lines[0] === `POST /${path} HTTP/1.1` && lines[3] === `${name}: ${value}`;
    }),
    { numRuns: 300 },
  );
  t.pass();
});

t.test('a refused connection fails before the request starts', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  const recorder = await new Bench(t, `http://127.0.0.1:${port}`).get();
  t.same(recorder.calls, ['error']);
  t.match(recorder.error, { fault: 'connect', cause: { code: 'ECONNREFUSED' } });
});

const FAULTS: [name: string, bytes: string | Buffer, fault: string, calls: string[]][] = [
  ['no answer', '', 'reset', ['sent', 'error']],
  ['half a head', 'HTTP/1.1 200 OK\r\na:', 'reset', ['sent', 'error']],
  ['only an early head', 'HTTP/1.1 100 Continue\r\n\r\n', 'reset', ['sent', 'error']],
  ['half a body', 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab', 'truncated', ['sent', 'head', 'data', 'error']],
  [
    'no last chunk',
    Buffer.concat([Buffer.from(chunkedHead()), chunk('ab')]),
    'truncated',
    ['sent', 'head', 'data', 'error'],
  ],
  ['a bad head', 'HTTP/1.1 200 OK\r\na b\r\n\r\n', 'malformed', ['sent', 'error']],
  ['a bad chunk', `${chunkedHead()}2\r\nab\r\nx`, 'malformed', ['sent', 'head', 'data', 'error']],
];

for (const [name, bytes, fault, calls] of FAULTS) {
  t.test(`${name} is ${fault}`, async (t) => {
    const crn = await rawCrn(t, ({ socket }) => socket.end(bytes));
    const b = new Bench(t, crn.url);
    const recorder = await b.get();
    t.same([recorder.calls, faultOf(recorder)], [calls, fault]);
    t.equal(b.pool.openConnections, 0);
  });
}

t.test(
  'an answer that is not HTTP, or whose lines end in LF, fails at once and not when the connection ends',
  async (t) => {
    for (const bytes of ['SSH-2.0-x\r\n', '{"error":1}', 'HTTP/1.1 200 OK\ncontent-length: 0\n\n', 'HTTP/2 200\r\n']) {
      const crn = await rawCrn(t, ({ socket }) => socket.write(bytes));
      const b = new Bench(t, crn.url);
      const recorder = await b.get();
      t.same([recorder.calls, faultOf(recorder)], [['sent', 'error'], 'malformed'], bytes);
      t.equal(b.pool.openConnections, 0);
    }
  },
);

t.test('a response without a length ends with the close of the connection, not with a reset', async (t) => {
  const crn = await rawCrn(t, ({ socket, earlier }) => {
    void earlier;
    socket.write('HTTP/1.1 200 OK\r\n\r\nab');
    if (crn.requests.length === 1) socket.end('c');
  });
  const b = new Bench(t, crn.url);
  const whole = await b.get();
  t.same([whole.calls.at(-1), whole.text], ['end', 'abc']);
  const broken = b.ask();
  await broken.until(() => broken.text === 'ab');
  for (const socket of crn.sockets) socket.resetAndDestroy();
  await broken.over;
  t.match(broken.error, { fault: 'truncated', cause: { code: 'ECONNRESET' } });
});

t.test('a connection that cannot be used again is replaced', async (t) => {
  const answers = [
    answer('200 OK', 'a', 'connection: close'),
    Buffer.from('HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na'),
    Buffer.concat([answer('200 OK', 'a'), answer('200 OK', 'b')]),
    Buffer.from(`${chunkedHead('content-length: 9')}1\r\na\r\n0\r\n\r\n`),
    answer('200 OK', 'a', 'keep-alive: timeout=1'),
    answer('200 OK', 'a', 'keep-alive: max=5, timeout=0'),
    answer('200 OK', 'a'),
  ];
  const crn = await rawCrn(t, ({ socket }) => socket.write(answers[crn.requests.length - 1] as Buffer));
  const b = new Bench(t, crn.url);
  for (let i = 1; i <= answers.length; i++) {
    const { calls, text } = await b.get();
    t.same([calls.at(-1), text, crn.sockets.size], ['end', 'a', i]);
  }
  t.equal(b.pool.openConnections, 1);
});

t.test('unrequested bytes close an idle connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url);
  await b.get();
  for (const socket of crn.sockets) socket.write(answer('200 OK', 'poison'));
  await b.open(0);
  t.equal((await b.get()).text, 'a');
  t.equal(crn.sockets.size, 2);
});

t.test('an idle connection that the server closes is replaced', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url);
  await b.get();
  for (const socket of crn.sockets) socket.end();
  await b.open(0);
  t.equal((await b.get()).text, 'a');
  t.equal(crn.sockets.size, 2);
});

t.test('a connection is closed after its idle time, and not while a request is in progress', async (t) => {
  const crn = await rawCrn(t, ({ socket, earlier }) => {
    if (earlier === 1) socket.write(answer('200 OK', 'a').subarray(0, -1));
    else socket.write(answer('200 OK', 'a'));
  });
  const b = new Bench(t, crn.url, { keepAliveMs: 40 });
  await b.get();
  await turn();
  b.clock.advance(39);
  const second = b.ask();
  await second.until(() => second.status === 200);
  b.clock.advance(1000);
  crn.requests[1]?.socket.write('a');
  await second.over;
  t.same([second.text, crn.sockets.size, b.pool.openConnections], ['a', 1, 1]);
  b.clock.advance(39);
  t.equal(b.pool.openConnections, 1);
  b.clock.advance(1);
  t.equal(b.pool.openConnections, 0);
});

t.test('a response that overtakes its request is delivered, and the connection closed', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.pause().write(answer('413 Too Large', 'no')));
    t.teardown(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const b = new Bench(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (let i = 1; i <= 3; i++) {
    const { calls, status, text } = await b.get({ body: Buffer.alloc(30_000_000) });
    t.same([calls.at(-1), status, text, b.pool.openConnections], ['end', 413, 'no', 0], `request ${i}`);
  }
});

t.test('a fast server has one buffer of its answer read in a turn of the event loop', async (t) => {
  const total = 12_000_000;
  const head = `HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`;
  const written = Promise.withResolvers<void>();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.on('data', () => {
      socket.write(head);
      socket.write(Buffer.alloc(total), () => written.resolve());
      // What the kernel takes at once waits for the client.
      setImmediate(() => setImmediate(() => written.resolve()));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const bench = new Bench(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  for (const round of [1, 2]) {
    const recorder = bench.ask();
    await recorder.until(() => recorder.calls.includes('head'));
    recorder.connection?.pause(recorder);
    await written.promise;
    let inTurn = 0;
    let most = 0;
    const turn = (): void => {
      inTurn = 0;
      if (recorder.calls.at(-1) === 'data' || recorder.calls.at(-1) === 'head') setImmediate(turn);
    };
    let seen = recorder.pieces.length;
    recorder.onData = () => {
      for (; seen < recorder.pieces.length; seen++) inTurn += (recorder.pieces[seen] as Buffer).length;
      most = Math.max(most, inTurn);
    };
    turn();
    recorder.connection?.resume(recorder);
    await recorder.over;
    t.equal(
      recorder.pieces.reduce((sum, { length }) => sum + length, 0),
      total,
      `round ${round}`,
    );
    t.ok(most <= 2 * 256 * 1024, `${most} bytes in a turn`);
  }
  t.equal(sockets.size, 1, 'the connection is used again');
});

for (const isSecure of [false, true])
  t.test(`a fast server is read on from in turns${isSecure ? ', over TLS too' : ''}`, async (t) => {
    const [full, total] = [256 * 1024, 3_000_000];
    const serve = (socket: Socket): void => {
      socket
        .on('error', () => undefined)
        .on('data', () => {
          socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
          socket.write(Buffer.alloc(total));
        });
    };
    const server = isSecure ? createTls({ key: KEY, cert: CERTIFICATE }, serve) : createServer(serve);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.teardown(() => server.close());
    const url = `${isSecure ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const b = new Bench(t, url, isSecure ? { hostname: 'secure.test', ca: CERTIFICATE } : {});
    let wake = (): void => {};
    let readOn: (() => void) | null = null;
    t.teardown(() => Reflect.deleteProperty(fullReads, 'add'));
    fullReads.add = (next) => {
      readOn = next;
      wake();
    };
    const recorder = b.ask();
    const bytes = (): number => recorder.pieces.reduce((sum, { length }) => sum + length, 0);
    let stops = 0;
    for (let before = 0; bytes() < total - 2 * full; before = bytes()) {
      while (readOn === null) await new Promise<void>((resolve) => (wake = resolve));
      stops++;
      // TLS gives what it has decrypted.
      await new Promise(setImmediate);
      const stopped = bytes();
      t.ok(stopped - before <= 2 * full, `${stopped - before} bytes`);
      for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
      t.equal(bytes(), stopped);
      const next: () => void = readOn;
      readOn = null;
      next();
    }
    t.ok(stops >= 5, `${stops} stops`);
    fullReads.add = (next) => void setImmediate(next);
    await recorder.over;
    t.same([bytes(), recorder.calls.at(-1)], [total, 'end']);
  });

t.test('nothing is delivered during a pause, and everything after it, in order', async (t) => {
  const all = Buffer.alloc(3_000_000, '0123456789');
  for (const framing of ['length', 'chunked', 'close']) {
    const crn = await rawCrn(t, ({ socket }) => {
      if (framing === 'length') socket.write(answer('200 OK', all));
      else if (framing === 'close') socket.end(Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\n\r\n'), all]));
      else {
        socket.write(chunkedHead());
        for (let at = 0; at < all.byteLength; at += 1000) socket.write(chunk(all.subarray(at, at + 1000)));
        socket.write(chunk(''));
      }
    });
    const b = new Bench(t, crn.url);
    const recorder = b.ask();
    recorder.onData = () => {
      recorder.connection?.pause(recorder);
      const count = recorder.pieces.length;
      setImmediate(() =>
        setImmediate(() => {
          if (recorder.pieces.length !== count || recorder.calls.at(-1) !== 'data') t.fail('delivered during a pause');
          recorder.connection?.resume(recorder);
        }),
      );
    };
    await recorder.over;
    t.same(recorder.calls, ['sent', 'head', 'data', 'end']);
    t.ok(Buffer.concat(recorder.pieces).equals(all));
    recorder.onData = null;
    // A connection that was paused is read once more before it is reused.
    for (let i = 0; i < 3; i++) await turn();
    await b.get();
    t.equal(crn.sockets.size, framing === 'close' ? 2 : 1);
  }
});

t.test('a pause at the head holds back the body, its end and the end of the connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.end(answer('200 OK', 'a', 'connection: close')));
  const b = new Bench(t, crn.url);
  const recorder = new (class extends Recorder {
    override onResponseStart(...args: Parameters<Recorder['onResponseStart']>): void {
      this.connection?.pause(this);
      super.onResponseStart(...args);
    }
  })();
  b.send(recorder);
  await recorder.until(() => recorder.status === 200);
  const [socket] = crn.sockets;
  if (socket?.writableFinished === false) await once(socket, 'finish');
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
  t.same(recorder.calls, ['sent', 'head']);
  recorder.connection?.resume(recorder);
  await recorder.over;
  t.same([recorder.calls, recorder.text], [['sent', 'head', 'data', 'end'], 'a']);
});

t.test('an aborted request calls nobody any more, in every phase, and its connection is closed', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'abc').subarray(0, -1)));
  const b = new Bench(t, crn.url);
  for (const phase of ['connect', 'sent', 'head', 'data']) {
    const aborted = Promise.withResolvers<void>();
    const stop = (recorder: Recorder): void => {
      recorder.connection?.abort(recorder);
      aborted.resolve();
    };
    const recorder = new (class extends Recorder {
      override onRequestSent(connection: Connection): void {
        super.onRequestSent(connection);
        if (phase === 'sent') stop(this);
      }
      override onResponseStart(...args: Parameters<Recorder['onResponseStart']>): void {
        super.onResponseStart(...args);
        if (phase === 'head') stop(this);
      }
      override onResponseData(...args: Parameters<Recorder['onResponseData']>): void {
        super.onResponseData(...args);
        if (phase === 'data') stop(this);
      }
    })();
    b.send(recorder);
    if (phase === 'connect') stop(recorder);
    await aborted.promise;
    t.equal(b.pool.openConnections, 0);
    for (let i = 0; i < 5; i++) await turn();
    const phases = ['connect', 'sent', 'head', 'data'];
    t.same(recorder.calls, phases.slice(1, phases.indexOf(phase) + 1));
    recorder.connection?.abort(recorder);
  }
});

t.test('a handler whose request has ended cannot stop the next request of the connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url);
  const first = await b.get();
  await turn();
  const second = b.ask();
  t.equal(second.connection, first.connection);
  first.connection?.pause(first);
  first.connection?.abort(first);
  await second.over;
  t.same([second.text, crn.sockets.size], ['a', 1]);
});

t.test('an error thrown by a handler fails its own request only', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'abc')));
  const b = new Bench(t, crn.url);
  const recorder = b.ask();
  recorder.onData = () => {
    throw new Error('mistaken');
  };
  await recorder.over;
  t.match(recorder.error, { fault: 'internal', cause: { message: 'mistaken' } });
  t.equal((await b.get()).text, 'abc');
});

t.test('connects to an IPv6 server', async (t) => {
  const server = createServer((socket) => {
    socket.on('data', () => socket.write(answer('200 OK', 'six')));
    t.teardown(() => socket.destroy());
  });
  const listening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(0, '::1', () => resolve(true));
  });
  if (!listening) return;
  t.teardown(() => server.close());
  const b = new Bench(t, `http://[::1]:${(server.address() as AddressInfo).port}`);
  t.equal((await b.get()).text, 'six');
});

t.test(
  'a kept connection that closes at once is stale; one that has said anything, or has worked, is reset',
  async (t) => {
    let script: (socket: Socket, b: Bench) => void = () => undefined;
    const crn = await rawCrn(t, ({ socket, earlier }) => {
      if (earlier === 0) socket.write(answer('200 OK', 'a'));
      else script(socket, b);
    });
    const b = new Bench(t, crn.url);
    const scripts: [name: string, fault: string, run: typeof script][] = [
      ['reset at once', 'stale', (socket) => socket.resetAndDestroy()],
      ['closed at once', 'stale', (socket) => socket.end()],
      ['closed after 499 ms', 'stale', (socket) => (b.clock.advance(499), socket.end())],
      ['closed after 500 ms', 'reset', (socket) => (b.clock.advance(500), socket.end())],
      ['closed after 13 bytes', 'reset', (socket) => socket.end('HTTP/1.1 200 ')],
      ['closed after an early head', 'reset', (socket) => socket.end('HTTP/1.1 103 Early\r\n\r\n')],
    ];
    for (const [name, fault, run] of scripts) {
      script = run;
      t.equal((await b.get()).text, 'a');
      await turn();
      const { calls, ...recorder } = await b.get();
      t.same([calls, recorder.error?.fault], [['sent', 'error'], fault], name);
      t.equal(b.pool.openConnections, 0);
    }
    t.equal(crn.requests.length, 2 * scripts.length, 'nothing was sent twice');
  },
);

t.test('requests that wait for the end of their turn', async (t) => {
  const crn = await rawCrn(t, ({ body, socket }) => socket.write(answer('200 OK', body.toString())));
  const b = new Bench(t, crn.url);
  /** Asks on idle connections, with nothing sent yet. */
  const asked = async (...bodies: string[]): Promise<Recorder[]> => {
    await Promise.all(bodies.map(() => b.get()));
    await turn();
    await startBatching();
    const recorders = bodies.map((body) => b.ask({ body: Buffer.from(body) }));
    for (const { calls } of recorders) t.same(calls, []);
    return recorders;
  };

  await t.test('are answered, each with its own answer', async (t) => {
    const recorders = await asked('a', 'b'.repeat(20_000), 'c');
    for (const { over } of recorders) await over;
    t.same(
      recorders.map(({ text }) => text),
      ['a', 'b'.repeat(20_000), 'c'],
    );
    for (const { calls } of recorders) t.same(calls, ['sent', 'head', 'data', 'end']);
  });

  await t.test('are not sent when they end before', async (t) => {
    const [recorder] = await asked('ended');
    recorder!.connection?.abort(recorder!);
    for (let i = 0; i < 20; i++) await turn();
    t.same([recorder!.calls, crn.requests.some(({ body }) => body.toString() === 'ended')], [[], false]);
  });

  for (const [what, act] of [
    ['closes the connection', (socket) => socket.destroy()],
    ['ends it', (socket) => socket.end()],
    ['sends what nobody has asked for', (socket) => socket.write(answer('200 OK', 'stray'))],
  ] as const satisfies [string, (socket: Socket) => unknown][]) {
    await t.test(`are stale, and not sent, when the server ${what}`, async (t) => {
      const [recorder] = await asked(what);
      act(crn.requests.at(-1)!.socket);
      await recorder!.over;
      t.same([recorder!.calls, faultOf(recorder!)], [['error'], 'stale']);
      t.notOk(crn.requests.some(({ body }) => body.toString() === what));
    });
  }
});

t.test('a new connection that closes at once is reset', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.resetAndDestroy());
  t.equal(faultOf(await new Bench(t, crn.url).get()), 'reset');
});

t.test(
  'the idle connection that was used last is taken first, a new one when none is idle or a fresh one is asked for',
  async (t) => {
    const open: Socket[] = [];
    const crn = await rawCrn(t, ({ socket }) => open.push(socket));
    const b = new Bench(t, crn.url);
    const next = async (count: number): Promise<void> => {
      while (open.length < count) await turn();
    };
    const [one, two] = [b.ask(), b.ask()];
    await next(2);
    t.not(one.connection, two.connection);
    t.equal(b.pool.openConnections, 2);
    open.splice(0).forEach((socket) => socket.write(answer('200 OK', 'a')));
    await Promise.all([one.over, two.over]);
    await turn();
    const last = b.ask();
    const fresh = b.ask({}, true);
    const first = b.ask();
    t.same(new Set([last.connection, first.connection]), new Set([one.connection, two.connection]));
    t.same(
      [last, first, fresh].map(({ connection }) => connection?.served),
      [1, 1, 0],
    );
    t.equal(b.pool.openConnections, 3);
    const refused = b.ask();
    t.same([refused.calls, faultOf(refused), refused.connection], [['error'], 'no connection free', null]);
    t.equal(b.pool.available, false);
    fresh.connection?.abort(fresh);
    t.equal(b.pool.available, true);
    const fourth = b.ask();
    t.same([fourth.error, b.pool.openConnections], [null, 3]);
  },
);

t.test('a fresh connection takes the place of an idle one at the limit', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url, { maxConnections: 1 });
  const kept = await b.get();
  const fresh = b.ask({}, true);
  t.not(fresh.connection, kept.connection);
  await fresh.over;
  t.same([fresh.text, b.pool.openConnections, crn.sockets.size], ['a', 1, 2]);
});

t.test('an unsendable request takes no connection, not even a kept one', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url);
  await b.get();
  await turn();
  for (let i = 0; i < 10; i++) t.equal(faultOf(b.ask({ headers: ['a', 'b\nc'] })), 'unsendable');
  t.equal((await b.get()).text, 'a');
  t.equal(crn.sockets.size, 1);
});

t.test('close closes idle connections at once and the others when their requests end', async (t) => {
  const crn = await rawCrn(t, ({ socket, earlier }) => {
    if (earlier === 0) socket.write(answer('200 OK', 'a'));
  });
  const b = new Bench(t, crn.url);
  const [one, two] = [b.ask(), b.ask()];
  await Promise.all([one.over, two.over]);
  await turn();
  const busy = b.ask();
  await crn.arrived(3);
  b.pool.close();
  t.equal(b.pool.openConnections, 1);
  crn.requests[2]?.socket.write(answer('200 OK', 'b'));
  await busy.over;
  t.same([busy.text, b.pool.openConnections], ['b', 0]);
});

/** Servers on one port of several loopback addresses; each answers with its address, or with `answers[address]`. */
async function servers(
  t: Tap,
  addresses: readonly string[],
): Promise<{ port: number; connections: Map<string, Set<Socket>>; close: (address: string) => Promise<void> }> {
  const connections = new Map<string, Set<Socket>>();
  const running = new Map<string, Server>();
  let port = 0;
  for (const address of addresses) {
    const sockets = new Set<Socket>();
    connections.set(address, sockets);
    const server = createServer((socket) => {
      sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)));
      socket.on('data', () => socket.write(answer('200 OK', address)));
    }).listen(port, address);
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
    running.set(address, server);
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
  }
  const close = async (address: string): Promise<void> => {
    running.get(address)?.close();
    for (const socket of connections.get(address) ?? []) socket.destroy();
    while (connections.get(address)?.size !== 0) await turn();
  };
  return { port, connections, close };
}

/** A pool for a name whose addresses the test changes. */
function named(t: Tap, port: number, addresses: string[]): { b: Bench; addresses: string[]; lookups: () => number } {
  let lookups = 0;
  const clock = createManualClock(1_000_000);
  const lookup = async (): Promise<readonly string[]> => {
    lookups++;
    if (addresses.length === 0) throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    return [...addresses];
  };
  const b = new Bench(t, `http://crn.test:${port}`, { names: new NameCache({ clock, lookup }) }, clock);
  return { b, addresses, lookups: () => lookups };
}

t.test('new connections use the addresses of a name in turn, and one lookup', async (t) => {
  const { port } = await servers(t, ['127.0.0.1', '127.0.0.2']);
  const { b, lookups } = named(t, port, ['127.0.0.1', '127.0.0.2']);
  const texts: string[] = [];
  for (let i = 0; i < 6; i++) {
    const recorder = b.ask({}, true);
    await recorder.over;
    texts.push(recorder.text);
    b.pool.close();
  }
  t.same(texts, ['127.0.0.1', '127.0.0.2', '127.0.0.1', '127.0.0.2', '127.0.0.1', '127.0.0.2']);
  t.equal(lookups(), 1);
});

t.test('the next address is tried when one refuses, and the refusing one comes last for 10 s', async (t) => {
  const { port, close } = await servers(t, ['127.0.0.1', '127.0.0.2', '127.0.0.3']);
  const { b } = named(t, port, ['127.0.0.1', '127.0.0.2', '127.0.0.3']);
  await close('127.0.0.1');
  await close('127.0.0.2');
  for (let i = 0; i < 4; i++) {
    const { calls, text } = await b.get();
    b.pool.close();
    t.same([calls, text], [['sent', 'head', 'data', 'end'], '127.0.0.3']);
  }
  await close('127.0.0.3');
  const failed = await b.get();
  t.match(failed.error, { fault: 'connect', cause: { code: 'ECONNREFUSED' } });
});

/** A server whose queue of connections is full, so that it does not answer further attempts. */
const SILENT = `
  const { parentPort, workerData } = require('node:worker_threads');
  const server = require('node:net').createServer();
  server.listen({ port: workerData.port, host: '127.0.0.2', backlog: 1 }, () => {
    parentPort.postMessage('listening');
    setImmediate(() => Atomics.wait(workerData.lock, 0, 0));
  });
`;

t.test('the next address is tried when one is silent for 500 ms', async (t) => {
  const { port } = await servers(t, ['127.0.0.1']);
  const lock = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(SILENT, { eval: true, workerData: { port, lock } });
  t.teardown(() => {
    Atomics.store(lock, 0, 1);
    Atomics.notify(lock, 0);
    return worker.terminate();
  });
  await once(worker, 'message');
  const waiting = Array.from({ length: 8 }, () => connect(port, '127.0.0.2').on('error', () => undefined));
  t.teardown(() => waiting.forEach((socket) => socket.destroy()));
  await once(waiting[0] as Socket, 'connect');
  const { b } = named(t, port, ['127.0.0.2', '127.0.0.1']);
  const recorder = b.ask();
  while (b.clock.nextDueMs === Infinity) await turn();
  b.clock.advance(499);
  for (let i = 0; i < 5; i++) await turn();
  t.same(recorder.calls, []);
  b.clock.advance(1);
  await recorder.over;
  t.equal(recorder.text, '127.0.0.1');
  t.equal((await b.get({}, true)).text, '127.0.0.1', 'the silent address comes last');
});

t.test('a new address gets traffic, and a vanished one loses it, within the time of a lookup', async (t) => {
  const { port, connections } = await servers(t, ['127.0.0.1', '127.0.0.2', '127.0.0.3']);
  const { b, addresses, lookups } = named(t, port, ['127.0.0.1']);
  t.equal((await b.get()).text, '127.0.0.1');
  addresses.splice(0, 1, '127.0.0.2');
  b.clock.advance(29_999);
  t.equal((await b.get()).text, '127.0.0.1');
  b.clock.advance(1);
  t.equal((await b.get()).text, '127.0.0.1', 'the old address is used until the lookup has ended');
  t.equal((await b.get()).text, '127.0.0.2');
  t.same([lookups(), b.pool.openConnections], [2, 1]);
  while (connections.get('127.0.0.1')?.size !== 0) await turn();
  // A second address gets its share although the connection to the first one is good.
  addresses.push('127.0.0.3');
  b.clock.advance(30_000);
  await b.get();
  b.clock.advance(30_000);
  const texts = new Set<string>();
  for (let i = 0; i < 4; i++) {
    texts.add((await b.get()).text);
    b.clock.advance(59_999);
  }
  t.same([...texts].sort(), ['127.0.0.2', '127.0.0.3']);
});

t.test(
  'a name that does not exist fails to connect, and an abort while it is looked up ends the request',
  async (t) => {
    const { b, addresses } = named(t, 1, []);
    const failed = await b.get();
    t.match(failed.error, { fault: 'connect', cause: { code: 'ENOTFOUND' } });
    t.equal(b.pool.openConnections, 0);
    addresses.push('127.0.0.1');
    b.clock.advance(1000);
    const aborted = b.ask();
    t.equal(b.pool.openConnections, 1);
    aborted.connection?.abort(aborted);
    for (let i = 0; i < 5; i++) await turn();
    t.same([aborted.calls, b.pool.openConnections], [[], 0]);
  },
);

/** An https: server under the certificate of the tests that runs `script` for every connection. */
async function secureServer(t: Tap, script: (socket: TLSSocket) => void): Promise<SecureServer> {
  const sockets: TLSSocket[] = [];
  const server = createTls({ cert: CERTIFICATE, key: KEY, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
    // Bytes that wait for an acknowledgement are lost when the server closes with a reset.
    sockets.push(socket.setNoDelay(true).on('error', () => undefined));
    script(socket);
  }).listen(0, '127.0.0.1');
  server.on('tlsClientError', () => undefined);
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, sockets };
}

interface SecureServer {
  readonly port: number;
  readonly sockets: TLSSocket[];
}

function secureBench(t: Tap, { port }: Pick<SecureServer, 'port'>, hostname = 'secure.test', ca = CERTIFICATE): Bench {
  const names = new NameCache({ lookup: async () => ['127.0.0.1'] });
  return new Bench(t, `https://${hostname}:${port}`, { names, ...(ca !== '' && { ca }) });
}

t.test('speaks TLS with the name of the server, HTTP/1.1 and connections that are kept and resumed', async (t) => {
  const secure = await secureServer(t, (socket) => {
    socket.on('data', (bytes) => {
      if (bytes.includes('end')) socket.end(answer('200 OK', 'last'));
      else socket.write(answer('200 OK', 'ok'));
    });
  });
  const b = secureBench(t, secure);
  for (let i = 0; i < 50; i++) {
    t.equal((await b.get()).text, 'ok');
    // A request that is written between two reads may be answered before TLS tells that it was written.
    await turn();
  }
  t.equal(secure.sockets.length, 1);
  const { servername, alpnProtocol } = secure.sockets[0] as TLSSocket & { servername: string };
  t.same([servername, alpnProtocol, secure.sockets[0]?.isSessionReused()], ['secure.test', 'http/1.1', false]);
  await b.get({ path: '/end' });
  await b.open(0);
  t.equal((await b.get()).text, 'ok');
  t.equal(secure.sockets[1]?.isSessionReused(), true);
  const byAddress = secureBench(t, secure, '127.0.0.1');
  t.equal((await byAddress.get()).text, 'ok');
});

t.test('a server at an address has a name of its own in Host and TLS', async (t) => {
  const heads: string[] = [];
  const secure = await secureServer(t, (socket) => {
    socket.on('data', (bytes) => {
      heads.push(bytes.toString());
      socket.write(answer('200 OK', 'ok'));
    });
  });
  const origin = `https://127.0.0.1:${secure.port}`;
  const named = new Bench(t, origin, { ca: CERTIFICATE, hostname: 'gpu.secure.test' });
  t.equal((await named.get()).text, 'ok');
  t.equal((secure.sockets[0] as TLSSocket & { servername: string }).servername, 'gpu.secure.test');
  t.match(heads[0], `\r\nhost: gpu.secure.test:${secure.port}\r\n`);
  const wrong = new Bench(t, origin, { ca: CERTIFICATE, hostname: 'other.test' });
  const { error } = await wrong.get();
  t.equal((error?.cause as NodeJS.ErrnoException | undefined)?.code, 'ERR_TLS_CERT_ALTNAME_INVALID');
});

t.test('refuses certificates of another name or of an unknown authority, before it sends anything', async (t) => {
  let received = 0;
  const secure = await secureServer(t, (socket) => socket.on('data', () => received++));
  for (const [hostname, ca, code] of [
    ['other.test', CERTIFICATE, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['secure.test', '', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ] as const) {
    const b = secureBench(t, secure, hostname, ca);
    for (let i = 0; i < 3; i++) {
      const { calls, error } = await b.get();
      t.same(
        [calls, error?.fault, (error?.cause as NodeJS.ErrnoException | undefined)?.code],
        [['error'], 'connect', code],
      );
      t.equal(b.pool.openConnections, 0);
    }
  }
  t.equal(received, 0);
});

t.test('over TLS: large bodies, pauses, faults and stale connections are as without it', async (t) => {
  const all = Buffer.alloc(3_000_000, '0123456789');
  let script: (socket: TLSSocket, request: Buffer) => void = () => undefined;
  const secure = await secureServer(t, (socket) => {
    let request: Buffer = Buffer.alloc(0);
    socket.on('data', (bytes: Buffer) => {
      request = Buffer.concat([request, bytes]);
      const head = request.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/.exec(request.toString('latin1', 0, head))?.[1] ?? 0);
      if (head < 0 || request.byteLength < head + 4 + length) return;
      const whole = request;
      request = Buffer.alloc(0);
      script(socket, whole);
    });
  });
  const b = secureBench(t, secure);
  const get = async (options: Partial<DispatchOptions> = {}): Promise<Recorder> => {
    const recorder = await b.get(options);
    for (let i = 0; i < 3; i++) await turn();
    return recorder;
  };
  let echo: Buffer = Buffer.alloc(0);
  script = (socket, request) => {
    echo = request.subarray(request.indexOf('\r\n\r\n') + 4);
    socket.write(answer('200 OK', all));
  };
  const large = b.ask({ body: all });
  large.onData = () => {
    large.connection?.pause(large);
    const count = large.pieces.length;
    setImmediate(() =>
      setImmediate(() => {
        if (large.pieces.length !== count || large.calls.at(-1) !== 'data') t.fail('delivered during a pause');
        large.connection?.resume(large);
      }),
    );
  };
  await large.over;
  t.ok(Buffer.concat(large.pieces).equals(all));
  t.ok(echo.equals(all));
  for (let i = 0; i < 3; i++) await turn();
  script = (socket) => socket.end();
  t.equal(faultOf(await get()), 'stale');
  t.equal(faultOf(await get()), 'reset');
  script = (socket) => socket.destroy();
  t.equal(faultOf(await get()), 'reset');
  script = (socket) => socket.end(answer('200 OK', 'abc').subarray(0, -1));
  t.equal(faultOf(await get()), 'truncated');
  script = (socket) => socket.write(Buffer.concat([answer('200 OK', 'a'), answer('200 OK', 'poison'.repeat(10_000))]));
  t.equal((await get()).text, 'a');
  script = (socket) => {
    // Two records: the second comes when the first response has ended.
    socket.write(answer('200 OK', 'a'));
    socket.write(answer('200 OK', 'poison'));
  };
  t.equal((await b.get()).text, 'a');
  script = (socket) => socket.write(answer('200 OK', 'b'));
  t.equal((await b.get()).text, 'b');
});

t.test('over TLS: what follows a response that ends when reading has stopped is no other response', async (t) => {
  const head = answer('200 OK', 'a'.repeat(100_000)).byteLength - 100_000;
  let isFirst = true;
  let written = Promise.withResolvers<void>();
  // A response that ends with a record of 16 KiB.
  let records = 0;
  const secure = await secureServer(t, (socket) => {
    socket.on('data', () => {
      const first = answer('200 OK', 'a'.repeat(records * 16 * 1024 - head));
      if (isFirst)
        socket.write(Buffer.concat([first, answer('200 OK', 'poison'.repeat(10_000))]), () => written.resolve());
      else socket.write(answer('200 OK', 'b'));
    });
  });
  const b = secureBench(t, secure);
  for (records = 17; records <= 19; records++) {
    isFirst = true;
    written = Promise.withResolvers();
    const first = b.ask();
    await first.until(() => first.calls.includes('head'));
    first.connection?.pause(first);
    await written.promise;
    first.connection?.resume(first);
    await first.over;
    await turn();
    isFirst = false;
    const { error, text } = await b.get();
    t.equal(error?.message ?? text.slice(0, 10), 'b', `behind ${records} records`);
  }
});

/** A server in a thread of its own, so that it closes while the client writes. It answers the first bytes of a request. */
const REFUSING = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { cert, key, way } = workerData;
  const reply = 'HTTP/1.1 413 Too Large\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nno';
  const ways = {
    'at once': (socket) => socket.write(reply, () => socket.destroy()),
    'in two pieces': (socket) => {
      socket.write(reply.slice(0, 30));
      setTimeout(() => socket.write(reply.slice(30), () => socket.destroy()), 1);
    },
    'without a length': (socket) => socket.write(reply.replace('content-length: 2', 'a: b'), () => socket.destroy()),
  };
  const refuse = (socket) => {
    // Bytes that wait for an acknowledgement are lost when the server closes with a reset.
    socket.setNoDelay(true).on('error', () => undefined).once('data', () => ways[way](socket.pause()));
  };
  const server = cert === '' ? require('node:net').createServer(refuse) : require('node:tls').createServer({ cert, key }, refuse);
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

for (const scheme of ['http', 'https'] as const) {
  for (const way of ['at once', 'in two pieces', 'without a length']) {
    t.test(`${scheme}: an answer that comes ${way} before the request was read is no reset`, async (t) => {
      const isSecure = scheme === 'https';
      const workerData = { cert: isSecure ? CERTIFICATE : '', key: KEY, way };
      const worker = new Worker(REFUSING, { eval: true, workerData });
      t.teardown(() => worker.terminate());
      const [port] = (await once(worker, 'message')) as [number];
      const b = isSecure ? secureBench(t, { port }) : new Bench(t, `http://127.0.0.1:${port}`);
      const body = Buffer.alloc(10_000_000);
      const outcomes = new Set<string>();
      for (let i = 0; i < 20; i++) {
        const { status, text, error } = await b.get({ body });
        outcomes.add(`${status} ${text} ${error?.message ?? 'end'}`);
      }
      t.same([...outcomes], ['413 no end']);
      t.equal(b.pool.openConnections, 0);
    });
  }
}

/** The response that undici makes of the same bytes. */
async function byUndici(url: string): Promise<object> {
  const client = new Client(url);
  const calls = { status: 0, headers: [] as string[], body: '', ok: true };
  await new Promise<void>((resolve) => {
    client.dispatch(
      { method: 'POST', path: '/', headers: [], body: 'hello' },
      {
        onRequestStart: () => undefined,
        onResponseStart: (controller, status) => {
          calls.status = status;
          const raw = controller.rawHeaders as Buffer[];
          calls.headers = raw.map((word, at) =>
            at % 2 ? word.toString('latin1') : word.toString('latin1').toLowerCase(),
          );
        },
        onResponseData: (_, piece) => {
          calls.body += piece.toString('latin1');
        },
        onResponseEnd: () => resolve(),
        onResponseError: () => {
          calls.ok = false;
          resolve();
        },
      },
    );
  });
  await client.destroy();
  return calls;
}

const RESPONSES: Record<string, string> = {
  'a length': 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabc',
  'no length': 'HTTP/1.1 200 OK\r\nA:\tb\r\n\r\nabc',
  'HTTP/1.0': 'HTTP/1.0 200 OK\r\nserver: old\r\n\r\nabc',
  chunks: `${chunkedHead('a: b')}3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n`,
  trailers: `${chunkedHead()}1\r\na\r\n0\r\nx-sum: 1\r\n\r\n`,
  'no body': 'HTTP/1.1 204 No Content\r\na: b\r\n\r\n',
  'not modified': 'HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n',
  'an early head': 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na',
  'repeated fields': 'HTTP/1.1 200 OK\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\ncontent-length: 0\r\n\r\n',
  'obs-text': 'HTTP/1.1 200 caf\xe9\r\na: caf\xe9\r\ncontent-length: 0\r\n\r\n',
  'an error': 'HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno',
  'too little body': 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc',
  'too few chunks': `${chunkedHead()}3\r\nabc\r\n`,
  'lengths that differ': 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab',
  'a folded line': 'HTTP/1.1 200 OK\r\na: b\r\n c\r\ncontent-length: 0\r\n\r\n',
  'a space before the colon': 'HTTP/1.1 200 OK\r\na : b\r\ncontent-length: 0\r\n\r\n',
  'no HTTP': 'hello\r\n\r\n',
};

for (const [name, bytes] of Object.entries(RESPONSES)) {
  t.test(`${name}: parses as undici parses it`, async (t) => {
    const crn = await rawCrn(t, ({ socket }) => socket.end(bytes, 'latin1'));
    const { status, headers, text, error } = await new Bench(t, crn.url).get();
    t.same({ status, headers, body: text, ok: error === null }, await byUndici(crn.url));
  });
}
