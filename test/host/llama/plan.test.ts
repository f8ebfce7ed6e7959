// What a request may plan for itself on a host with an engine, and what the host tells besides completions.
import Anthropic from '@anthropic-ai/sdk';
import t from 'tap';
import type { Host } from '../../../src/host/index.ts';
import { ask, get, send, startHost } from './ask.ts';

const MESSAGES = [{ role: 'user', content: 'How does the mill work?' }];
const SHAPES: [string, object, (answer: ReturnType<JSON['parse']>) => unknown][] = [
  ['/completion', { prompt: 'x', n_predict: 3 }, (answer) => answer.tokens_predicted],
  ['/v1/completions', { prompt: 'x', max_tokens: 3 }, ({ usage }) => usage.completion_tokens],
  ['/v1/chat/completions', { messages: MESSAGES }, ({ usage }) => usage.completion_tokens],
  ['/v1/responses', { input: 'x' }, ({ usage }) => usage.output_tokens],
  ['/v1/messages', { messages: MESSAGES, max_tokens: 3 }, ({ usage }) => usage.output_tokens],
];

t.test('the plan of a request says how long its answer is, whatever the model or the request want', async (t) => {
  const host = await startHost(t, { maxTokens: 5 });
  for (const [path, body, tokens] of SHAPES) {
    const request = { model: 'm', seed: 1, ...body };
    const planned = await send(host, path, request, { 'x-headrace-sim': 'tokens=700' });
    t.equal(tokens(await planned.json()), 700, path);
  }
});

t.test('what the plan cannot say to an engine is refused by name', async (t) => {
  const host = await startHost(t);
  const refused: [string, RegExp][] = [
    ['ttft=5', /'ttft' is for hosts with a fixed pace/],
    ['tokens=3,itl=0', /'itl' is for hosts with a fixed pace/],
    ['speed=9', /unknown pace 'speed'/],
    ['tokens=many', /cannot read the pace 'tokens=many'/],
  ];
  for (const [plan, message] of refused) {
    for (const [path, body] of SHAPES) {
      const response = await send(host, path, { model: 'm', ...body }, { 'x-headrace-sim': plan });
      t.equal(response.status, 400);
      t.match(await response.json(), { detail: message, error: { message } });
    }
  }
});

async function countOf(host: Host, body: object): Promise<unknown> {
  return ask(host, '/v1/messages/count_tokens', { model: 'm', ...body });
}

t.test('tokens of messages are counted as their usage counts them', async (t) => {
  const turns = [...MESSAGES, { role: 'assistant', content: 'By water.' }, { role: 'user', content: 'And then?' }];
  const tools = [{ name: 'weather', input_schema: { type: 'object', properties: { day: { enum: [1] } } } }];
  for (const engine of [{ speed: 'virtual' }, 'paced'] as const) {
    const host = await startHost(t, { engine });
    for (const body of [{ messages: MESSAGES }, { system: 'Be brief.', messages: turns }, { messages: turns, tools }]) {
      const request = { model: 'm', max_tokens: 40, ...body };
      await ask(host, '/v1/messages', request);
      const { usage } = await ask(host, '/v1/messages', request);
      t.same(await countOf(host, body), { input_tokens: usage.input_tokens + usage.cache_read_input_tokens });
    }
  }
});

t.test('the official client counts tokens', async (t) => {
  const host = await startHost(t);
  const client = new Anthropic({ baseURL: host.url, apiKey: 'k', maxRetries: 0 });
  const messages = [{ role: 'user' as const, content: 'How does the mill work?' }];
  const counted = await client.messages.countTokens({ model: 'm', messages });
  const { usage } = await client.messages.create({ model: 'm', messages, max_tokens: 4 });
  t.equal(counted.input_tokens, usage.input_tokens);
});

t.test('what cannot be counted is refused', async (t) => {
  const host = await startHost(t);
  const status = async (body: object): Promise<number> => (await send(host, '/v1/messages/count_tokens', body)).status;
  t.same(
    await Promise.all([status({ messages: MESSAGES }), status({ model: 'z' }), status({ model: 'm' })]),
    [422, 404, 400],
  );
  const wrong = await send(host, '/v1/messages/count_tokens', { model: 'm' });
  t.match(await wrong.json(), { type: 'error', error: { message: /messages must be an array/ } });
});

t.test('one entry of the list is there by its name', async (t) => {
  const host = await startHost(t, { models: ['org/m'] });
  const { data } = await get(host, '/v1/models');
  t.same(await get(host, '/v1/models/org/m'), data[0]);
  t.same(await get(host, '/v1/models/org%2Fm'), data[0]);
  t.equal((await fetch(`${host.url}/v1/models/z`)).status, 404);
});
