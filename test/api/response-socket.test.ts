// GET /v1/responses as a WebSocket: responses one after another, continued from memory, errors as messages, limits, drain, and clients
// that are slow or go away.

import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import type { Host, HostRequest } from '../../src/host/index.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { startResponseCrn } from '../support/response-crn.ts';
import { create, idOf, inputOf, settingsOf, startGateway } from '../support/response-gateway.ts';
import { serving } from '../support/serving.ts';
import { KEY, MODEL, settingsFor, startHosts, startSystem, type System, until, within } from '../support/system.ts';
import { WITH_UWS } from '../support/uws.ts';

interface Frame {
  readonly type: string;
  readonly status?: number;
  readonly error?: { readonly code?: string; readonly message?: string; readonly type?: string };
  readonly headers?: Readonly<Record<string, string>>;
  readonly sequence_number?: number;
  readonly delta?: string;
  readonly stream_id?: string;
  readonly response?: {
    readonly id: string;
    readonly status: string;
    readonly output: readonly unknown[];
    readonly previous_response_id?: string | null;
    readonly usage?: { readonly input_tokens: number };
  };
}

const BACKGROUND = '{"type":"response.create","background":true,"input":"x"}';

const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);

/** A client that keeps what it gets. */
class Client {
  readonly socket: WebSocket;
  readonly frames: Frame[] = [];
  closed: { readonly code: number; readonly reason: string } | null = null;
  #read = 0;

