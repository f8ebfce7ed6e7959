// Answers of chat servers as clients of the responses dialect get them: events one by one, whole responses, errors.

import assert from 'node:assert/strict';
import t, { type Test } from 'tap';
import { reasoningIn } from '../../../src/dialect/translation/opaque-reasoning.ts';
import type { CalledTool } from '../../../src/dialect/translation/response-echo.ts';
import { ResponseEcho } from '../../../src/dialect/translation/response-echo.ts';
import { ResponsesAnswer } from '../../../src/dialect/translation/responses-answer.ts';
import { parseEvents } from '../../../src/net/sse.ts';
import { inPieces, randomOutput, streamOf, wholeOf } from '../../support/scripted-chat.ts';
import { Random } from '../../support/random.ts';

type Json = Record<string, unknown>;

interface ResponseEvent extends Json {
  readonly type: string;
  readonly sequence_number: number;
  readonly response: Json & { readonly output: Json[]; readonly status: string };
  readonly item: Json;
}

const NOW = 1_790_000_123_456;
const REQUEST = {
  model: 'gpt-5',
  instructions: 'Be brief.',
  tools: [{ type: 'function', name: 'run', parameters: {} }],
};
const HEAD = { created: 1_790_000_000, model: 'atlas', object: 'chat.completion.chunk' };

function answer(tools: Readonly<Record<string, CalledTool>> = {}): ResponsesAnswer {
  const echo = new ResponseEcho(Buffer.from(JSON.stringify(REQUEST)), new Map(Object.entries(tools)));
  return new ResponsesAnswer(echo, { epochMs: () => NOW, uniqueId: () => '1' });
}

const chunk = (delta: object, reason: string | null = null, others: object = {}): object => ({
  ...HEAD,
  choices: [{ index: 0, delta, finish_reason: reason }],
  ...others,
});

/** Events of a translated stream, each checked against its name and number. */
function read(bytes: string): ResponseEvent[] {
  return parseEvents(bytes).map(({ data, event }, at) => {
    const parsed = JSON.parse(data) as ResponseEvent;
    assert.equal(event, parsed.type);
    assert.equal(parsed.sequence_number, at);
    return parsed;
  });
}

