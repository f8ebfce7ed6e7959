// Which answers and failures move a request to the next CRN, which are passed on, and what each says about the CRN.
// Hosts are simulated, sockets are real, time is a manual clock.
import t from 'tap';
import type { Fault, Host } from '../../src/host/index.ts';
import { createHost } from '../../src/host/index.ts';
import { Bench, type BenchOptions, type Run, type Test } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, rawCrn } from '../support/upstream-crn.ts';

async function hosts(t: Test, ...faults: (Fault | null)[]): Promise<Host[]> {
  return Promise.all(
    faults.map(async (fault) => {
      const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, maxTokens: 4 });
      await host.listen();
      t.teardown(() => host.kill());
      if (fault !== null) await host.setFault([{ fault }]);
      return host;
    }),
  );
}

const bench = (t: Test, servers: readonly { url: string }[], options: Partial<BenchOptions> = {}): Bench =>
  new Bench(t, { urls: servers.map(({ url }) => url), ...options });

async function served(run: Run): Promise<void> {
  await run.downstream.done();
}

/** Faults that leave the client untouched while another CRN is there. */
const INVISIBLE: readonly [name: string, fault: Fault, failure: string, verdict?: string][] = [
  ['a refused connection', { refuse: true }, 'connect'],
  ['a reset before the head', { reset: true }, 'reset'],
  ['500', { status: 500 }, 'status 500'],
  ['503', { status: 503 }, 'status 503'],
  ['503 with Retry-After', { status: 503, headers: { 'retry-after': '30' } }, 'status 503'],
  ['429', { status: 429 }, 'busy', 'neutral'],
  ['429 with Retry-After', { status: 429, headers: { 'retry-after': '30' } }, 'busy', 'neutral'],
  [
    'a 400 that names the context length',
    { status: 400, body: 'maximum context length is 9' },
    'context length',
    'neutral',
  ],
  ['a reset behind the head', { resetAfter: 0 }, 'truncated'],
  ['a reset inside the first event', { resetAfter: 0, partial: true }, 'truncated'],
  ['a connection cut behind the head', { truncateAfter: 0 }, 'truncated'],
  ['a stream that ends without an event', { endAfter: 0 }, 'empty answer'],
];

for (const [name, fault, failure, verdict = 'failed'] of INVISIBLE) {
  t.test(`${name} moves on to the next CRN, unseen`, async (t) => {
    const servers = await hosts(t, fault, null);
    const b = bench(t, servers);
    const run = b.ask();
    await served(run);
    t.equal(run.downstream.status, 200);
    t.match(run.downstream.text, /data: \[DONE\]\n\n$/);
    t.notMatch(run.downstream.text, /error/);
    t.same(run.attempts, [
      [0, verdict, failure],
      [1, 'ok', null],
    ]);
    t.same(run.downstream.values('x-served-by'), [servers[1]?.url]);
    t.equal(b.inFlight, 0);
  });
}

for (const phase of ['headers', 'first byte'] as const) {
  t.test(`silence before the ${phase} moves on when its time is up`, async (t) => {
    const servers = await hosts(t, phase === 'headers' ? { hang: true } : { stallAfter: 0 }, null);
    const b = bench(t, servers, { timeouts: { headersMs: 500, firstByteMs: phase === 'headers' ? null : 400 } });
    const run = b.ask();
    await servers[0]?.nextRequest();
    b.clock.advance(phase === 'headers' ? 499 : 399);
    t.same(run.attempts, []);
    b.clock.advance(2);
    await served(run);
    t.same(run.attempts[0], [0, 'failed', `${phase} timeout`]);
    t.equal(run.downstream.status, 200);
    t.equal(b.inFlight, 0);
  });
}

