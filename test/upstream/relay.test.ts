// Streams on their way to the client: what a break looks like in every dialect, comments in silence, backpressure, and
// a client that leaves. Hosts are simulated, sockets are real, time is a manual clock.
import t from 'tap';
import type { Fault, Host } from '../../src/host/index.ts';
import { createHost } from '../../src/host/index.ts';
import { parseEvents } from '../../src/net/sse.ts';
import { Bench, type BenchOptions, type Run, type Test } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, delta, type RawCrn, rawCrn } from '../support/upstream-crn.ts';

const SSE = 'content-type: text/event-stream';

const DIALECTS: readonly [path: string, body: object, close: RegExp][] = [
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hello' }] }, /\[DONE\]/],
  ['/v1/completions', { prompt: 'hello' }, /\[DONE\]/],
  ['/v1/responses', { input: 'hello' }, /response\.completed/],
  ['/v1/messages', { max_tokens: 8, messages: [{ role: 'user', content: 'hello' }] }, /message_stop/],
  ['/completion', { prompt: 'hello' }, /"stop":\s?true/],
];

async function host(t: Test, fault: Fault | null): Promise<Host> {
  const started = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, maxTokens: 8 });
  await started.listen();
  t.teardown(() => started.kill());
  if (fault !== null) await started.setFault([{ fault }]);
  return started;
}

/** A CRN that opens an event stream and then does what the test does with its socket. */
const streaming = (t: Test, ...events: string[]): Promise<RawCrn> =>
  rawCrn(t, ({ socket }) => {
    socket.write(chunkedHead(SSE));
    for (const event of events) socket.write(chunk(event));
  });

const bench = (t: Test, url: string, options: Partial<BenchOptions> = {}): Bench =>
  new Bench(t, { urls: [url], ...options });

/** The events of an error in the dialect of `path`, or none. */
function errors(path: string, text: string): unknown[] {
  const parsed = parseEvents(text).map(({ event, data }) => ({ event, data: parse(data) }));
  if (path === '/v1/messages' || path === '/v1/responses') return parsed.filter(({ event }) => event === 'error');
  return parsed.filter(({ data }) => data !== null && 'error' in data);
}

function parse(data: string): Record<string, unknown> | null {
  try {
    return JSON.parse(data) as Record<string, unknown>;
  } catch {
    return null;
  }
}

const BREAKS: readonly [name: string, fault: Fault, code: string][] = [
  ['a reset', { resetAfter: 6 }, 'truncated'],
  ['a reset inside an event', { resetAfter: 6, partial: true }, 'truncated'],
  ['a cut connection', { truncateAfter: 6 }, 'truncated'],
  [
    'a cut inside an event, byte by byte with CRLF',
    { truncateAfter: 6, partial: true, split: true, crlf: true },
    'truncated',
  ],
  ['a clean end without a finish', { endAfter: 6 }, 'truncated'],
  ['silence', { stallAfter: 6 }, 'idle timeout'],
  ['silence inside an event', { stallAfter: 6, partial: true }, 'idle timeout'],
];

