import t from 'tap';
import { ask, dataOf, events, get, send, startHost } from './ask.ts';

t.test('tokens and text turn into each other, without anything added', async (t) => {
  const host = await startHost(t);
  for (const content of ['', 'Hello world', ' wörld 水車 🌊', 'a\n\nb']) {
    const { tokens } = await ask(host, '/tokenize', { content });
    t.ok(tokens.every((token: unknown) => Number.isInteger(token)));
    t.same(await ask(host, '/detokenize', { tokens }), { content });
  }
  const wrong: [string, object, string[]][] = [
    ['/tokenize', {}, ['missing']],
    ['/tokenize', { content: 5 }, ['string_type']],
    ['/detokenize', {}, ['missing']],
    ['/detokenize', { tokens: 'a' }, ['list_type']],
    ['/detokenize', { tokens: [1.5, -2, 'a'] }, ['int_type', 'int_type', 'int_type']],
    ['/detokenize', { tokens: [5, 9_999_999] }, ['less_than']],
  ];
  for (const [path, body, types] of wrong) {
    const response = await send(host, path, body);
    const { detail } = (await response.json()) as { detail: { type: string }[] };
    t.same([response.status, detail.map(({ type }) => type)], [422, types]);
  }
});

t.test('the tokens of a chat are those of its prompt', async (t) => {
  const host = await startHost(t);
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Where does the water go?' },
  ];
  const { count, max_model_len: length } = await ask(host, '/tokenize', { messages });
  const { usage } = await ask(host, '/v1/chat/completions', { model: 'm', messages, max_tokens: 1 });
  t.equal(count, usage.prompt_tokens);
  t.ok(length > count);
  t.equal((await send(host, '/tokenize', { messages: [{ role: 5 }] })).status, 400);
});

t.test('an infill is a stream between prefix and suffix', async (t) => {
  const host = await startHost(t);
  const fill = async (body: object) => {
    const response = await send(host, '/infill', { temperature: 0, n_predict: 12, ...body });
    t.match(response.headers.get('content-type'), /^text\/event-stream/);
    return dataOf(await response.text());
  };
  const frames = await fill({ input_prefix: 'const total = ', input_suffix: ';\nreturn total;\n' });
  t.match(frames.at(-1), { stop: true, tokens_predicted: 12, stopped_limit: true });
  const text = (all: { content: string }[]): string => all.map(({ content }) => content).join('');
  const other = await fill({ input_prefix: 'const total = ', input_suffix: '\n}\n', stream: true });
  t.not(text(other), text(frames), 'the suffix counts');
  t.equal(frames.at(-1).tokens_evaluated, other.at(-1).tokens_evaluated + 3, 'four special tokens and the texts');
  t.equal((await send(host, '/infill', { input_prefix: 5 })).status, 422);
});

t.test('an infill is one answer where its body says so, with other files and a beginning', async (t) => {
  const host = await startHost(t);
  const body = { input_prefix: 'let ', input_suffix: ';', temperature: 0, n_predict: 6, stream: false };
  const whole = await ask(host, '/infill', body);
  const stream = await send(host, '/infill', { ...body, stream: null });
  t.match(stream.headers.get('content-type'), /^text\/event-stream/, 'a stream unless it says otherwise');
  const frames = dataOf(await stream.text());
  t.equal(whole.content, frames.map(({ content }) => content).join(''));
  const input_extra = [{ filename: 'a.ts', text: 'let a;\n' }, { text: 'let b;\n' }];
  const around = await ask(host, '/infill', { ...body, input_extra, prompt: 'sum = ' });
  const count = async (content: string): Promise<number> => (await ask(host, '/tokenize', { content })).tokens.length;
  const added = (await count('a.ts\nlet a;\n\n')) + (await count('filename\nlet b;\n\n')) + (await count('sum = '));
  t.equal(around.tokens_evaluated, whole.tokens_evaluated + added);
  for (const [wrong, loc] of [
    [{ input_extra: 'x' }, ['body', 'input_extra']],
    [{ input_extra: [{ filename: 'x' }] }, ['body', 'input_extra', 0, 'text']],
    [{ prompt: [1] }, ['body', 'prompt']],
  ] as const) {
    const refused = await send(host, '/infill', { ...body, ...wrong });
    t.equal(refused.status, 422);
    t.match(await refused.json(), { detail: [{ loc }] });
  }
});

t.test('the same answer comes from both paths, and no model has to be named', async (t) => {
  const host = await startHost(t, { models: ['m', 'n'] });
  const body = { prompt: 'x', n_predict: 3, seed: 1 };
  const [a, b] = [await ask(host, '/completion', body), await ask(host, '/completions', { ...body, model: 'n' })];
  t.same([a.model, b.model], ['m', 'n']);
  t.equal(a.content, b.content);
  t.equal((await send(host, '/completion', { ...body, model: 'z' })).status, 404);
  t.equal((await send(host, '/completion', { ...body, model: 5 })).status, 422);
  t.equal((await send(host, '/completion', [])).status, 422);
});

