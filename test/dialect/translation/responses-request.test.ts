// What each row of the tables does to a request of the responses dialect, and how items become messages.
import t from 'tap';
import { HeadraceError } from '../../../src/errors.ts';
import { opaqueReasoning } from '../../../src/dialect/translation/opaque-reasoning.ts';
import { RESPONSES_TABLES, ResponsesRequest } from '../../../src/dialect/translation/responses-request.ts';

type Json = Record<string, unknown>;

function bodyOf(request: Json): Buffer {
  return Buffer.from(JSON.stringify({ model: 'm', ...request }));
}

function chat(request: Json): Json {
  const { model, ...rest } = JSON.parse(new ResponsesRequest(bodyOf(request)).body.toString()) as Json;
  t.equal(model, 'm', 'names the model');
  return rest;
}

function refusal(request: Json): string {
  try {
    new ResponsesRequest(bodyOf(request)).answer();
  } catch (error) {
    if (error instanceof HeadraceError && error.code === 'HR_REQUEST_UNTRANSLATABLE') return error.subject;
    throw error;
  }
  return 'not refused';
}

const USER = { role: 'user', content: 'hi' };
const CALL = { type: 'function_call', call_id: 'call_1', name: 'read', arguments: '{"path": "a"}' };
const CHAT_CALL = { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"path": "a"}' } };
const TOOL = { type: 'function', name: 'read', parameters: { type: 'object' } };
const CHAT_TOOL = { type: 'function', function: { name: 'read', parameters: { type: 'object' } } };
const PNG = 'data:image/png;base64,iVBORw0KGgo=';

const message = (role: string, ...content: unknown[]): Json => ({ type: 'message', role, content });
const turn = (...input: unknown[]): Json => ({ input });
const messages = (...list: unknown[]): Json => ({ messages: list });
const assistant = (content: string | null, ...calls: unknown[]): Json => ({
  role: 'assistant',
  content,
  ...(calls.length > 0 && { tool_calls: calls }),
});
const called = (name: string, input: unknown): Json => ({
  id: 'call_1',
  type: 'function',
  function: { name, arguments: JSON.stringify(input) },
});
const text = (value: string): Json => ({ type: 'text', text: value });
const image = (url: string, detail?: string): Json => ({
  type: 'image_url',
  image_url: { url, ...(detail !== undefined && { detail }) },
});
/** A request with one member more than a conversation, and what the member becomes. */
const option = (member: Json, becomes: Json = {}): Example => [
  { input: 'hi', ...member },
  { messages: [USER], ...becomes },
];
const withTools = (tools: unknown[], becomes: unknown[]): Example => option({ tools }, { tools: becomes });
const file = (members: Json): Json => turn(message('user', { type: 'input_file', ...members }));
const textFile = `data:text/plain;base64,${Buffer.from('größer "x"\n').toString('base64')}`;

/** A request, and the chat request that it becomes; a text is how the error begins that refuses it. */
type Example = readonly [Json, Json | string];

const hosted = (type: string): Example => [{ input: 'hi', tools: [TOOL, { type }] }, `tools.1.type: ${type}: `];
const hostedCall = (type: string): Example => [turn(USER, { type, id: 'x' }), `input.1.type: ${type}: `];

const ofFunction = (members: Json, becomes: Json): Example =>
  withTools([{ type: 'function', name: 'f', ...members }], [{ type: 'function', function: { name: 'f', ...becomes } }]);
const ofSchema = (members: Json, becomes: Json): Example =>
  option(
    { text: { format: { type: 'json_schema', name: 'a', schema: {}, ...members } } },
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: {}, ...becomes } } },
  );

const INPUT = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

