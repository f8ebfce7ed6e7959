import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { type Host, type HostSettings, createHost, parseScript } from '../../src/host/index.ts';

const SCRIPT = parseScript({
  values: { file: '(\\S+\\.mjs)' },
  steps: [
    {
      reasoning: 'The file must be read first. Mühle.',
      text: 'I read {{file}}.',
      calls: [{ name: 'read', arguments: { path: '/src/{{file}}', lines: [1, 2], '{{file}}': true } }],
    },
    {
      calls: [
        { name: 'edit', arguments: { path: '{{file}}', from: 'a "-" b', to: 'a + b' } },
        { name: 'run', arguments: { command: 'node {{file}}' } },
      ],
    },
    { when: { turns: 2, results: 3, result: 'passed' }, text: 'It adds now.' },
    { when: { turns: 2 }, reasoning: 'It failed.', text: 'It does not add.' },
  ],
  otherwise: 'A short title',
});

const PROMPT = 'Correct sum.mjs.';
const TOOLS = ['read', 'edit', 'run', 'other'];
const SCHEMA = { type: 'object' as const, properties: { path: { type: 'string' } } };

async function started(
  t: { teardown(run: () => unknown): unknown },
  settings: Partial<HostSettings> = {},
): Promise<Host> {
  const engine = { speed: 'virtual', profile: '8b-h100' } as const;
  const host = createHost({ models: ['m'], engine, script: SCRIPT, name: 'h', ...settings });
  await host.listen();
  t.teardown(() => host.kill());
  return host;
}

/** What an answer says, in one form for all dialects. */
interface Said {
  readonly reasoning: string;
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: unknown }[];
  readonly finish: string;
  /** Prompt, cached, generated and reasoning tokens; -1: the dialect does not say. */
  readonly tokens: readonly number[];
}

/** A conversation in one dialect: `ask` adds the answer to it, `result` the results of the last calls. */
interface Conversation {
  ask(stream: boolean): Promise<Said>;
  results(outputs: readonly string[]): void;
}

function chatConversation(host: Host, tools: readonly string[]): Conversation {
  const client = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0 });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: PROMPT }];
  let ids: string[] = [];
  return {
    async ask(stream) {
      const request = {
        model: 'm',
        messages,
        tools: tools.map((name) => ({ type: 'function' as const, function: { name, parameters: SCHEMA } })),
      };
      let reasoning = '';
      let completion: OpenAI.ChatCompletion;
      if (stream) {
        const runner = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
        runner.on('chunk', ({ choices: [choice] }) => {
          reasoning += (choice?.delta as { reasoning_content?: string } | undefined)?.reasoning_content ?? '';
        });
        completion = await runner.finalChatCompletion();
      } else {
        completion = await client.chat.completions.create(request);
      }
      const { finish_reason: finish, message } = completion.choices[0]!;
      const { prompt_tokens, completion_tokens, ...details } = completion.usage!;
      const calls = (message.tool_calls ?? []) as OpenAI.ChatCompletionMessageFunctionToolCall[];
      messages.push({ role: 'assistant', content: message.content, ...(calls.length > 0 && { tool_calls: calls }) });
      ids = calls.map(({ id }) => id);
      return {
        reasoning: stream ? reasoning : ((message as { reasoning_content?: string }).reasoning_content ?? ''),
        text: message.content ?? '',
        calls: calls.map(({ id, function: { name, arguments: text } }) => ({ id, name, arguments: JSON.parse(text) })),
        finish,
        tokens: [
          prompt_tokens,
          details.prompt_tokens_details!.cached_tokens!,
          completion_tokens,
          details.completion_tokens_details!.reasoning_tokens!,
        ],
      };
    },
    results(outputs) {
      outputs.forEach((content, at) => messages.push({ role: 'tool', tool_call_id: ids[at]!, content }));
    },
  };
}

function messagesConversation(host: Host, tools: readonly string[]): Conversation {
  const client = new Anthropic({ baseURL: host.url, apiKey: 'k', maxRetries: 0 });
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: PROMPT }];
  let calls: Anthropic.ToolUseBlock[] = [];
  return {
    async ask(stream) {
      const request = {
        model: 'm',
        max_tokens: 1000,
        messages,
        tools: tools.map((name) => ({ name, input_schema: SCHEMA })),
      };
      const { content, usage, stop_reason } = stream
        ? await client.messages.stream(request).finalMessage()
        : await client.messages.create(request);
      calls = content.filter((block) => block.type === 'tool_use');
      messages.push({ role: 'assistant', content });
      const cached = usage.cache_read_input_tokens!;
      return {
        reasoning: content.map((block) => (block.type === 'thinking' ? block.thinking : '')).join(''),
        text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
        calls: calls.map(({ id, name, input }) => ({ id, name, arguments: input })),
        finish: stop_reason!,
        tokens: [usage.input_tokens + cached, cached, usage.output_tokens, -1],
      };
    },
    results(outputs) {
      messages.push({
        role: 'user',
        content: outputs.map((output, at) => ({ type: 'tool_result', tool_use_id: calls[at]!.id, content: output })),
      });
    },
  };
}