function translated(
  t: Test,
  chunks: readonly unknown[],
  tools: Readonly<Record<string, CalledTool>> = {},
  done = true,
): ResponseEvent[] {
  const translator = answer(tools);
  const pieces = [
    ...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`),
    ...(done ? ['data: [DONE]\n\n'] : []),
  ];
  let bytes = pieces.map((piece) => translator.events(Buffer.from(piece)).toString()).join('');
  bytes += translator.end().toString();
  const events = read(bytes);
  t.equal(translator.nextSequence, events.length);
  return events;
}

/** Types with what distinguishes them. */
const outline = (events: readonly ResponseEvent[]): string[] =>
  events.map(({ type, ...members }) => {
    const { delta, item, output_index: index } = members as { delta?: string; item?: Json; output_index?: number };
    const kind = (item as { type: string } | undefined)?.type;
    return [type.replace('response.', ''), index, kind, delta === undefined ? undefined : JSON.stringify(delta)]
      .filter((one) => one !== undefined)
      .join(' ');
  });

const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, prompt_tokens_details: { cached_tokens: 5 } };
const OPENING = ['created', 'in_progress'];
const MESSAGE = ['output_item.added 0 message', 'content_part.added 0'];
const messageEnd = (index: number): string[] => [
  `output_text.done ${index}`,
  `content_part.done ${index}`,
  `output_item.done ${index} message`,
];

t.test('a text becomes a message', async (t) => {
  const events = translated(t, [
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'Down' }),
    chunk({ content: ' the "canal"' }),
    chunk({}, 'stop'),
    { ...HEAD, choices: [], usage },
  ]);
  t.same(outline(events), [
    ...OPENING,
    ...MESSAGE,
    'output_text.delta 0 "Down"',
    'output_text.delta 0 " the \\"canal\\""',
    ...messageEnd(0),
    'completed',
  ]);
  t.strictSame(events[4], {
    type: 'response.output_text.delta',
    item_id: 'msg_1_0',
    output_index: 0,
    content_index: 0,
    delta: 'Down',
    logprobs: [],
    sequence_number: 4,
  });
  t.strictSame(events[5], { ...events[4], delta: ' the "canal"', sequence_number: 5 });
  const content = [{ type: 'output_text', text: 'Down the "canal"', annotations: [], logprobs: [] }];
  const item = { id: 'msg_1_0', type: 'message', status: 'completed', role: 'assistant', content };
  t.match(events[8]?.item, item);
  t.match(events[2]?.item, { ...item, status: 'in_progress', content: [] });
  const { response: created } = events[0] as ResponseEvent;
  t.match(created, {
    id: 'resp_1',
    object: 'response',
    created_at: HEAD.created,
    status: 'in_progress',
    model: 'atlas',
    output: [],
    usage: null,
    error: null,
    incomplete_details: null,
    completed_at: null,
    instructions: REQUEST.instructions,
    tools: REQUEST.tools,
    temperature: 1,
  });
  t.strictSame(events[9]?.response, {
    ...created,
    status: 'completed',
    completed_at: Math.floor(NOW / 1000),
    output: [item],
    usage: {
      input_tokens: 7,
      input_tokens_details: { cached_tokens: 5, cache_write_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 10,
    },
  });
});

t.test('reasoning becomes an item before the message', async (t) => {
  for (const name of ['reasoning', 'reasoning_content']) {
    const events = translated(t, [
      chunk({ [name]: 'Hm', content: null }),
      chunk({ [name]: ', so', content: null }),
      chunk({ content: 'Yes' }),
      chunk({}, 'stop'),
    ]);
    t.same(outline(events), [
      ...OPENING,
      'output_item.added 0 reasoning',
      'content_part.added 0',
      'reasoning_text.delta 0 "Hm"',
      'reasoning_text.delta 0 ", so"',
      'reasoning_text.done 0',
      'content_part.done 0',
      'output_item.done 0 reasoning',
      'output_item.added 1 message',
      'content_part.added 1',
      'output_text.delta 1 "Yes"',
      ...messageEnd(1),
      'completed',
    ]);
    t.strictSame(events[8]?.item, {
      id: 'rs_1_0',
      type: 'reasoning',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'Hm, so' }],
    });
    t.match(events[4], { item_id: 'rs_1_0', content_index: 0 });
  }
  const both = translated(t, [chunk({ reasoning: 'Hm', reasoning_content: 'Hm' }), chunk({}, 'stop')]);
  t.match(both[4], { type: 'response.reasoning_text.delta', delta: 'Hm' });
  t.same(both.filter(({ type }) => type === 'response.reasoning_text.delta').length, 1, 'not twice');
});

t.test('reasoning is also opaque where the client asks for that', async (t) => {
  const echo = new ResponseEcho(Buffer.from('{"include":["reasoning.encrypted_content"]}'), null);
  const translator = new ResponsesAnswer(echo);
  const frames = [chunk({ reasoning: 'Hm "so" ' }), chunk({ reasoning: '\u{1f30a}' }), chunk({}, 'stop')];
  const bytes = frames.map((frame) => translator.events(Buffer.from(`data: ${JSON.stringify(frame)}\n\n`)).toString());
  const events = read(bytes.join('') + translator.end().toString());
  t.notOk('encrypted_content' in (events[2]?.item ?? {}), 'not before it is known');
  const [item] = events.at(-1)?.response.output ?? [];
  t.equal(reasoningIn(item?.['encrypted_content'] as string), 'Hm "so" \u{1f30a}');
  t.match(events.find(({ type }) => type === 'response.output_item.done')?.item, item as Json);
});

const called = (
  index: number | undefined,
  id: string | undefined,
  name: string | undefined,
  text?: string,
): object => ({
  ...(index === undefined ? {} : { index }),
  ...(id === undefined ? {} : { id, type: 'function' }),
  function: { ...(name === undefined ? {} : { name }), ...(text === undefined ? {} : { arguments: text }) },
});
const calls = (...all: object[]): object => ({ tool_calls: all });
/** Name, call id and arguments of the calls in the last event. */
const callsIn = (events: readonly ResponseEvent[]): unknown[] =>
  (events.at(-1)?.response.output ?? [])
    .filter(({ type }) => type === 'function_call')
    .map(({ name, call_id: id, arguments: text }) => [name, id, text]);

t.test('calls of tools become items', async (t) => {
  const events = translated(t, [
    chunk({ content: 'Let me see.' }),
    chunk(calls(called(0, 'call_a', 'run', ''))),
    chunk(calls(called(0, undefined, undefined, '{"a":'))),
    chunk(calls(called(0, undefined, undefined, '1}'))),
    chunk(calls(called(1, 'call_b', 'run', '{}'))),
    chunk({}, 'tool_calls'),
  ]);
  t.same(outline(events), [
    ...OPENING,
    ...MESSAGE,
    'output_text.delta 0 "Let me see."',
    ...messageEnd(0),
    'output_item.added 1 function_call',
    'function_call_arguments.delta 1 "{\\"a\\":"',
    'function_call_arguments.delta 1 "1}"',
    'function_call_arguments.done 1',
    'output_item.done 1 function_call',
    'output_item.added 2 function_call',
    'function_call_arguments.delta 2 "{}"',
    'function_call_arguments.done 2',
    'output_item.done 2 function_call',
    'completed',
  ]);
  t.strictSame(events[8]?.item, {
    id: 'fc_1_1',
    type: 'function_call',
    status: 'in_progress',
    call_id: 'call_a',
    name: 'run',
    arguments: '',
  });
  t.match(events[11], { item_id: 'fc_1_1', arguments: '{"a":1}', name: 'run' });
  t.match(events[12]?.item, { status: 'completed', arguments: '{"a":1}' });
});

t.test('calls are told apart however servers number and name them', async (t) => {
  for (const [how, chunks, expected] of [
    [
      'pieces of two calls in turns',
      [
        calls(called(0, 'a', 'run', '{'), called(1, 'b', 'read', '[')),
        calls(called(1, undefined, undefined, ']')),
        calls(called(0, undefined, undefined, '}')),
      ],
      [
        ['run', 'a', '{}'],
        ['read', 'b', '[]'],
      ],
    ],
    [
      'all numbered 0, with other ids',
      [calls(called(0, 'a', 'run', '{}')), calls(called(0, 'b', 'run', '{"x":1}'))],
      [
        ['run', 'a', '{}'],
        ['run', 'b', '{"x":1}'],
      ],
    ],
    [
      'without numbers',
      [calls(called(undefined, 'a', 'run', '{}'), called(undefined, 'b', 'run', '{"x":1}'))],
      [
        ['run', 'a', '{}'],
        ['run', 'b', '{"x":1}'],
      ],
    ],
    [
      'without numbers and ids',
      [calls(called(undefined, undefined, 'run', '{}')), calls(called(undefined, undefined, 'run', '{"x":1}'))],
      [
        ['run', 'call_1_0', '{}'],
        ['run', 'call_1_1', '{"x":1}'],
      ],
    ],
    [
      'another id for every piece',
      [calls(called(0, 'a', 'run', '{')), calls(called(0, 'b', undefined, '}'))],
      [['run', 'a', '{}']],
    ],
    [
      'id and name in every piece',
      [calls(called(0, 'a', 'run', '{')), calls(called(0, 'a', 'run', '}'))],
      [['run', 'a', '{}']],
    ],
    ['never a name', [calls(called(0, 'a', undefined, '{}'))], [['', 'a', '{}']]],
    [
      'one id twice',
      [calls(called(0, 'a', 'run', '{}'), called(1, 'a', 'run', '{}'))],
      [
        ['run', 'a', '{}'],
        ['run', 'call_1_1', '{}'],
      ],
    ],
    ['no arguments', [calls(called(0, 'a', 'run'))], [['run', 'a', '{}']]],
    [
      'arguments as an object',
      [calls({ index: 0, id: 'a', function: { name: 'run', arguments: { x: 1 } } })],
      [['run', 'a', '{"x":1}']],
    ],
    [
      'the form before tools',
      [{ function_call: { name: 'run', arguments: '{' } }, { function_call: { arguments: '}' } }],
      [['run', 'call_1_0', '{}']],
    ],
  ] as const) {
    const events = translated(t, [...chunks.map((delta) => chunk(delta)), chunk({}, 'tool_calls')]);
    t.same(callsIn(events), expected, how);
    for (const { arguments: text, output_index: index } of events.filter(({ type }) =>
      type.endsWith('arguments.done'),
    )) {
      const deltas = events.filter(
        (event) => event.type.endsWith('arguments.delta') && event['output_index'] === index,
      );
      t.equal(deltas.map(({ delta }) => delta).join(''), text, how);
    }
  }
});

t.test('tools that the server knows as functions are those of the client again', async (t) => {
  const tools: Record<string, CalledTool> = {
    patch: { type: 'custom', name: 'apply_patch' },
    shell: { type: 'local_shell', name: 'local_shell' },
    search: { type: 'tool_search', name: 'tool_search' },
    files__read: { type: 'function', name: 'read', namespace: 'files' },
  };
  const patch = '*** Begin "Patch"\n+é\n';
  const events = translated(
    t,
    [
      chunk(calls(called(0, 'a', 'patch', JSON.stringify({ input: patch }).slice(0, 9)))),
      chunk(calls(called(0, undefined, undefined, JSON.stringify({ input: patch }).slice(9)))),
      chunk(calls(called(1, 'b', 'shell', '{"command":["ls","-l"],"timeout_ms":5}'))),
      chunk(calls(called(2, 'c', 'files__read', '{}'))),
      chunk(calls(called(3, 'd', 'search', '{"query":"mail"}'))),
      chunk({}, 'tool_calls'),
    ],
    tools,
  );
  t.same(outline(events), [
    ...OPENING,
    'output_item.added 0 custom_tool_call',
    `custom_tool_call_input.delta 0 ${JSON.stringify(patch)}`,
    'custom_tool_call_input.done 0',
    'output_item.done 0 custom_tool_call',
    'output_item.added 1 local_shell_call',
    'output_item.done 1 local_shell_call',
    'output_item.added 2 function_call',
    'function_call_arguments.delta 2 "{}"',
    'function_call_arguments.done 2',
    'output_item.done 2 function_call',
    'output_item.added 3 tool_search_call',
    'output_item.done 3 tool_search_call',
    'completed',
  ]);
  t.strictSame(events.at(-1)?.response.output, [
    { id: 'ctc_1_0', type: 'custom_tool_call', status: 'completed', call_id: 'a', name: 'apply_patch', input: patch },
    {
      id: 'lsh_1_1',
      type: 'local_shell_call',
      status: 'completed',
      call_id: 'b',
      action: { type: 'exec', env: {}, command: ['ls', '-l'], timeout_ms: 5 },
    },
    {
      id: 'fc_1_2',
      type: 'function_call',
      status: 'completed',
      call_id: 'c',
      name: 'read',
      namespace: 'files',
      arguments: '{}',
    },
    {
      id: 'tsc_1_3',
      type: 'tool_search_call',
      status: 'completed',
      call_id: 'd',
      execution: 'client',
      arguments: { query: 'mail' },
    },
  ]);
  for (const text of ['not JSON', '{"other":1}', '{"input":3}', '']) {
    const [call] =
      translated(t, [chunk(calls(called(0, 'a', 'patch', text)), 'tool_calls')], tools).at(-1)?.response.output ?? [];
    t.equal(call?.['input'], text, 'a text that is not wrapped is the input');
  }
});

t.test('a refusal is a part of the message', async (t) => {
  const events = translated(t, [
    chunk({ content: 'Well.' }),
    chunk({ refusal: 'I' }),
    chunk({ refusal: ' cannot' }),
    chunk({}, 'stop'),
  ]);
  t.same(outline(events), [
    ...OPENING,
    ...MESSAGE,
    'output_text.delta 0 "Well."',
    'output_text.done 0',
    'content_part.done 0',
    'content_part.added 0',
    'refusal.delta 0 "I"',
    'refusal.delta 0 " cannot"',
    'refusal.done 0',
    'content_part.done 0',
    'output_item.done 0 message',
    'completed',
  ]);
  t.match(events[8], { content_index: 1, item_id: 'msg_1_0' });
  t.match(events[10], { refusal: 'I cannot' });
  t.match(events.at(-1)?.response.output, [
    { content: [{ type: 'output_text' }, { type: 'refusal', refusal: 'I cannot' }] },
  ]);
});

t.test('finish reasons become statuses', async (t) => {
  for (const [reason, status, details] of [
    ['stop', 'completed', null],
    ['tool_calls', 'completed', null],
    ['function_call', 'completed', null],
    ['constructor', 'completed', null],
    ['length', 'incomplete', { reason: 'max_output_tokens' }],
    ['content_filter', 'incomplete', { reason: 'content_filter' }],
  ] as const) {
    const last = translated(t, [chunk({ content: 'x' }), chunk({}, reason)]).at(-1);
    t.equal(last?.type, `response.${status}`);
    t.match(last?.response, { status, incomplete_details: details, output: [{ status }], error: null });
    t.equal(last?.response['completed_at'] === null, status === 'incomplete');
  }
  for (const reason of ['error', 'abort']) {
    const events = translated(t, [chunk({ content: 'x' }), chunk({}, reason)]);
    t.same(
      events.slice(-2).map(({ type }) => type),
      ['error', 'response.failed'],
    );
    t.match(events.at(-1)?.response, {
      status: 'failed',
      error: { code: 'HR_STREAM_BROKEN' },
      output: [{ status: 'incomplete' }],
    });
  }
});

t.test('log-probabilities and annotations go with the text', async (t) => {
  const a = { token: 'a', logprob: -0.5, bytes: [97], top_logprobs: [] };
  const b = { token: 'b', logprob: -1, bytes: [98], top_logprobs: [{ token: '$&', logprob: -2, bytes: [99] }] };
  const withLogprobs = (content: string, logprobs: unknown): object => ({
    ...HEAD,
    choices: [{ delta: { content }, logprobs }],
  });
  const citation = { start_index: 0, end_index: 1, title: 'T', url: 'https://example.org' };
  const events = translated(t, [
    withLogprobs('a', { content: [a] }),
    withLogprobs('b', { content: [b] }),
    withLogprobs('', { content: [a] }),
    withLogprobs('c', null),
    withLogprobs('', { content: [b] }),
    chunk({ annotations: [{ type: 'url_citation', url_citation: citation }] }),
    chunk({}, 'stop'),
  ]);
  t.same(
    events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta, logprobs }) => [delta, logprobs]),
    [
      ['a', [a]],
      ['b', [b]],
      ['c', [a]],
      ['', [b]],
    ],
  );
  const thought = translated(t, [
    { ...HEAD, choices: [{ delta: { reasoning: 'Hm' }, logprobs: { content: [a] } }] },
    withLogprobs('b', { content: [b] }),
    chunk({}, 'stop'),
  ]);
  t.match(thought.at(-1)?.response.output[1], { content: [{ text: 'b', logprobs: [b] }] }, 'not those of reasoning');
  const [both] = translated(t, [
    { ...HEAD, choices: [{ delta: { reasoning: 'Hm', content: 'b' }, logprobs: { content: [b] } }] },
  ]).slice(-1);
  t.match(both?.response.output[1], { content: [{ text: 'b', logprobs: [b] }] }, 'but those of a delta with a text');
  const annotation = { type: 'url_citation', ...citation };
  t.match(events.at(-5), { type: 'response.output_text.annotation.added', annotation_index: 0, annotation });
  t.match(events.at(-4), { type: 'response.output_text.done', text: 'abc', logprobs: [a, b, a, b] });
  t.match(events.at(-1)?.response.output, [
    { content: [{ text: 'abc', logprobs: [a, b, a, b], annotations: [annotation] }] },
  ]);
});

t.test(
  'an answer without output is an empty message; one that ran out of tokens while it reasoned is not',
  async (t) => {
    const empty = translated(t, [chunk({ role: 'assistant', content: '' }), chunk({}, 'stop')]);
    t.same(outline(empty), [...OPENING, ...MESSAGE, ...messageEnd(0), 'completed']);
    const reasoned = translated(t, [chunk({ reasoning: 'Hm' }), chunk({}, 'stop')]);
    t.match(reasoned.at(-1)?.response.output, [{ type: 'reasoning' }, { type: 'message', content: [{ text: '' }] }]);
    const cut = translated(t, [chunk({ reasoning: 'Hm' }), chunk({}, 'length')]);
    t.equal(cut.at(-1)?.response.output.length, 1);
  },
);

t.test('servers may leave out ids, times, models, usage, [DONE], or repeat usage', async (t) => {
  const bare = [{ choices: [{ delta: { content: 'x' } }] }, { choices: [{ delta: {}, finish_reason: 'stop' }] }];
  for (const done of [true, false]) {
    const last = translated(t, bare, {}, done).at(-1);
    t.match(last?.response, {
      id: 'resp_1',
      model: 'gpt-5',
      created_at: Math.floor(NOW / 1000),
      status: 'completed',
    });
    t.equal(last?.response['usage'], null);
  }
  const counted = translated(t, [
    chunk({ content: 'x' }, null, { usage: { prompt_tokens: 7, completion_tokens: 1 } }),
    chunk({}, 'stop', { usage: { prompt_tokens: 7, completion_tokens: 2 } }),
  ]);
  t.match(counted.at(-1)?.response['usage'], { input_tokens: 7, output_tokens: 2, total_tokens: 9 });
  const long = '0123456789abcdef0123456789abcdef';
  for (const [id, expected] of [
    ['a b', 'resp_1'],
    ['x"', 'resp_1'],
    ['', 'resp_1'],
    ['\u00e9', 'resp_1'],
    [7, 'resp_1'],
    ['x'.repeat(200), 'resp_1'],
    ['chatcmpl-512', 'resp_512_1'],
    [`chatcmpl-${long}`, `resp_${long}`],
  ] as const) {
    t.equal(translated(t, [{ ...chunk({}, 'stop'), id }])[0]?.response['id'], expected, String(id));
  }
  t.match(translated(t, [{ ...chunk({}, 'stop'), service_tier: 'flex' }]).at(-1)?.response, { service_tier: 'flex' });
  t.match(translated(t, []).at(-1)?.response, { status: 'completed' }, '[DONE] alone');
  const late = answer().whole(Buffer.from('{"created":1e999,"choices":[{"message":{"content":"x"}}]}'));
  t.match(JSON.parse(late.toString()), { created_at: Math.floor(NOW / 1000) });
});

t.test('answers of a server that gives one id twice have different ids', async (t) => {
  const body = Buffer.from(JSON.stringify({ id: 'chatcmpl-512', choices: [{ message: { content: 'x' } }] }));
  const ids = [1, 2].map(() => {
    const translator = new ResponsesAnswer(new ResponseEcho(Buffer.from(JSON.stringify(REQUEST)), null));
    return (JSON.parse(translator.whole(body).toString()) as Json)['id'];
  });
  t.match(ids, [/^resp_512_\w+$/, /^resp_512_\w+$/]);
  t.not(ids[0], ids[1]);
});

t.test('only the first of several choices is taken', async (t) => {
  const choice = (index: number, content: string, reason: string | null = null): object => ({
    index,
    delta: { content },
    finish_reason: reason,
  });
  const events = translated(t, [
    { ...HEAD, choices: [choice(0, 'a'), choice(1, 'x')] },
    { ...HEAD, choices: [choice(1, 'y', 'length')] },
    { ...HEAD, choices: [choice(0, 'b', 'stop')] },
  ]);
  t.match(events.at(-1)?.response, { status: 'completed', output: [{ content: [{ text: 'ab' }] }] });
});

t.test('the events of a stream that breaks off have all that is known of the response', async (t) => {
  const translator = answer();
  const sent = translator.events(Buffer.from(`data: ${JSON.stringify(chunk({ content: 'a' }))}\n\n`)).toString();
  const failure = { code: 'HR_STREAM_BROKEN', message: 'It broke off', status: 502 };
  const events = read(sent + translator.broken(failure).toString());
  const { code, message } = failure;
  t.match(events.slice(-2), [
    { type: 'error', code, message, param: null, error: { type: 'server_error', code, message, param: null } },
    {
      type: 'response.failed',
      response: { id: 'resp_1', status: 'failed', error: { code, message }, output: [{ content: [{ text: 'a' }] }] },
    },
  ]);
  t.equal(translator.broken(failure).byteLength, 0, 'once');
});

t.test('an error in the middle ends the stream as an error of the dialect', async (t) => {
  for (const [sent, expected] of [
    [
      { error: { message: 'no memory', type: 'server_error', code: 'oom', param: 'input' } },
      { code: 'oom', param: 'input' },
    ],
    [{ error: { message: 'no memory', code: 500 } }, { code: '500', param: null }],
    [{ error: 'no memory' }, { code: null }],
    [{ object: 'error', message: 'no memory', code: 429 }, { code: '429' }],
    [{ ...chunk({ content: 'b' }, 'error'), error: { message: 'no memory' } }, { code: null }],
  ] as const) {
    const events = translated(t, [chunk({ content: 'a' }), sent, chunk({ content: 'never' }, 'stop')]);
    const [error, failed] = events.slice(-2) as [ResponseEvent, ResponseEvent];
    t.match(error, { type: 'error', message: 'no memory', ...expected, error: { message: 'no memory', ...expected } });
    t.match(failed, {
      type: 'response.failed',
      response: { id: 'resp_1', status: 'failed', error: { message: 'no memory' } },
    });
    t.type((failed.response['error'] as Json)['code'], 'string');
    t.notMatch(JSON.stringify(events), 'never');
  }
  const first = translated(t, [{ error: { message: 'no' } }]);
  t.same(
    first.map(({ type }) => type),
    ['error', 'response.failed'],
  );
  const broken = translated(t, [chunk({ content: 'a' })], {}, false);
  t.same(
    broken.slice(-2).map(({ type }) => type),
    ['error', 'response.failed'],
    'an end without a finish reason is no success',
  );
});

t.test('a server that does not stop is stopped', async (t) => {
  const translator = answer();
  const text = 'x'.repeat(1024 * 1024);
  const types: string[] = [];
  for (let turn = 0; turn < 20; turn++) {
    const call = calls(called(turn, `call_${turn}`, 'run', turn < 10 ? '{}' : `{"a":"${text}`));
    const frame = `data: ${JSON.stringify(chunk(turn < 15 ? { content: text } : call))}\n\n`;
    const events = parseEvents(translator.events(Buffer.from(frame)).toString());
    types.push(...events.map(({ event = '' }) => event));
  }
  types.push(...parseEvents(translator.end().toString()).map(({ event = '' }) => event));
  t.same(types.slice(-2), ['error', 'response.failed']);
  t.equal(types.length, translator.nextSequence);
  t.equal(types.filter((type) => type === 'error').length, 1);
});