t.test('a first-byte limit beyond the header limit holds once the head has come', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(chunkedHead('content-type: text/event-stream')));
  const b = bench(t, [crn], { timeouts: { headersMs: 500, firstByteMs: 2000 }, relay: { keepAliveMs: 100 } });
  const run = b.ask();
  await crn.arrived(1);
  // The first comment shows that the head is here.
  const tick = setInterval(() => b.clock.advance(100), 1);
  await run.downstream.until(() => run.downstream.committed);
  clearInterval(tick);
  b.clock.advance(500);
  t.same(run.attempts, []);
  b.clock.advance(1500);
  t.same(run.attempts, [[0, 'failed', 'first byte timeout']]);
  t.match(run.downstream.text, /^(: keep-alive\n\n)+data: \{"error":\{"message":"The server fell silent/);
});

t.test('a server that never finishes the connection fails within the connect limit', async (t) => {
  // A TLS handshake that is never answered.
  const silent = await rawCrn(t, () => undefined);
  const servers = await hosts(t, null);
  const b = bench(t, [{ url: silent.url.replace('http:', 'https:') }, ...servers], { timeouts: { connectMs: 700 } });
  const run = b.ask();
  b.clock.advance(699);
  t.same(run.attempts, []);
  b.clock.advance(2);
  await served(run);
  t.same(run.attempts, [
    [0, 'failed', 'connect timeout'],
    [1, 'ok', null],
  ]);
  t.equal(b.budget.balance, 100, 'a failed connection costs no budget');
  t.equal(b.inFlight, 0);
});

t.test('a context-length refusal of every CRN reaches the client byte for byte, the last one', async (t) => {
  const refusal = (name: string): Fault => ({
    status: 400,
    body: `{"error":{"type":"exceed_context_size_error"},"from":"${name}"}  \n`,
    headers: { 'x-from': name },
  });
  const servers = await hosts(t, refusal('a'), refusal('b'));
  const b = bench(t, servers);
  const run = b.ask();
  await served(run);
  t.equal(run.downstream.status, 400);
  t.equal(run.downstream.text, '{"error":{"type":"exceed_context_size_error"},"from":"b"}  \n');
  t.same(run.downstream.values('x-from'), ['b']);
  t.same(
    run.attempts.map(([, verdict]) => verdict),
    ['neutral', 'neutral'],
  );
  t.equal(b.inFlight, 0);
});

for (const status of [400, 401, 403, 404, 413, 422]) {
  t.test(`a CRN's own ${status} is passed on byte for byte and is neutral for its health`, async (t) => {
    const servers = await hosts(t, { status, body: '{ "mine": "é" }\r\n', headers: { 'x-more': '1' } }, null);
    const b = bench(t, servers);
    const run = b.ask();
    await served(run);
    t.equal(run.downstream.status, status);
    t.equal(run.downstream.text, '{ "mine": "é" }\r\n');
    t.same(run.downstream.values('x-more'), ['1']);
    t.same(run.downstream.values('x-served-by'), [], 'no cookie, no timing');
    t.same(run.attempts, [[0, 'neutral', null]]);
    t.equal(servers[1]?.requests.length, 0);
  });
}

for (const status of [401, 403]) {
  t.test(`${status} for the gateway's own credential is 502`, async (t) => {
    const servers = await hosts(t, { status }, { status });
    const b = bench(t, servers, { apiKey: 'own' });
    const run = b.ask({ headers: ['authorization', 'Bearer theirs', 'x-api-key', 'theirs'] });
    await served(run);
    t.equal(run.error?.code, 'HR_UPSTREAM_CREDENTIALS');
    t.equal(run.downstream.status, 502);
    t.equal(servers[0]?.requests[0]?.headers.authorization, 'Bearer own');
    t.equal(servers[0]?.requests[0]?.headers['x-api-key'], undefined);
    t.same(run.attempts, [
      [0, 'failed', 'credentials'],
      [1, 'failed', 'credentials'],
    ]);
  });
}

for (const status of [401, 403]) {
  t.test(
    `${status} for a key that the gateway has checked is 502, and says nothing about the health of the CRN`,
    async (t) => {
      const servers = await hosts(t, { status }, { status });
      const b = bench(t, servers);
      const run = b.ask({ headers: ['authorization', 'Bearer theirs'], keyChecked: true });
      await served(run);
      t.equal(run.error?.code, 'HR_UPSTREAM_CREDENTIALS');
      t.equal(run.downstream.status, 502);
      t.same(run.attempts, [
        [0, 'neutral', 'credentials'],
        [1, 'neutral', 'credentials'],
      ]);
      const other = b.ask({ headers: ['authorization', 'Bearer theirs'] });
      await served(other);
      t.equal(other.downstream.status, status, 'an open gateway passes on what the CRN says of the key of its client');
    },
  );
}

t.test('a broken stream beside refused credentials is no matter of credentials alone', async (t) => {
  const servers = await hosts(t, { status: 401 }, { endAfter: 0 });
  const run = bench(t, servers, { apiKey: 'own' }).ask();
  await served(run);
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
});

t.test('429 of every CRN reaches the client, with a Retry-After', async (t) => {
  const servers = await hosts(t, { status: 429, body: 'a' }, { status: 429, body: 'later' });
  const run = bench(t, servers).ask();
  await served(run);
  t.equal(run.downstream.status, 429);
  t.equal(run.downstream.text, 'later');
  t.same(run.downstream.values('retry-after'), ['2']);
});

t.test('a 429 too large to keep moves on as well', async (t) => {
  const busy = await rawCrn(t, ({ socket }) => {
    socket.write('HTTP/1.1 429 Too Many Requests\r\ntransfer-encoding: chunked\r\n\r\n');
    socket.write(Buffer.concat([chunk(Buffer.alloc(70_000, 'x')), chunk('')]));
  });
  const b = bench(t, [busy, ...(await hosts(t, null))]);
  const run = b.ask();
  await served(run);
  t.equal(run.downstream.status, 200);
  t.same(run.attempts[0], [0, 'neutral', 'busy']);
  t.equal(b.inFlight, 0);
});

t.test('a 400 too large to keep is passed on whole', async (t) => {
  const body = Buffer.alloc(200_000, 'context window ');
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('400 Bad Request', body)));
  const run = bench(t, [crn]).ask();
  await served(run);
  t.ok(run.downstream.body.equals(body));
  t.same(run.attempts, [[0, 'neutral', null]]);
});

