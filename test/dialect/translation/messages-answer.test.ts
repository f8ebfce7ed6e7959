import Anthropic, { APIError } from '@anthropic-ai/sdk';
import { test } from 'tap';
import { messages } from '../../../src/dialect/messages.ts';
import { MessagesAnswer } from '../../../src/dialect/translation/messages-answer.ts';
import { MessagesRequest } from '../../../src/dialect/translation/messages-request.ts';
import { HeadraceError } from '../../../src/errors.ts';
import { parseEvents } from '../../../src/net/sse.ts';
import { Random } from '../../support/random.ts';
import {
  chunk,
  DONE,
  eventOf,
  finish,
  inPieces,
  type Json,
  randomOutput,
  streamOf,
  usageChunk,
  wholeAnswer,
  wholeOf,
} from '../../support/scripted-chat.ts';
import { serving } from '../../support/serving.ts';

type Frame = Json | string;

/** The text that the client gets of a stream, piece for piece, and of its end. */
function translated(pieces: readonly Buffer[]): string {
  const answer = new MessagesAnswer();
  let text = '';
  for (const piece of pieces) text += answer.events(piece).toString();
  return text + answer.end().toString();
}

/** The translated events of a stream, without `message_start` and `ping`. */
function eventsOf(...frames: readonly Frame[]): Json[] {
  const events = parseEvents(translated(frames.map((frame) => Buffer.from(eventOf(frame)))));
  return events
    .map(({ data }) => JSON.parse(data) as Json)
    .filter(({ type }) => type !== 'message_start' && type !== 'ping');
}

interface StreamEvent {
  readonly type: string;
  readonly index: number;
  readonly content_block: { readonly type: string; readonly id?: string; readonly name?: string };
  readonly delta: Readonly<Record<string, string>>;
  readonly error: unknown;
}

/** The translated stream as the official SDK would collect it, in short: each block as its text, then the end. */
function collected(...frames: readonly Frame[]): unknown[] {
  const blocks: string[] = [];
  const ends: unknown[] = [];
  const open = new Set<number>();
  for (const event of eventsOf(...frames) as unknown as StreamEvent[]) {
    const { content_block: block, delta, error, index, type } = event;
    switch (type) {
      case 'content_block_start':
        open.add(index);
        if (open.size > 1 || index !== blocks.length) throw new Error('blocks overlap');
        blocks.push(block.id === undefined ? `${block.type}: ` : `${block.type} ${block.id} ${block.name}: `);
        break;
      case 'content_block_delta':
        if (!open.has(index)) throw new Error('a delta of no open block');
        blocks[index] += delta['partial_json'] ?? delta['text'] ?? delta['thinking'] ?? '';
        break;
      case 'content_block_stop':
        if (!open.delete(index)) throw new Error('the end of no open block');
        break;
      case 'message_delta':
        if (open.size > 0) throw new Error('a block is open at the end');
        ends.push(delta['stop_reason']);
        break;
      case 'error':
        ends.push(error);
        break;
      default:
    }
  }
  return [...blocks, ...ends];
}

const call = (index: number | undefined, id: string | undefined, name: string | undefined, args?: string): Json => ({
  tool_calls: [
    {
      ...(index !== undefined && { index }),
      ...(id !== undefined && { id, type: 'function' }),
      function: { ...(name !== undefined && { name }), ...(args !== undefined && { arguments: args }) },
    },
  ],
});

const role = chunk({ role: 'assistant', content: '' });

test('sends the events of the official API in their order', async (t) => {
  const frames = [
    role,
    chunk({ reasoning_content: 'Hm.' }),
    chunk({ content: 'Down' }),
    chunk({ content: 'hill' }),
    finish('stop'),
    usageChunk({ prompt_tokens: 9, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 4 } }),
    DONE,
  ];
  const events = parseEvents(translated(frames.map((frame) => Buffer.from(eventOf(frame)))));
  for (const { data, event } of events) t.equal((JSON.parse(data) as Json)['type'], event, 'the name is the type');
  t.strictSame(
    events.map(({ data }) => JSON.parse(data) as Json),
    [
      {
        type: 'message_start',
        message: {
          id: 'msg_7',
          type: 'message',
          role: 'assistant',
          model: 'atlas-27b',
          content: [],
          stop_reason: null,
          stop_sequence: null,
          stop_details: null,
          usage: { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 },
        },
      },
      { type: 'ping' },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm.' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'aGVhZHJhY2U=' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Down' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'hill' } },
      { type: 'content_block_stop', index: 1 },
      {
        type: 'message_delta',
        delta: { stop_reason: 'end_turn', stop_sequence: null, stop_details: null },
        usage: { input_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 4, output_tokens: 5 },
      },
      { type: 'message_stop' },
    ],
  );
});

