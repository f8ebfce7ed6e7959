// CRNs that fail with a good status, or in the middle of nothing, beside a healthy one: the client of every dialect, streamed and
// whole, gets the healthy one's answer and sees nothing of the fault. Sockets are real, time is a manual clock.
import t from 'tap';
import { createHost, type Host } from '../../src/host/index.ts';
import { Bench, type Run, type Test } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, delta, type RawCrn, rawCrn, type RawRequest } from '../support/upstream-crn.ts';

const SSE = 'content-type: text/event-stream';
const JSON_TYPE = 'content-type: application/json';

const DIALECTS: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hello' }] }],
  ['/v1/completions', { prompt: 'hello' }],
  ['/v1/responses', { input: 'hello' }],
  ['/v1/messages', { max_tokens: 8, messages: [{ role: 'user', content: 'hello' }] }],
  ['/completion', { prompt: 'hello' }],
];

type Script = (request: RawRequest) => void;

const whole =
  (status: string, body: string, ...headers: string[]): Script =>
  ({ socket }) =>
    void socket.write(answer(status, body, ...headers));

/** A stream that is left open, or ended. */
const stream =
  (events: string, isEnded = true): Script =>
  ({ socket }) => {
    socket.write(chunkedHead(SSE));
    if (events !== '') socket.write(chunk(events));
    if (isEnded) socket.write(chunk(''));
  };

/** The events before the first useful one. */
const OPENING: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
  '/v1/responses': 'data: {"type":"response.created","response":{}}\n\ndata: {"type":"response.in_progress"}\n\n',
  '/v1/messages': 'event: message_start\ndata: {"type":"message_start","message":{"content":[]}}\n\n',
};

const opens: Script = (request) => {
  const path = / (\S+) /.exec(request.head)?.[1] ?? '';
  stream(OPENING[path] ?? '', false)(request);
};

/** Comments until the socket is closed. */
const comments: Script = ({ socket }) => {
  socket.write(chunkedHead(SSE));
  const timer = setInterval(() => socket.write(chunk(': wait\n\n')), 1);
  socket.on('close', () => clearInterval(timer));
};

/** What the attempt is told to have come to; `late`: by time. */
const FAULTS: readonly (readonly [name: string, script: Script, verdict: string, failure: string, late?: 'late'])[] = [
  ['error JSON under 200', whole('200 OK', '{"error":{"message":"no"}}', JSON_TYPE), 'failed', 'error answer'],
  ['HTML under 200', whole('200 OK', '<html></html>', 'content-type: text/html'), 'failed', 'not an answer'],
  ['a stream whose first event is an error', stream('data: {"error":{"message":"no"}}\n\n'), 'failed', 'error event'],
  ['a stream of [DONE] alone', stream('data: [DONE]\n\n'), 'failed', 'only done'],
  ['an empty 200', whole('200 OK', '', JSON_TYPE), 'failed', 'empty answer'],
  ['an empty stream', stream(''), 'failed', 'empty answer'],
  ['204', ({ socket }) => void socket.write('HTTP/1.1 204 No Content\r\n\r\n'), 'failed', 'empty answer'],
  ['a redirect', whole('307 Temporary Redirect', '', 'location: http://10.0.0.1/'), 'failed', 'redirect'],
  [
    '404 for the model',
    whole('404 Not Found', '{"error":"The model `m` does not exist"}', JSON_TYPE),
    'neutral',
    'model unknown',
  ],
  ['408', whole('408 Request Timeout', 'late'), 'neutral', 'status 408'],
  ['425', whole('425 Too Early', ''), 'neutral', 'status 425'],
  ['an event that is cut by a clean end', stream('data: {"choices":[{"delta":{"cont'), 'failed', 'truncated'],
  [
    'JSON that is cut before its length',
    ({ socket }) => void socket.end(`HTTP/1.1 200 OK\r\n${JSON_TYPE}\r\ncontent-length: 99\r\n\r\n{"choices":[`),
    'failed',
    'truncated',
  ],
  [
    'JSON that is cut where the connection ends',
    ({ socket }) => void socket.end(`HTTP/1.1 200 OK\r\n${JSON_TYPE}\r\nconnection: close\r\n\r\n{"choices":[`),
    'failed',
    'truncated',
  ],
  ['comments for ever', comments, 'failed', 'first byte timeout', 'late'],
  ['opening events and then silence', opens, 'failed', 'first byte timeout', 'late'],
  ['silence behind the head', stream('', false), 'failed', 'first byte timeout', 'late'],
  ['silence', () => undefined, 'failed', 'first byte timeout', 'late'],
];

async function healthy(t: Test): Promise<Host> {
  const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, maxTokens: 4 });
  await host.listen();
  t.teardown(() => host.kill());
  return host;
}

/** Lets time pass until the first attempt has ended; more time would end the second one too. */
async function late(b: Bench, run: Run): Promise<void> {
  while (run.attempts.length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    b.clock.advance(20);
  }
}