for (const [path, body, close] of DIALECTS) {
  t.test(`${path} passes a whole stream byte for byte`, async (t) => {
    for (const fault of [{}, { split: true }, { crlf: true }]) {
      const upstream = await host(t, fault);
      const b = bench(t, upstream.url);
      const run = b.ask({ path, body: { model: 'm', stream: true, ...body } });
      await run.downstream.done();
      t.equal(run.downstream.ending, 'complete');
      t.match(run.downstream.text, close);
      t.same(run.attempts, [[0, 'ok', null]]);
      t.equal(b.inFlight, 0);
    }
  });

  for (const [name, fault, failure] of BREAKS) {
    t.test(`${path}: ${name} becomes one error event behind whole events`, async (t) => {
      const upstream = await host(t, fault);
      const b = bench(t, upstream.url);
      const run = b.ask({ path, body: { model: 'm', stream: true, ...body } });
      const { downstream } = run;
      if (fault.stallAfter !== undefined) {
        await downstream.until(() => (downstream.text.match(/\n\n/g) ?? []).length >= 6);
        t.same(run.attempts, [], 'no verdict before the end');
        // The half event that is held back may still be on its way, and begins the wait anew.
        while (!downstream.handedOver) {
          await new Promise(setImmediate);
          b.clock.advance(3001);
        }
      }
      await downstream.done();
      t.equal(downstream.ending, 'complete');
      t.same(run.attempts, [[0, 'failed', failure]]);
      t.equal(errors(path, downstream.text).length, 1);
      t.notMatch(downstream.text, close);
      t.match(downstream.text, /\n\r?\n$/);
      const events = parseEvents(downstream.text);
      t.ok(
        events.every(({ data }) => parse(data) !== null),
        'no event is cut',
      );
      t.equal(b.inFlight, 0);
    });
  }

  t.test(`${path}: broken JSON inside an event is passed on as it came`, async (t) => {
    const run = bench(t, (await host(t, { malformedAfter: 2 })).url).ask({
      path,
      body: { model: 'm', stream: true, ...body },
    });
    await run.downstream.done();
    t.equal(errors(path, run.downstream.text).length, 0);
    t.same(run.attempts, [[0, 'ok', null]]);
  });

  t.test(`${path}: an error the CRN reports itself is passed on and nothing is added`, async (t) => {
    const run = bench(t, (await host(t, { errorAfter: 6 })).url).ask({
      path,
      body: { model: 'm', stream: true, ...body },
    });
    await run.downstream.done();
    t.match(run.downstream.text, /the simulated engine failed/);
    t.notMatch(run.downstream.text, /HR_STREAM/);
    t.notMatch(run.downstream.text, /broke off|ended the stream/);
    t.equal(run.downstream.ending, 'complete');
  });

  t.test(`${path}: a stream without its closing event`, async (t) => {
    const run = bench(t, (await host(t, { noDone: true })).url).ask({
      path,
      body: { model: 'm', stream: true, ...body },
    });
    await run.downstream.done();
    // A finish reason is enough for the two dialects whose last event only says [DONE].
    const enough = path === '/v1/chat/completions' || path === '/v1/completions';
    t.equal(errors(path, run.downstream.text).length, enough ? 0 : 1);
    t.same(run.attempts, [enough ? [0, 'ok', null] : [0, 'failed', 'truncated']]);
  });
}

const STREAM = { model: 'm', stream: true };

/** Output, an error, and what a CRN may send behind it. */
const REPORTED: readonly [path: string, output: string, error: string, behind: string][] = [
  [
    '/v1/chat/completions',
    'data: {"choices":[{"delta":{"content":"a"}}]}',
    'data: {"error":{"message":"no"}}',
    'data: [DONE]',
  ],
  ['/v1/completions', 'data: {"choices":[{"text":"a"}]}', 'data: {"error":{"message":"no"}}', 'data: [DONE]'],
  [
    '/v1/messages',
    'data: {"type":"content_block_delta","delta":{"text":"a"}}',
    'event: error\ndata: {"type":"error","error":{"message":"no"}}',
    'event: message_stop\ndata: {"type":"message_stop"}',
  ],
  [
    '/v1/responses',
    'data: {"type":"response.output_text.delta","delta":"a"}',
    'event: error\ndata: {"type":"error","message":"no"}',
    'event: response.completed\ndata: {"type":"response.completed","response":{}}',
  ],
  [
    '/completion',
    'data: {"content":"a","stop":false}',
    'data: {"error":{"message":"no"}}',
    'data: {"content":"","stop":true}',
  ],
];

for (const [path, output, error, behind] of REPORTED) {
  t.test(`${path}: nothing passes behind an error that the CRN reports, together or apart`, async (t) => {
    for (const line of ['\n', '\r\n']) {
      const events = [output, error, behind].map((event) => `${event}\n\n`.replaceAll('\n', line));
      const [first = '', second = '', third = ''] = events;
      for (const pieces of [[first + second + third], [first, second + third], [first, second, third]]) {
        const b = bench(t, (await streaming(t, ...pieces)).url);
        const run = b.ask({ path, body: STREAM });
        await run.downstream.done();
        t.equal(run.downstream.ending, 'complete');
        t.equal(run.downstream.text, first + second, `${pieces.length} pieces`);
        t.same(run.attempts, [[0, 'failed', 'error event']]);
        t.equal(b.inFlight, 0);
      }
    }
  });
}

t.test('/v1/messages: an error without a name, which the official SDKs do not see, becomes one with it', async (t) => {
  const [, output = ''] = REPORTED[2] as readonly string[];
  const behind = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';
  const ping = 'event: ping\ndata: {"type":"ping"}\n\n';
  for (const error of ['{"error":{"message":"no"}}', '{"type":"error","error":{"message":"no"}}']) {
    for (const pieces of [
      [`${output}\n\n${ping}data: ${error}\n\n${behind}`],
      [`${output}\n\n`, ping, `data: ${error}\n\n`, behind],
    ]) {
      const run = bench(t, (await streaming(t, ...pieces)).url).ask({ path: '/v1/messages', body: STREAM });
      await run.downstream.done();
      const { ending, text } = run.downstream;
      t.equal(ending, 'complete');
      t.ok(text.startsWith(`${output}\n\n${ping}event: error\n`), text);
      t.match(errors('/v1/messages', text), [{ data: { type: 'error', error: { type: 'api_error' } } }]);
      t.notMatch(text, /"no"|message_stop/);
      t.same(run.attempts, [[0, 'failed', 'error event']]);
    }
  }
});

