// The three dialects of the playground: what a conversation is as a request, and how events or a whole answer are read. Members that are
// not known are skipped, so that servers may add theirs.

import type {
  AttachedImage,
  Answer,
  Parameters,
  SignedThinking,
  TokenUsage,
  ToolCall,
  Tools,
  Turn,
} from './conversation.ts';

export type DialectName = 'chat' | 'messages' | 'responses';

export interface Dialect {
  readonly name: DialectName;
  readonly label: string;
  readonly path: string;
  /** Body of the request. */
  request(model: string, turns: readonly Turn[], tools: Tools, parameters: Parameters): object;
  /** A reader for one answer. */
  reader(): AnswerReader;
}

/** Puts an answer together. */
export interface AnswerReader {
  /** Takes the data of one event. */
  event(value: Json): void;
  /** Takes a whole answer. */
  whole(value: Json): void;
  readonly answer: Answer;
}

/** JSON that nobody has checked. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json | undefined };

function member(value: Json | undefined, ...path: readonly (string | number)[]): Json | undefined {
  let at = value;
  for (const step of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Readonly<Record<string | number, Json | undefined>>)[step];
  }
  return at;
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

function countOf(value: Json | undefined): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}

/** The message of an error of any dialect, or of the gateway. */
export function errorText(value: Json | undefined): string {
  for (const path of [['error', 'message'], ['message'], ['error'], ['detail']]) {
    const found = member(value, ...path);
    if (typeof found === 'string' && found !== '') return found;
  }
  const entries = listOf(member(value, 'detail')).map((entry) => {
    const where = listOf(member(entry, 'loc')).slice(1).map(String).join('.');
    return `${where === '' ? '' : `${where}: `}${textOf(member(entry, 'msg'))}`;
  });
  if (entries.length > 0) return entries.join('; ');
  return value === undefined ? 'no explanation was given' : JSON.stringify(value).slice(0, 500);
}

interface MutableCall {
  id: string;
  name: string;
  arguments: string;
}

/** Collects the parts of an answer. */
class Draft {
  text = '';
  reasoning = '';
  finish = '';
  usage: TokenUsage | null = null;
  error: string | null = null;
  complete = false;
  /** By their place in the answer. */
  readonly calls = new Map<number, MutableCall>();
  readonly thinking = new Map<number, { text: string; signature: string }>();

  call(place: number): MutableCall {
    const known = this.calls.get(place);
    if (known !== undefined) return known;
    const call = { id: '', name: '', arguments: '' };
    this.calls.set(place, call);
    return call;
  }

  thought(place: number): { text: string; signature: string } {
    const known = this.thinking.get(place);
    if (known !== undefined) return known;
    const thought = { text: '', signature: '' };
    this.thinking.set(place, thought);
    return thought;
  }

  get answer(): Answer {
    const { complete, error, finish, reasoning, text, usage } = this;
    const calls: ToolCall[] = [...this.calls.values()].map((call) => ({ ...call }));
    const thinking: SignedThinking[] = [...this.thinking.values()].filter(({ signature }) => signature !== '');
    return { text, reasoning, thinking: thinking.map((each) => ({ ...each })), calls, finish, usage, error, complete };
  }
}

/** Members of the body that all dialects name alike. */
function sampling({ temperature, topP }: Parameters): object {
  return { ...(temperature !== null && { temperature }), ...(topP !== null && { top_p: topP }) };
}

const DATA_URL = /^data:([^;,]+);base64,(.*)$/s;

// Chat completions.

function chatMessages(system: string, turns: readonly Turn[]): object[] {
  const messages: object[] = system === '' ? [] : [{ role: 'system', content: system }];
  for (const turn of turns) {
    if (turn.role === 'user') {
      const images = turn.images.map(({ url }) => ({ type: 'image_url', image_url: { url } }));
      const content = images.length === 0 ? turn.text : [{ type: 'text', text: turn.text }, ...images];
      messages.push({ role: 'user', content });
    } else if (turn.role === 'tool') {
      for (const { id, output } of turn.results) messages.push({ role: 'tool', tool_call_id: id, content: output });
    } else {
      const { calls, text } = turn.answer;
      const made = calls.map(({ id, name, arguments: args }) => ({
        id,
        type: 'function',
        function: { name, arguments: args === '' ? '{}' : args },
      }));
      messages.push({
        role: 'assistant',
        content: text === '' && made.length > 0 ? null : text,
        ...(made.length > 0 && { tool_calls: made }),
      });
    }
  }
  return messages;
}

class ChatReader implements AnswerReader {
  readonly #draft = new Draft();

