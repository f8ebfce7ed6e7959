// Responses that run in the background: polled, streamed and resumed, cancelled, charged, and read by the official client.

import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import OpenAI from 'openai';
import t from 'tap';
import { eventsIn, firstEvents, running, statusOf, untilStatus } from '../support/background.ts';
import { json } from '../support/fake-engine.ts';
import { bearer, endow, priceOf, startLedgerFixture, usageOf, USD } from '../support/ledger-fixture.ts';
import { startResponseCrn } from '../support/response-crn.ts';
import { call, create, idOf, inputOf, settingsOf, startGateway } from '../support/response-gateway.ts';
import { chatAnswer, startScriptedChat } from '../support/scripted-chat.ts';
import { serving } from '../support/serving.ts';
import { MODEL, until } from '../support/system.ts';

t.test('a background response is answered at once, runs on, and is polled', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  crn.hold();
  const queued = await create(url, { input: 'one', background: true, instructions: 'be brief', temperature: 0.5 });
  t.equal(queued.status, 200);
  t.match(queued.json, {
    ...{ object: 'response', status: 'queued', background: true, output: [], error: null, model: MODEL },
    ...{ instructions: 'be brief', temperature: 0.5, usage: null, previous_response_id: null },
  });
  const id = idOf(queued);
  await crn.held(1);
  t.same([crn.requests[0]?.['background'], crn.requests[0]?.['stream']], [undefined, true], 'the CRN streams');
  const half = await untilStatus(url, id, 'in_progress');
  t.match(half.json, { id, background: true, output: [] });
  t.match(await create(url, { input: 'two', previous_response_id: id }), { status: 400, text: /has not ended yet/ });
  t.match(await call(url, `/v1/responses/${id}?stream=true`), { status: 400, text: /has no events/ });
  crn.release();
  const done = await untilStatus(url, id, 'completed');
  t.match(done.json, {
    id,
    background: true,
    output: [{ content: [{ text: 'answer 1' }] }],
    usage: { output_tokens: 3 },
  });
  t.equal((await create(url, { input: 'two', previous_response_id: id })).status, 200);
  t.same(inputOf(crn), ['one', 'answer 1', 'two'], 'and is continued');
  t.equal((await call(url, `/v1/responses/${id}`, {}, 'hr_two')).status, 404);
  const items = await call(url, `/v1/responses/${id}/input_items`);
  t.match(items.json['data'], [{ role: 'user', content: [{ type: 'input_text', text: 'one' }] }]);
});

t.test('a background response goes on from another one', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const first = idOf(await create(url, { input: 'one' }));
  const second = idOf(await create(url, { input: 'two', background: true, previous_response_id: first }));
  t.match((await untilStatus(url, second, 'completed')).json, { previous_response_id: first });
  t.same(inputOf(crn), ['one', 'answer 1', 'two']);
});

t.test('a background response has ended for the request that follows the end of its stream', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  for (const round of [1, 2, 3, 4]) {
    const id = idOf(await create(url, { input: 'one', background: true, stream: true }));
    const found = round % 2 === 0 ? await call(url, `/v1/responses/${id}`) : null;
    if (found !== null) t.match(found.json, { status: 'completed' });
    else t.match(await create(url, { input: 'two', previous_response_id: id }), { status: 200 });
  }
});

t.test('what is refused is refused at once', async (t) => {
  const { id, url } = await running(t, { responses: { backgroundPerAccount: 1, background: 2 } });
  const second = await create(url, { input: 'x', background: true });
  t.match([second.status, second.headers.get('x-headrace-error')], [429, 'HR_RESPONSE_BACKGROUND']);
  t.match(second.text, /those of this account/);
  t.equal((await create(url, { input: 'x', background: true }, 'hr_two')).status, 200, 'another account has its own');
  const unknown = await create(url, { input: 'x', background: true, previous_response_id: 'resp_nobody' });
  t.match([unknown.status, unknown.headers.get('x-headrace-error')], [404, 'HR_RESPONSE_UNKNOWN']);
  t.equal((await create(url, { input: 'x', background: true }, 'wrong')).status, 401);
  t.equal((await create(url, { input: 'x', background: true, model: 'nothing' })).status, 404);
  const unstored = await create(url, { input: 'x', background: true, store: false });
  t.match([unstored.status, unstored.text], [422, /background is not possible: store is false/]);
  t.equal(await statusOf(url, id), 'in_progress');
});