const EXAMPLES: Readonly<Record<string, Readonly<Record<string, Example>>>> = {
  '': {
    model: option({}),
    instructions: option({ instructions: 'Be "brief".' }, messages({ role: 'system', content: 'Be "brief".' }, USER)),
    input: [{ input: 'größe\n' }, messages({ role: 'user', content: 'größe\n' })],
    messages: [{ input: 'hi', messages: [USER] }, 'messages: '],
    tools: withTools([TOOL], [CHAT_TOOL]),
    tool_choice: option({ tools: [TOOL], tool_choice: 'required' }, { tools: [CHAT_TOOL], tool_choice: 'required' }),
    parallel_tool_calls: option(
      { tools: [TOOL], parallel_tool_calls: false },
      { tools: [CHAT_TOOL], parallel_tool_calls: false },
    ),
    max_tool_calls: option({ max_tool_calls: 3 }),
    max_output_tokens: option({ max_output_tokens: 100 }, { max_completion_tokens: 100 }),
    reasoning: option({ reasoning: { effort: 'high' } }, { reasoning_effort: 'high' }),
    text: option({ text: { verbosity: 'low' } }, { verbosity: 'low' }),
    include: option({ include: ['reasoning.encrypted_content', 'message.output_text.logprobs'] }, { logprobs: true }),
    top_logprobs: option(
      { top_logprobs: 2, include: ['message.output_text.logprobs'] },
      { logprobs: true, top_logprobs: 2 },
    ),
    stream: option({ stream: true }, { stream: true, stream_options: { include_usage: true } }),
    stream_options: option(
      { stream: true, stream_options: { include_obfuscation: false } },
      { stream: true, stream_options: { include_usage: true } },
    ),
    max_completion_tokens: option({ max_completion_tokens: 5, max_output_tokens: 6 }, { max_completion_tokens: 5 }),
    reasoning_effort: option({ reasoning_effort: 'low', reasoning: { effort: 'high' } }, { reasoning_effort: 'low' }),
    response_format: option(
      { response_format: { type: 'json_object' }, text: { format: { type: 'json_schema' } } },
      { response_format: { type: 'json_object' } },
    ),
    verbosity: option({ verbosity: 'low', text: { verbosity: 'high' } }, { verbosity: 'low' }),
    logprobs: option({ logprobs: true, top_logprobs: 2 }, { logprobs: true, top_logprobs: 2 }),
    temperature: option({ temperature: 0.2 }, { temperature: 0.2 }),
    top_p: option({ top_p: 0.9 }, { top_p: 0.9 }),
    user: option({ user: 'u' }, { user: 'u' }),
    safety_identifier: option({ safety_identifier: 's' }, { safety_identifier: 's' }),
    prompt_cache_key: option({ prompt_cache_key: 'k' }, { prompt_cache_key: 'k' }),
    service_tier: option({ service_tier: 'flex' }, { service_tier: 'flex' }),
    previous_response_id: [{ input: 'hi', previous_response_id: 'resp_1' }, 'previous_response_id: '],
    conversation: [
      { input: 'hi', conversation: { id: 'conv_1' } },
      'conversation: The gateway keeps no conversations; continue a response with `previous_response_id`.',
    ],
    prompt: [{ input: 'hi', prompt: { id: 'pmpt_1' } }, 'prompt: '],
    store: option({ store: true }),
    background: option({ background: true }),
    background_options: option({ background_options: { completion_window: '2h', continuation_id: 'c' } }),
    metadata: option({ metadata: { a: 'b' } }),
    truncation: option({ truncation: 'auto' }),
    context_management: option({ context_management: [{ type: 'compaction', compact_threshold: 1000 }] }),
    prompt_cache_options: option({ prompt_cache_options: { ttl: '30m' } }),
    prompt_cache_retention: option({ prompt_cache_retention: '24h' }),
    image: option({ image: { context_compression: 'disabled' } }),
    moderation: option({ moderation: { model: 'x' } }),
    access_programs: option({ access_programs: { cyber: 'standard' } }),
    client_metadata: option({ client_metadata: { session_id: 's' } }),
    n: option({ n: 2 }),
    n_cmpl: option({ n_cmpl: 2 }),
  },
  'input[]': {
    message: [turn(message('user', { type: 'input_text', text: 'hi' })), messages(USER)],
    function_call: [turn(USER, CALL), messages(USER, assistant(null, CHAT_CALL))],
    function_call_output: [
      turn(CALL, { type: 'function_call_output', call_id: 'call_1', output: 'out "1"\n', status: 'completed' }),
      messages(assistant(null, CHAT_CALL), { role: 'tool', tool_call_id: 'call_1', content: 'out "1"\n' }),
    ],
    custom_tool_call: [
      turn({ type: 'custom_tool_call', id: 'ctc_1', call_id: 'call_1', name: 'apply_patch', input: '*** "a"\n\\+b' }),
      messages(assistant(null, called('apply_patch', { input: '*** "a"\n\\+b' }))),
    ],
    custom_tool_call_output: [
      turn({ type: 'custom_tool_call_output', call_id: 'call_1', output: 'Done.' }),
      messages({ role: 'tool', tool_call_id: 'call_1', content: 'Done.' }),
    ],
    local_shell_call: [
      turn({
        type: 'local_shell_call',
        id: 'lsh_1',
        call_id: 'call_1',
        action: { type: 'exec', command: ['echo', '"hi"'], env: { A: 'b' }, timeout_ms: 10 },
        status: 'completed',
      }),
      messages(assistant(null, called('local_shell', { command: ['echo', '"hi"'], env: { A: 'b' }, timeout_ms: 10 }))),
    ],
    local_shell_call_output: [
      turn({ type: 'local_shell_call_output', id: 'call_1', output: 'hi' }),
      messages({ role: 'tool', tool_call_id: 'call_1', content: 'hi' }),
    ],
    tool_search_call: [
      turn({ type: 'tool_search_call', call_id: 'call_1', execution: 'client', arguments: { query: 'a "b"' } }),
      messages(assistant(null, called('tool_search', { query: 'a "b"' }))),
    ],
    tool_search_output: [
      {
        ...turn({
          type: 'tool_search_output',
          call_id: 'call_1',
          execution: 'client',
          tools: [TOOL, { type: 'namespace', name: 'agents', tools: [{ ...TOOL, defer_loading: true }] }],
        }),
        tools: [TOOL],
      },
      {
        ...messages({ role: 'tool', tool_call_id: 'call_1', content: 'read\n\nagents__read' }),
        tools: [CHAT_TOOL, { type: 'function', function: { ...CHAT_TOOL.function, name: 'agents__read' } }],
      },
    ],
    additional_tools: [
      turn(USER, { type: 'additional_tools', role: 'developer', tools: [TOOL] }),
      { ...messages(USER), tools: [CHAT_TOOL] },
    ],
    reasoning: [
      turn({ type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] }, CALL),
      messages({ ...assistant(null, CHAT_CALL), reasoning_content: 'Hm.' }),
    ],
    item_reference: [turn(USER, { type: 'item_reference', id: 'rs_1' }), 'input.1.type: item_reference: '],
    compaction: hostedCall('compaction'),
    web_search_call: hostedCall('web_search_call'),
    file_search_call: hostedCall('file_search_call'),
    'computer_call*': hostedCall('computer_call_output'),
    code_interpreter_call: hostedCall('code_interpreter_call'),
    image_generation_call: hostedCall('image_generation_call'),
    'mcp_*': hostedCall('mcp_list_tools'),
    'shell_call*': hostedCall('shell_call_output'),
    'apply_patch_call*': hostedCall('apply_patch_call'),
  },
  'input[] message': {
    type: [turn(message('user', text('hi'))), messages({ role: 'user', content: 'hi' })],
    role: [turn({ role: 'developer', content: 'a' }), messages({ role: 'system', content: 'a' })],
    content: [turn(message('assistant', { type: 'output_text', text: 'a' })), messages(assistant('a'))],
    id: [turn({ ...USER, id: 'msg_1' }), messages(USER)],
    status: [turn({ ...USER, status: 'completed' }), messages(USER)],
    phase: [turn({ role: 'assistant', content: 'a', phase: 'commentary' }), messages(assistant('a'))],
  },
  'input[] reasoning': {
    content: [
      turn({ type: 'reasoning', summary: [], content: [{ text: 'a' }, { text: 'b' }] }),
      messages({ ...assistant(''), reasoning_content: 'a\n\nb' }),
    ],
    summary: [
      turn({ type: 'reasoning', content: null, summary: [{ type: 'summary_text', text: 'a' }] }),
      messages({ ...assistant(''), reasoning_content: 'a' }),
    ],
    encrypted_content: [
      turn({ type: 'reasoning', summary: [], encrypted_content: opaqueReasoning('größer "x"') }),
      messages({ ...assistant(''), reasoning_content: 'größer "x"' }),
    ],
  },
  'input[].content[]': {
    input_text: [
      turn(message('user', { type: 'input_text', text: 'a' }, { type: 'input_text', text: 'b' })),
      messages({ role: 'user', content: [text('a'), text('b')] }),
    ],
    output_text: [
      turn(message('assistant', { type: 'output_text', text: 'a', annotations: [], logprobs: [] })),
      messages(assistant('a')),
    ],
    text: [turn(message('user', text('a'))), messages({ role: 'user', content: 'a' })],
    refusal: [turn(message('assistant', { type: 'refusal', refusal: 'No.' })), messages(assistant('No.'))],
    input_image: [
      turn(message('user', { type: 'input_image', image_url: PNG })),
      messages({ role: 'user', content: [image(PNG)] }),
    ],
    input_file: [file({ file_data: textFile }), messages({ role: 'user', content: [text('größer "x"\n')] })],
    input_audio: [
      turn(message('user', { type: 'input_audio', input_audio: {} })),
      'input.0.content.0.type: input_audio: ',
    ],
  },
  'input[].content[] input_image': {
    type: [
      turn(message('user', { type: 'input_image', image_url: 'https://a.example/b.png' })),
      messages({ role: 'user', content: [image('https://a.example/b.png')] }),
    ],
    file_id: [turn(message('user', { type: 'input_image', file_id: 'file_1' })), 'input.0.content.0.file_id: '],
    image_url: [
      turn(message('user', { type: 'input_image', image_url: PNG, file_id: null })),
      messages({ role: 'user', content: [image(PNG)] }),
    ],
    detail: [
      turn(message('user', { type: 'input_image', image_url: PNG, detail: 'low' })),
      messages({ role: 'user', content: [image(PNG, 'low')] }),
    ],
    prompt_cache_breakpoint: [
      turn(message('user', { type: 'input_image', image_url: PNG, prompt_cache_breakpoint: { mode: 'explicit' } })),
      messages({ role: 'user', content: [image(PNG)] }),
    ],
  },
  'input[].content[] input_file': {
    type: [file({ file_data: textFile, filename: '' }), messages({ role: 'user', content: [text('größer "x"\n')] })],
    file_id: [file({ file_id: 'file_1' }), 'input.0.content.0.file_id: '],
    file_url: [file({ file_url: 'https://a.example/b.txt' }), 'input.0.content.0.file_url: '],
    file_data: [file({ file_data: 'data:application/pdf;base64,JVBERi0=' }), 'input.0.content.0: Only a text file'],
    filename: [
      file({ file_data: textFile, filename: 'ä.txt' }),
      messages({ role: 'user', content: [text('ä.txt\ngrößer "x"\n')] }),
    ],
    detail: [
      file({ file_data: textFile, detail: 'high' }),
      messages({ role: 'user', content: [text('größer "x"\n')] }),
    ],
    prompt_cache_breakpoint: [
      file({ file_data: textFile, prompt_cache_breakpoint: {} }),
      messages({ role: 'user', content: [text('größer "x"\n')] }),
    ],
  },
  'input[] calls': {
    call_id: [turn({ ...CALL, call_id: undefined }), 'input.0: It has no `id`.'],
    name: [turn({ ...CALL, name: undefined }), 'input.0: It has no `name`.'],
    namespace: [
      turn({ ...CALL, arguments: '{}', namespace: 'agents' }),
      messages(assistant(null, called('agents__read', {}))),
    ],
    arguments: [turn({ ...CALL, arguments: { path: 'a' } }), messages(assistant(null, called('read', { path: 'a' })))],
    input: [turn({ ...CALL, type: 'custom_tool_call', input: 5 }), 'input.0.input: It is no text.'],
    action: [
      turn({ type: 'local_shell_call', call_id: 'call_1', action: { type: 'exec' } }),
      messages(assistant(null, called('local_shell', {}))),
    ],
    id: [turn({ ...CALL, id: 'fc_1' }), messages(assistant(null, CHAT_CALL))],
    status: [turn({ ...CALL, status: 'completed' }), messages(assistant(null, CHAT_CALL))],
    execution: [
      turn({ type: 'tool_search_call', call_id: 'call_1', execution: 'client' }),
      messages(assistant(null, called('tool_search', {}))),
    ],
  },
  'input[] results': {
    call_id: [
      turn({ type: 'function_call_output', call_id: 'call "1"', output: '' }),
      messages({ role: 'tool', tool_call_id: 'call "1"', content: '' }),
    ],
    id: [turn({ type: 'function_call_output', output: '' }), 'input.0: It has no `id`.'],
    output: [
      turn(
        { type: 'function_call_output', call_id: 'a', output: [text('x'), { type: 'input_image', image_url: PNG }] },
        { type: 'function_call_output', call_id: 'b', output: [{ type: 'input_text', text: 'y' }, text('z')] },
        USER,
      ),
      messages(
        { role: 'tool', tool_call_id: 'a', content: 'x' },
        { role: 'tool', tool_call_id: 'b', content: 'y\n\nz' },
        { role: 'user', content: [image(PNG)] },
        USER,
      ),
    ],
    tools: [
      turn({ type: 'tool_search_output', call_id: 'a', tools: null }),
      messages({ role: 'tool', tool_call_id: 'a', content: '' }),
    ],
    status: [
      turn({ type: 'function_call_output', call_id: 'a', output: 'x', status: 'incomplete' }),
      messages({ role: 'tool', tool_call_id: 'a', content: 'x' }),
    ],
    execution: [
      turn({ type: 'tool_search_output', call_id: 'a', execution: 'client', tools: [] }),
      messages({ role: 'tool', tool_call_id: 'a', content: '' }),
    ],
  },
  'tools[]': {
    function: withTools([TOOL], [CHAT_TOOL]),
    custom: withTools(
      [{ type: 'custom', name: 'p' }],
      [{ type: 'function', function: { name: 'p', parameters: INPUT } }],
    ),
    namespace: withTools(
      [{ type: 'namespace', name: 'a', description: 'd', tools: [TOOL, { type: 'custom', name: 'p' }] }, TOOL],
      [
        { type: 'function', function: { ...CHAT_TOOL.function, name: 'a__read' } },
        { type: 'function', function: { name: 'a__p', parameters: INPUT } },
        CHAT_TOOL,
      ],
    ),
    local_shell: [
      { input: 'hi', tools: [{ type: 'local_shell' }], tool_choice: { type: 'local_shell' } },
      {
        messages: [USER],
        tools: [
          {
            type: 'function',
            function: {
              name: 'local_shell',
              description: 'Runs a command and returns its output.',
              parameters: {
                type: 'object',
                properties: {
                  command: { type: 'array', items: { type: 'string' } },
                  env: { type: 'object', additionalProperties: { type: 'string' } },
                  timeout_ms: { type: 'integer' },
                  user: { type: 'string' },
                  working_directory: { type: 'string' },
                },
                required: ['command'],
                additionalProperties: false,
              },
            },
          },
        ],
        tool_choice: { type: 'function', function: { name: 'local_shell' } },
      },
    ],
    tool_search: withTools(
      [{ type: 'tool_search', execution: 'client', description: 'd', parameters: { type: 'object' } }],
      [{ type: 'function', function: { name: 'tool_search', description: 'd', parameters: { type: 'object' } } }],
    ),
    'web_search*': withTools([{ type: 'web_search', external_web_access: false }, TOOL], [CHAT_TOOL]),
    file_search: hosted('file_search'),
    code_interpreter: hosted('code_interpreter'),
    image_generation: hosted('image_generation'),
    'computer*': hosted('computer_use_preview'),
    mcp: hosted('mcp'),
    shell: hosted('shell'),
    apply_patch: hosted('apply_patch'),
    programmatic_tool_calling: hosted('programmatic_tool_calling'),
  },
  'tools[] function': {
    type: withTools(
      [{ parameters: {}, name: 'f', type: 'function' }],
      [{ type: 'function', function: { name: 'f', parameters: {} } }],
    ),
    name: [{ input: 'hi', tools: [{ type: 'function' }] }, 'tools.0: It has no `name`.'],
    description: ofFunction({ description: 'd "x"' }, { description: 'd "x"' }),
    parameters: ofFunction({ parameters: null }, {}),
    strict: ofFunction({ strict: true, description: null }, { strict: true }),
    execution: ofFunction({ execution: 'client' }, {}),
    defer_loading: ofFunction({ defer_loading: true }, {}),
    allowed_callers: ofFunction({ allowed_callers: ['direct'] }, {}),
    async: ofFunction({ async: false }, {}),
    output_schema: ofFunction({ output_schema: {} }, {}),
  },
  'tools[] custom': {
    type: withTools(
      [{ name: 'p', type: 'custom' }],
      [{ type: 'function', function: { name: 'p', parameters: INPUT } }],
    ),
    name: [{ input: 'hi', tools: [{ type: 'custom' }] }, 'tools.0: It has no `name`.'],
    description: withTools(
      [{ type: 'custom', name: 'p', description: 'd', format: { type: 'text' } }],
      [{ type: 'function', function: { name: 'p', description: 'd', parameters: INPUT } }],
    ),
    format: withTools(
      [
        {
          type: 'custom',
          name: 'p',
          description: 'd',
          format: { type: 'grammar', syntax: 'lark', definition: 's: "a"' },
        },
        { type: 'custom', name: 'q', format: { type: 'grammar', syntax: 'regex', definition: '\\d' } },
      ],
      [
        {
          type: 'function',
          function: {
            name: 'p',
            description: 'd\n\nThe input follows this grammar (lark):\ns: "a"',
            parameters: INPUT,
          },
        },
        {
          type: 'function',
          function: { name: 'q', description: 'The input follows this grammar (regex):\n\\d', parameters: INPUT },
        },
      ],
    ),
  },
  'tools[] custom.format': {
    text: withTools(
      [{ type: 'custom', name: 'p', format: { type: 'text' } }],
      [{ type: 'function', function: { name: 'p', parameters: INPUT } }],
    ),
    grammar: withTools(
      [{ type: 'custom', name: 'p', format: { type: 'grammar', syntax: 'regex', definition: 'a' } }],
      [
        {
          type: 'function',
          function: { name: 'p', description: 'The input follows this grammar (regex):\na', parameters: INPUT },
        },
      ],
    ),
  },
  tool_choice: {
    function: option(
      { tools: [TOOL], tool_choice: { type: 'function', name: 'read' } },
      { tools: [CHAT_TOOL], tool_choice: { type: 'function', function: { name: 'read' } } },
    ),
    custom: option(
      { tool_choice: { type: 'custom', name: 'p' } },
      { tool_choice: { type: 'function', function: { name: 'p' } } },
    ),
    local_shell: option(
      { tool_choice: { type: 'local_shell' } },
      { tool_choice: { type: 'function', function: { name: 'local_shell' } } },
    ),
    allowed_tools: option(
      {
        tools: [TOOL, { type: 'custom', name: 'p' }, { ...TOOL, name: 'write' }],
        tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'read' }] },
      },
      { tools: [CHAT_TOOL], tool_choice: 'required' },
    ),
  },
  reasoning: {
    effort: option({ reasoning: { effort: 'low', summary: 'auto' } }, { reasoning_effort: 'low' }),
    summary: option({ reasoning: { effort: null, summary: 'auto' } }),
    generate_summary: option({ reasoning: { generate_summary: 'auto' } }),
  },
  text: {
    format: option({ text: { format: { type: 'text' } } }),
    verbosity: option({ text: { verbosity: 'high' } }, { verbosity: 'high' }),
  },
  'text.format': {
    text: option({ text: { format: { type: 'text' }, verbosity: null } }),
    json_object: option({ text: { format: { type: 'json_object' } } }, { response_format: { type: 'json_object' } }),
    json_schema: ofSchema({}, {}),
  },
  'text.format json_schema': {
    type: ofSchema({}, {}),
    name: ofSchema({ name: 'b' }, { name: 'b' }),
    schema: ofSchema({ schema: { type: 'array' } }, { schema: { type: 'array' } }),
    strict: ofSchema({ strict: true }, { strict: true }),
    description: ofSchema({ description: 'd' }, { description: 'd' }),
  },
};

