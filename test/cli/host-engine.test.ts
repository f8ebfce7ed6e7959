// `headrace host` in front of real engines: scripted servers as upstreams, official clients downstream.

import Anthropic, { NotFoundError } from '@anthropic-ai/sdk';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { type Answer, events, type FakeEngine, json } from '../support/fake-engine.ts';
import { finalFrame, LLAMA_MODEL, partialFrame, startFakeLlamaServer } from '../support/fake-llama-server.ts';
import { startFakeOpenAi, startFakeVllm, VLLM_MODEL } from '../support/fake-vllm.ts';
import { ggufBytes, tinyModel } from '../support/gguf.ts';
import { KEY, settingsFor, until } from '../support/system.ts';
import { type Cli, type MainOptions, runCli, startCli } from '../support/cli.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Starts a host in front of an engine; both end with the test. */
async function hostOf(
  t: Test,
  fake: FakeEngine,
  flags: readonly string[] = [],
  options: MainOptions = {},
): Promise<{ cli: Cli; url: string }> {
  const cli = startCli(t, ['host', '--engine', fake.url, '--port', '0', ...flags], options);
  const [, url = ''] = await cli.shows(/\nhost of \S+ listening on (\S+)\n/);
  return { cli, url };
}

async function started(t: Test, starting: Promise<FakeEngine>): Promise<FakeEngine> {
  const fake = await starting;
  t.teardown(() => fake.close());
  return fake;
}

const JSON_TYPE = { 'content-type': 'application/json' };

function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { method: 'POST', body: JSON.stringify(body), headers: { ...JSON_TYPE, ...headers } });
}

/** Chat completions of an engine, two pieces. */
const chatting: Answer = (request, response) => {
  const chunk = (delta: object, finish_reason: string | null): object => ({
    id: 'c-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: request.body['model'],
    choices: [{ index: 0, delta, finish_reason }],
  });
  const frames = [chunk({ role: 'assistant', content: 'He' }, null), chunk({ content: 'llo' }, 'stop')];
  events([...frames, 'data: [DONE]\n\n'])(request, response);
};

async function said(client: OpenAI, model: string): Promise<string> {
  const messages = [{ role: 'user' as const, content: 'Hi' }];
  let text = '';
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? '';
  }
  return text;
}

t.test('prints at start what engine it found', async (t) => {
  const llama = await started(t, startFakeLlamaServer());
  const vllm = await started(t, startFakeVllm());
  const other = await started(t, startFakeOpenAi());
  const lines = await Promise.all(
    [llama, vllm, other].map(async (fake) => (await hostOf(t, fake)).cli.stdout.split('\n')),
  );
  t.match(lines[0]![0], `${llama.url} is llama-server b7000-abc with ${LLAMA_MODEL} (2048 tokens): 4 slots, infill, `);
  t.match(lines[0]![0], '; without /v1/messages, /v1/embeddings, tfs_z, penalize_nl, image_data.');
  t.match(lines[1]![0], `${vllm.url} is vLLM 0.11.0 with ${VLLM_MODEL} (4096 tokens): tokenize, /v1/completions, `);
  t.match(lines[1]![0], /; without \/v1\/messages, infill, tfs_z, .*mirostat, grammar, .*slot_id, repeat_last_n/);
  t.match(
    lines[2]![0],
    'is an OpenAI-compatible server with org/Tiny-8B: /v1/completions, /v1/chat/completions; without',
  );
  for (const answered of lines) t.match(answered[1], /^host of \S+ listening on http:/);
});

t.test('speaks the llama-style API for llama-server, whole and streamed', async (t) => {
  const fake = await started(t, startFakeLlamaServer());
  const { url } = await hostOf(t, fake, ['--model', 'small']);
  const whole = await post(`${url}/completion`, { prompt: 'Hi', n_predict: 2, slot_id: 2, cache_prompt: true });
  t.equal(whole.status, 200);
  t.match(await whole.json(), {
    content: 'Hello',
    stop: true,
    model: 'small',
    prompt: 'Hi',
    slot_id: 2,
    stopped_limit: true,
    stopped_eos: false,
    tokens_cached: 5,
    tokens_evaluated: 9,
    truncated: false,
    generation_settings: { n_ctx: 2048, model: 'small', repeat_penalty: 1.1, n_predict: 2 },
    timings: { predicted_n: 2, prompt_n: 4 },
  });
  t.match(fake.last('/completion').body, { model: LLAMA_MODEL, id_slot: 2, cache_prompt: true, repeat_penalty: 1.1 });
  const streamed = await post(`${url}/completion`, { prompt: 'Hi', stream: true });
  t.match(streamed.headers.get('content-type'), 'text/event-stream');
  const frames = (await streamed.text())
    .trim()
    .split('\n\n')
    .map((frame) => JSON.parse(frame.slice(6)) as object);
  t.same(frames.slice(0, 2), [
    { content: 'He', stop: false },
    { content: 'llo', stop: false },
  ]);
  t.match(frames.at(-1), { content: '', stop: true, slot_id: 2 });
  const refused = await post(`${url}/completion`, { prompt: 'Hi', tfs_z: 0.5, penalize_nl: false });
  t.equal(refused.status, 422);
  t.match(await refused.json(), { detail: [{ loc: ['body', 'tfs_z'] }, { loc: ['body', 'penalize_nl'] }] });
  fake.answers.set('/completion', json({ error: { code: 400, message: 'the prompt is too long' } }, 400));
  const tooLong = await post(`${url}/completion`, { prompt: 'Hi' });
  t.equal(tooLong.status, 400, 'what is the client to mend keeps its status');
  t.match(await tooLong.json(), { error: { message: 'the prompt is too long' } });
});

