// Every public route (docs/interface.md), unknown paths and methods, CORS and request ids, over all four server adapters.

import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { SERVER_ADAPTERS, CHAT, GOOD, KEY, MODEL, onEach } from '../support/server-adapter.ts';

type Json = Record<string, unknown>;

const UUID = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;

const GETS: readonly (readonly [path: string, body: object])[] = [
  ['/health', { status: 'ok', keys_loaded: true, healthy_models: 1, prices_loaded: false }],
  ['/svc/models', { [MODEL]: { servers: [String] } }],
  ['/v1/models', { object: 'list', data: [{ id: MODEL, object: 'model', created: Number, owned_by: 'headrace' }] }],
  ['/v1/models/atlas-27b', { id: MODEL, object: 'model' }],
  ['/aggregator/models', { data: [] }],
  ['/openapi.json', { openapi: '3.1.0' }],
];

onEach(t, SERVER_ADAPTERS, 'every GET route is served without a key', async (t, { ask }) => {
  for (const [path, body] of GETS) {
    const answer = await ask({ path });
    t.equal(answer.status, 200, path);
    t.equal(answer.headers['content-type'], 'application/json', path);
    t.match(answer.json(), body, path);
    t.equal(answer.headers['content-length'], String(answer.body.byteLength), path);
  }
  const page = await ask({ path: '/docs?x=1' });
  t.match(page, { status: 200, headers: { 'content-type': /^text\/html/, 'content-security-policy': /default-src/ } });
});

onEach(t, SERVER_ADAPTERS, 'the key check is 200 for a good key and 401 otherwise', async (t, { ask }) => {
  const path = '/svc/auth/check';
  const good = await ask({ path, headers: GOOD });
  t.match(good, { status: 200 });
  t.same(good.json(), { status: 'ok' });
  for (const [authorization, detail] of [
    [undefined, 'Not authenticated'],
    ['Bearer x402', 'Not authenticated'],
    ['Bearer wrong', 'Invalid API key'],
    [KEY.toUpperCase(), 'Invalid API key'],
    ['Basic YTpi', 'Invalid API key'],
  ] as const) {
    const answer = await ask({ path, headers: authorization === undefined ? {} : { authorization } });
    t.match(answer, { status: 401, headers: { 'www-authenticate': 'Bearer' } }, detail);
    t.same(answer.json(), { detail });
  }
});

const PROXIED: readonly (readonly [path: string, body: Json, answer: object])[] = [
  ['/v1/chat/completions', {}, { object: 'chat.completion' }],
  ['/v1/completions', { prompt: 'hello' }, { object: 'text_completion' }],
  ['/v1/responses', { input: 'hello' }, { object: 'response' }],
  ['/v1/messages', { max_tokens: 3 }, { type: 'message' }],
  ['/completions', { prompt: 'hello', n_predict: 3 }, { content: String, stop: true }],
  ['/v1/embeddings', { input: 'hello' }, { object: 'list' }],
];

onEach(t, SERVER_ADAPTERS, 'every proxied route reaches the model host', async (t, { ask, host }) => {
  for (const [path, extra, expected] of PROXIED) {
    const answer = await ask({ path: `${path}?a=%20b`, headers: GOOD, body: { ...CHAT, ...extra } });
    t.match(answer, { status: 200, headers: { 'content-type': 'application/json', 'x-host': 'host' } }, path);
    t.match(answer.json(), expected, path);
    const request = await host.nextRequest();
    t.match(request, { path: path === '/completions' ? '/completion' : path, query: '?a=%20b', model: MODEL });
  }
});