for (const [name, script, verdict, failure, isLate] of FAULTS) {
  t.test(`${name} is no answer: the next CRN is asked, unseen`, async (t) => {
    const host = await healthy(t);
    const crn = await rawCrn(t, script);
    for (const [path, members] of DIALECTS) {
      for (const streamed of [true, false]) {
        const b = new Bench(t, { urls: [crn.url, host.url], timeouts: { firstByteMs: 1000, idleMs: 2000 } });
        const run = b.ask({ path, stream: streamed, body: { model: 'm', stream: streamed, ...members } });
        if (isLate !== undefined) await late(b, run);
        await run.downstream.done();
        const what = `${path} ${streamed ? 'streamed' : 'whole'}`;
        t.equal(run.downstream.status, 200, what);
        t.equal(run.downstream.ending, 'complete', what);
        t.notMatch(run.downstream.text, /"message":"no"|<html|: wait/, what);
        t.same(run.downstream.values('x-served-by'), [host.url], what);
        t.same(run.attempts, [
          [0, verdict, failure],
          [1, 'ok', null],
        ]);
        t.equal(b.inFlight, 0);
      }
    }
  });
}

const ask = async (
  t: Test,
  scripts: readonly Script[],
  request: { readonly path?: string } = {},
): Promise<{ b: Bench; run: Run; crns: RawCrn[] }> => {
  const crns = await Promise.all(scripts.map((script) => rawCrn(t, script)));
  const b = new Bench(t, { urls: crns.map(({ url }) => url) });
  return { b, run: b.ask(request), crns };
};

t.test('when every CRN says that it does not know the model the last one passes', async (t) => {
  const refusal = (name: string): Script => whole('404 Not Found', `{"error":"model not found","from":"${name}"}`);
  const { b, run } = await ask(t, [refusal('a'), refusal('b')]);
  await run.downstream.done();
  t.equal(run.downstream.status, 404);
  t.match(run.downstream.text, '"from":"b"');
  t.equal(b.inFlight, 0);
});

t.test('404 for a thing that the request names passes at once', async (t) => {
  const body = '{"error":{"message":"Response with id \'r\' not found."}}';
  const { run, crns } = await ask(t, [whole('404 Not Found', body), whole('500 No', '')]);
  await run.downstream.done();
  t.same([run.downstream.status, run.downstream.text], [404, body]);
  t.equal(crns[1]?.requests.length, 0);
});

t.test('a redirect of the only CRN is never sent to the client', async (t) => {
  const { run } = await ask(t, [whole('302 Found', '', 'location: http://10.0.0.1/')]);
  await run.downstream.done();
  t.equal(run.downstream.status, 503);
  t.same(run.downstream.values('location'), []);
});

t.test(
  'a redirect of a path outside the dialects is the choice of its client, and no failure of the CRN',
  async (t) => {
    const there = whole('307 Temporary Redirect', '', 'location: /score');
    const { run } = await ask(t, [there, there], { path: '/score/' });
    await run.downstream.done();
    t.equal(run.downstream.status, 503);
    t.same(run.downstream.values('location'), []);
    t.same(run.attempts, [
      [0, 'neutral', 'redirect'],
      [1, 'neutral', 'redirect'],
    ]);
  },
);

t.test('a 429 whose body never ends passes after a second, with its Retry-After, from the only CRN too', async (t) => {
  const { b, run, crns } = await ask(t, [
    ({ socket }) => void socket.write('HTTP/1.1 429 Busy\r\nretry-after: 7\r\ncontent-length: 9\r\n\r\nha'),
  ]);
  await crns[0]?.arrived(1);
  await late(b, run);
  await run.downstream.done();
  t.equal(run.error?.code, 'HR_UPSTREAM_BUSY');
  t.equal(run.downstream.status, 429);
  t.same(run.downstream.values('retry-after'), ['7']);
  t.same(run.attempts, [[0, 'neutral', 'busy']]);
  t.ok(b.clock.now() - 1_000_000 < 1500, `${b.clock.now() - 1_000_000} ms`);
});

t.test('busy CRNs win over others that refuse: the client may come back', async (t) => {
  const { run } = await ask(t, [
    whole('429 Busy', 'busy', 'retry-after: 3'),
    whole('400 Bad', 'maximum context length is 9'),
  ]);
  await run.downstream.done();
  t.same([run.downstream.status, run.downstream.text], [429, 'busy']);
  t.same(run.downstream.values('retry-after'), ['3']);
});

