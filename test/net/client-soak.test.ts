// Random requests on one pool against a server that answers well, badly and not at all, while handlers pause, resume and abort. Every
// request ends once, an answer is that of its own request, and nothing stays open.
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createTls } from 'node:tls';
import t from 'tap';
import { type Connection, ConnectionPool, type DispatchError, type DispatchHandler } from '../../src/net/client.ts';
import { CERTIFICATE, KEY } from '../support/certificate.ts';
import { chunk } from '../support/upstream-crn.ts';

const REQUESTS = 200;
const CONCURRENT = 12;

/** A small generator of repeatable numbers (mulberry32). */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** What the server does with a request whose path names it. `id` is repeated as the body, so that answers can be told apart. */
const BEHAVIOURS: Readonly<Record<string, (socket: Socket, id: string) => unknown>> = {
  length: (socket, id) => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${id.length}\r\n\r\n${id}`),
  large: (socket, id) => {
    const body = id.repeat(Math.ceil(400_000 / id.length));
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  },
  pieces: async (socket, id) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-');
    await turn();
    socket.write(`encoding: chunked\r\n\r\n${chunk(id).toString()}`);
    await turn();
    socket.write(chunk(''));
  },
  close: (socket, id) => socket.end(`HTTP/1.1 200 OK\r\n\r\n${id}`),
  last: (socket, id) => socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ${id.length}\r\n\r\n${id}`),
  hint: (socket, id) =>
    socket.write(`HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: ${id.length}\r\n\r\n${id}`),
  extra: (socket, id) =>
    socket.write(
      `HTTP/1.1 200 OK\r\ncontent-length: ${id.length}\r\n\r\n${id}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison`,
    ),
  half: (socket, id) => socket.end(`HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${id}`),
  garbage: (socket) => socket.write('220 mail.test ESMTP\r\n\r\n'),
  end: (socket) => socket.end(),
  reset: (socket) => socket.destroy(),
  late: async (socket, id) => {
    for (let i = 0; i < 5; i++) await turn();
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${id.length}\r\n\r\n${id}`);
  },
};

/** Behaviours whose answer is whole. */
const WHOLE = new Set(['length', 'large', 'pieces', 'close', 'last', 'hint', 'extra', 'late']);

function serve(sockets: Set<Socket>): (socket: Socket) => void {
  return (socket) => {
    sockets.add(
      socket
        .setNoDelay(true)
        .on('error', () => undefined)
        .on('close', () => sockets.delete(socket)),
    );
    let received = '';
    socket.on('data', (bytes: Buffer) => {
      received += bytes.toString('latin1');
      const head = /^POST \/(\w+)\/(\w+) [^]*?content-length: (\d+)\r\n\r\n/.exec(received);
      if (head === null || received.length < head[0].length + Number(head[3])) return;
      received = '';
      BEHAVIOURS[head[1] as string]?.(socket, head[2] as string);
    });
  };
}

class SoakHandler implements DispatchHandler {
  connection: Connection | null = null;
  text = '';
  ends = 0;
  aborted = false;
  error: DispatchError | null = null;
  readonly over = Promise.withResolvers<void>();
  readonly #random: (below: number) => number;

  constructor(random: (below: number) => number) {
    this.#random = random;
  }

  onRequestSent(connection: Connection): void {
    this.connection = connection;
    this.#act();
  }

  onResponseStart(): void {
    this.#act();
  }

  onResponseData(piece: Buffer): void {
    this.text += piece.toString('latin1');
    this.#act();
  }

  onResponseEnd(): void {
    this.ends++;
    this.over.resolve();
  }

  onResponseError(error: DispatchError): void {
    this.ends++;
    this.error = error;
    this.over.resolve();
  }

  abort(): void {
    if (this.ends > 0) return;
    this.aborted = true;
    this.connection?.abort(this);
    this.over.resolve();
  }

  #act(): void {
    const action = this.#random(40);
    if (action === 0) this.abort();
    if (action > 8) return;
    this.connection?.pause(this);
    const resume = (): void => this.connection?.resume(this);
    setImmediate(resume);
  }
}

for (const scheme of ['http', 'https'] as const) {
  for (const seed of [1, 2, 3]) {
    t.test(
      `${scheme}, seed ${seed}: every request ends once with its own answer, and nothing stays open`,
      async (t) => {
        const random = randomFrom(seed);
        const sockets = new Set<Socket>();
        const server =
          scheme === 'http' ? createServer(serve(sockets)) : createTls({ cert: CERTIFICATE, key: KEY }, serve(sockets));
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        t.teardown(() => server.close());
        const pool = new ConnectionPool(`${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`, {
          maxConnections: 2 * CONCURRENT,
          keepAliveMs: 60_000,
          ca: CERTIFICATE,
        });
        const names = Object.keys(BEHAVIOURS);
        const wrong: string[] = [];
        let sent = 0;
        const client = async (): Promise<void> => {
          while (sent < REQUESTS) {
            // Most answers are good, so that connections live for a while.
            const name = random(2) === 0 ? 'length' : (names[random(names.length)] as string);
            const id = `id${sent++}`;
            const handler = new SoakHandler(random);
            const body = Buffer.alloc(random(8) === 0 ? 300_000 : random(3000), 'x');
            handler.connection = pool.dispatch(
              { method: 'POST', path: `/${name}/${id}`, headers: [], body },
              handler,
              random(20) === 0,
            );
            if (random(30) === 0) handler.abort();
            await handler.over.promise;
            for (let turns = random(3); turns > 0; turns--) await turn();
            const { aborted, ends, error, text } = handler;
            const expected = name === 'large' ? id.repeat(Math.ceil(400_000 / id.length)) : id;
            const said = `${name} ${id}: ${ends} ${error?.message ?? text.slice(0, 20)}`;
            if (ends !== (aborted ? 0 : 1)) wrong.push(`ends, ${said}`);
            else if (!aborted && error === null && (text !== expected || !WHOLE.has(name)))
              wrong.push(`answer, ${said}`);
            else if (error !== null && WHOLE.has(name) && error.fault !== 'stale') wrong.push(`error, ${said}`);
          }
        };
        await Promise.all(Array.from({ length: CONCURRENT }, client));
        t.same(wrong, []);
        t.ok(pool.openConnections <= 2 * CONCURRENT);
        pool.close();
        for (let i = 0; i < 3; i++) await turn();
        t.equal(pool.openConnections, 0);
        while (sockets.size > 0) await turn();
      },
    );
  }
}
