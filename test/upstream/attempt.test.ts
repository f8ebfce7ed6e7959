// Bytes and headers between a CRN and the client, and the life of a connection under requests. Sockets are real.
import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { createHost } from '../../src/host/index.ts';
import { Bench, type Run } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, rawCrn } from '../support/upstream-crn.ts';

/** A path without a dialect: its answers pass whatever they hold. */
const PLAIN = { path: '/v1/embeddings', stream: false } as const;

const ask = (b: Bench): Run => b.ask(PLAIN);

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

t.test('request bodies arrive byte for byte', async (t) => {
  const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0 });
  await host.listen();
  t.teardown(() => host.kill());
  const b = new Bench(t, { urls: [host.url] });
  for (const body of [Buffer.from('{ "model" :"m"}\r\n '), randomBytes(3_000_000), Buffer.alloc(0)]) {
    const run = b.ask({ body, query: '?a=1&b=%20x&a=2' });
    const request = await host.nextRequest();
    await run.downstream.done();
    t.equal(request.bodySha256, sha256(body));
    t.equal(request.query, '?a=1&b=%20x&a=2');
    t.equal(b.inFlight, 0);
  }
});

t.test('answers arrive byte for byte, however they are cut', async (t) => {
  let body = Buffer.alloc(0);
  let cuts: number[] = [];
  let framing = 'length';
  const crn = await rawCrn(t, ({ socket }) => {
    const places = [...new Set(cuts.map((cut) => cut % (body.length + 1)))].sort((a, b) => a - b);
    const pieces = [...places, body.length].map((end, at) => body.subarray(at === 0 ? 0 : places[at - 1], end));
    if (framing === 'length') socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
    else if (framing === 'close') socket.write('HTTP/1.1 200 OK\r\n\r\n');
    else socket.write(chunkedHead('content-type: application/octet-stream'));
    for (const piece of pieces.filter(({ length }) => length > 0)) {
      socket.write(framing === 'chunked' ? chunk(piece) : piece);
    }
    if (framing === 'chunked') socket.write(chunk(''));
    if (framing === 'close') socket.end();
  });
  const b = new Bench(t, { urls: [crn.url] });
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 300_000, size: 'max' }),
      fc.array(fc.nat(), { maxLength: 8 }),
      fc.constantFrom('length', 'chunked', 'close'),
      async (bytes, places, frame) => {
        [body, cuts, framing] = [Buffer.from(bytes), places, frame];
        const run = ask(b);
        await run.downstream.done();
        await run.attempted(1);
        return (
          run.downstream.ending === 'complete' &&
          run.downstream.body.equals(body) &&
          run.attempts[0]?.[1] === 'ok' &&
          b.inFlight === 0 &&
          (framing !== 'length' || run.downstream.contentLength === body.length)
        );
      },
    ),
    { numRuns: 60 },
  );
  t.pass();
});

t.test('streams that are no text pass byte for byte', async (t) => {
  const bytes = gzipSync(randomBytes(200_000));
  const crn = await rawCrn(t, ({ socket }) => {
    const head = chunkedHead('content-encoding: gzip', 'content-type: application/json');
    socket.write(Buffer.concat([Buffer.from(head), chunk(bytes), chunk('')]));
  });
  const run = new Bench(t, { urls: [crn.url] }).ask({ ...PLAIN, headers: ['accept-encoding', 'gzip'] });
  await run.downstream.done();
  t.equal(sha256(run.downstream.body), sha256(bytes));
  t.same(run.downstream.values('content-encoding'), ['gzip']);
  t.match(crn.requests[0]?.head, /accept-encoding: gzip/);
});

t.test('an informational head and trailers are not passed on', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n');
    socket.write(`${chunkedHead('trailer: x-sum')}2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n`);
  });
  const run = ask(new Bench(t, { urls: [crn.url] }));
  await run.downstream.done();
  t.equal(run.downstream.status, 200);
  t.equal(run.downstream.text, 'ok');
  t.same(run.downstream.headers, ['x-served-by', crn.url, 'x-attempts', '1', 'x-waited', '0']);
  t.same(run.attempts, [[0, 'ok', null]]);
});

t.test('answers without a body are complete at once', async (t) => {
  for (const head of ['204 No Content', '200 OK']) {
    const crn = await rawCrn(t, ({ socket }) => socket.write(`HTTP/1.1 ${head}\r\ncontent-length: 0\r\n\r\n`));
    const run = ask(new Bench(t, { urls: [crn.url] }));
    await run.downstream.done();
    t.equal(run.downstream.status, Number(head.slice(0, 3)));
    t.equal(run.downstream.bytes, 0);
    t.same(run.attempts, [[0, 'ok', null]]);
  }
});