t.test('comments pass', async (t) => {
  t.equal(answer().events(Buffer.from(': processing\n\n')).toString(), ': processing\n\n');
});

t.test('an error answer keeps its message, type, code and parameter', async (t) => {
  for (const [status, body, expected] of [
    [
      400,
      {
        error: {
          message: 'too long',
          type: 'invalid_request_error',
          param: 'messages',
          code: 'context_length_exceeded',
        },
      },
      { message: 'too long', type: 'invalid_request_error', param: 'messages', code: 'context_length_exceeded' },
    ],
    [
      400,
      { error: { code: 400, message: 'bad', type: 'exceed_context_size_error' } },
      { message: 'bad', type: 'exceed_context_size_error', param: null, code: 400 },
    ],
    [
      422,
      { object: 'error', message: 'bad', type: 'BadRequestError', param: null, code: 400 },
      { message: 'bad', type: 'BadRequestError', param: null, code: 400 },
    ],
    [404, { detail: 'Not Found' }, { message: 'Not Found', type: 'invalid_request_error', param: null, code: null }],
    [
      422,
      { detail: [{ loc: ['body'] }] },
      { message: '{"loc":["body"]}', type: 'invalid_request_error', param: null, code: null },
    ],
    [500, { error: 'overloaded' }, { message: 'overloaded', type: 'server_error', param: null, code: null }],
    [503, 'plain text\n', { message: 'plain text', type: 'server_error', param: null, code: null }],
  ] as const) {
    const bytes = typeof body === 'string' ? body : JSON.stringify(body);
    const { error, ...rest } = JSON.parse(answer().error(status, Buffer.from(bytes)).toString()) as Json;
    t.strictSame(error, expected, bytes);
    if (typeof body !== 'string' && 'detail' in body) t.match(rest, body, 'other members stay');
  }
});

