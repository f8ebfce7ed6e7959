// One conversation with tools in each dialect, and the answers of a server that speaks messages and responses, for the
// benchmark of translated requests. Nothing is random, and every request of one size has exactly that size.

import { ANSWER, EVENTS, MODEL, requestBytes } from './traffic.mjs';

/** Conversations that a client cycles through. */
const CONVERSATIONS = 64;

const PATHS = { chat: 'chat/completions', messages: 'messages', responses: 'responses' };
const SYSTEM = 'You work on a repository. Read a file before you change it, and run the tests after a change.\n'.repeat(
  20,
);
const CODE = 'export function area(r: number): number {\n\treturn Math.PI * r ** 2; // "πr²"\n}\n'.repeat(16);
const SCHEMA = {
  type: 'object',
  properties: {
    path: { type: 'string', description: 'Path of the file, from the root of the repository.' },
    offset: { type: 'integer', description: 'First line, from 1.' },
    limit: { type: 'integer' },
  },
  required: ['path'],
  additionalProperties: false,
};
const TOOLS = ['read', 'write', 'list', 'run'].map((name) => ({ name, description: `To ${name} files. `.repeat(8) }));
const STEPS = 8;
const WRITE = { chat: chatBody, messages: messagesBody, responses: responsesBody };

/** Whole requests for `127.0.0.1:port` in `load.dialect` to the model `load.model`, each with a body of `bodyBytes`. */
export function dialectRequests(load) {
  const { bodyBytes, dialect, model, stream } = load;
  return Array.from({ length: CONVERSATIONS }, (_, conversation) => {
    const write = (question) => JSON.stringify({ model, stream, ...WRITE[dialect](question) });
    const question = `Question ${conversation}: `;
    const missing = bodyBytes - Buffer.byteLength(write(question));
    if (missing < 0) throw new Error(`a conversation of ${dialect} takes ${bodyBytes - missing} bytes`);
    return requestBytes(load, write(question + 'x'.repeat(missing)), PATHS[dialect]);
  });
}

const steps = (write) =>
  Array.from({ length: STEPS }, (_, step) => write(`call_${step}`, { path: `src/area-${step}.ts` })).flat();

function chatBody(question) {
  const call = (id, input) => ({ id, type: 'function', function: { name: 'read', arguments: JSON.stringify(input) } });
  return {
    messages: [
      { role: 'system', content: SYSTEM },
      { role: 'user', content: question },
      ...steps((id, input) => [
        { role: 'assistant', content: 'I read the file.', tool_calls: [call(id, input)] },
        { role: 'tool', tool_call_id: id, content: CODE },
      ]),
    ],
    tools: TOOLS.map((tool) => ({ type: 'function', function: { ...tool, parameters: SCHEMA } })),
    max_tokens: 4096,
  };
}

function messagesBody(question) {
  const block = (id, input) => [
    { type: 'text', text: 'I read the file.' },
    { type: 'tool_use', id, name: 'read', input },
  ];
  return {
    system: [{ type: 'text', text: SYSTEM, cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: question }] },
      ...steps((id, input) => [
        { role: 'assistant', content: block(id, input) },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: CODE }] },
      ]),
    ],
    tools: TOOLS.map((tool) => ({ ...tool, input_schema: SCHEMA })),
    max_tokens: 4096,
  };
}

/** What a response repeats of its request, as the official API, vLLM and the gateway do. */
const REPEATED = {
  instructions: SYSTEM,
  tools: TOOLS.map((tool) => ({ type: 'function', ...tool, strict: false, parameters: SCHEMA })),
  // Storing a response is no part of its translation.
  store: false,
  max_output_tokens: 4096,
};

function responsesBody(question) {
  const message = (role, type, text) => ({ type: 'message', role, content: [{ type, text }] });
  return {
    ...REPEATED,
    input: [
      message('user', 'input_text', question),
      ...steps((id, input) => [
        message('assistant', 'output_text', 'I read the file.'),
        { type: 'function_call', call_id: id, name: 'read', arguments: JSON.stringify(input) },
        { type: 'function_call_output', call_id: id, output: CODE },
      ]),
    ],
  };
}

const TEXT = JSON.parse(ANSWER).choices[0].message.content;
const PIECE = ' a word or two';
const usage = { input_tokens: 196, output_tokens: 54 };

const MESSAGE = {
  id: 'msg_7d3a9b1c5e2f',
  type: 'message',
  role: 'assistant',
  model: MODEL,
  content: [{ type: 'text', text: TEXT }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage,
};

const ITEM = {
  id: 'msg_7d3a9b1c5e2f',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: TEXT, annotations: [], logprobs: [] }],
};
const RESPONSE = {
  id: 'resp_7d3a9b1c5e2f',
  object: 'response',
  created_at: 1760000000,
  status: 'completed',
  model: MODEL,
  error: null,
  incomplete_details: null,
  ...REPEATED,
  background: false,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  service_tier: 'auto',
  temperature: 1,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  top_p: 1,
  truncation: 'disabled',
  output: [ITEM],
  usage: { ...usage, total_tokens: 250 },
};

/** Answers without streaming. */
export const ANSWERS = { messages: JSON.stringify(MESSAGE), responses: JSON.stringify(RESPONSE) };

/** The events of a stream, as texts with their names. The first one goes at once, the last ones together. */
export const STREAMS = {
  messages: named([
    { type: 'message_start', message: { ...MESSAGE, content: [], stop_reason: null } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...pieces({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: PIECE } }),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
    { type: 'message_stop' },
  ]),
  responses: named([
    { type: 'response.created', response: { ...RESPONSE, status: 'in_progress', output: [], usage: null } },
    { type: 'response.output_item.added', output_index: 0, item: { ...ITEM, status: 'in_progress', content: [] } },
    ...pieces({
      type: 'response.output_text.delta',
      item_id: ITEM.id,
      output_index: 0,
      content_index: 0,
      delta: PIECE,
    }),
    { type: 'response.output_item.done', output_index: 0, item: ITEM },
    { type: 'response.completed', response: RESPONSE },
  ]),
};

function pieces(event) {
  return Array.from({ length: EVENTS - 1 }, () => event);
}

function named(events) {
  return events.map(
    (event, at) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: at })}\n\n`,
  );
}
