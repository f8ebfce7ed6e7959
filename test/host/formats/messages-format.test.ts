import { createHost } from '../../../src/host/index.ts';

import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';

const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, naturalTokens: 20, keys: ['k'] });
t.before(() => host.listen());
t.teardown(() => host.close());

const client = (headers: Record<string, string> = {}): Anthropic =>
  new Anthropic({ baseURL: host.url, apiKey: 'k', maxRetries: 0, defaultHeaders: headers });
const ask = { model: 'm', max_tokens: 5, messages: [{ role: 'user' as const, content: 'hello' }] };

t.test('the official client reads a whole answer', async (t) => {
  const answer = await client().messages.create({ ...ask, system: 'be brief' });
  t.match(answer, {
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: /^\S+( \S+){4}$/ }],
    stop_reason: 'max_tokens',
    stop_sequence: null,
    usage: { input_tokens: 4, output_tokens: 5, cache_read_input_tokens: 0 },
  });
});

t.test('an answer that ends by itself says end_turn, one at a stop string names it', async (t) => {
  const whole = await client().messages.create({ ...ask, max_tokens: 1000 });
  t.match(whole, { stop_reason: 'end_turn', usage: { output_tokens: 20 } });
  const text = whole.content[0]?.type === 'text' ? whole.content[0].text : '';
  const word = text.split(' ')[3]!;
  const cut = await client().messages.create({ ...ask, max_tokens: 1000, stop_sequences: [word] });
  t.match(cut, { stop_reason: 'stop_sequence', stop_sequence: word });
});

t.test('events come in order, each with its name and usage at both ends', async (t) => {
  const response = await client()
    .messages.create({ ...ask, max_tokens: 2, stream: true })
    .asResponse();
  const text = await response.text();
  const names = [...text.matchAll(/^event: (\w+)$/gm)].map((match) => match[1]);
  t.same(names, [
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
  ]);
  const data = [...text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1]!) as { type: string });
  t.same(
    data.map(({ type }) => type),
    names,
  );
  t.match(data[0], { message: { usage: { input_tokens: 2, output_tokens: 1 }, content: [], stop_reason: null } });
  t.match(data[5], { delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 2 } });
});

t.test('the stream helper assembles the same text as a whole answer', async (t) => {
  const whole = await client().messages.create(ask);
  const final = await client().messages.stream(ask).finalMessage();
  t.same(final.content[0], whole.content[0]);
  t.match(final.usage, { input_tokens: 2, output_tokens: 5 });
});

t.test('errors keep their type, before and within a stream', async (t) => {
  await t.rejects(client().messages.create({ ...ask, model: 'x' }), {
    message: /does not exist/,
    status: 404,
    type: 'not_found_error',
  });
  const failing = client({ 'x-headrace-fault': 'error-after=3' });
  await t.rejects(failing.messages.stream(ask).finalMessage(), {
    message: /simulated engine failed/,
    type: 'api_error',
  });
  const unclosed = client({ 'x-headrace-fault': 'no-done' });
  await t.rejects(unclosed.messages.stream(ask).finalMessage());
});