for (const table of RESPONSES_TABLES) {
  t.test(`treats each field of ${table.path === '' ? 'the body' : table.path} as its row says`, (t) => {
    const examples = EXAMPLES[table.path] ?? {};
    t.strictSame(
      Object.keys(examples),
      table.fields.map(({ name }) => name),
      'there is an example for each row',
    );
    for (const { action, name } of table.fields) {
      const [request, becomes] = examples[name] ?? [{}, 'no example'];
      if (typeof becomes === 'string')
        t.equal(refusal(request).slice(0, becomes.length), becomes, `${name} is refused`);
      else t.strictSame(chat(request), becomes, `${name} is ${action}`);
    }
    t.end();
  });
}

const output = (id: string): Json => ({ type: 'function_call_output', call_id: id, output: id });
const result = (id: string): Json => ({ role: 'tool', tool_call_id: id, content: id });
const thought = (value: string): Json => ({ type: 'reasoning', summary: [], content: [{ text: value }] });
const said = (value: string): Json => message('assistant', { type: 'output_text', text: value });

t.test('puts text, reasoning and calls of one turn in one message', (t) => {
  const second = { ...CALL, call_id: 'call_2' };
  const calls = [CHAT_CALL, { ...CHAT_CALL, id: 'call_2' }];
  const answers = [result('call_1'), result('call_2')];
  const outputs = [output('call_1'), output('call_2')];
  const examples: [string, Json[], Json[]][] = [
    [
      'in the order of the official API',
      [thought('a'), said('b'), CALL, second, ...outputs],
      [{ ...assistant('b', ...calls), reasoning_content: 'a' }, ...answers],
    ],
    [
      'with text and reasoning between calls, whose results have to follow the message',
      [CALL, said('b'), thought('c'), second, said('d'), ...outputs],
      [{ ...assistant('b\n\nd', ...calls), reasoning_content: 'c' }, ...answers],
    ],
    [
      'but not with an earlier text',
      [said('a'), said('b'), CALL, output('call_1')],
      [assistant('a'), assistant('b', CHAT_CALL), result('call_1')],
    ],
    [
      'but not with an earlier text and its reasoning',
      [thought('a'), said('b'), thought('c'), CALL],
      [
        { ...assistant('b'), reasoning_content: 'a' },
        { ...assistant(null, CHAT_CALL), reasoning_content: 'c' },
      ],
    ],
    [
      'in the turns that results divide',
      [CALL, output('call_1'), thought('x'), second, output('call_2'), said('y')],
      [
        assistant(null, CHAT_CALL),
        result('call_1'),
        { ...assistant(null, { ...CHAT_CALL, id: 'call_2' }), reasoning_content: 'x' },
        result('call_2'),
        assistant('y'),
      ],
    ],
  ];
  for (const [name, items, becomes] of examples) t.strictSame(chat(turn(...items)), messages(...becomes), name);
  t.end();
});

