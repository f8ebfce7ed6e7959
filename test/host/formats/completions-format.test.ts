import { createHost } from '../../../src/host/index.ts';
import { gather } from './gather.ts';

import OpenAI from 'openai';
import t from 'tap';

const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0 });
t.before(() => host.listen());
t.teardown(() => host.close());

const client = (headers: Record<string, string> = {}): OpenAI =>
  new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0, defaultHeaders: headers });

t.test('the official client reads a whole answer', async (t) => {
  const answer = await client().completions.create({ model: 'm', prompt: ['hello', 'there'], max_tokens: 4 });
  t.match(answer, {
    object: 'text_completion',
    choices: [{ index: 0, text: /^\S+( \S+){3}$/, finish_reason: 'length', logprobs: null }],
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
  });
});

t.test('a stream carries the same text, a finish, and usage when asked for', async (t) => {
  const ask = { model: 'm', prompt: 'hello' };
  const whole = await client().completions.create(ask);
  const stream = await client().completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
  const chunks = await gather(stream);
  t.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), whole.choices[0]?.text);
  t.match(chunks.at(-2)?.choices[0], { text: '', finish_reason: 'stop' });
  t.match(chunks.at(-1), { choices: [], usage: { completion_tokens: 16 } });
  const bare = await gather(await client().completions.create({ ...ask, stream: true }));
  t.equal(bare.length, 17);
  t.ok(bare.every((chunk) => !('usage' in chunk)));
});

t.test('an error event throws', async (t) => {
  const broken = client({ 'x-headrace-fault': 'error-after=1' }).completions.create({
    model: 'm',
    prompt: 'p',
    stream: true,
  });
  await t.rejects(async () => gather(await broken), { message: /simulated engine failed/ });
});
