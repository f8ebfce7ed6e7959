// What each row of the tables does to a request of the messages dialect, and how turns become messages.
import t from 'tap';
import { MESSAGES_TABLES, MessagesRequest } from '../../../src/dialect/translation/messages-request.ts';
import { HeadraceError } from '../../../src/errors.ts';

type Json = Record<string, unknown>;

const USER = { role: 'user', content: 'hi' };
const CALL = { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a "b"\n' } };
const CHAT_CALL = {
  id: 'toolu_1',
  type: 'function',
  function: { name: 'read', arguments: JSON.stringify(CALL.input) },
};
const TOOL = { name: 'read', description: 'Reads "it".', input_schema: { type: 'object', properties: { path: {} } } };
const CHAT_TOOL = {
  type: 'function',
  function: { name: 'read', description: 'Reads "it".', parameters: TOOL.input_schema },
};
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
const CHAT_IMAGE = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };

const text = (value: string): Json => ({ type: 'text', text: value });
const turn = (...content: unknown[]): Json => ({ messages: [{ role: 'user', content }] });
const user = (content: unknown): Json => ({ messages: [{ role: 'user', content }] });
const assistantTurn = (...content: unknown[]): Json => ({ messages: [{ role: 'assistant', content }] });
const assistant = (content: unknown, members: Json = {}): Json => ({
  messages: [{ role: 'assistant', content, ...members }],
});
const document = (source: Json, members: Json = {}): Json => ({ type: 'document', source, ...members });
const textDocument = (members: Json): Json => document({ type: 'text', media_type: 'text/plain', data: 'a' }, members);
const result = (members: Json): Json => ({ type: 'tool_result', tool_use_id: 'toolu_1', ...members });
const toolMessage = (content: unknown): Json => ({
  messages: [{ role: 'tool', tool_call_id: 'toolu_1', content }],
});

/** A request, and the chat request that it becomes; a text is how the error begins that refuses it. */
type Example = readonly [Json, Json | string];

/** A request with one member more than a conversation, and what the member becomes. */
const option = (member: Json, becomes: Json = {}): Example => [
  { messages: [USER], ...member },
  { messages: [USER], ...becomes },
];
const isRefused = (name: string, value: unknown): Example => [{ messages: [USER], [name]: value }, `${name}: `];
const part = (value: Json, becomes: Json): Example => [turn(text('x'), value), user([text('x'), becomes])];
const isDropped = (value: Json): Example => [turn(text('x'), value), user('x')];
const hosted = (type: string): Example => [assistantTurn(text('x'), { type }), `messages.0.content.1.type: ${type}: `];
const vendorTool = (type: string): Example => [{ tools: [TOOL, { type, name: 'x' }] }, `tools.1.type: ${type}: `];
const ofTool = (members: Json, becomes: Json): Example =>
  option(
    { tools: [{ name: 'f', ...members }] },
    { tools: [{ type: 'function', function: { name: 'f', ...becomes } }] },
  );
const choice = (value: unknown, becomes: Json): Example =>
  option({ tools: [TOOL], tool_choice: value }, { tools: [CHAT_TOOL], ...becomes });
const SCHEMA = { type: 'object', properties: { a: { type: 'string' } } };
const FORMAT = { type: 'json_schema', schema: SCHEMA };
const RESPONSE_FORMAT = { type: 'json_schema', json_schema: { name: 'output', schema: SCHEMA, strict: true } };

