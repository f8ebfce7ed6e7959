import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { createManualClock } from '../../src/actor/clock.ts';
import { type Host, type HostSettings, createHost } from '../../src/host/index.ts';
import type { KeyGuard } from '../../src/host/model-host.ts';
import { freePort } from '../support/free-port.ts';

import t from 'tap';

type Json = Record<string, unknown>;

async function started(
  t: { teardown(run: () => unknown): unknown },
  settings: Partial<HostSettings> = {},
): Promise<Host> {
  const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, ...settings });
  await host.listen();
  t.teardown(() => host.kill());
  return host;
}

/** Of a host that does not listen for a while: nobody else gets its port. */
const ownAddress = async (): Promise<{ readonly listen: string }> => ({ listen: `127.0.0.1:${await freePort()}` });

const post = (host: Host, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(host.url + path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body), headers });

const chatBody = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };

t.test('health and lists are open and say what is there', async (t) => {
  const host = await started(t, { models: ['m', 'org/big model'], loadable: ['later'], keys: ['k'], name: 'h1' });
  const get = async (path: string): Promise<[number, Json]> => {
    const response = await fetch(host.url + path);
    t.equal(response.headers.get('x-host'), 'h1');
    return [response.status, (await response.json()) as Json];
  };
  const { instance } = (await get('/health'))[1];
  t.match(instance, /^[0-9a-f-]{36}$/);
  t.same(await get('/health'), [200, { status: 'ok', instance }]);
  t.same(await get('/health/m'), [200, { status: 'ok', model: 'm', instance }]);
  t.same((await get('/health/m'))[0], 200);
  t.same((await get('/health/org%2Fbig%20model'))[0], 200);
  t.same((await get('/health/org/big%20model'))[0], 200);
  t.same((await get('/health/later'))[0], 202);
  t.same((await get('/health/other'))[0], 404);
  t.same((await get('/health/%zz'))[0], 404);
  t.match(await get('/v1/models'), [200, { object: 'list', data: [{ id: 'm', root: 'm' }, { id: 'org/big model' }] }]);
  t.match(await get('/nothing'), [404, { error: { code: 'not_found' } }]);
});

t.test('a host that loads says 503 until the time is over', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { loadingMs: 500, clock });
  for (const path of ['/health', '/health/m']) t.equal((await fetch(host.url + path)).status, 503, path);
  t.equal((await post(host, '/completion', {})).status, 503);
  clock.advance(499);
  t.equal((await fetch(`${host.url}/health`)).status, 503);
  clock.advance(1);
  for (const path of ['/health', '/health/m']) t.equal((await fetch(host.url + path)).status, 200, path);
  t.equal((await post(host, '/completion', {})).status, 200);
});

t.test('with keys a POST needs one, as bearer or as x-api-key', async (t) => {
  const host = await started(t, { keys: ['secret'] });
  const missing = await post(host, '/completion', {});
  t.same([missing.status, await missing.json()], [401, { detail: 'Not authenticated' }]);
  t.equal(missing.headers.get('www-authenticate'), 'Bearer');
  const wrong = await post(host, '/completion', {}, { authorization: 'Bearer nope', 'x-api-key': 'secret' });
  t.same([wrong.status, await wrong.json()], [401, { detail: 'Invalid API key' }]);
  t.equal((await post(host, '/completion', {}, { authorization: 'bearer secret' })).status, 200);
  t.equal((await post(host, '/completion', {}, { 'x-api-key': 'secret' })).status, 200);
});

