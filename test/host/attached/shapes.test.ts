// Hosts, and a gateway before them, in front of engines with APIs of their own: Ollama and vLLM as their documentation shows them,
// and llama-server's paths beside the dialects.
import t from 'tap';
import type { Test } from 'tap';
import { createGateway } from '../../../src/gateway/gateway.ts';
import { attachEngine } from '../../../src/host/attached/attached-engine.ts';
import { describeEngine } from '../../../src/host/attached/detect.ts';
import { createHost } from '../../../src/host/index.ts';
import { type FakeEngine, events, json } from '../../support/fake-engine.ts';
import {
  failureBody,
  finalFrame,
  LLAMA_MODEL,
  partialFrame,
  startFakeLlamaServer,
} from '../../support/fake-llama-server.ts';
import { OLLAMA_MODEL, startFakeOllama } from '../../support/fake-ollama.ts';
import { startFakeVllm, vllmError, VLLM_MODEL } from '../../support/fake-vllm.ts';
import { settingsFor } from '../../support/system.ts';
import { type Answer, dataOf } from '../llama/ask.ts';
import { attach, begin, complete, refusedPlaces } from './attach.ts';

const MODEL = 'small';
const MESSAGES = [{ role: 'user', content: 'Hi' }];

interface Places {
  readonly fake: FakeEngine;
  readonly host: string;
  readonly gateway: string;
}

/** A host named `small` in front of the engine, and a gateway in front of it. */
async function started(t: Test, starting: Promise<FakeEngine>): Promise<Places> {
  const fake = await starting;
  t.teardown(() => fake.close());
  const engine = await attachEngine({ url: fake.url, models: [MODEL] });
  const host = createHost({ models: [MODEL], engine });
  t.teardown(() => host.kill());
  await host.listen();
  const gateway = createGateway({
    ...settingsFor([host]),
    models: { [MODEL]: { servers: [host.url] } },
    keys: { required: false },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  fake.forget();
  return { fake, host: host.url, gateway: url };
}

async function post(
  url: string,
  path: string,
  body: object,
): Promise<{ status: number; text: string; answer: Answer }> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url + path, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: MODEL, ...body }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  return { status: response.status, text, answer: isJson ? JSON.parse(text) : null };
}

t.test('Ollama is recognised by its version', async (t) => {
  const { engine } = await attach(t, startFakeOllama());
  t.equal(engine.kind, 'ollama');
  t.equal(engine.contextTokens(OLLAMA_MODEL), 4096, 'of the model as it is loaded');
  t.match(
    describeEngine(engine.detected),
    /is Ollama 0\.12\.6 with llama3\.2:latest \(4096 tokens\): .*\/v1\/completions, .*; without .*logit_bias, n_probs/,
  );
  const { engine: other } = await attach(t, startFakeOllama({ loaded: false }));
  t.equal(other.contextTokens(OLLAMA_MODEL), 0, 'before that nobody knows');
});

t.test('a host of Ollama completes in the llama style, and refuses what Ollama would ignore', async (t) => {
  const { engine, fake } = await attach(t, startFakeOllama());
  const { texts, end } = await complete(engine, { n_predict: 2, temperature: 0.5 });
  t.equal(texts.join(''), 'Hello');
  t.match(end, { reason: 'limit', promptTokens: 9, generatedTokens: 2 });
  t.match(fake.last('/v1/completions').body, { model: OLLAMA_MODEL, prompt: 'Hi', max_tokens: 2, temperature: 0.5 });
  const options = {
    top_k: 3,
    min_p: 0.2,
    repeat_penalty: 1.3,
    logit_bias: [[5, 1]],
    n_probs: 2,
    grammar: 'root ::= "a"',
  };
  t.same(
    refusedPlaces(() => begin(engine, options)).toSorted(),
    Object.keys(options)
      .map((name) => `body.${name}`)
      .toSorted(),
  );
  t.same(
    refusedPlaces(() => begin(engine, {}, { kind: 'parts', parts: [7, 8] })),
    ['body.prompt'],
  );
});

