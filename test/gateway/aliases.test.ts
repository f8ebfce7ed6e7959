// Aliases, credentials and weights of servers on real sockets: what CRNs and clients see of them.
import type { IncomingMessage, ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import { serving } from '../support/serving.ts';
import { KEY, MODEL, settingsFor, startHosts } from '../support/system.ts';

const ANSWER = JSON.stringify({
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
});

interface Received {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** A CRN that answers everything and notes what it gets. */
async function startCrn(t: Test): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const serve = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const pieces: Buffer[] = [];
    for await (const piece of req) pieces.push(piece as Buffer);
    const { authorization } = req.headers;
    const body = Buffer.concat(pieces).toString();
    if (req.method === 'POST') received.push({ path: req.url ?? '', authorization, body });
    res.setHeader('content-type', 'application/json');
    res.end(req.method === 'POST' ? ANSWER : '{}');
  };
  return { url: await serving(t, (req, res) => void serve(req, res)), received };
}

async function open(t: Test, settings: SettingsInput): Promise<{ gateway: Gateway; url: string; admin: string }> {
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: '127.0.0.1:0', adminToken: 'hra_test', threads: 0, store: null },
    ...{ keys: { required: false }, log: { level: 'silent' } },
    ...settings,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  return { gateway, url, admin: adminUrl as string };
}

function post(url: string, body: string, path = '/v1/chat/completions'): Promise<Response> {
  return fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
}