  get answer(): Answer {
    return this.#draft.answer;
  }

  event(value: Json): void {
    const draft = this.#draft;
    if (member(value, 'error') !== undefined && member(value, 'error') !== null) {
      draft.error = errorText(value);
      return;
    }
    const choice = listOf(member(value, 'choices')).find((one) => (countOf(member(one, 'index')) ?? 0) === 0);
    this.#take(member(choice, 'delta') ?? member(choice, 'message'));
    const finish = textOf(member(choice, 'finish_reason'));
    if (finish !== '') {
      draft.finish = finish;
      draft.complete = true;
    }
    this.#count(member(value, 'usage'));
  }

  whole(value: Json): void {
    this.event(value);
    if (this.#draft.error === null) this.#draft.complete = true;
  }

  #take(delta: Json | undefined): void {
    const draft = this.#draft;
    draft.text += textOf(member(delta, 'content')) || textOf(member(delta, 'refusal'));
    draft.reasoning += textOf(member(delta, 'reasoning_content')) || textOf(member(delta, 'reasoning'));
    for (const [index, given] of listOf(member(delta, 'tool_calls')).entries()) {
      const call = draft.call(countOf(member(given, 'index')) ?? index);
      call.id ||= textOf(member(given, 'id'));
      call.name ||= textOf(member(given, 'function', 'name'));
      call.arguments += textOf(member(given, 'function', 'arguments'));
    }
  }

  #count(usage: Json | undefined): void {
    const input = countOf(member(usage, 'prompt_tokens'));
    if (input === null) return;
    const cached = countOf(member(usage, 'prompt_tokens_details', 'cached_tokens'));
    this.#draft.usage = { input, cached, output: countOf(member(usage, 'completion_tokens')) ?? 0 };
  }
}

const chat: Dialect = {
  name: 'chat',
  label: 'chat completions',
  path: '/v1/chat/completions',
  request(model, turns, { functions, others }, parameters) {
    const { extra, maxTokens, stream, system } = parameters;
    const tools = [...functions.map((tool) => ({ type: 'function', function: tool })), ...others];
    return {
      model,
      messages: chatMessages(system, turns),
      ...(tools.length > 0 && { tools }),
      ...(maxTokens !== null && { max_tokens: maxTokens }),
      ...sampling(parameters),
      ...(stream && { stream: true, stream_options: { include_usage: true } }),
      ...extra,
    };
  },
  reader: () => new ChatReader(),
};

// Messages.

function messagesImage({ url }: AttachedImage): object {
  const [, mediaType, data] = DATA_URL.exec(url) ?? [];
  if (mediaType === undefined) return { type: 'image', source: { type: 'url', url } };
  return { type: 'image', source: { type: 'base64', media_type: mediaType, data } };
}

/** Arguments as the object that they are; what is no JSON stands in a member of its own. */
function argumentsOf(text: string): object {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : { value };
  } catch {
    return { text };
  }
}

function messagesOf(turns: readonly Turn[]): object[] {
  return turns.map((turn) => {
    if (turn.role === 'user') {
      if (turn.images.length === 0) return { role: 'user', content: turn.text };
      return { role: 'user', content: [...turn.images.map(messagesImage), { type: 'text', text: turn.text }] };
    }
    if (turn.role === 'tool') {
      const results = turn.results.map(({ id, output }) => ({ type: 'tool_result', tool_use_id: id, content: output }));
      return { role: 'user', content: results };
    }
    const { calls, text, thinking } = turn.answer;
    return {
      role: 'assistant',
      content: [
        ...thinking.map((each) => ({ type: 'thinking', thinking: each.text, signature: each.signature })),
        // An empty text is refused.
        ...(text === '' ? [] : [{ type: 'text', text }]),
        ...calls.map(({ arguments: args, id, name }) => ({ type: 'tool_use', id, name, input: argumentsOf(args) })),
      ],
    };
  });
}

class MessagesReader implements AnswerReader {
  readonly #draft = new Draft();
  #input = 0;
  #cached: number | null = null;

  get answer(): Answer {
    return this.#draft.answer;
  }

  event(value: Json): void {
    const draft = this.#draft;
    const place = countOf(member(value, 'index')) ?? 0;
    switch (member(value, 'type')) {
      case 'message_start':
        this.#count(member(value, 'message', 'usage'));
        break;
      case 'content_block_start':
        this.#block(place, member(value, 'content_block'), true);
        break;
      case 'content_block_delta':
        this.#delta(place, member(value, 'delta'));
        break;
      case 'message_delta':
        draft.finish = textOf(member(value, 'delta', 'stop_reason')) || draft.finish;
        this.#count(member(value, 'usage'));
        break;
      case 'message_stop':
        draft.complete = true;
        break;
      case 'error':
        draft.error = errorText(value);
        break;
    }
  }

