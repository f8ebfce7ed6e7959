import t from 'tap';

import { BufferedClient } from '../../src/net/buffered-client.ts';
import type { Member } from '../../src/routing/index.ts';
import { TokenCounter, type TokenCountRequest } from '../../src/upstream/token-counter.ts';
import { type Answer, type FakeEngine, json, startFakeEngine } from '../support/fake-engine.ts';
import { startTokenizer, type TokenizerKind } from '../support/tokenizers.ts';

const OWN = '/v1/messages/count_tokens?beta=true';
const HOUR_MS = 60 * 60 * 1000;

const client = new BufferedClient(4);
t.teardown(() => client.close());

const memberOf = ({ url }: FakeEngine, apiKey?: string): Member => ({
  ...{ url, server: 0, member: 0, hash: 0, apiKey, weight: 1, dialects: 0 },
});

const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hello' },
];
const chat = { model: 'm', messages, max_tokens: 5, temperature: 1, chat_template_kwargs: { enable_thinking: false } };

function requestOf(over: Partial<TokenCountRequest> = {}): TokenCountRequest {
  return {
    model: 'm',
    dialect: 'messages',
    keyChecked: false,
    path: OWN,
    body: Buffer.from(JSON.stringify({ model: 'm', messages: [] })),
    headers: ({ apiKey }) => ({
      'content-type': 'application/json',
      ...(apiKey !== undefined && { authorization: apiKey }),
    }),
    speaks: () => true,
    chat: () => Buffer.from(JSON.stringify(chat)),
    ...over,
  };
}

const never = new AbortController().signal;
const paths = ({ requests }: FakeEngine): string[] => requests.map(({ path }) => path);

/** The first token, the text, and the turns of the template. */
const TEXT = 'Be brief.Hello'.length;
const TEMPLATED = 1 + TEXT + '<turn><turn><answer>'.length;

const EXPECTED: Readonly<Record<TokenizerKind, { tokens: number | null; asked: string[]; again: string[] }>> = {
  messages: { tokens: null, asked: [OWN], again: [OWN] },
  vllm: { tokens: TEMPLATED, asked: [OWN, '/tokenize'], again: ['/tokenize'] },
  llama: {
    tokens: TEMPLATED,
    asked: [OWN, '/tokenize', '/apply-template', '/tokenize'],
    again: ['/apply-template', '/tokenize'],
  },
  sglang: {
    tokens: 1 + TEXT + 1,
    asked: [OWN, '/tokenize', '/apply-template', '/tokenize'],
    again: ['/tokenize'],
  },
  none: { tokens: null, asked: [OWN, '/tokenize', '/apply-template'], again: [] },
};

for (const [kind, { again, asked, tokens }] of Object.entries(EXPECTED)) {
  t.test(`counts with a server of kind ${kind}, and remembers what it lacks`, async (t) => {
    const engine = await startTokenizer(t, kind as TokenizerKind);
    let nowMs = 1;
    const counter = new TokenCounter(client, () => nowMs);
    const count = async (): Promise<unknown> => {
      const counted = await counter.count([memberOf(engine)], requestOf(), never);
      return counted === null ? null : (counted.tokens ?? JSON.parse(counted.answer?.body.toString() ?? ''));
    };
    const expected = kind === 'messages' ? { input_tokens: 77 } : tokens;
    t.strictSame(await count(), expected);
    t.strictSame(paths(engine), asked);
    engine.forget();
    t.strictSame(await count(), expected);
    t.strictSame(paths(engine), again);
    engine.forget();
    nowMs += HOUR_MS;
    t.strictSame(await count(), expected);
    t.strictSame(paths(engine), asked, 'an hour later it is asked again');
  });
}

t.test('sends what becomes prompt, and the credential of the CRN', async (t) => {
  const engine = await startTokenizer(t, 'vllm');
  const tools = [{ type: 'function', function: { name: 'f' } }];
  const counter = new TokenCounter(client, () => 0);
  await counter.count(
    [memberOf(engine, 'secret')],
    requestOf({ speaks: () => false, chat: () => Buffer.from(JSON.stringify({ ...chat, tools })) }),
    never,
  );
  t.strictSame(paths(engine), ['/tokenize'], 'its own endpoint is not asked in a dialect that it lacks');
  const { body, headers } = engine.last('/tokenize');
  t.strictSame(body, {
    model: 'm',
    messages,
    tools,
    chat_template_kwargs: chat.chat_template_kwargs,
    add_generation_prompt: true,
  });
  t.equal(headers.authorization, 'secret');
});

t.test("passes on what the CRN's own endpoint says of a bad request", async (t) => {
  const engine = await startTokenizer(t, 'messages');
  const counter = new TokenCounter(client, () => 0);
  const counted = await counter.count([memberOf(engine)], requestOf({ body: Buffer.from('{}') }), never);
  t.equal(counted?.answer?.status, 400);
  t.match(counted?.answer?.body.toString(), /messages: missing/);
});