  constructor(
    url: string,
    headers: Readonly<Record<string, string>> = { authorization: `Bearer ${KEY}` },
    protocolVersion: number = 13,
  ) {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers, protocolVersion });
    this.socket.on('message', (data: Buffer) => this.frames.push(JSON.parse(data.toString()) as Frame));
    this.socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
    this.socket.on('error', () => undefined);
  }

  static async open(t: Test, url: string, headers?: Readonly<Record<string, string>>): Promise<Client> {
    const client = new Client(url, headers);
    t.teardown(() => client.socket.terminate());
    await within('the socket to open', once(client.socket, 'open'));
    return client;
  }

  create(request: object): void {
    this.socket.send(JSON.stringify({ type: 'response.create', model: MODEL, max_output_tokens: 6, ...request }));
  }

  /** The messages up to the next end of a response. */
  async response(): Promise<readonly Frame[]> {
    const end = (): number => this.frames.findIndex(({ type }, at) => at >= this.#read && ENDS.has(type));
    await until('the end of a response', () => end() >= 0);
    const from = this.#read;
    this.#read = end() + 1;
    return this.frames.slice(from, this.#read);
  }

  /** The last message of the next response. */
  async end(): Promise<Frame> {
    return (await this.response()).at(-1) as Frame;
  }
}

function posts({ requests }: Host): readonly HostRequest[] {
  return requests.filter(({ method }) => method === 'POST');
}

function inFlight({ host }: System): number {
  return host.live;
}

t.test('responses come as messages, one after another on one socket', async (t) => {
  const { url } = await startSystem(t);
  const client = await Client.open(t, url);
  for (const input of ['Where does the water go?', [{ type: 'message', role: 'user', content: 'And back?' }]]) {
    client.create({ input, store: false });
    const frames = await client.response();
    t.equal(frames[0]?.type, 'response.created');
    t.equal(frames.at(-1)?.response?.status === 'completed' || frames.at(-1)?.type === 'response.incomplete', true);
    t.ok(frames.some(({ type }) => type === 'response.output_text.delta'));
    t.strictSame(
      frames.map(({ sequence_number: number }) => number),
      frames.map((_, at) => at),
      'every event is a message',
    );
  }
});

t.test('a response is continued on its socket without being stored', async (t) => {
  const { url } = await startSystem(t, { settings: { threads: 0 } });
  const client = await Client.open(t, url);
  client.create({ input: 'Where does the water go?', store: false });
  const first = await client.end();
  client.create({ input: 'And then?', previous_response_id: first.response?.id, store: false });
  const second = await client.end();
  t.match(second.response, { id: /^resp/ });
  const [before = 0, after = 0] = [first, second].map(({ response }) => response?.usage?.input_tokens);
  t.ok(after > before + 6, 'the earlier input and output are in the prompt');
});

t.test('a translated answer on a socket names the response that it continues', async (t) => {
  const [host] = await startHosts(t);
  const models = { [MODEL]: { servers: [{ url: host?.url ?? '', dialects: ['chat'] as const }] } };
  const gateway = createGateway(settingsFor([], { models }));
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  const client = await Client.open(t, url);
  client.create({ input: 'Where does the water go?', store: false });
  const { response: first } = await client.end();
  client.create({ input: 'And then?', previous_response_id: first?.id, store: false });
  t.match(await client.end(), { response: { previous_response_id: first?.id } });
});

t.test('an id that nobody knows is an error message, and the socket stays open', async (t) => {
  const { url } = await startSystem(t);
  const client = await Client.open(t, url);
  client.create({ input: 'And then?', previous_response_id: 'resp_nobodys', store: false });
  t.match(await client.end(), { type: 'error', status: 404, error: { code: 'HR_RESPONSE_UNKNOWN' } });
  client.create({ input: 'Hello?', store: false });
  t.match(await client.end(), { response: { id: /./ } });
});

t.test('a stored response is continued by the store, and one that is not by its socket', async (t) => {
  const { url } = await startSystem(t);
  const client = await Client.open(t, url);
  const tokens: number[] = [];
  let previous: string | undefined;
  for (const store of [true, true, false, false]) {
    client.create({ input: 'Where does the water go?', previous_response_id: previous, store });
    const { response } = await client.end();
    previous = response?.id;
    tokens.push(response?.usage?.input_tokens ?? 0);
    const found = await fetch(`${url}/v1/responses/${previous}`, { headers: { authorization: `Bearer ${KEY}` } });
    t.equal(found.status, store ? 200 : 404);
  }
  t.strictSame(
    tokens,
    tokens.toSorted((a, b) => a - b),
    'each has all before it in its prompt',
  );
  t.equal(new Set(tokens).size, tokens.length);
});

t.test('what was said before the socket opened is in each response that goes on from it', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const before = idOf(await create(url, { input: 'one' }));
  const client = await Client.open(t, url, { authorization: 'Bearer hr_one' });
  let previous: string | undefined = before;
  for (const [input, store] of [
    ['two', false],
    ['three', false],
    ['four', true],
    ['five', false],
  ] as const) {
    client.create({ input, previous_response_id: previous, store });
    previous = (await client.end()).response?.id;
  }
  const conversation = ['one', 'answer 1', 'two', 'answer 2', 'three', 'answer 3', 'four', 'answer 4', 'five'];
  t.same(inputOf(crn), conversation);
  client.create({ input: 'warm', previous_response_id: previous, generate: false });
  const { response } = await client.end();
  client.create({ input: 'six', previous_response_id: response?.id });
  await client.end();
  t.same(inputOf(crn), [...conversation, 'answer 5', 'warm', 'six']);
});

t.test('a warm-up answers with an id that the next response goes on from', async (t) => {
  const { host, url } = await startSystem(t, { settings: { threads: 0 } });
  const client = await Client.open(t, url);
  client.create({ input: 'You are a river.', instructions: 'Be brief.', generate: false });
  const warm = await client.response();
  for (const { response } of warm) {
    t.match(response, { model: MODEL, instructions: 'Be brief.', tools: [], tool_choice: 'auto', metadata: {} });
  }
  t.strictSame(
    warm.map(({ type }) => type),
    ['response.created', 'response.completed'],
  );
  client.create({ input: [], previous_response_id: warm[0]?.response?.id });
  const again = await client.end();
  t.equal(posts(host).length, 0, 'no server was asked');
  client.create({ input: 'Where to?', previous_response_id: again.response?.id, store: false });
  t.match(await client.end(), { response: { id: /./ } });
  client.create({ input: '', previous_response_id: 'resp_nobodys' });
  t.match(await client.end(), { type: 'error', status: 404, error: { code: 'HR_SOCKET_PREVIOUS' } });
});

