// Hosts and a gateway in front of a real llama-server with tiny models (ops/real-engine/build.sh), in every dialect. Without a
// llama-server nothing is tested, and the output says so; with HEADRACE_TEST_REAL_ENGINE=required that is a failure.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import type { Test } from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { type AttachedEngine, attachEngine } from '../../src/host/attached/attached-engine.ts';
import { describeEngine } from '../../src/host/attached/detect.ts';
import { type Host, createHost } from '../../src/host/index.ts';
import { freePort } from '../support/free-port.ts';
import { settingsFor, until } from '../support/system.ts';
import { type Answer, dataOf } from './llama/ask.ts';

const FOLDER = resolve(process.env['HEADRACE_TEST_REAL_ENGINE_FOLDER'] ?? '.real-engine');
const PROGRAM = process.env['HEADRACE_TEST_LLAMA_SERVER'] ?? join(FOLDER, 'llama-server');

const MODEL = 'tiny';
const KEYS = [
  { key: 'hr_anna', account: 'anna' },
  { key: 'hr_ben', account: 'ben' },
];

/** A llama-server as a process of its own. */
interface Server {
  readonly url: string;
  /** Ends it without a chance to say so. */
  kill(): Promise<void>;
  /** Starts it again on the same port. */
  start(): Promise<void>;
}

async function isWell(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    ({ status }) => status === 200,
    () => false,
  );
}

async function startServer(t: Test, model: string, ...options: string[]): Promise<Server> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child: ChildProcess | null = null;
  const server: Server = {
    url,
    async start() {
      const given = ['--model', join(FOLDER, `${model}.gguf`), '--port', String(port), '--threads', '1', ...options];
      child = spawn(PROGRAM, given, { stdio: 'ignore' });
      await until(`llama-server with ${model} is ready`, () => isWell(url));
    },
    async kill() {
      if (child === null || child.exitCode !== null || child.signalCode !== null) return;
      const ended = new Promise((done) => child?.once('exit', done));
      child.kill('SIGKILL');
      await ended;
    },
  };
  t.teardown(() => server.kill());
  await server.start();
  return server;
}

interface RealSystem {
  readonly engine: AttachedEngine;
  readonly host: Host;
  /** Base URLs of the host and of the gateway in front of it. */
  readonly places: readonly [string, string];
}

async function startSystem(t: Test, { url }: Server): Promise<RealSystem> {
  const engine = await attachEngine({ url, models: [MODEL], watchMs: 50 });
  const host = createHost({ models: [MODEL], engine, keys: KEYS });
  t.teardown(() => host.kill());
  await host.listen();
  const gateway = createGateway({
    ...settingsFor([host]),
    models: { [MODEL]: { servers: [host.url] } },
    keys: { static: KEYS },
  });
  t.teardown(() => gateway.close());
  const { url: front } = await gateway.listen();
  await gateway.ready();
  return { engine, host, places: [host.url, front] };
}

function send(url: string, path: string, body: object, init: RequestInit & { key?: string } = {}): Promise<Response> {
  const { key = 'hr_anna', ...rest } = init;
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return fetch(url + path, { method: 'POST', headers, body: JSON.stringify({ model: MODEL, ...body }), ...rest });
}

