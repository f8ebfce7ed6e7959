// The playground's paths on the admin listener, over real sockets: they are the public API with the rights of the API key, for every
// way in which the public port listens.

import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { type Answer, events } from '../support/fake-engine.ts';
import { bearer, endow, openTestLedger, PRICING, USD } from '../support/ledger-fixture.ts';
import {
  CHAT_PATH,
  chatStream,
  chunk,
  finish,
  startScriptedChat,
  type ScriptedChat,
} from '../support/scripted-chat.ts';
import { KEY, MODEL, settingsFor, startHosts, until } from '../support/system.ts';
import { HAS_UWS } from '../support/uws.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const OWNER = 'sesame';
const CHAT = '/playground/v1/chat/completions';

interface Playground {
  readonly url: string;
  readonly adminUrl: string;
  readonly crn: ScriptedChat;
}

/** A gateway in front of a scripted CRN. */
async function start(t: Test, settings: SettingsInput = {}): Promise<Playground> {
  const crn = await startScriptedChat(t);
  const gateway = createGateway({
    ...settingsFor([], { admin: '127.0.0.1:0', adminToken: OWNER }),
    models: { [MODEL]: { servers: [crn.url] } },
    ...settings,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  return { url, adminUrl: adminUrl ?? '', crn };
}

function bodyOf(stream = false): string {
  return JSON.stringify({ model: MODEL, stream, messages: [{ role: 'user', content: 'Where does the water go?' }] });
}

function post(url: string, headers: Readonly<Record<string, string>> = {}, body = bodyOf()): Promise<Response> {
  const sent = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers };
  return fetch(url, { method: 'POST', headers: sent, body });
}

/** With headers that `fetch` does not send, such as Cookie and Origin. */
async function rawPost(url: string, headers: Readonly<Record<string, string>>): Promise<IncomingMessage> {
  const request = httpRequest(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers } });
  request.end(bodyOf());
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.resume();
  return response;
}

/** An answer whose stream a test continues by hand. */
function held(): { answer: Answer; send: Promise<(text: string | null) => void> } {
  const { promise, resolve } = Promise.withResolvers<(text: string | null) => void>();
  const answer: Answer = (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    resolve((text) => void (text === null ? response.end() : response.write(text)));
  };
  return { answer, send: promise };
}

const HOSTS = [
  ['the threads of the command line', { threads: 1, listen: '127.0.0.1:0' }],
  ['every interface', { listen: '0.0.0.0:0' }],
  ['IPv6', { listen: '[::1]:0' }],
  ...(HAS_UWS ? [['uWebSockets.js', { listen: '127.0.0.1:0', server: 'uws' }] as const] : []),
] as const satisfies readonly (readonly [string, SettingsInput])[];

for (const [name, settings] of HOSTS) {
  t.test(`answers as the public port does, which listens on ${name}`, async (t) => {
    const { adminUrl, crn, url } = await start(t, settings);
    crn.play(chatStream(chunk({ content: 'Down.' }), finish('stop')));
    const here = await post(adminUrl + CHAT, {}, bodyOf(true));
    const there = await post(url + CHAT_PATH, {}, bodyOf(true));
    t.same([here.status, await here.text()], [200, await there.text()]);
    t.equal(here.headers.get('content-type'), there.headers.get('content-type'));
    t.same(
      await (await fetch(`${adminUrl}/playground/v1/models`)).json(),
      await (await fetch(`${url}/v1/models`)).json(),
    );
  });
}

