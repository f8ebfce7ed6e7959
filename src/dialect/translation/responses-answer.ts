// Carries the answer of a server that speaks chat completions to a client that speaks responses. A whole answer and the stream of the
// same answer give the same response object. Of a stream only that is kept which its closing events repeat.

import { randomBytes } from 'node:crypto';
import { systemEpochMs } from '../../actor/index.ts';
import { type Failure, isFilled, sseEvent, tokenCount } from '../dialect.ts';
import { ByteWriter } from './byte-writer.ts';
import { callsOf, errorOf, FAILED_FINISHES, isBare, reasoningOf, type ServerError, textOf } from './chat-answer.ts';
import { type BlockKind, ChatBlocks, type ChatBlocksListener } from './chat-blocks.ts';
import type { ChatObject } from './chat-events.ts';
import { CustomInput, customInputOf } from './custom-input.ts';
import type { HostedPage, HostedStep } from './hosted-search.ts';
import { opaqueReasoning } from './opaque-reasoning.ts';
import type { CalledTool, ResponseEcho } from './response-echo.ts';
import type { AnswerTranslator } from './translation.ts';
import { type EscapedText, wholeAnswerOf } from './whole-answer.ts';
import { parseJson } from '../../config/json-text.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';

type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** A text that grows: a part of a message or of a reasoning item, or the arguments of a call. */
interface Text {
  /** As it is written between the quotes of JSON. */
  readonly bytes: ByteWriter;
  /** A delta event up to its text, and from the closing quote to its sequence number. `before` is null where deltas are not sent. */
  readonly before: Buffer | null;
  readonly after: string;
  /** Of a custom tool, whose deltas are those of the text in the arguments. */
  readonly input: CustomInput | null;
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
  /** Whether the client wants its text in the form that it sends back too. */
  readonly isOpaque: boolean;
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

/** A search that the gateway runs, or a page that it opens. */
interface SearchItem {
  readonly type: 'web_search_call';
  readonly id: string;
  readonly index: number;
  status: ItemStatus | 'failed';
  /** The members behind its status, as JSON. */
  rest: string;
}

type Item = TextItem | CallItem | SearchItem;

/** How an answer ends. */
interface Ending {
  readonly status: 'completed' | 'incomplete' | 'failed';
  /** Why it is incomplete. */
  readonly reason: string | null;
  readonly error: ServerError | null;
}

const COMPLETED: Ending = { status: 'completed', reason: null, error: null };

/** By finish reason. Others mean that the model has said all. */
const ENDINGS: ReadonlyMap<unknown, Ending> = new Map<unknown, Ending>([
  ['length', { status: 'incomplete', reason: 'max_output_tokens', error: null }],
  ['content_filter', { status: 'incomplete', reason: 'content_filter', error: null }],
  ...[...FAILED_FINISHES].map(([reason, message]) => [reason, failure(message)] as const),
]);

const CALLS = {
  function: { type: 'function_call', prefix: 'fc' },
  custom: { type: 'custom_tool_call', prefix: 'ctc' },
  local_shell: { type: 'local_shell_call', prefix: 'lsh' },
  tool_search: { type: 'tool_search_call', prefix: 'tsc' },
} as const;

/** The parts in which blocks of a chat answer are. */
const PARTS = { text: 'output_text', refusal: 'refusal', reasoning: 'reasoning_text' } as const;

const NO_BYTES: Buffer = Buffer.alloc(0);
const NO_ARGUMENTS: Buffer = Buffer.from('{}');

/** Prefixes that servers give to the ids of answers. */
const ID_PREFIX = /^(?:chatcmpl|cmpl|chat|gen)[-_]/;
const USUAL_ID = /^[\w.:-]{1,128}$/;
/** Some servers count their answers or draw from a thousand numbers: shorter ids are not unique. */
const UNIQUE_CHARS = 20;

const PROCESS_ID = randomBytes(8).toString('hex');
let answers = 0;

function uniqueId(): string {
  return `${PROCESS_ID}${(answers++).toString(36)}`;
}

/** What an answer takes from outside. */
export interface AnswerSources {
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Part of an id that no other answer has: letters and digits. */
  readonly uniqueId: () => string;
}

const SOURCES: AnswerSources = { epochMs: systemEpochMs, uniqueId };

/** Most texts of an answer are short. */
const FIRST_TEXT_BYTES = 512;
/** Most text of a stream that is kept for its closing events. A server that does not stop must not fill the memory. */
const MAX_KEPT_BYTES = 16 * 1024 * 1024;
const TOO_LONG = `The answer is longer than ${MAX_KEPT_BYTES} bytes, which is the most that is translated`;

/** What was written for the last call of a translator. */
const out = new ByteWriter(16 * 1024);
const LARGEST_IDLE_BYTES = 1024 * 1024;

export class ResponsesAnswer implements AnswerTranslator, ChatBlocksListener {
  readonly #echo: ResponseEcho;
  readonly #sources: AnswerSources;
  /** Of a stream. */
  #stream: ChatBlocks | null = null;
  #sequence = 0;
  /** What all ids of the response contain; '' before the first event. */
  #id = '';
  #createdAt = 0;
  /** JSON. */
  #model = '';
  #serviceTier = '';
  readonly #items: Item[] = [];
  /** Null while there was no call. */
  #callIds: Set<string> | null = null;
  /** The message or the reasoning that is not done. */
  #open: TextItem | null = null;
  #call: CallItem | null = null;
  /** The text that grows. */
  #text: Text | null = null;
  #keptBytes = 0;
  /** The last event has been written. */
  #hasEnded = false;
  /** A whole answer has no events. */
  #isWhole = false;
  // What came without text: it goes with the next one. JSON.
  #logprobs: string[] = [];
  #annotations: string[] = [];