t.test('a request by an alias finds the model, and its server gets the id of the model', async (t) => {
  const crn = await startCrn(t);
  const models = { 'Atlas/27B "x"': { servers: [crn.url], aliases: ['gpt-5', 'claude-sonnet-4-5'] } };
  const { admin, url } = await open(t, { models });
  const id = JSON.stringify('Atlas/27B "x"');
  const rest = '"messages" : [ {"role":"user","content":"h\\u00e9"} ], "x": 1.50';
  for (const [sent, path] of [
    [`{ "model" :\n"GPT-5" , ${rest} }`, '/v1/chat/completions'],
    [`{${rest},"model":"claude-sonnet-4-5"}`, '/v1/chat/completions'],
    [`{"input":"a","model":"gpt\\u002d5"}`, '/v1/embeddings'],
    [`{"model":"gpt-5",${rest},"model":"claude-Sonnet-4-5"}`, '/v1/messages'],
  ] as const) {
    const response = await post(url, sent, path);
    t.equal(response.status, 200, await response.text());
    const cookie = decodeURIComponent(response.headers.get('set-cookie') ?? '');
    t.match(cookie, `{${id}:"${crn.url}"}`, 'the affinity cookie has the id');
    t.equal(crn.received.pop()?.body, sent.replace(/"(?:gpt-5|gpt\\u002d5|claude-sonnet-4-5)"/gi, id));
  }
  const unchanged = `{"model":"ATLAS/27b \\"x\\"",${rest}}`;
  t.equal((await post(url, unchanged)).status, 200);
  t.equal(crn.received.pop()?.body, unchanged, 'an id passes as it was written');
  t.equal((await post(url, '{"model":"gpt-4"}')).status, 404);
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  t.match(metrics, 'model="Atlas/27B \\"x\\""');
  t.notMatch(metrics, /model="(?:gpt|claude)/i);
});

t.test('lists show ids only, and one entry is found by an alias', async (t) => {
  const models = { 'atlas-27b': { servers: ['http://127.0.0.1:1'], aliases: ['gpt-5', 'acme/big'] } };
  const { url } = await open(t, { models, health: { timeout: '50ms' } });
  for (const path of ['/v1/models', '/svc/models']) {
    t.notMatch(await (await fetch(url + path)).text(), /gpt-5|acme/);
  }
  for (const name of ['atlas-27b', 'GPT-5', 'acme/big', 'acme%2Fbig']) {
    t.match(await (await fetch(`${url}/v1/models/${name}`)).json(), { id: 'atlas-27b', object: 'model' });
  }
  t.equal((await fetch(`${url}/v1/models/gpt-4`)).status, 404);
});

t.test('a reload adds and removes aliases, and refuses those that collide', async (t) => {
  const crn = await startCrn(t);
  const base = { listen: '127.0.0.1:0', admin: null, threads: 0, store: null, keys: { required: false } } as const;
  const settingsOf = (aliases: readonly string[]): SettingsInput => ({
    ...{ ...base, log: { level: 'silent' } },
    models: { 'atlas-27b': { servers: [crn.url], aliases }, 'finch-3b': { servers: [crn.url] } },
  });
  const { gateway, url } = await open(t, settingsOf(['one']));
  const statusOf = async (model: string): Promise<number> => (await post(url, JSON.stringify({ model }))).status;
  t.same([await statusOf('one'), await statusOf('two')], [200, 404]);
  gateway.reload(settingsOf(['two']));
  t.same([await statusOf('one'), await statusOf('two')], [404, 200]);
  t.throws(() => gateway.reload(settingsOf(['FINCH-3b'])), /aliases\[0\]: is the id of a model/);
  t.same([await statusOf('one'), await statusOf('two')], [404, 200], 'the old settings stay');
});

t.test('the credential of a server comes before that of the model, and none is shown', async (t) => {
  const [first, second] = [await startCrn(t), await startCrn(t)];
  const servers = [{ url: first.url, apiKey: 'own_secret' }, second.url];
  const models = { m: { servers, apiKey: 'common_secret' } };
  const { admin, url } = await open(t, { models, routing: { affinity: false } });
  for (let at = 0; first.received.length === 0 || second.received.length === 0; at++) {
    if (at > 200) throw new Error('one of two idle servers is never chosen');
    t.equal((await post(url, '{"model":"m"}')).status, 200);
  }
  t.ok(first.received.every(({ authorization }) => authorization === 'Bearer own_secret'));
  t.ok(second.received.every(({ authorization }) => authorization === 'Bearer common_secret'));
  const headers = { authorization: 'Bearer hra_test' };
  for (const path of ['/status', '/overview', '/metrics', '/audit']) {
    const response = await fetch(admin + path, { headers });
    t.notMatch(await response.text(), /_secret/, path);
  }
  const explained = await fetch(`${admin}/explain?path=/v1/chat/completions`, {
    ...{ method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: '{"model":"m"}' },
  });
  t.equal(explained.status, 200);
  t.notMatch(await explained.text(), /_secret/);
});

t.test('a response by an alias is kept and continued', async (t) => {
  const hosts = await startHosts(t);
  const models = { [MODEL]: { servers: hosts.map((host) => host.url), aliases: ['gpt-5-of-another-length'] } };
  const gateway = createGateway({
    ...settingsFor(hosts, { models, store: 'sqlite::memory:' }),
    threads: 0,
    admin: null,
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  let previous: string | undefined;
  for (const input of ['Where does the water go?', 'And then?', 'And last?']) {
    const response = await fetch(`${url}/v1/responses`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}` },
      body: JSON.stringify({ previous_response_id: previous, input, model: 'GPT-5-of-another-length' }),
    });
    const answer = (await response.json()) as { id: string; model: string; status: string };
    t.match([response.status, answer], [200, { model: MODEL, status: 'completed' }]);
    previous = answer.id;
  }
});

t.test('a discovery map has aliases too; a configured alias comes before a found model of its name', async (t) => {
  const [own, other] = [await startCrn(t), await startCrn(t)];
  const map = {
    'GPT-5': { servers: [other.url] },
    'found-1b': { servers: [{ url: other.url, apiKey: 'found_secret' }], aliases: ['extra', 'gpt-5'] },
  };
  const discovery = await serving(t, (_, res) => res.end(JSON.stringify(map)));
  const models = { 'atlas-27b': { servers: [own.url], aliases: ['gpt-5'] } };
  const { admin, url } = await open(t, { models, discovery });
  t.equal((await post(url, '{"model":"gpt-5"}')).status, 200);
  t.equal((await post(url, '{"model":"Extra"}')).status, 200);
  t.match(own.received, [{ body: '{"model":"atlas-27b"}' }]);
  t.match(other.received, [{ body: '{"model":"found-1b"}', authorization: 'Bearer found_secret' }]);
  t.same(Object.keys((await (await fetch(`${url}/svc/models`)).json()) as object), ['atlas-27b', 'found-1b']);
  t.notMatch(await (await fetch(`${admin}/status`)).text(), 'found_secret');
});
