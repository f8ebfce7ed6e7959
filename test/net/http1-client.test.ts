// Http1Client against scripted servers on real sockets, and compared with undici.
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { Client } from 'undici';
import {
  type DispatchController,
  DispatchError,
  type DispatchHandler,
  type DispatchOptions,
  Http1Client,
} from '../../src/net/client.ts';
import { answer, chunk, chunkedHead, rawCrn } from '../support/upstream-crn.ts';

/** Records the calls of a handler, in order. */
class Recorder implements DispatchHandler {
  readonly calls: string[] = [];
  readonly pieces: Buffer[] = [];
  controller: DispatchController | null = null;
  status = 0;
  headers: readonly string[] = [];
  error: Error | null = null;
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

  onRequestStart(controller: DispatchController): void {
    this.controller = controller;
    this.#changed('start');
  }

  onResponseStart(_controller: DispatchController, status: number, headers: readonly string[]): void {
    this.status = status;
    this.headers = headers;
    this.#changed('head');
  }

  onResponseData(_controller: DispatchController, piece: Buffer): void {
    this.pieces.push(piece);
    this.#changed('data');
    this.onData?.();
  }

  onResponseEnd(): void {
    this.#changed('end');
    this.#over.resolve();
  }

  onResponseError(_controller: DispatchController, error: Error): void {
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

class Bench {
  readonly client: Http1Client;
  connected = 0;
  closed = 0;
  #left = Promise.withResolvers<void>();

  constructor(t: { teardown(run: () => unknown): unknown }, url: string, keepAliveMs = 60_000) {
    this.client = new Http1Client(url, keepAliveMs, {
      onConnect: () => this.connected++,
      onDisconnect: () => {
        this.closed++;
        this.#left.resolve();
      },
    });
    t.teardown(() => this.client.destroy());
  }

  /** Resolves when a socket has been closed since the last call. */
  async left(): Promise<void> {
    await this.#left.promise;
    this.#left = Promise.withResolvers<void>();
  }

  ask(options: Partial<DispatchOptions> = {}): Recorder {
    const recorder = new Recorder();
    this.client.dispatch({ ...POST, ...options }, recorder);
    return recorder;
  }

  async get(options: Partial<DispatchOptions> = {}): Promise<Recorder> {
    const recorder = this.ask(options);
    await recorder.over;
    return recorder;
  }
}

const faultOf = ({ error }: Recorder): string | undefined =>
  error instanceof DispatchError ? error.fault : error?.name;

t.test('sends heads and bodies as given, on one connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'hi', 'X-A: caf\xe9')));
  const b = new Bench(t, crn.url);
  for (let i = 0; i < 3; i++) {
    const { calls, status, headers, text } = await b.get({ headers: ['x-b', 'caf\xe9', 'x-c', ''] });
    t.same(calls, ['start', 'head', 'data', 'end']);
    t.same([status, headers, text], [200, ['content-length', '2', 'x-a', 'caf\xe9'], 'hi']);
    t.equal(crn.requests[i]?.body.toString(), 'hello');
  }
  const host = new URL(crn.url).host;
  const lines = ['POST /a?b HTTP/1.1', `host: ${host}`, 'connection: keep-alive', 'x-b: caf\xe9', 'x-c: '];
  t.equal(crn.requests[0]?.head, [...lines, 'content-length: 5'].join('\r\n'));
  t.same([b.connected, b.closed, crn.sockets.size], [1, 0, 1]);
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
  t.equal(b.connected, 1);
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
    t.same([recorder.calls, faultOf(recorder), b.connected], [['error'], 'unsendable', 0]);
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

t.test('a second concurrent request, and one after destroy, fail with reset', async (t) => {
  const crn = await rawCrn(t, () => undefined);
  const b = new Bench(t, crn.url);
  const first = b.ask();
  t.equal(faultOf(b.ask()), 'reset');
  b.client.destroy();
  t.same([first.calls, faultOf(first)], [['error'], 'reset']);
  t.equal(faultOf(b.ask()), 'reset');
});

t.test('a refused connection fails before the request starts', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  const recorder = await new Bench(t, `http://127.0.0.1:${port}`).get();
  t.same(recorder.calls, ['error']);
  t.match(recorder.error, { code: 'ECONNREFUSED' });
});

const FAULTS: [name: string, bytes: string | Buffer, fault: string, calls: string[]][] = [
  ['no answer', '', 'reset', ['start', 'error']],
  ['half a head', 'HTTP/1.1 200 OK\r\na:', 'reset', ['start', 'error']],
  ['only an early head', 'HTTP/1.1 100 Continue\r\n\r\n', 'reset', ['start', 'error']],
  ['half a body', 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab', 'truncated', ['start', 'head', 'data', 'error']],
  [
    'no last chunk',
    Buffer.concat([Buffer.from(chunkedHead()), chunk('ab')]),
    'truncated',
    ['start', 'head', 'data', 'error'],
  ],
  ['a bad head', 'HTTP/1.1 200 OK\r\na b\r\n\r\n', 'malformed', ['start', 'error']],
  ['a bad chunk', `${chunkedHead()}2\r\nab\r\nx`, 'malformed', ['start', 'head', 'data', 'error']],
];

for (const [name, bytes, fault, calls] of FAULTS) {
  t.test(`${name} is ${fault}`, async (t) => {
    const crn = await rawCrn(t, ({ socket }) => socket.end(bytes));
    const b = new Bench(t, crn.url);
    const recorder = await b.get();
    t.same([recorder.calls, faultOf(recorder)], [calls, fault]);
    t.equal(b.closed, 1);
  });
}

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
  t.match(broken.error, { code: 'ECONNRESET' });
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
    t.same([calls.at(-1), text, b.connected], ['end', 'a', i]);
  }
  t.equal(b.closed, answers.length - 1);
});