t.test('the API of Ollama passes a host, but for what changes its models', async (t) => {
  const { fake, host } = await started(t, startFakeOllama());
  const chat = await post(host, '/api/chat', { messages: MESSAGES });
  const parts = chat.text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Answer);
  t.equal(parts.map(({ message }) => message.content).join(''), 'Hello');
  t.match(parts.at(-1), { done: true, eval_count: 2 });
  t.equal(fake.last('/api/chat').body['model'], OLLAMA_MODEL, 'under the name that Ollama knows');
  t.match((await post(host, '/api/generate', { prompt: 'Hi', stream: false })).answer, {
    response: 'Hello',
    done: true,
  });
  t.match((await post(host, '/api/embed', { input: 'Hi' })).answer, { embeddings: [[0.01, -0.001]] });
  for (const [path, answer] of [
    ['/api/tags', { models: [{ name: OLLAMA_MODEL }] }],
    ['/api/ps', { models: [{ context_length: 4096 }] }],
    ['/api/version', { version: '0.12.6' }],
  ] as const) {
    t.match(await (await fetch(host + path)).json(), answer, path);
  }
  for (const path of ['/api/pull', '/api/delete', '/api/create']) {
    t.equal((await post(host, path, {})).status, 404, path);
  }
});

t.test('Ollama is well while its version is there', async (t) => {
  const { engine, fake } = await attach(t, startFakeOllama(), { watchMs: 1 });
  const asked = Promise.withResolvers<void>();
  const version = fake.answers.get('/api/version')!;
  fake.answers.set('/api/version', (request, response) => {
    version(request, response);
    response.on('finish', () => asked.resolve());
  });
  await asked.promise;
  t.equal(engine.health(), 'ready', 'it has no /health');
});

t.test('vLLM answers a host and a gateway in its own shapes', async (t) => {
  const { fake, host, gateway } = await started(t, startFakeVllm());
  const refused = vllmError(400, 'max_tokens must be at least 1, got 0.');
  fake.answers.set('/v1/chat/completions', json(refused, 400));
  for (const url of [host, gateway]) {
    const { status, answer } = await post(url, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 0 });
    t.equal(status, 400);
    t.match(answer, refused, 'its error passes as it is');
    t.equal(fake.last('/v1/chat/completions').body['model'], VLLM_MODEL);
    const whole = await post(url, '/completions', { prompt: 'Hi', n_predict: 2, top_k: 5 });
    t.match(whole.answer, { content: 'Hello', stop_type: 'limit', id_slot: -1, tokens_cached: 4 });
    t.match(fake.last('/v1/completions').body, { top_k: 5, max_tokens: 2, prompt: 'Hi' });
    const other = await post(url, '/completions', { prompt: 'Hi', n_predict: 2, dry_multiplier: 1, json_schema: {} });
    t.equal(other.status, 422);
    t.same(
      other.answer.detail.map(({ loc }: Answer) => loc.at(-1)),
      ['dry_multiplier', 'json_schema'],
    );
    t.same((await post(url, '/tokenize', { content: 'Hé' })).answer, { tokens: [72, 0xc3, 0xa9] });
    t.same((await post(url, '/tokenize', { content: 'H', add_special: true })).answer, { tokens: [1, 72] });
    t.same((await post(url, '/detokenize', { tokens: [72] })).answer, { content: 'H' });
    t.equal((await post(url, '/tokenize', { content: 'H', with_pieces: true })).status, 422);
    t.equal((await post(url, '/tokenize', { content: 'H', parse_special: true })).status, 422);
  }
  t.match(await (await fetch(`${host}/v1/models`)).json(), { data: [{ id: MODEL, max_model_len: 4096 }] });
  t.match(await (await fetch(`${host}/version`)).json(), { version: '0.11.0' });
  t.match(await (await fetch(`${host}/props`)).json(), { total_slots: 0, model_alias: MODEL });
  fake.answers.set('/metrics', (_, response) => response.end('# TYPE vllm:num_requests_running gauge\nvllm:x 3\n'));
  t.match(await (await fetch(`${host}/metrics`)).text(), /^vllm:x 3$/m);
  fake.answers.set('/v1/score', json({ data: [{ score: 1 }] }));
  t.match((await post(host, '/v1/score', { text_1: 'a', text_2: 'b' })).answer, { data: [{ score: 1 }] });
  const counted = await post(host, '/v1/messages/count_tokens', { messages: MESSAGES });
  t.equal(counted.status, 404);
  t.match(counted.answer, { detail: /\(vllm\) does not serve \/v1\/messages\/count_tokens; it serves \/v1\/compl/ });
});

