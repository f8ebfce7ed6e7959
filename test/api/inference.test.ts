// Proxied requests at their endpoint: affinity cookie and session headers, the key that a CRN gets, timing headers, and error bodies
// for SDKs.
import t from 'tap';
import { refuse } from '../../src/api/refuse.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { HeadraceError } from '../../src/errors.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';
import { freedBlocks } from '../support/freed-blocks.ts';
import { CHAT, GOOD, MODEL, open, startHost } from '../support/server-adapter.ts';

const PATH = '/v1/chat/completions';

t.test('the affinity cookie is set once, and later requests go to its CRN', async (t) => {
  const host = await startHost(t);
  const { ask } = await open(t, 'inject', {}, host);
  const first = await ask({ path: PATH, headers: GOOD, body: CHAT });
  const value = JSON.stringify({ [MODEL]: host.url });
  const attributes = 'Max-Age=1800; Path=/; HttpOnly; SameSite=Lax';
  t.equal(first.headers['set-cookie'], `preferred_instances=${value}; ${attributes}`);
  for (const cookie of [value, encodeURIComponent(value)]) {
    const headers = { ...GOOD, cookie: `a=b; preferred_instances=${cookie}` };
    t.notOk('set-cookie' in (await ask({ path: PATH, headers, body: CHAT })).headers, cookie);
  }
  const headers = { ...GOOD, cookie: `preferred_instances={"${MODEL}":"http://169.254.169.254"}` };
  t.match((await ask({ path: PATH, headers, body: CHAT })).headers, { 'set-cookie': value, 'x-host': 'host' });
});

t.test('the cookie is Secure when clients connect by https, and is not set without affinity', async (t) => {
  const secure = await open(t, 'inject', { publicScheme: 'https' });
  t.match((await secure.ask({ path: PATH, headers: GOOD, body: CHAT })).headers['set-cookie'], /; Secure$/);
  const without = await open(t, 'inject', { routing: { affinity: false } });
  t.notOk('set-cookie' in (await without.ask({ path: PATH, headers: GOOD, body: CHAT })).headers);
});

t.test('the memory of a large request is freed with its end, unless its text is kept or it is stored', async (t) => {
  const freed = freedBlocks(t);
  const text = 'word '.repeat(800_000);
  const chat = { ...CHAT, messages: [{ role: 'user', content: text }] };
  const bytes = JSON.stringify(chat).length;
  for (const prompts of [false, true]) {
    const { ask } = await open(t, 'node', { requestLog: { prompts } });
    freed.length = 0;
    for (const stream of [false, true]) {
      const answer = await ask({ path: PATH, headers: GOOD, body: { ...chat, stream } });
      t.match([answer.status, answer.text()], [200, /"content"/]);
    }
    const whole = freed.filter((length) => length >= bytes).length;
    t.equal(whole, prompts ? 0 : 2);
  }
  const { ask } = await open(t, 'node');
  freed.length = 0;
  const stored = { model: MODEL, input: text, max_output_tokens: 2, store: true };
  t.equal((await ask({ path: '/v1/responses', headers: GOOD, body: stored })).status, 200);
  t.equal(freed.filter((length) => length >= text.length).length, 0);
});

t.test('requests of one session go to one CRN, whichever header or field names the session', async (t) => {
  const hosts = await Promise.all([1, 2, 3, 4].map((index) => startHost(t, { name: `host-${index}` })));
  const models = { [MODEL]: { servers: hosts.map((host) => host.url) } };
  const { ask } = await open(t, 'inject', { models }, hosts[0]);
  const served = async (headers: object, extra: object): Promise<string | undefined> =>
    (await ask({ path: PATH, headers: { ...GOOD, ...headers }, body: { ...CHAT, ...extra } })).headers['x-host'];
  for (const [headers, extra] of [
    [{ session_id: 's1' }, {}],
    [{ 'x-session-id': 's2' }, {}],
    [{ 'x-conversation-id': 's3' }, {}],
    [{}, { session_id: 's4' }],
    [{}, { prompt_cache_key: 's5' }],
  ] as const) {
    const names = new Set<string | undefined>();
    for (let turn = 0; turn < 6; turn++) {
      names.add(await served(headers, { ...extra, messages: [{ role: 'user', content: `turn ${turn}` }] }));
    }
    t.equal(names.size, 1, JSON.stringify([headers, extra]));
  }
});