t.test('unrequested bytes close an idle connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url);
  await b.get();
  for (const socket of crn.sockets) socket.write(answer('200 OK', 'poison'));
  await b.left();
  t.equal((await b.get()).text, 'a');
  t.equal(b.connected, 2);
});

t.test('an idle connection that the server closes is replaced', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, crn.url);
  await b.get();
  for (const socket of crn.sockets) socket.end();
  await b.left();
  t.equal((await b.get()).text, 'a');
  t.equal(b.connected, 2);
});

t.test('a connection is closed after its idle time, and not while a request is in progress', async (t) => {
  const answers = [answer('200 OK', 'a'), answer('200 OK', 'a', 'keep-alive: timeout=1000')];
  const crn = await rawCrn(t, async ({ socket, earlier }) => {
    const bytes = answers[earlier] as Buffer;
    socket.write(bytes.subarray(0, -1));
    // Longer than the idle time: a connection with a request is not idle.
    if (earlier === 1) await new Promise((resolve) => setTimeout(resolve, 80));
    socket.write(bytes.subarray(-1));
  });
  const b = new Bench(t, crn.url, 40);
  await b.get();
  t.equal((await b.get()).text, 'a');
  t.same([b.connected, b.closed], [1, 0]);
  await b.left();
  t.equal(b.connected, 1);
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
    t.same([calls.at(-1), status, text, b.connected, b.closed], ['end', 413, 'no', i, i]);
  }
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
      recorder.controller?.pause();
      const count = recorder.pieces.length;
      setImmediate(() =>
        setImmediate(() => {
          if (recorder.pieces.length !== count || recorder.calls.at(-1) !== 'data') t.fail('delivered during a pause');
          recorder.controller?.resume();
        }),
      );
    };
    await recorder.over;
    t.same(recorder.calls, ['start', 'head', 'data', 'end']);
    t.ok(Buffer.concat(recorder.pieces).equals(all));
    const { connected } = b;
    recorder.onData = null;
    await b.get();
    t.equal(b.connected, framing === 'close' ? connected + 1 : connected);
  }
});

t.test('a pause at the head holds back the body, its end and the end of the connection', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.end(answer('200 OK', 'a', 'connection: close')));
  const b = new Bench(t, crn.url);
  const recorder = new (class extends Recorder {
    override onResponseStart(...args: Parameters<Recorder['onResponseStart']>): void {
      args[0].pause();
      super.onResponseStart(...args);
    }
  })();
  b.client.dispatch(POST, recorder);
  await recorder.until(() => recorder.status === 200);
  const [socket] = crn.sockets;
  if (socket?.writableFinished === false) await once(socket, 'finish');
  for (let i = 0; i < 5; i++) await new Promise(setImmediate);
  t.same(recorder.calls, ['start', 'head']);
  recorder.controller?.resume();
  await recorder.over;
  t.same([recorder.calls, recorder.text], [['start', 'head', 'data', 'end'], 'a']);
});

t.test('an abort ends the request exactly once, in every phase', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'abc').subarray(0, -1)));
  for (const phase of ['start', 'head', 'data'] as const) {
    const b = new Bench(t, crn.url);
    const stop = (controller: DispatchController): void => controller.abort(new Error('enough'));
    const recorder = new (class extends Recorder {
      override onRequestStart(controller: DispatchController): void {
        super.onRequestStart(controller);
        if (phase === 'start') stop(controller);
      }
      override onResponseStart(...args: Parameters<Recorder['onResponseStart']>): void {
        super.onResponseStart(...args);
        if (phase === 'head') stop(args[0]);
      }
      override onResponseData(...args: Parameters<Recorder['onResponseData']>): void {
        super.onResponseData(...args);
        if (phase === 'data') stop(args[0]);
      }
    })();
    b.client.dispatch(POST, recorder);
    await recorder.over;
    recorder.controller?.abort(new Error('again'));
    t.match(recorder.error, { message: 'enough' });
    t.same(
      recorder.calls,
      ['start', 'head', 'data'].slice(0, ['start', 'head', 'data'].indexOf(phase) + 1).concat('error'),
    );
  }
});

t.test('an error thrown by a handler fails its own request only', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'abc')));
  const b = new Bench(t, crn.url);
  const recorder = b.ask();
  recorder.onData = () => {
    throw new Error('mistaken');
  };
  await recorder.over;
  t.match(recorder.error, { message: 'mistaken' });
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