t.test('tells which CRN answered, and what came of the request', async (t) => {
  const { adminUrl, crn } = await start(t);
  crn.play(chatStream(chunk({ content: 'Down.' }), finish('stop')));
  const answer = await post(adminUrl + CHAT, { 'x-request-id': 'mine-1' }, bodyOf(true));
  const { headers } = answer;
  t.same(
    ['x-request-id', 'x-headrace-crn', 'x-headrace-attempts', 'x-headrace-predicted-hit'].map((name) =>
      headers.get(name),
    ),
    ['mine-1', crn.url, '1', '0.000'],
  );
  await answer.text();
  t.match(await (await fetch(`${adminUrl}/playground/answers/mine-1`)).json(), {
    ...{ requestId: 'mine-1', status: 200, code: '', aborted: false, endpoint: CHAT_PATH, model: MODEL },
    ...{ account: undefined, crn: crn.url, attempts: 1, translation: '', firstByteMs: Number, durationMs: Number },
    ...{ predictedHit: 0, cachedTokens: null, costUsd: null },
  });
  t.equal((await fetch(`${adminUrl}/playground/answers/%ff`)).status, 404);
  t.equal((await fetch(`${adminUrl}/playground/answers/mine-1`, { method: 'POST' })).status, 405);

  const messages = { model: MODEL, max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] };
  const translated = await post(
    `${adminUrl}/playground/v1/messages`,
    {},
    JSON.stringify({ ...messages, stream: true }),
  );
  t.match(await translated.text(), /message_stop/);
  t.equal(translated.headers.get('x-headrace-translated'), 'messages-chat');
});

t.test('tells the cost of a stream', async (t) => {
  const store = `sqlite:${temporaryFolder(t)}/ledger.db`;
  await endow(await openTestLedger(t, store), USD);
  const [host] = await startHosts(t);
  const { adminUrl } = await start(t, {
    ...{ store, credit: { flush: '5ms' } },
    models: { [MODEL]: { servers: [host?.url ?? ''], pricing: PRICING } },
  });
  await until('the key is known', async () => {
    return (await post(adminUrl + CHAT, { ...bearer(), 'x-request-id': 'paid-1' }, bodyOf(true))).status === 200;
  });
  t.match(await (await fetch(`${adminUrl}/playground/answers/paid-1`)).json(), {
    account: undefined,
    costUsd: /^0\.\d*[1-9]/,
  });
});

t.test('streams every event when it comes, and leaves when the client does', async (t) => {
  const { adminUrl, crn } = await start(t);
  const { answer, send } = held();
  crn.play(answer);
  const request: ClientRequest = httpRequest(adminUrl + CHAT, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
  });
  request.on('error', () => undefined);
  request.end(bodyOf(true));
  const more = await send;
  more(`data: ${JSON.stringify(chunk({ content: 'first' }))}\n\n`);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const [piece] = (await once(response, 'data')) as [Buffer];
  t.match(piece.toString(), /first/, 'while the CRN has not ended');
  more(`data: ${JSON.stringify(chunk({ content: 'second' }))}\n\n`);
  const [next] = (await once(response, 'data')) as [Buffer];
  t.match(next.toString(), /second/);
  const told = fetch(`${adminUrl}/playground/answers/${String(response.headers['x-request-id'])}`);
  request.destroy();
  await crn.abandoned;
  t.match(await (await told).json(), { aborted: true, status: 200 });
});

t.test('gives no more rights than the public port', async (t) => {
  const { adminUrl, crn, url } = await start(t);
  crn.play(chatStream(chunk({ content: 'Down.' }), finish('stop')));
  for (const key of ['wrong', '']) {
    const headers = { authorization: key === '' ? '' : `Bearer ${key}` };
    const [here, there] = [await post(adminUrl + CHAT, headers), await post(url + CHAT_PATH, headers)];
    t.same([here.status, await here.text()], [401, await there.text()], key);
    t.equal(here.headers.get('x-headrace-error'), there.headers.get('x-headrace-error'));
  }
  for (const headers of [
    { authorization: `Bearer ${OWNER}` },
    { authorization: '', 'x-api-key': OWNER },
    { 'api-key': OWNER },
  ]) {
    const answer = await post(adminUrl + CHAT, headers);
    t.equal(answer.status, 401);
    t.match(await answer.json(), { detail: /this is an admin token/ });
  }
  for (const path of [
    '',
    'v1',
    'metrics',
    'svc/auth/check',
    'openapi.json',
    '..%2f',
    'completions',
    'search/',
    'fetch/x',
  ]) {
    t.equal((await post(`${adminUrl}/playground/${path}`)).status, 404, path);
  }
  t.equal((await rawPost(`${adminUrl}/playground/v1/../keys`, {})).statusCode, 404);
  t.equal((await post(`${adminUrl}/playground/v1/files`)).status, (await post(`${url}/v1/files`)).status);
  t.equal(crn.requests.filter(({ path }) => path === CHAT_PATH).length, 0);
});