t.test('what warm-ups keep is bounded as what responses keep', async (t) => {
  const { url } = await startSystem(t, { settings: { threads: 0, responses: { maxBytes: '8KiB' } } });
  const client = await Client.open(t, url);
  let previous: string | undefined;
  const warmUp = async (): Promise<Frame> => {
    client.create({ input: 'x'.repeat(3000), generate: false, previous_response_id: previous });
    return client.end();
  };
  for (let n = 0; n < 2; n++) previous = (await warmUp()).response?.id;
  t.match(await warmUp(), { type: 'error', status: 413, error: { code: 'HR_REQUEST_TOO_LARGE' } });
  client.create({ input: 'Where to?', previous_response_id: previous, store: false });
  t.match(await client.end(), { response: { id: /./ } }, 'the last one is kept');
});

t.test('what sockets keep counts as memory for bodies, and leaves half of it', async (t) => {
  const { url } = await startSystem(t, {
    settings: { threads: 0, limits: { bodyBytes: '512KiB', bufferedBytes: '512KiB', heldEventBytes: '64KiB' } },
  });
  const warmUp = async (): Promise<{ client: Client; frame: Frame }> => {
    const client = await Client.open(t, url);
    client.create({ input: 'x'.repeat(50_000), generate: false });
    return { client, frame: await client.end() };
  };
  const first = await warmUp();
  const second = await warmUp();
  t.same([first.frame.type, second.frame.type], ['response.completed', 'response.completed']);
  const { client, frame } = await warmUp();
  t.match(frame, { status: 503, headers: {}, error: { message: /memory/ } });
  client.create({ input: 'y'.repeat(100_000), store: false });
  const { response, type } = await client.end();
  t.match(type, /response\.(?:completed|incomplete)/, 'requests have the other half');
  client.create({ input: 'And then?', previous_response_id: response?.id, store: false });
  const next = await client.end();
  t.ok((next.response?.usage?.input_tokens ?? 0) < 1000, 'this one was not kept');

  for (const { client: each } of [first, second]) {
    each.socket.close();
    await once(each.socket, 'close');
  }
  await until('memory for another socket', async () => (await warmUp()).frame.type === 'response.completed');
});

t.test('messages behind a warm-up that is refused are served', async (t) => {
  const { url } = await startSystem(t);
  const client = await Client.open(t, url);
  client.create({ input: 'one', store: false });
  client.create({ input: 'two', generate: false, previous_response_id: 'resp_nobody' });
  client.create({ input: 'three', store: false });
  const ends = [await client.end(), await client.end(), await client.end()];
  t.match(ends[1], { type: 'error', error: { code: 'HR_SOCKET_PREVIOUS' } });
  t.match(ends[2]?.type, /response\.(?:completed|incomplete)/);
});

t.test('web pages of other origins open no socket', async (t) => {
  const { url } = await startSystem(t, { settings: { cors: { origins: ['https://ours.example'] } } });
  const from = (origin: string): Readonly<Record<string, string>> => ({ authorization: `Bearer ${KEY}`, origin });
  for (const origin of ['https://ours.example', url]) {
    const client = await Client.open(t, url, from(origin));
    client.create({ input: 'one' });
    t.match(await client.end(), { response: { id: /./ } });
  }
  for (const origin of ['https://theirs.example', 'null']) {
    const { socket } = new Client(url, from(origin));
    const [, response] = (await within('an answer', once(socket, 'unexpected-response'))) as [
      unknown,
      { statusCode: number; headers: Readonly<Record<string, string>>; resume(): void },
    ];
    response.resume();
    socket.terminate();
    t.match(response, { statusCode: 403, headers: { 'x-headrace-error': 'HR_SOCKET_ORIGIN' } });
  }
});