t.test('every CRN is tried once, then the client gets 503', async (t) => {
  const servers = await hosts(t, { status: 500 }, { refuse: true }, { reset: true });
  const b = bench(t, servers);
  const run = b.ask();
  await served(run);
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
  t.same(run.error?.headers, ['retry-after', '2']);
  t.same(
    run.attempts.map(([crn]) => crn),
    [0, 1, 2],
  );
  t.same(
    servers.map(({ requests }) => requests.length),
    [1, 0, 1],
  );
  t.equal(b.inFlight, 0);
});

t.test('when no CRN was available the client is told when to retry', async (t) => {
  const run = bench(t, await hosts(t, { status: 500 }), { standing: 'down' }).ask();
  await served(run);
  t.same(run.error?.headers, ['retry-after', '2', 'x-should-retry', 'false']);
});

t.test('CRNs judged down share one connect limit', async (t) => {
  const silent = await rawCrn(t, () => undefined);
  const url = silent.url.replace('http:', 'https:');
  const b = bench(t, [{ url }, { url: `${url}/b` }, { url: `${url}/c` }], { standing: 'down' });
  const run = b.ask();
  b.clock.advance(1001);
  await served(run);
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
  t.equal(run.attempts.length, 1);
  t.equal(b.inFlight, 0);
});

t.test('a spent retry budget ends in 503, and refused connections do not spend it', async (t) => {
  const servers = await hosts(t, { refuse: true }, { status: 500 }, { status: 500 }, null);
  const b = bench(t, servers, { burst: 1 });
  const run = b.ask();
  await served(run);
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
  t.same(
    run.attempts.map(([crn]) => crn),
    [0, 1, 2],
  );
  t.equal(b.budget.balance, 0);
  t.equal(b.inFlight, 0);
});

t.test('a request that fails everywhere spends the retries that it made, and no more', async (t) => {
  for (const count of [1, 2]) {
    const servers = await hosts(t, ...Array.from({ length: count }, () => ({ status: 500 })));
    const b = bench(t, servers);
    const run = b.ask();
    await served(run);
    t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
    t.equal(run.attempts.length, count);
    t.equal(b.budget.balance, 100 - (count - 1));
  }
});

