// Answers of several choices: `n` of the OpenAI dialects, and several prompts in one request.
import OpenAI from 'openai';
import t from 'tap';
import { DEFAULT_OPTIONS } from '../../../src/host/completion-options.ts';
import { createSimulatedEngine } from '../../../src/host/index.ts';
import type { Task } from '../../../src/host/model-engine.ts';
import { type Answer, ask, events, send, startHost } from './ask.ts';

const CHAT = '/v1/chat/completions';
const MESSAGES = [{ role: 'user', content: 'How does the mill work in a dry summer?' }];

/** What a stream says of one choice. */
function ofChoice(all: readonly Answer[], index: number): Answer[] {
  return all.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
}

t.test('a chat has n choices, and its usage counts the prompt once', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', messages: MESSAGES, max_tokens: 8, ignore_eos: true, seed: 5 };
  const one = await ask(host, CHAT, body);
  const three = await ask(host, CHAT, { ...body, n: 3 });
  t.same(
    three.choices.map(({ index, finish_reason }: Answer) => [index, finish_reason]),
    [0, 1, 2].map((index) => [index, 'length']),
  );
  const texts = three.choices.map(({ message }: Answer) => message.content as string);
  t.equal(texts[0], one.choices[0].message.content, 'the first is what it would be alone');
  t.equal(new Set(texts).size, 3);
  t.match(three.usage, {
    prompt_tokens: one.usage.prompt_tokens,
    completion_tokens: 24,
    total_tokens: one.usage.prompt_tokens + 24,
  });

  const streamed = await events(host, CHAT, { ...body, n: 3, stream_options: { include_usage: true } });
  for (const [index, text] of texts.entries()) {
    const said = ofChoice(streamed, index);
    t.equal(said.map(({ delta }) => delta.content ?? '').join(''), text);
    t.equal(said[0].delta.role, 'assistant');
    t.same(
      said.map(({ finish_reason }) => finish_reason).filter((reason) => reason !== null),
      ['length'],
    );
    t.equal(said.at(-1).finish_reason, 'length', 'nothing comes after its end');
  }
  t.match(streamed.at(-1), { choices: [], usage: { prompt_tokens: one.usage.prompt_tokens, completion_tokens: 24 } });
  t.equal(streamed.filter(({ usage }) => (usage ?? null) !== null).length, 1);
});

t.test('the official client gathers the choices of a stream with their log probabilities', async (t) => {
  const host = await startHost(t);
  const client = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0 });
  const body = { model: 'm', messages: [{ role: 'user' as const, content: 'Why?' }], max_tokens: 6, seed: 3 };
  const asked = { ...body, n: 2, logprobs: true, top_logprobs: 2 };
  const whole = await client.chat.completions.create(asked);
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  t.equal(streamed.choices.length, 2);
  for (const [index, { logprobs, message }] of whole.choices.entries()) {
    t.equal(streamed.choices[index]!.message.content, message.content);
    t.same(streamed.choices[index]!.logprobs?.content, logprobs?.content);
  }
});

t.test('a stream of choices is closed once, when all of them have ended', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', messages: MESSAGES, n: 4, max_tokens: 300, seed: 1, stream: true };
  const text = await (await send(host, CHAT, body)).text();
  t.equal(text.split('data: [DONE]').length, 2);
  t.ok(text.endsWith('data: [DONE]\n\n'));
  t.equal(text.match(/"finish_reason":"/g)?.length, 4);
});

t.test('completions have n choices of every prompt, the first prompt first', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', max_tokens: 5, ignore_eos: true, seed: 2, logprobs: 1 };
  const alone = await Promise.all(
    ['The miller', 'A river'].map((prompt) => ask(host, '/v1/completions', { ...body, prompt, n: 2 })),
  );
  const both = await ask(host, '/v1/completions', { ...body, prompt: ['The miller', 'A river'], n: 2 });
  t.same(
    both.choices,
    alone.flatMap(({ choices }) => choices).map((choice: Answer, index) => ({ ...choice, index })),
  );
  t.equal(both.usage.completion_tokens, 20);
  t.equal(both.usage.prompt_tokens, alone[0].usage.prompt_tokens + alone[1].usage.prompt_tokens);
  const streamed = await events(host, '/v1/completions', { ...body, prompt: ['The miller', 'A river'], n: 2 });
  for (const { index, text } of both.choices) {
    t.equal(
      ofChoice(streamed, index)
        .map((choice) => choice.text)
        .join(''),
      text,
    );
  }
  const { tokens } = await ask(host, '/tokenize', { content: 'A river' });
  const many = await ask(host, '/v1/completions', { ...body, prompt: [tokens, tokens, tokens] });
  t.equal(many.choices.length, 3);
  const mixed = await ask(host, '/v1/completions', { ...body, prompt: ['A river', tokens[0]] });
  t.equal(mixed.choices.length, 1, 'texts and tokens that are mixed are one prompt');
});