test('ends blocks at the finish reason, and the message when the counts can no longer come', async (t) => {
  const answer = new MessagesAnswer();
  const types = (frame: Frame): unknown[] =>
    parseEvents(answer.events(Buffer.from(eventOf(frame))).toString()).map(({ event }) => event);
  t.strictSame(types(role), ['message_start', 'ping']);
  t.strictSame(types(chunk({ content: 'a' })), ['content_block_start', 'content_block_delta']);
  t.strictSame(types(finish('stop')), ['content_block_stop']);
  t.strictSame(types(usageChunk({ prompt_tokens: 1, completion_tokens: 1 })), []);
  t.strictSame(types(DONE), ['message_delta', 'message_stop']);
  t.strictSame(types(chunk({ content: 'behind the end' })), []);
  t.equal(answer.end().length, 0);
  t.equal(answer.nextSequence, 0);
});

test('says the counts that the server has sent before the first text', async (t) => {
  const first = chunk(
    { role: 'assistant' },
    {},
    { usage: { prompt_tokens: 12, completion_tokens: 0 }, service_tier: 'default' },
  );
  const [start] = parseEvents(new MessagesAnswer().events(Buffer.from(eventOf(first))).toString());
  t.match(JSON.parse(start?.data ?? ''), { message: { usage: { input_tokens: 12, service_tier: 'standard' } } });
});

test('says the model that was asked for where the server names none', async (t) => {
  const request = { model: 'atlas', max_tokens: 8, messages: [{ role: 'user', content: 'hello' }] };
  const translated = new MessagesRequest(Buffer.from(JSON.stringify(request)));
  for (const [named, expected] of [
    [{}, 'atlas'],
    [{ model: '' }, 'atlas'],
    [{ model: 'atlas-27b' }, 'atlas-27b'],
  ] as const) {
    const body = { ...named, choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }] };
    t.equal(
      JSON.parse(
        translated
          .answer()
          .whole(Buffer.from(JSON.stringify(body)))
          .toString(),
      ).model,
      expected,
    );
    const first = { ...named, choices: [{ index: 0, delta: { content: 'a' } }] };
    const [start] = parseEvents(
      translated
        .answer()
        .events(Buffer.from(eventOf(first)))
        .toString(),
    );
    t.equal(JSON.parse(start?.data ?? '').message.model, expected);
  }
});