t.test('prompts that are too long leave half of the retry budget for CRNs that fail', async (t) => {
  const tooLong = { status: 400, body: 'maximum context length is 9' };
  const b = bench(t, await hosts(t, tooLong, tooLong, tooLong, tooLong), { burst: 4 });
  for (const attempts of [3, 1]) {
    const run = b.ask();
    await served(run);
    t.equal(run.downstream.status, 400, 'the client hears of its mistake');
    t.equal(run.attempts.length, attempts);
  }
  t.equal(b.budget.balance, 2);
});

t.test('keys that CRNs refuse leave half of the retry budget for CRNs that fail', async (t) => {
  const b = bench(t, await hosts(t, ...Array.from({ length: 4 }, () => ({ status: 401 }))), { burst: 4 });
  for (const attempts of [3, 1]) {
    const run = b.ask({ headers: ['authorization', 'Bearer theirs'], keyChecked: true });
    await served(run);
    t.equal(run.error?.code, 'HR_UPSTREAM_CREDENTIALS');
    t.equal(run.attempts.length, attempts);
  }
  t.equal(b.budget.balance, 2);
});

t.test('thousands of CRNs without a free connection are passed over without blame', async (t) => {
  const [host] = await hosts(t, { hang: true });
  const url = host?.url as string;
  const b = new Bench(t, { urls: Array.from({ length: 4000 }, (_, at) => `${url}/${at}`), maxConnections: 0 });
  const run = b.ask();
  await served(run);
  t.equal(run.attempts.length, 4000);
  t.ok(run.attempts.every(([, verdict, failure]) => verdict === 'neutral' && failure === 'no connection free'));
  t.equal(b.inFlight, 0);
});

t.test("a path that cannot be sent is the client's mistake, not a CRN's", async (t) => {
  const servers = await hosts(t, null, null);
  const b = bench(t, servers);
  const run = b.ask({ query: '?q=日本' });
  await served(run);
  t.equal(run.error?.code, 'HR_REQUEST_MALFORMED');
  t.same(run.attempts, [[0, 'neutral', 'unsendable']]);
  t.equal(b.inFlight, 0);
  t.equal(b.pools.get(servers[0]?.url as string)?.openConnections, 0);
});

t.test('an endless error body is given up soon, by bytes', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write('HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\n\r\n');
    const pour = (): void => {
      while (!socket.destroyed && socket.write(chunk(Buffer.alloc(8192)))) continue;
    };
    socket.on('drain', pour);
    pour();
  });
  const b = bench(t, [crn, ...(await hosts(t, null))]);
  const run = b.ask();
  await served(run);
  t.equal(run.downstream.status, 200);
  const [socket] = crn.sockets;
  if (socket?.destroyed === false) await new Promise((resolve) => socket?.once('close', resolve));
  t.ok((socket?.bytesWritten as number) < 64 * 1024 * 1024);
  t.equal(b.pools.get(crn.url)?.openConnections, 0);
});

t.test('an error body that trickles is given up soon, by time', async (t) => {
  const crn = await rawCrn(t, ({ socket }) =>
    socket.write(`HTTP/1.1 500 Oh\r\ntransfer-encoding: chunked\r\n\r\n${chunk('a').toString()}`),
  );
  const b = bench(t, [crn, ...(await hosts(t, null))]);
  const run = b.ask();
  await served(run);
  const [socket] = crn.sockets;
  const closed = new Promise((resolve) => socket?.once('close', resolve));
  b.clock.advance(1001);
  await closed;
  t.equal(b.pools.get(crn.url)?.openConnections, 0);
  t.same(run.attempts, [
    [0, 'failed', 'status 500'],
    [1, 'ok', null],
  ]);
});

t.test('a short error body is read to its end and its connection is kept', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('500 Oh', 'x'.repeat(1000))));
  const b = bench(t, [crn]);
  await served(b.ask());
  // The pool keeps a connection back for a turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  await served(b.ask());
  t.equal(crn.requests.length, 2);
  t.equal(crn.sockets.size, 1);
});
