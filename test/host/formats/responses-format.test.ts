import { createHost } from '../../../src/host/index.ts';
import { gather } from './gather.ts';

import OpenAI from 'openai';
import t from 'tap';

const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0 });
t.before(() => host.listen());
t.teardown(() => host.close());

const client = (headers: Record<string, string> = {}): OpenAI =>
  new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0, defaultHeaders: headers });
const ask = { model: 'm', input: 'hello' };

t.test('the official client reads a whole answer', async (t) => {
  const answer = await client().responses.create({ ...ask, instructions: 'be brief' });
  t.match(answer, {
    object: 'response',
    status: 'completed',
    error: null,
    incomplete_details: null,
    instructions: 'be brief',
    output: [
      { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', annotations: [] }] },
    ],
    usage: { input_tokens: 4, output_tokens: 16, total_tokens: 20, input_tokens_details: { cached_tokens: 0 } },
  });
  t.match(answer.output_text, /^\S+( \S+){15}$/);
});

t.test('events are numbered, placed and complete', async (t) => {
  const stream = await client().responses.create({ ...ask, max_output_tokens: 2, stream: true });
  const events = await gather(stream);
  t.same(
    events.map(({ type }) => type.replace('response.', '')),
    [
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'incomplete',
    ],
  );
  t.same(
    events.map((event) => event.sequence_number),
    [...events.keys()],
  );
  const deltas = events.filter((event) => event.type === 'response.output_text.delta');
  t.match(deltas[0], { output_index: 0, content_index: 0, item_id: /^msg_/, delta: /^\S+$/ });
  t.match(events.at(-1), {
    response: {
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      usage: { output_tokens: 2 },
    },
  });
});

t.test('the stream helper assembles the same text as a whole answer', async (t) => {
  const whole = await client().responses.create(ask);
  const final = await client().responses.stream(ask).finalResponse();
  t.equal(final.status, 'completed');
  t.equal(final.output_text, whole.output_text);
  t.equal(final.usage?.output_tokens, 16);
});

t.test('a failure within the stream is response.failed', async (t) => {
  const failing = client({ 'x-headrace-fault': 'error-after=6' });
  const events = await gather(await failing.responses.create({ ...ask, stream: true }));
  t.match(events.at(-1), { type: 'response.failed', response: { status: 'failed', error: { code: 'server_error' } } });
});

t.test('input items count as prompt', async (t) => {
  const input = [{ role: 'user' as const, content: [{ type: 'input_text' as const, text: 'hello' }] }];
  t.equal((await client().responses.create({ model: 'm', input })).usage?.input_tokens, 2);
});