t.test('a head that is no HTTP, or too large, is malformed and is not asked for twice', async (t) => {
  for (const head of ['garbage\r\n\r\n', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`]) {
    const crn = await rawCrn(t, ({ socket, earlier }) => socket.write(earlier === 0 ? answer('200 OK', 'a') : head));
    const b = new Bench(t, { urls: [crn.url] });
    await ask(b).downstream.done();
    await new Promise(setImmediate);
    const run = ask(b);
    await run.downstream.done();
    t.same(run.attempts, [[0, 'failed', 'malformed']]);
    t.equal(crn.requests.length, 2);
    t.equal(b.inFlight, 0);
  }
});

t.test(
  'a kept connection that dies under a request is replaced once, on the same CRN, as a further attempt',
  async (t) => {
    const crn = await rawCrn(t, ({ socket, earlier }) => {
      if (earlier === 0) socket.write(answer('200 OK', 'a'));
      else socket.resetAndDestroy();
    });
    const b = new Bench(t, { urls: [crn.url], burst: 1 });
    await ask(b).downstream.done();
    await new Promise(setImmediate);
    const run = ask(b);
    await run.downstream.done();
    t.equal(run.downstream.status, 200);
    t.same(run.attempts, [
      [0, 'neutral', 'stale'],
      [0, 'ok', null],
    ]);
    t.same(run.downstream.values('x-attempts'), ['2']);
    t.equal(b.budget.balance, 0, 'it costs retry budget');
    t.equal(crn.requests.length, 3);
    t.equal(b.pools.get(crn.url)?.openConnections, 1);
    t.equal(b.inFlight, 0);
  },
);

t.test('a fresh connection that dies under a request fails at once', async (t) => {
  let answered = false;
  const crn = await rawCrn(t, ({ socket }) => {
    if (answered) socket.resetAndDestroy();
    else socket.write(answer('200 OK', 'a'));
    answered = true;
  });
  const b = new Bench(t, { urls: [crn.url] });
  await ask(b).downstream.done();
  await new Promise(setImmediate);
  const run = ask(b);
  await run.downstream.done();
  // The kept one, its replacement, and no more.
  t.equal(crn.requests.length, 3);
  t.same(run.attempts, [
    [0, 'neutral', 'stale'],
    [0, 'failed', 'reset'],
  ]);
});

t.test('a kept connection that dies with an empty retry budget is not replaced', async (t) => {
  const crn = await rawCrn(t, ({ socket, earlier }) => {
    if (earlier === 0) socket.write(answer('200 OK', 'a'));
    else socket.resetAndDestroy();
  });
  const b = new Bench(t, { urls: [crn.url], burst: 0 });
  await ask(b).downstream.done();
  await new Promise(setImmediate);
  const run = ask(b);
  await run.downstream.done();
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
  t.same(run.attempts, [[0, 'neutral', 'stale']]);
  t.equal(b.inFlight, 0);
});

t.test('a CRN that closes after its answer costs the next request nothing', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write(answer('200 OK', 'a', 'connection: close'));
    socket.end();
  });
  const b = new Bench(t, { urls: [crn.url] });
  for (let i = 0; i < 20; i++) {
    const run = ask(b);
    await run.downstream.done();
    t.same(run.attempts, [[0, 'ok', null]]);
  }
  t.equal(crn.requests.length, 20);
  t.equal(b.inFlight, 0);
});

t.test('an answer that comes before the request is sent whole leaves the connection usable', async (t) => {
  const early = createHost({ models: ['m'], maxBodyBytes: 10, timeToFirstTokenMs: 0 });
  await early.listen();
  t.teardown(() => early.kill());
  const b = new Bench(t, { urls: [early.url] });
  for (let i = 0; i < 5; i++) {
    const run = b.ask({ body: Buffer.alloc(20_000_000, ' ') });
    await run.downstream.done();
    t.equal(run.downstream.status, 413);
    t.equal(b.inFlight, 0);
  }
});

t.test('a base URL may have a path of its own', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', 'a')));
  const b = new Bench(t, { urls: [`${crn.url}/base`] });
  await b.ask({ ...PLAIN, query: '?x' }).downstream.done();
  t.match(crn.requests[0]?.head, /^POST \/base\/v1\/embeddings\?x HTTP/);
});

t.test('the wait is that of the CRN that answers, with or without a byte', async (t) => {
  const empty = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', '')));
  const broken = await rawCrn(t, ({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n');
    setImmediate(() => setImmediate(() => socket.destroy()));
  });
  const b = new Bench(t, { urls: [broken.url, empty.url] });
  const tick = setInterval(() => b.clock.advance(7), 1);
  const run = ask(b);
  await run.downstream.done();
  clearInterval(tick);
  t.same(
    run.attempts.map(([crn]) => crn),
    [0, 1],
  );
  t.ok(Number(run.downstream.values('x-waited')[0]) >= 0, `${run.downstream.values('x-waited')}`);
});
