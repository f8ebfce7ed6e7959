// The playground's dialects, without a browser: what a conversation becomes as a request, and what events and whole answers become as an
// answer. The gateway checks its part: requests of all dialects are answered by a CRN of chat completions, through its translations.

import t from 'tap';
import {
  type Answer,
  NO_ANSWER,
  NO_TOOLS,
  type Parameters,
  readExtra,
  readTools,
  textParts,
  type Turn,
} from '../../../src/admin/dashboard/playground/conversation.ts';
import {
  type DialectName,
  dialectOf,
  errorText,
  EventStream,
  type Json,
} from '../../../src/admin/dashboard/playground/dialects.ts';
import { createGateway } from '../../../src/gateway/gateway.ts';
import { cpuMsOf } from '../../support/cpu-time.ts';
import {
  CHAT_PATH,
  chatAnswer,
  chatStream,
  chunk,
  finish,
  startScriptedChat,
  usageChunk,
} from '../../support/scripted-chat.ts';
import { bearer } from '../../support/ledger-fixture.ts';
import { KEY, MODEL, settingsFor } from '../../support/system.ts';

const NAMES: readonly DialectName[] = ['chat', 'messages', 'responses'];

const PARAMETERS: Parameters = {
  ...{ system: 'Be brief.', stream: true, maxTokens: 50, temperature: 0.5, topP: 0.9 },
  extra: { seed: 7 },
};

const WEATHER = {
  name: 'weather',
  description: 'Tells the weather',
  parameters: { type: 'object', properties: { place: {} } },
};

const CALLED: Answer = {
  ...NO_ANSWER,
  ...{ text: 'I look.', calls: [{ id: 'call_1', name: 'weather', arguments: '{"place":"Ulm"}' }] },
  ...{ finish: 'tool_calls', complete: true },
};

const IMAGE = 'data:image/png;base64,iVBORw0KGgo=';

const TURNS: readonly Turn[] = [
  { role: 'user', text: 'What is this?', images: [{ name: 'a.png', url: IMAGE }] },
  { role: 'assistant', answer: CALLED },
  { role: 'tool', results: [{ id: 'call_1', name: 'weather', output: 'Rain.' }] },
];

/** Reads events as a browser gets them. */
function streamed(name: DialectName, text: string, size = text.length): Answer {
  const reader = dialectOf(name).reader();
  const events = new EventStream((data) => {
    if (data !== '[DONE]') reader.event(JSON.parse(data) as Json);
  });
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.byteLength; at += size) events.push(bytes.subarray(at, at + size));
  events.end();
  return reader.answer;
}

const STREAM = chatStream(
  chunk({ role: 'assistant', reasoning_content: 'Rain' }),
  chunk({ reasoning_content: ' is wet.' }),
  chunk({ content: 'I ' }),
  chunk({ content: 'look: é🌊.' }),
  chunk({ tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"place":' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '"Ulm"}' } }] }),
  chunk({ tool_calls: [{ index: 1, id: 'call_2', type: 'function', function: { name: 'time', arguments: '{}' } }] }),
  finish('tool_calls'),
  usageChunk({ prompt_tokens: 20, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 12 } }),
);

const EXPECTED = {
  text: 'I look: é🌊.',
  reasoning: 'Rain is wet.',
  calls: [
    { id: 'call_1', name: 'weather', arguments: '{"place":"Ulm"}' },
    { id: 'call_2', name: 'time', arguments: '{}' },
  ],
  usage: { input: 20, cached: 12, output: 9 },
  error: null,
  complete: true,
};

