// What clients send that is not quite the interface: keys of Azure, other spellings of paths, deployments, content types.

import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import {
  CHAT,
  GOOD,
  KEY,
  MODEL,
  open,
  type Opened,
  SERVER_ADAPTERS,
  type ServerAdapterName,
} from '../support/server-adapter.ts';
import { serving } from '../support/serving.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

/** A gateway before a server that keeps what it gets. */
async function echoing(
  t: Test,
  adapter: ServerAdapterName,
): Promise<{ readonly ask: Opened['ask']; readonly bodies: { readonly path: string; readonly text: string }[] }> {
  const bodies: { path: string; text: string }[] = [];
  const url = await serving(t, (req, res) => {
    void text(req).then((body) => {
      if (req.method === 'POST') bodies.push({ path: req.url ?? '', text: body });
      res.setHeader('content-type', 'application/json');
      res.end('{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}');
    });
  });
  const { ask } = await open(t, adapter, { models: { [MODEL]: { servers: [url] } } });
  return { ask, bodies };
}

for (const adapter of SERVER_ADAPTERS) {
  t.test(`${adapter}: api-key is a key; Authorization and x-api-key count before it; CRNs do not see it`, async (t) => {
    const { ask, host } = await open(t, adapter);
    const path = '/v1/chat/completions';
    t.equal((await ask({ path, headers: { 'api-key': KEY }, body: CHAT })).status, 200);
    const { headers } = await host.nextRequest();
    t.match(headers, { authorization: `Bearer ${KEY}` });
    t.notOk('api-key' in headers);
    t.equal((await ask({ path, headers: { 'api-key': 'no' }, body: CHAT })).status, 401);
    t.equal((await ask({ path, headers: { 'x-api-key': KEY, 'api-key': 'no' }, body: CHAT })).status, 200);
    t.equal((await ask({ path, headers: { authorization: 'Bearer no', 'api-key': KEY }, body: CHAT })).status, 401);
  });

  t.test(`${adapter}: other spellings of paths reach their endpoint`, async (t) => {
    const { ask, host } = await open(t, adapter);
    for (const path of [
      '/chat/completions',
      '/v1/v1/chat/completions',
      '/openai/v1/chat/completions',
      '/v1/chat/completions/',
    ]) {
      t.equal((await ask({ path, headers: GOOD, body: CHAT })).status, 200, path);
      t.equal((await host.nextRequest()).path, '/v1/chat/completions', path);
    }
    const list = await ask({ path: '/models' });
    t.same(list.json(), (await ask({ path: '/v1/models' })).json());
    t.equal((await ask({ path: `/models/${MODEL}` })).status, 200);
    t.match(await ask({ method: 'DELETE', path: '/models' }), {
      status: 405,
      headers: { allow: 'GET, HEAD, OPTIONS' },
    });
    t.match(await ask({ method: 'OPTIONS', path: '/models' }), {
      status: 204,
      headers: { allow: 'GET, HEAD, OPTIONS' },
    });
    t.equal((await ask({ path: '/openai/deployments/' })).status, 404);
  });

  t.test(`${adapter}: the model is that of the deployment, whatever the body says`, async (t) => {
    const { ask, bodies } = await echoing(t, adapter);
    const { model: _, ...rest } = CHAT;
    const path = `/openai/deployments/${MODEL.toLowerCase()}/chat/completions?api-version=2024-10-21`;
    for (const body of [rest, CHAT, { ...rest, model: 'gpt-4o' }]) {
      t.equal((await ask({ path, headers: { 'api-key': KEY }, body })).status, 200);
      t.equal(bodies.at(-1)?.path, '/v1/chat/completions?api-version=2024-10-21');
      t.match(JSON.parse(bodies.at(-1)?.text ?? ''), { messages: CHAT['messages'], model: MODEL });
    }
    const unknown = await ask({ path: '/openai/deployments/x/chat/completions', headers: GOOD, body: CHAT });
    t.same([unknown.status, unknown.json()], [404, { detail: "Model 'x' not found" }]);
    await ask({ path, headers: { ...GOOD, ...JSON_TYPE }, body: ' { }' });
    t.same(JSON.parse(bodies.at(-1)?.text ?? ''), { model: MODEL });
    const file = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--x--\r\n';
    const speech = `/openai/deployments/${MODEL}/audio/transcriptions`;
    const form = { path: speech, headers: { ...GOOD, 'content-type': 'multipart/form-data; boundary=x' } };
    const field = (model: string): string => `--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n`;
    for (const sent of [file, field(MODEL) + file, field('whisper-1') + file]) {
      t.equal((await ask({ ...form, body: sent })).status, 200);
      t.equal(bodies.at(-1)?.path, '/v1/audio/transcriptions');
      t.equal(bodies.at(-1)?.text, field(MODEL) + file);
    }
    t.equal((await ask({ ...form, body: 'none' })).status, 422);
  });

  t.test(`${adapter}: a body of another type is refused with what to do`, async (t) => {
    const { ask } = await open(t, adapter);
    const refused = async (path: string, type: string, body: unknown): Promise<string> => {
      const answer = await ask({ path, headers: { ...GOOD, 'content-type': type }, body });
      t.equal(answer.status, 422, path);
      const [entry] = answer.json<{ detail: { loc: unknown; msg: string }[] }>().detail;
      t.same(entry?.loc, ['body']);
      return answer.headers['x-headrace-hint'] ?? entry?.msg ?? '';
    };
    const text = JSON.stringify(CHAT);
    for (const path of ['/v1/chat/completions', '/search']) {
      const form = await refused(path, 'application/x-www-form-urlencoded', text);
      t.match(form, /^Content-Type should be application\/json/);
      t.match(form, /curl: --json/);
      t.match(
        await refused(path, 'multipart/form-data; boundary=x', '--x--\r\n'),
        /not multipart\/form-data; boundary=x$/,
      );
    }
    t.match(
      await refused('/v1/embeddings', 'text/plain', text),
      /application\/json or multipart\/form-data, not text\/plain$/,
    );
    const files = await ask({
      path: '/v1/files',
      headers: { ...GOOD, 'content-type': 'multipart/form-data; boundary=x' },
      body: 'x',
    });
    t.equal(files.status, 404);
    t.match(files.json<{ detail: string }>().detail, /files belong to one server.*put the content into the request/);
  });

  t.test(`${adapter}: the field model of a form may stand anywhere`, async (t) => {
    const { ask, bodies } = await echoing(t, adapter);
    const part = (name: string, value: string, file = ''): string =>
      `--b\r\ncontent-disposition: form-data; name="${name}"${file}\r\n\r\n${value}\r\n`;
    const parts = [part('file', 'x'.repeat(5000), '; filename="a.wav"'), part('model', MODEL), part('language', 'en')];
    for (const order of [
      [0, 1, 2],
      [1, 0, 2],
      [2, 0, 1],
    ]) {
      const body = `${order.map((at) => parts[at]).join('')}--b--\r\n`;
      const headers = { ...GOOD, 'content-type': 'multipart/form-data; boundary=b' };
      await ask({ path: '/v1/audio/transcriptions', headers, body });
      t.equal(bodies.at(-1)?.text, body);
    }
    const body = `${parts[0]}${parts[2]}--b--\r\n`;
    const headers = { ...GOOD, 'content-type': 'multipart/form-data; boundary=b' };
    const missing = await ask({ path: '/v1/audio/transcriptions', headers, body });
    t.same(missing.json(), { detail: [{ loc: ['body', 'model'], msg: 'Field required', type: 'missing' }] });
  });

  t.test(`${adapter}: a CRN that refuses a checked key is no 401 of the client`, async (t) => {
    const { ask, host } = await open(t, adapter);
    await host.setFault([{ fault: { status: 401 } }]);
    const answer = await ask({ path: '/v1/chat/completions', headers: { ...GOOD, ...JSON_TYPE }, body: CHAT });
    t.match(answer, {
      status: 502,
      headers: { 'x-headrace-error': 'HR_UPSTREAM_CREDENTIALS', 'x-should-retry': 'false' },
    });
  });
}

t.test('a cookie for a listed origin of https may come back from another site', async (t) => {
  const origin = 'https://page.example';
  const { ask } = await open(t, 'inject', { publicScheme: 'https', cors: { origins: [origin] } });
  const cookie = async (headers: Record<string, string>): Promise<string | undefined> =>
    (await ask({ path: '/v1/chat/completions', headers: { ...GOOD, ...headers }, body: CHAT })).headers['set-cookie'];
  t.match(await cookie({ origin }), /; SameSite=None; Secure; Partitioned$/);
  t.match(await cookie({ origin: 'https://other.example' }), /; SameSite=Lax; Secure$/);
  t.match(await cookie({}), /; SameSite=Lax; Secure$/);
});
