// Carries the answer of a server that speaks chat completions to a client that speaks responses. A whole answer and the stream of the
// same answer give the same response object. Of a stream only that is kept which its closing events repeat.

import { randomBytes } from 'node:crypto';
import { systemEpochMs } from '../../actor/index.ts';
import { isFilled, membersOf, sseEvent, tokenCount } from '../dialect.ts';
import { ByteWriter } from './byte-writer.ts';
import { type ChatObject, type ChatEventListener, ChatEventReader } from './chat-events.ts';
import type { CalledTool, ResponseEcho } from './response-echo.ts';
import type { AnswerTranslator } from './translation.ts';

type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** A text that grows: a part of a message or of a reasoning item, or the arguments of a call. */
interface Text {
  /** As it is written between the quotes of JSON. */
  readonly bytes: ByteWriter;
  /** A delta event up to its text, and from the closing quote to its sequence number. `before` is null where deltas are not sent. */
  readonly before: Buffer | null;
  readonly after: string;
}

interface Part extends Text {
  readonly type: 'output_text' | 'refusal' | 'reasoning_text';
  /** The members that say where it is, in each of its events. */
  readonly place: string;
  /** Elements of JSON arrays. */
  readonly annotations: string[];
  readonly logprobs: string[];
}

interface TextItem {
  readonly type: 'message' | 'reasoning';
  readonly id: string;
  readonly index: number;
  readonly parts: Part[];
  status: ItemStatus;
}

interface CallItem {
  readonly type: 'function_call' | 'custom_tool_call' | 'local_shell_call' | 'tool_search_call';
  readonly id: string;
  readonly index: number;
  readonly callId: string;
  readonly tool: CalledTool;
  readonly arguments: Text;
  status: ItemStatus;
}

type Item = TextItem | CallItem;

/** A call as far as the server has sent it. It becomes an item when its name is known. */
interface Call {
  readonly index: unknown;
  id: string;
  name: string;
  /** Arguments that came before the name. */
  early: string;
  item: CallItem | null;
}

interface ReportedError {
  readonly message: string;
  readonly type: string;
  readonly param: unknown;
  readonly code: unknown;
}

/** How an answer ends. */
interface Ending {
  readonly status: 'completed' | 'incomplete' | 'failed';
  /** Why it is incomplete. */
  readonly reason: string | null;
  readonly error: ReportedError | null;
}

const COMPLETED: Ending = { status: 'completed', reason: null, error: null };

/** By finish reason. Others mean that the model has said all. */
const ENDINGS: ReadonlyMap<unknown, Ending> = new Map([
  ['length', { status: 'incomplete', reason: 'max_output_tokens', error: null }],
  ['content_filter', { status: 'incomplete', reason: 'content_filter', error: null }],
  ['error', failure({ message: 'The server ended the answer with an error' })],
  ['abort', failure({ message: 'The server aborted the answer' })],
]);

const CALLS = {
  function: { type: 'function_call', prefix: 'fc' },
  custom: { type: 'custom_tool_call', prefix: 'ctc' },
  local_shell: { type: 'local_shell_call', prefix: 'lsh' },
  tool_search: { type: 'tool_search_call', prefix: 'tsc' },
} as const;

/** Prefixes that servers give to the ids of answers. */
const ID_PREFIX = /^(?:chatcmpl|cmpl|chat|gen)[-_]/;
const USUAL_ID = /^[\w.:-]{1,128}$/;

/** Most texts of an answer are short. */
const FIRST_TEXT_BYTES = 512;

/** What was written for the last call of a translator. */
const out = new ByteWriter(16 * 1024);
const LARGEST_IDLE_BYTES = 1024 * 1024;

export class ResponsesAnswer implements AnswerTranslator, ChatEventListener {
  readonly #echo: ResponseEcho;
  readonly #epochMs: () => number;
  readonly #reader: ChatEventReader;
  #sequence = 0;
  /** What all ids of the response contain; '' before the first event. */
  #id = '';
  #createdAt = 0;
  /** JSON. */
  #model = '';
  #serviceTier = '';
  #usage: unknown;
  #ending: Ending | null = null;
  /** The last event has been written. */
  #hasEnded = false;
  readonly #items: Item[] = [];
  readonly #calls: Call[] = [];
  /** The message or the reasoning that is not done. Calls are done at the end: their pieces may come in any order. */
  #open: TextItem | null = null;
  /** Where the text of the last chunk went. */
  #text: Text | null = null;