t.test('a CRN gets the same conversation from every dialect, and its answers are read alike', async (t) => {
  const crn = await startScriptedChat(t);
  const gateway = createGateway({ ...settingsFor([]), models: { [MODEL]: { servers: [crn.url] } } });
  t.teardown(() => gateway.close());
  await gateway.listen();
  await gateway.ready();
  const tools = readTools(JSON.stringify([WEATHER]));
  for (const name of NAMES) {
    const dialect = dialectOf(name);
    const ask = async (stream: boolean): Promise<string> => {
      const body = dialect.request(MODEL, TURNS, tools, { ...PARAMETERS, stream });
      const answer = await gateway.inject({ path: dialect.path, headers: bearer(KEY), body });
      t.equal(answer.status, 200, `${name}: ${answer.text().slice(0, 300)}`);
      return answer.text();
    };
    crn.play(STREAM);
    const text = await ask(true);
    for (const size of [text.length, 1, 7])
      t.match(streamed(name, text, size), EXPECTED, `${name} in pieces of ${size}`);
    const { messages, ...sent } = crn.last(CHAT_PATH).body as { messages: Record<string, unknown>[] };
    t.match(
      sent,
      { model: MODEL, stream: true, temperature: 0.5, top_p: 0.9, tools: [{ type: 'function', function: WEATHER }] },
      name,
    );
    t.equal(
      (sent as Record<string, unknown>)['max_tokens'] ?? (sent as Record<string, unknown>)['max_completion_tokens'],
      50,
      name,
    );
    t.same(
      messages.map(({ role }) => role),
      ['system', 'user', 'assistant', 'tool'],
      name,
    );
    t.match(JSON.stringify(messages[1]), IMAGE, name);
    t.match(
      messages[2],
      {
        content: 'I look.',
        tool_calls: [{ id: 'call_1', function: { name: 'weather', arguments: '{"place":"Ulm"}' } }],
      },
      name,
    );
    t.match(messages[3], { tool_call_id: 'call_1', content: 'Rain.' }, name);

    crn.play(
      chatAnswer(
        {
          ...{ content: EXPECTED.text, reasoning_content: EXPECTED.reasoning },
          tool_calls: EXPECTED.calls.map(({ id, ...call }) => ({ id, type: 'function', function: call })),
        },
        { finish_reason: 'tool_calls' },
        { usage: { prompt_tokens: 20, completion_tokens: 9, prompt_tokens_details: { cached_tokens: 12 } } },
      ),
    );
    const reader = dialect.reader();
    reader.whole(JSON.parse(await ask(false)) as Json);
    t.match(reader.answer, EXPECTED, `${name}, whole`);
  }
});

t.test('an error in the middle of a stream stands beside what came before', async (t) => {
  const streams: Readonly<Record<DialectName, readonly object[]>> = {
    chat: [chunk({ content: 'Down' }), { error: { message: 'it broke', code: 'HR_STREAM_BROKEN' } }],
    messages: [
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Down' } },
      { type: 'error', error: { type: 'api_error', message: 'it broke' } },
    ],
    responses: [
      { type: 'response.output_text.delta', output_index: 0, delta: 'Down' },
      { type: 'error', message: 'it broke' },
    ],
  };
  for (const name of NAMES) {
    const text = streams[name]
      .map((event) => `event: x\r\ndata: ${JSON.stringify(event)}\r\n\r\n: comment\r\n\r\n`)
      .join('');
    for (const size of [text.length, 1]) {
      t.match(streamed(name, text, size), { text: 'Down', error: 'it broke', complete: false }, name);
    }
  }
});

t.test('a stream without its end is not complete', (t) => {
  t.match(streamed('chat', `data: ${JSON.stringify(chunk({ content: 'Down' }))}`), {
    text: 'Down',
    error: null,
    complete: false,
  });
  t.same(streamed('messages', ''), NO_ANSWER);
  t.match(streamed('responses', 'data: {"type":"response.failed","response":{"error":{"message":"full"}}}\n\n'), {
    error: 'full',
  });
  t.end();
});

t.test('thinking with a signature goes back to the server that has signed it', (t) => {
  const events = [
    { type: 'message_start', message: { usage: { input_tokens: 5, cache_read_input_tokens: 7, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm.' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig' } },
    { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Yes.' } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } },
    { type: 'message_stop' },
  ];
  const answer = streamed('messages', events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
  t.match(answer, { reasoning: 'Hm.', text: 'Yes.', finish: 'end_turn', usage: { input: 12, cached: 7, output: 4 } });
  const body = dialectOf('messages').request(MODEL, [{ role: 'assistant', answer }], NO_TOOLS, PARAMETERS) as {
    messages: object[];
  };
  t.same(body.messages, [
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 'sig' },
        { type: 'text', text: 'Yes.' },
      ],
    },
  ]);
  t.end();
});

t.test('fields that are empty are not sent, and further members win', (t) => {
  const turns: Turn[] = [{ role: 'user', text: 'Hi', images: [] }];
  const none = { system: '', stream: false, maxTokens: null, temperature: null, topP: null, extra: {} };
  t.same(dialectOf('chat').request(MODEL, turns, NO_TOOLS, none), {
    model: MODEL,
    messages: [{ role: 'user', content: 'Hi' }],
  });
  t.same(dialectOf('messages').request(MODEL, turns, NO_TOOLS, { ...none, extra: { max_tokens: 9, top_k: 1 } }), {
    ...{ model: MODEL, max_tokens: 9, top_k: 1 },
    messages: [{ role: 'user', content: 'Hi' }],
  });
  t.same(dialectOf('no such dialect').name, 'chat');
  t.end();
});

