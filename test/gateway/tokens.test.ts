// Tokens and cost over a whole gateway: what answers of every dialect report, on open gateways too, with CRNs that lie, break off or
// count nothing.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { once } from 'node:events';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { WebSocket } from 'ws';
import type { Overview } from '../../src/admin/overview.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { serving } from '../support/serving.ts';
import { until } from '../support/system.ts';

const MODEL = 'm';
const JSON_TYPE = 'application/json';
const STREAM_TYPE = 'text/event-stream';
const TEXT = 'What is a headrace, and where does the water go?';

interface Tap {
  teardown(run: () => unknown): unknown;
}

/** What a CRN answers: its type, and pieces of its body that are written one after the other. */
interface Answer {
  readonly type: string;
  readonly pieces: readonly (string | Buffer)[];
  readonly status?: number;
  readonly encoding?: string;
  /** Ends by breaking the connection. */
  readonly breaks?: boolean;
  /** Does not end before the client leaves. */
  readonly hangs?: boolean;
}

type Counts = readonly [input: number, cached: number, output: number];

interface Scene {
  readonly url: string;
  /** Answers of the next attempts; the last one is repeated. */
  answers: Answer[];
  readonly post: (path: string, body: object, headers?: Record<string, string>) => Promise<number>;
  readonly overview: () => Promise<Overview>;
  /** What was counted since the last call. */
  readonly counted: () => Promise<Counts>;
}

async function reply(req: IncomingMessage, res: ServerResponse, next: () => Answer): Promise<void> {
  for await (const piece of req) void piece;
  if (req.method === 'GET') {
    res.writeHead(req.url === '/health' ? 200 : 404).end('{}');
    return;
  }
  const { breaks = false, encoding, hangs = false, pieces, status = 200, type } = next();
  res.writeHead(status, { 'content-type': type, ...(encoding !== undefined && { 'content-encoding': encoding }) });
  for (const piece of pieces) await new Promise<void>((resolve) => res.write(piece, () => resolve()));
  if (breaks) res.destroy();
  else if (!hangs) res.end();
}

