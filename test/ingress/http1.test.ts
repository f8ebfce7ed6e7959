// The gateway's own HTTP/1.1 server on real sockets: framing, order, slow readers, clients that close their side, early refusals,
// deadlines and limits. Time is a manual clock; what a client sees are raw bytes.
import { type Duplex, duplexPair } from 'node:stream';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { HeadraceError } from '../../src/errors.ts';
import { readInto } from '../../src/ingress/accepted-socket.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { EndCause, Exchange, ExchangeHandler } from '../../src/ingress/exchange.ts';
import { createHttp1Server } from '../../src/ingress/http1.ts';
import { respondError } from '../../src/ingress/respond.ts';
import type { ConnectionCounts, Server, ServerLimits } from '../../src/ingress/server.ts';
import { writeBatch } from '../../src/net/write-batch.ts';
import { startBatching } from '../support/batching.ts';
import { dial, head, type Wire } from '../support/server-adapter-wire.ts';

interface Served {
  readonly server: Server;
  readonly clock: ManualClock;
  readonly budget: BodyBudget;
  readonly counts: ConnectionCounts;
  readonly limits: { -readonly [Name in keyof ServerLimits]: ServerLimits[Name] };
  readonly port: number;
  readonly dial: () => Wire;
  /** What was refused before it reached the handler. */
  readonly refused: Exchange[];
  readonly errors: unknown[];
}

async function serve(t: Test, handler: ExchangeHandler): Promise<Served> {
  const clock = createManualClock();
  const budget = new BodyBudget(1e9);
  const counts = { open: 0, refused: 0 };
  const limits = {
    ...{ maxBodyBytes: 1e6, bodyIdleMs: 30_000, clientIdleMs: 120_000, keepAliveMs: 12_000 },
    ...{ connections: 100, headerBytes: 16_384 },
  };
  const refused: Exchange[] = [];
  const errors: unknown[] = [];
  const server = createHttp1Server({
    ...{ handler, clock, budget, counts, limits },
    onRefused: (exchange) => refused.push(exchange),
    onError: (error) => errors.push(error),
  });
  t.teardown(() => server.close());
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  return { server, clock, budget, counts, limits, port, dial: () => dial(t, port), refused, errors };
}

/** Answers with the method, the path and the body. */
const echo: ExchangeHandler = (exchange) => {
  exchange.readBody((error, body) => {
    if (error !== null) respondError(exchange, error);
    else exchange.respond(200, [], Buffer.concat([Buffer.from(`${exchange.method} ${exchange.path} `), body]));
  });
};

/** Keeps every exchange and how it ended. */
class Kept {
  readonly exchanges: Exchange[] = [];
  readonly ends: EndCause[] = [];
  writable = 0;
  readonly handler: ExchangeHandler = (exchange) => {
    this.exchanges.push(exchange);
    exchange.listener = {
      onWritable: () => void this.writable++,
      onCut: () => undefined,
      onEnded: (cause) => void this.ends.push(cause),
    };
  };

  /** Resolves with exchange number `index`, from 0. */
  async exchange(index = 0): Promise<Exchange> {
    await until(() => this.exchanges.length > index);
    return this.exchanges[index] as Exchange;
  }
}

/** Resolves once the condition holds. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

/** Lets both ends of a connection read what was sent. */
async function turns(count = 20): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise(setImmediate);
}

const GET = head('GET', '/', { host: 'x' });
const post = (headers: Readonly<Record<string, string>>): string => head('POST', '/', { host: 'x', ...headers });

t.test('head and body leave in one write, and every chunk is complete', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const wire = dial();
  const pieces: string[] = [];
  wire.socket.on('data', (piece: Buffer) => pieces.push(piece.toString('latin1')));
  await wire.send(GET);
  const whole = await kept.exchange();
  whole.respond(200, ['content-type', 'text/plain'], Buffer.from('whole'));
  await wire.shows('whole');
  t.equal(pieces.length, 1);
  t.match(
    pieces[0],
    /^HTTP\/1\.1 200 OK\r\nx-request-id: [^]*content-type: text\/plain\r\ncontent-length: 5\r\ndate: [^\r]+ GMT\r\n\r\nwhole$/,
  );

  await wire.answer();
  await wire.send(GET);
  const streamed = await kept.exchange(1);
  streamed.start(200, [], -1);
  streamed.write(Buffer.from('first'));
  await wire.shows('first');
  t.match(pieces[1], /\r\ntransfer-encoding: chunked\r\n[^]*\r\n\r\n5\r\nfirst\r\n$/, 'with its line break');
  streamed.write(Buffer.alloc(0));
  streamed.write(Buffer.from('next'));
  await wire.shows('next');
  t.equal(pieces[2], '4\r\nnext\r\n');
  streamed.end(Buffer.from('last'));
  await wire.shows('last');
  t.equal(pieces[3], '4\r\nlast\r\n0\r\n\r\n');
  t.equal((await wire.answer()).text(), 'firstnextlast');
  t.same(kept.ends, ['delivered', 'delivered']);
});

t.test('clients that do not read a shared body keep no copies of it', async (t) => {
  const body = Buffer.alloc(16 * 1024 * 1024, 'shared');
  let asked = 0;
  const { dial, port } = await serve(t, (exchange) => {
    asked++;
    exchange.respondShared(200, [], body);
  });
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 20; i++) {
    const socket = connect(port, '127.0.0.1', () => socket.write(GET));
    t.teardown(() => socket.destroy());
  }
  await until(() => asked === 20);
  await turns();
  const grown = process.memoryUsage().arrayBuffers - before;
  t.ok(grown < 2 * body.byteLength, `${grown} bytes`);
  const wire = dial();
  await wire.send(GET + GET);
  for (let i = 0; i < 2; i++) t.ok(Buffer.from((await wire.answer()).text()).equals(body));
});

t.test('a large body that has come already does not keep other connections waiting', async (t) => {
  const kept = new Kept();
  const { dial, limits } = await serve(t, kept.handler);
  limits.maxBodyBytes = 1e8;
  const body = Buffer.alloc(16_000_000, 'body');
  const large = dial();
  void large.send(post({ 'content-length': String(body.byteLength) }));
  const exchange = await kept.exchange();
  void large.send(body);
  // Nobody has asked for the body: the kernel keeps what it takes.
  await turns(200);
  let isWhole = false;
  let longest = 0;
  exchange.readBody((_, bytes) => {
    isWhole = bytes.equals(body);
    exchange.respond(200, [], bytes.subarray(0, 4));
  });
  while (!isWhole) {
    const before = exchange.receivedBytes;
    await new Promise(setImmediate);
    longest = Math.max(longest, exchange.receivedBytes - before);
  }
  t.ok(longest > 0 && longest <= 768 * 1024, `${longest} bytes in a turn`);
  t.equal((await large.answer()).text(), 'body');
});