t.test('what is no request gets an error message, and the socket stays open', async (t) => {
  const { url } = await startSystem(t, { settings: { limits: { jsonValues: 1000 } } });
  const client = await Client.open(t, url);
  for (const message of ['no JSON', '[]', '{"type":"response.create"', '{"type":"ping"}', '{}', BACKGROUND]) {
    client.socket.send(message);
    t.match(await client.end(), { type: 'error', status: 400, error: { code: 'HR_SOCKET_MESSAGE' } }, message);
  }
  client.socket.send(Buffer.from('{"type":"response.create"}'), { binary: true });
  t.match(await client.end(), {
    type: 'error',
    status: 400,
    error: { message: /it is binary, and should be JSON as text/ },
  });
  client.socket.send(`{"type":"response.create","input":[${'[],'.repeat(1000)}[]]}`);
  t.match(await client.end(), {
    type: 'error',
    status: 400,
    error: { code: 'HR_SOCKET_MESSAGE', message: /it has more than 1000 values and keys/ },
  });
  client.socket.send('{"type":"response.create","input":"x"}');
  t.match(await client.end(), { type: 'error', status: 422, error: { message: 'body.model: Field required' } });
  for (const nowhere of ['{"type":"response.create"}', `{"type":"response.create","response":{"model":"${MODEL}"}}`]) {
    client.socket.send(nowhere);
    const refused = { type: 'error', status: 422, error: { message: 'body.model: Field required' } };
    t.match(await client.end(), refused, 'a warm-up is a request too');
  }
  client.create({ model: 'nobody', input: 'x' });
  t.match(await client.end(), { type: 'error', status: 404, error: { message: /nobody/ } });
  client.create({ input: 'Hello?' });
  t.match(await client.end(), { response: { id: /./ } });
});

t.test('messages wait for the response that runs, in their order and bounded', async (t) => {
  const { url } = await startSystem(t, { hosts: [{ timeToFirstTokenMs: 50 }] });
  const client = await Client.open(t, url);
  for (let i = 0; i < 18; i++) client.create({ input: `number ${i}`, stream_id: `lane ${i}`, max_output_tokens: 1 });
  const busy = { type: 'error', status: 429, error: { code: 'HR_SOCKET_BUSY' }, stream_id: 'lane 17' };
  t.match(await client.end(), busy, 'by the name of the message that is refused');
  for (let i = 0; i < 17; i++) {
    const frames = await client.response();
    t.ok(frames.every(({ stream_id: id }) => id === `lane ${i}`));
  }
});

t.test('an item of the last response that is referenced is there once', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const client = await Client.open(t, url, { authorization: 'Bearer hr_one' });
  for (const store of [true, false]) {
    client.create({ input: 'Where does the water go?', store });
    const { id, output = [] } = (await client.end()).response ?? {};
    const reference = { type: 'item_reference', id: (output[0] as { readonly id: string }).id };
    const next = { role: 'user', content: 'And then?' };
    client.create({ input: [reference, next], previous_response_id: id, store: false });
    await client.end();
    const answer = `answer ${crn.requests.length - 1}`;
    t.same(inputOf(crn), ['Where does the water go?', answer, 'And then?']);
  }
});

t.test('a response that is too long to be stored is continued from memory', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn], { responses: { maxBytes: '4KiB' } }));
  const client = await Client.open(t, url, { authorization: 'Bearer hr_one' });
  client.create({ input: 'one', instructions: 'x'.repeat(5000) });
  const first = await client.end();
  client.create({ input: 'two', previous_response_id: first.response?.id });
  t.match(await client.end(), { type: 'response.completed' });
  t.same(inputOf(crn), ['one', 'answer 1', 'two']);
});

t.test('a message does not overtake those that wait', async (t) => {
  const { url } = await startSystem(t, { settings: { threads: 0 } });
  const client = await Client.open(t, url);
  client.create({ input: 'x', stream_id: 'first' });
  for (let i = 0; i < 12; i++) client.create({ generate: false, stream_id: `lane ${i}` });
  const warm = (): Frame[] => client.frames.filter(({ response }) => response?.status === 'completed');
  client.socket.on('message', (data: Buffer) => {
    if (data.includes('"lane 0"') && data.includes('response.created'))
      client.create({ generate: false, stream_id: 'late' });
  });
  await until('the end of all', () => warm().some(({ stream_id: id }) => id === 'late') && warm().length >= 13);
  t.same(
    warm().flatMap(({ stream_id: id }) => (id === 'first' ? [] : [id])),
    [...Array.from({ length: 12 }, (_, at) => `lane ${at}`), 'late'],
  );
});