const EXAMPLES: Readonly<Record<string, Readonly<Record<string, Example>>>> = {
  '': {
    model: option({ model: 'größe' }, { model: 'größe' }),
    system: [
      { system: [text('a'), text('b')], messages: [USER] },
      { messages: [{ role: 'system', content: [text('a'), text('b')] }, USER] },
    ],
    messages: [
      { messages: [USER, { role: 'assistant', content: 'The answer is' }] },
      { messages: [USER, { role: 'assistant', content: 'The answer is' }] },
    ],
    tools: option({ tools: [] }),
    tool_choice: option({ tool_choice: { type: 'auto' } }),
    max_tokens: option({ max_tokens: 1024 }, { max_tokens: 1024 }),
    temperature: option({ temperature: 0.5 }, { temperature: 0.5 }),
    top_p: option({ top_p: 0.9 }, { top_p: 0.9 }),
    top_k: option({ top_k: 40 }, { top_k: 40 }),
    stop_sequences: option({ stop_sequences: ['\n\nHuman:', '"'] }, { stop: ['\n\nHuman:', '"'] }),
    stream: option({ stream: true }, { stream: true, stream_options: { include_usage: true } }),
    stream_options: option(
      { stream: true, stream_options: { include_usage: false, continuous_usage_stats: true } },
      { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
    ),
    thinking: option({ thinking: { type: 'disabled' } }, { chat_template_kwargs: { enable_thinking: false } }),
    chat_template_kwargs: option(
      { thinking: { type: 'disabled' }, chat_template_kwargs: { enable_thinking: true, a: 1 } },
      { chat_template_kwargs: { enable_thinking: true, a: 1 } },
    ),
    output_config: option({ output_config: { effort: 'max' } }, { reasoning_effort: 'max' }),
    output_format: option({ output_format: FORMAT }, { response_format: RESPONSE_FORMAT }),
    metadata: option({ metadata: { user_id: 'u' } }, { user: 'u' }),
    service_tier: option({ service_tier: 'standard_only' }, { service_tier: 'default' }),
    stop: option({ stop: 'a', stop_sequences: ['b'] }, { stop: 'a' }),
    user: option({ user: 'u', metadata: { user_id: 'v' } }, { user: 'u' }),
    parallel_tool_calls: option({ parallel_tool_calls: true }, { parallel_tool_calls: true }),
    reasoning_effort: option(
      { reasoning_effort: 'low', output_config: { effort: 'max' } },
      { reasoning_effort: 'low' },
    ),
    response_format: option(
      { response_format: RESPONSE_FORMAT, output_format: {} },
      { response_format: RESPONSE_FORMAT },
    ),
    cache_control: option({ cache_control: { type: 'ephemeral' } }),
    n: option({ n: 2 }),
    n_cmpl: option({ n_cmpl: 2 }),
    betas: option({ betas: ['a-2026'] }),
    anthropic_beta: option({ anthropic_beta: ['a-2026'] }),
    anthropic_version: option({ anthropic_version: 'x-2023' }),
    context_management: option({ context_management: { edits: [{ type: 'clear_thinking_20251015' }] } }),
    diagnostics: option({ diagnostics: { previous_message_id: 'msg_1' } }),
    fallbacks: option({ fallbacks: 'default' }),
    fallback_credit_token: option({ fallback_credit_token: 't' }),
    billing_policy: option({ billing_policy: { type: 'billing_policy' } }),
    user_profile_id: option({ user_profile_id: 'p' }),
    workspace_id: option({ workspace_id: 'w' }),
    inference_geo: option({ inference_geo: 'us' }),
    speed: option({ speed: 'fast' }),
    container: isRefused('container', 'container_1'),
    mcp_servers: isRefused('mcp_servers', [{ type: 'url', url: 'https://a.example' }]),
    thread: isRefused('thread', { type: 'create' }),
    compaction: isRefused('compaction', { type: 'summarize' }),
  },
  'messages[]': {
    role: [
      { messages: [USER, { role: 'system', content: 'a' }] },
      { messages: [USER, { role: 'system', content: 'a' }] },
    ],
    content: [turn(text('a "b"\n')), user('a "b"\n')],
    cache_control: [{ messages: [{ ...USER, cache_control: { type: 'ephemeral' } }] }, { messages: [USER] }],
  },
  'content[]': {
    text: part(text('y'), text('y')),
    image: part(IMAGE, CHAT_IMAGE),
    document: part(textDocument({}), text('a')),
    search_result: [
      turn({ type: 'search_result', source: 'https://a.example', title: 'A', content: [text('b')] }),
      user([text('A\nhttps://a.example'), text('b')]),
    ],
    tool_use: [assistantTurn(text('x'), CALL), assistant('x', { tool_calls: [CHAT_CALL] })],
    tool_result: [
      turn(result({ content: 'out' }), text('x')),
      { messages: [...(toolMessage('out')['messages'] as Json[]), { role: 'user', content: 'x' }] },
    ],
    thinking: [
      assistantTurn({ type: 'thinking', thinking: 'a' }, { type: 'thinking', thinking: 'b' }, text('x')),
      assistant('x', { reasoning_content: 'a\n\nb' }),
    ],
    redacted_thinking: isDropped({ type: 'redacted_thinking', data: 'abc' }),
    fallback: isDropped({ type: 'fallback', from: {}, to: {} }),
    container_upload: hosted('container_upload'),
    tool_reference: hosted('tool_reference'),
    tool_addition: hosted('tool_addition'),
    tool_removal: hosted('tool_removal'),
    compaction: hosted('compaction'),
    browser_state: hosted('browser_state'),
    server_tool_use: hosted('server_tool_use'),
    'mcp_*': hosted('mcp_tool_use'),
    web_search_tool_result: hosted('web_search_tool_result'),
    web_fetch_tool_result: hosted('web_fetch_tool_result'),
    code_execution_tool_result: hosted('code_execution_tool_result'),
    bash_code_execution_tool_result: hosted('bash_code_execution_tool_result'),
    text_editor_code_execution_tool_result: hosted('text_editor_code_execution_tool_result'),
    tool_search_tool_result: hosted('tool_search_tool_result'),
    advisor_tool_result: hosted('advisor_tool_result'),
  },
  'content[] (text)': {
    type: [turn({ text: 'a', type: 'text' }), user('a')],
    text: [turn(text('größe')), user('größe')],
    cache_control: [turn({ ...text('a'), cache_control: { type: 'ephemeral' } }), user('a')],
    citations: [turn({ ...text('a'), citations: [{ type: 'page_location' }] }), user('a')],
  },
  'content[] (image)': {
    type: [turn(IMAGE), user([CHAT_IMAGE])],
    source: [turn({ ...IMAGE, source: null }), user([{ type: 'image_url' }])],
    cache_control: [turn({ ...IMAGE, cache_control: { type: 'ephemeral' } }), user([CHAT_IMAGE])],
    transformations: [turn({ ...IMAGE, transformations: { oversized_image: 'error' } }), user([CHAT_IMAGE])],
  },
  'content[] (image).source': {
    base64: [turn(IMAGE), user([CHAT_IMAGE])],
    url: [
      turn({ type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } }),
      user([{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }]),
    ],
    file: [
      turn({ type: 'image', source: { type: 'file', file_id: 'file_1' } }),
      'messages.0.content.0.source.type: file: ',
    ],
  },
  'content[] (document)': {
    type: [turn(textDocument({})), user([text('a')])],
    source: [turn({ type: 'document' }), 'messages.0.content.0: '],
    title: [turn(textDocument({ title: 'T "1"' })), user([text('T "1"\na')])],
    context: [turn(textDocument({ title: 'T', context: 'C' })), user([text('T\nC\na')])],
    citations: [turn(textDocument({ citations: { enabled: true } })), 'messages.0.content.0.citations: '],
    cache_control: [turn(textDocument({ cache_control: { type: 'ephemeral' } })), user([text('a')])],
  },
  'content[] (document).source': {
    text: [turn(document({ type: 'text', data: 'a "b"\n' })), user([text('a "b"\n')])],
    content: [
      turn(document({ type: 'content', content: [text('a'), IMAGE] }, { title: 'T' })),
      user([text('T\n'), text('a'), CHAT_IMAGE]),
    ],
    base64: [
      turn(document({ type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' })),
      'messages.0.content.0.source.type: base64: ',
    ],
    url: [turn(document({ type: 'url', url: 'https://a.example/b.pdf' })), 'messages.0.content.0.source.type: url: '],
    file: [turn(document({ type: 'file', file_id: 'file_1' })), 'messages.0.content.0.source.type: file: '],
  },
  'content[] (search_result)': {
    type: [turn({ type: 'search_result', content: [] }), user([text('\n')])],
    content: [
      turn({ type: 'search_result', content: [text('a'), text('b')] }),
      user([text('\n'), text('a'), text('b')]),
    ],
    title: [turn({ type: 'search_result', title: 'T' }), user([text('T\n')])],
    source: [turn({ type: 'search_result', source: 'S' }), user([text('\nS')])],
    citations: [
      turn({ type: 'search_result', citations: { enabled: true } }),
      'messages.0.content.0.citations: Chat servers do not cite.',
    ],
    cache_control: [turn({ type: 'search_result', cache_control: { type: 'ephemeral' } }), user([text('\n')])],
  },
  'content[] (tool_use)': {
    id: [assistantTurn({ ...CALL, id: 'x "1"' }), assistant(null, { tool_calls: [{ ...CHAT_CALL, id: 'x "1"' }] })],
    type: [assistantTurn(CALL), assistant(null, { tool_calls: [CHAT_CALL] })],
    name: [
      assistantTurn({ ...CALL, name: 'größe' }),
      assistant(null, { tool_calls: [{ ...CHAT_CALL, function: { ...CHAT_CALL.function, name: 'größe' } }] }),
    ],
    input: [
      assistantTurn({ type: 'tool_use', id: 'toolu_1', name: 'read' }),
      assistant(null, { tool_calls: [{ ...CHAT_CALL, function: { name: 'read', arguments: '{}' } }] }),
    ],
    cache_control: [
      assistantTurn({ ...CALL, cache_control: { type: 'ephemeral' } }),
      assistant(null, { tool_calls: [CHAT_CALL] }),
    ],
    caller: [assistantTurn({ ...CALL, caller: { type: 'direct' } }), assistant(null, { tool_calls: [CHAT_CALL] })],
    toolset_name: [assistantTurn({ ...CALL, toolset_name: 'x' }), assistant(null, { tool_calls: [CHAT_CALL] })],
  },
  'content[] (tool_result)': {
    type: [turn(result({ content: 'a' })), toolMessage('a')],
    tool_use_id: [
      turn({ type: 'tool_result', tool_use_id: 'ü "1"', content: 'a' }),
      { messages: [{ role: 'tool', tool_call_id: 'ü "1"', content: 'a' }] },
    ],
    content: [
      turn(result({ content: [text('a'), IMAGE, text('b')] })),
      {
        messages: [
          ...(toolMessage([text('a'), text('b')])['messages'] as Json[]),
          { role: 'user', content: [CHAT_IMAGE] },
        ],
      },
    ],
    is_error: [turn(result({ content: 'no "file"', is_error: true })), toolMessage('error: no "file"')],
    cache_control: [turn(result({ content: 'a', cache_control: { type: 'ephemeral' } })), toolMessage('a')],
    toolset_name: [turn(result({ content: 'a', toolset_name: 'x' })), toolMessage('a')],
  },
  'content[] (thinking)': {
    type: [assistantTurn({ thinking: 'a', type: 'thinking' }), assistant('', { reasoning_content: 'a' })],
    thinking: [
      assistantTurn({ type: 'thinking', thinking: 'a "b"\n' }, CALL),
      assistant(null, { reasoning_content: 'a "b"\n', tool_calls: [CHAT_CALL] }),
    ],
    signature: [
      assistantTurn({ type: 'thinking', thinking: 'a', signature: 'EqQB' }),
      assistant('', { reasoning_content: 'a' }),
    ],
  },
  'tools[]': {
    custom: option({ tools: [{ type: 'custom', ...TOOL }] }, { tools: [CHAT_TOOL] }),
    function: option({ tools: [CHAT_TOOL] }, { tools: [CHAT_TOOL] }),
    'web_search_*': vendorTool('web_search_20260318'),
    'web_fetch_*': vendorTool('web_fetch_20250910'),
    'code_execution_*': vendorTool('code_execution_20260521'),
    'bash_*': vendorTool('bash_20250124'),
    'text_editor_*': vendorTool('text_editor_20250728'),
    'computer_*': vendorTool('computer_20251124'),
    'browser_*': vendorTool('browser_toolset_20260801'),
    'memory_*': vendorTool('memory_20250818'),
    'tool_search_*': vendorTool('tool_search_tool_regex_20251119'),
    'advisor_*': vendorTool('advisor_20260301'),
    mcp_toolset: vendorTool('mcp_toolset'),
  },
  'tools[] (custom)': {
    type: ofTool({ type: null }, {}),
    name: ofTool({}, {}),
    description: ofTool({ description: 'd "x"' }, { description: 'd "x"' }),
    input_schema: ofTool({ input_schema: SCHEMA }, { parameters: SCHEMA }),
    strict: ofTool({ strict: true }, { strict: true }),
    cache_control: ofTool({ cache_control: { type: 'ephemeral' } }, {}),
    input_examples: ofTool({ input_examples: [{ a: 1 }] }, {}),
    defer_loading: ofTool({ defer_loading: true }, {}),
    allowed_callers: ofTool({ allowed_callers: ['direct'] }, {}),
    eager_input_streaming: ofTool({ eager_input_streaming: true }, {}),
  },
  tool_choice: {
    type: choice({ type: 'any' }, { tool_choice: 'required' }),
    name: choice({ type: 'tool', name: 'read' }, { tool_choice: { type: 'function', function: { name: 'read' } } }),
    disable_parallel_tool_use: choice(
      { type: 'auto', disable_parallel_tool_use: true },
      { tool_choice: 'auto', parallel_tool_calls: false },
    ),
  },
  thinking: {
    enabled: option(
      { thinking: { type: 'enabled', budget_tokens: 4096, display: 'omitted' } },
      { reasoning_effort: 'medium', chat_template_kwargs: { enable_thinking: true } },
    ),
    disabled: option(
      { thinking: { type: 'disabled' }, chat_template_kwargs: { a: 1 } },
      { chat_template_kwargs: { enable_thinking: false, a: 1 } },
    ),
    adaptive: option({ thinking: { type: 'adaptive' } }),
    between_tools: option({ thinking: { type: 'between_tools' } }),
  },
  output_config: {
    effort: option(
      { output_config: { effort: 'low' }, thinking: { type: 'enabled', budget_tokens: 20_000 } },
      { reasoning_effort: 'low', chat_template_kwargs: { enable_thinking: true } },
    ),
    format: option(
      { output_config: { format: FORMAT }, output_format: { type: 'json_schema', schema: {} } },
      { response_format: RESPONSE_FORMAT },
    ),
    task_budget: option({ output_config: { task_budget: { type: 'tokens', total: 10 } } }),
  },
  metadata: { user_id: option({ metadata: { user_id: 'ü "1"', session: 1 } }, { user: 'ü "1"' }) },
};

function chat(request: unknown): Json {
  return JSON.parse(new MessagesRequest(Buffer.from(JSON.stringify(request))).body.toString()) as Json;
}

function refusal(request: Json): string {
  try {
    chat(request);
  } catch (error) {
    if (error instanceof HeadraceError && error.code === 'HR_REQUEST_UNTRANSLATABLE') return error.subject;
    throw error;
  }
  return 'not refused';
}

for (const { fields, path } of MESSAGES_TABLES) {
  t.test(`treats each field of ${path === '' ? 'the body' : path} as its row says`, (t) => {
    const examples = EXAMPLES[path] ?? {};
    t.strictSame(
      Object.keys(examples).toSorted(),
      fields.map(({ name }) => name).toSorted(),
      'there is an example of each field',
    );
    for (const { action, name, note } of fields) {
      const [request, becomes] = examples[name] as Example;
      if (typeof becomes === 'string') {
        t.ok(refusal(request).startsWith(becomes), `${name}: ${refusal(request)}`);
        if (action === 'refused') t.ok(refusal(request).endsWith(note), 'the error has the sentence of the row');
      } else {
        t.not(action, 'refused', `${name} is refused`);
        t.strictSame(chat(request), becomes, name);
      }
    }
    t.end();
  });
}

t.test('reads thinking budgets as efforts', (t) => {
  const effort = (budget: number): unknown =>
    chat({ thinking: { type: 'enabled', budget_tokens: budget } })['reasoning_effort'];
  t.strictSame([1024, 4095, 4096, 16_383, 16_384, 100_000].map(effort), [
    ...['low', 'low', 'medium', 'medium', 'high', 'high'],
  ]);
  t.strictSame(chat({ thinking: { type: 'enabled' } }), { chat_template_kwargs: { enable_thinking: true } });
  t.strictSame(chat({ thinking: { type: 'new' } }), {}, 'other kinds are left to the model');
  t.end();
});

t.test('lets fields of chat completions count under their own names', (t) => {
  const own = {
    reasoning_effort: 'high',
    response_format: { type: 'json_object' },
    stop: ['a'],
    user: 'b',
    parallel_tool_calls: true,
    guided_json: SCHEMA,
    min_p: 0.1,
  };
  const request = {
    ...own,
    thinking: { type: 'enabled', budget_tokens: 1024 },
    output_config: { effort: 'low', format: FORMAT },
    stop_sequences: ['c'],
    metadata: { user_id: 'd' },
    tools: [TOOL],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  };
  t.strictSame(chat(request), {
    ...own,
    tools: [CHAT_TOOL],
    tool_choice: 'auto',
    chat_template_kwargs: { enable_thinking: true },
  });
  const nulls = { reasoning_effort: null, response_format: null, stop: null, user: null, parallel_tool_calls: null };
  t.strictSame(
    chat({ ...request, ...nulls }),
    {
      reasoning_effort: 'low',
      response_format: RESPONSE_FORMAT,
      stop: ['c'],
      user: 'd',
      parallel_tool_calls: false,
      guided_json: SCHEMA,
      min_p: 0.1,
      tools: [CHAT_TOOL],
      tool_choice: 'auto',
      chat_template_kwargs: { enable_thinking: true },
    },
    'null counts as absent',
  );
  t.strictSame(chat({ output_format: { ...FORMAT, name: null, strict: null } }), { response_format: RESPONSE_FORMAT });
  const stream = { stream: false, stream_options: { include_usage: false } };
  t.strictSame(chat(stream), stream);
  t.strictSame(chat({ thinking: { type: 'disabled' }, chat_template_kwargs: 'x' }), { chat_template_kwargs: 'x' });
  t.strictSame(chat({ output_format: { type: 'text' } }), { response_format: { type: 'text' } });
  t.end();
});

t.test('keeps what it does not know', (t) => {
  const unknown = { extra: [1.0, 'é', { a: null }] };
  t.strictSame(chat({ messages: [{ ...USER, ...unknown }], ...unknown }), {
    messages: [{ ...USER, ...unknown }],
    ...unknown,
  });
  t.strictSame(
    chat(turn({ ...text('a'), ...unknown }, { ...IMAGE, ...unknown })),
    user([
      { ...text('a'), ...unknown },
      { ...CHAT_IMAGE, ...unknown },
    ]),
  );
  t.strictSame(chat(turn({ ...text('a'), ...unknown })), user([{ ...text('a'), ...unknown }]), 'not as a string');
  const video = { type: 'video_url', video_url: { url: 'https://a.example/b.mp4' } };
  t.strictSame(chat(turn(video, 'text', null)), user([video, 'text', null]), 'parts of the chat dialect');
  t.strictSame(
    chat(assistantTurn({ ...CALL, ...unknown })),
    assistant(null, { tool_calls: [{ ...CHAT_CALL, ...unknown }] }),
  );
  t.strictSame(chat(turn(result({ content: 'a', ...unknown }))), {
    messages: [{ role: 'tool', tool_call_id: 'toolu_1', ...unknown, content: 'a' }],
  });
  t.strictSame(chat({ tools: [{ ...TOOL, ...unknown }] }), {
    tools: [{ type: 'function', function: { ...CHAT_TOOL.function, ...unknown } }],
  });
  t.strictSame(chat({ messages: [1, null, 'a'] }), { messages: [1, null, 'a'] });
  t.strictSame(chat({ messages: 'a' }), { messages: 'a' });
  t.strictSame(chat({ tools: [TOOL], tool_choice: 'auto' }), { tools: [CHAT_TOOL], tool_choice: 'auto' });
  t.end();
});

t.test('makes messages of the results of tools', (t) => {
  const two = turn(
    result({ content: [IMAGE] }),
    { type: 'tool_result', tool_use_id: 'toolu_2', is_error: true },
    text('and now?'),
    IMAGE,
  );
  t.strictSame(chat(two), {
    messages: [
      { role: 'tool', tool_call_id: 'toolu_1', content: '' },
      { role: 'tool', tool_call_id: 'toolu_2', content: 'error: ' },
      { role: 'user', content: [CHAT_IMAGE, text('and now?'), CHAT_IMAGE] },
    ],
  });
  for (const [content, becomes] of [
    [[text('a')], 'a'],
    [
      [text('a'), text('b')],
      [text('a'), text('b')],
    ],
    [[textDocument({})], [text('a')]],
    [[], ''],
    [null, ''],
    [7, 7],
  ] as const) {
    t.strictSame(chat(turn(result({ content }))), toolMessage(becomes), JSON.stringify(content));
  }
  const failed = (...content: Json[]): Json => chat(turn(result({ is_error: true, content })));
  t.strictSame(failed(text('a')), toolMessage('error: a'));
  t.strictSame(failed(text('a'), text('b')), toolMessage([text('error: '), text('a'), text('b')]));
  t.strictSame(failed(), toolMessage('error: '));
  t.equal(
    refusal(turn(result({ content: [{ type: 'tool_reference', tool_name: 'a' }] }))).slice(0, 31),
    'messages.0.content.0.content.0.',
  );
  t.end();
});

t.test('makes one message of a turn of the assistant', (t) => {
  t.strictSame(chat(assistantTurn()), assistant(''));
  t.strictSame(
    chat(assistantTurn(text('a'), CALL, text('b'))),
    assistant([text('a'), text('b')], { tool_calls: [CHAT_CALL] }),
  );
  t.strictSame(chat({ system: '', messages: [] }), { messages: [] }, 'an empty system text is none');
  t.strictSame(chat({ system: [{ ...text('a'), cache_control: {} }], messages: [] }), {
    messages: [{ role: 'system', content: 'a' }],
  });
  t.end();
});
