// Paths without a dialect on real sockets: every path of docs/other-paths.md passes byte for byte or is refused with its reason.
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { CONTROL_PATHS, UNSERVED_PATHS } from '../../src/api/unserved-paths.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { OTHER_PATHS } from '../support/openai-paths.ts';
import { serving } from '../support/serving.ts';
import { KEY, startSystem } from '../support/system.ts';

const BINARY = Buffer.from(Array.from({ length: 4096 }, (_, at) => (at * 31) & 0xff));

interface Received {
  readonly url: string;
  readonly type: string | undefined;
  readonly body: Buffer;
}

class Crn {
  url = '';
  status = 200;
  readonly received: Received[] = [];

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of req) pieces.push(piece as Buffer);
    if (req.method === 'GET') {
      res.end('{}');
      return;
    }
    this.received.push({ url: req.url ?? '', type: req.headers['content-type'], body: Buffer.concat(pieces) });
    res.writeHead(this.status, { 'content-type': 'audio/mpeg', 'x-own': 'kept' });
    res.end(BINARY);
  }
}

async function open(t: Test, count: number, more: SettingsInput = {}): Promise<{ url: string; crns: Crn[] }> {
  const crns = Array.from({ length: count }, () => new Crn());
  for (const crn of crns) crn.url = await serving(t, (req, res) => void crn.serve(req, res));
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: null, threads: 0, store: null, log: { level: 'silent' } },
    models: { 'acme/Whisper': { servers: crns.map(({ url }) => url), aliases: ['whisper-1'] } },
    keys: { required: false },
    ...more,
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { url, crns };
}

const BOUNDARY = 'xXx.boundary';
const FORM_TYPE = `multipart/form-data; boundary="${BOUNDARY}"`;

function formOf(model: string, file: Buffer): Buffer {
  const head = `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`;
  const field = `\r\n--${BOUNDARY}\r\nContent-Disposition: form-data; name=model\r\n\r\n${model}\r\n--${BOUNDARY}--\r\n`;
  return Buffer.concat([Buffer.from(head), file, Buffer.from(field)]);
}

function post(url: string, type: string, body: Buffer): Promise<Response> {
  return fetch(url, { method: 'POST', headers: { 'content-type': type, accept: '*/*' }, body });
}

t.test('every path of the table passes byte for byte, and so does its answer', async (t) => {
  const { crns, url } = await open(t, 1);
  const [crn] = crns as [Crn];
  for (const { body: kind, paths } of OTHER_PATHS) {
    for (const path of paths) {
      if (path === '/infill') continue;
      const type = kind === 'JSON' ? 'application/json; charset=UTF-8' : FORM_TYPE;
      const sent =
        kind === 'JSON'
          ? Buffer.from('{ "input":["a","ü"],\n"model" : "ACME/whisper" }')
          : formOf('acme/whisper', BINARY);
      const response = await post(`${url}${path}?a=b&c`, type, sent);
      t.match(response, { status: 200 }, path);
      t.same(Object.fromEntries(response.headers), { ...Object.fromEntries(response.headers), 'x-own': 'kept' });
      t.equal(response.headers.get('content-type'), 'audio/mpeg');
      t.same(Buffer.from(await response.arrayBuffer()), BINARY, path);
      t.same(crn.received.pop(), { url: `${path}?a=b&c`, type, body: sent }, path);
    }
  }
});

t.test('an alias in a form is replaced by the id, and nothing else changes', async (t) => {
  const { crns, url } = await open(t, 1);
  const response = await post(`${url}/v1/audio/transcriptions`, FORM_TYPE, formOf('Whisper-1', BINARY));
  t.equal(response.status, 200);
  t.same(crns[0]?.received[0]?.body, formOf('acme/Whisper', BINARY));
});

