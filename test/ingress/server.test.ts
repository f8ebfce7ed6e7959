// Addresses and ports, and what both socket adapters do: limits, backpressure, draining.
import { createServer, type AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { setHeaderLimit } from '../../src/config/env.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { ExchangeHandler } from '../../src/ingress/exchange.ts';
import { createHttp1Server } from '../../src/ingress/http1.ts';
import { respondError, respondJson } from '../../src/ingress/respond.ts';
import {
  addressUrl,
  ListenError,
  parseAddress,
  type Server,
  type ServerOptions,
  settlePort,
} from '../../src/ingress/server.ts';
import { createUwsServer } from '../../src/ingress/uws.ts';
import { dial, encode, head, type Wire } from '../support/server-adapter-wire.ts';
import { HAS_UWS } from '../support/uws.ts';

t.test('an address is HOST:PORT, [IPv6]:PORT or a port', async (t) => {
  t.same(parseAddress('127.0.0.1:80'), { host: '127.0.0.1', port: 80 });
  t.same(parseAddress(' gate.example:0 '), { host: 'gate.example', port: 0 });
  t.same(parseAddress('[::1]:8080'), { host: '::1', port: 8080 });
  t.same(parseAddress('8080'), { host: '0.0.0.0', port: 8080 });
  t.same(parseAddress(':8080'), { host: '0.0.0.0', port: 8080 });
  for (const text of ['', 'host', 'host:', 'host:65536', '::1:80', 'host:80/x', 'host:-1']) {
    t.throws(() => parseAddress(text), { message: /not an address/ }, text);
  }
});

t.test('the URL of an address can be opened on this machine', async (t) => {
  t.equal(addressUrl({ host: '0.0.0.0', port: 80 }), 'http://127.0.0.1:80');
  t.equal(addressUrl({ host: '::', port: 80 }), 'http://[::1]:80');
  t.equal(addressUrl({ host: 'gate.example', port: 80 }), 'http://gate.example:80');
});

type Tap = typeof t;

interface Started {
  readonly server: Server;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly budget: BodyBudget;
  /** What was reported. */
  readonly errors: unknown[];
  readonly dial: () => Wire;
}

const MAKERS: Readonly<Record<string, (options: ServerOptions) => Promise<Server>>> = {
  ...(HAS_UWS && { uws: createUwsServer }),
  node: async (options) => createHttp1Server(options),
};

const echo: ExchangeHandler = (exchange) => {
  exchange.readBody((error, body) => {
    if (error === null) exchange.respond(200, [], body);
    else respondError(exchange, error);
  });
};

/** Runs a case against each server, on a manual clock. */
function onBoth(name: string, handler: ExchangeHandler, run: (t: Tap, started: Started) => Promise<void>): void {
  for (const [kind, make] of Object.entries(MAKERS)) {
    t.test(`${kind}: ${name}`, async (t) => {
      setHeaderLimit(16_384);
      const clock = createManualClock();
      const budget = new BodyBudget(1e9);
      const limits = {
        ...{ maxBodyBytes: 100_000, bodyIdleMs: 30_000, clientIdleMs: 120_000, keepAliveMs: 12_000 },
        ...{ connections: 1000, headerBytes: 16_384 },
      };
      const errors: unknown[] = [];
      const server = await make({ handler, clock, limits, budget, onError: (error) => errors.push(error) });
      t.teardown(() => server.close());
      const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
      t.equal(server.name, kind);
      await run(t as Tap, { server, clock, budget, errors, dial: () => dial(t, port) });
    });
  }
}

for (const [kind, make] of Object.entries(MAKERS)) {
  t.test(`${kind}: a closed server keeps nothing of what it served`, async (t) => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const serveOnce = async (): Promise<WeakRef<ServerOptions>> => {
      const limits = {
        ...{ maxBodyBytes: 100_000, bodyIdleMs: 30_000, clientIdleMs: 120_000, keepAliveMs: 12_000 },
        ...{ connections: 1000, headerBytes: 16_384 },
      };
      const options = { handler: echo, clock: createManualClock(), limits, budget: new BodyBudget(1e9) };
      const server = await make(options);
      const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
      const wire = dial(t, port);
      await wire.send(encode({ path: '/', headers: { host: 'x' }, body: { a: 1 } }));
      t.equal((await wire.answer()).status, 200);
      server.close();
      await wire.ended;
      return new WeakRef(options);
    };
    const served = await serveOnce();
    await turns();
    collect();
    t.equal(served.deref(), undefined);
  });
}