async function ask(url: string, path: string, body: object, key?: string): Promise<Answer> {
  const response = await send(url, path, body, key === undefined ? {} : { key });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

async function get(url: string, path: string): Promise<Answer> {
  return (await fetch(url + path, { headers: { authorization: 'Bearer hr_anna' } })).json();
}

async function events(url: string, path: string, body: object): Promise<Answer[]> {
  const response = await send(url, path, { ...body, stream: true });
  t.match(response.headers.get('content-type'), /^text\/event-stream/);
  return dataOf(await response.text());
}

const MESSAGES = [{ role: 'user', content: 'How hot is the water by the mill?' }] as const;

/** One request of each dialect with what it says, whole and from the events of a stream. */
const DIALECTS: readonly {
  readonly path: string;
  readonly body: object;
  readonly whole: (answer: Answer) => string;
  readonly piece: (event: Answer) => string;
  readonly tokens: (answer: Answer) => [number, number];
}[] = [
  {
    path: '/v1/completions',
    body: { prompt: 'The water', max_tokens: 12, temperature: 0 },
    whole: ({ choices }) => choices[0].text,
    piece: ({ choices }) => choices?.[0]?.text ?? '',
    tokens: ({ usage }) => [usage.prompt_tokens, usage.completion_tokens],
  },
  {
    path: '/v1/chat/completions',
    body: { messages: MESSAGES, max_tokens: 12, temperature: 0 },
    whole: ({ choices }) => choices[0].message.content,
    piece: ({ choices }) => choices?.[0]?.delta?.content ?? '',
    tokens: ({ usage }) => [usage.prompt_tokens, usage.completion_tokens],
  },
  {
    path: '/v1/responses',
    body: { input: MESSAGES[0].content, max_output_tokens: 12, temperature: 0 },
    whole: ({ output }) => output.find(({ type }: Answer) => type === 'message').content[0].text,
    piece: ({ type, delta }) => (type === 'response.output_text.delta' ? delta : ''),
    tokens: ({ usage }) => [usage.input_tokens, usage.output_tokens],
  },
  {
    path: '/v1/messages',
    body: { messages: MESSAGES, max_tokens: 12, temperature: 0 },
    whole: ({ content }) => content[0].text,
    piece: ({ delta }) => delta?.text ?? '',
    tokens: ({ usage }) => [usage.input_tokens + (usage.cache_read_input_tokens ?? 0), usage.output_tokens],
  },
  {
    path: '/completions',
    body: { prompt: 'The water', n_predict: 12, temperature: 0 },
    whole: ({ content }) => content,
    piece: ({ content }) => content ?? '',
    tokens: ({ tokens_evaluated, tokens_predicted }) => [tokens_evaluated, tokens_predicted],
  },
];

async function testChat(t: Test): Promise<void> {
  const server = await startServer(t, 'tiny-chat', '--ctx-size', '4096', '--parallel', '2', '--metrics', '--jinja');
  const { engine, host, places } = await startSystem(t, server);
  const [direct, front] = places;

  t.test('it is found with everything it has', async (t) => {
    t.match(describeEngine(engine.detected), /is llama-server \S+ with \S+ \(2048 tokens\): 2 slots, infill, tokenize/);
    for (const path of ['/v1/completions', '/v1/chat/completions', '/v1/responses', '/v1/messages']) {
      t.ok(engine.detected.dialects.has(path), path);
    }
    t.match(await get(direct, '/props'), {
      chat_template: /im_start/,
      build_info: String,
      total_slots: 2,
      model_alias: MODEL,
      default_generation_settings: { n_ctx: 2048, params: { cache_prompt: false, repeat_penalty: 1.1 } },
    });
    t.match((await get(direct, '/v1/models')).data, [{ id: MODEL, max_model_len: 2048, meta: { n_embd: 64 } }]);
    t.equal((await get(direct, '/slots')).length, 2);
    const metrics = await (await fetch(`${direct}/metrics`)).text();
    t.match(metrics, /^llamacpp:prompt_tokens_total \d/m);
  });

  for (const { path, body, whole, piece, tokens } of DIALECTS) {
    t.test(`${path} says the same whole and streamed, at the host and through the gateway`, async (t) => {
      const answer = await ask(direct, path, body);
      const text = whole(answer);
      t.ok(text.length > 0);
      const [prompt, output] = tokens(answer);
      t.ok(prompt > 2);
      t.equal(output, 12);
      t.equal(whole(await ask(front, path, body)), text);
      for (const url of places) {
        const streamed = (await events(url, path, body)).map(piece).join('');
        t.equal(streamed, text, url);
      }
    });
  }

  t.test('prompts are counted as they are used', async (t) => {
    for (const url of places) {
      const { input_tokens } = await ask(url, '/v1/messages/count_tokens', { messages: MESSAGES });
      const { usage } = await ask(url, '/v1/messages', { messages: MESSAGES, max_tokens: 1 });
      t.equal(input_tokens, usage.input_tokens + (usage.cache_read_input_tokens ?? 0));
    }
    const { input_tokens } = await ask(direct, '/v1/chat/completions/input_tokens', { messages: MESSAGES });
    const { usage } = await ask(direct, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 1 });
    t.equal(input_tokens, usage.prompt_tokens);
  });

  t.test('text and tokens turn into each other', async (t) => {
    const content = 'the water é<s>';
    for (const url of places) {
      const { tokens } = await ask(url, '/tokenize', { content, parse_special: false });
      t.same(await ask(url, '/detokenize', { tokens }), { content });
      const { tokens: begun } = await ask(url, '/tokenize', { content, add_special: true, parse_special: false });
      t.same(begun.slice(1), tokens);
      const { tokens: pieces } = await ask(url, '/tokenize', { content, with_pieces: true, parse_special: false });
      t.same(
        pieces.map(({ id }: Answer) => id),
        tokens,
      );
      t.ok(pieces.some(({ piece }: Answer) => Array.isArray(piece)));
    }
    const { prompt } = await ask(direct, '/apply-template', { messages: MESSAGES });
    t.match(prompt, /^<\|im_start\|>user\n.*<\|im_start\|>assistant\n$/s);
  });

  t.test('infills come whole and streamed, with other files', async (t) => {
    const body = { input_prefix: 'the mill ', input_suffix: ' the river', n_predict: 8, temperature: 0 };
    const around = { input_extra: [{ filename: 'a.txt', text: 'down the hill' }], prompt: 'is ' };
    for (const url of places) {
      const whole = await ask(url, '/infill', { ...body, ...around, stream: false });
      t.match(whole, { tokens_predicted: 8, stop_type: 'limit', stopped_limit: true });
      const text = (await events(url, '/infill', { ...body, ...around })).map(({ content }) => content).join('');
      t.equal(text, whole.content);
      const bare = await ask(url, '/infill', { ...body, stream: false });
      t.ok(bare.tokens_evaluated < whole.tokens_evaluated, 'both additions reach the engine');
    }
  });

  t.test('options of today reach the engine, and their results the client', async (t) => {
    const path = '/completions';
    const base = { prompt: 'the water', n_predict: 6, temperature: 0 };
    for (const url of places) {
      const json_schema = { enum: ['mill'] };
      t.equal((await ask(url, path, { ...base, n_predict: 40, json_schema })).content, '"mill"');
      t.match(await ask(url, path, { ...base, id_slot: 1 }), { id_slot: 1, slot_id: 1 });
      const { content, tokens } = await ask(url, path, { ...base, return_tokens: true });
      t.equal((await ask(url, '/detokenize', { tokens })).content.trim(), content.trim());
      const fields = await ask(url, path, { ...base, response_fields: ['content', 'timings/predicted_n'] });
      t.same(fields, { content, 'timings/predicted_n': 6 });
      const samplers = { samplers: ['top_k'], top_k: 1, dry_multiplier: 0.8, top_n_sigma: 1, min_keep: 1 };
      t.match(await ask(url, path, { ...base, ...samplers }), { generation_settings: { dry_multiplier: 0.8 } });
      // Frames leave out tokens that end within a character.
      const frames = await events(url, path, {
        ...base,
        grammar: 'root ::= [a-z ]+',
        timings_per_token: true,
        return_progress: true,
        return_tokens: true,
      });
      t.ok(frames.some(({ prompt_progress }) => prompt_progress !== undefined));
      t.equal(frames.flatMap((frame) => frame.tokens ?? []).length, 6, 'a report of progress has no token');
      t.ok(frames.filter(({ stop }) => stop === false).some(({ timings }) => timings?.predicted_n > 0));
      const listed = async (form: object): Promise<Answer> =>
        (await ask(url, path, { ...base, n_probs: 2, ...form })).completion_probabilities[0];
      t.match(await listed({}), { content: String, probs: [{ tok_str: String, prob: Number }] });
      t.match(await listed({ post_sampling_probs: true }), { id: Number, prob: Number, top_probs: Array });
      t.match(await listed({ post_sampling_probs: false }), {
        id: Number,
        logprob: Number,
        top_logprobs: { length: 2 },
      });
      const wrong = await send(url, path, { ...base, grammar: 'root ::= (' });
      t.match([wrong.status, await wrong.json()], [400, { error: { code: 400, type: 'invalid_request_error' } }]);
    }
  });

  t.test('the second turn finds the first in the slot', async (t) => {
    const prompt = 'the mill is by the river and the wheel turns in the water. '.repeat(4);
    const first = await ask(front, '/completions', {
      prompt,
      n_predict: 4,
      temperature: 0,
      cache_prompt: true,
      slot_id: 0,
    });
    const next = { prompt: `${prompt} and`, n_predict: 1, temperature: 0, slot_id: first.slot_id };
    const second = await ask(front, '/completions', { ...next, cache_prompt: true });
    t.ok(second.tokens_cached >= first.tokens_evaluated - 8, `${second.tokens_cached} of ${first.tokens_evaluated}`);
    t.equal((await ask(front, '/completions', { ...next, cache_prompt: false })).tokens_cached, 0);
  });

  t.test("a tenant's system prompt is in front of its own completions alone", async (t) => {
    const body = { prompt: 'the water', n_predict: 1 };
    const evaluated = async (key: string): Promise<number> =>
      (await ask(front, '/completions', body, key)).tokens_evaluated;
    const before = await evaluated('hr_ben');
    await ask(front, '/completions', { ...body, system_prompt: 'you are a mill' }, 'hr_anna');
    t.equal(await evaluated('hr_ben'), before);
    t.ok((await evaluated('hr_anna')) > before);
    const chat = async (key: string): Promise<number> =>
      (await ask(front, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 1 }, key)).usage.prompt_tokens;
    t.equal(await chat('hr_anna'), await chat('hr_ben'));
    await ask(front, '/completions', { ...body, system_prompt: '' }, 'hr_anna');
    t.equal(await evaluated('hr_anna'), before);
  });

  t.test('official clients stream', async (t) => {
    const openai = new OpenAI({ baseURL: `${front}/v1`, apiKey: 'hr_anna' });
    let text = '';
    const stream = await openai.chat.completions.create({
      model: MODEL,
      messages: [...MESSAGES],
      max_tokens: 8,
      stream: true,
    });
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    t.ok(text.length > 0);
    const response = await openai.responses
      .stream({ model: MODEL, input: 'the water', max_output_tokens: 8 })
      .finalResponse();
    t.equal(response.usage?.output_tokens, 8);
    const anthropic = new Anthropic({ baseURL: front, apiKey: 'hr_anna' });
    const message = await anthropic.messages
      .stream({ model: MODEL, messages: [...MESSAGES], max_tokens: 8 })
      .finalMessage();
    t.equal(message.usage.output_tokens, 8);
    const unknown = openai.chat.completions.create({ model: 'none', messages: [] });
    t.match(await unknown.catch((error: unknown) => error), { status: 404 });
  });

  t.test('a client that leaves frees its slot', async (t) => {
    const body = { prompt: 'the', n_predict: 2000, ignore_eos: true, stream: true };
    for (const url of places) {
      for (const path of ['/completions', '/v1/completions']) {
        const leaving = new AbortController();
        const endless = { ...body, max_tokens: 2000, ...(path === '/completions' && { max_tokens: null }) };
        const response = await send(url, path, endless, { signal: leaving.signal });
        await response.body!.getReader().read();
        leaving.abort();
        await until('both slots are free', async () =>
          (await get(direct, '/slots')).every(({ is_processing }: Answer) => !is_processing),
        );
        t.equal(host.live, 0);
      }
    }
  });

  t.test('a full context ends or refuses', async (t) => {
    const long = 'the water '.repeat(3000);
    for (const url of places) {
      const refused = await send(url, '/completions', { prompt: long, n_predict: 1 });
      t.equal(refused.status, 400);
      t.match(await refused.json(), { error: { message: /exceed/ } });
      const chat = await send(url, '/v1/chat/completions', { messages: [{ role: 'user', content: long }] });
      t.equal(chat.status, 400);
    }
  });

  t.test('an engine that is killed comes back by itself', async (t) => {
    const broken = send(front, '/v1/completions', { prompt: 'the', max_tokens: 2000, ignore_eos: true, stream: true });
    const reader = (await broken).body!.getReader();
    await reader.read();
    await server.kill();
    let rest = '';
    const decoder = new TextDecoder();
    for (let part = await reader.read(); !part.done; part = await reader.read()) rest += decoder.decode(part.value);
    t.match(rest, /"error"/, 'the stream says that it failed');
    t.notMatch(rest, /\[DONE\]/);
    await until('the host says so', async () => (await fetch(`${direct}/health`)).status === 503);
    t.equal((await send(direct, '/completion', { prompt: 'the', n_predict: 1 })).status, 503);
    t.equal((await send(front, '/completions', { prompt: 'the', n_predict: 1 })).status, 503);
    await server.start();
    await until('the host has noticed', () => isWell(direct));
    await until('the gateway has noticed', async () => {
      const response = await send(front, '/completions', { prompt: 'the', n_predict: 1 });
      await response.arrayBuffer();
      return response.status === 200;
    });
    t.match(await ask(front, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 2 }), {
      object: 'chat.completion',
    });
  });
}