t.test('an error answer ends the response as failed, with its code', async (t) => {
  const chat = await startScriptedChat(t);
  chat.play(json({ error: { message: 'No such image', type: 'invalid_request_error', code: 'invalid_image' } }, 400));
  const models = { [MODEL]: { servers: ['http://127.0.0.1:1'] }, refusing: { servers: [chat.url] } };
  const { url } = await startGateway(t, settingsOf([], { models }));
  const failure = async (model: string): Promise<unknown> => {
    const id = idOf(await create(url, { model, input: 'one', background: true }));
    return (await untilStatus(url, id, 'failed')).json['error'];
  };
  t.match(await failure(MODEL), { code: 'HR_ROUTE_ALL_FAILED', message: /All servers unavailable/ });
  t.same(await failure('refusing'), { code: 'invalid_image', message: 'No such image' });
});

for (const stream of [false, true]) {
  t.test(`a cancel stops the work, ${stream ? 'streamed' : 'polled'}`, async (t) => {
    const { crn, id, url } = await running(t, {}, stream);
    t.equal((await call(url, `/v1/responses/${id}/cancel`, { method: 'POST' }, 'hr_two')).status, 404);
    const cancelled = await call(url, `/v1/responses/${id}/cancel`, { method: 'POST' });
    t.match(cancelled, { status: 200, json: { id, status: 'cancelled' } });
    await until('the CRN is left', () => crn.left() === 1);
    crn.release();
    t.equal(await statusOf(url, id), 'cancelled');
    t.match(await call(url, `/v1/responses/${id}/cancel`, { method: 'POST' }), { json: { status: 'cancelled' } });
    t.equal((await call(url, `/v1/responses/${id}`, { method: 'DELETE' })).status, 200);
  });
}

t.test('a response that is deleted while it runs stops', async (t) => {
  const { crn, id, url } = await running(t);
  t.equal((await call(url, `/v1/responses/${id}`, { method: 'DELETE' })).status, 200);
  await until('the CRN is left', () => crn.left() === 1);
  t.equal((await call(url, `/v1/responses/${id}`)).status, 404);
});

t.test('a background stream is left, resumed and replayed', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  crn.hold();
  const body = JSON.stringify({ model: MODEL, input: 'one', background: true, stream: true });
  const begun = await firstEvents(url, '/v1/responses', 5, { method: 'POST', body });
  t.same(
    begun.map(({ type }) => type),
    [
      'response.created',
      'response.queued',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
    ],
  );
  const id = begun[0]?.response?.id ?? '';
  t.same(begun[2]?.response?.id, id);
  t.same(
    begun.map((event) => event.sequence_number),
    [0, 1, 2, 3, 4],
  );
  const path = `/v1/responses/${id}?stream=true`;
  t.equal((await firstEvents(url, `${path}&starting_after=4`, 1))[0]?.sequence_number, 5, 'what is kept so far');
  const follows = call(url, `${path}&starting_after=2`);
  crn.release();
  const rest = eventsIn((await follows).text);
  t.same(
    rest.map((event) => event.sequence_number),
    rest.map((_, at) => at + 3),
    'without a gap, to the end',
  );
  t.match(rest.at(-1), { type: 'response.completed', response: { id, status: 'completed' } });
  const all = eventsIn((await call(url, path)).text);
  t.same(all, [...begun.slice(0, 3), ...rest], 'the same again, of what is stored');
  t.same(eventsIn((await call(url, `${path}&starting_after=${all.length - 1}`)).text), []);
  for (const after of ['', '%20', 'x', '1e300', '1.5', '-2', '99999999999999999999'])
    t.equal((await call(url, `${path}&starting_after=${after}`)).status, 422);
  t.same(eventsIn((await call(url, path.replace('stream=true', 'stream=True'))).text), all, 'as Python writes it');
  t.equal((await call(url, path.replace('stream=true', 'stream=maybe'))).status, 422);
  t.equal((await call(url, path, {}, 'hr_two')).status, 404);
});

t.test('events beyond the bound are not kept, but for the last one', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn], { responses: { maxBytes: '3KiB' } }));
  const live = await create(url, { input: 'one', background: true, stream: true });
  const id = idOf(live);
  t.equal(eventsIn(live.text).length, 11, 'who follows from the beginning gets all');
  await untilStatus(url, id, 'completed');
  const kept = eventsIn((await call(url, `/v1/responses/${id}?stream=true`)).text);
  t.ok(kept.length < 11, `${kept.length} are kept`);
  t.equal(kept.at(-1)?.type, 'response.completed');
  t.equal(kept.at(-1)?.sequence_number, 10);
});

t.test('a response of a server without streams ends as its status says', async (t) => {
  const chat = await startScriptedChat(t);
  const models = { [MODEL]: { servers: [{ url: chat.url, dialects: ['chat'] as const }] } };
  const { url } = await startGateway(t, settingsOf([], { models }));
  for (const [reason, status] of [
    ['length', 'incomplete'],
    ['stop', 'completed'],
  ] as const) {
    chat.play(chatAnswer({ content: 'half' }, { finish_reason: reason }));
    const stream = await create(url, { input: 'one', background: true, stream: true });
    t.match(eventsIn(stream.text).at(-1), { type: `response.${status}` });
    t.match(await call(url, `/v1/responses/${idOf(stream)}`), { json: { status } });
  }
});