t.test('mistakes are answered in the shape of the path', async (t) => {
  const host = await started(t);
  const cases: [string, unknown, number, Json][] = [
    ['/v1/nothing', chatBody, 404, { error: { code: 'not_found', message: String } }],
    ['/v1/chat/completions', { ...chatBody, model: 'x' }, 404, { error: { code: 'model_not_found', param: null } }],
    ['/v1/messages', { ...chatBody, model: 'x' }, 404, { type: 'error', error: { type: 'not_found_error' } }],
    ['/completion', { model: 'x' }, 404, { error: { code: 404 } }],
    ['/v1/chat/completions', '{"model":', 400, { error: { message: 'the body is not a JSON object' } }],
    ['/v1/chat/completions', [], 400, { error: { message: 'the body is not a JSON object' } }],
    ['/v1/chat/completions', { messages: [] }, 400, { error: { message: 'model must be a text' } }],
    ['/v1/chat/completions', { model: 'm' }, 400, { error: { message: 'messages must be an array' } }],
    ['/v1/messages', { model: 'm' }, 400, { error: { message: 'messages must be an array' } }],
    [
      '/v1/chat/completions',
      { ...chatBody, max_tokens: 'many' },
      400,
      { error: { message: 'max_tokens must be a number' } },
    ],
  ];
  for (const [path, body, status, expected] of cases) {
    const response = await post(host, path, body);
    t.equal(response.status, status, path);
    t.match(await response.json(), expected, path);
  }
  t.equal((await post(host, '/completion', {}, { 'x-headrace-sim': 'speed=9' })).status, 400);
});

t.test('another method on a known path is 405 with the one that is allowed', async (t) => {
  const host = await started(t);
  const cases: [string, string, number, string | null][] = [
    ['GET', '/completion', 405, 'POST'],
    ['GET', '/v1/chat/completions', 405, 'POST'],
    ['GET', '/v1/embeddings', 405, 'POST'],
    ['DELETE', '/tokenize', 405, 'POST'],
    ['POST', '/props', 405, 'GET'],
    ['POST', '/v1/models', 405, 'GET'],
    ['PUT', '/health', 405, 'GET'],
    ['PUT', '/nothing', 405, 'GET, POST'],
    ['GET', '/nothing', 404, null],
    ['POST', '/nothing', 404, null],
  ];
  for (const [method, path, status, allow] of cases) {
    const response = await fetch(`${host.url}${path}`, { method });
    t.same([response.status, response.headers.get('allow')], [status, allow], `${method} ${path}`);
    t.match(await response.json(), { detail: String }, path);
  }
});

t.test('the journal keeps what was asked, byte for byte', async (t) => {
  const host = await started(t, { journalEntries: 2 });
  const body = `{"model":"m", "prompt":"Mühle", "n_predict":3}`;
  const response = await post(host, '/completion?x=1', body, { 'x-mine': 'yes', 'x-request-id': 'r-7' });
  t.equal(response.headers.get('x-request-id'), 'r-7');
  t.equal(response.headers.get('request-id'), 'r-7');
  await response.text();
  const request = await host.nextRequest();
  await request.whenClosed();
  t.match(request, {
    id: 1,
    method: 'POST',
    path: '/completion',
    query: '?x=1',
    headers: { 'x-mine': 'yes' },
    model: 'm',
    bodyBytes: Buffer.byteLength(body),
    bodySha256: createHash('sha256').update(body).digest('hex'),
    status: 200,
    finished: true,
    aborted: false,
  });
  t.equal(host.requests[0], request);
  for (let more = 0; more < 2; more++) await (await fetch(`${host.url}/health`)).text();
  t.same(
    host.requests.map(({ id }) => id),
    [2, 3],
  );
});

t.test('the same prompt gets the same text from every host and dialect, another prompt or seed another', async (t) => {
  const [one, two, other] = await Promise.all([started(t), started(t), started(t, { seed: 2 })]);
  const text = async (host: Host, content: string): Promise<unknown> => {
    const body = { model: 'm', prompt: content };
    return ((await (await post(host, '/completion', body)).json()) as Json)['content'];
  };
  const said = await text(one!, 'hello');
  t.match(said, /^\S+( \S+){15}$/);
  t.equal(await text(two!, 'hello'), said);
  const viaOpenai = (await (await post(one!, '/v1/completions', { model: 'm', prompt: 'hello' })).json()) as {
    choices: [{ text: string }];
  };
  t.equal(viaOpenai.choices[0].text, said);
  t.not(await text(one!, 'hello!'), said);
  t.not(await text(other!, 'hello'), said);
});