t.test('leaves out reasoning that somebody else has encrypted, and what has text beside it', (t) => {
  const reasoning = (members: Json): Json =>
    turn({ type: 'reasoning', summary: [], ...members }, message('user', text('hi')));
  const own = opaqueReasoning('again');
  for (const [item, expected] of [
    [reasoning({ encrypted_content: 'gAAAA' }), []],
    [reasoning({ encrypted_content: null }), []],
    [reasoning({ encrypted_content: own, content: [{ type: 'reasoning_text', text: 'a' }] }), ['a']],
    [reasoning({ encrypted_content: own, summary: [{ type: 'summary_text', text: 'b' }] }), ['b']],
  ] as const) {
    const thoughts = expected.map((thought) => ({ ...assistant(''), reasoning_content: thought }));
    t.same(JSON.parse(new ResponsesRequest(bodyOf(item)).body.toString()), {
      model: 'm',
      ...messages(...thoughts, USER),
    });
  }
  t.end();
});

t.test('writes decoded files and reasoning as they are, without an escape for each letter', (t) => {
  const long = 'größer 水 😀 "x"\n'.repeat(50_000);
  const data = Buffer.from(long).toString('base64');
  for (const request of [
    file({ file_data: `data:text/plain;base64,${data}` }),
    turn({ type: 'reasoning', summary: [], encrypted_content: opaqueReasoning(long) }, USER),
  ]) {
    t.ok(new ResponsesRequest(bodyOf(request)).body.includes(JSON.stringify(long)));
  }
  t.end();
});

