// POST /v1/messages. Events are named and usage is always reported; the opening events are sent with the first token.
import type { Choice } from './choice.ts';
import { type PromptSpec, chatPrompt, contentText, schemaOf, toolsOf, turnsOf } from './conversation.ts';
import {
  type RequestFields,
  type ToolCall,
  type Frames,
  type Json,
  type ApiFormat,
  limitOf,
  messagesProblem,
  namedFrame,
  ONE_CHOICE,
  stopsOf,
  textOf,
} from './format.ts';
import { parseJson } from '../../config/json-text.ts';

/** The messages dialect of the Anthropic API. */
export const messagesFormat: ApiFormat = { read, readPrompts, answer, frames, problem: messagesProblem };

function read(body: Json): RequestFields {
  if (!Array.isArray(body['messages'])) throw new Error('messages must be an array');
  return {
    prompt: [textOf(body['system']), textOf(body['messages'])].join('\n'),
    maxTokens: limitOf(body, 'max_tokens'),
    stops: stopsOf(body, 'stop_sequences'),
    stream: body['stream'] === true,
    includeUsage: true,
    ...ONE_CHOICE,
  };
}

function readPrompts(body: Json): PromptSpec {
  const system = contentText(body['system']);
  const turns = turnsOf(body['messages'] as unknown[], 'messages');
  const format = (body['output_config'] as Json | undefined)?.['format'] ?? body['output_format'];
  const tools = toolsOf(body['tools'], null, 'input_schema');
  const all = system === '' ? turns : [{ role: 'system' as const, text: system }, ...turns];
  return chatPrompt(all, tools, body['tool_choice'], schemaOf(format));
}

function usage(choice: Choice, outputTokens: number): Json {
  return {
    input_tokens: choice.promptTokens - choice.cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: choice.cachedTokens,
    output_tokens: outputTokens,
  };
}

function ending({ finish, stoppingWord }: Choice): Json {
  if (stoppingWord !== '') return { stop_reason: 'stop_sequence', stop_sequence: stoppingWord };
  if (finish === 'tool_calls') return { stop_reason: 'tool_use', stop_sequence: null };
  return { stop_reason: finish === 'length' ? 'max_tokens' : 'end_turn', stop_sequence: null };
}

function head(choice: Choice): Json {
  return { id: `msg_${choice.parts.id}`, type: 'message', role: 'assistant', model: choice.parts.model };
}

function block({ id, name }: ToolCall, input: unknown): Json {
  return { type: 'tool_use', id, name, input };
}

/** Arguments that a limit cut off cannot be an object: they travel as they are, under a name that says so. */
function inputOf(call: ToolCall): unknown {
  try {
    return parseJson(call.arguments);
  } catch {
    return { partial_json: call.arguments };
  }
}

function answer(choice: Choice): Json {
  const content = [
    ...(choice.reasoning === '' ? [] : [{ type: 'thinking', thinking: choice.reasoning, signature: '' }]),
    ...(choice.hasText ? [{ type: 'text', text: choice.pieces.join('') }] : []),
    ...choice.calls.map((call) => block(call, inputOf(call))),
  ];
  return { ...head(choice), content, ...ending(choice), usage: usage(choice, choice.outputTokens) };
}

function frames(choice: Choice): Frames {
  let index = -1;
  let beforeText = '';
  const delta = (value: Json): string => namedFrame({ type: 'content_block_delta', index, delta: value });
  const stop = (): string[] => (index < 0 ? [] : [namedFrame({ type: 'content_block_stop', index })]);
  const begin = (content: Json): string[] => {
    const ended = stop();
    index++;
    return [...ended, namedFrame({ type: 'content_block_start', index, content_block: content })];
  };
  return {
    opening() {
      const started = { content: [], stop_reason: null, stop_sequence: null, usage: usage(choice, 1) };
      return [namedFrame({ type: 'message_start', message: { ...head(choice), ...started } })];
    },
    begin(part) {
      if (part === 'reasoning') return begin({ type: 'thinking', thinking: '', signature: '' });
      const begun = begin({ type: 'text', text: '' });
      beforeText = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":"text_delta","text":`;
      return begun;
    },
    reasoning: (piece) => delta({ type: 'thinking_delta', thinking: piece }),
    call: (call) => begin(block(call, {})),
    argument: (text) => delta({ type: 'input_json_delta', partial_json: text }),
    token: (piece) => `${beforeText}${JSON.stringify(piece)}}}\n\n`,
    closing: () => [
      ...(index < 0 ? begin({ type: 'text', text: '' }) : []),
      ...stop(),
      namedFrame({
        type: 'message_delta',
        delta: ending(choice),
        usage: usage(choice, choice.outputTokens),
      }),
      namedFrame({ type: 'message_stop' }),
    ],
    failure: (message) => namedFrame({ type: 'error', error: { type: 'api_error', message } }),
  };
}