  whole(value: Json): void {
    for (const [place, block] of listOf(member(value, 'content')).entries()) this.#block(place, block, false);
    this.#draft.finish = textOf(member(value, 'stop_reason'));
    this.#count(member(value, 'usage'));
    this.#draft.complete = true;
  }

  #block(place: number, block: Json | undefined, isStart: boolean): void {
    const draft = this.#draft;
    switch (member(block, 'type')) {
      case 'text':
        draft.text += textOf(member(block, 'text'));
        break;
      case 'thinking': {
        const thought = draft.thought(place);
        thought.text += textOf(member(block, 'thinking'));
        thought.signature += textOf(member(block, 'signature'));
        draft.reasoning += textOf(member(block, 'thinking'));
        break;
      }
      case 'tool_use': {
        const call = draft.call(place);
        call.id = textOf(member(block, 'id'));
        call.name = textOf(member(block, 'name'));
        // At its start a call has an empty object, and its text follows.
        if (!isStart) call.arguments = JSON.stringify(member(block, 'input') ?? {});
        break;
      }
    }
  }

  #delta(place: number, delta: Json | undefined): void {
    const draft = this.#draft;
    switch (member(delta, 'type')) {
      case 'text_delta':
        draft.text += textOf(member(delta, 'text'));
        break;
      case 'thinking_delta':
        draft.thought(place).text += textOf(member(delta, 'thinking'));
        draft.reasoning += textOf(member(delta, 'thinking'));
        break;
      case 'signature_delta':
        draft.thought(place).signature += textOf(member(delta, 'signature'));
        break;
      case 'input_json_delta':
        draft.call(place).arguments += textOf(member(delta, 'partial_json'));
        break;
    }
  }

  /** The input is counted apart: new, read from the cache, written to it. */
  #count(usage: Json | undefined): void {
    const input = countOf(member(usage, 'input_tokens'));
    const read = countOf(member(usage, 'cache_read_input_tokens'));
    const written = countOf(member(usage, 'cache_creation_input_tokens'));
    if (input !== null) this.#input = input + (read ?? 0) + (written ?? 0);
    if (read !== null) this.#cached = read;
    const output = countOf(member(usage, 'output_tokens'));
    if (input === null && output === null) return;
    this.#draft.usage = { input: this.#input, cached: this.#cached, output: output ?? 0 };
  }
}

/** The messages dialect requires a limit. */
export const DEFAULT_MAX_TOKENS = 1024;

const messages: Dialect = {
  name: 'messages',
  label: 'messages',
  path: '/v1/messages',
  request(model, turns, { functions, others }, parameters) {
    const { extra, maxTokens, stream, system } = parameters;
    const own = functions.map(({ description, name, parameters: schema }) => ({
      name,
      description,
      input_schema: schema,
    }));
    const tools = [...own, ...others];
    return {
      model,
      max_tokens: maxTokens ?? DEFAULT_MAX_TOKENS,
      ...(system !== '' && { system }),
      messages: messagesOf(turns),
      ...(tools.length > 0 && { tools }),
      ...sampling(parameters),
      ...(stream && { stream: true }),
      ...extra,
    };
  },
  reader: () => new MessagesReader(),
};

// Responses.

function responseItems(turns: readonly Turn[]): object[] {
  return turns.flatMap((turn): object[] => {
    if (turn.role === 'user') {
      const images = turn.images.map(({ url }) => ({ type: 'input_image', image_url: url, detail: 'auto' }));
      return [{ role: 'user', content: [{ type: 'input_text', text: turn.text }, ...images] }];
    }
    if (turn.role === 'tool') {
      return turn.results.map(({ id, output }) => ({ type: 'function_call_output', call_id: id, output }));
    }
    const { calls, text } = turn.answer;
    return [
      ...(text === '' ? [] : [{ role: 'assistant', content: [{ type: 'output_text', text }] }]),
      ...calls.map(({ arguments: args, id, name }) => {
        return { type: 'function_call', call_id: id, name, arguments: args === '' ? '{}' : args };
      }),
    ];
  });
}

class ResponsesReader implements AnswerReader {
  readonly #draft = new Draft();

  get answer(): Answer {
    return this.#draft.answer;
  }