/** Lets the server read what has been sent to it. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
}

/** How the exchanges of the last handler that notes it have ended. */
const LAST_ENDS: { current: readonly string[] } = { current: [] };

onBoth('a body is refused after bodyIdleMs without a piece, not before', echo, async (t, { clock, budget, dial }) => {
  const wire = dial();
  await wire.send(`${head('POST', '/', { host: 'x', 'content-length': '10' })}12345`);
  await turns();
  t.equal(budget.usedBytes, 1024, 'memory is counted in units of 1 KiB');
  clock.advance(29_000);
  await wire.send('67');
  await turns();
  clock.advance(29_000);
  await turns();
  t.equal(budget.usedBytes, 1024, 'each piece starts the time again');
  clock.advance(2000);
  t.match(await wire.answer(), { status: 408, headers: { connection: 'close' } });
  t.equal(await wire.ended, 'fin');
  t.equal(budget.usedBytes, 0);
});

onBoth(
  'the handler is told the address of the peer',
  (exchange) => exchange.respond(200, [], Buffer.from(exchange.remoteAddress)),
  async (t, { dial }) => {
    const wire = dial();
    await wire.send(head('GET', '/', { host: 'x' }));
    t.equal((await wire.answer()).text(), '127.0.0.1');
  },
);

onBoth(
  'a handler that throws becomes a 500, and the server goes on',
  () => {
    throw new Error('secret');
  },
  async (t, { dial }) => {
    const wire = dial();
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      await wire.send(head(method, '/', { host: 'x' }));
      const answer = await wire.answer(method);
      t.equal(answer.status, 500);
      t.notMatch(answer.text(), 'secret');
    }
  },
);

onBoth(
  'an error in a callback of the body costs one connection and is reported',
  (exchange) => {
    exchange.readBody(() => {
      if (exchange.path === '/bad') throw new Error('secret');
      exchange.respond(200, [], Buffer.from('ok'));
    });
  },
  async (t, { budget, dial, errors }) => {
    const good = dial();
    const bad = dial();
    await bad.send(`${head('POST', '/bad', { host: 'x', 'content-length': '4' })}bo`);
    await turns();
    await bad.send('dy');
    await bad.ended;
    t.equal(bad.pending, '');
    t.match(errors, [{ message: 'secret' }]);
    t.equal(budget.usedBytes, 0);
    await good.send(encode({ path: '/', body: 'x' }));
    t.equal((await good.answer()).text(), 'ok');
  },
);

onBoth(
  'a client that does not read for clientIdle in the middle of a stream is gone',
  (exchange) => {
    const piece = Buffer.alloc(1 << 20, 'x');
    const ends: string[] = [];
    exchange.listener = {
      onWritable: () => undefined,
      onCut: () => undefined,
      onEnded: (cause) => void ends.push(cause),
    };
    LAST_ENDS.current = ends;
    exchange.start(200, [], -1);
    for (let i = 0; i < 16; i++) exchange.write(piece);
  },
  async (t, { clock, dial }) => {
    const wire = dial();
    wire.socket.pause();
    await wire.send(head('GET', '/', { host: 'x' }));
    await turns();
    clock.advance(119_000);
    t.same(LAST_ENDS.current, []);
    clock.advance(32_000);
    await turns();
    t.same(LAST_ENDS.current, ['gone']);
  },
);

/** Sends pieces without waiting for `onWritable`. */
const unpaced: ExchangeHandler = (exchange) => {
  const piece = Buffer.alloc(1 << 20, 'x');
  exchange.start(200, [], exchange.path === '/known' ? 16 * piece.byteLength : -1);
  for (let i = 0; i < 15; i++) exchange.write(piece);
  exchange.end(piece);
};