t.test('whole answers', async (t) => {
  const whole = (choice: unknown, others: object = {}): Json =>
    JSON.parse(
      answer()
        .whole(Buffer.from(JSON.stringify({ ...HEAD, choices: [choice], ...others })))
        .toString(),
    ) as Json;
  t.match(whole({ message: { content: 'Hi' }, finish_reason: 'stop' }, { usage, service_tier: 'default' }), {
    id: 'resp_1',
    status: 'completed',
    service_tier: 'default',
    output: [{ type: 'message', content: [{ text: 'Hi' }] }],
    usage: { input_tokens: 7 },
  });
  t.match(
    whole({
      message: {
        content: '',
        tool_calls: [called(undefined, undefined, 'run', '{}'), called(undefined, undefined, 'run', '{}')],
      },
    }),
    {
      output: [
        { type: 'function_call', call_id: 'call_1_0' },
        { type: 'function_call', call_id: 'call_1_1' },
      ],
    },
  );
  t.match(whole({ message: { content: 'x' }, finish_reason: 'length' }), {
    status: 'incomplete',
    output: [{ status: 'incomplete' }],
  });
  t.match(
    whole(
      { index: 1, message: { content: 'x' } },
      {
        choices: [
          { index: 1, message: { content: 'x' } },
          { index: 0, message: { content: 'y' }, usage },
        ],
      },
    ),
    { output: [{ content: [{ text: 'y' }] }], usage: { input_tokens: 7 } },
  );
  t.match(whole({ message: { content: 'x', tool_calls: [null] }, finish_reason: 'stop' })['output'], { length: 1 });
  const failed = (reason: string): string => JSON.stringify({ choices: [{ message: {}, finish_reason: reason }] });
  for (const body of [failed('error'), failed('abort'), '{}', '[]', '{"choices":[]}', '{', '{"choices":[{}]}']) {
    t.throws(() => answer().whole(Buffer.from(body)), { code: 'HR_UPSTREAM_ANSWER' }, body);
  }
});