t.test('a context that fills up moves, and says so', async (t) => {
  const host = await startHost(t, { engine: { speed: 'virtual', slots: 2, contextTokens: 48 } });
  const answer = await ask(host, '/completion', { prompt: 'one two', n_predict: 100, ignore_eos: true, seed: 1 });
  t.match(answer, { tokens_predicted: 100, truncated: true, stopped_limit: true });
  t.match(await ask(host, '/completion', { prompt: 'one two', n_predict: 10, seed: 1 }), { truncated: false });
});

t.test('stop strings are found across tokens, and what was held back is not lost', async (t) => {
  const host = await startHost(t);
  const base = { prompt: 'x', grammar: 'root ::= "abcab" "abd"', n_predict: 50 };
  t.match(await ask(host, '/completion', { ...base, stop: ['caba'] }), { content: 'ab', stopping_word: 'caba' });
  const frames = await events(host, '/completion', { ...base, stop: ['abdx', 'zz'] });
  t.equal(frames.map(({ content }) => content).join(''), 'abcababd');
  t.match(frames.at(-1), { stopped_eos: true, stopped_word: false, stopping_word: '' });
});

t.test('props and slots tell of the machine', async (t) => {
  const host = await startHost(t, { engine: { speed: 'virtual', slots: 3, contextTokens: 512 } });
  t.match(await get(host, '/props'), {
    assistant_name: '',
    user_name: '',
    total_slots: 3,
    default_generation_settings: { n_ctx: 512 },
  });
  await ask(host, '/completion', { prompt: 'x y', n_predict: 4, slot_id: 1, cache_prompt: true, ignore_eos: true });
  const slots = await get(host, '/slots');
  t.same(
    slots.map(({ id, is_processing }: { id: number; is_processing: boolean }) => [id, is_processing]),
    [
      [0, false],
      [1, false],
      [2, false],
    ],
  );
  t.ok(slots[1].n_tokens > 4);
  t.equal((await fetch(`${host.url}/slots?model=z`)).status, 404);
});

t.test('the metrics count tokens, requests and cache hits under all three names', async (t) => {
  const host = await startHost(t);
  const body = { prompt: 'one two three', n_predict: 5, cache_prompt: true, ignore_eos: true };
  const first = await ask(host, '/completion', body);
  const second = await ask(host, '/completion', body);
  const text = await (await fetch(`${host.url}/metrics`)).text();
  const value = (name: string): number => Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
  t.equal(value('llamacpp:tokens_predicted_total'), 10);
  t.equal(value('vllm:prompt_tokens_total'), 2 * first.tokens_evaluated);
  t.equal(value('vllm:prefix_cache_hits_total'), second.tokens_cached);
  t.equal(value('headrace_host_prompt_tokens_cached_total'), second.tokens_cached);
  t.equal(value('llamacpp:requests_processing'), 0);
  t.equal(value('vllm:num_requests_waiting'), 0);
  t.ok(value('headrace_host_steps_total') >= 10);
});

t.test('the same keys open every path but the probes, lists and metrics', async (t) => {
  const host = await startHost(t, { keys: ['hr_a'], loadable: ['spare'] });
  const status = async (path: string, init: RequestInit = {}): Promise<number> =>
    (await fetch(host.url + path, init)).status;
  for (const path of ['/health', '/health/m', '/v1/models', '/metrics']) t.equal(await status(path), 200);
  t.equal(await status('/health/spare'), 202);
  t.equal(await status('/health/nothing'), 404);
  const good = { authorization: 'Bearer hr_a' };
  for (const path of ['/props', '/slots']) {
    t.equal(await status(path), 401);
    t.equal(await status(path, { headers: { 'x-api-key': 'wrong' } }), 401);
    t.equal(await status(path, { headers: good }), 200);
  }
  for (const path of ['/completion', '/tokenize', '/detokenize', '/infill', '/v1/chat/completions']) {
    t.equal(await status(path, { method: 'POST', body: '{}' }), 401);
  }
  const body = JSON.stringify({ content: 'a' });
  t.equal(await status('/tokenize', { method: 'POST', body, headers: { 'x-api-key': 'hr_a' } }), 200);
});

/** A key without limits. */
const UNBOUND = { key: null, lineage: null, prepaid: false, expiresMs: Infinity, allowance: null };

t.test('a guard decides about keys, and the host is loading until it is ready', async (t) => {
  const guard = {
    ready: false,
    maxBodyBytes: 1000,
    check: (key: string | undefined) =>
      key === 'k' ? { kind: 'good' as const, account: 'a', ...UNBOUND } : { kind: 'bad' as const },
    answer: (method: string, body: Uint8Array) => ({ status: 200, headers: {}, body: { method, bytes: body.length } }),
    health: () => ({ version: 3 }),
  };
  const host = await startHost(t, { guard });
  t.equal((await fetch(`${host.url}/health`)).status, 503);
  t.same(await ask(host, '/svc/keys', 'xy'), { method: 'POST', bytes: 4 });
  guard.ready = true;
  t.match(await get(host, '/health'), { status: 'ok', engine: 'simulated', keys: { version: 3 } });
  t.equal((await send(host, '/tokenize', { content: '' })).status, 401);
  t.equal((await send(host, '/tokenize', { content: '' }, { 'x-api-key': 'j' })).status, 401);
  t.equal((await send(host, '/tokenize', { content: '' }, { 'x-api-key': 'k' })).status, 200);
});

