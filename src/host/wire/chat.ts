// POST /v1/chat/completions. There is no role-only chunk: the role travels with the first words, so that the first
// event a client sees is the first token.
import type { Want } from './turns.ts';
import { chatWant, schemaOf, toolsOf, turnsOf } from './turns.ts';
import type { Ask, Call, Frames, Generation, Json, Wire } from './wire.ts';
import { completionUsage, dataFrame, DONE_FRAME, limitOf, openaiProblem, stopsOf, textOf, wantsUsage } from './wire.ts';

/** The chat completions dialect of the OpenAI API. */
export const chat: Wire = { read, want, answer, frames, problem: openaiProblem };

function read(body: Json): Ask {
  const { messages } = body;
  if (!Array.isArray(messages)) throw new Error('messages must be an array');
  return {
    prompt: textOf(messages),
    maxTokens: limitOf(body, 'max_completion_tokens', 'max_tokens'),
    stops: stopsOf(body['stop']),
    stream: body['stream'] === true,
    includeUsage: wantsUsage(body),
  };
}

function want(body: Json): Want {
  const turns = turnsOf(body['messages'] as unknown[], 'messages');
  const tools = toolsOf(body['tools'], 'function', 'parameters');
  return chatWant(turns, tools, body['tool_choice'], schemaOf(body['response_format']));
}

function messageOf({ callsTools, calls, pieces }: Generation): Json {
  if (!callsTools) return { role: 'assistant', content: pieces.join(''), refusal: null };
  return { role: 'assistant', content: null, refusal: null, tool_calls: calls.map((call) => listed(call)) };
}

function listed({ id, name, arguments: text }: Call): Json {
  return { id, type: 'function', function: { name, arguments: text } };
}

function answer(generation: Generation): Json {
  return {
    id: `chatcmpl-${generation.id}`,
    object: 'chat.completion',
    created: generation.created,
    model: generation.model,
    choices: [
      {
        index: 0,
        message: messageOf(generation),
        logprobs: null,
        finish_reason: generation.finish,
      },
    ],
    usage: completionUsage(generation),
  };
}

function frames(generation: Generation): Frames {
  const head = {
    id: `chatcmpl-${generation.id}`,
    object: 'chat.completion.chunk',
    created: generation.created,
    model: generation.model,
  };
  const { includeUsage } = generation.ask;
  const noUsage = includeUsage ? { usage: null } : {};
  const before = `data: ${JSON.stringify(head).slice(0, -1)},"choices":[{"index":0,"delta":{`;
  const after = `},"logprobs":null,"finish_reason":null}]${includeUsage ? ',"usage":null' : ''}}\n\n`;
  return {
    opening: () => [],
    token: (piece, at) => `${before}${at === 0 ? '"role":"assistant",' : ''}"content":${JSON.stringify(piece)}${after}`,
    call(call, at) {
      const begun = JSON.stringify({ index: at, ...listed({ ...call, arguments: '' }) });
      return [`${before}${at === 0 ? '"role":"assistant","content":null,' : ''}"tool_calls":[${begun}]${after}`];
    },
    argument: (text, at) =>
      `${before}"tool_calls":[{"index":${at},"function":{"arguments":${JSON.stringify(text)}}}]${after}`,
    closing() {
      const isEmpty = generation.pieces.length === 0 && generation.calls.length === 0;
      const delta = isEmpty ? { role: 'assistant', content: '' } : {};
      const last = { index: 0, delta, logprobs: null, finish_reason: generation.finish };
      return [
        dataFrame({ ...head, choices: [last], ...noUsage }),
        ...(includeUsage ? [dataFrame({ ...head, choices: [], usage: completionUsage(generation) })] : []),
        DONE_FRAME,
      ];
    },
    failure: (message) => dataFrame(openaiProblem(500, message, 'server_error')),
  };
}