t.test('a body of any size arrives whole, its memory may be reused at once', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const wire = dial();
  let index = 0;
  for (const size of [0, 1, 16_000, 16_384, 70_000, 5_000_000]) {
    for (const length of [-1, 2 * size]) {
      await wire.send(GET);
      const exchange = await kept.exchange(index++);
      const piece = Buffer.alloc(size, 'a');
      exchange.start(200, [], length);
      exchange.write(piece);
      piece.fill('b');
      exchange.end(piece);
      piece.fill('c');
      const { body } = await wire.answer();
      t.ok(body.equals(Buffer.concat([Buffer.alloc(size, 'a'), Buffer.alloc(size, 'b')])), `${size}, ${length}`);
    }
  }
});

t.test('an endpoint that takes shorter bodies refuses longer ones, declared or not', async (t) => {
  const { dial } = await serve(t, (exchange) => {
    exchange.readBody((error, body) => {
      if (error !== null) respondError(exchange, error);
      else exchange.respond(200, [], body);
    }, 1000);
  });
  for (const [bytes, status] of [
    [1000, 200],
    [1001, 413],
  ] as const) {
    const body = 'x'.repeat(bytes);
    const declared = dial();
    await declared.send(post({ 'content-length': String(bytes) }) + body);
    t.equal((await declared.answer()).status, status, `${bytes} bytes`);
    const chunked = dial();
    await chunked.send(`${post({ 'transfer-encoding': 'chunked' })}${bytes.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
    t.equal((await chunked.answer()).status, status, `${bytes} bytes in a chunk`);
  }
});

t.test('responses without a body have none', async (t) => {
  const { dial } = await serve(t, (exchange) => {
    exchange.respond(Number(exchange.path.slice(1)), [], Buffer.from('body'));
  });
  const wire = dial();
  for (const [method, path, length] of [
    ['HEAD', '/200', '4'],
    ['GET', '/204', undefined],
    ['GET', '/304', undefined],
  ] as const) {
    await wire.send(head(method, path, { host: 'x' }));
    const { headers } = await wire.answer(path === '/304' ? 'HEAD' : method);
    t.equal(headers['content-length'], length, `${method} ${path}`);
    t.equal(headers['transfer-encoding'], undefined);
    t.equal(wire.pending, '');
  }
  await wire.send(head('GET', '/299', { host: 'x' }));
  await wire.shows('HTTP/1.1 299 \r\n');
  t.equal((await wire.answer()).text(), 'body');
});

t.test('a response that is not as long as it said breaks the connection', async (t) => {
  for (const size of [3, 5]) {
    const kept = new Kept();
    const { dial, errors } = await serve(t, kept.handler);
    const wire = dial();
    await wire.send(GET);
    const exchange = await kept.exchange();
    exchange.start(200, [], 4);
    exchange.write(Buffer.from('a'));
    exchange.end(Buffer.alloc(size - 1));
    await t.rejects(wire.answer());
    t.same(kept.ends, ['broken']);
    t.match(errors, [{ message: /has not its declared length/ }]);
  }
});

t.test('ambiguous framing is refused with one answer, and the connection is closed', async (t) => {
  const health = head('GET', '/second', { host: 'x' });
  const requests: Readonly<Record<string, string>> = {
    'a trailer that is no field': `${post({ 'transfer-encoding': 'chunked' })}0\r\nxx POST /x HTTP/1.1\r\n\r\n`,
    'no line break behind a chunk': `${post({ 'transfer-encoding': 'chunked' })}1\r\nabc0\r\n\r\n`,
    'a size with other characters': `${post({ 'transfer-encoding': 'chunked' })}1x\r\na\r\n0\r\n\r\n`,
    'two lengths of a GET': head('GET', '/', ['host: x', 'content-length: 5', 'content-length: 0']) + 'hello',
    'two hosts': head('GET', '/', ['host: x', 'host: y']),
    'no host': head('GET', '/', []),
    'another coding': `${post({ 'transfer-encoding': 'identity' })}0\r\n\r\n`,
    'a length and a coding': `${post({ 'transfer-encoding': 'chunked', 'content-length': '5' })}0\r\n\r\n`,
    'a folded line': head('GET', '/', ['host: x', 'a: b\r\n c']),
    'a control character': head('GET', '/', ['host: x', 'a: b\x01c']),
    'a bare line feed': 'GET / HTTP/1.1\nhost: x\n\n',
  };
  for (const [name, bytes] of Object.entries(requests)) {
    const { dial } = await serve(t, echo);
    const wire = dial();
    await wire.send(bytes + health);
    const answer = await wire.answer();
    t.match(
      answer,
      { status: 400, headers: { 'x-headrace-error': 'HR_REQUEST_MALFORMED', connection: 'close' } },
      name,
    );
    t.match(answer.json(), { detail: /^Malformed request: / }, name);
    t.equal(await wire.ended, 'fin', name);
    t.equal(wire.pending, '', `${name}: nothing is read as another request`);
  }
});

t.test('extensions and trailers of a chunked body are skipped', async (t) => {
  const { dial } = await serve(t, echo);
  const wire = dial();
  await wire.send(
    `${post({ 'transfer-encoding': 'chunked' })}1;\r\na\r\n2 ; x="y"\r\nbc\r\n0\r\nxxPOST: /x HTTP/1.1\r\nhost: a\r\n\r\n`,
  );
  t.equal((await wire.answer()).text(), 'POST / abc');
  await wire.send(GET);
  t.equal((await wire.answer()).text(), 'GET / ');
  t.equal(wire.pending, '', 'the trailer was no request');
});

t.test('errors before routing carry detail, code and ids, close the connection and are counted', async (t) => {
  for (const [status, code, bytes] of [
    [400, 'HR_REQUEST_MALFORMED', 'what\r\n\r\n'],
    [414, 'HR_REQUEST_LINE_TOO_LONG', `GET /${'a'.repeat(20_000)}`],
    [431, 'HR_REQUEST_HEAD_TOO_LARGE', head('GET', '/', [`host: x`, `a: ${'a'.repeat(20_000)}`])],
    [
      431,
      'HR_REQUEST_HEAD_TOO_LARGE',
      head(
        'GET',
        '/',
        Array.from({ length: 300 }, (_, index) => `a${index}: b`),
      ),
    ],
    [413, 'HR_REQUEST_TOO_LARGE', post({ 'content-length': '9'.repeat(30) })],
    [505, 'HR_REQUEST_VERSION', 'GET / HTTP/2.0\r\nhost: x\r\n\r\n'],
  ] as const) {
    const { dial, refused } = await serve(t, echo);
    const wire = dial();
    await wire.send(bytes);
    const answer = await wire.answer();
    t.match(answer, { status, headers: { 'x-headrace-error': code, 'x-request-id': String, connection: 'close' } });
    t.type(answer.json<{ detail: unknown }>().detail, 'string');
    t.equal(await wire.ended, 'fin', code);
    t.match(refused, [{ endpoint: 'other', status, errorCode: code, endCause: 'delivered' }], 'exactly once');
  }
});

t.test('HTTP/1.0 is served: closed behind the response, kept open when asked for', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, (exchange) => {
    if (exchange.path === '/stream') kept.handler(exchange);
    else echo(exchange);
  });
  const once = dial();
  await once.send('GET /a HTTP/1.0\r\n\r\n');
  t.match(await once.answer(), { status: 200, headers: { connection: 'close' } });
  t.equal(await once.ended, 'fin');

  const twice = dial();
  for (const path of ['/a', '/b']) {
    await twice.send(`POST ${path} HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi`);
    const answer = await twice.answer();
    t.equal(answer.headers['connection'], 'keep-alive');
    t.equal(answer.text(), `POST ${path} hi`);
  }

  const stream = dial();
  await stream.send('GET /stream HTTP/1.0\r\nconnection: keep-alive\r\n\r\n');
  const exchange = await kept.exchange();
  exchange.start(200, [], -1);
  exchange.write(Buffer.from('first'));
  await stream.shows('first');
  exchange.end(Buffer.from('last'));
  const answer = await stream.answer();
  t.match(answer.headers, { connection: 'close' });
  t.notOk(answer.headers['transfer-encoding']);
  t.equal(answer.text(), 'firstlast');

  const broken = dial();
  await broken.send('GET /stream HTTP/1.0\r\n\r\n');
  const other = await kept.exchange(1);
  other.start(200, [], -1);
  other.write(Buffer.from('first'));
  await broken.shows('first');
  other.destroy();
  t.equal(await broken.ended, 'reset', 'a body that ends with the connection must not look complete');
});

t.test('targets in absolute form are served, their authority replaces Host', async (t) => {
  const { dial } = await serve(t, (exchange) => {
    exchange.respond(200, [], Buffer.from(`${exchange.path}?${exchange.query} ${exchange.header('host')}`));
  });
  const wire = dial();
  await wire.send(head('GET', 'http://gate.example:80/a/b?c=d', { host: 'other' }));
  t.equal((await wire.answer()).text(), '/a/b?c=d gate.example:80');
});

t.test('pipelined requests are answered in order, bodies and slow ones included', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const wire = dial();
  const bodied = `${post({ 'content-length': '4' })}body`;
  await wire.send(GET + bodied + GET);
  const first = await kept.exchange();
  await turns();
  t.equal(kept.exchanges.length, 1, 'one at a time');
  first.respond(200, [], Buffer.from('one'));
  const second = await kept.exchange(1);
  second.readBody((_, body) => setImmediate(() => second.respond(200, [], body)));
  const third = await kept.exchange(2);
  third.respond(200, [], Buffer.from('three'));
  const texts = [await wire.answer(), await wire.answer(), await wire.answer()].map((answer) => answer.text());
  t.same(texts, ['one', 'body', 'three']);
  t.same(kept.ends, ['delivered', 'delivered', 'delivered']);
});

t.test('responses that wait for the end of their turn', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const opened = async (requests = GET): Promise<[Wire, Exchange]> => {
    const wire = dial();
    const index = kept.exchanges.length;
    await wire.send(requests);
    return [wire, await kept.exchange(index)];
  };

  await t.test('arrive whole and in order, small and large ones of one connection', async (t) => {
    const [wire] = await opened(GET + GET + GET);
    await startBatching();
    const texts = ['small', 'large'.repeat(20_000), 'last'];
    for (const [index, text] of texts.entries()) (await kept.exchange(index)).respond(200, [], Buffer.from(text));
    for (const text of texts) t.equal((await wire.answer()).text(), text);
  });

  await t.test('leave in one write when they have several pieces', async (t) => {
    const [wire, exchange] = await opened();
    const pieces: string[] = [];
    wire.socket.on('data', (piece: Buffer) => pieces.push(piece.toString('latin1')));
    await startBatching();
    exchange.start(200, [], -1);
    for (const piece of ['a', 'b', 'c']) exchange.write(Buffer.from(piece));
    t.same(pieces, []);
    await wire.shows('\r\nc\r\n');
    t.match(pieces, [/chunked\r\n[^]*\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n$/]);
  });

  await t.test('keep their pieces in order beside those of another connection', async (t) => {
    const [[wire, exchange], [other, otherExchange]] = [await opened(), await opened()];
    await startBatching();
    for (const each of [exchange, otherExchange]) each.start(200, [], 4);
    for (const piece of ['ab', 'cd']) {
      exchange.write(Buffer.from(piece));
      otherExchange.write(Buffer.from(piece.toUpperCase()));
    }
    for (const each of [exchange, otherExchange]) each.end();
    t.same([(await wire.answer()).text(), (await other.answer()).text()], ['abcd', 'ABCD']);
  });

  await t.test('arrive when the connection is closed in the same turn', async (t) => {
    const [wire, exchange] = await opened();
    await startBatching();
    exchange.start(200, [], -1);
    exchange.write(Buffer.from('begun'));
    exchange.destroy();
    await wire.shows('begun');
    t.equal(await wire.ended, 'fin');
    t.equal(exchange.endCause, 'broken');
  });

  await t.test('end behind their last piece when that does not fit into the memory of a batch', async (t) => {
    const [wire, exchange] = await opened(head('GET', '/', { host: 'x', connection: 'close' }));
    const [, other] = await opened();
    await startBatching();
    for (const each of [exchange, other]) each.start(200, [], -1);
    exchange.write(Buffer.from('begun'));
    const last = 'x'.repeat(4000);
    while (writeBatch.used + last.length < writeBatch.memory.byteLength) other.write(Buffer.alloc(1000));
    exchange.end(Buffer.from(last));
    t.equal((await wire.answer()).text(), `begun${last}`);
    t.equal(await wire.ended, 'fin');
    t.equal(exchange.endCause, 'delivered');
    other.destroy();
  });

  await t.test('are no burden when the client has gone', async (t) => {
    const [wire, exchange] = await opened();
    await startBatching();
    exchange.start(200, [], -1);
    exchange.write(Buffer.from('begun'));
    wire.socket.resetAndDestroy();
    await until(() => exchange.endCause !== null);
    t.equal(exchange.endCause, 'gone');
  });

  await t.test('more than the memory of a batch takes', async (t) => {
    const served: (readonly [Wire, Exchange])[] = [];
    while (served.length < 20) served.push(await opened());
    await startBatching();
    const text = 'x'.repeat(9000);
    for (const [, exchange] of served) exchange.respond(200, [], Buffer.from(text));
    for (const [wire] of served) t.equal((await wire.answer()).text(), text);
  });
});

t.test('requests of a connection that differ in their length alone share what is read of their headers', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const wire = dial();
  const send = async (headers: Readonly<Record<string, string>>, body: string): Promise<Exchange> => {
    const index = kept.exchanges.length;
    await wire.send(post({ ...headers, 'content-length': String(body.length) }) + body);
    const exchange = await kept.exchange(index);
    await new Promise<void>((resolve) => {
      exchange.readBody((_, bytes) => {
        exchange.respond(200, [], bytes);
        resolve();
      });
    });
    t.equal((await wire.answer()).text(), body);
    return exchange;
  };
  const mine = { authorization: 'Bearer a', cookie: 'c=1' };
  await send(mine, 'x');
  const second = await send(mine, 'xy');
  const third = await send(mine, 'x'.repeat(300));
  const fourth = await send(mine, 'x'.repeat(300));
  t.equal(third.fields, second.fields);
  t.equal(fourth.fields, second.fields);
  t.same([third.declaredBytes, third.authorization, third.cookie], [300, 'Bearer a', 'c=1']);
  t.equal(third.header('content-length'), '300');
  t.not(third.requestId, second.requestId);
  const other = await send({ authorization: 'Bearer b', cookie: 'c=1' }, 'x'.repeat(300));
  t.same([other.authorization, other.fields === second.fields], ['Bearer b', false]);
  const named = await send({ ...mine, 'x-request-id': 'mine' }, 'x');
  t.equal(named.requestId, 'mine');
});

t.test('many pipelined requests are served in portions, and each counts from the end of the one before', async (t) => {
  const waitsMs: number[] = [];
  let passed = 0;
  const { clock, dial } = await serve(t, (exchange) => {
    waitsMs.push(clock.now() - exchange.receivedMs);
    echo(exchange);
    if (waitsMs.length === 1) setImmediate(pass);
  });
  function pass(): void {
    clock.advance(1000);
    passed++;
    if (waitsMs.length < 500) setImmediate(pass);
  }
  const wire = dial();
  await wire.send(GET.repeat(500));
  for (let i = 0; i < 500; i++) t.equal((await wire.answer()).status, 200);
  t.ok(Math.max(...waitsMs) <= 1000, String(Math.max(...waitsMs)));
  t.ok(passed <= 15, `${passed} turns`);
});

/**
 * Sends 150 requests that are read in one turn of the event loop; `then` runs at its end, before further ones begin. The clients that send
 * `last` close their side behind it.
 */
async function burst(
  t: Test,
  kept: Pick<Kept, 'exchanges' | 'handler'>,
  then: (served: Served) => void,
  last: readonly string[] = [],
  prepare: (budget: BodyBudget) => void = () => undefined,
): Promise<Served & { wires: Wire[] }> {
  const served = await serve(t, (exchange) => {
    kept.handler(exchange);
    if (kept.exchanges.length === 1) setImmediate(then, served);
  });
  served.limits.connections = 150;
  prepare(served.budget);
  const wires = Array.from({ length: 150 }, served.dial);
  await until(() => served.counts.open === wires.length);
  const others = wires.length - last.length;
  for (const wire of wires.slice(0, others)) void wire.send(GET);
  for (const [index, { socket }] of wires.slice(others).entries()) {
    socket.allowHalfOpen = true;
    socket.end(last[index] as string);
  }
  return { ...served, wires };
}

t.test('a burst of requests begins in portions, and time counts from when they were read', async (t) => {
  const kept = new Kept();
  let inFirstTurn = 0;
  const { wires } = await burst(t, kept, ({ clock }) => {
    inFirstTurn = kept.exchanges.length;
    // No connection is closed for being idle while its request waits.
    clock.advance(13_000);
  });
  await kept.exchange(149);
  t.equal(inFirstTurn, 48);
  t.same([...new Set(kept.exchanges.map(({ receivedMs }) => receivedMs))], [0]);
  for (const exchange of kept.exchanges) exchange.respond(200, [], Buffer.from('hi'));
  for (const wire of wires) t.equal((await wire.answer()).text(), 'hi');
});

t.test('a request that waits for its turn does not begin when its connection is gone', async (t) => {
  const kept = new Kept();
  const { counts, wires } = await burst(t, kept, () => {
    for (const wire of wires) wire.socket.resetAndDestroy();
  });
  await until(() => kept.ends.length > 0 && counts.open === 0);
  await turns();
  t.same(
    kept.ends,
    Array.from({ length: 96 }, () => 'gone'),
  );
  t.equal(kept.exchanges.length, 96, 'of 150');
});

t.test('a client that closes its side while its request waits is treated as any other', async (t) => {
  const kept = new Kept();
  const { budget, clock, counts, wires } = await burst(t, kept, () => undefined, [
    `${post({ 'content-length': '10' })}12345`,
    'GET /old HTTP/1.0\r\n\r\n',
    'GET / HTTP/1.1\r\nhost',
    `${post({ 'content-length': '5' })}whole`,
  ]);
  await kept.exchange(148);
  // Connections are accepted in any order.
  const ofLength = (bytes: number): Exchange =>
    kept.exchanges.find(({ declaredBytes }) => declaredBytes === bytes) as Exchange;
  const last = ofLength(5);
  ofLength(10).readBody(() => t.fail('the body never comes'));
  await until(() => counts.open === 147);
  t.same(kept.ends, ['gone', 'gone'], 'HTTP/1.0, and half a body');
  t.equal(await new Promise((resolve) => last.readBody((_, body) => resolve(body.toString()))), 'whole');
  clock.advance(60);
  last.respond(200, [], Buffer.from('late'));
  t.equal((await (wires.at(-1) as Wire).answer()).text(), 'late');
  await until(() => counts.open === 146);
  t.equal(budget.usedBytes, 0);
});

t.test('what is sent behind a request is kept within a bound', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  await wire.send(GET);
  const first = await kept.exchange();
  const flood = Buffer.from(GET.repeat(400_000 / GET.length));
  let sent = 0;
  // The kernel takes what its buffers hold; then writes wait.
  for (; sent < 200 && !wire.socket.writableNeedDrain; sent++) {
    wire.socket.write(flood);
    await turns(2);
  }
  t.ok(wire.socket.writableNeedDrain, 'the server has stopped reading');
  first.respond(200, [], Buffer.from('one'));
  t.equal((await wire.answer()).text(), 'one');
  await kept.exchange(1);
  wire.leave();
  for (let i = 0; i < 20 && kept.ends.length < 2; i++) {
    clock.advance(5000);
    await turns(5);
  }
  t.same(kept.ends, ['delivered', 'gone'], 'though nothing is read, the client that has gone is noticed');
});

t.test('what is sent behind a request counts as memory for bodies until it is served', async (t) => {
  const kept = new Kept();
  const { budget, dial } = await serve(t, kept.handler);
  const wires = [dial(), dial()];
  const count = Math.floor(60_000 / GET.length);
  for (const [at, { socket }] of wires.entries()) {
    socket.write(GET.repeat(count));
    await kept.exchange(at);
  }
  await until(() => budget.usedBytes > 100_000);
  (wires[1] as Wire).socket.resetAndDestroy();
  await until(() => kept.ends.length === 1);
  t.ok(budget.usedBytes < 70_000, 'what was kept of a client that has gone is given back');
  for (let i = 0; i < count; i++) {
    const served = i === 0 ? 0 : i + 1;
    (await kept.exchange(served)).respond(200, [], Buffer.from('ok'));
  }
  await turns();
  t.equal(budget.usedBytes, 0);
});

t.test('without memory for bodies', async (t) => {
  const flood = GET.repeat(20_000 / GET.length);

  await t.test('what is sent behind a request is dropped, and the connection closes behind its response', async (t) => {
    const kept = new Kept();
    const { budget, dial } = await serve(t, kept.handler);
    budget.limitBytes = 64 * 1024;
    const wire = dial();
    await wire.send(GET + flood);
    const exchange = await kept.exchange();
    for (let i = 0; i < 20; i++) await wire.send(flood);
    await turns();
    t.equal(budget.usedBytes, 0);
    exchange.respond(200, [], Buffer.from('one'));
    t.match(await wire.answer(), { status: 200, headers: { connection: 'close' } });
    await wire.ended;
    t.equal(kept.exchanges.length, 1);
  });

  await t.test('a body that nobody has asked for yet is refused when it is asked for', async (t) => {
    const kept = new Kept();
    const { budget, dial } = await serve(t, kept.handler);
    budget.limitBytes = 64 * 1024;
    const wire = dial();
    await wire.send(post({ 'content-length': '20000' }));
    const exchange = await kept.exchange();
    await wire.send('x'.repeat(20_000) + GET);
    await turns();
    t.equal(budget.usedBytes, 0);
    echo(exchange);
    t.match(await wire.answer(), { status: 503, headers: { 'x-headrace-error': 'HR_OVERLOADED' } });
    await kept.exchange(1);
  });

  await t.test('a request that waits for its turn begins at once, and what follows one is dropped', async (t) => {
    const kept = new Kept();
    const handler: ExchangeHandler = (exchange) => {
      kept.handler(exchange);
      echo(exchange);
    };
    const large = `${post({ 'content-length': '20000' })}${'x'.repeat(20_000)}`;
    const { budget, wires } = await burst(
      t,
      { ...kept, handler },
      () => undefined,
      [large, flood],
      (budget) => {
        budget.limitBytes = 64 * 1024;
        budget.take(8 * 1024, true);
      },
    );
    const [first, second] = wires.slice(-2) as [Wire, Wire];
    t.equal((await first.answer()).text().length, 'POST / '.length + 20_000);
    t.match(await second.answer(), { status: 200 });
    await second.ended;
    await until(() => kept.exchanges.length === 150);
    t.equal(budget.usedBytes, 8 * 1024);
  });
});

t.test('a client that closes its side behind the request gets its response', async (t) => {
  const kept = new Kept();
  const { clock, dial, counts } = await serve(t, kept.handler);
  const wire = dial();
  wire.socket.allowHalfOpen = true;
  wire.socket.end(GET);
  const exchange = await kept.exchange();
  await wire.shows('HTTP/1.1 100 Continue\r\n\r\n');
  clock.advance(60);
  clock.advance(300);
  await turns();
  t.same(kept.ends, []);
  exchange.respond(200, [], Buffer.from('late'));
  const answer = await wire.answer();
  t.equal(answer.text(), 'late');
  t.ok(wire.interim.length >= 2 && wire.interim.every((status) => status === 100));
  t.equal(await wire.ended, 'fin');
  await until(() => counts.open === 0);
  t.same(kept.ends, ['delivered']);

  const several = dial();
  several.socket.allowHalfOpen = true;
  several.socket.end(GET + GET);
  (await kept.exchange(1)).respond(200, [], Buffer.from('one'));
  (await kept.exchange(2)).respond(200, [], Buffer.from('two'));
  t.equal((await several.answer()).text(), 'one');
  t.equal((await several.answer()).text(), 'two');
  t.equal(await several.ended, 'fin');
});

t.test('a client that has gone is noticed by the second interim response', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  await wire.send(GET);
  await kept.exchange();
  wire.socket.destroy();
  while (kept.ends.length === 0 && clock.now() < 300) {
    await turns(5);
    clock.advance(10);
  }
  t.same(kept.ends, ['gone']);
});

t.test('a client that resets, sends half a request, or speaks HTTP/1.0 is gone at once', async (t) => {
  const kept = new Kept();
  const { dial, budget, counts } = await serve(t, kept.handler);
  const reset = dial();
  await reset.send(GET);
  await kept.exchange();
  reset.socket.resetAndDestroy();
  await until(() => kept.ends.length === 1);

  const half = dial();
  await half.send(`${post({ 'content-length': '10' })}12345`);
  (await kept.exchange(1)).readBody(() => t.fail('the body never comes'));
  half.socket.end();
  await until(() => kept.ends.length === 2);

  const old = dial();
  await old.send('GET / HTTP/1.0\r\n\r\n');
  await kept.exchange(2);
  old.socket.end();
  await until(() => kept.ends.length === 3);
  t.same(kept.ends, ['gone', 'gone', 'gone']);
  await turns();
  t.same([budget.usedBytes, counts.open], [0, 0]);
});

t.test('a client that closes its side before its whole body is asked for gets its response', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const wire = dial();
  wire.socket.allowHalfOpen = true;
  wire.socket.end(`${post({ 'content-length': '5' })}whole`);
  const exchange = await kept.exchange();
  await turns();
  t.same(kept.ends, []);
  exchange.readBody((_, body) => exchange.respond(200, [], body));
  t.equal((await wire.answer()).text(), 'whole');
  t.equal(await wire.ended, 'fin');

  const half = dial();
  half.socket.end(`${post({ 'content-length': '9' })}whole`);
  const cut = await kept.exchange(1);
  await turns();
  cut.readBody(() => t.fail('the body never comes'));
  await until(() => kept.ends.length === 2);
  t.same(kept.ends, ['delivered', 'gone']);
});

t.test('a client that left a stream is noticed though no piece follows', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  await wire.send(GET);
  const exchange = await kept.exchange();
  exchange.start(200, [], -1);
  exchange.write(Buffer.from('first'));
  await wire.shows('first');
  wire.leave();
  while (kept.ends.length === 0 && clock.now() < 300) {
    await turns(5);
    clock.advance(10);
  }
  t.same(kept.ends, ['gone']);
  t.ok(exchange.handedOver);
});

t.test('a client that left a body of known length is noticed by the next pieces', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, kept.handler);
  const wire = dial();
  await wire.send(GET);
  const exchange = await kept.exchange();
  exchange.start(200, [], 1000);
  exchange.write(Buffer.from('first'));
  await wire.shows('first');
  wire.leave();
  for (let i = 0; i < 50 && kept.ends.length === 0; i++) {
    exchange.write(Buffer.from('more'));
    await turns(5);
  }
  t.same(kept.ends, ['gone']);
});

t.test('a client that closes its side in a stream gets the rest of it', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  wire.socket.allowHalfOpen = true;
  await wire.send(GET);
  const exchange = await kept.exchange();
  exchange.start(200, [], -1);
  for (const text of ['one', 'two', 'three']) {
    exchange.write(Buffer.from(text));
    await wire.shows(text);
    if (text === 'one') wire.socket.end();
    for (let i = 0; i < 30; i++) {
      await turns(3);
      clock.advance(200);
    }
  }
  exchange.end();
  t.equal((await wire.answer()).text(), 'onetwothree');
  t.equal(await wire.ended, 'fin');
  t.same(kept.ends, ['delivered']);
});

/** Lets time pass until an exchange has ended, at most `forMs`. Returns how long it took. */
async function passUntilEnd(clock: ManualClock, kept: Kept, forMs: number): Promise<number> {
  const fromMs = clock.now();
  while (kept.ends.length === 0 && clock.now() - fromMs < forMs) {
    await turns(5);
    clock.advance(50);
  }
  return clock.now() - fromMs;
}

t.test('a client that closes its side while a stream waits for it, reads it and leaves, is noticed', async (t) => {
  for (const first of ['queue', 'close'] as const) {
    const kept = new Kept();
    const { clock, dial } = await serve(t, kept.handler);
    const wire = dial();
    wire.socket.allowHalfOpen = true;
    await wire.send(GET);
    const exchange = await kept.exchange();
    const fill = (): void => {
      wire.socket.pause();
      exchange.start(200, [], -1);
      t.equal(exchange.write(Buffer.alloc(LARGE, 'x')), false);
    };
    if (first === 'queue') fill();
    wire.socket.end();
    await turns();
    if (first === 'close') fill();
    wire.socket.resume();
    await until(() => kept.writable === 1 && wire.socket.bytesRead > LARGE);
    await turns();
    t.same(kept.ends, []);
    wire.leave();
    await passUntilEnd(clock, kept, 20_000);
    t.same(kept.ends, ['gone'], first);
  }
});

t.test('a client that closes its side before its second request is served is noticed when it leaves', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  wire.socket.allowHalfOpen = true;
  wire.socket.end(GET + GET);
  const first = await kept.exchange();
  await wire.shows('100 Continue');
  first.respond(200, [], Buffer.from('one'));
  await kept.exchange(1);
  t.equal((await wire.answer()).text(), 'one');
  kept.ends.length = 0;
  wire.leave();
  await passUntilEnd(clock, kept, 20_000);
  t.same(kept.ends, ['gone']);
});

t.test('what follows a last request is dropped, so that the end of the connection is seen', async (t) => {
  const heads: Readonly<Record<string, string>> = {
    'HTTP/1.0': 'GET / HTTP/1.0\r\n\r\n',
    'HTTP/1.0 kept open': 'GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n',
    'connection: close': head('GET', '/', { host: 'x', connection: 'close' }),
  };
  for (const [name, request] of Object.entries(heads)) {
    const kept = new Kept();
    const { clock, counts, dial } = await serve(t, kept.handler);
    const wire = dial();
    await wire.send(request + GET.repeat(400_000 / GET.length));
    const exchange = await kept.exchange();
    t.same(kept.ends, [], name);
    wire.leave();
    await passUntilEnd(clock, kept, 2000);
    t.same(kept.ends, ['gone'], name);
    exchange.respond(200, [], Buffer.from('late'));
    await until(() => counts.open === 0);
    t.equal(kept.exchanges.length, 1);
    // Whether the bound is passed before this response is up to the kernel.
    if (name === 'HTTP/1.0 kept open') continue;

    const patient = dial();
    await patient.send(request + GET.repeat(400_000 / GET.length));
    (await kept.exchange(1)).respond(200, [], Buffer.from('one'));
    t.equal((await patient.answer()).text(), 'one');
    t.equal(await patient.ended, 'fin');
    t.equal(kept.exchanges.length, 2, 'nothing behind it is served');
  }
});

t.test('a client that closes its side in a body of known length is gone when nothing follows', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  wire.socket.allowHalfOpen = true;
  await wire.send(GET);
  const exchange = await kept.exchange();
  exchange.start(200, [], 100);
  exchange.write(Buffer.from('one'));
  await wire.shows('one');
  wire.socket.end();
  await turns();
  for (const text of ['two', 'three']) {
    clock.advance(4000);
    await turns();
    t.same(kept.ends, [], 'pieces come');
    exchange.write(Buffer.from(text));
    await wire.shows(text);
  }
  const silentMs = await passUntilEnd(clock, kept, 20_000);
  t.same(kept.ends, ['gone']);
  t.ok(silentMs >= 5000 && silentMs <= 10_000, `after ${silentMs} ms`);
  t.ok(exchange.handedOver);
});

const LARGE = 16 * 1024 * 1024;

t.test('a slow reader has clientIdle without progress, and its exchange ends when it has everything', async (t) => {
  for (const length of [LARGE, -1]) {
    const kept = new Kept();
    const { clock, dial, counts } = await serve(t, kept.handler);
    const wire = dial();
    wire.socket.pause();
    await wire.send(GET);
    const exchange = await kept.exchange();
    exchange.start(200, [], length);
    t.equal(exchange.write(Buffer.alloc(LARGE - 5, 'x')), false, 'asks to wait');
    exchange.end(Buffer.from('12345'));
    t.equal(exchange.handedOver, true);
    clock.advance(14_000);
    await turns();
    t.same([kept.ends, kept.writable], [[], 0], 'handed over and not yet ended');
    clock.advance(100_000);
    await turns();
    t.same(kept.ends, []);
    wire.socket.resume();
    const { body } = await wire.answer();
    t.equal(body.byteLength, LARGE);
    await until(() => kept.ends.length === 1);
    t.same(kept.ends, ['delivered']);
    t.equal(counts.open, 1, 'the connection is kept');
    await wire.send(GET);
    (await kept.exchange(1)).respond(200, [], Buffer.from('next'));
    t.equal((await wire.answer()).text(), 'next');
  }
});

t.test('a reader without progress for clientIdle is cut, whether the response was handed over or not', async (t) => {
  for (const handsOver of [true, false]) {
    const kept = new Kept();
    const { clock, counts, dial, limits } = await serve(t, kept.handler);
    limits.clientIdleMs = 20_000;
    const wire = dial();
    wire.socket.pause();
    await wire.send(GET);
    const exchange = await kept.exchange();
    exchange.start(200, [], LARGE);
    exchange.write(Buffer.alloc(LARGE - 1));
    if (handsOver) exchange.end(Buffer.alloc(1));
    clock.advance(19_000);
    await turns();
    t.same(kept.ends, []);
    clock.advance(6000);
    await until(() => kept.ends.length === 1);
    t.same(kept.ends, ['gone']);
    await turns();
    t.equal(counts.open, 0);
    t.equal(clock.nextDueMs, Infinity, 'no deadline is left');
    exchange.write(Buffer.from('late'));
    exchange.end();
    wire.leave();
  }
});

t.test('a reader that takes a part now and then is not cut', async (t) => {
  const kept = new Kept();
  const { clock, dial } = await serve(t, kept.handler);
  const wire = dial();
  wire.socket.pause();
  await wire.send(GET);
  const exchange = await kept.exchange();
  const size = 4 * LARGE;
  exchange.respond(200, [], Buffer.alloc(size));
  let seen = 0;
  const part = (): Promise<void> =>
    new Promise((resolve) => {
      const target = seen + LARGE / 2;
      const count = (piece: Buffer): void => {
        seen += piece.byteLength;
        if (seen < target) return;
        wire.socket.off('data', count);
        wire.socket.pause();
        resolve();
      };
      wire.socket.on('data', count).resume();
    });
  for (let i = 0; i < 5; i++) {
    await part();
    clock.advance(100_000);
    await turns();
  }
  t.same(kept.ends, []);
  wire.socket.resume();
  t.equal((await wire.answer()).body.byteLength, size);
});

t.test('100 Continue is sent when the body is wanted, and not to a refused request', async (t) => {
  const kept = new Kept();
  const { dial } = await serve(t, (exchange) => {
    if (exchange.apiKey === undefined) respondError(exchange, new HeadraceError('HR_AUTH_MISSING'));
    else kept.handler(exchange);
  });
  const expecting = { expect: '100-continue', 'content-length': '4' };
  const wire = dial();
  await wire.send(post({ ...expecting, 'x-api-key': 'k' }));
  const exchange = await kept.exchange();
  await turns();
  t.equal(wire.pending, '', 'not before it is wanted');
  exchange.readBody((_, body) => exchange.respond(200, [], body));
  await wire.shows('HTTP/1.1 100 Continue\r\n\r\n');
  await wire.send('body');
  t.equal((await wire.answer()).text(), 'body');
  t.same(wire.interim, [100]);

  const eager = dial();
  await eager.send(`${post({ ...expecting, 'x-api-key': 'k' })}body`);
  (await kept.exchange(1)).readBody((_, body) => kept.exchanges[1]?.respond(200, [], body));
  t.equal((await eager.answer()).text(), 'body');
  t.same(eager.interim, [], 'a body that has come needs no leave');

  const refused = dial();
  await refused.send(post(expecting));
  t.match(await refused.answer(), { status: 401, headers: { connection: 'close' } });
  t.same(refused.interim, []);
  t.equal(await refused.ended, 'fin');
});

t.test('only what has been read already is kept of a body that nobody has asked for', async (t) => {
  const kept = new Kept();
  const { budget, dial } = await serve(t, kept.handler);
  const wire = dial();
  await wire.send(post({ 'content-length': '900000' }));
  const exchange = await kept.exchange();
  const piece = Buffer.alloc(900_000, 'x');
  wire.socket.write(piece);
  await turns();
  t.ok(budget.usedBytes < 330_000, String(budget.usedBytes));
  const body = await new Promise<Buffer>((resolve) => exchange.readBody((_, bytes) => resolve(bytes)));
  t.ok(body.equals(piece));
  t.ok(budget.usedBytes > 0);
  exchange.respond(200, [], Buffer.from('ok'));
  await wire.answer();
  t.equal(budget.usedBytes, 0);
});

t.test('a refusal is read before a large body: the response comes, then the rest is dropped', async (t) => {
  const { budget, clock, counts, dial } = await serve(t, (exchange) =>
    respondError(exchange, new HeadraceError('HR_AUTH_MISSING')),
  );
  const wire = dial();
  await wire.send(`${post({ 'content-length': '900000' })}${'x'.repeat(1000)}`);
  t.match(await wire.answer(), { status: 401, headers: { connection: 'close' } });
  await wire.send(Buffer.alloc(500_000));
  t.equal(await wire.ended, 'fin', 'no reset');
  t.equal(budget.usedBytes, 0);
  wire.leave();

  const stubborn = dial();
  stubborn.socket.allowHalfOpen = true;
  await stubborn.send(`${post({ 'content-length': '900000' })}x`);
  await stubborn.answer();
  await turns();
  clock.advance(4000);
  await stubborn.send('x');
  await turns();
  clock.advance(4000);
  await turns();
  t.ok(counts.open >= 1, 'while the client sends, the server reads');
  clock.advance(6000);
  await turns();
  t.equal(counts.open, 0, 'a silent client is closed');
});

t.test('a client that never stops is not read for ever', async (t) => {
  const { clock, counts, dial } = await serve(t, (exchange) =>
    respondError(exchange, new HeadraceError('HR_AUTH_MISSING')),
  );
  const wire = dial();
  await wire.send(post({ 'transfer-encoding': 'chunked' }));
  await wire.answer();
  for (let elapsedMs = 0; elapsedMs <= 31_000; elapsedMs += 1000) {
    await wire.send('1\r\nx\r\n');
    await turns(5);
    clock.advance(1000);
  }
  await turns();
  t.equal(counts.open, 0);
});

t.test('a short rest of a refused body is read to keep the connection', async (t) => {
  const { dial } = await serve(t, (exchange) => {
    if (exchange.method === 'POST') respondError(exchange, new HeadraceError('HR_AUTH_MISSING'));
    else echo(exchange);
  });
  const wire = dial();
  await wire.send(`${post({ 'content-length': '60000' })}${'x'.repeat(100)}`);
  const answer = await wire.answer();
  t.equal(answer.headers['connection'], undefined);
  await wire.send('x'.repeat(59_900) + GET);
  t.equal((await wire.answer()).text(), 'GET / ');
});

t.test('a head that ends while the refusal of its lateness waits for the end of the turn is no request', async (t) => {
  await startBatching();
  const kept = new Kept();
  const { clock, counts, dial, refused } = await serve(t, kept.handler);
  const wire = dial();
  await wire.send('GET / HTTP/1.1\r\n');
  await turns();
  // The kernel has it before the timer fires, and the server reads it behind that.
  const sent = wire.send('host: x\r\n\r\n');
  clock.advance(30_000);
  await sent;
  t.match(await wire.answer(), { status: 408, headers: { connection: 'close' } });
  t.equal(await wire.ended, 'fin');
  wire.leave();
  await until(() => counts.open === 0);
  t.equal(wire.pending, '');
  t.match(refused, [{ endCause: 'delivered' }]);
  t.equal(kept.exchanges.length, 0);
});

t.test(
  'the head of a request has 30 seconds from its first byte, an unused connection the time of the setting',
  async (t) => {
    const { clock, counts, dial, refused } = await serve(t, echo);
    const slow = dial();
    await slow.send('GET / HTTP/1.1\r\n');
    await turns();
    clock.advance(20_000);
    await slow.send('host: x\r\n');
    await turns();
    clock.advance(9000);
    t.equal(counts.open, 1);
    clock.advance(2000);
    t.match(await slow.answer(), {
      status: 408,
      headers: { 'x-headrace-error': 'HR_REQUEST_TIMEOUT', connection: 'close' },
    });
    t.equal(refused.length, 1);
    await slow.ended;

    const idle = dial();
    await idle.send(GET);
    await idle.answer();
    clock.advance(11_000);
    await idle.send(GET);
    await idle.answer();
    clock.advance(11_000);
    await turns();
    t.notOk(idle.socket.readableEnded);
    clock.advance(2000);
    t.equal(await idle.ended, 'fin');
    t.equal(idle.pending, '', 'without a word');

    const silent = dial();
    await turns();
    clock.advance(13_000);
    t.equal(await silent.ended, 'fin');
    await turns();
    clock.advance(6000);
    await turns();
    t.same([counts.open, clock.nextDueMs], [0, Infinity]);
  },
);

t.test('a request that waits in the socket when its connection has been idle for too long is served', async (t) => {
  // As after a freeze of the process or a long turn of the event loop: timers are due before sockets are read.
  const { clock, dial } = await serve(t, echo);
  const wire = dial();
  await wire.send(GET);
  await wire.answer();
  await turns();
  const sent = wire.send(GET);
  clock.advance(60_000);
  await sent;
  t.match(await wire.answer(), { status: 200 });
  clock.advance(13_000);
  t.equal(await wire.ended, 'fin');
});

t.test('requests without a key share an eighth of the memory, and must not trickle', async (t) => {
  const { budget, clock, dial } = await serve(t, (exchange) => {
    exchange.keyless = exchange.apiKey === undefined;
    echo(exchange);
  });
  budget.limitBytes = 400 * 1024;
  const stranger = dial();
  await stranger.send(`${post({ 'content-length': '500000' })}${'x'.repeat(100)}`);
  const greedy = dial();
  await greedy.send(`${post({ 'content-length': '50000' })}${'x'.repeat(40_000)}`);
  t.match(await greedy.answer(), { status: 503, headers: { 'x-headrace-error': 'HR_OVERLOADED' } });
  const customer = dial();
  await customer.send(`${post({ 'content-length': '200000', 'x-api-key': 'k' })}${'x'.repeat(200_000)}`);
  t.equal((await customer.answer()).status, 200);

  for (let i = 0; i < 12; i++) {
    clock.advance(1000);
    if (!stranger.socket.writable) break;
    await stranger.send('x');
    await turns();
  }
  t.match(await stranger.answer(), { status: 408 });
  await stranger.ended;
  t.equal(budget.usedBytes, 0);
});

t.test('what is thrown costs one connection and is reported', async (t) => {
  const thrown = new Error('secret');
  const { counts, dial, errors } = await serve(t, (exchange) => {
    if (exchange.path === '/handler') throw thrown;
    if (exchange.path === '/body') {
      exchange.readBody(() => {
        throw thrown;
      });
      return;
    }
    const hear = (): never => {
      throw thrown;
    };
    exchange.listener = { onWritable: hear, onCut: hear, onEnded: hear };
    exchange.respond(200, [], Buffer.alloc(exchange.path === '/large' ? LARGE : 0));
  });
  const other = dial();
  await other.send(head('GET', '/ended', { host: 'x' }));
  t.equal((await other.answer()).status, 200);
  t.equal(errors.splice(0).length, 1, 'onEnded threw');

  const handler = dial();
  await handler.send(head('GET', '/handler', { host: 'x' }));
  const answer = await handler.answer();
  t.equal(answer.status, 500);
  t.notMatch(answer.text(), 'secret');
  t.same(errors.splice(0), [thrown]);

  const body = dial();
  await body.send(`${head('POST', '/body', { host: 'x', 'content-length': '2' })}hi`);
  await body.ended;
  t.same(errors.splice(0), [thrown]);
  await other.send(head('GET', '/ended', { host: 'x' }));
  t.equal((await other.answer()).status, 200, 'others are served');
  t.equal(counts.open, 2);
});

t.test(
  'drain closes idle connections, answers what has begun with Connection: close, and close ends all',
  async (t) => {
    const kept = new Kept();
    const { budget, clock, counts, dial, server } = await serve(t, kept.handler);
    const idle = dial();
    await idle.send(GET);
    (await kept.exchange()).respond(200, [], Buffer.from('one'));
    await idle.answer();
    const [running, streaming, held] = [dial(), dial(), dial()];
    await running.send(GET);
    const waiting = await kept.exchange(1);
    await streaming.send(GET);
    const stream = await kept.exchange(2);
    stream.start(200, [], -1);
    stream.write(Buffer.from('first'));
    await held.send(`${post({ 'content-length': '10' })}12345`);
    const uploading = await kept.exchange(3);
    uploading.readBody(() => undefined);
    server.drain();
    t.equal(await idle.ended, 'fin');
    waiting.respond(200, [], Buffer.from('two'));
    t.match(await running.answer(), { headers: { connection: 'close' } });
    t.equal(await running.ended, 'fin');
    stream.end(Buffer.from('last'));
    t.equal((await streaming.answer()).text(), 'firstlast');
    t.equal(await streaming.ended, 'fin', 'its head had left before');
    server.close();
    await held.ended;
    await turns();
    t.same(kept.ends, ['delivered', 'delivered', 'delivered', 'broken']);
    t.same([counts.open, budget.usedBytes, clock.nextDueMs], [0, 0, Infinity]);
    server.close();
  },
);

t.test('a turn of the event loop accepts several connections', async (t) => {
  const { counts, dial } = await serve(t, echo);
  const wires = Array.from({ length: 64 }, dial);
  let count = 0;
  for (; counts.open < wires.length; count++) await turns(1);
  t.ok(count < wires.length / 2, `${count} turns`);
});

t.test('a server that drains serves the connections that wait to be accepted, and opens no other one', async (t) => {
  const { dial, server } = await serve(t, echo);
  const wires = Array.from({ length: 12 }, dial);
  await Promise.all(wires.map((wire) => wire.send(GET)));
  server.drain();
  const answers = await Promise.all(wires.map((wire) => wire.answer()));
  t.ok(answers.every(({ headers, status }) => status === 200 && headers['connection'] === 'close'));
  await turns();
  const late = dial();
  await late.send(GET);
  await t.rejects(late.answer());
});

t.test(
  'above the limit unused connections make room; where all are in use new ones are closed and counted',
  async (t) => {
    const kept = new Kept();
    const { counts, dial, limits } = await serve(t, kept.handler);
    limits.connections = 3;
    const busy = dial();
    await busy.send(GET);
    const begun = dial();
    await begun.send('GET / HTTP/1.1\r\n');
    const unused = dial();
    await turns();
    const next = dial();
    await next.send(GET);
    t.equal(await unused.ended, 'fin');
    await turns();
    t.same(counts, { open: 3, refused: 0 });
    await dial().ended;
    t.same(counts, { open: 3, refused: 1 }, 'the others are in use');
    await begun.send('host: x\r\n\r\n');
    for (let index = 0; index < 3; index++) (await kept.exchange(index)).respond(200, [], Buffer.from('served'));
    for (const wire of [busy, begun, next]) t.equal((await wire.answer()).status, 200);
  },
);

t.test('a socket whose handle cannot be moved is read by its events', async (t) => {
  const [near, far] = duplexPair() as [Duplex, Duplex];
  const seen: string[] = [];
  const socket = readInto(Buffer.alloc(16), near as unknown as Socket, (length, bytes) => {
    seen.push(bytes.toString('latin1', 0, length));
    return seen.length < 2;
  });
  t.equal(socket as unknown, near);
  for (const text of ['one', 'two', 'three']) {
    far.write(text);
    await turns(3);
  }
  t.same(seen, ['one', 'two'], 'false stops reading');
  socket.resume();
  await turns(3);
  t.same(seen, ['one', 'two', 'three']);
});