t.test('makes one message of instructions and the system messages behind them', (t) => {
  const developer = message('developer', { type: 'input_text', text: 'b' }, { type: 'input_text', text: 'c' });
  t.strictSame(
    chat({
      instructions: 'a',
      input: [developer, { role: 'system', content: 'd' }, USER, { role: 'developer', content: 'e' }],
    }),
    messages({ role: 'system', content: 'a\n\nb\n\nc\n\nd' }, USER, { role: 'system', content: 'e' }),
  );
  t.strictSame(chat({ instructions: 'a' }), messages({ role: 'system', content: 'a' }));
  t.strictSame(chat({ instructions: '', input: [USER] }), messages(USER), 'as no instructions');
  t.strictSame(chat({}), messages());
  t.end();
});

t.test('passes what has no row as it is written', (t) => {
  const passed =
    '"seed":7,"top_k": 40,"min_p":0.050,"chat_template_kwargs":{"enable_thinking":false},"stop":["\\u0041"],"x":null';
  const { body } = new ResponsesRequest(Buffer.from(`{"input":"hi",${passed}}`));
  t.equal(body.toString(), `{"messages":[{"role":"user","content":"hi"}],${passed}}`);
  t.end();
});

t.test('prefers what the client says in the words of chat completions', (t) => {
  const words = {
    max_completion_tokens: 5,
    reasoning_effort: 'low',
    verbosity: 'high',
    response_format: { type: 'json_object' },
    logprobs: false,
  };
  const request = {
    ...{ max_output_tokens: 6, reasoning: { effort: 'high' }, include: ['message.output_text.logprobs'] },
    text: { verbosity: 'low', format: { type: 'json_schema', name: 'a', schema: {} } },
  };
  t.strictSame(chat({ input: 'hi', ...words, ...request }), { messages: [USER], ...words });
  const nulls = Object.fromEntries(Object.keys(words).map((name) => [name, null]));
  t.strictSame(
    chat({ input: 'hi', ...nulls, ...request, top_logprobs: 1 }),
    chat({ input: 'hi', ...request, top_logprobs: 1 }),
    'null counts as absent',
  );
  t.equal(chat({ input: 'hi', ...nulls, ...request })['max_completion_tokens'], 6);
  t.end();
});