t.test('a 404 of what a request names says nothing about the next request', async (t) => {
  const path = '/v1/responses/input_tokens';
  const answers = new Map<string, Answer>();
  const engine = await startFakeEngine(answers, json({ detail: 'Not Found' }, 404));
  t.teardown(() => engine.close());
  const counter = new TokenCounter(client, () => 0);
  const request = requestOf({ dialect: 'responses', path });
  answers.set(path, json({ error: { message: "Previous response with id 'resp_1' not found." } }, 404));
  await counter.count([memberOf(engine)], request, never);
  answers.set(path, json({ object: 'response.input_tokens', input_tokens: 9 }));
  const counted = await counter.count([memberOf(engine)], request, never);
  t.match(counted?.answer?.body.toString(), /"input_tokens":9/);
});

t.test('takes a 200 without a count for an unknown path', async (t) => {
  for (const body of ['<html></html>', '{}', '{"input_tokens":"7"}']) {
    const engine = await startTokenizer(t, 'vllm');
    engine.answers.set(OWN, (_, response) => response.end(body));
    const counter = new TokenCounter(client, () => 0);
    for (let round = 0; round < 2; round++) {
      t.equal((await counter.count([memberOf(engine)], requestOf(), never))?.tokens, TEMPLATED, body);
    }
    t.strictSame(paths(engine), [OWN, '/tokenize', '/tokenize']);
  }
});

t.test('asks the next CRN when one fails, is busy, or has another model', async (t) => {
  const good = await startTokenizer(t, 'vllm');
  const failures: readonly (readonly [number, object])[] = [
    [500, {}],
    [429, {}],
    [401, {}],
    [404, { error: { message: 'The model `m` does not exist.', type: 'NotFoundError', code: 404 } }],
  ];
  for (const [status, body] of failures) {
    const bad = await startTokenizer(t, 'none');
    for (const path of [OWN, '/tokenize']) bad.answers.set(path, json(body, status));
    const counter = new TokenCounter(client, () => 0);
    const members = [memberOf(bad, 'k'), memberOf(good)];
    const counted = await counter.count(members, requestOf(), never);
    t.equal(counted?.tokens, TEMPLATED, `${status}`);
    t.equal(counted?.member.url, good.url);
    bad.answers.clear();
    bad.answers.set('/tokenize', good.answers.get('/tokenize') as never);
    t.equal((await counter.count(members, requestOf(), never))?.member.url, bad.url, 'nothing is held against it');
  }
  const broken = await startTokenizer(t, 'none');
  broken.answers.set('/tokenize', (_, response) => response.end('{"count":'));
  const counter = new TokenCounter(client, () => 0);
  t.equal((await counter.count([memberOf(broken), memberOf(good)], requestOf(), never))?.member.url, good.url);
  await broken.close();
  t.equal((await counter.count([memberOf(broken), memberOf(good)], requestOf(), never))?.member.url, good.url);
});

t.test('asks at most three', async (t) => {
  const members = await Promise.all([1, 2, 3, 4].map(() => startTokenizer(t, 'none')));
  for (const engine of members) engine.answers.set('/tokenize', json({}, 500));
  t.equal(
    await new TokenCounter(client, () => 0).count(
      members.map((each) => memberOf(each)),
      requestOf(),
      never,
    ),
    null,
  );
  t.strictSame(
    members.map(({ requests }) => requests.length > 0),
    [true, true, true, false],
  );
});

t.test('gives up when a prompt cannot be carried, in time, or with the client', async (t) => {
  const engine = await startTokenizer(t, 'vllm');
  const counter = new TokenCounter(client, () => 0, 50);
  t.equal(await counter.count([memberOf(engine)], requestOf({ chat: () => null }), never), null);
  t.equal(await counter.count([], requestOf(), never), null);
  let hangs = Promise.withResolvers<void>();
  engine.answers.set('/tokenize', () => hangs.resolve());
  t.equal(await counter.count([memberOf(engine), memberOf(engine)], requestOf(), never), null);
  hangs = Promise.withResolvers();
  const gone = new AbortController();
  const counting = new TokenCounter(client, () => 0).count([memberOf(engine)], requestOf(), gone.signal);
  await hangs.promise;
  gone.abort(new Error('the client has gone'));
  await t.rejects(counting, { message: 'the client has gone' });
});

t.test('takes a refused prompt for one that cannot be counted', async (t) => {
  const engine = await startTokenizer(t, 'vllm');
  engine.answers.set('/tokenize', json({ error: { message: 'too long', code: 400 } }, 400));
  const counter = new TokenCounter(client, () => 0);
  t.equal(await counter.count([memberOf(engine)], requestOf({ speaks: () => false }), never), null);
});
