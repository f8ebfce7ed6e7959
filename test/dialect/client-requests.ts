// Requests as clients send them, for the first turns of one session each: what they repeat, what they move and what they change.

import type { DialectName } from '../../src/dialect/dialect.ts';

/** One client's session. */
export interface ClientSession {
  readonly client: string;
  readonly dialect: DialectName;
  /** Body of request `turn`, from 1. */
  readonly request: (turn: number) => string;
}

const GUIDELINES = 'Read a file before you change it.\nNever "guess" what a command prints: run it.\n'.repeat(60);
const SOURCE = 'export function area(r: number): number {\n\treturn Math.PI * r ** 2; // "πr²"\n}\n'.repeat(12);

const READ_TOOL = {
  name: 'Read',
  description: 'Reads a file.\n\nUsage:\n- `file_path` is absolute',
  input_schema: {
    type: 'object',
    properties: { file_path: { type: 'string' }, offset: { type: 'number' }, limit: { type: 'number' } },
    required: ['file_path'],
    additionalProperties: false,
    $schema: 'http://json-schema.org/draft-07/schema#',
  },
};

const EPHEMERAL = { cache_control: { type: 'ephemeral' } };

/** Claude Code: a line for billing that changes with every request, and marks on the system text and on the newest message. */
function claudeCode(turn: number): string {
  const messages: { role: string; content: object[] }[] = [
    {
      role: 'user',
      content: [
        { type: 'text', text: '<system-reminder>\nToday is a day.\n</system-reminder>' },
        { type: 'text', text: 'Fix the area.' },
      ],
    },
  ];
  for (let step = 1; step < turn; step++) {
    messages.push({
      role: 'assistant',
      content: [
        {
          type: 'thinking',
          thinking: `Step ${step}: I need to look at the file.`,
          signature: 'EqQBCkYIBhgCKkA'.repeat(10),
        },
        { type: 'text', text: 'I read the file.' },
        { type: 'tool_use', id: `toolu_${step}`, name: 'Read', input: { file_path: `/src/area-${step}.ts` } },
      ],
    });
    messages.push({ role: 'user', content: [{ tool_use_id: `toolu_${step}`, type: 'tool_result', content: SOURCE }] });
  }
  const newest = messages.at(-1)?.content ?? [];
  newest.push({ ...newest.pop(), ...EPHEMERAL });
  return JSON.stringify({
    model: 'claude-sonnet-4-5',
    messages,
    system: [
      {
        type: 'text',
        text: `x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=${(turn * 7919).toString(16).padStart(5, '0')};`,
      },
      { type: 'text', text: "You are Claude Code, Anthropic's official CLI for Claude.", ...EPHEMERAL },
      { type: 'text', text: GUIDELINES, ...EPHEMERAL },
    ],
    tools: [READ_TOOL, { ...READ_TOOL, name: 'Write', ...EPHEMERAL }],
    metadata: { user_id: `user_1_session_${turn}` },
    max_tokens: 32_000,
    thinking: { budget_tokens: 31_999, type: 'enabled' },
    stream: true,
  });
}

/** Codex: instructions, a developer message, items with calls, and reasoning that only the server can read. */
function codex(turn: number): string {
  const text = (role: string, content: string): object => ({
    type: 'message',
    role,
    content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text: content }],
  });
  const input: object[] = [
    text('developer', '<permissions instructions>\nSandboxed.\n</permissions instructions>'),
    text('user', '<environment_context>\n  <cwd>/src</cwd>\n</environment_context>'),
    text('user', 'Fix the area.'),
  ];
  for (let step = 1; step < turn; step++) {
    input.push(
      {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: `**Step ${step}**` }],
        content: null,
        encrypted_content: 'gAAAA'.repeat(40),
      },
      {
        type: 'function_call',
        name: 'shell',
        arguments: JSON.stringify({ command: ['cat', `area-${step}.ts`] }),
        call_id: `call_${step}`,
      },
      {
        type: 'function_call_output',
        call_id: `call_${step}`,
        output: JSON.stringify({ output: SOURCE, metadata: { exit_code: 0 } }),
      },
    );
  }
  return JSON.stringify({
    model: 'gpt-5-codex',
    instructions: GUIDELINES,
    input,
    tools: [
      {
        type: 'function',
        name: 'shell',
        description: 'Runs a command.',
        strict: false,
        parameters: READ_TOOL.input_schema,
      },
    ],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning: { effort: 'medium', summary: 'auto' },
    store: false,
    stream: true,
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: '0199b2c4',
  });
}

/** The OpenAI SDK for Python: white space and escapes as `json.dumps` writes them, and answers with all members of their type. */
function openaiPython(turn: number): string {
  const messages: object[] = [
    { role: 'system', content: GUIDELINES },
    { role: 'user', content: 'Fläche? 😀' },
  ];
  for (let step = 1; step < turn; step++) {
    messages.push(
      {
        content: null,
        refusal: null,
        role: 'assistant',
        annotations: [],
        audio: null,
        function_call: null,
        tool_calls: [{ id: `call_${step}`, function: { arguments: '{"r": 1}', name: 'area' }, type: 'function' }],
      },
      { role: 'tool', tool_call_id: `call_${step}`, content: SOURCE },
    );
  }
  return pythonJson({
    model: 'm',
    messages,
    tools: [{ type: 'function', function: READ_TOOL }],
    stream_options: { include_usage: true },
  });
}

/** As Python's `json.dumps` writes it: a space behind commas and colons, and only ASCII. */
function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    return `{${Object.entries(value)
      .map(([name, inner]) => `${pythonJson(name)}: ${pythonJson(inner)}`)
      .join(', ')}}`;
  }
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** The OpenAI SDK for JavaScript, as a chat page uses it: strings first, then lists of parts with an image. */
function openaiNode(turn: number): string {
  const messages: object[] = [{ role: 'system', content: GUIDELINES }];
  for (let step = 1; step <= turn; step++) {
    if (step > 1) messages.push({ role: 'assistant', content: SOURCE });
    messages.push(
      step === 2
        ? {
            role: 'user',
            content: [
              { type: 'text', text: 'And this?' },
              { type: 'image_url', image_url: { url: `data:image/png;base64,${'iVBORw0KGgo'.repeat(999)}` } },
            ],
          }
        : { role: 'user', content: `Question ${step}` },
    );
  }
  return JSON.stringify({ model: 'm', messages, stream: true, user: `u${turn}` });
}

export const CLIENT_SESSIONS: readonly ClientSession[] = [
  { client: 'Claude Code', dialect: 'messages', request: claudeCode },
  { client: 'Codex', dialect: 'responses', request: codex },
  { client: 'OpenAI SDK for Python', dialect: 'chat-completions', request: openaiPython },
  { client: 'OpenAI SDK for JavaScript', dialect: 'chat-completions', request: openaiNode },
];
