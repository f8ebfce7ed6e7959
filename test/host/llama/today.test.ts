// The API of today's llama-server at a host: its names beside those of the interface, its own endpoints, and options that the
// simulated engine does not know.
import t from 'tap';
import { OPTION_ALIASES, TODAYS_OPTIONS } from '../../../src/host/completion-options.ts';
import { PATH_ALIASES } from '../../../src/host/model-routes.ts';
import { type Answer, ask, dataOf, events, get, send, startHost } from './ask.ts';

const BODY = { prompt: 'The miller walks', n_predict: 5, seed: 1, ignore_eos: true };

/** The places that a 422 names. */
async function refusedPlaces(response: Response): Promise<string[]> {
  t.equal(response.status, 422);
  const { detail } = (await response.json()) as { detail: { loc: (string | number)[] }[] };
  return detail.map(({ loc }) => loc.join('.'));
}

t.test("today's names of options mean what the interface's mean", async (t) => {
  const host = await startHost(t);
  const values: Readonly<Record<keyof typeof OPTION_ALIASES, number>> = {
    id_slot: 2,
    max_tokens: 3,
    max_completion_tokens: 3,
    logprobs: 2,
  };
  for (const [alias, name] of Object.entries(OPTION_ALIASES)) {
    const { n_predict, ...rest } = BODY;
    const base = name === 'n_predict' ? rest : { ...rest, n_predict };
    const value = values[alias as keyof typeof OPTION_ALIASES];
    const [old, today] = [
      await ask(host, '/completion', { ...base, [name]: value }),
      await ask(host, '/completion', { ...base, [alias]: value }),
    ];
    t.equal(today.generation_settings[name], value, alias);
    const shape = ({ content, slot_id, tokens_predicted, completion_probabilities }: Answer): unknown => [
      content,
      name === 'slot_id' ? slot_id : 0,
      tokens_predicted,
      completion_probabilities,
    ];
    t.same(shape(today), shape(old), alias);
    const both = await send(host, '/completion', { ...base, [name]: value, [alias]: value + 1 });
    t.same(await refusedPlaces(both), [`body.${alias}`], 'two values are a mistake');
    t.equal((await send(host, '/completion', { ...base, [name]: value, [alias]: value })).status, 200);
  }
  t.match(await ask(host, '/completion', { ...BODY, stop: 'zzz' }), { generation_settings: { stop: ['zzz'] } });
});

t.test('the result has both names of everything', async (t) => {
  const host = await startHost(t);
  const limit = await ask(host, '/completion', { ...BODY, slot_id: 1 });
  t.match(limit, { stop_type: 'limit', stopped_limit: true, slot_id: 1, id_slot: 1, index: 0, has_new_line: false });
  const word = await ask(host, '/completion', { prompt: 'x', grammar: 'root ::= "a\\nbc"', stop: ['c'] });
  t.match(word, { stop_type: 'word', stopped_word: true, has_new_line: true });
  const eos = await ask(host, '/completion', { prompt: 'x', grammar: 'root ::= "a"' });
  t.match(eos, { stop_type: 'eos', stopped_eos: true, timings: { cache_n: 0, predicted_n: Number } });
  const [last] = (await events(host, '/completion', { prompt: 'x', grammar: 'root ::= "a\\nb"' })).slice(-1);
  t.match(last, { stop: true, stop_type: 'eos', has_new_line: true, tokens: [] });
});

t.test('tokens are listed where they are asked for, in streams and whole answers', async (t) => {
  const host = await startHost(t);
  t.same((await ask(host, '/completion', BODY)).tokens, []);
  const { content, tokens } = await ask(host, '/completion', { ...BODY, return_tokens: true });
  t.equal(tokens.length, BODY.n_predict);
  t.same(await ask(host, '/detokenize', { tokens }), { content });
  const frames = await events(host, '/completion', { ...BODY, return_tokens: true });
  t.same(
    frames.slice(0, -1).flatMap((frame) => frame.tokens),
    tokens,
  );
  const cut = await ask(host, '/completion', {
    prompt: 'x',
    grammar: 'root ::= "abc"',
    stop: ['c'],
    return_tokens: true,
  });
  t.equal(cut.tokens.length, cut.tokens_predicted, 'those of the stop string too, as in llama-server');
});