t.test('server timings are sent with the answer and can be requested later', async (t) => {
  const host = await startHost(t);
  const body = { prompt: 'x', n_predict: 4, ignore_eos: true };
  const headers = { 'x-headrace-truth': '1', 'x-request-id': 'one' };
  const whole = await send(host, '/completion', body, headers);
  const truth = JSON.parse(whole.headers.get('x-headrace-truth')!) as { tokensUs: number[]; arrivedUs: number };
  t.equal(truth.tokensUs.length, 4);
  t.ok(truth.tokensUs[0]! > truth.arrivedUs);
  t.same(await get(host, '/sim/truth/one'), truth);
  t.equal((await fetch(`${host.url}/sim/truth/two`)).status, 404);
  const chat = {
    model: 'm',
    messages: [{ role: 'user', content: 'x' }],
    max_tokens: 4,
    ignore_eos: true,
    stream: true,
  };
  for (const [path, request] of [
    ['/completion', { ...body, stream: true }],
    ['/v1/chat/completions', chat],
  ] as const) {
    const text = await (await send(host, path, request, { 'x-headrace-truth': '1' })).text();
    t.match(JSON.parse(/^: truth (.*)$/m.exec(text)![1]!), { tokensUs: [Number, Number, Number, Number] });
  }
});

t.test('the timings of a long answer fit into a header, and are whole by the id of its request', async (t) => {
  const host = await startHost(t);
  for (const [path, id] of [
    ['/completion', 'a'],
    ['/v1/completions', 'b'],
  ] as const) {
    const body = { model: 'm', prompt: 'x', max_tokens: 2000, ignore_eos: true };
    const answer = await send(host, path, body, { 'x-headrace-truth': '1', 'x-request-id': id });
    t.equal(JSON.parse(answer.headers.get('x-headrace-truth')!).tokensUs.length, 200);
    t.equal((await get(host, `/sim/truth/${id}`)).tokensUs.length, 2000);
  }
});

t.test('a client that leaves frees its slot', async (t) => {
  const host = await startHost(t, { engine: { slots: 1, profile: { stepUs: 2000 } } });
  const leaving = new AbortController();
  const response = await fetch(`${host.url}/completion`, {
    method: 'POST',
    body: JSON.stringify({ prompt: 'x', n_predict: -1, ignore_eos: true, stream: true }),
    signal: leaving.signal,
  });
  await response.body!.getReader().read();
  const request = host.requests.at(-1)!;
  leaving.abort();
  await request.whenAborted();
  t.match(await ask(host, '/completion', { prompt: 'x', n_predict: 1 }), { tokens_predicted: 1, slot_id: 0 });
});

t.test('slots are free, and within their context, behind sequences that were preempted and moved', async (t) => {
  const profile = {
    maxSequences: 8,
    contextTokens: 400,
    memory: { kind: 'blocks', blocks: 60, blockTokens: 16 },
  } as const;
  const host = await startHost(t, { engine: { profile, speed: 'virtual' } });
  const requests = Array.from({ length: 20 }, (_, at) => ({ n_predict: 50 + 13 * at, seed: at }));
  await Promise.all(
    requests.map((request) => ask(host, '/completion', { prompt: 'The miller', ignore_eos: true, ...request })),
  );
  t.match(await (await fetch(`${host.url}/metrics`)).text(), /^vllm:num_preemptions_total\{.*\} [1-9]/m);
  for (const slot of await get(host, '/slots')) t.match(slot, { is_processing: false, n_tokens: 0 });
  await ask(host, '/completion', { prompt: 'The miller', n_predict: 900, ignore_eos: true, cache_prompt: true });
  const tokens = (await get(host, '/slots')).map(({ n_tokens }: { n_tokens: number }) => n_tokens) as number[];
  t.ok(Math.max(...tokens) > 0 && Math.max(...tokens) <= 400, `${Math.max(...tokens)} tokens`);
});

t.test('the slot of a host with a fixed pace is busy until the last request has ended', async (t) => {
  const host = await startHost(t, { engine: 'paced' });
  const leaving = new AbortController();
  const response = await fetch(`${host.url}/completion`, {
    method: 'POST',
    body: JSON.stringify({ prompt: 'x', n_predict: 1_000_000, ignore_eos: true, stream: true }),
    signal: leaving.signal,
  });
  await response.body!.getReader().read();
  await ask(host, '/completion', { prompt: 'x', n_predict: 1 });
  t.match(await get(host, '/slots'), [{ is_processing: true }]);
  leaving.abort();
});