t.test('no two answers of hosts have the same ids, also behind a restart', async (t) => {
  const hosts = [await started(t, await ownAddress()), await started(t)] as const;
  const ids: unknown[] = [];
  const ask = async (host: Host): Promise<void> => {
    const response = await post(host, '/v1/responses', { model: 'm', input: 'hello' });
    const { id, output } = (await response.json()) as { id: string; output: { id: string }[] };
    ids.push(id, output[0]?.id);
  };
  for (const host of [hosts[0], hosts[1], hosts[0]]) await ask(host);
  await hosts[0].kill();
  await hosts[0].listen();
  await ask(hosts[0]);
  t.equal(new Set(ids).size, 8, ids.join(' '));
});

t.test('length: none named, named, natural end, ignore_eos, and the pace header', async (t) => {
  const host = await started(t, { maxTokens: 5, naturalTokens: 20 });
  const run = async (body: Json, sim = ''): Promise<[unknown, unknown]> => {
    const response = await post(
      host,
      '/completion',
      { prompt: 'p', ...body },
      sim === '' ? {} : { 'x-headrace-sim': sim },
    );
    const { tokens_predicted: tokens, stopped_limit: limited } = (await response.json()) as Json;
    return [tokens, limited];
  };
  t.same(await run({}), [5, false]);
  t.same(await run({ n_predict: -1 }), [5, false]);
  t.same(await run({ n_predict: 12 }), [12, true]);
  t.same(await run({ n_predict: 0 }), [0, true]);
  t.same(await run({ n_predict: 100 }), [20, false]);
  t.same(await run({ n_predict: 100, ignore_eos: true }), [100, true]);
  t.same(await run({ n_predict: 100 }, 'tokens=64'), [64, true]);
});

t.test('time to first token and time between tokens follow the clock', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { timeToFirstTokenMs: 30, interTokenMs: 10, clock });
  const streams = 20;
  const answers = Array.from({ length: streams }, () => post(host, '/completion', { n_predict: 3, stream: true }));
  const requests = await Promise.all(answers.map(() => host.nextRequest()));
  const events = (): number[] => [...new Set(requests.map((request) => request.events))];
  clock.advance(29);
  t.same(events(), [0]);
  clock.advance(1);
  t.same(events(), [1]);
  clock.advance(9);
  t.same(events(), [1]);
  clock.advance(1);
  t.same(events(), [2]);
  clock.advance(10);
  t.same(events(), [4], 'the last token and the final event');
  const texts = await Promise.all(answers.map(async (answer) => (await answer).text()));
  t.equal(new Set(texts.map((text) => text.split('\n\n').length)).size, 1);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('an answer that is no stream takes as long as its last token', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock, timeToFirstTokenMs: 30, interTokenMs: 10 });
  const answer = post(host, '/completion', { n_predict: 4 });
  const request = await host.nextRequest();
  clock.advance(59);
  t.equal(request.status, 0);
  clock.advance(1);
  t.equal(request.status, 200);
  t.equal((await answer).status, 200);
});

t.test('slow-headers holds the answer back', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock });
  const answer = post(host, '/completion', {}, { 'x-headrace-fault': 'slow-headers=500' });
  const request = await host.nextRequest();
  clock.advance(499);
  t.equal(request.status, 0);
  clock.advance(1);
  t.equal(request.status, 200);
  t.equal((await answer).status, 200);
});