t.test('a request says which members of the result it wants', async (t) => {
  const host = await startHost(t);
  const response_fields = ['content', 'generation_settings/n_predict', 'timings/nothing', 'nothing'];
  const whole = await ask(host, '/completion', { ...BODY, response_fields });
  t.same(Object.keys(whole), ['content', 'generation_settings/n_predict']);
  t.equal(whole['generation_settings/n_predict'], 5);
  const frames = await events(host, '/completion', { ...BODY, response_fields: ['stop_type'] });
  t.same(frames.at(-1), { stop_type: 'limit', stop: true }, 'a stream says that it is over all the same');
  t.same(await refusedPlaces(await send(host, '/completion', { ...BODY, response_fields: 'content' })), [
    'body.response_fields',
  ]);
});

t.test("probabilities come in the interface's form, and in today's where it is asked for", async (t) => {
  const host = await startHost(t);
  const listed = async (body: object): Promise<Answer[]> =>
    (await ask(host, '/completion', { ...BODY, n_probs: 3, ...body })).completion_probabilities;
  for (const { content, probs } of await listed({})) t.ok(typeof content === 'string' && probs[0].prob > 0);
  for (const { token, bytes, prob, top_probs } of await listed({ post_sampling_probs: true })) {
    t.same(bytes, [...Buffer.from(token)]);
    t.ok(top_probs.length <= 3 && (prob === null || prob > 0));
    t.match(top_probs[0], { token: String, bytes: Array, prob: Number });
  }
  for (const { token, bytes, logprob, top_logprobs } of await listed({ post_sampling_probs: false })) {
    t.same(bytes, [...Buffer.from(token)]);
    t.equal(top_logprobs.length, 3);
    t.ok(logprob <= 0 && top_logprobs[0].logprob >= logprob);
  }
});

t.test('options that the engine does not know are refused by name', async (t) => {
  const host = await startHost(t);
  const unknown = { dry_multiplier: 0.8, top_n_sigma: 2, json_schema: {}, samplers: ['top_k'], from_the_future: 1 };
  const places = Object.keys(unknown).map((name) => `body.${name}`);
  t.same(await refusedPlaces(await send(host, '/completion', { ...BODY, ...unknown })), places);
  t.same(await refusedPlaces(await send(host, '/infill', { input_prefix: 'x', ...unknown })), places);
  t.same(await refusedPlaces(await send(host, '/completion', { ...BODY, n_cmpl: 2 })), ['body.n_cmpl']);
  const inherited = { hasOwnProperty: 'n', constructor: 1, ['__proto__']: {} };
  const inheritedPlaces = Object.keys(inherited).map((name) => `body.${name}`);
  t.same(await refusedPlaces(await send(host, '/completion', { ...BODY, ...inherited })), inheritedPlaces);
  const off: Readonly<Record<string, unknown>> = {
    ...{
      dry_multiplier: 0,
      dry_base: 1.75,
      dry_allowed_length: 2,
      dry_penalty_last_n: 64,
      dry_sequence_breakers: [':'],
    },
    ...{
      xtc_probability: 0,
      xtc_threshold: 0.1,
      dynatemp_range: 0,
      dynatemp_exponent: 1,
      top_n_sigma: -1,
      min_keep: 0,
    },
    ...{ adaptive_target: -1, adaptive_decay: 0.9, n_indent: 0, n_discard: 0, n_cache_reuse: 0, n_cmpl: 1, n: 1 },
    ...{ t_max_predict_ms: 0, t_max_prompt_ms: -1, lora: [], return_progress: false, timings_per_token: false },
    ...{ sse_ping_interval: -1, backend_sampling: false, json_schema: null, samplers: null },
  };
  t.same(Object.keys(off).toSorted(), Object.keys(TODAYS_OPTIONS), 'every option that is known by name');
  const response = await send(host, '/completion', { ...BODY, ...off });
  t.equal(response.status, 200, 'switched off they count as not sent');
  const hints = { user: 'u', session_id: 's', prompt_cache_key: 'k', metadata: {}, stream_options: {} };
  t.equal(
    (await send(host, '/completion', { ...BODY, ...hints })).status,
    200,
    'what is no option is nobody’s business',
  );
  const paced = await startHost(t, { engine: 'paced' });
  t.equal(
    (await send(paced, '/completion', { ...BODY, ...unknown })).status,
    200,
    'a fixed pace reads no options at all',
  );
});