t.test('a form of 20 MB reaches another server whole when the first one fails', async (t) => {
  const { crns, url } = await open(t, 2);
  const file = Buffer.alloc(20_000_000, BINARY);
  for (const crn of crns) {
    crn.status = 500;
    for (const other of crns) if (other !== crn) other.status = 200;
    for (const each of crns) each.received.length = 0;
    while (crn.received.length === 0) {
      const response = await post(`${url}/v1/audio/transcriptions`, FORM_TYPE, formOf('whisper-1', file));
      t.equal(response.status, 200);
      await response.arrayBuffer();
    }
    const last = crns.find((other) => other !== crn)?.received.at(-1);
    t.ok(last?.body.equals(formOf('acme/Whisper', file)), 'the body is kept');
    t.equal(last?.type, FORM_TYPE);
  }
});

t.test('a body that is neither JSON nor a good form is refused with what is wrong', async (t) => {
  const { crns, url } = await open(t, 1);
  const path = `${url}/v1/audio/transcriptions`;
  const form = formOf('whisper-1', BINARY);
  for (const [type, body, status, detail] of [
    ['text/plain', form, 422, 'Content-Type should be application/json or multipart/form-data'],
    ['application/x-www-form-urlencoded', Buffer.from('model=m'), 422, 'Content-Type should be application/json'],
    ['multipart/form-data', form, 422, 'Content-Type multipart/form-data needs one boundary'],
    [FORM_TYPE, form.subarray(0, -20), 422, 'The closing boundary is missing'],
    [FORM_TYPE, formOf('', BINARY), 422, 'Input should be UTF-8 text of 1 to 1024 bytes'],
    [FORM_TYPE, formOf('other', BINARY), 404, "Model 'other' not found"],
    [FORM_TYPE, Buffer.alloc(0), 422, 'Field required'],
  ] as const) {
    const response = await post(path, type, body);
    t.equal(response.status, status, detail);
    t.match(await response.text(), detail);
  }
  const chat = await post(`${url}/v1/chat/completions`, FORM_TYPE, form);
  t.match(await chat.text(), 'valid dictionary', 'a dialect is JSON');
  t.equal(crns[0]?.received.length, 0);
});

t.test('a path that only one server could serve is refused with its reason, whatever the method', async (t) => {
  const { crns, url } = await open(t, 1, { errorBodies: 'dialect' });
  for (const { path, reason } of UNSERVED_PATHS) {
    for (const [method, below] of [
      ['GET', '/abc'],
      ['GET', '/abc/'],
      ['POST', '/abc/def'],
      ['DELETE', '/abc'],
    ] as const) {
      const body = method === 'POST' ? { body: '{"model":"whisper-1"}' } : {};
      const response = await fetch(url + path + below, { method, ...body });
      t.equal(response.status, 404, `${method} ${path}${below}`);
      t.equal(response.headers.get('x-headrace-error'), 'HR_ROUTE_UNSERVED');
      const message = `This path is not served: ${reason}`;
      const error = path.startsWith('/v1/messages/')
        ? { message, type: 'not_found_error' }
        : { message, code: 'HR_ROUTE_UNSERVED' };
      t.match(await response.json(), { detail: message, error });
    }
  }
  const socket = await fetch(`${url}/v1/realtime?model=whisper-1`);
  t.match(await socket.json(), { detail: /^This path is not served: the gateway carries WebSockets of/ });
  for (const path of ['/v1/file', '/v1/filesystem', '/v1', '/v2/files']) {
    t.notMatch(await (await fetch(url + path)).text(), 'not served', path);
  }
  t.equal(crns[0]?.received.length, 0);
});