async function testOthers(t: Test): Promise<void> {
  t.test('an engine that shows nothing of itself is well', async (t) => {
    const server = await startServer(t, 'tiny-chat', '--ctx-size', '1024', '--parallel', '1', '--no-slots');
    const { engine, places } = await startSystem(t, server);
    const [direct] = places;
    const response = await fetch(`${direct}/slots`, { headers: { authorization: 'Bearer hr_anna' } });
    t.equal(response.status, 501);
    t.match(await (await fetch(`${direct}/metrics`)).text(), /^headrace_host_requests_live \d/m);
    for (let at = 0; at < 5; at++)
      t.match(await ask(direct, '/completion', { prompt: 'x', n_predict: 1 }), { stop: true });
    t.equal(engine.health(), 'ready');
  });

  t.test('tools are called and schemas are followed', async (t) => {
    const parameters = {
      type: 'object',
      properties: { place: { enum: ['mill', 'river'] } },
      required: ['place'],
      additionalProperties: false,
    };
    // A model of random weights would talk on before it calls a tool: the token that calls begin with is made likely.
    const server = await startServer(t, 'tiny-chat', '--ctx-size', '2048', '--parallel', '1', '--logit-bias', '8+50');
    const { engine, places } = await startSystem(t, server);
    t.same(await engine.tokenize(MODEL, '<tool_call>'), [8]);
    for (const url of places) {
      const called = await ask(url, '/v1/chat/completions', {
        messages: MESSAGES,
        temperature: 0,
        max_tokens: 200,
        tools: [{ type: 'function', function: { name: 'measure', description: 'x', parameters } }],
        tool_choice: 'required',
      });
      const [call] = called.choices[0].message.tool_calls;
      t.equal(call.function.name, 'measure');
      t.match(JSON.parse(call.function.arguments), { place: /^(mill|river)$/ });
      const json_schema = { name: 'place', strict: true, schema: parameters };
      const response_format = { type: 'json_schema', json_schema };
      const given = await ask(url, '/v1/chat/completions', { messages: MESSAGES, max_tokens: 200, response_format });
      t.match(JSON.parse(given.choices[0].message.content), { place: /^(mill|river)$/ });
      const message = await ask(url, '/v1/messages', {
        messages: MESSAGES,
        max_tokens: 200,
        tools: [{ name: 'measure', description: 'x', input_schema: parameters }],
        tool_choice: { type: 'any' },
      });
      const use = message.content.find(({ type }: Answer) => type === 'tool_use');
      t.match([use.name, use.input], ['measure', { place: /^(mill|river)$/ }]);
    }
  });

  t.test('texts are embedded', async (t) => {
    const server = await startServer(t, 'tiny-embed', '--embeddings');
    const { places } = await startSystem(t, server);
    for (const url of places) {
      const { data, usage } = await ask(url, '/v1/embeddings', { input: ['the water', 'the mill'] });
      t.equal(data.length, 2);
      t.equal(data[0].embedding.length, 64);
      t.ok(usage.prompt_tokens > 4);
      const [own] = await ask(url, '/embedding', { content: 'the water' });
      t.equal(own.embedding[0].length, 64);
      const refused = await send(url, '/v1/chat/completions', { messages: MESSAGES });
      t.ok(refused.status >= 400, `chat is refused with ${refused.status}`);
    }
  });

  t.test('documents are ranked', async (t) => {
    const server = await startServer(t, 'tiny-rerank', '--rerank');
    const { places } = await startSystem(t, server);
    const body = { query: 'the water', documents: ['the mill', 'a river', 'hot'], top_n: 2 };
    for (const url of places) {
      for (const path of ['/rerank', '/v1/rerank', '/reranking', '/v1/reranking']) {
        const { results } = await ask(url, path, body);
        t.equal(results.length, 2, path);
        t.ok(results[0].relevance_score >= results[1].relevance_score);
      }
    }
  });
}

if (existsSync(PROGRAM)) {
  t.test('a language model', testChat);
  t.test('other models and settings', testOthers);
} else {
  const message = `no llama-server at ${PROGRAM}: nothing is tested against a real engine; ops/real-engine/build.sh builds one`;
  t.comment(message);
  t.not(process.env['HEADRACE_TEST_REAL_ENGINE'], 'required', message);
}