t.test('tokens come with their texts, and with what begins a sequence', async (t) => {
  const host = await startHost(t);
  const { tokens: bare } = await ask(host, '/tokenize', { content: 'the mill 水' });
  const { tokens: begun } = await ask(host, '/tokenize', { content: 'the mill 水', add_special: true });
  t.same(begun.slice(1), bare);
  const { tokens: pieces } = await ask(host, '/tokenize', {
    content: 'the mill 水',
    with_pieces: true,
    parse_special: true,
  });
  t.same(
    pieces.map(({ id }: { id: number }) => id),
    bare,
  );
  const bytes = pieces.flatMap(({ piece }: { piece: string | number[] }) => [...Buffer.from(piece as string)]);
  t.equal(Buffer.from(bytes).toString(), 'the mill 水');
  t.ok(
    pieces.some(({ piece }: { piece: unknown }) => Array.isArray(piece)),
    'a part of a character is bytes',
  );
  t.same(await refusedPlaces(await send(host, '/tokenize', { content: 'x', with_pieces: 1 })), ['body.with_pieces']);
  const long = { content: '\u0001'.repeat(1_048_577), with_pieces: true };
  t.same(await refusedPlaces(await send(host, '/tokenize', long)), ['body.content']);
});

t.test('props say what clients look for', async (t) => {
  const host = await startHost(t, { engine: { speed: 'virtual', slots: 3, contextTokens: 512 } });
  const props = await get(host, '/props');
  t.match(props, {
    total_slots: 3,
    model_alias: 'm',
    build_info: String,
    chat_template: /im_start/,
    is_sleeping: false,
    modalities: { vision: true, audio: false },
    default_generation_settings: { n_ctx: 512, params: { n_predict: -1, temperature: 0.8, cache_prompt: false } },
  });
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
  ];
  const text = '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n';
  t.same(await ask(host, '/apply-template', { messages }), { prompt: `${text}<|im_start|>assistant\n` });
  t.same(await ask(host, '/apply-template', { messages, add_generation_prompt: false }), { prompt: text });
  t.same(await refusedPlaces(await send(host, '/apply-template', {})), ['body.messages']);
});

t.test('slots say when none is free', async (t) => {
  const host = await startHost(t, { engine: { slots: 1, profile: { stepUs: 2000 } } });
  t.equal((await fetch(`${host.url}/slots?fail_on_no_slot=1`)).status, 200);
  const leaving = new AbortController();
  const body = JSON.stringify({ prompt: 'x', ignore_eos: true, stream: true });
  const response = await fetch(`${host.url}/completion`, { method: 'POST', body, signal: leaving.signal });
  await response.body!.getReader().read();
  const busy = await fetch(`${host.url}/slots?fail_on_no_slot=1`);
  t.equal(busy.status, 503);
  t.match(await busy.json(), { error: { code: 503, type: 'unavailable_error' } });
  leaving.abort();
});

t.test('documents are ranked and texts embedded on all paths', async (t) => {
  const host = await startHost(t);
  const documents = ['nothing of it', 'the mill stands by the river', 'a river'];
  for (const path of ['/rerank', '/reranking', '/v1/rerank', '/v1/reranking']) {
    const { results, model } = await ask(host, path, { query: 'The river mill', documents, top_n: 2 });
    t.equal(model, 'm');
    t.same(
      results.map(({ index }: { index: number }) => index),
      [1, 2],
    );
    t.ok(results[0].relevance_score > results[1].relevance_score);
  }
  t.same(await refusedPlaces(await send(host, '/rerank', { query: 'x' })), ['body.documents']);
  for (const path of ['/embedding', '/embeddings']) {
    const [one, two] = await ask(host, path, { content: ['a', 'b'] });
    t.match([one.index, two.index], [0, 1]);
    t.equal(one.embedding[0].length, 64);
  }
});