  /**
   * @param echo what the response repeats of its request
   * @param epochMs milliseconds since 1970. Default: the clock of the machine
   */
  constructor(echo: ResponseEcho, epochMs: () => number = systemEpochMs) {
    this.#echo = echo;
    this.#epochMs = epochMs;
    this.#reader = new ChatEventReader(this);
  }

  get nextSequence(): number {
    return this.#sequence;
  }

  events(piece: Buffer): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    if (!this.#hasEnded) this.#reader.read(piece);
    return out.view();
  }

  end(): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    if (!this.#hasEnded) {
      this.#reader.end();
      if (this.#ending === null) this.onError({ message: 'The server ended the answer before it was complete' });
      else this.onDone();
    }
    return out.view();
  }

  whole(body: Buffer): Buffer {
    const answer = membersOf(parsed(body));
    const { choices } = answer;
    this.#readHead(answer);
    this.#usage = answer['usage'];
    const { finish_reason: reason, logprobs, message } = membersOf(Array.isArray(choices) ? choices[0] : undefined);
    if (isFilled(message)) this.#readDelta(membersOf(message), logprobs, true);
    const ending = isFilled(message) ? endingOf(reason) : failure({ message: 'The server answered without a message' });
    this.#closeItems(ending);
    // The events that a stream would have had.
    out.clear(LARGEST_IDLE_BYTES);
    this.#writeResponse(ending);
    return out.view();
  }

  error(status: number, body: Buffer): Buffer {
    const answer = parsed(body);
    const { error, detail, message } = membersOf(answer);
    const text = body.toString().trim();
    // Older servers have the members of the error at the top, frameworks their own `detail`.
    const reported = isFilled(error) ? error : isFilled(message) ? answer : isFilled(detail) ? detail : text;
    const type = status >= 500 ? 'server_error' : 'invalid_request_error';
    const known = isFilled(answer) && !Array.isArray(answer) && typeof answer === 'object' ? answer : {};
    return Buffer.from(JSON.stringify({ ...known, error: errorOf(reported, type) }));
  }