/** Checks what holds of every stream. */
function checkInvariants(events: readonly ResponseEvent[]): void {
  const open = new Map<
    unknown,
    { item: Json; parts: Map<unknown, { type: unknown; text: string; done: boolean }>; arguments: string }
  >();
  for (const event of events) {
    const {
      content_index: at,
      delta,
      item,
      item_id: id,
      output_index: index,
      part,
      type,
    } = event as Json & ResponseEvent;
    if (type === 'response.output_item.added') {
      assert.equal(index, open.size, 'items are numbered in their order');
      open.set(index, { item, parts: new Map(), arguments: '' });
      continue;
    }
    const known = open.get(index);
    if (index !== undefined) assert.ok(known !== undefined && (id === undefined || known.item['id'] === id), type);
    const text = known?.parts.get(at);
    if (type === 'response.content_part.added')
      known?.parts.set(at, { type: (part as Json)['type'], text: '', done: false });
    else if (type === 'response.function_call_arguments.delta')
      (known as { arguments: string }).arguments += delta as string;
    else if (type === 'response.function_call_arguments.done') assert.equal(event['arguments'], known?.arguments);
    else if (type.endsWith('.delta')) {
      assert.ok(text?.done === false && type === `response.${text.type as string}.delta`);
      (text as { text: string }).text += delta as string;
    } else if (/(?:text|refusal)\.done$/.test(type)) {
      assert.equal(event['text'] ?? event['refusal'], text?.text);
    } else if (type === 'response.content_part.done') {
      assert.equal((part as Json)['text'] ?? (part as Json)['refusal'], text?.text);
      (text as { done: boolean }).done = true;
    } else if (type === 'response.output_item.done') {
      assert.deepEqual([(item as Json)['id'], (item as Json)['type']], [known?.item['id'], known?.item['type']]);
      assert.ok([...(known?.parts.values() ?? [])].every(({ done }) => done));
      open.set(index, { item, parts: new Map(), arguments: '' });
    }
  }
  const last = events.at(-1) as ResponseEvent;
  assert.deepEqual(
    last.response.output,
    [...open.values()].map(({ item }) => item),
  );
}

