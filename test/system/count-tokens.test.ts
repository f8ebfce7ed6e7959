// Counts of tokens in the dialects that have them, against CRNs with and without tokenizers, asked by the official SDKs and by hand.

import Anthropic, {
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  PaymentRequiredError,
  RateLimitError,
} from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { FakeEngine } from '../support/fake-engine.ts';
import { startTokenizer, type TokenizerKind } from '../support/tokenizers.ts';
import { KEY, MODEL, SERVERS, startSystem } from '../support/system.ts';

const PATH = '/v1/messages/count_tokens';

async function start(
  t: Test,
  kinds: readonly TokenizerKind[],
  settings: SettingsInput = {},
): Promise<{ readonly url: string; readonly engines: readonly FakeEngine[]; readonly client: Anthropic }> {
  const engines = await Promise.all(kinds.map((kind) => startTokenizer(t, kind)));
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: engines.map(({ url }) => url), aliases: ['alias'] } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    ...settings,
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { url, engines, client: new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 }) };
}

const ask = {
  model: MODEL,
  system: 'Be brief.',
  messages: [{ role: 'user' as const, content: 'Where does the water go?' }],
};

/** The first token, the text, and the turns of the template. */
const TEXT = 'Be brief.Where does the water go?'.length;
const TEMPLATED = 1 + TEXT + '<turn><turn><answer>'.length;

const EXPECTED: Readonly<Record<TokenizerKind, number | null>> = {
  messages: 77,
  vllm: TEMPLATED,
  llama: TEMPLATED,
  sglang: 1 + TEXT + 1,
  none: null,
};

async function counted(client: Anthropic, request: object = ask): Promise<{ tokens: number; estimate: string | null }> {
  const counting = client.messages.countTokens(request as typeof ask);
  const { data, response } = await counting.withResponse();
  return { tokens: data.input_tokens, estimate: response.headers.get('x-headrace-estimate') };
}

for (const server of SERVERS) {
  for (const [kind, expected] of Object.entries(EXPECTED)) {
    t.test(`${server}: a CRN of kind ${kind}`, async (t) => {
      const { client, engines } = await start(t, [kind as TokenizerKind], { server });
      for (let round = 0; round < 2; round++) {
        const { estimate, tokens } = await counted(client);
        if (expected !== null) t.equal(tokens, expected);
        else t.ok(tokens >= TEXT / 8 && tokens <= TEXT, `${tokens} for ${TEXT} bytes`);
        t.equal(estimate, expected === null ? 'true' : null);
      }
      if (kind === 'messages') {
        const { body, headers } = engines[0]?.last(PATH) ?? {};
        t.strictSame(body, ask, 'the body passes as it is');
        t.equal(headers?.['anthropic-version'] === undefined, false);
      }
    });
  }
}

const RESPONSES_PATH = '/v1/responses/input_tokens';
const CHAT_PATH = '/v1/chat/completions/input_tokens';
const response = { model: MODEL, instructions: 'Be brief.', input: 'Where does the water go?' };
const chat = {
  model: MODEL,
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Where does the water go?' },
  ],
};

async function post(
  url: string,
  path: string,
  body: object,
): Promise<{ status: number; body: unknown; estimate: string | null }> {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const estimate = answer.headers.get('x-headrace-estimate');
  return { status: answer.status, body: await answer.json(), estimate };
}

for (const [path, body] of [
  [RESPONSES_PATH, response],
  [CHAT_PATH, chat],
] as const) {
  for (const [kind, expected] of Object.entries(EXPECTED)) {
    t.test(`${path}: a CRN of kind ${kind}`, async (t) => {
      const { engines, url } = await start(t, [kind as TokenizerKind]);
      for (let round = 0; round < 2; round++) {
        const counted = await post(url, path, body);
        t.match(counted, { status: 200, body: { object: 'response.input_tokens' } });
        const { input_tokens: tokens } = counted.body as { input_tokens: number };
        if (kind === 'none') t.ok(tokens >= TEXT / 8 && tokens <= 2 * TEXT, `${tokens} for ${TEXT} bytes`);
        // A server of kind `messages` counts in that dialect alone, and has the tokenizer of vLLM.
        else t.equal(tokens, kind === 'messages' ? TEMPLATED : expected);
        t.equal(counted.estimate, kind === 'none' ? 'true' : null);
      }
      t.equal(engines[0]?.requests.filter((request) => request.path === path).length, 1, 'what it lacks is remembered');
      const spelled = await post(url, path.replace('/v1', ''), body);
      t.equal(spelled.status, 200, 'without /v1');
      t.equal((await post(url, `${path}/`, body)).status, 200, 'with a slash at the end');
    });
  }
}