  /** @internal */
  onChunk(chunk: ChatObject): void {
    if (this.#hasEnded) return;
    if (this.#id === '') {
      this.#readHead(chunk);
      this.#writeOpening();
    }
    const { choices, service_tier: tier, usage } = chunk;
    if (isFilled(usage)) this.#usage = usage;
    if (typeof tier === 'string') this.#serviceTier = JSON.stringify(tier);
    if (!Array.isArray(choices)) return;
    for (const choice of choices) {
      const { delta, finish_reason: reason, index, logprobs } = membersOf(choice);
      if ((index ?? 0) !== 0) continue;
      this.#readDelta(membersOf(delta), logprobs, false);
      if (isFilled(reason)) this.#ending = endingOf(reason);
    }
  }

  /** @internal */
  onText(piece: Buffer, start: number, end: number): void {
    const text = this.#text;
    if (text === null || this.#hasEnded) return;
    text.bytes.copy(piece, start, end);
    if (text.before === null) return;
    out.copy(text.before, 0, text.before.length);
    out.copy(piece, start, end);
    this.#endDelta(text.after);
  }

  /** @internal */
  onDone(): void {
    if (this.#hasEnded) return;
    const ending = this.#ending ?? COMPLETED;
    if (this.#id === '') {
      this.#readHead({});
      this.#writeOpening();
    }
    if (ending.error !== null) {
      this.onError(ending.error);
      return;
    }
    this.#closeItems(ending);
    this.#hasEnded = true;
    this.#startEvent(`response.${ending.status}`);
    out.latin1('"response":');
    this.#writeResponse(ending);
    this.#endEvent();
  }

  /** @internal The same events as `errorEvent` writes, but with all that is known of the response. */
  onError(error: unknown): void {
    if (this.#hasEnded) return;
    if (this.#id === '') this.#readHead({});
    this.#hasEnded = true;
    const ending = failure(error);
    const reported = ending.error as ReportedError;
    const { code, message, param } = reported;
    const event = { type: 'error', code, message, param, sequence_number: this.#sequence++, error: reported };
    out.utf8(sseEvent('error', event));
    for (const item of this.#items) if (item.status === 'in_progress') item.status = 'incomplete';
    this.#startEvent('response.failed');
    out.latin1('"response":');
    this.#writeResponse(ending);
    this.#endEvent();
  }

  /** @internal */
  onComment(line: string): void {
    out.utf8(`${line}\n\n`);
  }

  #readHead({ created, id, model, service_tier: tier }: ChatObject): void {
    const usual = typeof id === 'string' ? id.replace(ID_PREFIX, '') : '';
    this.#id = USUAL_ID.test(usual) ? usual : randomBytes(12).toString('hex');
    this.#createdAt = typeof created === 'number' ? created : this.#seconds();
    this.#model = JSON.stringify(typeof model === 'string' && model !== '' ? model : this.#echo.model);
    this.#serviceTier = typeof tier === 'string' ? JSON.stringify(tier) : this.#echo.serviceTier;
  }

  #seconds(): number {
    return Math.floor(this.#epochMs() / 1000);
  }

  #writeOpening(): void {
    for (const type of ['response.created', 'response.in_progress']) {
      this.#startEvent(type);
      out.latin1('"response":');
      this.#writeResponse(null);
      this.#endEvent();
    }
  }

  /** A delta, or the message of a whole answer: they have the same members. */
  #readDelta(delta: ChatObject, logprobs: unknown, isWhole: boolean): void {
    const { annotations, content, function_call: called, reasoning, reasoning_content: thoughts, refusal } = delta;
    const { tool_calls: calls } = delta;
    this.#text = null;
    // Some servers send the same text under both names.
    const thought = isFilled(thoughts) ? thoughts : reasoning;
    if (isFilled(thought) && typeof thought === 'string') this.#addText('reasoning_text', thought, []);
    const probabilities = membersOf(logprobs)['content'];
    if (typeof content === 'string' && (content !== '' || isFilled(probabilities))) {
      this.#addText('output_text', content, Array.isArray(probabilities) ? probabilities : []);
    }
    if (Array.isArray(annotations)) for (const annotation of annotations) this.#addAnnotation(annotation);
    if (isFilled(refusal) && typeof refusal === 'string') this.#addText('refusal', refusal, []);
    if (Array.isArray(calls)) {
      for (const [position, call] of calls.entries()) this.#readCall(membersOf(call), isWhole ? position : undefined);
    }
    if (isFilled(called)) this.#readCall({ function: called }, 0);
  }

  #addText(type: Part['type'], text: string, logprobs: readonly unknown[]): void {
    const part = this.#partOf(type);
    for (const element of logprobs) part.logprobs.push(JSON.stringify(element));
    const after = logprobs.length === 0 ? part.after : part.after.replace('[]', () => JSON.stringify(logprobs));
    this.#append(part, JSON.stringify(text).slice(1, -1), after);
  }

  #append(text: Text, escaped: string, after: string): void {
    this.#text = text;
    text.bytes.utf8(escaped);
    if (text.before === null) return;
    out.copy(text.before, 0, text.before.length);
    out.utf8(escaped);
    this.#endDelta(after);
  }

  /** @param after ASCII, or with characters that JSON does not escape */
  #endDelta(after: string): void {
    out.utf8(after);
    out.digits(this.#sequence++);
    out.latin1('}\n\n');
  }

  /** The part that takes more text of this type: the last one, or a new one. */
  #partOf(type: Part['type']): Part {
    const itemType = type === 'reasoning_text' ? 'reasoning' : 'message';
    if (this.#open?.type !== itemType) this.#closeOpen('completed');
    const item = (this.#open ??= this.#openTextItem(itemType));
    const last = item.parts.at(-1);
    if (last?.type === type) return last;
    if (last !== undefined) this.#writePartDone(last);
    const place = `"item_id":"${item.id}","output_index":${item.index},"content_index":${item.parts.length},`;
    const name = `response.${type}.delta`;
    const part: Part = {
      type,
      place,
      bytes: new ByteWriter(FIRST_TEXT_BYTES),
      before: Buffer.from(`event: ${name}\ndata: {"type":"${name}",${place}"delta":"`),
      after: type === 'output_text' ? '","logprobs":[],"sequence_number":' : '","sequence_number":',
      annotations: [],
      logprobs: [],
    };
    item.parts.push(part);
    this.#startEvent('response.content_part.added');
    out.latin1(`${place}"part":`);
    writePart(part);
    this.#endEvent();
    return part;
  }

  #openTextItem(type: TextItem['type']): TextItem {
    const index = this.#items.length;
    const id = `${type === 'message' ? 'msg' : 'rs'}_${this.#id}_${index}`;
    const item: TextItem = { type, id, index, parts: [], status: 'in_progress' };
    this.#items.push(item);
    this.#writeItemEvent('response.output_item.added', item);
    return item;
  }

  #addAnnotation(annotation: unknown): void {
    const { url_citation: citation, ...members } = membersOf(annotation);
    const flat = JSON.stringify({ ...members, ...membersOf(citation) });
    const { annotations, place } = this.#partOf('output_text');
    this.#startEvent('response.output_text.annotation.added');
    out.utf8(`${place}"annotation_index":${annotations.length},"annotation":${flat}`);
    this.#endEvent();
    annotations.push(flat);
  }

  /** @param position of a call that is whole */
  #readCall({ function: called, id, index }: ChatObject, position: number | undefined): void {
    const { arguments: text, name } = membersOf(called);
    const call = this.#callOf(position ?? index, textOf(id), textOf(name));
    const more = typeof text === 'string' ? text : isFilled(text) ? JSON.stringify(text) : '';
    if (call.item === null && call.name !== '') this.#openCall(call);
    if (call.item === null) call.early += more;
    else if (more !== '') {
      const { arguments: open } = call.item;
      this.#append(open, JSON.stringify(more).slice(1, -1), open.after);
    }
  }