t.test('a stream in any pieces gives the response that the whole answer gives', async (t) => {
  const random = new Random(16);
  for (let turn = 0; turn < 300; turn++) {
    const output = randomOutput(random);
    const translator = answer();
    const pieces = inPieces(random, streamOf(random, output)).map((piece) => translator.events(piece).toString());
    const events = read(pieces.join('') + translator.end().toString());
    checkInvariants(events);
    const whole = answer().whole(Buffer.from(JSON.stringify(wholeOf(output))));
    t.strictSame(events.at(-1)?.response, JSON.parse(whole.toString()));
  }
});

/** Replaces a random member of a JSON value. */
function spoiled(random: Random, value: unknown): unknown {
  const odd = [
    null,
    7,
    -1,
    true,
    '',
    'x',
    '\ud800',
    [],
    {},
    [null],
    [[{}]],
    { content: { a: 1 } },
    [{ index: 'x' }],
    ['"', '\n'],
  ];
  if (typeof value !== 'object' || value === null || random.chance(0.2)) return random.pick(odd);
  const keys = Object.keys(value);
  if (keys.length === 0) return random.pick(odd);
  const key = random.pick(keys);
  const member = (value as Json)[key];
  return Array.isArray(value)
    ? value.map((item: unknown, at) => (String(at) === key ? spoiled(random, item) : item))
    : { ...value, [key]: spoiled(random, member) };
}