async function open(t: Tap, more: SettingsInput = {}): Promise<Scene> {
  const scene: { answers: Answer[] } = { answers: [] };
  const next = (): Answer => (scene.answers.length > 1 ? scene.answers.shift() : scene.answers[0]) as Answer;
  const urls = [
    await serving(t, (req, res) => void reply(req, res, next)),
    await serving(t, (req, res) => void reply(req, res, next)),
  ];
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: '127.0.0.1:0', threads: 0, log: { level: 'silent' } },
    ...{ keys: { required: false }, models: { [MODEL]: { servers: urls } }, health: { interval: '1h' } },
    ...{ ejection: { consecutive: 100 }, routing: { retryBudget: 1, continue: 'off' } },
    ...more,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  const overview = async (): Promise<Overview> => {
    // Not the document, which is kept for a second.
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const of = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? 0);
    const tokens = {
      input: of(`headrace_tokens_total\\{model="${MODEL}",type="input"\\}`),
      cached: of(`headrace_tokens_total\\{model="${MODEL}",type="cached"\\}`),
      output: of(`headrace_tokens_total\\{model="${MODEL}",type="output"\\}`),
    };
    const costUsd = of(`headrace_cost_usd_total\\{model="${MODEL}"\\}`);
    return { models: [{ model: MODEL, tokens, costUsd }] } as unknown as Overview;
  };
  let before: Counts = [0, 0, 0];
  return Object.assign(scene, {
    url,
    overview,
    post: async (path: string, body: object, headers: Record<string, string> = {}): Promise<number> => {
      const sent = { 'content-type': JSON_TYPE, ...headers };
      const response = await gateway.inject({ method: 'POST', path, headers: sent, body: JSON.stringify(body) });
      return response.status;
    },
    counted: async (): Promise<Counts> => {
      const { cached, input, output } = (await overview()).models[0]!.tokens;
      const grown: Counts = [input - before[0], cached - before[1], output - before[2]];
      before = [input, cached, output];
      return grown;
    },
  });
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const event = (value: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${value.type}\n${data(value)}`;
const DONE = 'data: [DONE]\n\n';
const openai = (prompt: unknown, completion: unknown, cached?: unknown): object => ({
  ...{ prompt_tokens: prompt, completion_tokens: completion },
  ...(cached !== undefined && { prompt_tokens_details: { cached_tokens: cached } }),
});
const chatAnswer = (usage: unknown, text = 'It goes down.'): Answer => ({
  type: JSON_TYPE,
  pieces: [
    JSON.stringify({
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
      usage,
    }),
  ],
});
const delta = (content: string, more: object = {}): string =>
  data({ choices: [{ index: 0, delta: { content } }], ...more });
const stop = (more: object = {}): string =>
  data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], ...more });
const chatStream = (...pieces: string[]): Answer => ({ type: STREAM_TYPE, pieces });
const CHAT = { model: MODEL, messages: [{ role: 'user', content: TEXT }] };
/** The estimate of accounts: a quarter of the bytes that become prompt. */
const ESTIMATE = Math.ceil(JSON.stringify(CHAT.messages).length / 4);

t.test('an open gateway counts what answers of every dialect report', async (t) => {
  const scene = await open(t);
  const usage = openai(40, 9, 16);
  const items = { input_tokens: 40, output_tokens: 9, input_tokens_details: { cached_tokens: 16 } };
  const message = { input_tokens: 20, cache_read_input_tokens: 16, cache_creation_input_tokens: 4, output_tokens: 1 };
  const response = {
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'a' }] }],
    usage: items,
  };
  const timings = { cache_n: 16, prompt_n: 24, predicted_n: 9 };
  const rows: readonly (readonly [title: string, path: string, body: object, answer: Answer, counts: Counts])[] = [
    ['chat', '/v1/chat/completions', CHAT, chatAnswer(usage), [40, 16, 9]],
    ['chat, several choices', '/v1/chat/completions', { ...CHAT, n: 2 }, chatAnswer(openai(40, 18)), [40, 0, 18]],
    [
      'chat, null details',
      '/v1/chat/completions',
      CHAT,
      chatAnswer({ ...openai(40, 9), prompt_tokens_details: null }),
      [40, 0, 9],
    ],
    ['chat, long', '/v1/chat/completions', CHAT, chatAnswer(usage, 'x'.repeat(400_000)), [40, 16, 9]],
    [
      'chat stream, counts apart',
      '/v1/chat/completions',
      { ...CHAT, stream: true },
      chatStream(delta('It '), delta('goes'), stop(), data({ choices: [], usage }), DONE),
      [40, 16, 9],
    ],
    [
      'chat stream, counts in the last chunk, null before',
      '/v1/chat/completions',
      { ...CHAT, stream: true },
      chatStream(delta('It', { usage: null }), delta(' goes', { usage: null }), stop({ usage }), DONE),
      [40, 16, 9],
    ],
    [
      'chat stream, cut inside of the counts',
      '/v1/chat/completions',
      { ...CHAT, stream: true },
      chatStream(
        delta('It'),
        stop() + data({ choices: [], usage }).slice(0, 40),
        data({ choices: [], usage }).slice(40) + DONE,
      ),
      [40, 16, 9],
    ],
    [
      'chat stream, running totals',
      '/v1/chat/completions',
      { ...CHAT, stream: true },
      chatStream(
        delta('It', { usage: openai(40, 1, 16) }),
        delta(' goes', { usage: openai(40, 8, 16) }),
        stop({ usage }),
        DONE,
      ),
      [40, 16, 9],
    ],
    [
      'completions',
      '/v1/completions',
      { model: MODEL, prompt: TEXT },
      { type: JSON_TYPE, pieces: [JSON.stringify({ choices: [{ text: 'a' }], usage })] },
      [40, 16, 9],
    ],
    [
      'responses',
      '/v1/responses',
      { model: MODEL, input: TEXT },
      { type: JSON_TYPE, pieces: [JSON.stringify(response)] },
      [40, 16, 9],
    ],
    [
      'responses stream',
      '/v1/responses',
      { model: MODEL, input: TEXT, stream: true },
      chatStream(
        event({
          type: 'response.created',
          response: { ...response, tools: [{ usage: { input_tokens: 7, output_tokens: 7 } }], usage: null },
        }),
        event({ type: 'response.output_text.delta', delta: 'a' }),
        event({ type: 'response.completed', response }),
      ),
      [40, 16, 9],
    ],
    [
      'messages',
      '/v1/messages',
      { ...CHAT, max_tokens: 20 },
      {
        type: JSON_TYPE,
        pieces: [
          JSON.stringify({
            type: 'message',
            content: [{ type: 'text', text: 'a' }],
            usage: { ...message, output_tokens: 9 },
          }),
        ],
      },
      [40, 16, 9],
    ],
    [
      'messages stream',
      '/v1/messages',
      { ...CHAT, max_tokens: 20, stream: true },
      chatStream(
        event({ type: 'message_start', message: { content: [], usage: message } }),
        event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
        event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } }),
        event({ type: 'content_block_stop', index: 0 }),
        event({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 9 } }),
        event({ type: 'message_stop' }),
      ),
      [40, 16, 9],
    ],
    [
      'llama',
      '/completions',
      { model: MODEL, prompt: TEXT },
      { type: JSON_TYPE, pieces: [JSON.stringify({ content: 'a', stop: true, timings })] },
      [40, 16, 9],
    ],
    [
      'llama stream',
      '/completions',
      { model: MODEL, prompt: TEXT, stream: true },
      chatStream(
        data({ content: 'a', stop: false }),
        data({ content: 'b', stop: false }),
        data({ content: '', stop: true, timings }),
      ),
      [40, 16, 9],
    ],
    [
      'Ollama',
      '/api/generate',
      { model: MODEL, prompt: TEXT },
      {
        type: JSON_TYPE,
        pieces: [
          `${JSON.stringify({ response: 'a' })}\n`,
          JSON.stringify({ done: true, prompt_eval_count: 40, eval_count: 9 }),
        ],
      },
      [40, 0, 9],
    ],
    [
      'embeddings',
      '/v1/embeddings',
      { model: MODEL, input: TEXT },
      {
        type: JSON_TYPE,
        pieces: [
          JSON.stringify({
            data: [{ embedding: Array.from({ length: 999 }, () => 0.1) }],
            usage: { prompt_tokens: 12, total_tokens: 12 },
          }),
        ],
      },
      [12, 0, 0],
    ],
    [
      'an answer of a path without tokens',
      '/tokenize',
      { model: MODEL, content: TEXT },
      { type: JSON_TYPE, pieces: ['{"tokens":[1,2,3]}'] },
      [0, 0, 0],
    ],
  ];
  for (const [title, path, body, answer, counts] of rows) {
    scene.answers = [answer];
    t.equal(await scene.post(path, body), 200, title);
    t.same(await scene.counted(), counts, title);
  }
});

t.test('what answers do not count is estimated as for accounts, and lies are not believed', async (t) => {
  const scene = await open(t);
  const text = 'It goes down the weir and through the turbine.';
  const estimate: Counts = [ESTIMATE, 0, Math.ceil(text.length / 4)];
  const lies: readonly unknown[] = [
    ...[undefined, null, {}, [], 'many', 7, openai(-1, -9), openai('40', '9'), openai(1e300, 1e300), openai(1.5, 2.5)],
    openai(0, 0),
  ];
  for (const usage of lies) {
    scene.answers = [chatAnswer(usage, text)];
    t.equal(await scene.post('/v1/chat/completions', CHAT), 200);
    t.same(await scene.counted(), estimate, JSON.stringify(usage));
  }
  const nan = chatAnswer(undefined, text).pieces[0] as string;
  scene.answers = [{ type: JSON_TYPE, pieces: [`${nan.slice(0, -1)},"usage":{"prompt_tokens":NaN}}`] }];
  await scene.post('/v1/chat/completions', CHAT);
  const [input, , output] = await scene.counted();
  t.equal(input, ESTIMATE);
  t.ok(output > 0 && output < 100, `${output} tokens of an answer that is no JSON`);
  scene.answers = [chatAnswer(openai(99_999_999, 99_999_999, 99_999_999), text)];
  await scene.post('/v1/chat/completions', { ...CHAT, max_tokens: 20 });
  const [most, cached, written] = await scene.counted();
  t.ok(most < 1000, `${most} tokens of a prompt of ${TEXT.length} bytes`);
  t.ok(cached <= most);
  t.equal(written, 20);
  scene.answers = [chatStream(...Array.from(text, (letter) => delta(letter)), stop(), DONE)];
  await scene.post('/v1/chat/completions', { ...CHAT, stream: true });
  t.same(await scene.counted(), estimate, 'a stream without counts');
  scene.answers = [{ type: JSON_TYPE, pieces: ['{"data":[{"embedding":[0.1,0.2]}]}'] }];
  const asked = { model: MODEL, input: TEXT };
  await scene.post('/v1/embeddings', asked);
  t.same(await scene.counted(), [Math.ceil(JSON.stringify(asked).length / 4), 0, 0], 'embeddings without counts');
});

t.test(
  'only what was delivered counts: no failed attempt, no error, and a part of an answer that broke off',
  async (t) => {
    const scene = await open(t);
    const usage = openai(40, 9, 16);
    const failures: Answer[] = [
      { type: JSON_TYPE, status: 500, pieces: [JSON.stringify({ error: { message: 'no' }, usage })] },
      { type: JSON_TYPE, pieces: [JSON.stringify({ error: { message: 'no' }, usage })] },
      chatStream(data({ error: { message: 'no' }, usage })),
    ];
    for (const failure of failures) {
      scene.answers = [failure, chatAnswer(openai(30, 5))];
      t.equal(await scene.post('/v1/chat/completions', CHAT), 200);
      t.same(await scene.counted(), [30, 0, 5], 'the answer of the second CRN alone');
    }
    scene.answers = [{ type: JSON_TYPE, status: 400, pieces: [JSON.stringify({ error: { message: 'no' }, usage })] }];
    t.equal(await scene.post('/v1/chat/completions', CHAT), 400);
    t.same(await scene.counted(), [0, 0, 0], 'a refusal');
    scene.answers = [{ ...chatStream(delta('It goes down')), breaks: true }];
    await scene.post('/v1/chat/completions', { ...CHAT, stream: true }).catch(() => 0);
    t.same(await scene.counted(), [ESTIMATE, 0, 3], 'a stream that broke');
    scene.answers = [
      {
        ...chatStream(delta('It', { usage: openai(40, 1, 16) }), delta(' goes', { usage: openai(40, 7, 16) })),
        breaks: true,
      },
    ];
    await scene.post('/v1/chat/completions', { ...CHAT, stream: true }).catch(() => 0);
    t.same(await scene.counted(), [40, 16, 7], 'a stream that broke, with running totals');
    scene.answers = [{ ...chatStream(delta('It goes down')), hangs: true }];
    const gone = new AbortController();
    const body = JSON.stringify({ ...CHAT, stream: true });
    const headers = { 'content-type': JSON_TYPE };
    const left = await fetch(`${scene.url}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body,
      signal: gone.signal,
    });
    await left.body?.getReader().read();
    gone.abort();
    await until('it is counted', async () => {
      const { output } = (await scene.overview()).models[0]!.tokens;
      return output === 15 + 3 + 7 + 3;
    });
    t.same(await scene.counted(), [ESTIMATE, 0, 3], 'a client that left');
  },
);

