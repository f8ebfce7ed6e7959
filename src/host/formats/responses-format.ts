// POST /v1/responses. Every event has sequence_number, output_index, content_index and item ids, which strict clients
// require; an answer cut by its limit ends with `response.incomplete`.
import { parseJson } from '../../config/json-text.ts';
import { CustomInput, customInputOf } from '../../dialect/index.ts';
import type { TokenLogProbs } from '../model-engine.ts';
import type { Choice } from './choice.ts';
import { type PromptSpec, chatPrompt, schemaOf, toolsOf, turnsOf } from './conversation.ts';
import {
  type ApiFormat,
  type Frames,
  type Json,
  type RequestFields,
  type ToolCall,
  limitOf,
  listedOf,
  namedFrame,
  ONE_CHOICE,
  openaiProblem,
  stopsOf,
  textOf,
} from './format.ts';
/** The responses dialect of the OpenAI API. */
export const responsesFormat: ApiFormat = {
  read,
  readPrompts,
  answer: (choice) => response(choice, 'ended'),
  frames,
  problem: openaiProblem,
};

function read(body: Json): RequestFields {
  return {
    prompt: [textOf(body['instructions']), textOf(body['input'])].join('\n'),
    maxTokens: limitOf(body, 'max_output_tokens'),
    stops: stopsOf(body, 'stop'),
    stream: body['stream'] === true,
    includeUsage: true,
    ...ONE_CHOICE,
    logProbs: logProbsOf(body),
  };
}

/** Log probabilities are something to include, and `top_logprobs` says how many; null when they are off. */
function logProbsOf({ include, top_logprobs: most }: Json): number | null {
  const isOn = Array.isArray(include) && include.includes('message.output_text.logprobs');
  if (most === undefined || most === null) return isOn ? 0 : null;
  return listedOf('top_logprobs', most);
}

function readPrompts(body: Json): PromptSpec {
  const { input, instructions } = body;
  const items = turnsOf(Array.isArray(input) ? input : [{ role: 'user', content: input }], 'input');
  const turns =
    typeof instructions === 'string' && instructions !== ''
      ? [{ role: 'system' as const, text: instructions }, ...items]
      : items;
  const tools = toolsOf(functionsOf(body['tools']), null, 'parameters');
  return chatPrompt(turns, tools, body['tool_choice'], schemaOf((body['text'] as Json | undefined)?.['format']));
}

/** The model calls a custom tool as a function with one text. */
const CUSTOM_PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

function functionsOf(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools;
  return tools.map((tool: Json | null) => (isCustom(tool) ? { ...tool, parameters: CUSTOM_PARAMETERS } : tool));
}

function isCustom(tool: Json | null): boolean {
  return tool?.['type'] === 'custom';
}

function callsCustom({ parts: { body } }: Choice, called: string): boolean {
  const { tools } = body;
  return Array.isArray(tools) && tools.some((tool: Json | null) => isCustom(tool) && tool?.['name'] === called);
}

function usage({ promptTokens, cachedTokens, outputTokens, reasoningTokens }: Choice): Json {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + outputTokens,
  };
}

function textPart(text: string, logprobs: readonly TokenLogProbs[] | null): Json {
  return { type: 'output_text', text, annotations: [], logprobs: logprobs ?? [] };
}

function message(choice: Choice, status: string, content: readonly Json[]): Json {
  return { id: `msg_${choice.parts.id}`, type: 'message', status, role: 'assistant', content };
}

function reasoningItem(choice: Choice, status: string, content: readonly Json[]): Json {
  return { id: `rs_${choice.parts.id}`, type: 'reasoning', status, summary: [], content };
}

function reasoningPart(text: string): Json {
  return { type: 'reasoning_text', text };
}

function endStatusOf({ finish }: Choice): 'incomplete' | 'completed' {
  return finish === 'length' ? 'incomplete' : 'completed';
}

function callItem(choice: Choice, { id, name, arguments: text }: ToolCall, status: string): Json {
  return callsCustom(choice, name)
    ? { id: `ctc_${id}`, type: 'custom_tool_call', status, call_id: id, name, input: customInputOf(text) }
    : { id: `fc_${id}`, type: 'function_call', status, call_id: id, name, arguments: text };
}

function outputOf(choice: Choice, status: string): Json[] {
  const { reasoning } = choice;
  return [
    ...(reasoning === '' ? [] : [reasoningItem(choice, status, [reasoningPart(reasoning)])]),
    ...(choice.hasText ? [message(choice, status, [textPart(choice.pieces.join(''), choice.logProbs)])] : []),
    ...choice.calls.map((call) => callItem(choice, call, status)),
  ];
}

function response(choice: Choice, stage: 'started' | 'ended' | 'failed', error: Json | null = null): Json {
  const { finish, parts } = choice;
  const { body } = parts;
  const ended = stage === 'ended';
  const endStatus = endStatusOf(choice);
  return {
    id: `resp_${choice.parts.id}`,
    object: 'response',
    created_at: choice.parts.created,
    status: ended ? endStatus : stage === 'failed' ? 'failed' : 'in_progress',
    error,
    incomplete_details: ended && finish === 'length' ? { reason: 'max_output_tokens' } : null,
    instructions: body['instructions'] ?? null,
    max_output_tokens: body['max_output_tokens'] ?? null,
    model: choice.parts.model,
    output: ended ? outputOf(choice, endStatus) : [],
    parallel_tool_calls: body['parallel_tool_calls'] ?? true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null, ...(body['reasoning'] as Json | null | undefined) },
    store: false,
    temperature: body['temperature'] ?? 1,
    text: body['text'] ?? { format: { type: 'text' } },
    tool_choice: body['tool_choice'] ?? 'auto',
    tools: body['tools'] ?? [],
    top_p: body['top_p'] ?? 1,
    truncation: 'disabled',
    usage: ended ? usage(choice) : null,
    metadata: body['metadata'] ?? {},
  };
}