t.test('no answer of a server makes it throw, or write what is no stream of the dialect', async (t) => {
  const random = new Random(23);
  for (let turn = 0; turn < 400; turn++) {
    const output = randomOutput(random);
    const frames = streamOf(random, output).map((frame) => {
      if (random.chance(0.8) || !frame.startsWith('data: {')) return frame;
      return `data: ${JSON.stringify(spoiled(random, JSON.parse(frame.slice(6))))}\n\n`;
    });
    const translator = answer();
    const bytes = inPieces(random, frames).map((piece) => translator.events(piece).toString());
    const events = read(bytes.join('') + translator.end().toString());
    assert.equal(translator.nextSequence, events.length);
    const last = events.at(-1)?.type ?? '';
    assert.match(last, /^response\.(?:completed|incomplete|failed)$/);
    if (last !== 'response.failed') checkInvariants(events);
    const whole = Buffer.from(JSON.stringify(spoiled(random, wholeOf(output))));
    try {
      t.match(JSON.parse(answer().whole(whole).toString()), { object: 'response' });
    } catch (error) {
      t.match(error, { code: 'HR_UPSTREAM_ANSWER' });
    }
    t.match(JSON.parse(answer().error(500, whole).toString()), { error: { message: String, type: String } });
  }
});

t.test('log-probabilities count as text that is kept', (t) => {
  const content = [{ token: 'a', logprob: 0, top_logprobs: [{ token: 'x'.repeat(1024 * 1024) }] }];
  const chunks = Array.from({ length: 17 }, () => ({
    ...HEAD,
    choices: [{ index: 0, delta: { content: 'a' }, logprobs: { content }, finish_reason: null }],
  }));
  const last = translated(t, chunks).at(-1);
  t.match(last, { type: 'response.failed', response: { error: { code: 'HR_STREAM_BROKEN' } } });
  t.end();
});