  /**
   * The call that a piece belongs to. Some servers number all calls 0 and some leave the number out: a name with another id begins
   * another call. Some make a new id for every piece: without a name it says nothing.
   */
  #callOf(index: unknown, id: string, name: string): Call {
    const isNumbered = typeof index === 'number';
    const known = isNumbered ? this.#calls.findLast((call) => call.index === index) : this.#calls.at(-1);
    const isOther = name !== '' && known !== undefined && known.name !== '' && (isNumbered ? id !== '' : true);
    if (known !== undefined && !(isOther && (known.id !== id || id === ''))) {
      if (known.item === null) {
        known.id ||= id;
        known.name ||= name;
      }
      return known;
    }
    const call: Call = { index, id, name, early: '', item: null };
    this.#calls.push(call);
    return call;
  }

  #openCall(call: Call): CallItem {
    this.#closeOpen('completed');
    const index = this.#items.length;
    const tool = this.#echo.toolOf(call.name);
    const { prefix, type } = CALLS[tool.type];
    const id = `${prefix}_${this.#id}_${index}`;
    // Clients tell calls by their ids.
    const isKnown = this.#items.some((item) => 'callId' in item && item.callId === call.id);
    const name = 'response.function_call_arguments.delta';
    const head = `event: ${name}\ndata: {"type":"${name}","item_id":"${id}","output_index":${index},"delta":"`;
    const item: CallItem = {
      type,
      id,
      index,
      callId: call.id === '' || isKnown ? `call_${this.#id}_${index}` : call.id,
      tool,
      arguments: {
        bytes: new ByteWriter(FIRST_TEXT_BYTES),
        before: type === 'function_call' ? Buffer.from(head) : null,
        after: '","sequence_number":',
      },
      status: 'in_progress',
    };
    this.#items.push(item);
    call.item = item;
    this.#writeItemEvent('response.output_item.added', item);
    if (call.early !== '') this.#append(item.arguments, JSON.stringify(call.early).slice(1, -1), item.arguments.after);
    return item;
  }

  /** Ends all items. A model that has said nothing has sent an empty message. */
  #closeItems({ status }: Ending): void {
    if (status === 'completed' && this.#items.every(({ type }) => type === 'reasoning') && this.#calls.length === 0) {
      this.#partOf('output_text');
    }
    const itemStatus = status === 'completed' ? 'completed' : 'incomplete';
    this.#closeOpen(itemStatus);
    for (const call of this.#calls) this.#closeCall(call.item ?? this.#openCall(call), itemStatus);
  }

  #closeOpen(status: ItemStatus): void {
    const item = this.#open;
    if (item === null) return;
    this.#open = null;
    this.#text = null;
    item.status = status;
    const last = item.parts.at(-1);
    if (last !== undefined) this.#writePartDone(last);
    this.#writeItemEvent('response.output_item.done', item);
  }

  #writePartDone(part: Part): void {
    this.#startEvent(`response.${part.type}.done`);
    out.latin1(`${part.place}"${part.type === 'refusal' ? 'refusal' : 'text'}":"`);
    out.append(part.bytes);
    out.latin1('"');
    if (part.type === 'output_text') out.utf8(`,"logprobs":[${part.logprobs.join()}]`);
    this.#endEvent();
    this.#startEvent('response.content_part.done');
    out.latin1(`${part.place}"part":`);
    writePart(part);
    this.#endEvent();
  }

  #closeCall(item: CallItem, status: ItemStatus): void {
    const { arguments: text, id, index, tool, type } = item;
    const place = `"item_id":"${id}","output_index":${index},`;
    if (type === 'function_call') {
      // A call without arguments is one with none: clients parse them.
      if (text.bytes.length === 0) this.#append(text, '{}', text.after);
      this.#startEvent('response.function_call_arguments.done');
      out.utf8(`${place}"name":${JSON.stringify(tool.name)},"arguments":"`);
      out.append(text.bytes);
      out.latin1('"');
      this.#endEvent();
    } else if (type === 'custom_tool_call') {
      const input = JSON.stringify(inputOf(text));
      this.#startEvent('response.custom_tool_call_input.delta');
      out.utf8(`${place}"delta":${input}`);
      this.#endEvent();
      this.#startEvent('response.custom_tool_call_input.done');
      out.utf8(`${place}"input":${input}`);
      this.#endEvent();
    }
    item.status = status;
    this.#writeItemEvent('response.output_item.done', item);
  }

  #startEvent(type: string): void {
    out.latin1(`event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},`);
  }

  #endEvent(): void {
    out.latin1('}\n\n');
  }

  #writeItemEvent(type: string, item: Item): void {
    this.#startEvent(type);
    out.latin1(`"output_index":${item.index},"item":`);
    writeItem(item);
    this.#endEvent();
  }

  /** @param ending null: it goes on */
  #writeResponse(ending: Ending | null): void {
    const { members } = this.#echo;
    const error = ending?.error ?? null;
    const code = typeof error?.code === 'string' ? error.code : 'server_error';
    out.utf8(
      `{"id":"resp_${this.#id}","object":"response","created_at":${this.#createdAt},` +
        `"status":"${ending?.status ?? 'in_progress'}","model":${this.#model},"service_tier":${this.#serviceTier},`,
    );
    out.copy(members, 0, members.length);
    out.utf8(
      `,"completed_at":${ending?.status === 'completed' ? this.#seconds() : 'null'},` +
        `"error":${error === null ? 'null' : JSON.stringify({ code, message: error.message })},` +
        `"incomplete_details":${typeof ending?.reason === 'string' ? `{"reason":"${ending.reason}"}` : 'null'},"output":[`,
    );
    for (const item of ending === null ? [] : this.#items) {
      if (item.index > 0) out.latin1(',');
      writeItem(item);
    }
    out.utf8(`],"usage":${ending === null ? 'null' : JSON.stringify(usageOf(this.#usage))}}`);
  }
}