t.test('paths without /v1 mean the same', async (t) => {
  const host = await startHost(t, { loadable: ['spare'] });
  const messages = [{ role: 'user', content: 'x' }];
  const bodies: Readonly<Record<string, object>> = {
    '/v1/chat/completions': { messages, max_tokens: 2, seed: 1 },
    '/v1/responses': { input: 'x', max_output_tokens: 2, seed: 1 },
    '/v1/chat/completions/input_tokens': { messages },
    '/v1/responses/input_tokens': { input: 'x' },
  };
  const comparable = (answer: Answer): unknown => ({
    ...answer,
    id: '',
    usage: 0,
    output: answer.output?.[0].content[0].text,
  });
  for (const [alias, path] of PATH_ALIASES) {
    const body = bodies[path];
    if (body === undefined) {
      t.equal((await fetch(host.url + alias)).status, 200, alias);
      continue;
    }
    const [a, b] = [await ask(host, alias, { model: 'm', ...body }), await ask(host, path, { model: 'm', ...body })];
    t.same(comparable(a), comparable(b), alias);
  }
  const { input_tokens } = await ask(host, '/v1/chat/completions/input_tokens', { model: 'm', messages });
  const { usage } = await ask(host, '/v1/chat/completions', { model: 'm', messages, max_tokens: 1 });
  t.equal(input_tokens, usage.prompt_tokens);
});

t.test("a host lists its models as llama-server's router does, and loads none at a client's word", async (t) => {
  const host = await startHost(t, { models: ['m', 'n'], loadable: ['spare'] });
  t.match((await get(host, '/models')).data, [
    { id: 'm', status: { value: 'loaded' }, meta: { n_ctx: Number } },
    { id: 'n', status: { value: 'loaded' } },
    { id: 'spare', status: { value: 'unloaded' } },
  ]);
  t.equal((await get(host, '/v1/models')).data.length, 2, 'the list of OpenAI has what answers');
  t.same(await ask(host, '/models/load', { model: 'N' }), { success: true });
  const status = async (path: string, model: string): Promise<unknown> => {
    const response = await send(host, path, { model });
    return [response.status, ((await response.json()) as Answer).error.type];
  };
  t.same(await status('/models/load', 'spare'), [501, 'not_supported_error']);
  t.same(await status('/models/unload', 'm'), [501, 'not_supported_error']);
  t.same(await status('/models/load', 'z'), [404, 'not_found_error']);
});

t.test('a host that loads says so in both words', async (t) => {
  const host = await startHost(t, { loadingMs: 1_000_000 });
  const health = await fetch(`${host.url}/health`);
  t.equal(health.status, 503);
  const error = { code: 503, message: 'Loading model', type: 'unavailable_error' };
  t.same(await health.json(), { status: 'loading', error });
  const refused = await send(host, '/completion', BODY);
  t.same([refused.status, await refused.json()], [503, { detail: 'Loading model', error }]);
});

t.test('llama.vim gets what it asks for', async (t) => {
  const host = await startHost(t);
  const body = {
    ...{ id_slot: 0, input_prefix: 'function sum(', input_suffix: ')\n', input_extra: [], prompt: 'a, ', n_predict: 8 },
    ...{ stop: [], n_indent: 0, top_k: 40, top_p: 0.9, stream: false, cache_prompt: true, t_max_prompt_ms: 0 },
    response_fields: ['content', 'timings/prompt_n', 'timings/predicted_n', 'truncated', 'tokens_cached'],
  };
  const answer = await ask(host, '/infill', body);
  t.same(Object.keys(answer), body.response_fields);
  t.equal(dataOf(await (await send(host, '/infill', { ...body, stream: true })).text()).at(-1).stop, true);
});