t.test('response.failed belongs to the error before it', async (t) => {
  const [, output = '', error = ''] = REPORTED[3] as readonly string[];
  const failed = 'event: response.failed\ndata: {"type":"response.failed","response":{"status":"failed"}}\n\n';
  const done = 'data: [DONE]\n\n';
  for (const pieces of [
    [`${output}\n\n${error}\n\n${failed}${done}`],
    [`${output}\n\n`, `${error}\n\n: wait\n\n`, ': wait\n\n', failed + done],
  ]) {
    const run = bench(t, (await streaming(t, ...pieces)).url).ask({ path: '/v1/responses', body: STREAM });
    await run.downstream.done();
    t.equal(run.downstream.ending, 'complete');
    t.equal(run.downstream.text.replaceAll(': wait\n\n', ''), `${output}\n\n${error}\n\n${failed}`);
    t.same(run.attempts, [[0, 'failed', 'error event']]);
  }
});

t.test('numbers the error event of a responses stream behind the last event', async (t) => {
  const crn = await streaming(
    t,
    'data: {"type":"x","sequence_number":6}\n\n',
    'data: {"type":"x","sequence_number": 7}\n\n',
  );
  const run = bench(t, crn.url).ask({ path: '/v1/responses' });
  await run.downstream.until(() => run.downstream.text.includes('7'));
  for (const socket of crn.sockets) socket.destroy();
  await run.downstream.done();
  t.match(run.downstream.text, /"sequence_number":8/);
});

t.test('an event too large to hold passes in pieces, and a break inside it breaks the connection', async (t) => {
  const crn = await streaming(t, `data: ${'x'.repeat(70_000)}`);
  const b = bench(t, crn.url);
  const run = b.ask();
  await run.downstream.until(() => run.downstream.bytes > 64 * 1024);
  for (const socket of crn.sockets) socket.destroy();
  await run.downstream.done();
  t.equal(run.downstream.ending, 'destroyed');
  t.notMatch(run.downstream.text, /error/);
  t.equal(b.inFlight, 0);
});

t.test(
  'a whole answer that breaks off is no answer, and the connection breaks once a long one has begun to pass',
  async (t) => {
    const cut = (bytes: number): Promise<RawCrn> =>
      rawCrn(t, ({ socket }) => {
        const head = `HTTP/1.1 200 OK\r\ncontent-length: ${2 * bytes}\r\ncontent-type: application/json\r\n\r\n`;
        socket.write(`${head}{"half":`);
        socket.end(Buffer.alloc(bytes, ' '));
      });
    for (const [bytes, ending, code] of [
      [1000, 'complete', 'HR_ROUTE_ALL_FAILED'],
      [300_000, 'destroyed', undefined],
    ] as const) {
      const run = bench(t, (await cut(bytes)).url).ask({ stream: false });
      await run.downstream.done();
      t.equal(run.downstream.ending, ending);
      t.equal(run.error?.code, code);
      t.same(run.attempts, [[0, 'failed', 'truncated']]);
    }
  },
);

t.test('comments fill silence: after the head, between whole events, never inside one', async (t) => {
  const crn = await streaming(t);
  const b = bench(t, crn.url, { relay: { keepAliveMs: 100 }, timeouts: { idleMs: 60_000 } });
  const run = b.ask();
  const { downstream } = run;
  await crn.arrived(1);
  b.clock.advance(50);
  t.equal(downstream.committed, false, 'no comment before the head');
  const socket = crn.requests[0]?.socket;
  const tick = setInterval(() => b.clock.advance(10), 1);
  await downstream.until(() => downstream.committed);
  clearInterval(tick);
  t.equal(downstream.text, ': keep-alive\n\n');
  t.ok(Number(downstream.values('x-waited')[0]) >= 100, 'the wait so far');
  socket?.write(chunk('data: {"a":1}\n\ndata: {"b"'));
  await downstream.until(() => downstream.text.includes('"a"'));
  b.clock.advance(101);
  t.equal(downstream.text, ': keep-alive\n\ndata: {"a":1}\n\n: keep-alive\n\n');
  socket?.write(chunk(`:2}\n\n`));
  await downstream.until(() => downstream.text.includes('"b"'));
  t.equal(downstream.text, ': keep-alive\n\ndata: {"a":1}\n\n: keep-alive\n\ndata: {"b":2}\n\n');
  downstream.leave();
  t.equal(b.inFlight, 0);
});