function writePart({ annotations, bytes, logprobs, type }: Part): void {
  out.latin1(`{"type":"${type}","${type === 'refusal' ? 'refusal' : 'text'}":"`);
  out.append(bytes);
  out.latin1('"');
  if (type === 'output_text') {
    out.utf8(`,"annotations":[${annotations.join()}],"logprobs":[${logprobs.join()}]`);
  }
  out.latin1('}');
}

function writeItem(item: Item): void {
  const { id, status, type } = item;
  out.latin1(`{"id":"${id}","type":"${type}",`);
  if ('parts' in item) {
    out.latin1(
      type === 'reasoning' ? '"summary":[],"content":[' : `"status":"${status}","role":"assistant","content":[`,
    );
    for (const [index, part] of item.parts.entries()) {
      if (index > 0) out.latin1(',');
      writePart(part);
    }
    out.latin1(']}');
    return;
  }
  const { arguments: text, callId, tool } = item;
  out.utf8(`"status":"${status}","call_id":${JSON.stringify(callId)},`);
  if (type === 'local_shell_call') {
    out.utf8(`"action":${JSON.stringify({ type: 'exec', command: [], env: {}, ...membersOf(parsedText(text)) })}}`);
    return;
  }
  if (type === 'tool_search_call') {
    out.utf8(`"execution":"client","arguments":${JSON.stringify(parsedText(text) ?? {})}}`);
    return;
  }
  out.utf8(`"name":${JSON.stringify(tool.name)},`);
  if (tool.namespace !== undefined) out.utf8(`"namespace":${JSON.stringify(tool.namespace)},`);
  if (type === 'custom_tool_call') {
    out.utf8(`"input":${JSON.stringify(inputOf(text))}}`);
    return;
  }
  out.latin1('"arguments":"');
  out.append(text.bytes);
  out.latin1('"}');
}

