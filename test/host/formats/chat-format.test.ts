import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { createHost } from '../../../src/host/index.ts';
import { gather } from './gather.ts';

import OpenAI from 'openai';
import t from 'tap';

const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0 });
t.before(() => host.listen());
t.teardown(() => host.close());

const openai = (headers: Record<string, string> = {}): OpenAI =>
  new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0, defaultHeaders: headers });
const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'hello' }] };
const words = (text: string | null | undefined): number => (text ?? '').split(' ').length;

t.test('the official client reads a whole answer', async (t) => {
  const answer = await openai().chat.completions.create(ask);
  t.match(answer, {
    object: 'chat.completion',
    model: 'm',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: String } }],
    usage: { prompt_tokens: 2, completion_tokens: 16, total_tokens: 18, prompt_tokens_details: { cached_tokens: 0 } },
  });
  t.equal(words(answer.choices[0]?.message.content), 16);
});

t.test('the first chunk carries role and text, the last the finish, and usage comes when asked for', async (t) => {
  const stream = await openai().chat.completions.create({
    ...ask,
    max_completion_tokens: 3,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = await gather(stream);
  t.equal(chunks.length, 5);
  t.match(chunks[0], { object: 'chat.completion.chunk', usage: null });
  t.match(chunks[0]?.choices[0], { delta: { role: 'assistant', content: /^\S+$/ }, finish_reason: null });
  t.notMatch(chunks[1]?.choices[0]?.delta, { role: 'assistant' });
  t.match(chunks[3]?.choices[0], { delta: {}, finish_reason: 'length' });
  t.match(chunks[4], { choices: [], usage: { completion_tokens: 3 } });
  t.equal(new Set(chunks.map(({ id }) => id)).size, 1);
});

t.test('without the option a stream carries no usage', async (t) => {
  const chunks = await gather(await openai().chat.completions.create({ ...ask, stream: true }));
  t.equal(chunks.length, 17);
  t.ok(chunks.every((chunk) => !('usage' in chunk)));
});

t.test('the stream helper assembles the same text as a whole answer', async (t) => {
  const whole = await openai().chat.completions.create(ask);
  const helper = openai().chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
  const final = await helper.finalChatCompletion();
  t.equal(final.choices[0]?.message.content, whole.choices[0]?.message.content);
  t.equal((await helper.totalUsage()).completion_tokens, 16);
});

t.test('an answer of no tokens still has a role and a finish', async (t) => {
  const final = await openai()
    .chat.completions.stream({ ...ask, max_tokens: 0 })
    .finalChatCompletion();
  t.match(final.choices[0], { finish_reason: 'length', message: { role: 'assistant' } });
});

t.test('a stop string ends the answer before it', async (t) => {
  const whole = (await openai().chat.completions.create(ask)).choices[0]?.message.content ?? '';
  const stop = whole.split(' ')[4]!;
  const cut = (await openai().chat.completions.create({ ...ask, stop })).choices[0];
  t.equal(cut?.message.content, whole.slice(0, whole.indexOf(stop)));
  t.equal(cut?.finish_reason, 'stop');
  for (const wrong of [1, ['a', 1], {}] as unknown[] as string[])
    await t.rejects(openai().chat.completions.create({ ...ask, stop: wrong }), {
      status: 400,
      message: /stop must be/,
    });
});

t.test('parts of a content count as prompt, images do not', async (t) => {
  const content = [
    { type: 'text' as const, text: 'hello' },
    { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } },
  ];
  const answer = await openai().chat.completions.create({ model: 'm', messages: [{ role: 'user', content }] });
  t.equal(answer.usage?.prompt_tokens, 2);
});

t.test('the official client throws the error of an unknown model and of an error event', async (t) => {
  await t.rejects(openai().chat.completions.create({ ...ask, model: 'x' }), {
    status: 404,
    code: 'model_not_found',
    message: /does not exist/,
  });
  const broken = openai({ 'x-headrace-fault': 'error-after=2' }).chat.completions.create({ ...ask, stream: true });
  await t.rejects(async () => gather(await broken), { message: /simulated engine failed/ });
});

t.test('the Vercel client generates and streams', async (t) => {
  const provider = createOpenAICompatible({ name: 'host', baseURL: `${host.url}/v1`, includeUsage: true });
  const generated = await generateText({ model: provider('m'), prompt: 'hello', maxRetries: 0 });
  t.match({ finish: generated.finishReason, tokens: generated.usage.outputTokens }, { finish: 'stop', tokens: 16 });
  const streamed = streamText({ model: provider('m'), prompt: 'hello', maxRetries: 0 });
  t.equal(await streamed.text, generated.text);
  t.equal((await streamed.usage).outputTokens, 16);
});