const COLLECTED: Readonly<Record<string, readonly [frames: readonly Frame[], expected: readonly unknown[]]>> = {
  'an empty answer': [[role, finish('stop'), DONE], ['end_turn']],
  'a stream without [DONE]': [
    [chunk({ content: 'a' }), finish('stop')],
    ['text: a', 'end_turn'],
  ],
  'a stream without finish reason': [
    [chunk({ content: 'a' }), DONE],
    ['text: a', 'end_turn'],
  ],
  length: [
    [chunk({ content: 'a' }), finish('length'), DONE],
    ['text: a', 'max_tokens'],
  ],
  'a content filter': [
    [chunk({ content: 'a' }), finish('content_filter'), DONE],
    ['text: a', 'refusal'],
  ],
  'a refusal': [
    [chunk({ refusal: 'No' }), chunk({ refusal: '.' }), finish('stop'), DONE],
    ['text: No.', 'refusal'],
  ],
  'a finish reason without a counterpart': [
    [chunk({ content: 'a' }), finish('repetition')],
    ['text: a', 'repetition'],
  ],
  'a stop sequence of vLLM': [
    [chunk({ content: 'a' }), finish('stop', { stop_reason: 'END' })],
    ['text: a', 'stop_sequence'],
  ],
  'a stop sequence of SGLang': [
    [chunk({ content: 'a' }), finish('stop', { matched_stop: 'END' })],
    ['text: a', 'stop_sequence'],
  ],
  'a stop token': [
    [chunk({ content: 'a' }), finish('stop', { stop_reason: 151_645 })],
    ['text: a', 'end_turn'],
  ],
  'empty deltas': [
    [chunk({}), chunk({ content: null }), chunk({ content: 'a' }), chunk({ content: '' }), finish('stop')],
    ['text: a', 'end_turn'],
  ],
  'reasoning in both members': [
    [
      chunk({ reasoning: 'a', reasoning_content: 'a' }),
      chunk({ reasoning: 'b', reasoning_content: 'b' }),
      finish('stop'),
    ],
    ['thinking: ab', 'end_turn'],
  ],
  'reasoning in `reasoning`': [
    [chunk({ reasoning: 'a' }), chunk({ reasoning: 'b' }), chunk({ content: 'c' }), finish('stop')],
    ['thinking: ab', 'text: c', 'end_turn'],
  ],
  'content in parts': [
    [
      chunk({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'a' }] }] }),
      chunk({ content: [{ type: 'text', text: 'b' }] }),
      finish('stop'),
    ],
    ['thinking: a', 'text: b', 'end_turn'],
  ],
  'a message in place of deltas': [
    [{ ...finish('stop', { delta: undefined, message: { role: 'assistant', content: 'a' } }) }],
    ['text: a', 'end_turn'],
  ],
  'another choice': [
    [chunk({ content: 'a' }), chunk({ content: 'x' }, { index: 1 }), finish('stop')],
    ['text: a', 'end_turn'],
  ],
  'log probabilities': [
    [chunk({ content: 'a' }, { logprobs: { content: [{ token: 'a', logprob: -1 }] } }), finish('stop')],
    ['text: a', 'end_turn'],
  ],
  'a call in pieces': [
    [
      chunk(call(0, 'c1', 'read', '')),
      chunk(call(0, undefined, undefined, '{"a"')),
      chunk(call(0, undefined, undefined, ':1}')),
      finish('tool_calls'),
    ],
    ['tool_use c1 read: {"a":1}', 'tool_use'],
  ],
  'a name in pieces': [
    [
      chunk(call(0, 'c1', 're')),
      chunk(call(0, undefined, 'ad')),
      chunk(call(0, undefined, undefined, '{}')),
      finish('tool_calls'),
    ],
    ['tool_use c1 read: {}', 'tool_use'],
  ],
  'a name behind arguments': [
    [
      chunk(call(0, 'c1', undefined, '{"a"')),
      chunk(call(1, 'c2', 'list', '{}')),
      chunk(call(0, undefined, undefined, ':[')),
      chunk(call(0, undefined, 'read', '1')),
      chunk(call(0, undefined, undefined, ']}')),
      finish('tool_calls'),
    ],
    ['tool_use c1 read: {"a":[1]}', 'tool_use c2 list: {}', 'tool_use'],
  ],
  'no name at all': [
    [chunk(call(0, 'c1', undefined, '{"a"')), chunk(call(0, undefined, undefined, ':1}')), finish('tool_calls')],
    ['tool_use c1 : {"a":1}', 'tool_use'],
  ],
  'a name in every chunk': [
    [
      chunk(call(0, 'c1', 'read', '')),
      chunk(call(0, 'c1', 'read', '{"a"')),
      chunk(call(0, 'c1', 'read', ':1}')),
      finish('tool_calls'),
    ],
    ['tool_use c1 read: {"a":1}', 'tool_use'],
  ],
  'whole calls in one chunk': [
    [
      chunk({
        tool_calls: [
          { id: 'c1', function: { name: 'a', arguments: '{}' } },
          { id: 'c2', function: { name: 'b', arguments: '{"x":"}"}' } },
        ],
      }),
      finish('tool_calls'),
    ],
    ['tool_use c1 a: {}', 'tool_use c2 b: {"x":"}"}', 'tool_use'],
  ],
  'whole calls without ids and indexes': [
    [
      chunk(call(undefined, undefined, 'a', '{"x":1}')),
      chunk(call(undefined, undefined, 'a', '{"x":2}')),
      finish('tool_calls'),
    ],
    ['tool_use toolu_7_0 a: {"x":1}', 'tool_use toolu_7_1 a: {"x":2}', 'tool_use'],
  ],
  'calls with the same index': [
    [chunk(call(0, 'c1', 'a', '{"x":1}')), chunk(call(0, 'c2', 'b', '{"x":2}')), finish('tool_calls')],
    ['tool_use c1 a: {"x":1}', 'tool_use c2 b: {"x":2}', 'tool_use'],
  ],
  'calls with the same id': [
    [chunk(call(0, 'c1', 'a', '{"x":1}')), chunk(call(1, 'c1', 'b', '{"x":2}')), finish('tool_calls')],
    ['tool_use c1 a: {"x":1}', 'tool_use toolu_7_1 b: {"x":2}', 'tool_use'],
  ],
  'arguments as an object': [
    [
      chunk({ tool_calls: [{ index: 0, id: 'c1', function: { name: 'a', arguments: { x: 1 } } }] }),
      finish('tool_calls'),
    ],
    ['tool_use c1 a: {"x":1}', 'tool_use'],
  ],
  'calls without arguments': [
    [
      chunk(call(0, 'c1', 'a', '')),
      chunk(call(1, 'c2', 'b', 'null')),
      chunk(call(2, 'c3', 'c', '{"x":1}')),
      chunk(call(3, 'c4', 'd')),
      finish('tool_calls'),
    ],
    ['tool_use c1 a: {}', 'tool_use c2 b: {}', 'tool_use c3 c: {"x":1}', 'tool_use c4 d: {}', 'tool_use'],
  ],
  'calls that take turns': [
    [
      chunk(call(0, 'c1', 'a', '')),
      chunk(call(1, 'c2', 'b', '')),
      chunk(call(1, undefined, undefined, '{"y":')),
      chunk(call(0, undefined, undefined, '{"x":')),
      chunk({ content: 'and' }),
      chunk(call(1, undefined, undefined, '2}')),
      chunk(call(0, undefined, undefined, '1}')),
      finish('tool_calls'),
    ],
    ['tool_use c1 a: {"x":1}', 'tool_use c2 b: {"y":2}', 'text: and', 'tool_use'],
  ],
  'a call that never ends beside another one': [
    [chunk(call(0, 'c1', 'a', '{"x":')), chunk(call(1, 'c2', 'b', '{}')), finish('length')],
    ['tool_use c1 a: {"x":', 'tool_use c2 b: {}', 'max_tokens'],
  ],
  'what follows complete arguments': [
    [
      chunk(call(0, 'c1', 'a', '{"x":1}\n')),
      chunk(call(0, undefined, undefined, '\n')),
      chunk(call(0, 'c1', 'a', '{"x":1}')),
      finish('tool_calls'),
    ],
    ['tool_use c1 a: {"x":1}', 'tool_use'],
  ],
  'text behind a call': [
    [chunk({ content: 'a' }), chunk(call(0, 'c1', 'b', '{}')), chunk({ content: 'c' }), finish('tool_calls')],
    ['text: a', 'tool_use c1 b: {}', 'text: c', 'tool_use'],
  ],
  'a forced call that ends with stop': [
    [chunk(call(0, 'c1', 'a', '{}')), finish('stop')],
    ['tool_use c1 a: {}', 'tool_use'],
  ],
  'tool_calls without a call': [
    [chunk({ content: 'a' }), finish('tool_calls')],
    ['text: a', 'end_turn'],
  ],
  'a function call of old': [
    [
      chunk({ function_call: { name: 'a', arguments: '{"x"' } }),
      chunk({ function_call: { arguments: ':1}' } }),
      finish('function_call'),
    ],
    ['tool_use toolu_7_0 a: {"x":1}', 'tool_use'],
  ],
  'text behind the finish reason': [
    [chunk({ content: 'a' }), finish('stop'), chunk({ content: 'b' }), DONE],
    ['text: a', 'text: b', 'end_turn'],
  ],
};

