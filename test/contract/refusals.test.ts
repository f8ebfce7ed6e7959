// Refused requests: statuses, order of checks and exact bodies, over all four server adapters.

import t from 'tap';
import { SERVER_ADAPTERS, CHAT, GOOD, KEY, MODEL, onEach, type Opened } from '../support/server-adapter.ts';
import type { Answer } from '../support/server-adapter-wire.ts';

const PATHS = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages', '/completions', '/any/path'];

const NOT_AN_OBJECT = 'Input should be a valid dictionary or object to extract fields from';
const BROKEN = 'JSON decode error';

const MISTAKES: readonly (readonly [body: string, loc: (string | number)[], msg: string, type: string])[] = [
  ['', ['body'], 'Field required', 'missing'],
  ['null', ['body'], 'Field required', 'missing'],
  ['[]', ['body'], NOT_AN_OBJECT, 'model_attributes_type'],
  ['"text"', ['body'], NOT_AN_OBJECT, 'model_attributes_type'],
  ['12', ['body'], NOT_AN_OBJECT, 'model_attributes_type'],
  ['{}', ['body', 'model'], 'Field required', 'missing'],
  ['{"messages":[]}', ['body', 'model'], 'Field required', 'missing'],
  ['{"model":null}', ['body', 'model'], 'Input should be a valid string', 'string_type'],
  ['{"model":5}', ['body', 'model'], 'Input should be a valid string', 'string_type'],
  ['{"model":["m"]}', ['body', 'model'], 'Input should be a valid string', 'string_type'],
  ['{', ['body', 1], BROKEN, 'json_invalid'],
  ['{"model":"m"', ['body', 12], BROKEN, 'json_invalid'],
  ['{"model":"m"}x', ['body', 13], BROKEN, 'json_invalid'],
  ['{"é":1,}', ['body', 7], BROKEN, 'json_invalid'],
  ['hello', ['body', 0], BROKEN, 'json_invalid'],
];

onEach(
  t,
  SERVER_ADAPTERS,
  'every mistake in a proxied body has its 422, alike on every path',
  async (t, { ask, host }) => {
    for (const path of PATHS) {
      for (const [body, loc, msg, type] of MISTAKES) {
        const answer = await ask({ path, headers: { ...GOOD, 'content-type': 'application/json' }, body });
        t.match(answer, { status: 422, headers: { 'x-headrace-error': 'HR_REQUEST_INVALID' } }, `${path} ${body}`);
        t.equal(answer.text(), JSON.stringify({ detail: [{ loc, msg, type }] }), `${path} ${body}`);
      }
    }
    t.equal(host.requests.filter(({ method }) => method === 'POST').length, 0, 'no host was asked');
  },
);

onEach(
  t,
  SERVER_ADAPTERS,
  'a body of another content type is refused, one without a type is read as JSON',
  async (t, { ask }) => {
    const path = '/v1/chat/completions';
    const body = JSON.stringify(CHAT);
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
      const answer = await ask({ path, headers: { ...GOOD, 'content-type': type }, body });
      t.equal(answer.status, 422, type);
      const entry = { loc: ['body'], msg: NOT_AN_OBJECT, type: 'model_attributes_type' };
      t.strictSame(answer.json(), { detail: [entry] }, type);
    }
    for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/vnd.api+json']) {
      t.equal((await ask({ path, headers: { ...GOOD, 'content-type': type }, body })).status, 200, type);
    }
    t.equal((await ask({ path, headers: GOOD, body })).status, 200);
  },
);

onEach(t, SERVER_ADAPTERS, 'limits the depth of nesting', async (t, { ask }) => {
  const deep = (levels: number): string => `{"model":"${MODEL}","x":${'['.repeat(levels)}${']'.repeat(levels)}}`;
  t.equal((await ask({ path: '/v1/embeddings', headers: GOOD, body: deep(255) })).headers['x-host'], 'host');
  const answer = await ask({ path: '/v1/chat/completions', headers: GOOD, body: deep(256) });
  t.match(answer.json(), { detail: [{ loc: ['body', Number], msg: BROKEN, type: 'json_invalid' }] });
  t.equal(answer.headers['x-headrace-hint'], 'JSON should be nested at most 256 levels deep');
  t.equal((await ask({ path: '/v1/x', headers: GOOD, body: deep(100_000) })).status, 422);
});