t.test('what a response continues is counted too', async (t) => {
  const system = await startSystem(t, {
    hosts: [{ dialects: ['chat', 'llama'] }],
    settings: { store: 'sqlite::memory:' },
  });
  const client = new OpenAI({ baseURL: `${system.url}/v1`, apiKey: KEY, maxRetries: 0 });
  const first = await client.responses.create({ ...response, max_output_tokens: 8 });
  const next = { model: MODEL, input: 'And then?', previous_response_id: first.id };
  const { input_tokens: tokens } = await client.responses.inputTokens.count(next);
  const { input_tokens: alone } = await client.responses.inputTokens.count({ model: MODEL, input: next.input });
  t.ok(tokens > alone, `${tokens} with what it continues, ${alone} without`);
  const { usage } = await client.responses.create({ ...next, max_output_tokens: 4 });
  t.equal(tokens, usage?.input_tokens);
  await t.rejects(client.responses.inputTokens.count({ ...next, previous_response_id: 'resp_none' }), {
    status: 404,
    message: /resp_none/,
  });
  const { data } = await client.responses.inputItems.list(first.id);
  t.equal(data.length, 1, 'counting has stored nothing');
});

t.test('the simulated host answers the official SDK in its own form', async (t) => {
  const { url } = await startSystem(t);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
  const counted = await client.responses.inputTokens.count(response);
  t.equal(counted.object, 'response.input_tokens');
  const { usage } = await client.responses.create({ ...response, max_output_tokens: 4 });
  t.equal(counted.input_tokens, usage?.input_tokens);
});

t.test('images of all dialects are no text', async (t) => {
  const { url } = await start(t, ['none']);
  const image = `data:image/png;base64,${'A'.repeat(1_000_000)}`;
  const chatParts = [{ type: 'image_url', image_url: { url: image } }];
  const bodies = [
    [RESPONSES_PATH, { model: MODEL, input: [{ role: 'user', content: [{ type: 'input_image', image_url: image }] }] }],
    [CHAT_PATH, { model: MODEL, messages: [{ role: 'user', content: chatParts }] }],
  ] as const;
  for (const [path, body] of bodies) {
    const { input_tokens: tokens } = (await post(url, path, body)).body as { input_tokens: number };
    t.ok(tokens > 1000 && tokens < 2000, `${path}: ${tokens} for an image`);
  }
});

t.test('mistakes in responses and chats are refused in their form', async (t) => {
  const { url } = await start(t, ['vllm']);
  for (const path of [RESPONSES_PATH, CHAT_PATH]) {
    t.match(await post(url, path, { ...response, model: 'nobody' }), { status: 404 });
    t.match(await post(url, path, { input: 'x' }), { status: 422 });
    const keyless = { method: 'POST', body: JSON.stringify({ ...response, ...chat }) };
    t.equal((await fetch(url + path, keyless)).status, 401);
  }
  t.equal((await fetch(url + CHAT_PATH)).status, 405);
});

t.test('names of models and their aliases are those of the CRN', async (t) => {
  const { client, engines } = await start(t, ['vllm']);
  t.equal((await counted(client, { ...ask, model: 'alias' })).tokens, TEMPLATED);
  t.equal(engines[0]?.last('/tokenize').body['model'], MODEL);
});

