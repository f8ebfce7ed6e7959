import t from 'tap';
import type { Test } from 'tap';
import { type Answer, ask, dataOf, events, send, startHost } from './ask.ts';

const MESSAGES = [{ role: 'user', content: 'How does the mill work in a dry summer, and who keeps the channel?' }];

/** Each dialect: a short request, where its usage is, and what its text is. */
const DIALECTS: readonly {
  path: string;
  body: object;
  usage: (answer: Answer) => number[];
  text: (answer: Answer) => string;
  delta: (event: Answer) => string;
}[] = [
  {
    path: '/v1/completions',
    body: { prompt: MESSAGES[0]!.content, max_tokens: 9, stream_options: { include_usage: true } },
    usage: ({ usage }) => [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens],
    text: ({ choices }) => choices[0].text,
    delta: ({ choices }) => choices[0]?.text ?? '',
  },
  {
    path: '/v1/chat/completions',
    body: { messages: MESSAGES, max_tokens: 9, stream_options: { include_usage: true } },
    usage: ({ usage }) => [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens],
    text: ({ choices }) => choices[0].message.content,
    delta: ({ choices }) => choices[0]?.delta.content ?? '',
  },
  {
    path: '/v1/responses',
    body: { input: MESSAGES[0]!.content, max_output_tokens: 9 },
    usage: ({ usage }) => [usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens],
    text: ({ output }) => output[0].content[0].text,
    delta: ({ type, delta }) => (type === 'response.output_text.delta' ? delta : ''),
  },
  {
    path: '/v1/messages',
    body: { messages: MESSAGES, max_tokens: 9 },
    usage: ({ usage }) => [
      usage.input_tokens + usage.cache_read_input_tokens,
      usage.cache_read_input_tokens,
      usage.output_tokens,
    ],
    text: ({ content }) => content[0].text,
    delta: ({ delta }) => delta?.text ?? '',
  },
];

for (const { path, body, usage, text, delta } of DIALECTS) {
  t.test(`${path} answers with text of the language model and its usage`, async (t) => {
    const host = await startHost(t);
    const request = { model: 'm', seed: 5, ...body };
    const first = await ask(host, path, request);
    const [prompt, cached, output] = usage(first);
    t.same([cached, output], [0, 9]);
    t.ok(prompt! > 9);
    const again = await ask(host, path, request);
    t.equal(text(again), text(first), 'the seed decides');
    t.same(usage(again), [prompt, prompt! - 1, 9], 'the prompt is found in the cache');
    t.not(text(await ask(host, path, { ...request, seed: 6 })), text(first));
    const streamed = await events(host, path, request);
    t.equal(streamed.map(delta).join(''), text(first));
    const last = streamed.findLast((event) => (event.response ?? event).usage);
    t.equal((last.response ?? last).usage.output_tokens ?? last.usage.completion_tokens, 9);
  });

  t.test(`${path} refuses requests with the error body of its dialect`, async (t) => {
    const host = await startHost(t, { engine: { speed: 'virtual', slots: 1, contextTokens: 16 } });
    const refused: [object, number, RegExp][] = [
      [{ ...body, model: undefined }, 422, /"loc":\["body","model"\]/],
      [{ ...body, model: 'z' }, 404, /'z' does not exist/],
      [{ model: 'm', ...body, temperature: 'hot' }, 422, /"loc":\["body","temperature"\]/],
      [{ model: 'm', ...body }, 400, /maximum context length is 16/],
    ];
    for (const [request, status, message] of refused) {
      const response = await send(host, path, request);
      const answer = await response.text();
      t.equal(response.status, status);
      t.match(answer, message);
      const { detail, error } = JSON.parse(answer) as Answer;
      t.match(error, { message: String, type: /error$/ });
      t.ok(status === 422 ? Array.isArray(detail) : typeof detail === 'string');
    }
  });
}

t.test('a second turn finds its first one in the cache', async (t) => {
  const host = await startHost(t);
  const chat = (messages: object[]): Promise<Answer> =>
    ask(host, '/v1/chat/completions', { model: 'm', messages, max_tokens: 20, seed: 1 });
  const first = await chat(MESSAGES);
  const second = await chat([...MESSAGES, first.choices[0].message, { role: 'user', content: 'And then?' }]);
  t.ok(second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 1);
  t.ok(second.usage.prompt_tokens > first.usage.prompt_tokens + 15, 'the answer is part of the conversation');
});

const SCHEMA = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    days: { type: 'integer', minimum: 1, maximum: 9 },
    unit: { enum: ['celsius', 'fahrenheit'] },
  },
  required: ['city', 'days', 'unit'],
  additionalProperties: false,
};