t.test('a response beyond the bound fails, and says so, whether its last event comes whole or in parts', async (t) => {
  const crn = await startResponseCrn(t);
  for (const heldEventBytes of ['1MiB', '16KiB']) {
    const settings = settingsOf([crn], { responses: { maxBytes: '64KiB' }, limits: { heldEventBytes } });
    const { url } = await startGateway(t, settings);
    for (const stream of [false, true]) {
      const id = idOf(await create(url, { input: 'long 2000', background: true, stream }));
      const { json } = await untilStatus(url, id, 'failed');
      t.match(json['error'], { code: 'response_too_large' }, `${heldEventBytes}, ${stream ? 'streamed' : 'polled'}`);
    }
  }
});

t.test('a client that reads slowly delays nothing, and gets every event', async (t) => {
  const crn = await startResponseCrn(t);
  const { gateway, url } = await startGateway(t, settingsOf([crn]));
  const { pathname, port } = new URL(`${url}/v1/responses`);
  const body = JSON.stringify({ model: MODEL, input: `long ${3000}`, background: true, stream: true });
  const socket = connect(Number(port), '127.0.0.1');
  socket.pause();
  socket.write(
    `POST ${pathname} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hr_one\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
  await until('it has ended', async () => {
    const metrics = await gateway.inject({ path: '/health' });
    return metrics.status === 200 && crn.requests.length === 1 && crn.done() === 1;
  });
  let text = '';
  socket.on('data', (piece: Buffer) => (text += piece.toString()));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.resume();
  await closed;
  const numbers = [...text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
  t.ok(numbers.length > 3000, `${numbers.length} events`);
  t.same(
    numbers,
    numbers.map((_, at) => at),
  );
  t.match(text, /event: response\.completed/);
});

t.test('the official client creates, polls, resumes and cancels', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const client = new OpenAI({ apiKey: 'hr_one', baseURL: `${url}/v1`, maxRetries: 0 });
  let response = await client.responses.create({ model: MODEL, input: 'one', background: true });
  t.equal(response.status, 'queued');
  await until('it is completed', async () => {
    response = await client.responses.retrieve(response.id);
    return response.status === 'completed';
  });
  t.equal(response.output_text, 'answer 1');
  t.equal((await client.responses.inputItems.list(response.id)).data.length, 1);

  crn.hold();
  const stream = await client.responses.create({ model: MODEL, input: 'two', background: true, stream: true });
  let last = -1;
  let id = '';
  for await (const event of stream) {
    last = event.sequence_number;
    if (event.type === 'response.created') id = event.response.id;
    if (event.type === 'response.output_text.delta') break;
  }
  crn.release();
  const types: string[] = [];
  const resumed = await client.responses.retrieve(id, { stream: true, starting_after: last });
  for await (const event of resumed) {
    t.equal(event.sequence_number, ++last);
    types.push(event.type);
  }
  t.equal(types.at(-1), 'response.completed');
  const whole = client.responses.stream({ response_id: id, starting_after: -1 });
  t.equal((await whole.finalResponse()).output_text, 'answer 2');

  crn.hold();
  const third = await client.responses.create({ model: MODEL, input: 'three', background: true });
  await crn.held(1);
  t.equal((await client.responses.cancel(third.id)).status, 'cancelled');
  await client.responses.delete(third.id);
  const gone: unknown = await client.responses.retrieve(third.id).catch((error: unknown) => error);
  t.match(gone, { status: 404 });
});

t.test('a response ends as its server says, in whichever form', async (t) => {
  let end = '';
  const server = await serving(t, (request, response) => {
    request.resume();
    if (request.method !== 'POST') {
      response.end('{}');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"type":"response.output_text.delta","delta":"a"}\n\n');
    response.end(`${end}\n\n`);
  });
  const { url } = await startGateway(t, settingsOf([], { models: { [MODEL]: { servers: [server] } } }));
  const said = { code: 'out_of_memory', message: 'The device has no memory left' };
  const typed = { type: 'error', ...said };
  for (end of [
    `event: error\ndata: ${JSON.stringify(typed)}`,
    `data: ${JSON.stringify({ type: 'error', error: said })}`,
    `event: error\ndata: ${JSON.stringify(said)}`,
    `event: error\ndata: ${JSON.stringify({ error: said })}`,
    `data: ${JSON.stringify({ error: said })}`,
  ]) {
    const stream = await create(url, { input: 'x', background: true, stream: true });
    t.match(stream.text, /^event: error\n/m, end);
    const { json } = await untilStatus(url, idOf(stream), 'failed');
    t.same(json['error'], said, end);
  }
  const unended = { id: 'r', object: 'response', status: 'in_progress', output: [] };
  for (const status of ['completed', 'failed']) {
    end = `data: ${JSON.stringify({ type: `response.${status}`, response: unended })}`;
    await untilStatus(url, idOf(await create(url, { input: 'x', background: true })), status);
  }
});

t.test('events have one line of data each, as the request or the server may not have them', async (t) => {
  const server = createServer((request, response) => {
    request.resume();
    if (request.method !== 'POST') {
      response.end('{}');
      return;
    }
    const own = { id: 'resp_1', object: 'response', model: MODEL, output: [], usage: null };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('event: x.lines\ndata: {"type":"x.lines",\ndata: "a":1}\n\n');
    response.write(': a comment\nevent: x.commented\ndata: {"type":"x.commented"}\n\n');
    const ended = { type: 'response.completed', response: { ...own, status: 'completed' } };
    response.end(`: a comment\nevent: ${ended.type}\ndata: ${JSON.stringify(ended)}\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const servers = [`http://127.0.0.1:${port}`];
  const { url } = await startGateway(t, settingsOf([], { models: { [MODEL]: { servers } } }));
  const ask = { model: MODEL, input: 'x', background: true, stream: true, metadata: { a: 'b' } };
  const { text } = await call(url, '/v1/responses', { method: 'POST', body: JSON.stringify(ask, null, 2) });
  t.same(
    eventsIn(text).map(({ type }) => type),
    ['response.created', 'response.queued', 'x.lines', 'x.commented', 'response.completed'],
  );
});

t.test('a background request may be encoded', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const headers = {
    ...{ authorization: 'Bearer hr_one', 'content-type': 'application/json', 'content-encoding': 'gzip' },
  };
  const body = gzipSync(JSON.stringify({ model: MODEL, input: 'one', background: true }));
  const created = await call(url, '/v1/responses', { method: 'POST', headers, body });
  t.match(created.json, { status: 'queued' });
  await untilStatus(url, idOf(created), 'completed');
  t.same(inputOf(crn), ['one']);
});