t.test('the official client reads responses and errors', async (t) => {
  const { url } = await startSystem(t);
  const openai = new OpenAI({ apiKey: KEY, baseURL: `${url}/v1` });
  const socket = new ResponsesWS(openai);
  t.teardown(() => socket.close());
  const create = async (model: string): Promise<string> => {
    socket.send({ type: 'response.create', model, input: 'Where does the water go?', max_output_tokens: 6 });
    let text = '';
    for await (const event of socket.stream()) {
      if (event.type === 'error') return event.error.message;
      if (event.type !== 'message') continue;
      if (event.message.type === 'response.output_text.delta') text += event.message.delta;
      if (event.message.type === 'response.incomplete' || event.message.type === 'response.completed') break;
    }
    return text;
  };
  const text = await within('a response', create(MODEL));
  t.equal(text.split(' ').length, 6);
  t.match(await within('an error', create('nobody')), /nobody/);
  t.equal(await within('another response', create(MODEL)), text);
});

t.test('handshakes are checked before the socket opens', async (t) => {
  const { url } = await startSystem(t);
  const opened = async (headers: Readonly<Record<string, string>>, version?: number): Promise<number> => {
    const client = new Client(url, headers, version);
    const [, response] = (await within('an answer', once(client.socket, 'unexpected-response'))) as [
      unknown,
      { statusCode: number; resume(): void },
    ];
    response.resume();
    client.socket.terminate();
    return response.statusCode;
  };
  t.equal(await opened({}), 401);
  t.equal(await opened({ authorization: 'Bearer hr_wrong' }), 401);
  const key = { authorization: `Bearer ${KEY}` };
  t.equal(await opened(key, 8), 426);
  t.equal((await fetch(`${url}/v1/responses`, { headers: key })).status, 405);
});

t.test('the uWebSockets.js server answers 426, so that clients fall back to POST', WITH_UWS, async (t) => {
  const hosts = await startHosts(t);
  const gateway = createGateway(settingsFor(hosts, { server: 'uws' }));
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  const client = new Client(url);
  const [, response] = (await once(client.socket, 'unexpected-response')) as [unknown, { statusCode: number }];
  t.equal(response.statusCode, 426);
  client.socket.terminate();
});

t.test('a message that is too large closes the socket with 1009', async (t) => {
  const { url } = await startSystem(t, { settings: { limits: { bodyBytes: '64KiB' } } });
  const client = await Client.open(t, url);
  client.create({ input: 'x'.repeat(100_000) });
  await until('the close', () => client.closed !== null);
  t.equal(client.closed?.code, 1009);
});