t.test('tools are read in the form of every dialect', (t) => {
  const { parameters, ...rest } = WEATHER;
  const forms = [
    [WEATHER],
    WEATHER,
    { tools: [{ type: 'function', function: WEATHER }], model: 'x' },
    [{ ...rest, input_schema: parameters }],
    [{ type: 'function', ...WEATHER }],
  ];
  for (const form of forms)
    t.same(readTools(JSON.stringify(form)), { functions: [WEATHER], others: [] }, JSON.stringify(form));
  t.same(readTools('{"type":"object","title":"find","description":"Finds","properties":{}}').functions, [
    {
      name: 'find',
      description: 'Finds',
      parameters: { type: 'object', title: 'find', description: 'Finds', properties: {} },
    },
  ]);
  t.same(readTools('[{"type":"web_search_20250305","name":"web_search"}]'), {
    functions: [],
    others: [{ type: 'web_search_20250305', name: 'web_search' }],
  });
  t.same(readTools('  '), NO_TOOLS);
  t.throws(() => readTools('{'), /^Tools are not JSON: /);
  t.throws(() => readTools('[1]'), { message: 'Tool 1 is not an object' });
  t.throws(() => readTools('[{"type":"function","function":{}}]'), { message: 'Tool 1 has no name' });
  t.throws(() => readTools('[{"name":"x","parameters":[]}]'), { message: /Tool 1, x: its parameters/ });
  t.throws(() => readExtra('[]'), { message: /must be a JSON object/ });
  t.throws(() => readExtra('{'), /^Further members are not JSON: /);
  t.end();
});

t.test('texts are split at fences of code, also while they grow', (t) => {
  const text = 'Look:\n\n```ts a.ts\nconst a = "<b>";\n\n  // `x`\n```\n\nAnd\n~~~\n```\n~~~\n````\nopen\n```';
  t.same(textParts(text), [
    { code: false, language: '', text: 'Look:' },
    { code: true, language: 'ts', text: 'const a = "<b>";\n\n  // `x`' },
    { code: false, language: '', text: 'And' },
    { code: true, language: '', text: '```' },
    { code: true, language: '', text: 'open\n```' },
  ]);
  t.same(textParts(''), []);
  t.same(textParts('a ``` b'), [{ code: false, language: '', text: 'a ``` b' }]);
  t.end();
});

t.test('long lines of what a model says are split in linear time', (t) => {
  for (const line of [`${'~'.repeat(100_000)}\``, `~~~${' '.repeat(100_000)}\``, `a${' '.repeat(100_000)}b`]) {
    const ms = cpuMsOf(() => {
      t.same(textParts(line), [{ code: false, language: '', text: line }]);
    });
    t.ok(ms < 1000, `${ms} ms`);
  }
  t.end();
});

t.test('events come whole from any pieces, and a large one in linear time', (t) => {
  const wire = Buffer.from('data: a\r\ndata: ü\r\n\r\nevent: x\rdata:b\r\r: comment\n\ndata: c\n\ndata: d\r\n\r');
  for (const size of [1, 2, 3, 7, 1000]) {
    const found: string[] = [];
    const events = new EventStream((data) => found.push(data));
    for (let at = 0; at < wire.length; at += size) events.push(wire.subarray(at, at + size));
    events.end();
    t.same(found, ['a\nü', 'b', 'c', 'd'], `pieces of ${size}`);
  }
  const piece = Buffer.alloc(4096, 'x');
  let length = 0;
  const events = new EventStream((data) => (length = data.length));
  events.push(Buffer.from('data: '));
  const ms = cpuMsOf(() => {
    for (let at = 0; at < 2500; at++) events.push(piece);
    events.end();
  });
  t.equal(length, 2500 * 4096);
  t.ok(ms < 2000, `${ms} ms`);
  t.end();
});

t.test('errors of all dialects and of the gateway have one sentence', (t) => {
  const loc = ['body', 'messages', 0];
  for (const [value, sentence] of [
    [{ error: { message: 'no' } }, 'no'],
    [{ error: 'no' }, 'no'],
    [{ detail: 'no', error: { message: 'no credit' } }, 'no credit'],
    [{ detail: [{ loc, msg: 'missing' }] }, 'messages.0: missing'],
    [{ type: 'error', message: 'no' }, 'no'],
    [{ odd: 1 }, '{"odd":1}'],
    [undefined, 'no explanation was given'],
  ] as const) {
    t.equal(errorText(value), sentence);
  }
  t.end();
});

t.test('of several choices the first one is the answer', async (t) => {
  const reader = dialectOf('chat').reader();
  for (const [index, content] of [
    [1, 'Other'],
    [0, 'Fi'],
    [1, ' words'],
    [0, 'rst'],
  ] as const) {
    reader.event({ choices: [{ index, delta: { content } }] });
  }
  reader.event({ choices: [{ index: 1, delta: {}, finish_reason: 'length' }] });
  t.equal(reader.answer.text, 'First');
  t.equal(reader.answer.complete, false);
  reader.event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  t.equal(reader.answer.finish, 'stop');
});