onEach(t, SERVER_ADAPTERS, 'a streamed response arrives as events and is complete', async (t, { ask }) => {
  const answer = await ask({ path: '/v1/chat/completions', headers: GOOD, body: { ...CHAT, stream: true } });
  t.match(answer, { status: 200, headers: { 'content-type': /^text\/event-stream/ } });
  t.match(answer.text(), /^data: \{.*\n\n$/s);
  t.ok(answer.text().endsWith('data: [DONE]\n\n'));
});

onEach(
  t,
  SERVER_ADAPTERS,
  'model ids match in any case and lists show the configured spelling',
  async (t, { ask, host }) => {
    for (const model of [MODEL.toLowerCase(), MODEL.toUpperCase()]) {
      const answer = await ask({ path: '/v1/chat/completions', headers: GOOD, body: { ...CHAT, model } });
      // The bytes of the body are the client's; this host knows one spelling only.
      t.match(answer, { status: 404, headers: { 'x-host': 'host' } });
      t.equal((await host.nextRequest()).model, model);
    }
    t.same(Object.keys((await ask({ path: '/svc/models' })).json<Json>()), [MODEL]);
  },
);

onEach(t, SERVER_ADAPTERS, 'clients of the messages dialect get the list in its form', async (t, { ask }) => {
  const answer = await ask({ path: '/v1/models', headers: { 'anthropic-version': '2023-06-01' } });
  t.match(answer.json(), { data: [{ type: 'model', id: MODEL }], has_more: false, first_id: MODEL });
  const one = await ask({ path: `/v1/models/${MODEL}`, headers: { 'anthropic-version': '2023-06-01' } });
  t.same(one.json(), answer.json<{ data: unknown[] }>().data[0], 'and one model as its entry there');
  for (const { headers } of [answer, one, await ask({ path: '/v1/models' })])
    t.match(headers['vary'], /anthropic-version/, 'caches keep the two apart');
});

onEach(t, SERVER_ADAPTERS, 'an unknown path is 404 for GET, with detail only', async (t, { ask }) => {
  for (const path of ['/nope', '/index.html', '/health/', '/HEALTH', '/v1', '/svc/models/x', '//health', '/%68ealth']) {
    const answer = await ask({ path });
    t.match(answer, { status: 404, headers: { 'x-headrace-error': 'HR_ROUTE_NOT_FOUND' } }, path);
    t.same(answer.json(), { detail: 'Not Found' }, path);
  }
  const unknown = await ask({ path: '/v1/models/none%2Fsuch' });
  t.match(unknown, { status: 404, headers: { 'x-headrace-error': 'HR_ROUTE_UNKNOWN_MODEL' } });
  t.same(unknown.json(), { detail: "Model 'none/such' not found" });
});

onEach(t, SERVER_ADAPTERS, 'a method that a known path does not accept is 405 with Allow', async (t, { ask }) => {
  const readable = 'GET, HEAD, OPTIONS';
  const proxied = 'POST, OPTIONS';
  const cases: [string, string, string][] = [
    ...GETS.map(([path]): [string, string, string] => ['PUT', path, readable]),
    ['POST', '/health', readable],
    ['POST', '/v1/models', readable],
    ['POST', '/svc/auth/check', readable],
    ['DELETE', '/docs', readable],
    ...PROXIED.slice(0, 5).flatMap(([path]): [string, string, string][] => [
      ['GET', path, proxied],
      ['HEAD', path, proxied],
      ['PATCH', path, proxied],
    ]),
    ['PUT', '/any/path', proxied],
  ];
  for (const [method, path, allow] of cases) {
    const answer = await ask({ method, path, headers: { 'content-length': '0' } });
    t.match(answer, { status: 405, headers: { allow, 'x-headrace-error': 'HR_ROUTE_METHOD' } }, `${method} ${path}`);
    if (method !== 'HEAD') t.same(answer.json(), { detail: 'Method Not Allowed' });
  }
});

onEach(t, SERVER_ADAPTERS, 'HEAD has the head of GET and no body', async (t, { ask }) => {
  for (const path of [...GETS.map(([path]) => path), '/nope', '/v1/models/none']) {
    const get = await ask({ path });
    const answer = await ask({ method: 'HEAD', path });
    t.equal(answer.status, get.status, path);
    t.equal(answer.headers['content-length'], String(get.body.byteLength), path);
    t.equal(answer.headers['content-type'], get.headers['content-type'], path);
    t.equal(answer.body.byteLength, 0, path);
  }
});

onEach(t, SERVER_ADAPTERS, 'a POST whose target is no path is not found', async (t, { ask }, adapter) => {
  const target = adapter === 'inject' ? 'v1/chat/completions' : '*';
  const answer = await ask({ path: target, headers: GOOD, body: CHAT });
  // The servers with a parser of their own reject such a request line.
  t.equal(answer.status, { uws: 505, node: 400, mounted: 404, inject: 404 }[adapter]);
});

const EXPOSED = ['x-request-id', 'request-id', 'x-headrace-error', 'retry-after', 'x-should-retry'];
const PAYMENT = ['payment-required', 'payment-response', 'x-payment-response'];
const ORIGIN = { origin: 'https://page.example' };

onEach(t, SERVER_ADAPTERS, 'every response, errors included, may be read by any origin', async (t, { ask }) => {
  const answers = [
    await ask({ path: '/health', headers: ORIGIN }),
    await ask({ path: '/nope', headers: ORIGIN }),
    await ask({ path: '/v1/chat/completions', headers: { ...ORIGIN, authorization: 'Bearer no' }, body: CHAT }),
    await ask({ path: '/v1/chat/completions', headers: { ...ORIGIN, ...GOOD }, body: {} }),
    await ask({ path: '/v1/chat/completions', headers: { ...ORIGIN, ...GOOD }, body: CHAT }),
    await ask({ path: '/v1/chat/completions', headers: { ...ORIGIN, ...GOOD }, body: { ...CHAT, stream: true } }),
  ];
  t.same(
    answers.map(({ status }) => status),
    [200, 404, 401, 422, 200, 200],
  );
  for (const { headers } of answers) {
    t.equal(headers['access-control-allow-origin'], '*');
    t.notOk('access-control-allow-credentials' in headers);
    const exposed = headers['access-control-expose-headers']?.split(', ') ?? [];
    t.same(
      [...EXPOSED, ...PAYMENT].filter((name) => !exposed.includes(name)),
      [],
    );
  }
  t.notOk('access-control-allow-origin' in (await ask({ path: '/health' })).headers);
});

const PREFLIGHT = {
  ...ORIGIN,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization, content-type, x-payment',
};

onEach(
  t,
  SERVER_ADAPTERS,
  'a preflight is served for every path, without a key and without a body',
  async (t, { ask }) => {
    for (const [path, allow] of [
      ['/v1/chat/completions', 'POST, OPTIONS'],
      ['/any/path', 'POST, OPTIONS'],
      ['/health', 'GET, HEAD, OPTIONS'],
    ] as const) {
      const { status, headers, body } = await ask({ method: 'OPTIONS', path, headers: PREFLIGHT });
      t.equal(status, 204, path);
      t.match(headers, {
        allow,
        'access-control-allow-origin': '*',
        'access-control-allow-methods': 'GET, HEAD, POST, DELETE, OPTIONS',
        'access-control-allow-headers': PREFLIGHT['access-control-request-headers'],
        'access-control-max-age': '7200',
      });
      t.notOk('content-length' in headers, 'a 204 has no length (RFC 9110 §8.6)');
      t.equal(body.byteLength, 0);
    }
  },
);

const LISTED: SettingsInput = { cors: { origins: ['https://page.example', 'http://localhost:3000'] } };

onEach(
  t,
  SERVER_ADAPTERS,
  'with listed origins only those may read, with credentials',
  async (t, { ask }) => {
    for (const origin of LISTED.cors?.origins ?? []) {
      const { headers } = await ask({ path: '/health', headers: { origin } });
      t.match(headers, { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' });
      t.equal(headers['vary'], 'origin');
    }
    for (const origin of ['https://page.example.evil', 'http://page.example', 'null']) {
      const { status, headers } = await ask({ path: '/health', headers: { origin } });
      t.equal(status, 200);
      t.notOk('access-control-allow-origin' in headers, origin);
    }
    const refused = await ask({ method: 'OPTIONS', path: '/x', headers: { ...PREFLIGHT, origin: 'https://evil' } });
    t.notOk('access-control-allow-origin' in refused.headers);
    t.equal((await ask({ path: '/health' })).headers['vary'], 'origin', 'also for a cache between us');
  },
  LISTED,
);

onEach(t, SERVER_ADAPTERS, 'a safe request id is kept in every response and passed on', async (t, { ask, host }) => {
  for (const id of ['a', 'req_01.B:2/c+d=e-f', 'x'.repeat(128)]) {
    for (const [path, body, reaches] of [
      ['/health', undefined, false],
      ['/nope', undefined, false],
      ['/v1/chat/completions', CHAT, true],
      ['/v1/chat/completions', {}, false],
      ['/v1/chat/completions', { ...CHAT, stream: true }, true],
    ] as const) {
      const { headers } = await ask({ path, headers: { ...GOOD, 'x-request-id': id }, body });
      t.equal(headers['x-request-id'], id, path);
      t.equal(headers['request-id'], id, path);
      if (reaches) t.equal((await host.nextRequest()).headers['x-request-id'], id);
    }
  }
  const other = await ask({ path: '/health', headers: { 'x-client-request-id': 'from-sdk' } });
  t.equal(other.headers['x-request-id'], 'from-sdk');
});

onEach(t, SERVER_ADAPTERS, 'a request id that is missing or not safe is replaced', async (t, { ask, host }) => {
  const seen = new Set<string>();
  for (const id of [undefined, '', 'a b', 'x'.repeat(129), '<script>', 'caf\xc3\xa9x', '{}', 'a,b']) {
    const headers = id === undefined ? GOOD : { ...GOOD, 'x-request-id': id };
    const answer = await ask({ path: '/v1/chat/completions', headers, body: CHAT });
    t.match(answer.headers['x-request-id'], UUID, `for ${id}`);
    t.equal(answer.headers['request-id'], answer.headers['x-request-id']);
    t.equal((await host.nextRequest()).headers['x-request-id'], answer.headers['x-request-id']);
    seen.add(answer.headers['x-request-id'] ?? '');
  }
  t.equal(seen.size, 8, 'each its own');
});

onEach(
  t,
  ['uws', 'inject'],
  'the prefixes of the service routes are settings',
  async (t, { ask }) => {
    t.equal((await ask({ path: '/gw/models' })).status, 200);
    t.equal((await ask({ path: '/gw/auth/check', headers: GOOD })).status, 200);
    t.equal((await ask({ path: '/market/models' })).status, 200);
    t.equal((await ask({ path: '/svc/models' })).status, 404);
    t.equal((await ask({ path: '/aggregator/models' })).status, 404);
  },
  { servicePrefix: 'gw', listingPrefix: 'market' },
);