t.test('a client that leaves stops its stream at once', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock, timeToFirstTokenMs: 10, interTokenMs: 10 });
  const leave = new AbortController();
  const response = fetch(`${host.url}/completion`, {
    method: 'POST',
    body: '{"n_predict":100,"stream":true}',
    signal: leave.signal,
  });
  const request = await host.nextRequest();
  clock.advance(10);
  await response;
  leave.abort();
  await request.whenAborted();
  t.match(request, { aborted: true, finished: false, events: 1 });
  t.equal(host.live, 0);
  clock.advance(1000);
  t.equal(request.events, 1);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('a client that leaves while it uploads is an abort', async (t) => {
  const host = await started(t);
  const socket = connect(host.port, '127.0.0.1');
  socket.write('POST /completion HTTP/1.1\r\nhost: h\r\ncontent-length: 1000\r\n\r\n{"half');
  while (host.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  socket.destroy();
  await host.requests[0]!.whenAborted();
  t.match(host.requests[0], { bodySha256: '', status: 0 });
});

t.test('a slow reader holds generation back, and gets everything in the end', async (t) => {
  const host = await started(t);
  const tokens = 400_000;
  const socket = connect(host.port, '127.0.0.1');
  socket.pause();
  const body = JSON.stringify({ model: 'm', prompt: 'p', stream: true });
  socket.write(
    `POST /completion HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx-headrace-sim: tokens=${tokens}\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`,
  );
  const request = await host.nextRequest();
  let before = -1;
  // The kernel takes what it has room for; generation rests once two rounds of the loop bring nothing new.
  while (request.events !== before) {
    before = request.events;
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  t.ok(before > 0 && before < tokens, `rests after ${before} of ${tokens} events`);
  let frames = 0;
  const gone = new Promise((resolve) => socket.on('close', resolve));
  socket.on('data', (chunk) => (frames += chunk.toString('latin1').split('data: ').length - 1));
  socket.resume();
  await request.whenClosed();
  t.match(request, { finished: true, events: tokens + 1 });
  await gone;
  t.ok(frames > tokens * 0.99);
});

t.test('a client that reads nothing for two minutes is cut off', async (t) => {
  for (const stream of [true, false]) {
    const clock = createManualClock();
    const host = await started(t, { clock, timeToFirstTokenMs: 0, interTokenMs: 0 });
    const socket = connect(host.port, '127.0.0.1');
    socket.pause();
    const body = JSON.stringify({ prompt: 'p'.repeat(stream ? 1 : 20_000_000), stream });
    socket.write(
      `POST /completion HTTP/1.1\r\nhost: h\r\nx-headrace-sim: tokens=${stream ? 400_000 : 1}\r\n` +
        `content-length: ${body.length}\r\n\r\n${body}`,
    );
    const request = await host.nextRequest();
    while (clock.nextDueMs === Infinity) await new Promise((resolve) => setImmediate(resolve));
    const closed = request.whenClosed();
    clock.advance(30_000);
    t.equal(host.live, 1);
    for (let quarter = 0; quarter < 4; quarter++) clock.advance(30_000);
    await closed;
    t.match(request, { finished: false, status: 200 });
    t.equal(clock.nextDueMs, Infinity);
    socket.destroy();
  }
});

t.test('a request line may have the whole URL', async (t) => {
  const host = await started(t);
  for (const target of ['http://model.example:9001/health?a=b', 'HTTP://model.example/health']) {
    const socket = connect(host.port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString()));
    const gone = new Promise((resolve) => socket.on('close', resolve));
    socket.write(`GET ${target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n`);
    await gone;
    t.match(text, /^HTTP\/1.1 200 /, target);
  }
  t.match(host.requests, [
    { path: '/health', query: '?a=b' },
    { path: '/health', query: '' },
  ]);
});

t.test('a body that stops to come is answered 408', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock });
  const socket = connect(host.port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => (text += chunk.toString()));
  const gone = new Promise((resolve) => socket.on('close', resolve));
  socket.write('POST /completion HTTP/1.1\r\nhost: h\r\ncontent-length: 1000\r\n\r\n{"half');
  while (clock.nextDueMs === Infinity) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(30_000);
  await gone;
  t.match(text, /^HTTP\/1.1 408 /);
  t.match(text, /nothing of the body came for 30 s/);
  t.equal(clock.nextDueMs, Infinity);
});

