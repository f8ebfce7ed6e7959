// OpenAI chat completions as the model host reads and writes them (POST /v1/chat/completions). There is no chunk with the role alone: the role is in the chunk of the first token, so that the
// first event a client receives is the first token.
import { invalidOption } from '../completion-options.ts';
import type { TokenLogProbs } from '../model-engine.ts';
import type { Choice } from './choice.ts';
import { type PromptSpec, chatPrompt, schemaOf, toolsOf, turnsOf } from './conversation.ts';
import {
  type ApiFormat,
  type Frames,
  type Json,
  type RequestFields,
  type ToolCall,
  choicesOf,
  closingFrames,
  completionUsage,
  dataFrame,
  limitOf,
  listedOf,
  openaiProblem,
  stopsOf,
  textOf,
  wantsUsage,
} from './format.ts';
/** The chat completions dialect of the OpenAI API. */
export const chatFormat: ApiFormat = { read, readPrompts, answer, frames, problem: openaiProblem };

function read(body: Json): RequestFields {
  const { messages } = body;
  if (!Array.isArray(messages)) throw new Error('messages must be an array');
  return {
    prompt: textOf(messages),
    maxTokens: limitOf(body, 'max_completion_tokens', 'max_tokens'),
    stops: stopsOf(body, 'stop'),
    stream: body['stream'] === true,
    includeUsage: wantsUsage(body),
    choices: choicesOf(body),
    logProbs: logProbsOf(body),
  };
}

/** `logprobs` and `top_logprobs`; null when they are off. */
function logProbsOf({ logprobs, top_logprobs: most }: Json): number | null {
  const isOn = logprobs ?? false;
  if (typeof isOn !== 'boolean') throw invalidOption('logprobs', 'it must be true or false');
  if (most === undefined || most === null) return isOn ? 0 : null;
  if (!isOn) throw invalidOption('top_logprobs', 'logprobs must be true');
  return listedOf('top_logprobs', most);
}

function readPrompts(body: Json): PromptSpec {
  const turns = turnsOf(body['messages'] as unknown[], 'messages');
  const tools = toolsOf(body['tools'], 'function', 'parameters');
  const spec = chatPrompt(turns, tools, body['tool_choice'], schemaOf(body['response_format']));
  // As vLLM and SGLang do: the message of the assistant that comes last is not ended, and the answer is its rest.
  const continues = body['continue_final_message'] === true && turns.at(-1)?.role === 'assistant';
  return continues ? { ...spec, prompts: spec.prompts.map((prompt) => ({ ...prompt, continues })) } : spec;
}

function messageOf({ calls, hasCalls, pieces, reasoning }: Choice): Json {
  const content = hasCalls && pieces.length === 0 ? null : pieces.join('');
  return {
    role: 'assistant',
    content,
    refusal: null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(hasCalls && { tool_calls: calls.map((call) => listed(call)) }),
  };
}

function listed({ id, name, arguments: text }: ToolCall): Json {
  return { id, type: 'function', function: { name, arguments: text } };
}

function answer(choice: Choice): Json {
  return {
    id: `chatcmpl-${choice.parts.id}`,
    object: 'chat.completion',
    created: choice.parts.created,
    model: choice.parts.model,
    choices: choice.siblings.map((each) => ({
      index: each.index,
      message: messageOf(each),
      logprobs: logprobs(each.logProbs),
      finish_reason: each.finish,
    })),
    usage: completionUsage(choice),
  };
}

function logprobs(content: readonly TokenLogProbs[] | null): Json | null {
  return content === null ? null : { content, refusal: null };
}

function frames(choice: Choice): Frames {
  const { index } = choice;
  const head = {
    id: `chatcmpl-${choice.parts.id}`,
    object: 'chat.completion.chunk',
    created: choice.parts.created,
    model: choice.parts.model,
  };
  const { includeUsage } = choice.parts.fields;
  const before = `data: ${JSON.stringify(head).slice(0, -1)},"choices":[{"index":${index},"delta":{`;
  const end = `,"finish_reason":null}]${includeUsage ? ',"usage":null' : ''}}\n\n`;
  const after = `},"logprobs":null${end}`;
  let role = '"role":"assistant",';
  return {
    opening: () => [],
    begin: () => [],
    reasoning(piece) {
      const delta = `${role}"reasoning_content":${JSON.stringify(piece)}`;
      role = '';
      return `${before}${delta}${after}`;
    },
    token(piece, _, listed) {
      const delta = `${role}"content":${JSON.stringify(piece)}`;
      role = '';
      if (listed === undefined) return `${before}${delta}${after}`;
      return `${before}${delta}},"logprobs":${JSON.stringify(logprobs(listed))}${end}`;
    },
    call(call, at) {
      const begun = JSON.stringify({ index: at, ...listed({ ...call, arguments: '' }) });
      const first = role === '' ? '' : `${role}"content":null,`;
      role = '';
      return [`${before}${first}"tool_calls":[${begun}]${after}`];
    },
    argument: (text, at) =>
      `${before}"tool_calls":[{"index":${at},"function":{"arguments":${JSON.stringify(text)}}}]${after}`,
    closing() {
      const delta = role !== '' ? { role: 'assistant', content: '' } : {};
      const last = { index, delta, logprobs: null, finish_reason: choice.finish };
      return closingFrames(choice, head, last);
    },
    failure: (message) => dataFrame(openaiProblem(500, message, 'server_error')),
  };
}