function responsesConversation(host: Host, tools: readonly string[]): Conversation {
  const client = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0 });
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: PROMPT }];
  let ids: string[] = [];
  return {
    async ask(stream) {
      const request = {
        model: 'm',
        input,
        tools: tools.map((name) => ({ type: 'function' as const, name, parameters: SCHEMA, strict: false })),
      };
      const response: OpenAI.Responses.Response = stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      const { output, output_text, status, usage } = response;
      const calls = output.filter(
        (item): item is OpenAI.Responses.ResponseFunctionToolCall => item.type === 'function_call',
      );
      const reasoning = output.find(
        (item): item is OpenAI.Responses.ResponseReasoningItem => item.type === 'reasoning',
      );
      input.push(...(output as OpenAI.Responses.ResponseInputItem[]));
      ids = calls.map((call) => call.call_id);
      return {
        reasoning: reasoning?.content?.map(({ text }) => text).join('') ?? '',
        text: output_text,
        calls: calls.map((call) => ({ id: call.call_id, name: call.name, arguments: JSON.parse(call.arguments) })),
        finish: status!,
        tokens: [
          usage!.input_tokens,
          usage!.input_tokens_details.cached_tokens,
          usage!.output_tokens,
          usage!.output_tokens_details.reasoning_tokens,
        ],
      };
    },
    results(outputs) {
      outputs.forEach((output, at) => input.push({ type: 'function_call_output', call_id: ids[at]!, output }));
    },
  };
}

const DIALECTS = {
  chat: [chatConversation, 'tool_calls', 'stop'],
  messages: [messagesConversation, 'tool_use', 'end_turn'],
  responses: [responsesConversation, 'completed', 'completed'],
} as const;

for (const [dialect, [conversation, calling, ended]] of Object.entries(DIALECTS)) {
  for (const stream of [false, true]) {
    t.test(`${dialect}, ${stream ? 'streamed' : 'whole'}: a session follows its script`, async (t) => {
      const host = await started(t);
      const session = conversation(host, TOOLS);
      const first = await session.ask(stream);
      t.match(first, {
        reasoning: 'The file must be read first. Mühle.',
        text: 'I read sum.mjs.',
        calls: [{ id: String, name: 'read' }],
        finish: calling,
      });
      t.strictSame(first.calls[0]!.arguments, { path: '/src/sum.mjs', lines: [1, 2], '{{file}}': true });
      session.results(['export const add = (a, b) => a - b; // see other.mjs']);
      const second = await session.ask(stream);
      t.match(second, { reasoning: '', text: '', finish: calling });
      t.same(
        second.calls.map(({ name, arguments: given }) => [name, given]),
        [
          ['edit', { path: 'other.mjs', from: 'a "-" b', to: 'a + b' }],
          ['run', { command: 'node other.mjs' }],
        ],
      );
      t.equal(new Set([...first.calls, ...second.calls].map(({ id }) => id)).size, 3, 'ids of calls differ');
      session.results(['edited', 'all passed']);
      const third = await session.ask(stream);
      t.match(third, { text: 'It adds now.', calls: [], finish: ended });
      const [prompt, cached, generated] = third.tokens as [number, number, number];
      t.ok(cached > second.tokens[0]! - 16, 'the prompt of the turn before was cached');
      t.ok(prompt > cached && generated > 0);
      const reasoned = first.tokens[3]!;
      if (reasoned >= 0) t.ok(reasoned > 0 && reasoned < first.tokens[2]!);
    });
  }

  t.test(`${dialect}: another result chooses another step`, async (t) => {
    const session = conversation(await started(t), TOOLS);
    await session.ask(true);
    session.results(['one']);
    await session.ask(false);
    session.results(['two', 'failed']);
    t.match(await session.ask(true), { reasoning: 'It failed.', text: 'It does not add.', finish: ended });
  });

  t.test(`${dialect}: a request without the tools, or beyond the last step, gets a short text`, async (t) => {
    const host = await started(t);
    t.match(await conversation(host, ['read', 'edit']).ask(true), { text: 'A short title', calls: [] });
    t.match(await conversation(host, []).ask(false), { text: 'A short title', calls: [] });
    const session = conversation(host, TOOLS);
    for (const results of [['one'], ['two', 'passed'], []]) {
      await session.ask(false);
      session.results(results);
    }
    t.match(await session.ask(true), { text: 'A short title', calls: [], finish: ended });
  });

  t.test(`${dialect}: the same conversation gets the same answer again`, async (t) => {
    const host = await started(t);
    const [one, two] = await Promise.all([conversation(host, TOOLS).ask(true), conversation(host, TOOLS).ask(true)]);
    t.same({ ...one, calls: [], tokens: [] }, { ...two, calls: [], tokens: [] });
  });
}