t.test('an answer that is encoded although nobody asked for that is estimated by its bytes', async (t) => {
  const scene = await open(t);
  const zipped = gzipSync(chatAnswer(openai(40, 9)).pieces[0] as string);
  scene.answers = [{ type: JSON_TYPE, encoding: 'gzip', pieces: [zipped] }];
  t.equal(await scene.post('/v1/chat/completions', CHAT), 200);
  t.same(await scene.counted(), [ESTIMATE, 0, Math.ceil(zipped.byteLength / 4)]);
});

t.test('tokens have their price without a ledger; with one it is what was charged', async (t) => {
  const pricing = { prompt: '1', cached_prompt: '0.5', completion: '2' };
  const models = (scene: Scene): Promise<number> => scene.overview().then(({ models: [model] }) => model!.costUsd);
  const answer = chatAnswer(openai(40, 9, 16));
  const expected = (24 * 1 + 16 * 0.5 + 9 * 2) / 1e6;
  const near = (cost: number): boolean => Math.abs(cost - expected) < 1e-12;
  for (const isCharged of [false, true]) {
    const scene: Scene = await open(t, {
      ...(isCharged && { keys: { static: [{ key: 'k', account: 'a' }] }, store: 'sqlite::memory:' }),
    });
    const urls = [await serving(t, (req, res) => void reply(req, res, () => answer))];
    const priced = await open(t, {
      models: { [MODEL]: { servers: urls, pricing } },
      ...(isCharged && { keys: { static: [{ key: 'k', account: 'a' }] }, store: 'sqlite::memory:' }),
    });
    scene.answers = [answer];
    t.equal(await priced.post('/v1/chat/completions', CHAT, { authorization: 'Bearer k' }), 200);
    t.same(await priced.counted(), [40, 16, 9]);
    const cost = await models(priced);
    t.ok(near(cost), `${cost} USD, ${isCharged ? 'charged' : 'by the prices'}`);
    t.equal(await scene.post('/v1/chat/completions', CHAT, { authorization: 'Bearer k' }), 200);
    t.equal(await models(scene), 0, 'a free model');
  }
});