/** The text of a call of a custom tool. The server's model has written it into a JSON object; if not, it is what it has written. */
function inputOf(text: Text): string {
  const { input } = membersOf(parsedText(text));
  return typeof input === 'string' ? input : unescaped(text);
}

function unescaped({ bytes }: Text): string {
  return JSON.parse(`"${bytes.toString()}"`) as string;
}

function parsedText(text: Text): unknown {
  return parsed(unescaped(text));
}

function parsed(json: Buffer | string): unknown {
  try {
    return JSON.parse(json.toString()) as unknown;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function endingOf(reason: unknown): Ending {
  return ENDINGS.get(reason) ?? COMPLETED;
}

function failure(error: unknown): Ending {
  return { status: 'failed', reason: null, error: errorOf(error, 'server_error') };
}

/** The error object of the OpenAI dialects. `error` is one of them, or one with other members, or a text. */
function errorOf(error: unknown, usualType: string): ReportedError {
  const { code, message, param, type, detail } = membersOf(error);
  const said = isFilled(message) ? message : isFilled(detail) ? detail : error;
  return {
    message: typeof said === 'string' ? said : JSON.stringify(said),
    type: isFilled(type) && typeof type === 'string' ? type : usualType,
    param: param ?? null,
    code: code ?? null,
  };
}

/** Token counts of a chat answer as those of a response; null when it has none. */
function usageOf(usage: unknown): Readonly<Record<string, unknown>> | null {
  const { completion_tokens: completion, completion_tokens_details: outputDetails } = membersOf(usage);
  const { prompt_tokens: prompt, prompt_tokens_details: inputDetails, total_tokens: total } = membersOf(usage);
  const input = tokenCount(prompt);
  const output = tokenCount(completion);
  if (input === undefined && output === undefined) return null;
  return {
    input_tokens: input ?? 0,
    input_tokens_details: { cached_tokens: tokenCount(membersOf(inputDetails)['cached_tokens']) ?? 0 },
    output_tokens: output ?? 0,
    output_tokens_details: { reasoning_tokens: tokenCount(membersOf(outputDetails)['reasoning_tokens']) ?? 0 },
    total_tokens: tokenCount(total) ?? (input ?? 0) + (output ?? 0),
  };
}