const post = (host: Host, path: string, body: object): Promise<Response> =>
  fetch(host.url + path, { method: 'POST', body: JSON.stringify({ model: 'm', ...body }) });

const tools = TOOLS.map((name) => ({ type: 'function', function: { name, parameters: SCHEMA } }));

t.test('a limit cuts a scripted answer', async (t) => {
  const host = await started(t);
  const messages = [{ role: 'user', content: PROMPT }];
  const answer = (await (await post(host, '/v1/chat/completions', { messages, tools, max_tokens: 3 })).json()) as {
    choices: unknown[];
  };
  t.match(answer.choices[0], { finish_reason: 'length', message: { content: '', reasoning_content: /^The/ } });
  t.match(answer, { usage: { completion_tokens: 3, completion_tokens_details: { reasoning_tokens: Number } } });
});

t.test('an answer that continues a message has the rest of its text', async (t) => {
  const host = await started(t);
  const messages = [
    { role: 'user', content: PROMPT },
    { role: 'assistant', content: 'I read' },
  ];
  const body = { messages, tools, continue_final_message: true, add_generation_prompt: false };
  t.match(await (await post(host, '/v1/chat/completions', body)).json(), {
    choices: [
      { finish_reason: 'tool_calls', message: { content: ' sum.mjs.', tool_calls: [{ function: { name: 'read' } }] } },
    ],
  });
});

t.test('a side request with a schema gets JSON, and a completion what the model says', async (t) => {
  const host = await started(t);
  const response_format = { type: 'json_schema', json_schema: { name: 'a', schema: { enum: [{ a: 1 }] } } };
  const messages = [{ role: 'user', content: 'Find a title.' }];
  const json = (await (await post(host, '/v1/chat/completions', { messages, response_format })).json()) as {
    choices: { message: { content: string } }[];
  };
  t.same(JSON.parse(json.choices[0]!.message.content), { a: 1 });
  const completion = await (
    await post(host, '/v1/completions', { prompt: 'The miller', max_tokens: 8, seed: 1 })
  ).json();
  t.match(completion, { usage: { completion_tokens: 8 } });
});

t.test('text beside the results of tools is a turn of the user', async (t) => {
  const host = await started(t, {
    script: parseScript({ steps: [{ when: { results: 1, user: '^reminder$', result: '^out$' }, text: 'Both.' }] }),
  });
  const messages = [
    { role: 'user', content: 'one' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'x', input: {} }] },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'c', content: 'out' },
        { type: 'text', text: 'reminder' },
      ],
    },
  ];
  const answer = await (await post(host, '/v1/messages', { max_tokens: 9, messages })).json();
  t.match(answer, { content: [{ type: 'text', text: 'Both.' }] });
});

t.test('tools are a part of the prompt, alike in every dialect', async (t) => {
  const host = await started(t);
  const used = await Promise.all(
    Object.values(DIALECTS).flatMap(([conversation]) =>
      [TOOLS, []].map(async (names) => (await conversation(host, names).ask(false)).tokens[0]!),
    ),
  );
  const [withTools, without] = used as [number, number];
  t.ok(withTools > without + 4 * 10);
  t.same(used, [withTools, without, withTools, without, withTools, without]);
});

t.test('every mistake of a script is named by its path', (t) => {
  const mistakes: [unknown, RegExp][] = [
    [null, /^script: /],
    [{}, /^steps: Field required$/],
    [{ steps: [] }, /^steps: List should have at least 1 item/],
    [{ steps: [{ txt: 'a' }], also: 1 }, /^also: unknown member; steps\.0\.txt: unknown member$/],
    [{ steps: [{ calls: [{ arguments: {} }] }] }, /^steps\.0\.calls\.0\.name: Field required$/],
    [{ steps: [{ when: { user: '(' } }], values: { a: '[' } }, /values\.a: .*; steps\.0\.when\.user: /],
  ];
  for (const [value, message] of mistakes) t.throws(() => parseScript(value), message, JSON.stringify(value));
  t.end();
});

t.test('a script needs the simulated engine with its steps', (t) => {
  t.throws(() => createHost({ models: ['m'], script: SCRIPT }), /needs the simulated engine/);
  t.end();
});

t.test('a host that speaks some dialects does not know the paths of others', async (t) => {
  const host = await started(t, { dialects: ['chat', 'responses'] });
  const body = { messages: [{ role: 'user', content: 'a' }], input: 'a', prompt: 'a', content: 'a' };
  for (const path of ['/v1/chat/completions', '/v1/responses'])
    t.equal((await post(host, path, body)).status, 200, path);
  for (const path of ['/v1/messages', '/v1/messages/count_tokens', '/v1/completions', '/completion', '/tokenize']) {
    const answer = await post(host, path, body);
    t.same([answer.status, await answer.json()], [404, { detail: 'Not Found' }], path);
  }
  const props = await fetch(`${host.url}/props`);
  t.same([props.status, await props.json()], [404, { detail: 'Not Found' }]);
  t.equal((await fetch(`${host.url}/v1/models`)).status, 200);
});
