// The listener for servers of node:http: exchanges end when the response has left, and slow readers have their time.
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { systemClock } from '../../src/actor/clock.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { EndCause, Exchange } from '../../src/ingress/exchange.ts';
import { createNodeListener } from '../../src/ingress/node-listener.ts';
import { serving } from '../support/serving.ts';
import { dial, head } from '../support/server-adapter-wire.ts';

const LARGE = 16 * 1024 * 1024;
const GET = head('GET', '/', { host: 'x' });

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

for (const reads of [true, false]) {
  const name = reads
    ? 'a response is delivered when the kernel has all of it'
    : 'a client without progress for clientIdle is gone';
  t.test(name, async (t) => {
    const clock = createManualClock();
    const limits = {
      ...{ maxBodyBytes: 1000, bodyIdleMs: 1000, clientIdleMs: 20_000, keepAliveMs: 12_000 },
      ...{ connections: 10, headerBytes: 16_384 },
    };
    const exchanges: Exchange[] = [];
    const ends: EndCause[] = [];
    const handler = (exchange: Exchange): void => {
      exchanges.push(exchange);
      exchange.listener = {
        onWritable: () => undefined,
        onCut: () => undefined,
        onEnded: (cause) => void ends.push(cause),
      };
    };
    const server = createServer(createNodeListener({ handler, clock, limits, budget: new BodyBudget(1e6) }));
    t.teardown(() => {
      server.close();
      server.closeAllConnections();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const wire = dial(t, (server.address() as AddressInfo).port);
    wire.socket.pause();
    await wire.send(GET);
    await until(() => exchanges.length === 1);
    const [exchange] = exchanges as [Exchange];
    exchange.start(200, [], LARGE);
    const piece = Buffer.alloc(LARGE - 1, 'x');
    t.equal(exchange.write(piece), false);
    piece.fill('y');
    exchange.end(Buffer.from('x'));
    t.equal(exchange.handedOver, true);
    clock.advance(19_000);
    for (let i = 0; i < 20; i++) await new Promise(setImmediate);
    t.same(ends, [], 'handed over and not ended');
    if (reads) {
      wire.socket.resume();
      const { body } = await wire.answer();
      t.ok(body.equals(Buffer.alloc(LARGE, 'x')), 'whole, though the memory was used again');
    } else {
      clock.advance(6000);
    }
    await until(() => ends.length === 1);
    t.same(ends, [reads ? 'delivered' : 'gone']);
    clock.advance(200_000);
    t.equal(clock.nextDueMs, Infinity, 'no deadline is left');
  });
}

t.test('cookies and Vary of what is mounted before stay beside those of the gateway', async (t) => {
  const limits = {
    ...{ maxBodyBytes: 1000, bodyIdleMs: 1000, clientIdleMs: 20_000, keepAliveMs: 12_000 },
    ...{ connections: 10, headerBytes: 16_384 },
  };
  const handler = (exchange: Exchange): void => {
    exchange.start(200, ['set-cookie', 'ours=1', 'vary', 'Origin', 'content-type', 'text/plain'], 0);
    exchange.end();
  };
  const clock = createManualClock();
  const listener = createNodeListener({ handler, clock, limits, budget: new BodyBudget(1e6) });
  for (const cookies of [['a=1', 'b=2'], 'a=1']) {
    const url = await serving(t, (req, res) => {
      res.setHeader('Set-Cookie', cookies).setHeader('Vary', 'Accept-Encoding').setHeader('Content-Type', 'text/html');
      listener(req, res);
    });
    const { headers } = await fetch(url);
    t.strictSame(headers.getSetCookie(), [...[cookies].flat(), 'ours=1']);
    t.equal(headers.get('vary'), 'Accept-Encoding, Origin');
    t.equal(headers.get('content-type'), 'text/plain');
  }
});

t.test('a target without a path is that of the root, as for the own server', async (t) => {
  const limits = {
    ...{ maxBodyBytes: 1000, bodyIdleMs: 1000, clientIdleMs: 20_000, keepAliveMs: 12_000 },
    ...{ connections: 10, headerBytes: 16_384 },
  };
  const handler = (exchange: Exchange): void => {
    exchange.respond(200, [], Buffer.from(`${exchange.path}?${exchange.query}`));
  };
  const listener = createNodeListener({ handler, clock: createManualClock(), limits, budget: new BodyBudget(1e6) });
  const wire = dial(t, Number(new URL(await serving(t, listener)).port));
  for (const [target, meant] of [
    ['http://h.example/a?q', '/a?q'],
    ['http://h.example', '/?'],
    ['HTTP://h.example?q', '/?q'],
  ] as const) {
    await wire.send(head('GET', target, { host: 'x' }));
    t.equal((await wire.answer()).text(), meant, target);
  }
});

t.test('the timer of a response keeps no process alive', async (t) => {
  const limits = {
    ...{ maxBodyBytes: 1000, bodyIdleMs: 1000, clientIdleMs: 20_000, keepAliveMs: 12_000 },
    ...{ connections: 10, headerBytes: 16_384 },
  };
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const added: number[] = [];
  const handler = (exchange: Exchange): void => {
    const before = timers();
    exchange.start(200, [], LARGE);
    exchange.end(Buffer.alloc(LARGE, 'x'));
    added.push(timers() - before);
  };
  const server = createServer(createNodeListener({ handler, clock: systemClock, limits, budget: new BodyBudget(1e6) }));
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const wire = dial(t, (server.address() as AddressInfo).port);
  await wire.send(GET);
  t.equal((await wire.answer()).body.byteLength, LARGE);
  wire.leave();
  t.same(added, [0]);
});

t.test('100 Continue comes before the response that it belongs to, behind another one', async (t) => {
  const limits = {
    ...{ maxBodyBytes: 1000, bodyIdleMs: 1000, clientIdleMs: 20_000, keepAliveMs: 12_000 },
    ...{ connections: 10, headerBytes: 16_384 },
  };
  const handler = (exchange: Exchange): void => exchange.respond(200, [], Buffer.from(exchange.path));
  const clock = createManualClock();
  const server = createServer(createNodeListener({ handler, clock, limits, budget: new BodyBudget(1e6) }));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const second = head('POST', '/two', {
    host: 'x',
    expect: '100-continue',
    'content-length': '3',
    connection: 'close',
  });
  socket.end(`${GET}${second}abc`);
  t.match(
    await text(socket),
    /^HTTP\/1\.1 200 [^]*\r\n\r\n\/HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 [^]*\r\n\r\n\/two$/,
  );
});