t.test('frames that break the protocol close the socket', async (t) => {
  const { url } = await startSystem(t);
  const { hostname, port } = new URL(url);
  const raw = connect(Number(port), hostname);
  t.teardown(() => raw.destroy());
  raw.write(
    `GET /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEY}\r\nconnection: keep-alive, Upgrade\r\n` +
      'upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );
  let bytes = Buffer.alloc(0);
  raw.on('data', (piece) => {
    bytes = Buffer.concat([bytes, piece]);
  });
  await until('the answer', () => bytes.includes('\r\n\r\n'));
  t.match(bytes.toString('latin1'), /^HTTP\/1\.1 101 /);
  t.match(bytes.toString('latin1'), /sec-websocket-accept: /i);
  t.match(bytes.toString('latin1'), /x-request-id: /);
  // Clients have to mask what they send (RFC 6455 §5.1).
  raw.write(Buffer.from([0x81, 0x02, 0x68, 0x69]));
  await within('the end', once(raw, 'close'));
  t.ok(bytes.includes(Buffer.from([0x03, 0xea])), 'closed with 1002');
});

t.test('the server is left as soon as the client has gone', async (t) => {
  const system = await startSystem(t, { hosts: [{ interTokenMs: 50 }] });
  const client = await Client.open(t, system.url);
  client.create({ input: 'Tell me all.', max_output_tokens: 2000 });
  await until('the first delta', () => client.frames.some(({ delta }) => delta !== undefined));
  t.equal(inFlight(system), 1);
  client.socket.terminate();
  await until('the server to be free', () => inFlight(system) === 0);
});

t.test('a client that does not read makes the server wait, and gets everything when it reads on', async (t) => {
  const { host, url } = await startSystem(t, { hosts: [{ interTokenMs: 0, naturalTokens: 200_000 }] });
  const client = await Client.open(t, url);
  client.socket.pause();
  client.create({ input: 'Tell me all.', max_output_tokens: 60_000 });
  await until('the server to run', () => host.live === 1);
  // All is generated at once; what is left when the buffers between are full waits at the server.
  await within('the client to be waited for', new Promise((resolve) => setTimeout(resolve, 500)));
  t.equal(host.live, 1);
  client.socket.resume();
  const frames = await client.response();
  t.strictSame(
    frames.map(({ sequence_number: number }) => number),
    frames.map((_, at) => at),
    'nothing is missing',
  );
});

t.test('a response that breaks off ends with an error', async (t) => {
  const { host, url } = await startSystem(t);
  await host.setFault([{ fault: { resetAfter: 2 } }]);
  const client = await Client.open(t, url);
  client.create({ input: 'Hello?' });
  const frames = await client.response();
  t.match(frames.at(-1), { type: /^(?:error|response\.failed)$/ });
});

t.test('a message has the type of its event where only the name of that says it', async (t) => {
  let end = '';
  const server = await serving(t, (request, response) => {
    request.resume();
    const begun = 'data: {"type":"response.output_text.delta","delta":"a"}\n\n';
    if (request.method === 'POST') response.writeHead(200, { 'content-type': 'text/event-stream' }).write(begun);
    response.end(`${end}\n\n`);
  });
  const { url } = await startGateway(t, settingsOf([], { models: { [MODEL]: { servers: [server] } } }));
  const client = await Client.open(t, url, { authorization: 'Bearer hr_one' });
  const error = { code: 'out_of_memory', message: 'The device has no memory left' };
  for (end of [`event: error\ndata: ${JSON.stringify({ error })}`, `data: ${JSON.stringify({ error })}`]) {
    client.create({ input: 'x', stream_id: 's' });
    t.match(await client.end(), { type: 'error', error, stream_id: 's' }, end);
  }
  end = 'event: response.completed\ndata: {"response":{"id":"r","status":"completed","output":[]}}';
  client.create({ input: 'x' });
  t.match(await client.end(), { type: 'response.completed', response: { id: 'r' } });
  t.equal(client.frames.length, 6, 'nothing follows an end');
});

t.test('a response whose events have no names ends once, and is continued', async (t) => {
  const inputs: unknown[] = [];
  const server = await serving(t, async (request, response) => {
    const body = await text(request);
    if (body === '') {
      response.end('{}');
      return;
    }
    inputs.push((JSON.parse(body) as { readonly input: unknown }).input);
    const answer = { id: `resp_${inputs.length}`, object: 'response', status: 'completed', model: MODEL, output: [] };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(
      `data: ${JSON.stringify({ sequence_number: 0, delta: 'a', type: 'response.output_text.delta' })}\n\n`,
    );
    response.end(`data: ${JSON.stringify({ sequence_number: 1, response: answer, type: 'response.completed' })}\n\n`);
  });
  const { url } = await startSystem(t, { settings: { models: { [MODEL]: { servers: [server] } } } });
  const client = await Client.open(t, url);
  client.create({ input: [{ role: 'user', content: 'one' }], store: false });
  await client.response();
  client.create({ input: [{ role: 'user', content: 'two' }], store: false, previous_response_id: 'resp_1' });
  t.match(await client.response(), [{ type: 'response.output_text.delta' }, { type: 'response.completed' }]);
  t.match(inputs[1], [{ content: 'one' }, { content: 'two' }]);
});

t.test('a response is continued as its server wrote it, with the digits of its numbers', async (t) => {
  const bodies: string[] = [];
  const item =
    '{"type":"mcp_list_tools","id":"mcpl_1","tools":[{"input_schema":{"maximum":18446744073709551615,"minimum":1.0}}]}';
  const server = await serving(t, async (request, response) => {
    const body = await text(request);
    if (body === '') {
      response.end('{}');
      return;
    }
    bodies.push(body);
    const answer = `{"id":"resp_${bodies.length}","object":"response","status":"completed","output":[${item}]}`;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(`data: {"type":"response.completed","sequence_number":0,"response":${answer}}\n\n`);
  });
  const { url } = await startSystem(t, { settings: { models: { [MODEL]: { servers: [server] } } } });
  const client = await Client.open(t, url);
  client.create({ input: [{ role: 'user', content: 'one' }], store: false });
  await client.response();
  client.create({ input: [{ role: 'user', content: 'two' }], store: false, previous_response_id: 'resp_1' });
  await client.response();
  t.match(bodies[1], item);
});

t.test('an answer that is no stream is one event, and an error where it is longer than is held', async (t) => {
  let length = 5;
  let status = 'completed';
  const server = await serving(t, (request, response) => {
    request.resume();
    const part = { type: 'output_text', text: 'x'.repeat(length), annotations: [] };
    const output = [{ id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [part] }];
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: 'resp_1', object: 'response', status, model: MODEL, output }));
  });
  const { url } = await startSystem(t, { settings: { models: { [MODEL]: { servers: [server] } } } });
  const client = await Client.open(t, url);
  client.create({ input: 'Hello?' });
  t.match(await client.response(), [{ type: 'response.completed', response: { id: 'resp_1' } }]);
  for (status of ['incomplete', 'failed']) {
    client.create({ input: 'Hello?', store: false });
    t.match(await client.response(), [{ type: `response.${status}`, response: { status } }]);
  }
  length = 5 * 1024 * 1024;
  client.create({ input: 'Hello?' });
  const error = { code: 'HR_ANSWER_UNTRANSLATABLE' };
  t.match(await client.response(), [{ type: 'error', status: 502, error }]);
});