type Refusal = readonly [status: number, code: string, detail: unknown];

function refusal(answer: Answer): Refusal {
  return [answer.status, answer.headers['x-headrace-error'] ?? '', answer.json<{ detail: unknown }>().detail];
}

const INVALID: Refusal = [401, 'HR_AUTH_INVALID', 'Invalid API key'];
const MISSING: Refusal = [401, 'HR_AUTH_MISSING', 'Not authenticated'];
const TOO_LARGE: Refusal = [413, 'HR_REQUEST_TOO_LARGE', 'Request body exceeds 1000 bytes'];
const UNKNOWN: Refusal = [404, 'HR_ROUTE_UNKNOWN_MODEL', "Model 'zz' not found"];
const BAD_BODY: Refusal = [422, 'HR_REQUEST_INVALID', [{ loc: ['body', 0], msg: BROKEN, type: 'json_invalid' }]];

onEach(
  t,
  SERVER_ADAPTERS,
  'checks come in their order: bad key, size, body, model, missing key',
  async (t, { ask }, adapter) => {
    const path = '/v1/chat/completions';
    const bad = { authorization: 'Bearer no' };
    const large = 'x'.repeat(1001);
    t.same(refusal(await ask({ path, headers: bad, body: large })), INVALID);
    t.same(refusal(await ask({ path, headers: bad, body: 'x' })), INVALID);
    t.same(refusal(await ask({ path, headers: bad, body: { model: 'zz' } })), INVALID);
    t.same(refusal(await ask({ path, body: large })), TOO_LARGE);
    t.same(refusal(await ask({ path, headers: GOOD, body: large })), TOO_LARGE);
    t.same(refusal(await ask({ path, body: 'x' })), BAD_BODY);
    t.same(refusal(await ask({ path, body: { model: 'zz' } })), UNKNOWN);
    t.same(refusal(await ask({ path, body: CHAT })), MISSING);
    // Without a socket nothing is uploaded.
    const upload = await ask({ path, body: 'x'.repeat(70_000) });
    t.same(refusal(upload), adapter === 'inject' ? TOO_LARGE : MISSING, 'nobody uploads much without a key');
    t.equal((await ask({ path, headers: GOOD, body: CHAT })).status, 200);
  },
  { limits: { bodyBytes: 1000 } },
);

onEach(t, SERVER_ADAPTERS, 'a key is read from Authorization and from x-api-key', async (t, { ask, host }) => {
  const bearer = `Bearer ${KEY}`;
  const cases: [Record<string, string>, number][] = [
    [{ authorization: bearer }, 200],
    [{ authorization: `bearer ${KEY}` }, 200],
    [{ Authorization: `BEARER   ${KEY}` }, 200],
    [{ 'x-api-key': KEY }, 200],
    [{ 'X-Api-Key': KEY }, 200],
    [{ authorization: bearer, 'x-api-key': 'wrong' }, 200],
    [{ authorization: 'Bearer wrong', 'x-api-key': KEY }, 401],
    [{ authorization: 'Bearer x402', 'x-api-key': KEY }, 401],
    [{ authorization: 'Bearer x402' }, 401],
    [{ 'x-api-key': 'wrong' }, 401],
    [{ authorization: KEY }, 401],
    [{ authorization: `Basic ${KEY}` }, 401],
    [{ authorization: `${bearer} x` }, 401],
    [{ authorization: `Bearer ${'k'.repeat(600)}` }, 401],
  ];
  for (const [headers, status] of cases) {
    const answer = await ask({ path: '/v1/chat/completions', headers, body: CHAT });
    t.equal(answer.status, status, JSON.stringify(headers).slice(0, 80));
    if (status === 401) t.equal(answer.headers['www-authenticate'], 'Bearer');
    else t.match((await host.nextRequest()).headers, { authorization: new RegExp(`^bearer +${KEY}$`, 'i') });
  }
});