t.test('calls that take turns wait for each other, up to a bound', async (t) => {
  const part = (index: number, text: string, name?: string): Buffer => {
    const call = { index, ...(name && { id: `c${index}` }), function: { ...(name && { name }), arguments: text } };
    return Buffer.from(`data: ${JSON.stringify(chunk({ tool_calls: [call] }))}\n\n`);
  };
  const eventsOf = (count: number): Record<string, unknown>[] => {
    const translator = answer();
    const pieces: Buffer[] = [];
    const say = (piece: Buffer): void => void pieces.push(Buffer.from(translator.events(piece)));
    for (let index = 0; index < count; index++) say(part(index, '{"n":', 'run'));
    for (let round = 0; round < 3; round++) {
      for (let index = count - 1; index >= 0; index--) say(part(index, String(index)));
    }
    for (let index = count - 1; index >= 0; index--) say(part(index, '}'));
    say(Buffer.from('data: [DONE]\n\n'));
    const events = parseEvents(Buffer.concat(pieces).toString());
    return events
      .filter(({ data }) => data !== '[DONE]')
      .map(({ data }) => JSON.parse(data) as Record<string, unknown>);
  };
  const done = eventsOf(300).filter(({ type }) => type === 'response.function_call_arguments.done');
  t.same(
    done.map((event) => event['arguments']),
    Array.from({ length: 300 }, (_, index) => `{"n":${`${index}`.repeat(3)}}`),
  );
  const failed = eventsOf(1100);
  t.match(failed.at(-1), { type: 'response.failed', response: { error: { code: 'HR_STREAM_BROKEN' } } });
  t.equal(failed.filter(({ type }) => type === 'error').length, 1);
});

t.test('the time of many calls is linear', async (t) => {
  const calls = Array.from({ length: 20_000 }, (_, index) => ({
    index,
    id: `c${index}`,
    function: { name: 'run', arguments: '{}' },
  }));
  const translator = answer();
  const start = process.cpuUsage();
  for (const call of calls)
    translator.events(Buffer.from(`data: ${JSON.stringify(chunk({ tool_calls: [call] }))}\n\n`));
  t.ok(process.cpuUsage(start).user < 2_500_000);
});

t.test('the time of many log probabilities and annotations without a text is linear', async (t) => {
  const translator = answer();
  const event = chunk({ annotations: [{ type: 'x' }] }, null);
  const [choice] = (event as { choices: object[] }).choices;
  const bytes = Buffer.from(
    `data: ${JSON.stringify({ ...event, choices: [{ ...choice, logprobs: { content: [{ token: 'a' }] } }] })}\n\n`,
  );
  const start = process.cpuUsage();
  for (let at = 0; at < 40_000; at++) translator.events(bytes);
  t.ok(process.cpuUsage(start).user < 2_500_000);
});

t.test('a server that does not stop ends with an error before it fills the memory', async (t) => {
  const long = 'x'.repeat(200_000);
  const call = (index: number, name: string): object => ({
    tool_calls: [{ index, id: `c${index}`, function: { name, arguments: '{}' } }],
  });
  const endless = {
    text: () => ({ content: long }),
    calls: (index: number) => call(index, 'run'),
    names: (index: number) => call(index, long),
    annotations: () => ({ content: 'a', annotations: [{ type: 'url_citation', url_citation: { url: long } }] }),
  };
  for (const [what, delta] of Object.entries(endless)) {
    const translator = answer();
    let sent = 0;
    let events = '';
    while (!events.includes('"type":"response.failed"') && sent < 50_000) {
      events = translator.events(Buffer.from(`data: ${JSON.stringify(chunk(delta(sent++)))}\n\n`)).toString();
    }
    t.ok(sent > 50 && sent < 50_000, `${what}: ${sent} events`);
    t.match(events, '"code":"HR_STREAM_BROKEN"');
    t.equal(translator.end().length, 0);
  }
});