  /** @param echo what the response repeats of its request */
  constructor(echo: ResponseEcho, sources: AnswerSources = SOURCES) {
    this.#echo = echo;
    this.#sources = sources;
  }

  get nextSequence(): number {
    return this.#sequence;
  }

  get hasFailed(): boolean {
    return this.#stream?.failed === true;
  }

  get #blocks(): ChatBlocks {
    return (this.#stream ??= new ChatBlocks(this));
  }

  events(piece: Buffer): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    this.#blocks.read(piece);
    return out.view();
  }

  end(): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    this.#blocks.end();
    return out.view();
  }

  broken({ code, message, status }: Failure): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    this.#blocks.onError({ code, message, status });
    return out.view();
  }

  hosted(step: HostedStep): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    if (this.#hasEnded || step.kind === 'cite') return out.view();
    this.#blocks.endBlocks();
    if (step.kind === 'search') this.#openSearch(step.search.id, searchAction(step.search.query));
    else if (step.kind === 'open') this.#openSearch(step.page.id, pageAction(step.page));
    else if (step.kind === 'opened') this.#closeSearch(step.page.id, pageAction(step.page), step);
    else if (step.kind === 'found') {
      const { search, sources } = step;
      const found = this.#echo.wantsSearchSources && { sources: sources.map(({ url }) => ({ type: 'url', url })) };
      this.#closeSearch(search.id, { ...searchAction(search.query), ...found }, step);
    }
    return out.view();
  }

  whole(body: Buffer): Buffer {
    const { calls, choice, head, message, reasoning, refusal, text, usage } = wholeAnswerOf(body);
    this.#isWhole = true;
    this.#readHead(head);
    this.onChoice({ message, logprobs: choice['logprobs'] });
    this.#say('reasoning', reasoning);
    this.#say('text', text);
    this.#say('refusal', refusal);
    const ending = endingOf(choice['finish_reason']);
    for (const call of calls) {
      const item = this.#openCall(call);
      if (!isBare(call.arguments)) this.#add(call.arguments);
      this.#closeCall(item, ending);
    }
    this.#closeItems(ending);
    out.clear(LARGEST_IDLE_BYTES);
    this.#writeResponse(ending, usage);
    return out.view();
  }

  error(status: number, body: Buffer): Buffer {
    const text = body.toString();
    const answer = parsedJson(text);
    const known = isFilled(answer) && !Array.isArray(answer) ? membersOf(answer) : {};
    const { error } = known;
    const { code, message, param, type } = errorOf(answer ?? text);
    const read = { message, type: type || typeOf(status), param: param || null, code: code || null };
    return Buffer.from(
      JSON.stringify({ ...known, error: { ...read, ...filled(isFilled(error) ? error : known, read) } }),
    );
  }

  /** @internal */
  onStart(chunk: ChatObject): void {
    this.#readHead(chunk);
    for (const type of ['response.created', 'response.in_progress']) {
      this.#startEvent(type);
      out.latin1('"response":');
      this.#writeResponse(null, null);
      this.#endEvent();
    }
  }

  /** @internal */
  onChoice({ delta, logprobs, message }: ChatObject): void {
    const members = membersOf(delta ?? message);
    const { annotations } = members;
    const { content } = membersOf(logprobs);
    // Of a delta without text they are those of reasoning and calls.
    const hasOther = reasoningOf(members) !== '' || callsOf(members).length > 0;
    const isOther = delta !== undefined && hasOther && textOf(members['content']) === '';
    if (Array.isArray(content) && !isOther) for (const each of content) this.#keepJson(each, this.#logprobs);
    if (Array.isArray(annotations)) for (const each of annotations) this.#keepJson(flat(each), this.#annotations);
  }

  /** @internal */
  onBlock(kind: BlockKind, call: { readonly id: string; readonly name: string } | null): void {
    if (this.#hasEnded) return;
    if (call !== null) this.#openCall(call);
    else this.#text = this.#partOf(PARTS[kind as Exclude<BlockKind, 'call'>]);
  }

  /** @internal */
  onText(bytes: Buffer, start: number, end: number): void {
    const text = this.#text as Text;
    if (this.#hasEnded) return;
    if (!this.#keeps(end - start)) return;
    text.bytes.copy(bytes, start, end);
    if (text.before === null) return;
    if (text.input !== null) {
      const args = parseJson(`"${bytes.toString('utf8', start, end)}"`) as string;
      this.#writeDelta(text.before, text.input.add(args), text.after);
      return;
    }
    out.copy(text.before, 0, text.before.length);
    out.copy(bytes, start, end);
    if (this.#logprobs.length > 0) this.#writeLogprobs(text as Part);
    else out.latin1(text.after);
    out.digits(this.#sequence++);
    this.#endEvent();
  }

  /** @internal Texts end with their items: a refusal and a text may follow one another in one message. */
  onBlockEnd(kind: BlockKind): void {
    if (kind === 'call' && !this.#hasEnded)
      this.#closeCall(this.#call as CallItem, endingOf(this.#blocks.finishReason));
  }

  /** @internal */
  onDone(): void {
    const ending = endingOf(this.#blocks.finishReason);
    if (this.#id === '') this.onStart({});
    if (ending.error !== null) {
      this.onError(ending.error);
      return;
    }
    this.#closeItems(ending);
    this.#writeEnd(ending);
  }

  /** @internal The same events as `errorEvent` writes, but with all that is known of the response. */
  onError(reported: ServerError): void {
    if (this.#id === '') this.#readHead({});
    const { code, message, param, status } = reported;
    const error = {
      message,
      type: reported.type || typeOf(status),
      param: param || null,
      code: code || (status > 0 ? String(status) : null),
    };
    const { type: _, ...members } = error;
    out.utf8(sseEvent('error', { type: 'error', ...members, sequence_number: this.#sequence++, error }));
    for (const item of this.#items) if (item.status === 'in_progress') item.status = 'incomplete';
    this.#writeEnd({ status: 'failed', reason: null, error: reported });
  }

  /** @internal */
  onComment(line: string): void {
    out.utf8(`${line}\n\n`);
  }

  #readHead({ created, id, model, service_tier: tier }: ChatObject): void {
    const usual = typeof id === 'string' ? id.replace(ID_PREFIX, '') : '';
    const known = USUAL_ID.test(usual) ? usual : '';
    if (known.length >= UNIQUE_CHARS) this.#id = known;
    else this.#id = `${known}${known === '' ? '' : '_'}${this.#sources.uniqueId()}`;
    this.#createdAt = Number.isFinite(created) ? (created as number) : this.#seconds();
    this.#model = JSON.stringify(typeof model === 'string' && model !== '' ? model : this.#echo.model);
    this.#serviceTier = typeof tier === 'string' ? JSON.stringify(tier) : this.#echo.serviceTier;
  }

  #seconds(): number {
    return Math.floor(this.#sources.epochMs() / 1000);
  }

  /** Counts bytes that are kept for the closing events. False: they are too many, and the stream has ended. */
  #keeps(bytes: number): boolean {
    this.#keptBytes += bytes;
    if (this.#isWhole || this.#keptBytes <= MAX_KEPT_BYTES) return true;
    this.#blocks.onError({ message: TOO_LONG, code: 'HR_STREAM_BROKEN' });
    return false;
  }

  #keepJson(value: unknown, list: string[]): void {
    const json = JSON.stringify(value);
    if (this.#keeps(json.length)) list.push(json);
  }

  /** @param escaped as it is written between the quotes of JSON */
  #writeDelta(before: Buffer, escaped: string, after: string): void {
    if (escaped === '') return;
    out.copy(before, 0, before.length);
    out.utf8(escaped);
    out.latin1(after);
    out.digits(this.#sequence++);
    this.#endEvent();
  }

  /** A text that is whole. */
  #say(kind: BlockKind, { bytes, end, start }: EscapedText): void {
    if (start === end) return;
    this.onBlock(kind, null);
    this.onText(bytes, start, end);
  }

  #add(text: string): void {
    const json = Buffer.from(JSON.stringify(text));
    this.onText(json, 1, json.length - 1);
  }

  /** The end of a delta event up to its number, with the log-probabilities that have come. */
  #writeLogprobs(part: Part): void {
    if (part.type === 'output_text') out.utf8(`","logprobs":[${this.#takeLogprobs(part).join()}],"sequence_number":`);
    else out.latin1(part.after);
  }

  /** Adds the log-probabilities that have come to the part, and returns them as JSON. */
  #takeLogprobs({ logprobs }: Part): readonly string[] {
    const elements = this.#logprobs;
    this.#logprobs = [];
    for (const element of elements) logprobs.push(element);
    return elements;
  }

  /** The part that takes more text of this type: the last one, or a new one. */
  #partOf(type: Part['type']): Part {
    const itemType = type === 'reasoning_text' ? 'reasoning' : 'message';
    if (this.#open?.type !== itemType) this.#closeOpen('completed');
    const item = (this.#open ??= this.#openTextItem(itemType));
    const last = item.parts.at(-1);
    if (last?.type === type) return last;
    if (last !== undefined) this.#closePart(last);
    const place = `"item_id":"${item.id}","output_index":${item.index},"content_index":${item.parts.length},`;
    const part: Part = {
      type,
      place,
      bytes: new ByteWriter(FIRST_TEXT_BYTES),
      before: this.#beforeDelta(`response.${type}.delta`, place),
      after: type === 'output_text' ? '","logprobs":[],"sequence_number":' : '","sequence_number":',
      input: null,
      annotations: [],
      logprobs: [],
    };
    item.parts.push(part);
    if (this.#isWhole) return part;
    this.#startEvent('response.content_part.added');
    out.latin1(`${place}"part":`);
    writePart(part);
    this.#endEvent();
    return part;
  }

  #openTextItem(type: TextItem['type']): TextItem {
    const index = this.#items.length;
    const id = `${type === 'message' ? 'msg' : 'rs'}_${this.#id}_${index}`;
    const isOpaque = type === 'reasoning' && this.#echo.wantsOpaqueReasoning;
    const item: TextItem = { type, id, index, parts: [], isOpaque, status: 'in_progress' };
    this.#items.push(item);
    this.#writeItemEvent('response.output_item.added', item);
    return item;
  }

  #addAnnotations({ annotations, place }: Part): void {
    for (const annotation of this.#annotations) {
      if (!this.#isWhole) {
        this.#startEvent('response.output_text.annotation.added');
        out.utf8(`${place}"annotation_index":${annotations.length},"annotation":${annotation}`);
        this.#endEvent();
      }
      annotations.push(annotation);
    }
    this.#annotations = [];
  }

  #openCall(call: { readonly id: string; readonly name: string }): CallItem {
    this.#closeOpen('completed');
    const index = this.#items.length;
    const tool = this.#echo.toolOf(call.name);
    const { prefix, type } = CALLS[tool.type];
    const id = `${prefix}_${this.#id}_${index}`;
    // Clients tell calls by their ids.
    const isKnown = this.#callIds?.has(call.id) === true;
    const name =
      type === 'custom_tool_call' ? 'response.custom_tool_call_input.delta' : 'response.function_call_arguments.delta';
    const place = `"item_id":"${id}","output_index":${index},`;
    const hasDeltas = type === 'function_call' || type === 'custom_tool_call';
    const item: CallItem = {
      type,
      id,
      index,
      callId: call.id === '' || isKnown ? `call_${this.#id}_${index}` : call.id,
      tool,
      arguments: {
        bytes: new ByteWriter(FIRST_TEXT_BYTES),
        before: hasDeltas ? this.#beforeDelta(name, place) : null,
        after: '","sequence_number":',
        input: type === 'custom_tool_call' ? new CustomInput() : null,
      },
      status: 'in_progress',
    };
    this.#items.push(item);
    (this.#callIds ??= new Set()).add(item.callId);
    this.#call = item;
    this.#text = item.arguments;
    this.#writeItemEvent('response.output_item.added', item);
    return item;
  }

  #openSearch(id: string, action: ChatObject): void {
    this.#closeOpen('completed');
    const rest = JSON.stringify({ action });
    const item: SearchItem = { type: 'web_search_call', id, index: this.#items.length, status: 'in_progress', rest };
    this.#items.push(item);
    this.#writeItemEvent('response.output_item.added', item);
    for (const phase of ['in_progress', 'searching']) this.#writeSearchEvent(phase, item);
  }

  #closeSearch(
    id: string,
    action: ChatObject,
    { error, opaque }: { readonly error: string | null; readonly opaque: string },
  ): void {
    const item = this.#items.find((one) => one.id === id);
    if (item?.type !== 'web_search_call') return;
    item.status = error === null ? 'completed' : 'failed';
    item.rest = JSON.stringify({ action, ...(opaque !== '' && { encrypted_content: opaque }) });
    this.#keptBytes += item.rest.length;
    if (error === null) this.#writeSearchEvent('completed', item);
    this.#writeItemEvent('response.output_item.done', item);
  }

  #writeSearchEvent(phase: string, { id, index }: SearchItem): void {
    this.#startEvent(`response.web_search_call.${phase}`);
    out.latin1(`"output_index":${index},"item_id":"${id}"`);
    this.#endEvent();
  }

  /** Ends the last item. A model that has said nothing has sent an empty message. */
  #closeItems({ status }: Ending): void {
    const last = this.#items.at(-1);
    const isSilent = status === 'completed' && (last === undefined || last.type === 'reasoning');
    if (isSilent || this.#annotations.length > 0) this.#partOf('output_text');
    this.#closeOpen(status === 'completed' ? 'completed' : 'incomplete');
  }

  #closeOpen(status: ItemStatus): void {
    const item = this.#open;
    if (item === null) return;
    const last = item.parts.at(-1);
    if (last !== undefined) this.#closePart(last);
    this.#open = null;
    item.status = status;
    this.#writeItemEvent('response.output_item.done', item);
  }

  #closePart(part: Part): void {
    const { bytes, place, type } = part;
    if (type === 'output_text') {
      this.#text = part;
      if (this.#isWhole) this.#takeLogprobs(part);
      else if (this.#logprobs.length > 0) this.onText(NO_BYTES, 0, 0);
      this.#addAnnotations(part);
    }
    if (this.#isWhole) return;
    this.#startEvent(`response.${type}.done`);
    out.latin1(`${place}"${type === 'refusal' ? 'refusal' : 'text'}":"`);
    out.append(bytes);
    out.latin1('"');
    if (type === 'output_text') out.utf8(`,"logprobs":[${part.logprobs.join()}]`);
    this.#endEvent();
    this.#startEvent('response.content_part.done');
    out.latin1(`${place}"part":`);
    writePart(part);
    this.#endEvent();
  }

  #closeCall(item: CallItem, ending: Ending): void {
    const { arguments: text, id, index, tool, type } = item;
    const place = `"item_id":"${id}","output_index":${index},`;
    if (type === 'function_call') {
      // A call without arguments is one with none: clients parse them.
      if (text.bytes.length === 0) this.onText(NO_ARGUMENTS, 0, NO_ARGUMENTS.length);
      if (!this.#isWhole) {
        this.#startEvent('response.function_call_arguments.done');
        out.utf8(`${place}"name":${JSON.stringify(tool.name)},"arguments":"`);
        out.append(text.bytes);
        out.latin1('"');
        this.#endEvent();
      }
    } else if (text.input !== null && text.before !== null) {
      const input = customInputOf(unescaped(text));
      this.#writeDelta(text.before, JSON.stringify(input.slice(text.input.given)).slice(1, -1), text.after);
      this.#startEvent('response.custom_tool_call_input.done');
      out.utf8(`${place}"input":${JSON.stringify(input)}`);
      this.#endEvent();
    }
    const isCut = ending.status !== 'completed' && parsedText(text) === undefined;
    item.status = isCut ? 'incomplete' : 'completed';
    this.#writeItemEvent('response.output_item.done', item);
  }

  /** A delta event up to its text; null where deltas are not sent. */
  #beforeDelta(name: string, place: string): Buffer | null {
    return this.#isWhole ? null : Buffer.from(`event: ${name}\ndata: {"type":"${name}",${place}"delta":"`);
  }

  #startEvent(type: string): void {
    out.latin1(`event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},`);
  }

  #endEvent(): void {
    out.latin1('}\n\n');
  }

  #writeItemEvent(type: string, item: Item): void {
    if (this.#isWhole) return;
    this.#startEvent(type);
    out.latin1(`"output_index":${item.index},"item":`);
    writeItem(item);
    this.#endEvent();
  }

  #writeEnd(ending: Ending): void {
    this.#hasEnded = true;
    this.#startEvent(`response.${ending.status}`);
    out.latin1('"response":');
    this.#writeResponse(ending, this.#blocks.usage);
    this.#endEvent();
  }

  /** @param ending null: it goes on */
  #writeResponse(ending: Ending | null, usage: unknown): void {
    const error = ending?.error ?? null;
    const code = error?.code || 'server_error';
    out.utf8(
      `{"id":"resp_${this.#id}","object":"response","created_at":${this.#createdAt},` +
        `"status":"${ending?.status ?? 'in_progress'}","model":${this.#model},"service_tier":${this.#serviceTier},`,
    );
    for (const part of this.#echo.parts) out.copy(part, 0, part.length);
    out.utf8(
      `,"completed_at":${ending?.status === 'completed' ? this.#seconds() : 'null'},` +
        `"error":${error === null ? 'null' : JSON.stringify({ code, message: error.message })},` +
        `"incomplete_details":${typeof ending?.reason === 'string' ? `{"reason":"${ending.reason}"}` : 'null'},"output":[`,
    );
    for (const item of ending === null ? [] : this.#items) {
      if (item.index > 0) out.latin1(',');
      writeItem(item);
    }
    out.utf8(`],"usage":${ending === null ? 'null' : JSON.stringify(usageOf(usage))}}`);
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

function searchAction(query: string): ChatObject {
  return { type: 'search', query, queries: [query] };
}

function pageAction({ pattern, url }: HostedPage): ChatObject {
  return pattern === '' ? { type: 'open_page', url } : { type: 'find_in_page', url, pattern };
}

function writeItem(item: Item): void {
  const { id, status, type } = item;
  out.latin1(`{"id":"${id}","type":"${type}",`);
  if (type === 'web_search_call') {
    out.utf8(`"status":"${status}",${item.rest.slice(1)}`);
    return;
  }
  if ('parts' in item) {
    out.latin1(type === 'reasoning' ? '"summary":[],' : `"status":"${status}","role":"assistant",`);
    if (item.isOpaque && status !== 'in_progress') {
      out.latin1(`"encrypted_content":"${opaqueReasoning(item.parts.map(unescaped).join(''))}",`);
    }
    out.latin1('"content":[');
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
    out.utf8(`"input":${JSON.stringify(customInputOf(unescaped(text)))}}`);
    return;
  }
  out.latin1('"arguments":"');
  out.append(text.bytes);
  out.latin1('"}');
}

/** An annotation of chat completions as one of responses. */
function flat(annotation: unknown): object {
  const { url_citation: citation, ...members } = membersOf(annotation);
  return { ...members, ...membersOf(citation) };
}

function unescaped({ bytes }: Text): string {
  return parseJson(`"${bytes.toString()}"`) as string;
}

function parsedText(text: Text): unknown {
  return parsedJson(unescaped(text));
}

function endingOf(reason: unknown): Ending {
  return ENDINGS.get(reason) ?? COMPLETED;
}

function failure(message: string): Ending {
  return { status: 'failed', reason: null, error: errorOf({ message, code: 'HR_STREAM_BROKEN' }) };
}

function typeOf(status: number): string {
  return status >= 400 && status < 500 ? 'invalid_request_error' : 'server_error';
}

/** The members of an error that a server has written, by the names in `usual`. */
function filled(error: unknown, usual: object): ChatObject {
  const members = Object.entries(membersOf(error));
  return Object.fromEntries(members.filter(([name, value]) => name in usual && isFilled(value)));
}

/** Token counts of a chat answer as those of a response; null when it has none. */
function usageOf(usage: unknown): Readonly<Record<string, unknown>> | null {
  const { completion_tokens: completion, completion_tokens_details: outputDetails } = membersOf(usage);
  const { prompt_tokens: prompt, prompt_tokens_details: inputDetails, total_tokens: total } = membersOf(usage);
  const { cache_write_tokens: written, cached_tokens: cached } = membersOf(inputDetails);
  const input = tokenCount(prompt);
  const output = tokenCount(completion);
  if (input === undefined && output === undefined) return null;
  return {
    input_tokens: input ?? 0,
    input_tokens_details: {
      cached_tokens: tokenCount(cached) ?? 0,
      cache_write_tokens: tokenCount(written) ?? 0,
    },
    output_tokens: output ?? 0,
    output_tokens_details: { reasoning_tokens: tokenCount(membersOf(outputDetails)['reasoning_tokens']) ?? 0 },
    total_tokens: tokenCount(total) ?? (input ?? 0) + (output ?? 0),
  };
}