t.test('pipelined requests are answered in order, also when the second answer is ready first', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock });
  const socket = connect(host.port, '127.0.0.1');
  const one = (prompt: string, sim: string): string => {
    const body = JSON.stringify({ prompt, stream: true });
    return `POST /completion HTTP/1.1\r\nhost: h\r\nx-headrace-sim: ${sim}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  };
  let text = '';
  const both = new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      text += chunk.toString();
      if (text.split('\r\n0\r\n\r\n').length === 3) resolve();
    });
  });
  socket.write(one('first', 'ttft=10') + one('second', 'ttft=0'));
  await host.nextRequest();
  const second = await host.nextRequest();
  t.equal(second.events, 17);
  t.equal(text, '');
  clock.advance(10);
  await both;
  const prompts = [...text.matchAll(/"prompt":"(\w+)"/g)].map((match) => match[1]);
  t.same(prompts, ['first', 'second']);
  socket.destroy();
});

t.test('a body above the limit is answered 413', async (t) => {
  const host = await started(t, { maxBodyBytes: 20 });
  t.equal((await post(host, '/completion', `{"prompt":"${'x'.repeat(7)}"}`)).status, 200);
  const refused = await post(host, '/completion', `{"prompt":"${'x'.repeat(8)}"}`);
  t.equal(refused.status, 413);
  t.match(await refused.json(), { error: { message: 'the body exceeds 20 bytes' } });
});

t.test('a body that is nested too deep is not parsed', async (t) => {
  const host = await started(t);
  const nested = (levels: number): string => `{"prompt":"x","y":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  t.equal((await post(host, '/completion', nested(256))).status, 200);
  for (const body of [nested(257), '['.repeat(1_000_000)]) t.equal((await post(host, '/completion', body)).status, 400);
});

t.test('a body of too many values is not parsed', async (t) => {
  const host = await started(t);
  const listing = (values: number): string => `{"prompt":"x","y":[${'0,'.repeat(values - 5)}0]}`;
  t.equal((await post(host, '/completion', listing(2_000_000))).status, 200);
  const refused = await post(host, '/completion', listing(2_000_001));
  t.equal(refused.status, 413);
  t.match(await refused.json(), { error: { message: 'the body has more than 2000000 values' } });
});

t.test('keys may come from anybody: no more is read of them than they may have, and nothing is parsed', async (t) => {
  const taken: number[] = [];
  const guard: KeyGuard = {
    ready: true,
    maxBodyBytes: 1000,
    check: () => ({ kind: 'bad' }) as never,
    health: () => ({}),
    answer(_method, body) {
      taken.push(body.byteLength);
      return { status: 200, headers: {}, body: {} };
    },
  };
  const host = await started(t, { guard });
  t.equal((await post(host, '/svc/keys', '[')).status, 200, 'what it holds is for the guard to judge');
  t.equal((await post(host, '/svc/keys', '['.repeat(1001))).status, 413);
  t.same(taken, [1]);
});

t.test('a plan applies by rule, and a header wins over it', async (t) => {
  const host = await started(t);
  await host.setFault([{ match: { path: '/health' }, times: 1, fault: { status: 500 } }, { fault: { status: 502 } }]);
  t.equal((await fetch(`${host.url}/health`)).status, 500);
  t.equal((await fetch(`${host.url}/health`)).status, 200);
  t.equal((await post(host, '/completion', {})).status, 502);
  t.equal((await post(host, '/completion', {}, { 'x-headrace-fault': 'status=418' })).status, 418);
  await host.setFault(null);
  t.equal((await post(host, '/completion', {})).status, 200);
});

t.test('a plan that refuses closes the listening socket until the next plan', async (t) => {
  const host = await started(t, await ownAddress());
  const { port } = host;
  t.equal((await fetch(`${host.url}/health`)).status, 200);
  await host.setFault([{ fault: { refuse: true } }]);
  const error = await fetch(`${host.url}/health`).then(
    () => undefined,
    (reason: Error) => reason,
  );
  t.match(error?.cause, { code: 'ECONNREFUSED' });
  await host.setFault(null);
  t.equal(host.port, port);
  t.equal((await fetch(`${host.url}/health`)).status, 200);
});