for (const [what, [frames, expected]] of Object.entries(COLLECTED)) {
  test(`translates ${what}`, async (t) => {
    t.strictSame(collected(...frames), expected);
    const whole = Buffer.from(frames.map(eventOf).join(''));
    const crlf = Buffer.from(whole.toString().replaceAll('\n', '\r\n'));
    t.equal(translated([whole]), translated(frames.map((frame) => Buffer.from(eventOf(frame)))), 'in one piece');
    t.equal(translated([crlf]), translated([whole]), 'with CRLF');
  });
}

test('reads events as the standard says', async (t) => {
  const text = eventOf(chunk({ content: 'a' }));
  const json = text.slice(6, -2);
  const cut = json.indexOf(',') + 1;
  const texts = [
    `\u{feff}${text}`,
    `: comment\n${text}`,
    `event: message\nid: 5\nretry: 10\n${text}`,
    `data:${json}\n\n`,
    `data: ${json.slice(0, cut)}\ndata: ${json.slice(cut)}\n\n`,
    `data: ${json}\r\r`,
    `data\n\n${text}`.slice(6),
    `: ${'x'.repeat(9)}\n\n${text}`,
  ];
  for (const one of texts) t.strictSame(collected(one, finish('stop')), ['text: a', 'end_turn'], JSON.stringify(one));
});