onBoth('nothing is lost of pieces that are sent without waiting', unpaced, async (t, { dial }) => {
  for (const path of ['/known', '/chunked']) {
    const wire = dial();
    wire.socket.pause();
    await wire.send(head('GET', path, { host: 'x' }));
    // Until the server has filled the socket buffers.
    for (let i = 0; i < 50; i++) await new Promise(setImmediate);
    wire.socket.resume();
    const { body } = await wire.answer();
    t.equal(body.byteLength, 16 << 20, path);
    wire.leave();
  }
});

onBoth(
  'onWritable is called when the client can take more',
  (exchange) => {
    const piece = Buffer.alloc(1 << 20, 'x');
    let left = 12;
    const pump = (): void => {
      while (left > 0) {
        left--;
        if (!exchange.write(piece)) return;
      }
      exchange.end();
    };
    exchange.listener = { onWritable: pump, onCut: () => undefined, onEnded: () => undefined };
    exchange.start(200, [], exchange.path === '/known' ? 12 * piece.byteLength : -1);
    pump();
  },
  async (t, { dial }) => {
    for (const path of ['/known', '/chunked']) {
      const wire = dial();
      await wire.send(head('GET', path, { host: 'x' }));
      t.equal((await wire.answer()).body.byteLength, 12 << 20, path);
    }
  },
);

onBoth(
  'a drained server closes with its last response and accepts no connection',
  (exchange) => {
    respondJson(exchange, 200, {});
  },
  async (t, { server, dial }) => {
    const wire = dial();
    await wire.send(encode({ path: '/' }));
    t.not((await wire.answer()).headers['connection'], 'close');
    // Begun before the drain, so the connection is not idle.
    await wire.send('GET / HTTP/1.1\r\nhost: x\r\n');
    for (let i = 0; i < 10; i++) await new Promise(setImmediate);
    server.drain();
    await wire.send('\r\n');
    t.match(await wire.answer(), { status: 200, headers: { connection: /close/i } });
    t.equal(await wire.ended, 'fin');
    const late = dial();
    await late.send(encode({ path: '/' }));
    await t.rejects(late.answer());
  },
);

onBoth('listen rejects an address of another machine', echo, async (t, { server }) => {
  // TEST-NET-1 (RFC 5737).
  await t.rejects(server.listen({ host: '192.0.2.1', port: 0 }), Error);
});

const host = '127.0.0.1';

for (const [kind, make] of Object.entries(MAKERS)) {
  t.test(`${kind}: settlePort picks a port for 0 that nothing else can take until it is released`, async (t) => {
    setHeaderLimit(16_384);
    const { address, release } = await settlePort({ host, port: 0 });
    t.ok(address.port > 0);
    await t.rejects(settlePort(address), { code: 'EADDRINUSE' });
    const limits = {
      ...{ maxBodyBytes: 100_000, bodyIdleMs: 30_000, clientIdleMs: 120_000, keepAliveMs: 12_000 },
      ...{ connections: 1000, headerBytes: 16_384 },
    };
    const server = await make({ handler: echo, clock: createManualClock(), limits, budget: new BodyBudget(1e9) });
    t.teardown(() => server.close());
    t.same(await server.listen(address), address, 'those who share it can listen');
    release();
    const wire = dial(t, address.port);
    await wire.send(encode({ path: '/', headers: { host: 'x' }, body: { a: 1 } }));
    t.equal((await wire.answer()).status, 200);
    server.close();
    await wire.ended;
    t.same((await settlePort(address)).address, address);
  });
}

t.test('settlePort rejects a port that is taken', async (t) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  await t.rejects(settlePort({ host, port }), { message: `cannot listen on ${host}:${port}: the port is taken` });
});

t.test('settlePort rejects an address of another machine', async (t) => {
  // TEST-NET-1 (RFC 5737).
  await t.rejects(settlePort({ host: '192.0.2.1', port: 0 }), {
    message: 'cannot listen on 192.0.2.1:0: this machine has no such address',
  });
});

t.test('ListenError keeps a reason that it has no sentence for', (t) => {
  const error = Object.assign(new Error('listen EODD'), { code: 'EODD' });
  t.equal(new ListenError({ host, port: 1 }, error).message, 'cannot listen on 127.0.0.1:1: listen EODD');
  t.end();
});