onEach(
  t,
  SERVER_ADAPTERS,
  'an open gateway asks for no key and passes what it gets on, yet the key check stays true',
  async (t, { ask, host }) => {
    const path = '/v1/chat/completions';
    t.equal((await ask({ path, body: CHAT })).status, 200);
    t.notOk('authorization' in (await host.nextRequest()).headers);
    t.equal((await ask({ path, headers: { authorization: 'Bearer other' }, body: CHAT })).status, 200);
    t.equal((await host.nextRequest()).headers.authorization, 'Bearer other');
    t.equal((await ask({ path: '/svc/auth/check', headers: { authorization: 'Bearer other' } })).status, 401);
    t.equal((await ask({ path: '/svc/auth/check' })).status, 401);
    t.equal((await ask({ path: '/svc/auth/check', headers: GOOD })).status, 200);
  },
  { keys: { required: false, static: [{ key: KEY, account: 'tests' }] } },
);

/** One refusal of each kind on the path of a dialect, with its message. */
async function refusals({ ask }: Opened, path: string): Promise<[Answer, string][]> {
  return [
    [await ask({ path, headers: { authorization: 'Bearer no' }, body: CHAT }), 'Invalid API key'],
    [await ask({ path, body: CHAT }), 'Not authenticated'],
    [await ask({ path, headers: GOOD, body: { model: 'zz' } }), "Model 'zz' not found"],
    [await ask({ path, headers: GOOD, body: {} }), 'body.model: Field required'],
    [await ask({ method: 'GET', path }), 'Method Not Allowed'],
  ];
}

onEach(t, SERVER_ADAPTERS, 'error bodies have detail only', async (t, opened) => {
  for (const path of PATHS.slice(0, 5)) {
    for (const [answer] of await refusals(opened, path)) {
      t.same(Object.keys(answer.json<object>()), ['detail'], `${path} ${answer.status}`);
      t.equal(answer.headers['content-type'], 'application/json');
    }
  }
});

onEach(
  t,
  SERVER_ADAPTERS,
  'with errorBodies: dialect a dialect path adds what its SDKs read, other paths nothing',
  async (t, opened) => {
    const members: Record<string, (message: string) => object> = {
      '/v1/chat/completions': (message) => ({ error: { message, type: String, param: null, code: /^HR_/ } }),
      '/v1/completions': (message) => ({ error: { message, type: String, param: null, code: /^HR_/ } }),
      '/v1/responses': (message) => ({ error: { message, type: String, param: null, code: /^HR_/ } }),
      '/v1/messages': (message) => ({ type: 'error', error: { type: String, message } }),
      '/completions': (message) => ({ error: { message, type: String, code: Number } }),
    };
    for (const [path, member] of Object.entries(members)) {
      for (const [answer, message] of await refusals(opened, path)) {
        t.match(answer.json(), { detail: answer.status === 422 ? Array : message, ...member(message) }, path);
      }
    }
    const plain = await opened.ask({ path: '/any/path', headers: GOOD, body: {} });
    t.same(Object.keys(plain.json<object>()), ['detail']);
    t.same((await opened.ask({ path: '/nope' })).json(), { detail: 'Not Found' });
  },
  { errorBodies: 'dialect' },
);

onEach(t, SERVER_ADAPTERS, 'when every host fails the response is 503 with Retry-After', async (t, { ask, host }) => {
  await host.setFault([{ fault: { status: 500 } }]);
  const answer = await ask({ path: '/v1/chat/completions', headers: GOOD, body: CHAT });
  t.match(answer, { status: 503, headers: { 'retry-after': /^\d+$/, 'x-headrace-error': 'HR_ROUTE_ALL_FAILED' } });
  t.same(answer.json(), { detail: `All servers unavailable for model ${MODEL}` });
});

onEach(t, SERVER_ADAPTERS, "a host's own error passes byte for byte", async (t, { ask, host }) => {
  const body = '{ "error" : {"message":"no such voice\\u00e9"}}';
  const headers = { 'x-why': 'because', 'content-type': 'application/problem+json' };
  await host.setFault([{ fault: { status: 418, body, headers } }]);
  const answer = await ask({ path: '/v1/audio/speech', headers: GOOD, body: CHAT });
  t.equal(answer.status, 418);
  t.equal(answer.text(), body);
  t.equal(answer.headers['x-why'], 'because');
  t.notOk('x-headrace-error' in answer.headers);
});