t.test('a path that administers model servers does not pass, however it is written', async (t) => {
  const { crns, url } = await open(t, 1);
  const paths = CONTROL_PATHS.flatMap((each) => each.paths);
  const spellings = [
    '/slots/0?action=erase',
    '/v1/v1/slots/0',
    '/%73lots%2f0',
    '/slots;a=b/0',
    '/%73lots/%ff',
    '/models/load',
    '/tools',
    '/hicache/storage-backend/clear',
  ];
  for (const path of [...paths, ...paths.map((each) => `/v1${each}/`), ...spellings]) {
    const response = await fetch(url + path, { method: 'POST', body: '{"model":"whisper-1"}' });
    t.equal(response.status, 404, path);
    t.equal(response.headers.get('x-headrace-error'), 'HR_ROUTE_UNSERVED', path);
    t.match(await response.json(), { detail: /it administers model servers/ });
  }
  t.equal(crns[0]?.received.length, 0);
  for (const path of ['/slot', '/slotsa', '/v1/sleepy', '/a/slots']) {
    t.equal((await post(url + path, 'application/json', Buffer.from('{"model":"whisper-1"}'))).status, 200, path);
  }
});

t.test('a WebSocket to /v1/realtime is refused with the reason', async (t) => {
  const { url } = await open(t, 1);
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?model=whisper-1`);
  const [request, response] = (await once(socket, 'unexpected-response')) as [ClientRequest, IncomingMessage];
  t.match(response, { statusCode: 404, headers: { 'x-headrace-error': 'HR_ROUTE_UNSERVED' } });
  request.destroy();
});

/** A gateway before a priced model. Resolves with its URL. */
async function pricing(t: Test, server: string): Promise<string> {
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: null, threads: 0, store: 'sqlite::memory:', log: { level: 'silent' } },
    models: { whisper: { servers: [server], pricing: { prompt: '1', completion: '10' } } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return url;
}

t.test('a form of a priced model costs the tokens that its server counts, or its text', async (t) => {
  const answers = [
    '{"text":"twelve char","usage":{"type":"tokens","input_tokens":40,"output_tokens":7}}',
    '{"text":"twelve chars"}',
  ];
  const url = await serving(t, (req, res) => {
    req.resume();
    res.setHeader('content-type', 'application/json');
    req.on('end', () => res.end(req.method === 'GET' ? '{}' : answers.shift()));
  });
  const base = await pricing(t, url);
  const costs: (string | null)[] = [];
  for (let at = 0; at < 2; at++) {
    const response = await fetch(`${base}/v1/audio/transcriptions`, {
      method: 'POST',
      headers: { 'content-type': FORM_TYPE, authorization: `Bearer ${KEY}` },
      body: formOf('whisper', Buffer.alloc(1_000_000)),
    });
    t.equal(response.status, 200, await response.text());
    costs.push(response.headers.get('x-headrace-cost'));
  }
  t.same(costs, ['0.00011', '0.000032'], '40 and 7 tokens, then 2 and 3 for the bytes of the texts');
});

t.test('tokens of a text are no output', async (t) => {
  const url = await serving(t, (req, res) => {
    req.resume();
    res.setHeader('content-type', 'application/json');
    const tokens = JSON.stringify({ tokens: Array.from({ length: 999 }, (_, at) => at) });
    req.on('end', () => res.end(req.method === 'GET' ? '{}' : tokens));
  });
  const base = await pricing(t, url);
  for (const path of ['/tokenize', '/detokenize', '/apply-template']) {
    const body = Buffer.from('{"model":"whisper","content":"twelve chars"}');
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };
    const response = await fetch(base + path, { method: 'POST', headers, body });
    t.equal(response.headers.get('x-headrace-cost'), '0.000011', `${path}: 44 bytes of prompt alone`);
  }
});

t.test('a simulated host serves embeddings, images, speech, infill and tokens', async (t) => {
  const { url } = await startSystem(t);
  for (const [path, body] of [
    ['/v1/embeddings', { input: ['a', 'b'] }],
    ['/v1/images/generations', { prompt: 'a' }],
    ['/v1/audio/speech', { input: 'a', voice: 'x' }],
    ['/infill', { input_prefix: 'a', input_suffix: 'b', n_predict: 4 }],
    ['/tokenize', { content: 'a' }],
  ] as const) {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}` },
      body: JSON.stringify({ model: 'atlas-27b', ...body }),
    });
    t.equal(response.status, 200, path);
    t.ok((await response.arrayBuffer()).byteLength > 0);
  }
});