function fits(t: Test, json: string): void {
  const { city, days, unit, ...rest } = JSON.parse(json) as Record<string, unknown>;
  t.ok(typeof city === 'string' && Number.isInteger(days) && Number(days) >= 1 && Number(days) <= 9, json);
  t.ok((unit === 'celsius' || unit === 'fahrenheit') && Object.keys(rest).length === 0, json);
}

t.test('chat completions call tools by their schema, whole and streamed', async (t) => {
  const host = await startHost(t);
  const tools = ['weather', 'other'].map((name) => ({ type: 'function', function: { name, parameters: SCHEMA } }));
  const body = { model: 'm', messages: MESSAGES, tools };
  for (const seed of [1, 2, 3, 4, 5]) {
    const { choices } = await ask(host, '/v1/chat/completions', { ...body, seed });
    const [call] = choices[0].message.tool_calls;
    t.match(choices[0], { finish_reason: 'tool_calls', message: { content: null } });
    t.match(call, { id: String, type: 'function', function: { name: /^(weather|other)$/ } });
    fits(t, call.function.arguments);
    const deltas = (await events(host, '/v1/chat/completions', { ...body, seed })).map(({ choices: [one] }) => one);
    const calls = deltas.flatMap(({ delta }) => delta.tool_calls ?? []);
    t.equal(calls[0].function.name, call.function.name);
    t.equal(calls.map((each) => each.function.arguments).join(''), call.function.arguments);
    t.equal(deltas.at(-1).finish_reason, 'tool_calls');
  }
  const named = { ...body, tool_choice: { type: 'function', function: { name: 'other' } } };
  t.equal((await ask(host, '/v1/chat/completions', named)).choices[0].message.tool_calls[0].function.name, 'other');
  const none = await ask(host, '/v1/chat/completions', { ...body, tool_choice: 'none', max_tokens: 5 });
  t.type(none.choices[0].message.content, 'string');
  const wrong = { ...body, tool_choice: { type: 'function', function: { name: 'nothing' } } };
  t.equal((await send(host, '/v1/chat/completions', wrong)).status, 400);
});

t.test('after the result of a tool the model answers with text, unless a call is required', async (t) => {
  const host = await startHost(t);
  const tools = [{ type: 'function', function: { name: 'weather', parameters: SCHEMA } }];
  const call = { id: 'c', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } };
  const messages = [
    ...MESSAGES,
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c', content: '12 degrees' },
  ];
  const body = { model: 'm', messages, tools, max_tokens: 400, seed: 1 };
  t.match((await ask(host, '/v1/chat/completions', body)).choices[0].message, {
    content: String,
    tool_calls: undefined,
  });
  const must = await ask(host, '/v1/chat/completions', { ...body, tool_choice: 'required' });
  t.equal(must.choices[0].finish_reason, 'tool_calls');
});

t.test('messages call tools by their schema, whole and streamed', async (t) => {
  const host = await startHost(t);
  const tools = [{ name: 'weather', input_schema: SCHEMA }];
  const body = { model: 'm', messages: MESSAGES, max_tokens: 400, tools, tool_choice: { type: 'any' }, seed: 2 };
  const { content, stop_reason } = await ask(host, '/v1/messages', body);
  t.equal(stop_reason, 'tool_use');
  t.match(content, [{ type: 'tool_use', name: 'weather', id: String }]);
  fits(t, JSON.stringify(content[0].input));
  const all = await events(host, '/v1/messages', body);
  const json = all.map(({ delta }) => delta?.partial_json ?? '').join('');
  t.same(JSON.parse(json), content[0].input);
  t.match(
    all.map(({ type }) => type).filter((type) => type !== 'content_block_delta'),
    ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'],
  );
  const next = [
    ...MESSAGES,
    { role: 'assistant', content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: content[0].id, content: 'rain' }] },
  ];
  const after = await ask(host, '/v1/messages', { ...body, messages: next, tool_choice: { type: 'auto' } });
  t.equal(after.content[0].type, 'text');
});

t.test('responses call tools by their schema, whole and streamed', async (t) => {
  const host = await startHost(t);
  const tools = [{ type: 'function', name: 'weather', parameters: SCHEMA }];
  const body = { model: 'm', input: 'Weather?', tools, seed: 3 };
  const { output, status } = await ask(host, '/v1/responses', body);
  t.equal(status, 'completed');
  t.match(output, [{ type: 'function_call', name: 'weather', call_id: String, status: 'completed' }]);
  fits(t, output[0].arguments);
  const all = await events(host, '/v1/responses', body);
  t.same(
    all.map(({ sequence_number }) => sequence_number),
    all.map((_, at) => at),
  );
  const deltas = all.filter(({ type }) => type === 'response.function_call_arguments.delta');
  t.equal(deltas.map(({ delta }) => delta).join(''), output[0].arguments);
  t.equal(all.find(({ type }) => type === 'response.output_item.done').item.arguments, output[0].arguments);
  t.equal(all.at(-1).response.output[0].arguments, output[0].arguments);
  const input = [
    { role: 'user', content: 'Weather?' },
    output[0],
    { type: 'function_call_output', call_id: output[0].call_id, output: 'rain' },
  ];
  const after = await ask(host, '/v1/responses', { ...body, input, max_output_tokens: 400 });
  t.equal(after.output[0].type, 'message');
});

