// Rounds of a model that calls functions without end.

import t from 'tap';
import type { DialectName } from '../../src/dialect/index.ts';
import { hostedRequestOf } from '../../src/web-search/hosted-request.ts';
import { SearchLoop, wholeAnswer } from '../../src/web-search/index.ts';
import { chunk, eventOf, finish } from '../support/scripted-chat.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

type Json = Readonly<Record<string, unknown>>;

const WEB_SEARCH = { type: 'web_search_20250305', name: 'web_search' };
const USER = [{ role: 'user', content: 'How high is the mill?' }];
const BODIES: readonly (readonly [DialectName, Json])[] = [
  ['chat-completions', { messages: USER, web_search_options: {} }],
  ['messages', { max_tokens: 100, messages: USER, tools: [WEB_SEARCH] }],
  ['responses', { input: 'How high is the mill?', tools: [{ type: 'web_search' }] }],
];

t.test('messages: a whole answer with very many citations in one block is put together in linear time', async (t) => {
  const citation = { type: 'web_search_result_location', url: 'https://one.example/', cited_text: 'y'.repeat(400) };
  const count = 40_000;
  const cited = eventOf({ type: 'content_block_delta', index: 0, delta: { type: 'citations_delta', citation } });
  const events =
    eventOf({ type: 'message_start', message: { id: 'm' } }) +
    eventOf({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }) +
    cited.repeat(count);
  let whole = '';
  const tookMs = cpuMsOf(() => (whole = wholeAnswer('messages', Buffer.from(events)).toString()));
  const { content } = JSON.parse(whole) as { readonly content: readonly [{ readonly citations: readonly unknown[] }] };
  t.equal(content[0].citations.length, count);
  t.ok(tookMs < 3000, `${tookMs} ms`);
});

t.test('numbers of a whole answer keep their digits', async (t) => {
  const args = '{"id":12345678901234567890,"part":0.12345678901234567890,"n":1e400}';
  const delta = { type: 'input_json_delta', partial_json: args };
  const input = { type: 'tool_use', id: 'c', name: 'read', input: {} };
  const message =
    eventOf({ type: 'message_start', message: { id: 'm' } }) +
    eventOf({ type: 'content_block_start', index: 0, content_block: input }) +
    eventOf({ type: 'content_block_delta', index: 0, delta }) +
    eventOf({ type: 'content_block_stop', index: 0 });
  t.equal(
    wholeAnswer('messages', Buffer.from(message)),
    `{"id":"m","content":[{"type":"tool_use","id":"c","name":"read","input":${args}}]}`,
  );
  const response = `{"id":"r","tools":[{"parameters":{"maximum":18446744073709551615}}]}`;
  const event = `data: {"type":"response.completed","response":${response}}\n\n`;
  t.equal(wholeAnswer('responses', Buffer.from(event)), response);
});

t.test('no round follows a search whose result was more than the answer may hold', async (t) => {
  const body = { model: 'm', input: 'How high is the mill?', tools: [{ type: 'web_search' }] };
  const request = hostedRequestOf('responses', Buffer.from(JSON.stringify(body)), 0);
  if (request === null) return t.fail('the request has no hosted tool');
  let rounds = 0;
  const loop: SearchLoop = new SearchLoop(request, {
    ask: () => rounds++,
    search: (_, done) => done(200, { results: [{ title: 'Mill', url: 'https://one.example/', snippet: '' }] }),
    open: (_, done) => done(500, undefined),
    output: (events) => {
      if (events.includes('web_search_call.completed')) loop.leave();
    },
    finished: () => t.fail('the model has not answered'),
    failed: (error) => t.fail(error.message),
    tooLong: () => t.fail('the round is not too long'),
    ...{ nowMs: () => 0, epochMs: () => 0, uniqueId: () => '1' },
  });
  loop.start();
  const named = { name: request.tool?.name, arguments: '{"query":"mill"}' };
  loop.events(Buffer.from(eventOf(chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: named }] }))));
  loop.events(Buffer.from(eventOf(finish('tool_calls'))));
  loop.events(Buffer.from('data: [DONE]\n\n'));
  loop.roundEnded();
  t.equal(rounds, 1);
});

for (const [dialect, body] of BODIES) {
  t.test(`${dialect}: of very many calls of one round the first ones are told of`, async (t) => {
    const request = hostedRequestOf(dialect, Buffer.from(JSON.stringify({ model: 'm', stream: true, ...body })), 0);
    if (request === null) return t.fail('the request has no hosted tool');
    const asked: Json[] = [];
    let searches = 0;
    let bytes = 0;
    let ids = 0;
    const loop = new SearchLoop(request, {
      ask: (sent) => asked.push(JSON.parse(sent.toString()) as Json),
      search: (_, done) =>
        done(200, { results: [{ title: `${++searches}`, url: 'https://one.example/', snippet: '' }] }),
      open: (_, done) => done(500, undefined),
      output: (events) => (bytes += events.byteLength),
      finished: () => t.fail('the model has not answered'),
      failed: (error) => t.fail(error.message),
      tooLong: () => t.fail('the round is too long'),
      nowMs: () => 0,
      epochMs: () => 0,
      uniqueId: () => String(++ids),
    });
    loop.start();
    for (let index = 0; index < 2000; index++) {
      const { name } = request.tool ?? {};
      const call = { index, id: `call_${index}`, type: 'function', function: { name, arguments: '{"query":"mill"}' } };
      loop.events(Buffer.from(eventOf(chunk({ tool_calls: [call] }))));
    }
    loop.events(Buffer.from(eventOf(finish('tool_calls'))));
    loop.events(Buffer.from('data: [DONE]\n\n'));
    loop.roundEnded();
    t.equal(searches, 8);
    const [, second] = asked as [Json, { readonly messages: readonly { readonly tool_calls?: readonly Json[] }[] }];
    t.equal(second.messages.length, USER.length + 1 + 64);
    t.equal(second.messages[1]?.tool_calls?.length, 64);
    t.ok(bytes < 200_000, `${bytes} bytes for the client`);
  });
}