t.test('translated requests, background responses and turns of a WebSocket count as others do', async (t) => {
  const items = { input_tokens: 40, output_tokens: 9, input_tokens_details: { cached_tokens: 16 } };
  const output = [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'a' }] }];
  const response = { id: 'resp_1', object: 'response', status: 'completed', model: MODEL, output, usage: items };
  const events = chatStream(
    event({ type: 'response.created', response: { ...response, status: 'in_progress', usage: null } }),
    event({ type: 'response.output_text.delta', delta: 'a' }),
    event({ type: 'response.completed', response }),
  );
  const urls = [await serving(t, (req, res) => void reply(req, res, () => translatedAnswer))];
  const usage = openai(40, 9, 16);
  let translatedAnswer = chatAnswer(usage);
  const translating = await open(t, { models: { [MODEL]: { servers: urls, dialects: ['chat'] } } });
  t.equal(await translating.post('/v1/messages', { ...CHAT, max_tokens: 20 }), 200);
  t.same(await translating.counted(), [40, 16, 9], 'translated');
  translatedAnswer = chatStream(delta('It'), stop(), data({ choices: [], usage }), DONE);
  t.equal(await translating.post('/v1/messages', { ...CHAT, max_tokens: 20, stream: true }), 200);
  t.same(await translating.counted(), [40, 16, 9], 'a translated stream');

  const scene = await open(t, { keys: { static: [{ key: 'k', account: 'a' }] }, store: 'sqlite::memory:' });
  const { output: before } = (await scene.overview()).models[0]!.tokens;
  const isCounted = async (): Promise<boolean> => (await scene.overview()).models[0]!.tokens.output > before;
  scene.answers = [events];
  const headers = { authorization: 'Bearer k' };
  t.equal(await scene.post('/v1/responses', { model: MODEL, input: TEXT, background: true }, headers), 200);
  await until('the background response is counted', isCounted);
  t.same(await scene.counted(), [40, 16, 9], 'a background response');

  const socket = new WebSocket(`${scene.url.replace('http', 'ws')}/v1/responses`, { headers });
  t.teardown(() => socket.terminate());
  let ends = 0;
  socket.on('message', (text: Buffer) => {
    if (text.toString().includes('response.completed')) ends++;
  });
  await once(socket, 'open');
  for (const turn of [1, 2]) {
    socket.send(JSON.stringify({ type: 'response.create', model: MODEL, input: TEXT, store: false }));
    await until('the response', () => ends === turn);
  }
  await until('both are counted', async () => (await scene.overview()).models[0]!.tokens.output === before + 27);
  t.same(await scene.counted(), [80, 32, 18], 'two turns of a socket');
});