t.test("llama-server's own paths reach it", async (t) => {
  const { fake, host, gateway } = await started(t, startFakeLlamaServer());
  const answers: Readonly<Record<string, object>> = {
    '/apply-template': { prompt: '<|user|>Hi' },
    '/rerank': { results: [{ index: 0, relevance_score: 0.5 }] },
    '/v1/reranking': { results: [] },
    '/embedding': [{ index: 0, embedding: [[1]] }],
    '/v1/messages/count_tokens': { input_tokens: 7 },
    '/v1/chat/completions/input_tokens': { input_tokens: 7 },
  };
  for (const [path, answer] of Object.entries(answers)) {
    fake.answers.set(path, json(answer));
    // The gateway counts chat requests on paths of its own.
    for (const url of path.startsWith('/v1/chat') ? [host] : [host, gateway]) {
      const got = await post(url, path, { messages: MESSAGES });
      t.same([got.status, got.answer], [200, answer], path);
      t.equal(fake.last(path).body['model'], LLAMA_MODEL, 'under its own name');
    }
  }
  fake.answers.set('/rerank', json(failureBody(501, 'start it with --reranking', 'not_supported_error'), 501));
  t.equal((await post(host, '/rerank', {})).status, 501);
  fake.answers.delete('/embedding');
  t.match((await post(host, '/embedding', {})).answer, { detail: /does not serve \/embedding; it serves/ });
  fake.answers.set('/embedding', json(failureBody(404, "model 'x' not found", 'not_found_error'), 404));
  t.match((await post(host, '/embedding', {})).answer, { error: { message: "model 'x' not found" } });
});

t.test('options and details of today go to llama-server and back', async (t) => {
  const { fake, host, gateway } = await started(t, startFakeLlamaServer());
  const others = {
    json_schema: { type: 'null' },
    dry_multiplier: 0.8,
    top_n_sigma: 1.5,
    xtc_probability: 0.2,
    future: [1],
  };
  for (const url of [host, gateway]) {
    await post(url, '/completions', { prompt: 'Hi', ...others, id_slot: 3 });
    const { body } = fake.last('/completion');
    t.match(body, { ...others, id_slot: 3 });
    t.notOk('samplers' in body, 'which order they have is for the engine to say');
    t.notOk('grammar' in body, 'beside an empty grammar a schema does not count');
    await post(url, '/completions', { prompt: 'Hi', samplers: ['dry'], t_max_predict_ms: 500 });
    t.match(fake.last('/completion').body, { samplers: ['dry'], t_max_predict_ms: 500 });
    await post(url, '/completions', { prompt: 'Hi', json_schema: { type: 'null' }, return_progress: true });
    t.match(fake.last('/completion').body, { samplers: ['penalties', 'top_k'], json_schema: { type: 'null' } });
    const refused = await post(url, '/completions', { prompt: 'Hi', n_cmpl: 2 });
    t.equal(refused.status, 422);
  }
  const timings = { predicted_n: 1, predicted_ms: 3 };
  const progress = { total: 9, cache: 0, processed: 4, time_ms: 2 };
  fake.answers.set(
    '/completion',
    events([
      partialFrame('', { tokens: [0], prompt_progress: progress, timings }),
      partialFrame('He', { tokens: [7], timings }),
      finalFrame({ timings: { ...timings, draft_n: 4 } }),
    ]),
  );
  const asked = { prompt: 'Hi', stream: true, return_tokens: true, timings_per_token: true, return_progress: true };
  const frames = dataOf((await post(gateway, '/completions', asked)).text);
  t.same(frames.slice(0, -1), [
    { content: '', stop: false, timings, prompt_progress: progress },
    { content: 'He', stop: false, tokens: [7], timings },
  ]);
  t.match(frames.at(-1), { stop: true, timings: { cache_n: Number, draft_n: 4 } });
  const bare = dataOf((await post(gateway, '/completions', { prompt: 'Hi', stream: true })).text);
  t.same(bare[0], { content: 'He', stop: false }, 'nothing of it without being asked');
  fake.answers.set('/completion', json(finalFrame({ content: 'é', tokens: [200, 201] })));
  const whole = await post(gateway, '/completions', { prompt: 'Hi', return_tokens: true });
  t.match(whole.answer, { content: 'é', tokens: [200, 201] }, 'streams leave out tokens within a character');
  t.equal(fake.last('/completion').body['stream'], false);
  const many = Array.from({ length: 150_000 }, (_, at) => at);
  fake.answers.set('/completion', json(finalFrame({ content: 'é', tokens: many })));
  const long = await post(gateway, '/completions', { prompt: 'Hi', return_tokens: true });
  t.same([long.status, long.answer.tokens?.length], [200, many.length], 'as many as a context has');
});

