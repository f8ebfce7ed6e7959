// Every dialect: paths, error events as the official SDKs read them, error members, and complete streams.
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { DIALECTS, dialectOf, errorEvent, upstreamPath } from '../../src/dialect/dialects.ts';
import type { DialectName, Failure } from '../../src/dialect/dialect.ts';
import { parseEvents } from '../../src/net/sse.ts';

const failure: Failure = { code: 'HR_STREAM_BROKEN', message: 'The server broke off\nmid "answer"', status: 502 };
const openaiError = { message: failure.message, type: 'server_error', param: null, code: 'HR_STREAM_BROKEN' };

t.test('dialectOf knows the dialect of a path', (t) => {
  const rows: [string, DialectName | undefined][] = [
    ['/v1/completions', 'completions'],
    ['/v1/chat/completions', 'chat-completions'],
    ['/v1/responses', 'responses'],
    ['/v1/messages', 'messages'],
    ['/chat/completions', 'chat-completions'],
    ['/responses', 'responses'],
    ['/completions', 'llama'],
    ['/completion', 'llama'],
    ['/infill', 'llama'],
    ['/v1/chat/completions/', 'chat-completions'],
    ['/v1/chat/completion%73', 'chat-completions'],
    ['/v1%2Fchat%2fcompletions/', 'chat-completions'],
    ['//v1///chat/completions//', 'chat-completions'],
    ['/v1/chat/%2Fcompletions', 'chat-completions'],
    ['/%763/messages', undefined],
    ['/v1/embeddings', undefined],
    ['/v1/messages/count_tokens', undefined],
    ['/', undefined],
  ];
  for (const [path, name] of rows) t.equal(dialectOf(path)?.name, name, path);
  for (const [name, dialect] of Object.entries(DIALECTS)) t.equal(dialect.name, name);
  t.equal(upstreamPath('/completions'), '/completion');
  t.equal(upstreamPath('/%63ompletions/'), '/completion');
  t.equal(upstreamPath('//completions'), '/completion');
  t.equal(upstreamPath('/v1/completions'), '/v1/completions');
  t.equal(upstreamPath('/v1/completions/'), '/v1/completions/', 'other paths are passed on as they are');
  t.end();
});

t.test('an error event is one line of data and a blank line', (t) => {
  const flat = {
    type: 'error',
    code: failure.code,
    message: failure.message,
    param: null,
    sequence_number: 7,
    error: openaiError,
  };
  const failed = {
    type: 'response.failed',
    sequence_number: 8,
    response: { object: 'response', status: 'failed', error: { code: failure.code, message: failure.message } },
  };
  const rows: [DialectName | undefined, [string | undefined, object][]][] = [
    ['completions', [[undefined, { error: openaiError }]]],
    ['chat-completions', [[undefined, { error: openaiError }]]],
    [
      'responses',
      [
        ['error', flat],
        ['response.failed', failed],
      ],
    ],
    ['messages', [['error', { type: 'error', error: { type: 'api_error', message: failure.message } }]]],
    ['llama', [[undefined, { error: { code: 502, message: failure.message, type: 'server_error' } }]]],
    [undefined, [['error', { type: 'error', error: openaiError }]]],
  ];
  for (const [name, expected] of rows) {
    const text = errorEvent(name && DIALECTS[name], { ...failure, sequence: 7 });
    const events = parseEvents(text);
    t.strictSame(
      events.map(({ event, data }) => [event, JSON.parse(data)]),
      expected,
      name ?? 'no dialect',
    );
    t.ok(text.endsWith('\n\n'));
  }
  t.end();
});

t.test('each status has its error type', (t) => {
  const rows: [number, string, string, string][] = [
    [400, 'invalid_request_error', 'invalid_request_error', 'invalid_request_error'],
    [401, 'authentication_error', 'authentication_error', 'authentication_error'],
    [402, 'insufficient_quota', 'billing_error', 'invalid_request_error'],
    [403, 'permission_error', 'permission_error', 'permission_error'],
    [404, 'invalid_request_error', 'not_found_error', 'not_found_error'],
    [413, 'invalid_request_error', 'request_too_large', 'invalid_request_error'],
    [422, 'invalid_request_error', 'invalid_request_error', 'invalid_request_error'],
    [429, 'rate_limit_error', 'rate_limit_error', 'invalid_request_error'],
    [500, 'server_error', 'api_error', 'server_error'],
    [502, 'server_error', 'api_error', 'server_error'],
    [503, 'server_error', 'overloaded_error', 'unavailable_error'],
    [504, 'server_error', 'timeout_error', 'server_error'],
  ];
  const message = 'No';
  for (const [status, openai, messages, llama] of rows) {
    const member = (name: DialectName): object => DIALECTS[name].errorMember({ status, code: 'HR_X', message });
    const openaiMember = { error: { message, type: openai, param: null, code: 'HR_X' } };
    for (const name of ['completions', 'chat-completions', 'responses'] as const)
      t.strictSame(member(name), openaiMember);
    t.strictSame(member('messages'), { type: 'error', error: { type: messages, message } });
    t.strictSame(member('llama'), { error: { code: status, message, type: llama } });
  }
  t.end();
});

/** A fetch whose responses are `sse`. */
function answering(sse: string): typeof fetch {
  return () => Promise.resolve(new Response(sse, { headers: { 'content-type': 'text/event-stream' } }));
}

async function drain(stream: AsyncIterable<unknown>): Promise<number> {
  let items = 0;
  for await (const item of stream) items += item === undefined ? 0 : 1;
  return items;
}

t.test('the official SDKs throw after the events that came before', async (t) => {
  const chunk = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"text":"Hi","finish_reason":null}]}\n\n';
  const created = 'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n';
  const openai = (sse: string): OpenAI => new OpenAI({ apiKey: 'k', fetch: answering(sse), maxRetries: 0 });
  const body = { model: 'm', stream: true } as const;
  const expected = { message: failure.message, code: failure.code, type: 'server_error' };
  const chat = errorEvent(DIALECTS['chat-completions'], failure);
  await t.rejects(drain(await openai(chunk + chat).chat.completions.create({ ...body, messages: [] })), expected);
  await t.rejects(drain(await openai(chunk + chat).completions.create({ ...body, prompt: 'x' })), expected);
  const numbered = errorEvent(DIALECTS.responses, failure);
  await t.rejects(drain(await openai(created + numbered).responses.create({ ...body, input: 'x' })), expected);
  const unknown = errorEvent(undefined, failure);
  await t.rejects(drain(await openai(chunk + unknown).chat.completions.create({ ...body, messages: [] })), expected);

  const start = 'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[]}}\n\n';
  const anthropic = (sse: string): Anthropic => new Anthropic({ apiKey: 'k', fetch: answering(sse), maxRetries: 0 });
  const message = { ...body, max_tokens: 5, messages: [] };
  for (const [event, type] of [
    [errorEvent(DIALECTS.messages, failure), 'api_error'],
    [unknown, 'server_error'],
  ] as const) {
    await t.rejects(drain(await anthropic(start + event).messages.create(message)), { message: /broke off/, type });
  }
  t.equal(
    await drain(await openai(chunk).chat.completions.create({ ...body, messages: [] })),
    1,
    'without the error event they do not throw',
  );
});