t.test('a prompt that cannot be carried is estimated, and images are no text', async (t) => {
  const { client } = await start(t, ['vllm']);
  const hosted = { ...ask, tools: [{ type: 'web_search_20250305', name: 'web_search' }] };
  t.equal((await counted(client, hosted)).estimate, 'true');
  const { client: bare } = await start(t, ['none']);
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(1_000_000) } };
  const { tokens } = await counted(bare, { ...ask, messages: [{ role: 'user', content: [image] }] });
  t.ok(tokens > 1000 && tokens < 2000, `${tokens} for an image`);
  const estimated = async (block: object, tools?: object): Promise<number> =>
    (await counted(bare, { ...ask, messages: [{ role: 'user', content: [block] }], ...tools })).tokens;
  const tail = { data: 'A'.repeat(1_000_000), media_type: 'image/png', type: 'base64' };
  const address = { type: 'url', url: 'https://example.com/a.png' };
  for (const source of [tail, address, { type: 'file', file_id: 'file_1' }]) {
    const tokens = await estimated({ type: 'image', source });
    t.ok(tokens > 1500 && tokens < 1700, `${tokens} for an image by ${source.type}`);
  }
  const text = { type: 'text', media_type: 'text/plain', data: 'word '.repeat(8000) };
  const document = await estimated({ type: 'document', source: text });
  t.ok(document > 9000 && document < 11_000, `${document} for a document of 40,000 bytes of text`);
  const parts = {
    type: 'content',
    content: [
      { type: 'text', text: 'x' },
      { type: 'image', source: address },
    ],
  };
  const mixed = await estimated({ type: 'document', source: parts });
  t.ok(mixed > 1500 && mixed < 1700, `${mixed} for a document with an image in it`);
  const properties = { source: { type: 'string' }, data: { type: 'string' } };
  const tool = { name: 'f', input_schema: { type: 'object', properties } };
  t.ok((await estimated({ type: 'text', text: 'x' }, { tools: [tool] })) < 200, 'a schema has no attachment');
});

t.test('CRNs that are down, or fail, are no error', async (t) => {
  const { client, engines } = await start(t, ['vllm', 'vllm']);
  await engines[0]?.close();
  for (let round = 0; round < 3; round++) t.equal((await counted(client)).tokens, TEMPLATED);
  await engines[1]?.close();
  t.equal((await counted(client)).estimate, 'true');
});

t.test('mistakes are refused in the form of the dialect', async (t) => {
  const { client, url } = await start(t, ['messages']);
  const wrong = new Anthropic({ baseURL: url, apiKey: 'hr_wrong', maxRetries: 0 });
  await t.rejects(counted(wrong), AuthenticationError);
  await t.rejects(counted(client, { ...ask, model: 'nobody' }), NotFoundError);
  await t.rejects(counted(client, { model: MODEL }), BadRequestError);
  const unknown = await fetch(url + PATH, {
    method: 'POST',
    headers: { 'x-api-key': KEY, 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
    body: '{"model":"nobody"}',
  });
  t.match(await unknown.json(), { type: 'error', error: { type: 'not_found_error' } });
  const keyless = await fetch(url + PATH, {
    method: 'POST',
    body: JSON.stringify(ask),
    headers: { 'content-type': 'application/json' },
  });
  t.equal(keyless.status, 401);
  t.equal((await fetch(url + PATH)).status, 405);
});

t.test('costs nothing, and counts as a request of its key', async (t) => {
  const engine = await startTokenizer(t, 'vllm');
  const { client } = await start(t, [], {
    store: 'sqlite::memory:',
    models: { [MODEL]: { servers: [engine.url], pricing: { prompt: '0.001', completion: '0.001' } } },
    keys: { static: [{ key: KEY, account: 'tests', prepaid: true, rpm: 2 }] },
  });
  const { data, response } = await client.messages.countTokens(ask).withResponse();
  t.equal(data.input_tokens, TEMPLATED);
  t.equal(response.headers.get('anthropic-ratelimit-requests-limit'), '2');
  await t.rejects(client.messages.create({ ...ask, max_tokens: 4 }), PaymentRequiredError, 'the account has no credit');
  await t.rejects(
    counted(client).then(() => counted(client)),
    RateLimitError,
  );
});

t.test('the simulated host counts as it would charge, with its own endpoint and with its tokenizer', async (t) => {
  for (const dialects of [undefined, ['chat', 'llama']] as const) {
    const system = await startSystem(t, { hosts: [dialects === undefined ? {} : { dialects }] });
    const client = new Anthropic({ baseURL: system.url, apiKey: KEY, maxRetries: 0 });
    const { estimate, tokens } = await counted(client);
    const { usage } = await client.messages.create({ ...ask, max_tokens: 4 });
    t.equal(estimate, null);
    t.equal(tokens, usage.input_tokens);
  }
});