for (const [what, events] of [
  ['[DONE] alone', 'data: [DONE]\n\n'],
  [
    'a role and [DONE]',
    'data: {"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\ndata: [DONE]\n\n',
  ],
] as const) {
  t.test(`behind a comment, a stream of ${what} ends with an error and without [DONE]`, async (t) => {
    const crn = await streaming(t);
    const b = bench(t, crn.url, { relay: { keepAliveMs: 100 } });
    const run = b.ask();
    const { downstream } = run;
    await crn.arrived(1);
    const tick = setInterval(() => b.clock.advance(10), 1);
    await downstream.until(() => downstream.committed);
    clearInterval(tick);
    crn.requests[0]?.socket.write(Buffer.concat([chunk(events), chunk('')]));
    await downstream.done();
    t.notMatch(downstream.text, /DONE/);
    t.equal(errors('/v1/chat/completions', downstream.text).length, 1);
    t.match(run.attempts, [[0, 'failed', /only done|not begun/]]);
    t.equal(b.inFlight, 0);
  });
}

t.test('no comment goes into an event that passes in pieces', async (t) => {
  const crn = await streaming(t, `data: ${'x'.repeat(70_000)}`);
  const b = bench(t, crn.url, { relay: { keepAliveMs: 100 } });
  const run = b.ask();
  await run.downstream.until(() => run.downstream.bytes > 64 * 1024);
  b.clock.advance(500);
  t.notMatch(run.downstream.text, /keep-alive/);
  run.downstream.leave();
});

/** Sends as much as the socket takes, 1 KiB events. */
function pour(run: { socket: import('node:net').Socket }): void {
  const event = chunk(`data: ${'x'.repeat(1010)}\n\n`);
  const more = (): void => {
    while (!run.socket.destroyed && run.socket.write(event)) continue;
  };
  run.socket.on('drain', more);
  more();
}

t.test('a client that does not read stops the CRN, without blame for its silence', async (t) => {
  const crn = await rawCrn(t, (request) => {
    request.socket.write(chunkedHead(SSE));
    pour(request);
  });
  const b = bench(t, crn.url, {});
  const run = b.ask();
  const { downstream } = run;
  downstream.full = true;
  await downstream.until(() => downstream.bytes > 0);
  const socket = crn.requests[0]?.socket;
  // The CRN's socket fills up and stays full.
  let sent = -1;
  while (sent !== socket?.bytesWritten) {
    sent = socket?.bytesWritten as number;
    for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  }
  t.ok(downstream.bytes <= 256 * 1024, `${downstream.bytes} bytes`);
  b.clock.advance(50_000);
  t.same(run.attempts, []);
  const before = downstream.bytes;
  downstream.read();
  await downstream.until(() => downstream.bytes > before + 1_000_000);
  t.same(run.attempts, []);
  downstream.leave();
  t.same(run.attempts, [[0, 'neutral', 'client gone']]);
  t.equal(b.inFlight, 0);
});

t.test(
  'a chunk that comes after the CRN was asked to wait is passed on after it, and starts no clock before',
  async (t) => {
    const crn = await streaming(t, delta('1'));
    const b = bench(t, crn.url, { relay: { keepAliveMs: 100 } });
    const run = b.ask();
    const { downstream } = run;
    await downstream.until(() => downstream.bytes > 0);
    downstream.full = true;
    b.clock.advance(101);
    t.match(downstream.text, /keep-alive/, 'a comment is what the client did not take');
    await new Promise((resolve) => crn.requests[0]?.socket.write(chunk(delta('2')), resolve));
    await new Promise(setImmediate);
    b.clock.advance(50_000);
    t.same(run.attempts, []);
    t.notMatch(downstream.text, /"2"/);
    downstream.read();
    await downstream.until(() => downstream.text.includes('"2"'));
    crn.requests[0]?.socket.write(Buffer.concat([chunk('data: [DONE]\n\n'), chunk('')]));
    await downstream.done();
    t.same(run.attempts, [[0, 'ok', null]]);
  },
);