t.test('a drain closes idle sockets, and others behind their response', async (t) => {
  const { gateway, url } = await startSystem(t, { hosts: [{ interTokenMs: 20 }] });
  const idle = await Client.open(t, url);
  const busy = await Client.open(t, url);
  busy.create({ input: 'Hello?', max_output_tokens: 20 });
  await until('the first delta', () => busy.frames.some(({ delta }) => delta !== undefined));
  const closing = gateway.close();
  await until('the close of the idle one', () => idle.closed !== null);
  t.equal(idle.closed?.code, 1001);
  t.match(await busy.end(), { response: { id: /./ } }, 'what runs is finished');
  await until('the close of the busy one', () => busy.closed !== null);
  t.equal(busy.closed?.code, 1001);
  await within('the gateway to close', closing);
});

t.test('a drain closes sockets that open meanwhile, too', async (t) => {
  const settings = { timeouts: { drain: '10m' } };
  const { gateway, url } = await startSystem(t, { settings, hosts: [{ interTokenMs: 20 }] });
  const connection = connect(Number(new URL(url).port), '127.0.0.1');
  t.teardown(() => connection.destroy());
  await once(connection, 'connect');
  const [idle, busy] = [await Client.open(t, url), await Client.open(t, url)];
  busy.create({ input: 'Hello?', max_output_tokens: 100_000 });
  await until('the first delta', () => busy.frames.some(({ delta }) => delta !== undefined));
  const closing = gateway.close();
  await until('the close of the idle one', () => idle.closed !== null);
  const late = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${KEY}` },
    createConnection: () => connection,
  });
  const [code] = await within('the close of the late one', once(late, 'close'));
  t.equal(code, 1001);
  busy.socket.terminate();
  await within('the gateway to close', closing);
});