t.test('answers every other path of a host, or refuses it by name', async (t) => {
  const llama = await started(t, startFakeLlamaServer());
  const vllm = await started(t, startFakeVllm());
  llama.answers.set('/metrics', (_, response) => response.end('# TYPE llamacpp:x counter\nllamacpp:x 7\n'));
  const { url } = await hostOf(t, llama);
  const { url: other } = await hostOf(t, vllm, ['--model', 'small']);
  const read = async (path: string): Promise<[number, unknown]> => {
    const answer = await fetch(path);
    return [answer.status, await answer.json()];
  };
  t.same(await read(`${url}/health`), [200, { status: 'ok', engine: 'llama-server' }]);
  t.match(await read(`${other}/health/small`), [200, { status: 'ok' }]);
  t.match(await read(`${other}/health/large`), [404, {}]);
  t.match(await read(`${url}/props`), [200, { total_slots: 4, default_generation_settings: { n_ctx: 2048 } }]);
  t.match(await read(`${other}/props`), [200, { total_slots: 0, default_generation_settings: { n_ctx: 4096 } }]);
  t.match(await read(`${url}/slots`), [200, [{ id: 0 }]]);
  t.match(await read(`${other}/slots`), [501, { detail: 'the engine behind this host (vllm) shows no slots' }]);
  t.match(await read(`${other}/v1/models`), [200, { data: [{ id: 'small', max_model_len: 4096 }] }]);
  const metrics = await (await fetch(`${url}/metrics`)).text();
  t.match(metrics, /headrace_host_requests_live 1/);
  t.match(metrics, /llamacpp:x 7\n$/, 'and what the engine counts itself');
  t.notMatch(metrics, 'llamacpp:prompt_tokens_total');
  for (const [at, host] of [url, other].entries()) {
    t.same(await (await post(`${host}/tokenize`, { content: 'ab' })).json(), { tokens: [97, 98] });
    t.same(await (await post(`${host}/detokenize`, { tokens: [97, 98] })).json(), { content: 'ab' });
    const infill = await post(`${host}/infill`, { input_prefix: 'a', input_suffix: 'b' });
    t.equal(infill.status, at === 0 ? 200 : 422);
    t.match(await infill.text(), at === 0 ? '"content":"He"' : 'cannot fill in');
  }
  const embeddings = await post(`${url}/v1/embeddings`, { model: LLAMA_MODEL, input: 'x' });
  t.equal(embeddings.status, 404);
  t.match(await embeddings.json(), { detail: /\(llama-server\) does not serve \/v1\/embeddings; it serves/ });
  vllm.answers.set('/v1/embeddings', json({ data: [{ embedding: [1] }] }));
  t.match(await (await post(`${other}/v1/embeddings`, { model: 'small', input: 'x' })).json(), { data: [{}] });
  t.equal(vllm.last('/v1/embeddings').body['model'], VLLM_MODEL);
  const broken = await post(`${url}/tokenize`, { content: 'ab' }, { 'x-headrace-fault': 'status=500' });
  t.equal(broken.status, 200, 'nobody breaks a real engine by a header');
});