t.test('events of responses get the numbers that official clients need', async (t) => {
  const { fake, host } = await started(t, startFakeLlamaServer());
  const item = { id: 'msg_1', type: 'message', role: 'assistant', content: [] };
  const call = { id: 'fc_1', type: 'function_call', name: 'f', arguments: '' };
  const sent: object[] = [
    { type: 'response.created', response: { id: 'resp_1', object: 'response', status: 'in_progress' } },
    { type: 'response.output_item.added', item },
    { type: 'response.content_part.added', item_id: 'msg_1', part: { type: 'output_text', text: '' } },
    { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'Hi' },
    { type: 'response.output_item.done', item },
    { type: 'response.output_item.added', item: call },
    { type: 'response.function_call_arguments.delta', item_id: 'fc_1', delta: '{}', output_index: 5 },
    { type: 'response.completed', response: { id: 'resp_1', output: [item, call] } },
  ];
  const frames = sent.map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`);
  fake.answers.set('/v1/responses', events([...frames, ': a comment\n\n', 'data: [DONE]\n\n']));
  const { text } = await post(host, '/v1/responses', { input: 'x', stream: true });
  const got = dataOf(text);
  t.same(
    got.map((event) => [event.sequence_number, event.output_index, event.content_index]),
    [
      [0, undefined, undefined],
      [1, 0, undefined],
      [2, 0, 0],
      [3, 0, 0],
      [4, 0, undefined],
      [5, 1, undefined],
      [6, 5, undefined],
      [7, undefined, undefined],
    ],
  );
  t.same(got[0].response.output, []);
  t.same(got[2].part, { type: 'output_text', text: '', annotations: [] });
  t.match(got, sent, 'and nothing else changes');
  t.match(text, /^event: response\.created\n/);
  t.match(text, /\n\n: a comment\n\ndata: \[DONE\]\n\n$/, 'comments pass, and an event without a name gets none');
  fake.answers.set('/v1/responses', events(['data: {"type":"a"}\n\n', 'data: {"type":"response.completed"}\n']));
  const unended = await post(host, '/v1/responses', { input: 'x', stream: true });
  t.match(dataOf(unended.text), [{ type: 'a' }, { type: 'response.completed', sequence_number: 1 }], 'nor its end');
  const odd = ': first\nid: 7\nretry: 5\ndata: {"type":\ndata: "x"}\r\n\r\n';
  fake.answers.set('/v1/responses', events([odd, 'event: y\r\rdata: 1\r\r']));
  const other = await post(host, '/v1/responses', { input: 'x', stream: true });
  t.equal(
    other.text,
    ': first\nid: 7\nretry: 5\ndata: {"sequence_number":0,"type":"x"}\n\nevent: y\r\rdata: 1\r\r',
    'as do other fields and what is no object',
  );
});