t.test('leaves out what servers refuse without tools', (t) => {
  for (const tools of [undefined, null, []]) {
    const request = { input: 'hi', tools, tool_choice: 'auto', parallel_tool_calls: true };
    t.strictSame(chat(request), messages(USER));
    t.strictSame(chat({ ...request, tool_choice: 'none' }), messages(USER));
    t.strictSame(chat({ ...request, tool_choice: 'required' }), { ...messages(USER), tool_choice: 'required' });
  }
  for (const mode of ['auto', 'none']) {
    const choice = { type: 'allowed_tools', mode, tools: [{ type: 'function', name: 'other' }] };
    t.strictSame(chat({ input: 'hi', tools: [TOOL], tool_choice: choice }), messages(USER), `allowed_tools, ${mode}`);
  }
  t.end();
});

t.test('takes a namespace without tools among those that a search has found', (t) => {
  for (const tools of [undefined, null, []]) {
    const found = { type: 'tool_search_output', call_id: 'a', tools: [{ type: 'namespace', name: 'n', tools }] };
    t.strictSame(chat({ input: [found] }), messages({ role: 'tool', tool_call_id: 'a', content: '' }));
  }
  t.end();
});

t.test('refuses what is no request of the dialect by name', (t) => {
  const examples: [Json, string][] = [
    [{ input: 5 }, 'input: It is no list.'],
    [{ input: {} }, 'input: It is no list.'],
    [{ instructions: ['a'] }, 'instructions: It is no text.'],
    [turn('hi'), 'input.0: Chat completions have no such item.'],
    [turn({}), 'input.0: It has no `role`.'],
    [turn({ role: 'tool', content: '' }), 'input.0.role: There is no such role.'],
    [turn({ type: 'thread' }), 'input.0.type: thread: '],
    [turn(message('user', 5)), 'input.0.content.0: Chat completions have no such part.'],
    [turn({ role: 'user', content: 5 }), 'input.0.content: It is no list.'],
    [turn({ role: 'assistant', content: { a: 1 }, type: 'message' }), 'input.0.content: It is no list.'],
    [turn(message('user', { type: 'input_text' })), 'input.0.content.0: It has no `text`.'],
    [turn(message('user', { type: 'input_image' })), 'input.0.content.0: It has no `image_url`.'],
    [turn(message('user', { type: 'input_file' })), 'input.0.content.0: It has no `file_data`.'],
    [turn(message('system', { type: 'input_image', image_url: PNG })), 'input.0.content.0: A system message can hold'],
    [
      turn(message('assistant', { type: 'input_image', image_url: PNG })),
      'input.0.content.0: A message of the assistant',
    ],
    [{ input: 'hi', tools: {} }, 'tools: It is no list.'],
    [
      { input: 'hi', tools: [{ type: 'tool_search', execution: 'server' }] },
      'tools.0.type: tool_search: Only the vendor of the API can run',
    ],
    [
      { input: 'hi', tools: [{ type: 'custom', name: 'p', format: { type: 'grammar', syntax: 'lark' } }] },
      'tools.0.format: It has no `definition`.',
    ],
    [{ input: 'hi', tools: [{ type: 'custom', name: 'p', format: { type: 'json' } }] }, 'tools.0.format.type: json: '],
    [{ input: [{ ...CALL, namespace: [',', ':1,', ':'] }] }, 'input.0.namespace: It is no text.'],
    [{ input: 'hi', tools: [TOOL, {}] }, 'tools.1: Chat completions have no such tool.'],
    [{ input: 'hi', tool_choice: { type: 'file_search' } }, 'tool_choice.type: file_search: '],
    [
      { input: 'hi', tools: [TOOL], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'mcp' }] } },
      'tool_choice.tools.0: ',
    ],
    [
      { input: 'hi', tools: [TOOL], tool_choice: { type: 'allowed_tools', mode: 'auto' } },
      'tool_choice: It has no `tools`.',
    ],
    [
      { input: 'hi', tools: [TOOL], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: null } },
      'tool_choice: It has no `tools`.',
    ],
    [{ input: 'hi', text: { format: { type: 'grammar' } } }, 'text.format.type: grammar: '],
    [{ input: 'hi', include: 'all' }, 'include: It is no list.'],
  ];
  for (const [request, begin] of examples) t.equal(refusal(request).slice(0, begin.length), begin);
  t.end();
});