t.test('serves official clients in the dialects of the engine, directly and through a gateway', async (t) => {
  const fake = await started(t, startFakeVllm());
  fake.answers.set('/v1/chat/completions', chatting);
  fake.key = 'engine-key';
  const keys = { keys: { static: [{ key: KEY, account: 'tests' }] } };
  const folder = t.testdir({ 'host.json': JSON.stringify(keys) });
  const flags = ['--model', 'small', '--config', `${folder}/host.json`];
  const { url } = await hostOf(t, fake, flags, { env: { HEADRACE_ENGINE_KEY: 'engine-key' } });
  t.equal(await said(new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY }), 'small'), 'Hello');
  const anthropic = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
  const ask = { model: 'small', max_tokens: 5, messages: [{ role: 'user' as const, content: 'Hi' }] };
  await t.rejects(anthropic.messages.create(ask), NotFoundError);
  t.equal((await post(`${url}/completion`, { prompt: 'x' })).status, 401);
  const file = join(folder, 'gateway.json');
  await writeFile(file, JSON.stringify(settingsFor([], { models: { small: { servers: [url] } } })));
  const gateway = startCli(t, ['serve', '--config', file]);
  const [, front = ''] = await gateway.shows(/^headrace listening on (\S+)\n/);
  await until('ready', async () => (await fetch(`${front}/health`)).status === 200);
  t.equal(await said(new OpenAI({ baseURL: `${front}/v1`, apiKey: KEY }), 'small'), 'Hello');
  const authorization = { authorization: `Bearer ${KEY}` };
  const llama = await post(`${front}/completions`, { model: 'small', prompt: 'Hi', n_predict: 2 }, authorization);
  t.match(await llama.json(), { content: 'Hello', tokens_evaluated: 9, slot_id: -1 });
  t.equal(fake.last('/v1/completions').headers.authorization, 'Bearer engine-key');
});

t.test('reports that its engine is away, and serves again when it is back', async (t) => {
  const fake = await startFakeLlamaServer();
  const { cli, url } = await hostOf(t, fake);
  await fake.close();
  const failed = await post(`${url}/completion`, { prompt: 'Hi' });
  t.equal(failed.status, 502);
  await cli.complains(/^headrace: the engine at \S+ is away\n/);
  const health = await fetch(`${url}/health`);
  t.equal(health.status, 503);
  t.equal(health.headers.get('retry-after'), '1');
  t.match(await health.json(), { status: 'engine away' });
  const refused = await post(`${url}/v1/chat/completions`, { model: LLAMA_MODEL, messages: [] });
  t.equal(refused.status, 503);
  t.match(await refused.json(), { detail: 'The engine behind this host (llama-server) is away' });
  const back = await started(t, startFakeLlamaServer({}, fake.port));
  await until('back', async () => (await fetch(`${url}/health`)).status === 200);
  await cli.complains(/\nheadrace: the engine at \S+ is back\n/);
  t.match(await (await post(`${url}/completion`, { prompt: 'Hi' })).json(), { content: 'Hello' });
  back.answers.set('/completion', events([partialFrame('a')], 'cut'));
  const cut = await (await post(`${url}/completion`, { prompt: 'Hi', stream: true })).text();
  t.match(cut, /"content":"a".*\n\ndata: \{.*"error":.*broke off/s, 'a stream that breaks ends with an error');
  back.answers.set('/completion', events([partialFrame('a'), finalFrame()]));
  cli.signal('SIGTERM');
  t.same(await cli.ends(), { code: 0, signal: null });
});

t.test('ends with a sentence and exit code 1 when there is no engine', async (t) => {
  const gone = await startFakeVllm();
  await gone.close();
  const cli = await runCli(t, ['host', '--engine', gone.url, '--engine-wait', '10ms', '--port', '0']);
  t.equal(cli.exit.code, 1);
  const reason = `no engine is ready at ${gone.url} after 0.01 s: the engine cannot be reached`;
  t.equal(cli.stderr, `headrace cannot start: ${reason}\n`);
});

function isInstalled(): boolean {
  try {
    return import.meta.resolve('node-llama-cpp') !== '';
  } catch {
    return false;
  }
}

t.test('runs a model file, or says how to install what that takes', async (t) => {
  const path = join(temporaryFolder(t), 'tiny.gguf');
  await writeFile(path, ggufBytes(tinyModel()));
  const cli = startCli(t, ['host', '--gguf', path, '--port', '0', '--threads', '1', '--slots', '2']);
  if (!isInstalled()) {
    await cli.complains(/serving a GGUF file needs the package node-llama-cpp; .* npm install node-llama-cpp@/);
    t.same(await cli.ends(), { code: 1, signal: null });
    return;
  }
  const [, url = ''] = await cli.shows(
    /llama model "tiny" as tiny \(256 tokens\): 2 slots.*\nhost of tiny .* on (\S+)\n/,
  );
  t.match(await (await post(`${url}/completion`, { prompt: 'the', n_predict: 3, seed: 1 })).json(), { model: 'tiny' });
  t.equal((await post(`${url}/v1/embeddings`, { model: 'tiny', input: 'x' })).status, 404);
  cli.signal('SIGTERM');
  t.same(await cli.ends(), { code: 0, signal: null });
});