t.test('passes neither cookies nor an origin, and answers no page of another origin', async (t) => {
  const { adminUrl, crn } = await start(t, { keys: { required: false } });
  crn.play(chatStream(chunk({ content: 'Down.' }), finish('stop')));
  const { host, origin } = new URL(adminUrl);
  const answer = await rawPost(adminUrl + CHAT, {
    cookie: 'session=1',
    origin,
    referer: `${origin}/`,
    'x-custom': 'kept',
  });
  t.equal(answer.statusCode, 200);
  const { headers } = crn.last(CHAT_PATH);
  t.same(
    [headers.cookie, headers['origin'], headers.referer, headers['x-custom']],
    [undefined, undefined, undefined, 'kept'],
  );
  t.equal(answer.headers['set-cookie'], undefined);
  t.equal(answer.headers['access-control-allow-origin'], undefined);
  const asked = crn.requests.length;
  for (const foreign of [
    { origin: 'http://example.org' },
    { origin: 'null' },
    { origin: `http://example.org/${host}` },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
  ]) {
    t.equal((await rawPost(adminUrl + CHAT, foreign)).statusCode, 403, JSON.stringify(foreign));
  }
  t.equal(crn.requests.slice(asked).filter(({ path }) => path === CHAT_PATH).length, 0);
});

t.test('a page that a CRN answers with is harmless in the origin of the console', async (t) => {
  const { adminUrl, crn } = await start(t);
  crn.play((_, response) => {
    response.writeHead(400, { 'content-type': 'text/html', 'content-security-policy': "default-src 'unsafe-inline'" });
    response.end('<script>alert(1)</script>');
  });
  const { headers, status } = await post(adminUrl + CHAT);
  t.equal(status, 400);
  t.match(headers.get('content-security-policy'), /, sandbox; default-src 'none'/, 'both policies hold');
  t.equal(headers.get('x-content-type-options'), 'nosniff');
});

t.test('searches and fetches', async (t) => {
  const { adminUrl } = await start(t);
  for (const [path, field] of [
    ['search', 'query'],
    ['fetch', 'url'],
  ] as const) {
    const answer = await post(`${adminUrl}/playground/${path}?x=1`, {}, '{}');
    t.equal(answer.status, 422, path);
    t.match(await answer.text(), field);
  }
});

t.test('requests without a key that wait for their bodies take no place of others', async (t) => {
  const { adminUrl } = await start(t);
  let ended = 0;
  for (let count = 0; count < 70; count++) {
    const headers = { 'content-type': 'application/json', 'content-length': '100' };
    const request = httpRequest(adminUrl + CHAT, { method: 'POST', headers, agent: false });
    request.on('error', () => ended++);
    request.flushHeaders();
    t.teardown(() => request.destroy());
  }
  await until('the oldest are ended', () => ended === 70 - 16);
  t.equal((await fetch(`${adminUrl}/playground/v1/models`)).status, 200);
});

t.test('refuses more requests than the control thread should run', async (t) => {
  const { adminUrl, crn } = await start(t);
  const gone = new AbortController();
  crn.play(events([], 'stay'));
  const running = Array.from({ length: 64 }, () => {
    return fetch(adminUrl + CHAT, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: bodyOf(true),
      signal: gone.signal,
    }).catch(() => undefined);
  });
  await until('asked', () => crn.requests.filter(({ path }) => path === CHAT_PATH).length === 64);
  const refused = await post(adminUrl + CHAT);
  t.equal(refused.status, 503);
  t.match(await refused.json(), { detail: /^64 requests of the playground are running/ });
  gone.abort();
  await Promise.all(running);
  await until('free', async () => (await fetch(`${adminUrl}/playground/v1/models`)).status === 200);
});