  event(value: Json): void {
    const draft = this.#draft;
    const place = countOf(member(value, 'output_index')) ?? 0;
    const delta = textOf(member(value, 'delta'));
    switch (member(value, 'type')) {
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        draft.text += delta;
        break;
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        draft.reasoning += delta;
        break;
      case 'response.output_item.added':
      case 'response.output_item.done':
        this.#call(place, member(value, 'item'));
        break;
      case 'response.function_call_arguments.delta':
        draft.call(place).arguments += delta;
        break;
      case 'response.completed':
      case 'response.incomplete':
        this.#end(member(value, 'response'));
        break;
      case 'response.failed':
        this.#end(member(value, 'response'));
        draft.error = errorText(member(value, 'response', 'error'));
        break;
      case 'error':
        draft.error = errorText(value);
        break;
    }
  }

  whole(value: Json): void {
    const draft = this.#draft;
    for (const [place, item] of listOf(member(value, 'output')).entries()) {
      this.#call(place, item);
      for (const part of listOf(member(item, 'content'))) {
        const text = textOf(member(part, 'text')) || textOf(member(part, 'refusal'));
        if (member(item, 'type') === 'reasoning') draft.reasoning += text;
        else draft.text += text;
      }
      for (const part of listOf(member(item, 'summary'))) draft.reasoning += textOf(member(part, 'text'));
    }
    this.#end(value);
    if (member(value, 'status') === 'failed') draft.error = errorText(member(value, 'error'));
  }

  #call(place: number, item: Json | undefined): void {
    if (member(item, 'type') !== 'function_call') return;
    const call = this.#draft.call(place);
    call.id = textOf(member(item, 'call_id'));
    call.name = textOf(member(item, 'name'));
    call.arguments = textOf(member(item, 'arguments')) || call.arguments;
  }

  #end(response: Json | undefined): void {
    const draft = this.#draft;
    const reason = textOf(member(response, 'incomplete_details', 'reason'));
    draft.finish = reason || textOf(member(response, 'status'));
    draft.complete = true;
    const usage = member(response, 'usage');
    const input = countOf(member(usage, 'input_tokens'));
    if (input === null) return;
    const cached = countOf(member(usage, 'input_tokens_details', 'cached_tokens'));
    draft.usage = { input, cached, output: countOf(member(usage, 'output_tokens')) ?? 0 };
  }
}

const responses: Dialect = {
  name: 'responses',
  label: 'responses',
  path: '/v1/responses',
  request(model, turns, { functions, others }, parameters) {
    const { extra, maxTokens, stream, system } = parameters;
    const tools = [...functions.map((tool) => ({ type: 'function', ...tool })), ...others];
    return {
      model,
      ...(system !== '' && { instructions: system }),
      input: responseItems(turns),
      ...(tools.length > 0 && { tools }),
      ...(maxTokens !== null && { max_output_tokens: maxTokens }),
      ...sampling(parameters),
      // The whole conversation is sent every time: nothing needs to be kept.
      store: false,
      ...(stream && { stream: true }),
      ...extra,
    };
  },
  reader: () => new ResponsesReader(),
};

export const DIALECTS: readonly Dialect[] = [chat, messages, responses];

export function dialectOf(name: string): Dialect {
  return DIALECTS.find((dialect) => dialect.name === name) ?? chat;
}

/** Takes pieces of an event stream and calls `onData` with the data of every event (WHATWG HTML, "Server-sent events"). */
export class EventStream {
  readonly #onData: (data: string) => void;
  readonly #decoder = new TextDecoder();
  /** A line that is not whole. */
  #rest = '';
  /** A carriage return at the end of a piece, which may be the first half of CR LF. */
  #return = '';
  #data: string[] = [];

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  push(piece: Uint8Array): void {
    const text = this.#return + this.#decoder.decode(piece, { stream: true });
    this.#return = text.endsWith('\r') ? '\r' : '';
    const [first = '', ...lines] = text.slice(0, text.length - this.#return.length).split(/\r\n|\n|\r/);
    this.#rest += first;
    for (const line of lines) {
      this.#line(this.#rest);
      this.#rest = line;
    }
  }

  /** The last event may lack its empty line. */
  end(): void {
    if (this.#rest !== '') this.#line(this.#rest);
    this.#rest = '';
    this.#line('');
  }

  #line(line: string): void {
    if (line.startsWith('data:')) {
      this.#data.push(line.slice('data:'.length).replace(/^ /, ''));
    } else if (line === '' && this.#data.length > 0) {
      const data = this.#data.join('\n');
      this.#data = [];
      this.#onData(data);
    }
  }
}