test('keeps a signature of reasoning', async (t) => {
  const events = eventsOf(
    chunk({ reasoning_content: 'a' }),
    chunk({ reasoning_content: 'b', thinking_blocks: [{ type: 'thinking', thinking: 'b', signature: 'sig=' }] }),
    chunk({ content: 'c' }),
    finish('stop'),
  );
  t.match(events[3], { delta: { type: 'signature_delta', signature: 'sig=' } });
  const detail = { type: 'reasoning.text', text: 'a', signature: 's2' };
  const whole = new MessagesAnswer().whole(
    Buffer.from(JSON.stringify(wholeAnswer({ content: 'b', reasoning: 'a', reasoning_details: [detail] }))),
  );
  t.match(JSON.parse(whole.toString()), {
    content: [{ type: 'thinking', thinking: 'a', signature: 's2' }, { type: 'text' }],
  });
});

test('signs reasoning that its server has not signed, since clients leave out thinking with an empty signature', async (t) => {
  const whole = new MessagesAnswer().whole(Buffer.from(JSON.stringify(wholeAnswer({ content: 'b', reasoning: 'a' }))));
  t.match(JSON.parse(whole.toString()), {
    content: [{ type: 'thinking', signature: 'aGVhZHJhY2U=' }, { type: 'text' }],
  });
});

test('copies usual deltas as they are written, and sees every change of their form', async (t) => {
  const usual = (text: string): string => eventOf(chunk({ content: '@' })).replace('"@"', `"${text}"`);
  const written = ['a', '\\u00e9\\"', '\\\\', '\\ud83d', '\\ude00', '', ' \\/ ', 'é水'];
  const out = translated(
    [role, chunk({ content: 'x' }), chunk({ content: 'y' })]
      .map(eventOf)
      .concat(written.map(usual))
      .map((event) => Buffer.from(event)),
  );
  for (const text of written.filter((one) => one !== ''))
    t.ok(out.includes(`"text":"${text}"}}`), `${text} is not rewritten`);
  // Each is like the usual chunk at its beginning and its end.
  const before = usual('').split('""')[0] as string;
  const forged = [
    usual('a","reasoning":"b'),
    usual('a"},"finish_reason":null},{"index":1,"delta":{"content":"b'),
    usual('a').replace('"finish_reason":null', '"finish_reason":"stop"'),
    usual('a').replace('"index":0', '"index":1'),
    `${before}"a\n\n`,
    usual('\\u00g0'),
  ];
  for (const event of forged) {
    const pieces = [role, chunk({ content: 'x' }), chunk({ content: 'y' }), chunk({ content: 'z' })].map(eventOf);
    const alone = new MessagesAnswer();
    const after = new MessagesAnswer();
    for (const piece of [...pieces, ...pieces]) after.events(Buffer.from(piece));
    alone.events(Buffer.from(eventOf(role) + eventOf(chunk({ content: 'x' }, { logprobs: {} }))));
    t.equal(after.events(Buffer.from(event)).toString(), alone.events(Buffer.from(event)).toString(), event);
  }
});