type Emit = (type: string, rest: Json) => string;

/** Events around one item of the output. */
interface ItemFrames {
  opening(): string[];
  closing(status: string): string[];
}

function textFrames(choice: Choice, event: Emit, place: Json): ItemFrames {
  const { output_index } = place;
  return {
    opening: () => [
      event('response.output_item.added', { output_index, item: message(choice, 'in_progress', []) }),
      event('response.content_part.added', { ...place, part: textPart('', null) }),
    ],
    closing(status) {
      const text = choice.pieces.join('');
      const logprobs = choice.logProbs ?? [];
      const part = textPart(text, logprobs);
      return [
        event('response.output_text.done', { ...place, text, logprobs }),
        event('response.content_part.done', { ...place, part }),
        event('response.output_item.done', { output_index, item: message(choice, status, [part]) }),
      ];
    },
  };
}

function reasoningFrames(choice: Choice, event: Emit, place: Json): ItemFrames {
  const { output_index } = place;
  return {
    opening: () => [
      event('response.output_item.added', { output_index, item: reasoningItem(choice, 'in_progress', []) }),
      event('response.content_part.added', { ...place, part: reasoningPart('') }),
    ],
    closing(status) {
      const part = reasoningPart(choice.reasoning);
      return [
        event('response.reasoning_text.done', { ...place, text: choice.reasoning }),
        event('response.content_part.done', { ...place, part }),
        event('response.output_item.done', { output_index, item: reasoningItem(choice, status, [part]) }),
      ];
    },
  };
}

function callFrames(choice: Choice, call: ToolCall, event: Emit, output_index: number): ItemFrames {
  return {
    opening: () => [event('response.output_item.added', { output_index, item: callItem(choice, call, 'in_progress') })],
    closing(status) {
      const item = callItem(choice, call, status);
      const at = { item_id: item['id'], output_index };
      return [
        item['type'] === 'custom_tool_call'
          ? event('response.custom_tool_call_input.done', { ...at, input: item['input'] })
          : event('response.function_call_arguments.done', { ...at, name: call.name, arguments: call.arguments }),
        event('response.output_item.done', { output_index, item }),
      ];
    },
  };
}

function frames(choice: Choice): Frames {
  let sequence = 0;
  let output_index = -1;
  let item: ItemFrames | undefined;
  let place: Json = {};
  /** Of the call of a custom tool that is being written. */
  let input: CustomInput | null = null;
  let beforeDelta = '';
  const delta = 'response.output_text.delta';
  const event: Emit = (type, rest) => namedFrame({ type, sequence_number: sequence++, ...rest });
  const begin = (make: () => ItemFrames): string[] => {
    const ended = item?.closing('completed') ?? [];
    output_index++;
    item = make();
    return [...ended, ...item.opening()];
  };
  const beginPart = (part: 'reasoning' | 'text'): string[] =>
    begin(() => {
      const prefix = part === 'text' ? 'msg' : 'rs';
      place = { item_id: `${prefix}_${choice.parts.id}`, output_index, content_index: 0 };
      beforeDelta = `event: ${delta}\ndata: {"type":"${delta}",${JSON.stringify(place).slice(1, -1)},"logprobs":`;
      return part === 'text' ? textFrames(choice, event, place) : reasoningFrames(choice, event, place);
    });
  return {
    opening: () => [
      event('response.created', { response: response(choice, 'started') }),
      event('response.in_progress', { response: response(choice, 'started') }),
    ],
    begin: beginPart,
    reasoning: (piece) => event('response.reasoning_text.delta', { ...place, delta: piece }),
    token(piece, _, listed) {
      const logprobs = listed === undefined ? '[]' : JSON.stringify(listed);
      return `${beforeDelta}${logprobs},"sequence_number":${sequence++},"delta":${JSON.stringify(piece)}}\n\n`;
    },
    call(call) {
      input = callsCustom(choice, call.name) ? new CustomInput() : null;
      return begin(() => callFrames(choice, call, event, output_index));
    },
    argument(more, at) {
      const { id } = choice.calls[at]!;
      if (input === null)
        return event('response.function_call_arguments.delta', { item_id: `fc_${id}`, output_index, delta: more });
      const escaped = input.add(more);
      if (escaped === '') return '';
      const text = parseJson(`"${escaped}"`);
      return event('response.custom_tool_call_input.delta', { item_id: `ctc_${id}`, output_index, delta: text });
    },
    closing() {
      const status = endStatusOf(choice);
      return [...(item?.closing(status) ?? []), event(`response.${status}`, { response: response(choice, 'ended') })];
    },
    failure: (why) =>
      event('response.failed', { response: response(choice, 'failed', { code: 'server_error', message: why }) }),
  };
}