for (const [fault, happens] of [
  ['breaks', (crn: RawCrn) => crn.requests[0]?.socket.resetAndDestroy()],
  ['stays silent', (_: RawCrn, b: Bench) => b.clock.advance(60_000)],
  [
    'ends inside an event',
    (crn: RawCrn) => crn.requests[0]?.socket.write(Buffer.concat([chunk('data: {"usage":{'), chunk('')])),
  ],
] as const) {
  t.test(`a stream whose choices have all ended is complete, though its connection ${fault}`, async (t) => {
    const finish = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`;
    const crn = await streaming(t, delta('1'), finish);
    const b = bench(t, crn.url, { timeouts: { idleMs: 50_000 } });
    const run = b.ask();
    await run.downstream.until(() => run.downstream.text.includes('stop'));
    happens(crn, b);
    await run.downstream.done();
    t.equal(run.downstream.text, delta('1') + finish);
    t.equal(run.downstream.ending, 'complete');
    t.same(run.attempts, [[0, 'ok', null]]);
  });
}

t.test('a stream that ends while the client does not read is complete', async (t) => {
  const crn = await streaming(t, delta('1'));
  const b = bench(t, crn.url);
  const run = b.ask();
  run.downstream.full = true;
  await run.downstream.until(() => run.downstream.bytes > 0);
  crn.requests[0]?.socket.write(Buffer.concat([chunk('data: [DONE]\n\n'), chunk('')]));
  run.downstream.read();
  await run.downstream.done();
  t.equal(run.downstream.text, `${delta('1')}data: [DONE]\n\n`);
  t.same(run.attempts, [[0, 'ok', null]]);
});

const ABORTS: readonly [phase: string, stream: boolean, fault: Fault | null, until: (run: Run) => Promise<unknown>][] =
  [
    ['before the head', true, { hang: true }, async () => undefined],
    ['before the first byte', true, { stallAfter: 0 }, async () => undefined],
    [
      'in the middle of a stream',
      true,
      { stallAfter: 6 },
      ({ downstream }) => downstream.until(() => downstream.bytes > 0),
    ],
    ['while a whole answer is made', false, { slowHeadersMs: 60_000 }, async () => undefined],
    ['in the middle of a whole answer', false, { stallAfter: 0 }, async () => undefined],
  ];

for (const [phase, stream, fault, until] of ABORTS) {
  t.test(`a client that leaves ${phase} ends the CRN's work at once, without blame`, async (t) => {
    const upstream = await host(t, fault);
    const b = bench(t, upstream.url);
    const run = b.ask({ stream });
    const request = await upstream.nextRequest();
    await until(run);
    run.downstream.leave();
    t.same(run.attempts, [[0, 'neutral', 'client gone']]);
    t.equal(b.inFlight, 0);
    await request.whenClosed();
    t.equal(b.pools.get(upstream.url)?.openConnections, 0);
    b.clock.advance(100_000);
    t.equal(run.attempts.length, 1);
  });
}

t.test('a client that leaves while the connection is made leaves nothing behind', async (t) => {
  const silent = await rawCrn(t, () => undefined);
  const url = silent.url.replace('http:', 'https:');
  const b = bench(t, url);
  const run = b.ask();
  run.downstream.leave();
  t.same(run.attempts, [[0, 'neutral', 'client gone']]);
  t.equal(b.inFlight, 0);
  t.equal(b.pools.get(url)?.openConnections, 0);
  b.clock.advance(5000);
  t.equal(run.attempts.length, 1);
});

t.test('a client that leaves while a refusal is read ends it too', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => socket.write('HTTP/1.1 400 Bad\r\ncontent-length: 10\r\n\r\nhalf'));
  const b = bench(t, crn.url);
  const run = b.ask();
  await crn.arrived(1);
  const [socket] = crn.sockets;
  const closed = new Promise((resolve) => socket?.once('close', resolve));
  run.downstream.leave();
  await closed;
  t.same(run.attempts, [[0, 'neutral', 'client gone']]);
  t.equal(b.inFlight, 0);
});

t.test('an encoded stream passes as it is', async (t) => {
  const bytes = Buffer.from([31, 139, 8, 0, 10, 10, 255, 0]);
  const crn = await rawCrn(t, ({ socket }) => socket.write(answer('200 OK', bytes, SSE, 'content-encoding: gzip')));
  const run = bench(t, crn.url).ask();
  await run.downstream.done();
  t.ok(run.downstream.body.equals(bytes));
  t.same(run.downstream.values('content-encoding'), ['gzip']);
  t.equal(run.downstream.contentLength, 8);
});