const ERRORS: Readonly<Record<string, readonly [event: string, expected: Json]>> = {
  'the official shape': [
    eventOf({ error: { message: 'slow down', type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' } }),
    { type: 'rate_limit_error', message: 'slow down', code: 'rate_limit_exceeded' },
  ],
  vLLM: [
    eventOf({ error: { message: 'too long', type: 'BadRequestError', param: 'messages', code: 400 } }),
    { type: 'invalid_request_error', message: 'too long', param: 'messages' },
  ],
  'vLLM of old': [
    eventOf({ object: 'error', message: 'no', type: 'InternalServerError', param: null, code: 500 }),
    { type: 'api_error', message: 'no' },
  ],
  'llama-server': [
    eventOf({ error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }),
    { type: 'overloaded_error', message: 'Loading model' },
  ],
  'llama-server of old': [
    'error: {"code":500,"message":"broken","type":"server_error"}\n\n',
    { type: 'api_error', message: 'broken' },
  ],
  'an event with a name': [
    'event: error\ndata: {"detail":"out of memory"}\n\n',
    { type: 'api_error', message: 'out of memory' },
  ],
  'a string': [eventOf({ error: 'gone' }), { type: 'api_error', message: 'gone' }],
  'a choice beside it': [
    eventOf({ ...finish('error'), error: { message: 'provider', code: 502 } }),
    { type: 'api_error', message: 'provider' },
  ],
  'no JSON': ['data: {"id":\n\n', { type: 'api_error', message: 'The server sent an event that is not JSON' }],
};

for (const [what, [event, expected]] of Object.entries(ERRORS)) {
  test(`reports an error in the middle of a stream: ${what}`, async (t) => {
    const found = eventsOf(role, chunk({ content: 'a' }), event, chunk({ content: 'b' }), finish('stop'), DONE);
    t.strictSame(found.at(-1), { type: 'error', error: expected }, 'nothing follows it');
  });
}

test('reports an error where the finish reason says that the answer is none', async (t) => {
  for (const reason of ['error', 'abort']) {
    const found = eventsOf(chunk({ content: 'a' }), finish(reason), DONE);
    t.match(found.at(-1), { type: 'error', error: { type: 'api_error', message: /^The server/ } });
    t.match(eventsOf(chunk({ content: 'a' }), finish(reason)).at(-1), { type: 'error' });
  }
});

test('does not take names of the language for types of errors', async (t) => {
  for (const type of ['constructor', '__proto__', 'toString']) {
    const error = { message: 'm', type, code: type };
    t.match(eventsOf({ error }).at(-1), { type: 'error', error: { type: 'api_error', message: 'm', code: type } });
  }
});

test('takes an answer without a message for none', async (t) => {
  for (const choices of [[null], [{}], [{ index: 0, message: null, finish_reason: 'stop' }]]) {
    const body = Buffer.from(JSON.stringify({ choices }));
    t.throws(() => new MessagesAnswer().whole(body), { code: 'HR_UPSTREAM_ANSWER' });
  }
});

test('no spoiled answer makes it throw, or write what is no stream of messages', async (t) => {
  const random = new Random(23);
  const values = [null, true, -1, '', 'x', [], {}, [null], [{ type: 'text' }], { a: 1 }, 'null', '{'];
  const spoiled = (value: unknown): unknown => {
    if (random.chance(0.08)) return random.pick(values);
    if (Array.isArray(value)) return value.map(spoiled);
    if (typeof value !== 'object' || value === null) return value;
    const kept = Object.entries(value).filter(() => !random.chance(0.04));
    return Object.fromEntries(kept.map(([name, member]) => [name, spoiled(member)]));
  };
  for (let stream = 0; stream < 1500; stream++) {
    const frames = streamOf(random, randomOutput(random)).map((frame) => {
      const json = /^data: (\{.*\})/.exec(frame)?.[1];
      return json === undefined || random.chance(0.7) ? frame : eventOf(spoiled(JSON.parse(json)) as Json);
    });
    const bytes = Buffer.from(frames.join(''));
    if (random.chance(0.3)) for (let at = 0; at < 3; at++) bytes[random.below(bytes.length)] = random.below(256);
    const pieces: Buffer[] = [];
    for (let from = 0; from < bytes.length;) pieces.push(bytes.subarray(from, (from += 1 + random.below(600))));
    const events = parseEvents(translated(pieces)).map(({ data, event }) => ({
      ...(JSON.parse(data) as StreamEvent),
      event,
    }));
    const wrong = wrongEvent(events);
    if (wrong !== null && !t.fail(`stream ${stream}: ${wrong}\n${bytes.toString()}`)) return;
    try {
      new MessagesAnswer().whole(Buffer.from(JSON.stringify(spoiled(wholeOf(randomOutput(random))))));
    } catch (error) {
      if (!(error instanceof HeadraceError)) throw error;
    }
  }
});

/** What is wrong with the order of the events; null: they are a whole stream, or one that ends with an error. */
function wrongEvent(events: readonly (StreamEvent & { readonly event: string | undefined })[]): string | null {
  let open = -1;
  let next = 0;
  for (const [at, { delta, event, index, type }] of events.entries()) {
    const isLast = at === events.length - 1;
    if (type !== event) return `${type} is called ${event}`;
    if ((type === 'message_stop' || type === 'error') !== isLast) return `${type} is event ${at} of ${events.length}`;
    if (type === 'message_stop' && open >= 0) return 'a block is open at the end';
    if (type === 'content_block_start' && (open >= 0 || index !== next))
      return `block ${index} begins in block ${open}`;
    if (type === 'content_block_start') open = next++;
    if (type === 'content_block_delta' && index !== open) return `a delta of ${index} in block ${open}`;
    if (
      delta !== undefined &&
      type === 'content_block_delta' &&
      Object.values(delta).some((value) => typeof value !== 'string')
    )
      return 'a delta is no text';
    if (type === 'content_block_stop' && index !== open) return `block ${index} ends in block ${open}`;
    if (type === 'content_block_stop') open = -1;
  }
  return events.length === 0 ? 'there are no events' : null;
}

test('translates error answers by status', async (t) => {
  const answer = new MessagesAnswer();
  const of = (status: number, body: string): unknown => JSON.parse(answer.error(status, Buffer.from(body)).toString());
  const types: readonly (readonly [number, string])[] = [
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [402, 'billing_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
    [413, 'request_too_large'],
    [422, 'invalid_request_error'],
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [504, 'timeout_error'],
    [529, 'overloaded_error'],
  ];
  for (const [status, type] of types) {
    t.strictSame(of(status, '{"error":{"message":"m","type":"x","code":null}}'), {
      type: 'error',
      error: { type, message: 'm' },
    });
  }
  const full = {
    error: { message: 'm', type: 'invalid_request_error', code: 'context_length_exceeded', param: 'messages' },
    request_id: 'req_1',
  };
  t.strictSame(of(400, JSON.stringify(full)), {
    type: 'error',
    error: { type: 'invalid_request_error', message: 'm', code: 'context_length_exceeded', param: 'messages' },
    request_id: 'req_1',
  });
  const message = (body: string): unknown => (of(400, body) as { error: Json }).error['message'];
  t.equal(
    message('{"detail":[{"loc":["body","n"],"msg":"too many"},{"loc":["body"],"msg":"no"}]}'),
    'body.n: too many; body: no',
  );
  t.equal(message('{"detail":"no"}'), 'no');
  t.equal(message('{"message":"no","code":400}'), 'no');
  t.equal(message('{"object":"error","message":"no","type":"BadRequestError","code":400}'), 'no');
  t.equal(message('Bad Request\n'), 'Bad Request');
  t.equal(message('{"unknown":1}'), '{"unknown":1}');
  t.equal((message(`<html>${'x'.repeat(9999)}`) as string).length, 2048);
});

test('translates whole answers', async (t) => {
  const of = (body: Json): Json =>
    JSON.parse(new MessagesAnswer().whole(Buffer.from(JSON.stringify(body))).toString()) as Json;
  t.strictSame(of(wholeAnswer({ content: 'a' })), {
    id: 'msg_7',
    type: 'message',
    role: 'assistant',
    model: 'atlas-27b',
    content: [{ type: 'text', text: 'a' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    stop_details: null,
    usage: { input_tokens: 9, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 5 },
  });
  t.match(of(wholeAnswer({ content: null, refusal: 'No' })), {
    content: [{ type: 'text', text: 'No' }],
    stop_reason: 'refusal',
    stop_details: { type: 'refusal', category: null, explanation: null },
  });
  t.match(of({ choices: [{ message: { content: '' } }] }), {
    content: [],
    stop_reason: 'end_turn',
    usage: { input_tokens: 0 },
  });
  t.not(
    of({ choices: [{ message: {} }] })['id'],
    of({ choices: [{ message: {} }] })['id'],
    'an id is made where there is none',
  );
  t.match(of(wholeAnswer({ content: 'a', tool_calls: [null] })), { content: { length: 1 }, stop_reason: 'end_turn' });
  const counts = {
    prompt_tokens: 9,
    completion_tokens: 5,
    prompt_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 },
  };
  t.match(of({ choices: [{ message: { content: 'a' } }], usage: counts }), {
    usage: { input_tokens: 3, cache_creation_input_tokens: 2, cache_read_input_tokens: 4, output_tokens: 5 },
  });
  const twice = ['a', 'b'].map((name) => ({ id: 'c', function: { name, arguments: '{}' } }));
  t.match(of(wholeAnswer({ tool_calls: twice })), {
    content: [
      { id: 'c', name: 'a' },
      { id: 'toolu_7_1', name: 'b' },
    ],
  });
  const wrong = { tool_calls: [{ id: 'c', function: { name: 'a', arguments: '{"x":' } }] };
  t.match(of(wholeAnswer(wrong)), {
    content: [{ type: 'tool_use', id: 'c', name: 'a', input: '{"x":' }],
    stop_reason: 'tool_use',
  });
  const long = '{"n":12345678901234567890}';
  const exact = new MessagesAnswer().whole(
    Buffer.from(JSON.stringify(wholeAnswer({ tool_calls: [{ id: 'c', function: { name: 'a', arguments: long } }] }))),
  );
  t.ok(exact.toString().includes(`"input":${long}`), 'numbers keep their digits');
  const failed = (reason: string): string => JSON.stringify(wholeAnswer({ content: 'a' }, { finish_reason: reason }));
  for (const body of [failed('error'), failed('abort'), '', '[]', '{"data":[]}', '{"choices":[]}', '{"choi']) {
    t.throws(() => new MessagesAnswer().whole(Buffer.from(body)), HeadraceError, body);
  }
});

/** A server whose streams are those of `play`; a client of it. */
async function official(
  t: Parameters<typeof serving>[0],
): Promise<{ client: Anthropic; play: (pieces: readonly Buffer[], broken?: boolean) => void }> {
  let playing: readonly Buffer[] = [];
  let isBroken = false;
  const url = await serving(t, (request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const answer = new MessagesAnswer();
    for (const piece of playing) response.write(Buffer.from(answer.events(piece)));
    if (isBroken) response.end(messages.errorEvent({ code: 'HR_STREAM_BROKEN', message: 'broke off', status: 502 }));
    else response.end(Buffer.from(answer.end()));
  });
  return {
    client: new Anthropic({ baseURL: url, apiKey: 'k', maxRetries: 0 }),
    play: (pieces, broken = false) => {
      playing = pieces;
      isBroken = broken;
    },
  };
}

const ask = { model: 'm', max_tokens: 5, messages: [{ role: 'user' as const, content: 'hi' }] };

test('the official SDK collects from any stream the message of the whole answer', async (t) => {
  const { client, play } = await official(t);
  const seed = Number(process.env['SEED'] ?? 16);
  const random = new Random(seed);
  for (let at = 0; at < 300; at++) {
    const output = randomOutput(random);
    const frames = streamOf(random, output);
    play(inPieces(random, frames));
    const whole = JSON.parse(
      new MessagesAnswer().whole(Buffer.from(JSON.stringify(wholeOf(output)))).toString(),
    ) as Json;
    const message = await client.messages.stream(ask).finalMessage();
    const plain = JSON.parse(JSON.stringify(message)) as Record<string, unknown>;
    delete plain['parsed_output'];
    for (const block of plain['content'] as Record<string, unknown>[]) delete block['parsed_output'];
    const same = t.strictSame(plain, whole, `seed ${seed}, answer ${at}`);
    if (!same) {
      t.comment(frames.join(''));
      break;
    }
  }
});

test('the official SDK throws wherever a stream is cut', async (t) => {
  const { client, play } = await official(t);
  const random = new Random(17);
  for (let answer = 0; answer < 12; answer++) {
    const events = streamOf(random, randomOutput(random)).map((event) => Buffer.from(event));
    for (let cut = 0; cut < events.length; cut++) {
      play(events.slice(0, cut), true);
      // A stream that has said `[DONE]` is complete.
      if (events[cut - 1]?.includes('[DONE]') === true) break;
      await t.rejects(client.messages.stream(ask).finalMessage(), APIError, `the helper, ${cut} of ${events.length}`);
      const raw = async (): Promise<void> => {
        for await (const _ of await client.messages.create({ ...ask, stream: true })) continue;
      };
      await t.rejects(raw(), APIError, `the iterator, ${cut} of ${events.length}`);
    }
  }
});