t.test('choices call tools each for themselves', async (t) => {
  const host = await startHost(t);
  const parameters = { type: 'object', properties: { days: { enum: [1, 2, 3] } }, required: ['days'] };
  const tools = [{ type: 'function', function: { name: 'weather', parameters } }];
  const body = { model: 'm', messages: MESSAGES, tools, n: 2, seed: 1 };
  const { choices } = await ask(host, CHAT, body);
  const calls = choices.map(({ message }: Answer) => message.tool_calls[0]);
  t.not(calls[0].id, calls[1].id);
  const streamed = await events(host, CHAT, body);
  for (const [index, call] of calls.entries()) {
    const json = ofChoice(streamed, index).flatMap(({ delta }) => delta.tool_calls ?? []);
    t.equal(json.map((part) => part.function.arguments).join(''), call.function.arguments);
    t.type(JSON.parse(call.function.arguments), 'object');
  }
});

t.test('a text goes between prompt and suffix', async (t) => {
  const host = await startHost(t);
  const body = { prompt: 'function add(a, b) {', suffix: '}', max_tokens: 6, ignore_eos: true, seed: 3 };
  const { choices, usage } = await ask(host, '/v1/completions', { model: 'm', ...body });
  const infilled = await events(host, '/infill', {
    input_prefix: body.prompt,
    input_suffix: body.suffix,
    n_predict: 6,
    ignore_eos: true,
    seed: 3,
  });
  t.equal(choices[0].text, infilled.map(({ content }) => content).join(''));
  t.equal(usage.prompt_tokens, infilled.at(-1).tokens_evaluated);
});

t.test('out of memory ends all choices with one error', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', messages: MESSAGES, n: 3, max_tokens: 50, ignore_eos: true };
  const headers = { 'x-headrace-fault': 'oom-after=7' };
  const whole = await send(host, CHAT, body, headers);
  t.equal(whole.status, 500);
  t.match(await whole.json(), { error: { message: 'the engine ran out of memory' } });
  const text = await (await send(host, CHAT, { ...body, stream: true }, headers)).text();
  t.equal(text.split('the engine ran out of memory').length, 2);
  t.notMatch(text, /\[DONE\]/);
  t.equal((await ask(host, CHAT, body)).choices.length, 3, 'new requests go on');
});

t.test('a prompt that does not fit ends those that were begun', async (t) => {
  const host = await startHost(t, { engine: { speed: 'virtual', slots: 4, contextTokens: 64 } });
  const body = { model: 'm', prompt: ['short', 'long '.repeat(200)], max_tokens: 9 };
  const response = await send(host, '/v1/completions', body);
  t.equal(response.status, 400);
  t.match(await response.json(), { error: { code: 'context_length_exceeded' } });
  const slots = (await (await fetch(`${host.url}/slots`)).json()) as { is_processing: boolean }[];
  t.equal(slots.filter(({ is_processing: isBusy }) => isBusy).length, 0);
});

t.test('what is not built or makes no sense is refused by name', async (t) => {
  const host = await startHost(t);
  const paced = await startHost(t, { engine: 'paced' });
  const text = { model: 'm', prompt: 'x', max_tokens: 1 };
  const refused: [typeof host, object, string][] = [
    [host, { ...text, n: 0 }, 'n'],
    [host, { ...text, n: 129 }, 'n'],
    [host, { ...text, n: 'two' }, 'n'],
    [host, { ...text, best_of: 3 }, 'best_of'],
    [host, { ...text, echo: true }, 'echo'],
    [host, { ...text, prompt: [1, 2], suffix: 'y' }, 'suffix'],
    [host, { ...text, prompt: Array.from({ length: 17 }, () => 'x'), n: 128 }, 'prompt'],
    [paced, { ...text, n: 2 }, 'n'],
  ];
  for (const [where, body, name] of refused) {
    const response = await send(where, '/v1/completions', body);
    t.equal(response.status, 422, JSON.stringify(body));
    t.match(await response.json(), { detail: [{ loc: ['body', name] }] });
  }
  const same = await ask(host, '/v1/completions', { ...text, n: 2, best_of: 2, echo: false });
  t.equal(same.choices.length, 2, 'the best of as many as are answered are all of them');
});

t.test('the prompt and the biases of a request are read once for all of its choices', async (t) => {
  const engine = createSimulatedEngine({ models: ['m'], speed: 'virtual' });
  t.teardown(() => engine.close());
  const reads = { prompt: 0, bias: 0 };
  const logit_bias = {
    get mill() {
      reads.bias++;
      return 1;
    },
  };
  const prompt = {
    kind: 'parts' as const,
    get parts() {
      reads.prompt++;
      return ['The mill'];
    },
  };
  const task = (own: Partial<Task>): Task => {
    const options = { ...DEFAULT_OPTIONS, logit_bias, n_predict: 1 };
    return { model: 'm', prompt, options, whenFull: 'stop', timingsId: null, pace: {}, ...own };
  };
  const run = (own: Partial<Task>): Promise<number> =>
    new Promise((resolve) => {
      engine.complete(task(own), { start: (tokens) => resolve(tokens), text() {}, end() {} });
    });
  const tokens = await run({});
  const first = { ...reads };
  t.equal(await run({}), tokens);
  t.same(reads, first);
  t.equal(first.bias, 1);
  t.ok((await run({ system: 'A system prompt.' })) > tokens, 'another system prompt is another prompt');
  t.equal(await run({}), tokens);
});