t.test('a response that a server alone has is not continued in the background', async (t) => {
  const { ledger, url } = await startLedgerFixture(t, { settings: { threads: 0 } });
  await endow(ledger, USD);
  const headers = { ...bearer(), 'content-type': 'application/json' };
  await until('the key is known', async () => (await fetch(`${url}/svc/auth/check`, { headers })).status === 200);
  const ask = (more: object): ReturnType<typeof call> => {
    const body = JSON.stringify({ model: MODEL, input: 'Hello?', max_output_tokens: 4, ...more });
    return call(url, '/v1/responses', { method: 'POST', headers, body });
  };
  const first = await ask({ store: false });
  const previous = { previous_response_id: idOf(first) };
  t.equal((await ask({ ...previous, store: false })).status, 200, 'it passes to that server');
  for (const stream of [false, true]) {
    const { headers: answered, status } = await ask({ ...previous, background: true, stream });
    t.match([status, answered.get('x-headrace-error')], [404, 'HR_RESPONSE_UNKNOWN']);
  }
});

t.test('a background response is held and charged like every other one', async (t) => {
  const { ledger, url } = await startLedgerFixture(t);
  await endow(ledger, USD);
  const ask = (path: string, body?: object): Promise<Response> =>
    fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...bearer(), 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  await until('the key is known', async () => (await ask('/svc/auth/check')).status === 200);
  const body = { model: MODEL, input: 'Where does the water go?', max_output_tokens: 8, background: true };
  const created = (await (await ask('/v1/responses', body)).json()) as { id: string; status: string };
  t.equal(created.status, 'queued');
  let done: { status?: string; usage?: { input_tokens: number; output_tokens: number } } = {};
  await until('it has ended', async () => {
    done = (await (await ask(`/v1/responses/${created.id}`)).json()) as typeof done;
    return done.status !== 'queued' && done.status !== 'in_progress';
  });
  const used = await usageOf(ledger, 1);
  t.equal(used.amount, priceOf(done.usage?.input_tokens ?? 0, 0, done.usage?.output_tokens ?? 0));
  t.equal(Number(used.outputTokens), done.usage?.output_tokens);
  await endow(ledger, 0n, {}, 'poor');
  const check = { headers: bearer('hr_poor') };
  await until('the other key is known', async () => (await fetch(`${url}/svc/auth/check`, check)).status === 200);
  const poor = await fetch(`${url}/v1/responses`, {
    ...{ method: 'POST', headers: { ...bearer('hr_poor'), 'content-type': 'application/json' } },
    body: JSON.stringify(body),
  });
  t.equal(poor.status, 402, 'without credit it does not begin');
});