t.test('a plan that refuses holds from the start, and the port stays known', async (t) => {
  const host = createHost({ models: ['m'], ...(await ownAddress()) });
  t.teardown(() => host.kill());
  await host.setFault([{ fault: { refuse: true } }]);
  const url = await host.listen();
  await t.rejects(fetch(url));
  await host.setFault(null);
  t.equal((await fetch(`${url}/health`)).status, 200);
});

t.test('a client that leaves before slow headers gets no answer made', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock });
  const leave = new AbortController();
  const answer = fetch(`${host.url}/completion`, {
    method: 'POST',
    body: '{}',
    headers: { 'x-headrace-fault': 'slow-headers=50' },
    signal: leave.signal,
  });
  const request = await host.nextRequest();
  leave.abort();
  await Promise.all([t.rejects(answer), request.whenAborted()]);
  clock.advance(50);
  t.equal(request.status, 0);
});

t.test('the plan is set over HTTP only where control is on', async (t) => {
  const [open, shut] = await Promise.all([started(t, { control: true }), started(t)]);
  t.equal((await post(shut!, '/sim/faults', '[]')).status, 404);
  const bad = await post(open!, '/sim/faults', '[{"fault":"explode"}]');
  t.equal(bad.status, 400);
  t.match(await bad.json(), { error: { message: /rule 0: unknown fault 'explode'/ } });
  t.equal((await post(open!, '/sim/faults', 'nonsense')).status, 400);
  t.equal((await post(open!, '/sim/faults', '[{"fault":"status=503"}]')).status, 200);
  t.equal((await post(open!, '/completion', {})).status, 503);
  t.equal((await post(open!, '/sim/faults', 'null')).status, 200, 'the plan does not meet its own control');
  t.equal((await post(open!, '/completion', {})).status, 200);
});

t.test('close lets streams end, cuts what a fault holds, and refuses what comes after', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { clock, timeToFirstTokenMs: 10, interTokenMs: 10 });
  const streaming = post(host, '/completion', { n_predict: 3, stream: true });
  await host.nextRequest();
  const hanging = post(host, '/completion', {}, { 'x-headrace-fault': 'hang' }).then(
    () => 'answered',
    () => 'cut',
  );
  await host.nextRequest();
  const closed = host.close();
  t.equal(await hanging, 'cut');
  t.equal(host.live, 1);
  clock.advance(100);
  clock.advance(100);
  clock.advance(100);
  const text = await (await streaming).text();
  t.match(text, /"stop":true/);
  await closed;
  await t.rejects(fetch(host.url));
});

t.test('close cuts what a fault holds later, too', async (t) => {
  const clock = createManualClock();
  const host = createHost({ models: ['m'], clock, timeToFirstTokenMs: 10, interTokenMs: 10 });
  await host.listen();
  const fault = { 'x-headrace-fault': 'stall-after=2' };
  const texts = [true, false].map((stream) =>
    post(host, '/v1/completions', { model: 'm', prompt: 'a', stream }, fault).then((response) => response.text()),
  );
  const cut = Promise.all(texts.map((text) => t.rejects(text)));
  await host.nextRequest();
  await host.nextRequest();
  const closed = host.close();
  for (let step = 0; step < 30; step++) await clock.advance(10);
  await closed;
  await cut;
  t.same(
    host.requests.map(({ aborted, finished }) => [aborted, finished]),
    [
      [false, false],
      [false, false],
    ],
  );
});

t.test('kill closes every socket at once, and the host can come back on its port', async (t) => {
  const clock = createManualClock();
  const host = await started(t, { ...(await ownAddress()), clock, timeToFirstTokenMs: 10, interTokenMs: 10 });
  const { url } = host;
  const streaming = post(host, '/completion', { n_predict: 30, stream: true });
  const request = await host.nextRequest();
  clock.advance(10);
  const reading = (await streaming).text();
  await Promise.all([t.rejects(reading), host.kill()]);
  t.match(request, { finished: false, aborted: false });
  t.equal(host.live, 0);
  await t.rejects(fetch(url));
  t.equal(await host.listen(), url);
  t.equal((await fetch(`${url}/health`)).status, 200);
});