t.test('a response is continued on the CRN that has it', async (t) => {
  const hosts = await Promise.all([1, 2, 3, 4].map((index) => startHost(t, { name: `host-${index}` })));
  const models = { [MODEL]: { servers: hosts.map((host) => host.url) } };
  const { ask } = await open(t, 'inject', { models }, hosts[0]);
  const send = (extra: object): ReturnType<typeof ask> =>
    ask({
      path: '/v1/responses',
      headers: GOOD,
      body: { model: MODEL, input: 'hello', max_output_tokens: 2, ...extra },
    });
  for (const stream of [false, true]) {
    const served = new Set<string | undefined>();
    for (let conversation = 0; conversation < 6; conversation++) {
      const first = await send({ input: `conversation ${conversation} ${stream}`, stream });
      served.add(first.headers['x-host']);
      let id = /"id":"(resp_[^"]+)"/.exec(first.text())?.[1];
      for (let turn = 0; turn < 3; turn++) {
        // The prefix of each turn hashes to a CRN of its own.
        const next = await send({ input: `turn ${turn}`, previous_response_id: id, stream });
        t.equal(next.headers['x-host'], first.headers['x-host'], `${conversation}, ${turn}, ${stream}`);
        id = /"id":"(resp_[^"]+)"/.exec(next.text())?.[1];
      }
    }
    t.ok(served.size > 1, 'the conversations are spread');
  }
  const unknown = await send({ previous_response_id: 'resp_unknown' });
  t.match([unknown.status, unknown.headers['x-headrace-error']], [404, 'HR_RESPONSE_UNKNOWN']);
  for (const id of [null, 7, '', 'x'.repeat(1000)]) {
    t.equal((await send({ previous_response_id: id })).status, 200, 'one that is not known goes by its prefix');
  }
});

t.test('a key from x-api-key reaches the CRN as a bearer token; an API key of the model replaces it', async (t) => {
  const { ask, host } = await open(t, 'inject');
  await ask({ path: PATH, headers: { 'x-api-key': 'hr_contract' }, body: CHAT });
  t.match((await host.nextRequest()).headers, { authorization: 'Bearer hr_contract', 'x-api-key': 'hr_contract' });
  const own = await startHost(t, { keys: ['host-key'] });
  const models = { [MODEL]: { servers: [own.url], apiKey: 'host-key' } };
  const keyed = await open(t, 'inject', { models }, own);
  t.equal((await keyed.ask({ path: PATH, headers: GOOD, body: CHAT })).status, 200);
  t.equal((await own.nextRequest()).headers.authorization, 'Bearer host-key');
});

t.test('an answer that is judged is asked for without compression', async (t) => {
  const host = await startHost(t);
  const { ask } = await open(t, 'inject', {}, host);
  const headers = { ...GOOD, 'accept-encoding': 'gzip' };
  for (const [path, body, expected] of [
    [PATH, CHAT, 'identity'],
    ['/v1/embeddings', { model: MODEL, input: 'a' }, 'gzip'],
  ] as const) {
    await ask({ path, headers, body });
    t.equal(host.requests.at(-1)?.headers['accept-encoding'], expected, path);
  }
});

t.test('timing headers are sent on request', async (t) => {
  const { ask } = await open(t, 'inject', { serverTiming: true });
  const { headers } = await ask({ path: PATH, headers: GOOD, body: CHAT });
  t.match(headers['server-timing'], /^gateway;dur=[\d.]+, upstream;dur=[\d.]+, attempts;desc="1"$/);
  const plain = await open(t, 'inject');
  t.notOk('server-timing' in (await plain.ask({ path: PATH, headers: GOOD, body: CHAT })).headers);
});

t.test('the error member for SDKs lists every mistake of a 422', async (t) => {
  const validation = [
    { loc: ['body', 'model'], msg: 'Field required', type: 'missing' },
    { loc: ['body', 'n', 0], msg: 'bad', type: 'x' },
  ];
  const error = new HeadraceError('HR_REQUEST_INVALID', { validation });
  const answer = (errorBodies: string): object => {
    const exchange = new StubExchange('POST');
    Object.defineProperty(exchange, 'path', { value: PATH });
    refuse(exchange, { settings: { errorBodies } } as unknown as ApiDeps, error);
    return JSON.parse(exchange.body) as object;
  };
  t.same(answer('contract'), { detail: validation });
  t.match(answer('dialect'), {
    detail: validation,
    error: { message: 'body.model: Field required; body.n.0: bad' },
  });
});