for (const [name, end] of [
  ['is reset', ({ socket }: RawRequest) => void setImmediate(() => socket.resetAndDestroy())],
  ['ends without the last chunk', ({ socket }: RawRequest) => void socket.end()],
  ['stays open', () => undefined],
] as const) {
  t.test(`a stream is complete with [DONE], also when its connection ${name}`, async (t) => {
    const { b, run, crns } = await ask(t, [
      (request) => {
        request.socket.write(chunkedHead(SSE));
        request.socket.write(chunk(`${delta('a')}data: [DONE]\n\n`));
        end(request);
      },
    ]);
    await run.downstream.done();
    t.equal(run.downstream.text, `${delta('a')}data: [DONE]\n\n`);
    t.equal(run.downstream.errorCode, '');
    t.same(run.attempts, [[0, 'ok', null]]);
    t.equal(b.inFlight, 0);
    // What is left of it is read for a second at most.
    b.clock.advance(1001);
    t.equal(b.pools.get(crns[0]?.url as string)?.openConnections, 0);
  });
}

for (const [name, bytes] of [
  ['a part of a head', 'HTTP/1.1 200'],
  ['an informational response', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
] as const) {
  t.test(`a kept connection that closes behind ${name} is not tried again`, async (t) => {
    const { b, run, crns } = await ask(t, [
      ({ earlier, socket }) =>
        void (earlier === 0 ? socket.write(answer('200 OK', '{"choices":[{}]}', JSON_TYPE)) : socket.end(bytes)),
    ]);
    await run.downstream.done();
    await new Promise(setImmediate);
    const second = b.ask();
    await second.downstream.done();
    t.same(second.attempts, [[0, 'failed', 'reset']]);
    t.equal(crns[0]?.requests.length, 2);
  });
}

t.test('an answer whose last piece meets a full client gives everything back at once', async (t) => {
  const body = JSON.stringify({ choices: [{ text: 'x'.repeat(1_000_000) }] });
  const crn = await rawCrn(t, whole('200 OK', body, JSON_TYPE));
  const b = new Bench(t, { urls: [crn.url] });
  for (let at = 0; at < 5; at++) {
    const run = b.ask({ stream: false });
    run.downstream.full = true;
    while (!run.downstream.handedOver) {
      await new Promise(setImmediate);
      run.downstream.read();
      run.downstream.full = true;
    }
    t.equal(run.downstream.text.length, body.length);
    t.same(run.attempts, [[0, 'ok', null]]);
    t.equal(b.inFlight, 0);
  }
  t.equal(b.pools.get(crn.url)?.openConnections, 1);
});

t.test(
  'a CRN that answers no probe any more loses its running requests, before and after they have begun',
  async (t) => {
    const host = await healthy(t);
    const silent = await rawCrn(t, () => undefined);
    const begun = await rawCrn(t, stream(delta('a'), false));
    const b = new Bench(t, { urls: [silent.url, host.url], timeouts: { headersMs: 600_000, idleMs: 600_000 } });
    const early = b.ask();
    await silent.arrived(1);
    b.clock.advance(5000);
    b.board.setUnreachable(0, b.clock.now());
    b.clock.advance(1001);
    t.same(early.attempts, [], 'other threads may still say that it sends');
    b.clock.advance(1000);
    await early.downstream.done();
    t.equal(early.downstream.status, 200);
    t.same(early.attempts, [
      [0, 'failed', 'unreachable'],
      [1, 'ok', null],
    ]);
    const c = new Bench(t, { urls: [begun.url], timeouts: { headersMs: 600_000, idleMs: 600_000 } });
    const later = c.ask();
    await later.downstream.until(() => later.downstream.bytes > 0);
    c.board.setUnreachable(0, c.clock.now());
    c.clock.advance(1001);
    t.same(later.attempts, [], 'it was heard of at the same time');
    c.clock.advance(10);
    c.board.setUnreachable(0, c.clock.now());
    c.clock.advance(2002);
    await later.downstream.done();
    t.match(later.downstream.text, /HR_STREAM_BROKEN/);
    t.same(later.attempts, [[0, 'failed', 'unreachable']]);
    t.same([b.inFlight, c.inFlight], [0, 0]);
  },
);

t.test('a CRN that sends on one connection is not lost, however late its probes are', async (t) => {
  const crn = await rawCrn(t, (request) => {
    if (request.body.includes('talk')) stream(delta('a'), false)(request);
  });
  const b = new Bench(t, { urls: [crn.url], timeouts: { headersMs: 600_000, idleMs: 600_000 } });
  const waiting = b.ask();
  await crn.arrived(1);
  b.clock.advance(5000);
  const talking = b.ask({ body: { model: 'm', stream: true, messages: [{ role: 'user', content: 'talk' }] } });
  await talking.downstream.until(() => talking.downstream.bytes > 0);
  b.board.setUnreachable(0, b.clock.now() - 1000);
  b.clock.advance(3003);
  t.same([waiting.attempts, talking.attempts], [[], []]);
  b.board.setUnreachable(0, b.clock.now() - 1000);
  b.clock.advance(2002);
  t.same([waiting.attempts, talking.attempts], [[[0, 'failed', 'unreachable']], [[0, 'failed', 'unreachable']]]);
});