t.test('responses call custom tools with a text, whole and streamed', async (t) => {
  const host = await startHost(t);
  const tools = [{ type: 'custom', name: 'shell', format: { type: 'text' } }];
  const body = { model: 'm', input: 'List the files', tools, seed: 3 };
  const { output } = await ask(host, '/v1/responses', body);
  t.match(output, [{ type: 'custom_tool_call', name: 'shell', call_id: String, input: /\w/, status: 'completed' }]);
  const all = await events(host, '/v1/responses', body);
  const deltas = all.filter(({ type }) => type === 'response.custom_tool_call_input.delta');
  t.equal(deltas.map(({ delta }) => delta).join(''), output[0].input);
  t.equal(all.find(({ type }) => type === 'response.custom_tool_call_input.done').input, output[0].input);
  t.equal(all.at(-1).response.output[0].input, output[0].input);
  t.same(
    all.map(({ sequence_number }) => sequence_number),
    all.map((_, at) => at),
  );
  const result = { type: 'custom_tool_call_output', call_id: output[0].call_id, output: 'a.txt' };
  const input = [{ role: 'user', content: 'List the files' }, output[0], result];
  const after = await ask(host, '/v1/responses', { ...body, input });
  t.equal(after.output[0].type, 'message');
});

t.test('a call that a limit cuts off says so', async (t) => {
  const host = await startHost(t);
  const tools = [{ type: 'function', function: { name: 'weather', parameters: SCHEMA } }];
  const body = { model: 'm', messages: MESSAGES, tools, max_tokens: 12, seed: 1 };
  const { choices } = await ask(host, '/v1/chat/completions', body);
  t.equal(choices[0].finish_reason, 'length');
  t.match(choices[0].message.tool_calls[0].function, { name: 'weather', arguments: /^\{"city":"[^}]*$/ });
});

t.test('answers follow a JSON schema in every dialect that can ask for one', async (t) => {
  const host = await startHost(t);
  const format = { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA } };
  const flat = { format: { type: 'json_schema', name: 'x', schema: SCHEMA } };
  const chat = { model: 'm', messages: MESSAGES, response_format: format };
  fits(t, (await ask(host, '/v1/chat/completions', chat)).choices[0].message.content);
  fits(t, (await ask(host, '/v1/completions', { model: 'm', prompt: 'x', response_format: format })).choices[0].text);
  const response = await ask(host, '/v1/responses', { model: 'm', input: 'x', text: flat });
  fits(t, response.output[0].content[0].text);
  const messages = { model: 'm', messages: MESSAGES, max_tokens: 400, output_config: flat };
  fits(t, (await ask(host, '/v1/messages', messages)).content[0].text);
  const any = { ...chat, response_format: { type: 'json_object' }, max_tokens: 2000 };
  const free = await ask(host, '/v1/chat/completions', any);
  if (free.choices[0].finish_reason === 'stop') t.type(JSON.parse(free.choices[0].message.content), 'object');
  const wrong = { ...chat, response_format: { type: 'json_schema', json_schema: { schema: { type: 'nothing' } } } };
  t.equal((await send(host, '/v1/chat/completions', wrong)).status, 400);
});

t.test('the sampling options work in the other dialects too', async (t) => {
  const host = await startHost(t);
  const body = { model: 'm', prompt: 'x', max_tokens: 5 };
  const text = async (more: object): Promise<string> =>
    (await ask(host, '/v1/completions', { ...body, ...more })).choices[0].text;
  const { tokens } = await ask(host, '/tokenize', { content: ' bread' });
  t.equal(await text({ logit_bias: { [tokens[0]]: 100 }, max_tokens: 1 }), ' bread');
  t.equal(await text({ temperature: 0, seed: 1 }), await text({ temperature: 0, seed: 2 }));
  t.equal(await text({ grammar: 'root ::= "yes"' }), 'yes');
  t.equal((await ask(host, '/v1/completions', { ...body, stop: ' ' })).choices[0].finish_reason, 'stop');
});

t.test('embeddings are unit vectors that depend on the text alone', async (t) => {
  const host = await startHost(t);
  const { data } = await ask(host, '/v1/embeddings', { model: 'm', input: ['a', 'b', 'a'] });
  const [a, b, again] = data.map(({ embedding }: Answer) => embedding as number[]);
  t.same(a, again);
  t.notSame(a, b);
  t.ok(Math.abs(Math.hypot(...a!) - 1) < 1e-5);
});

t.test('running out of memory is reported with the error event of each dialect', async (t) => {
  const host = await startHost(t);
  const failures: [string, object, RegExp][] = [
    ['/completion', { prompt: 'x' }, /^data: \{"error":\{"code":500,"message":"the engine ran out of memory"/m],
    ['/v1/completions', { prompt: 'x' }, /^data: \{"error":\{"message":"the engine ran out of memory"/m],
    ['/v1/chat/completions', { messages: MESSAGES }, /^data: \{"error":\{"message":"the engine ran out of memory"/m],
    ['/v1/responses', { input: 'x' }, /^event: response.failed$/m],
    ['/v1/messages', { messages: MESSAGES }, /^event: error$/m],
  ];
  for (const [path, body, failure] of failures) {
    const request = { model: 'm', n_predict: 50, max_tokens: 50, ignore_eos: true, stream: true, ...body };
    const text = await (await send(host, path, request, { 'x-headrace-fault': 'oom-after=6' })).text();
    t.match(text, failure, path);
    t.notMatch(text, /\[DONE\]|message_stop|response\.completed/);
    t.ok(dataOf(text).length > 3);
  }
});

t.test('calls in a conversation are read by their name, or refused by their place', async (t) => {
  const host = await startHost(t);
  const calling = (call: unknown): object => ({
    messages: [...MESSAGES, { role: 'assistant', content: null, tool_calls: [call] }],
  });
  const { prompt } = await ask(
    host,
    '/apply-template',
    calling({ type: 'custom', custom: { name: 'run', input: 'ls' } }),
  );
  t.match(prompt, '<|im_start|>assistant\n{"name":"run","arguments":"ls"}<|im_end|>');
  t.match((await ask(host, '/apply-template', calling({ function: null }))).prompt, '{"name":"","arguments":{}}');
  const refused = await send(host, '/v1/chat/completions', { model: 'm', ...calling(null) });
  t.equal(refused.status, 400);
  t.match(await refused.json(), { detail: 'messages[1].tool_calls[0] must be an object' });
  for (const role of ['constructor', 'nobody', 5, null]) {
    const wrong = await send(host, '/v1/chat/completions', { model: 'm', messages: [{ role, content: 'x' }] });
    t.equal(wrong.status, 400, String(role));
    t.match(await wrong.json(), { detail: /^messages\[0\]\.role must be one of system, developer, user, / });
  }
});

t.test('calls and results of all kinds are read in the items of responses', async (t) => {
  const host = await startHost(t);
  const items = [
    { type: 'custom_tool_call', call_id: 'c', name: 'run', input: 'ls' },
    { type: 'custom_tool_call_output', call_id: 'c', output: 'a.txt' },
    { type: 'local_shell_call', id: 'l', call_id: 'd', action: { type: 'exec', command: ['ls'] } },
    { type: 'local_shell_call_output', id: 'd', output: 'a.txt' },
    { type: 'web_search_call', id: 'w', status: 'completed', action: { type: 'search', query: 'mill' } },
  ];
  const answer = await send(host, '/v1/responses', {
    model: 'm',
    input: [...MESSAGES, ...items],
    max_output_tokens: 2,
  });
  t.equal(answer.status, 200, await answer.text());
});

t.test('a tool that is chosen by any form of tool_choice is called, and no other one', async (t) => {
  const host = await startHost(t);
  const names = ['a', 'b', 'c', 'd'];
  const chat = names.map((name) => ({ type: 'function', function: { name } }));
  const responses = names.map((name) => ({ type: 'function', name }));
  const allowed = { mode: 'required', tools: [{ type: 'function', function: { name: 'c' } }] };
  const called = async (path: string, body: object): Promise<string> =>
    JSON.stringify(await ask(host, path, { model: 'm', ...body }));
  const choice = { type: 'allowed_tools', allowed_tools: allowed };
  const answer = await called('/v1/chat/completions', { messages: MESSAGES, tools: chat, tool_choice: choice });
  t.match(answer, '"function":{"name":"c"');
  for (const tool_choice of [
    { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'c' }] },
    { type: 'custom', name: 'c' },
  ]) {
    t.match(await called('/v1/responses', { input: MESSAGES, tools: responses, tool_choice }), /"name":"c","arg/);
  }
});

t.test('a response repeats what its request says of it', async (t) => {
  const host = await startHost(t);
  const said = { metadata: { ticket: '7' }, parallel_tool_calls: false, reasoning: { effort: 'low' } };
  const answer = await ask(host, '/v1/responses', { model: 'm', input: 'hi', max_output_tokens: 2, ...said });
  t.match(answer, said);
});
