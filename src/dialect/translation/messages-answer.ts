// Answers of chat completion servers as answers of the messages dialect: streams, whole answers and errors. A stream has the events
// of the official API in their order; its closing events wait for the token counts, which come behind the finish reason.

import { randomUUID } from 'node:crypto';
import { sseEvent, tokenCount } from '../dialect.ts';
import { errorType } from '../messages.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';
import { errorOf, FAILED_FINISHES, isBare, type ServerError, signatureOf, stopSequenceOf } from './chat-answer.ts';
import { type BlockKind, ChatBlocks, type ChatBlocksListener } from './chat-blocks.ts';
import { ByteWriter } from './byte-writer.ts';
import type { HostedSource, HostedStep } from './hosted-search.ts';
import type { AnswerTranslator } from './translation.ts';
import { type EscapedText, type WholeAnswer, wholeAnswerOf } from './whole-answer.ts';

type Members = Readonly<Record<string, unknown>>;

const NOTHING: Buffer = Buffer.alloc(0);

/** Deltas by kind of block: the type of the delta and its member. A refusal is text that ends with `stop_reason: refusal`. */
const DELTAS: Readonly<Record<BlockKind, readonly [type: string, member: string]>> = {
  reasoning: ['thinking_delta', 'thinking'],
  text: ['text_delta', 'text'],
  refusal: ['text_delta', 'text'],
  call: ['input_json_delta', 'partial_json'],
};

const DELTA_END = Buffer.from('"}}\n\n');

/** Heads of delta events: by kind, then by index of the block. */
const DELTA_HEADS: Readonly<Record<BlockKind, Buffer[]>> = { reasoning: [], text: [], refusal: [], call: [] };
/** Answers have few blocks; heads of later ones are made for the block. */
const KEPT_HEADS = 32;

function deltaHead(kind: BlockKind, index: number): Buffer {
  const kept = DELTA_HEADS[kind][index];
  if (kept !== undefined) return kept;
  const [type, member] = DELTAS[kind];
  const data = `{"type":"content_block_delta","index":${index},"delta":{"type":"${type}","${member}":"`;
  const head = Buffer.from(`event: content_block_delta\ndata: ${data}`);
  if (index < KEPT_HEADS) DELTA_HEADS[kind][index] = head;
  return head;
}

/** What was written for the last call of a translator. */
const out = new ByteWriter(16 * 1024);
const LARGEST_IDLE_BYTES = 1024 * 1024;

const START = 'event: message_start\ndata: {"type":"message_start","message":';
const DELTA = 'event: message_delta\ndata: {"type":"message_delta","delta":';
const PING = sseEvent('ping', { type: 'ping' });
const STOP = sseEvent('message_stop', { type: 'message_stop' });

export class MessagesAnswer implements AnswerTranslator, ChatBlocksListener {
  readonly nextSequence = 0;
  /** Of a stream. */
  #stream: ChatBlocks | null = null;
  readonly #model: () => string;
  #id = '';
  /** Index of the open block, or of the next one. */
  #index = 0;
  #head: Buffer = NOTHING;
  /** Null while there was no call. */
  #callIds: Set<string> | null = null;
  /** The open block is a tool call without arguments so far. */
  #isBareCall = false;
  /** A text that may be cited. */
  #isTextOpen = false;
  /** Searches that the gateway has run; -1: it runs none. */
  #searches = -1;
  /** Pages that it has opened. */
  #pages = 0;

  /** @param model reads the model that was asked for, where the server names none */
  constructor(model: () => string = () => '') {
    this.#model = model;
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

  broken(): Buffer {
    return NOTHING;
  }

  hosted(step: HostedStep): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    this.#searches = Math.max(this.#searches, 0);
    if (step.kind === 'cite') {
      if (this.#isTextOpen) this.#writeDelta({ type: 'citations_delta', citation: citationOf(step.source) });
      return out.view();
    }
    this.#blocks.endBlocks();
    if (step.kind === 'search') {
      const { id, query } = step.search;
      this.#writeStart({ type: 'server_tool_use', id, name: 'web_search', input: {}, caller: DIRECT });
      this.#writeDelta({ type: 'input_json_delta', partial_json: JSON.stringify({ query }) });
      this.#writeStop();
    } else if (step.kind === 'found') {
      const { error, search, sources } = step;
      if (error === null) this.#searches++;
      const content =
        error === null ? sources.map(resultOf) : { type: 'web_search_tool_result_error', error_code: error };
      this.#writeStart({ type: 'web_search_tool_result', tool_use_id: search.id, content, caller: DIRECT });
      this.#writeStop();
    } else if (step.kind === 'open') {
      const { id, url } = step.page;
      this.#writeStart({ type: 'server_tool_use', id, name: 'web_fetch', input: {}, caller: DIRECT });
      this.#writeDelta({ type: 'input_json_delta', partial_json: JSON.stringify({ url }) });
      this.#writeStop();
    } else if (step.kind === 'opened') {
      if (step.error === null) this.#pages++;
      const content = openedPage(step);
      this.#writeStart({ type: 'web_fetch_tool_result', tool_use_id: step.page.id, content, caller: DIRECT });
      this.#writeStop();
    }
    return out.view();
  }

  #writeStart(block: Members): void {
    out.utf8(
      sseEvent('content_block_start', { type: 'content_block_start', index: this.#index, content_block: block }),
    );
  }

  #writeDelta(delta: Members): void {
    out.utf8(sseEvent('content_block_delta', { type: 'content_block_delta', index: this.#index, delta }));
  }

  #writeStop(): void {
    out.utf8(sseEvent('content_block_stop', { type: 'content_block_stop', index: this.#index++ }));
  }

  whole(body: Buffer): Buffer {
    out.clear(LARGEST_IDLE_BYTES);
    writeMessage(wholeAnswerOf(body), this.#model);
    return out.view();
  }

  error(status: number, body: Buffer): Buffer {
    const text = body.toString();
    return Buffer.from(JSON.stringify(errorMember(errorOf(parsedJson(text) ?? text), status)));
  }

  /** @internal */
  onStart(chunk: Members): void {
    this.#id = messageId(chunk['id']);
    out.latin1(START);
    writeHead(this.#id, chunk, membersOf(chunk['usage']), NO_STOP, this.#model);
    out.latin1('[]}}\n\n');
    out.utf8(PING);
  }

  /** @internal */
  onBlock(kind: BlockKind, call: { readonly id: string; readonly name: string } | null): void {
    const index = this.#index;
    this.#isBareCall = call !== null;
    this.#isTextOpen = kind === 'text';
    this.#head = deltaHead(kind, index);
    const block =
      call !== null
        ? {
            type: 'tool_use',
            id: callId(call.id, (this.#callIds ??= new Set()), this.#id, index),
            name: call.name,
            input: {},
          }
        : kind === 'reasoning'
          ? { type: 'thinking', thinking: '', signature: '' }
          : { type: 'text', text: '' };
    out.utf8(sseEvent('content_block_start', { type: 'content_block_start', index, content_block: block }));
  }

  /** @internal */
  onText(bytes: Buffer, start: number, end: number): void {
    this.#isBareCall = false;
    out.copy(this.#head, 0, this.#head.length);
    out.copy(bytes, start, end);
    out.copy(DELTA_END, 0, DELTA_END.length);
  }

  /** @internal */
  onBlockEnd(kind: BlockKind, signature: string): void {
    const index = this.#index++;
    this.#isTextOpen = false;
    if (this.#isBareCall) this.onText(NO_ARGUMENTS, 0, NO_ARGUMENTS.length);
    if (kind === 'reasoning') {
      const delta = { type: 'signature_delta', signature: signature || UNSIGNED };
      out.utf8(sseEvent('content_block_delta', { type: 'content_block_delta', index, delta }));
    }
    out.utf8(sseEvent('content_block_stop', { type: 'content_block_stop', index }));
  }

  /** @internal */
  onError(error: ServerError): void {
    out.utf8(sseEvent('error', errorMember(error, error.status)));
  }

  /** @internal */
  onDone(): void {
    if (this.#id === '') this.onStart({});
    const { called, finishReason, refused, stopSequence, usage } = this.#blocks;
    const failure = FAILED_FINISHES.get(finishReason);
    if (failure !== undefined) {
      this.onError(errorOf(failure));
      return;
    }
    const stop = stopOf(finishReason, stopSequence, called, refused);
    const used = `,"server_tool_use":{"web_search_requests":${this.#searches},"web_fetch_requests":${this.#pages}}`;
    const counts = `${countsOf(membersOf(usage))}${this.#searches < 0 ? '' : used}`;
    out.utf8(`${DELTA}{${stopMembers(stop)}},"usage":{${counts}}}\n\n`);
    out.utf8(STOP);
  }

  /** @internal */
  onComment(line: string): void {
    out.utf8(`${line}\n\n`);
  }
}

const NO_ARGUMENTS = Buffer.from('{}');

/** Signature of reasoning that its server has not signed: clients do not send thinking back as such whose signature is empty. */
const UNSIGNED = Buffer.from('headrace').toString('base64');

const DIRECT = { type: 'direct' };

function resultOf({ age, opaque, title, url }: HostedSource): Members {
  return { type: 'web_search_result', title, url, encrypted_content: opaque, page_age: age };
}

function openedPage({ error, page, readAt, source, text }: Extract<HostedStep, { readonly kind: 'opened' }>): Members {
  if (error !== null) return { type: 'web_fetch_tool_result_error', error_code: error };
  const document = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: text } };
  const content = { ...document, title: source?.title ?? null, citations: null };
  return { type: 'web_fetch_result', url: source?.url ?? page.url, content, retrieved_at: readAt };
}

/** Most characters of a cited text (Messages API, "Web search tool"). */
const MAX_CITED_CHARS = 150;

function citationOf({ excerpt, opaque, title, url }: HostedSource): Members {
  const cited = { type: 'web_search_result_location', cited_text: excerpt.slice(0, MAX_CITED_CHARS) };
  return { ...cited, url, title, encrypted_index: opaque.slice(0, ENCRYPTED_INDEX_CHARS) };
}

const ENCRYPTED_INDEX_CHARS = 24;

/** How a message ends. */
interface Stop {
  readonly stop_reason: string | null;
  readonly stop_sequence: string | null;
  readonly stop_details: Members | null;
}

const NO_STOP: Stop = { stop_reason: null, stop_sequence: null, stop_details: null };

/** Writes a message up to its content; from the first chunk of a stream, or from a whole answer. */
function writeHead(
  id: string,
  { model, service_tier }: Members,
  usage: Members,
  stop: Stop,
  asked: () => string,
): void {
  const name = JSON.stringify(typeof model === 'string' && model !== '' ? model : asked());
  const tier = typeof service_tier === 'string' && Object.hasOwn(TIERS, service_tier) ? TIERS[service_tier] : '';
  out.utf8(
    `{"id":${JSON.stringify(id)},"type":"message","role":"assistant","model":${name},${stopMembers(stop)},` +
      `"usage":{${countsOf(usage)}${tier === '' ? '' : `,"service_tier":"${tier}"`}},"content":`,
  );
}

function stopMembers({ stop_details: details, stop_reason: reason, stop_sequence: sequence }: Stop): string {
  const isUsual = sequence === null && details === null;
  const others = isUsual
    ? 'null,"stop_details":null'
    : `${JSON.stringify(sequence)},"stop_details":${JSON.stringify(details)}`;
  return `"stop_reason":${JSON.stringify(reason)},"stop_sequence":${others}`;
}

const CHAT_PREFIX = 'chatcmpl-';

/** The server's own id, so that logs can be compared. */
function messageId(id: unknown): string {
  if (typeof id !== 'string' || id === '') return `msg_${randomUUID().replaceAll('-', '')}`;
  return `msg_${id.startsWith(CHAT_PREFIX) ? id.slice(CHAT_PREFIX.length) : id}`;
}

/** Id of a call: the server's own, unless it sends none or an earlier call has it. Clients tell calls by their ids. */
function callId(own: string, known: Set<string>, message: string, index: number): string {
  const id = own === '' || known.has(own) ? `${message.replace(/^msg/, 'toolu')}_${index}` : own;
  known.add(id);
  return id;
}

const TIERS: Readonly<Record<string, string>> = { default: 'standard', priority: 'priority' };

/** Members with token counts: those of the prompt are split into what came from a cache, what was written to one, and the rest. */
function countsOf(usage: Members): string {
  const {
    completion_tokens: completion,
    completion_tokens_details: output,
    prompt_tokens,
    prompt_tokens_details,
  } = usage;
  const { cache_write_tokens, cached_tokens } = membersOf(prompt_tokens_details);
  const cached = tokenCount(cached_tokens) ?? 0;
  const written = tokenCount(cache_write_tokens) ?? 0;
  const reasoning = tokenCount(membersOf(output)['reasoning_tokens']);
  const rest = Math.max((tokenCount(prompt_tokens) ?? 0) - cached - written, 0);
  return (
    `"input_tokens":${rest},"cache_creation_input_tokens":${written},"cache_read_input_tokens":${cached},` +
    `"output_tokens":${tokenCount(completion) ?? 0}` +
    (reasoning === undefined ? '' : `,"output_tokens_details":{"thinking_tokens":${reasoning}}`)
  );
}

/** Finish reasons of an answer that ended by itself; '' where the server gives none. */
const ENDS: ReadonlySet<string> = new Set(['stop', 'tool_calls', 'function_call', 'eos', 'eos_token', '']);
const REFUSAL = { type: 'refusal', category: null, explanation: null };

/** Servers also say `stop` where a call was forced. Finish reasons without a counterpart keep their name. */
function stopOf(reason: string, sequence: string | null, called: boolean, refused: boolean): Stop {
  const ended = ENDS.has(reason);
  const isRefusal = refused || reason === 'content_filter';
  const isSequence = ended && sequence !== null && !called && !isRefusal;
  const own = ended ? (called ? 'tool_use' : isSequence ? 'stop_sequence' : 'end_turn') : reason;
  return {
    stop_reason: isRefusal ? 'refusal' : reason === 'length' ? 'max_tokens' : own,
    stop_sequence: isSequence ? sequence : null,
    stop_details: isRefusal ? REFUSAL : null,
  };
}

/** Writes a whole answer. */
function writeMessage(answer: WholeAnswer, asked: () => string): void {
  const { calls, choice, head, message, reasoning, refusal, text, usage } = answer;
  const { finish_reason: reason } = choice;
  const isRefusal = refusal.start < refusal.end;
  const stop = stopOf(typeof reason === 'string' ? reason : '', stopSequenceOf(choice), calls.length > 0, isRefusal);
  const id = messageId(head['id']);
  writeHead(id, head, usage, stop, asked);
  out.latin1('[');
  let blocks = 0;
  if (reasoning.start < reasoning.end) {
    writeText(blocks++, THINKING_BLOCK, reasoning);
    out.utf8(`","signature":${JSON.stringify(signatureOf(message) || UNSIGNED)}}`);
  }
  for (const said of [text, refusal]) {
    if (said.start === said.end) continue;
    writeText(blocks++, TEXT_BLOCK, said);
    out.latin1('"}');
  }
  const known = new Set<string>();
  for (const { arguments: args, id: own, name } of calls) {
    const call = { type: 'tool_use', id: callId(own, known, id, blocks), name };
    if (blocks++ > 0) out.latin1(',');
    out.utf8(`${JSON.stringify(call).slice(0, -1)},"input":${inputJson(args)}}`);
  }
  out.latin1(']}');
}

const THINKING_BLOCK = '{"type":"thinking","thinking":"';
const TEXT_BLOCK = '{"type":"text","text":"';

/** Writes a block up to the end of its text. */
function writeText(place: number, begin: string, { bytes, end, start }: EscapedText): void {
  if (place > 0) out.latin1(',');
  out.latin1(begin);
  out.copy(bytes, start, end);
}

/** Arguments as they are written, so that numbers keep all their digits. What is no JSON becomes a text: a tool can refuse it. */
function inputJson(text: string): string {
  if (isBare(text)) return '{}';
  return parsedJson(text) === undefined ? JSON.stringify(text) : text;
}

/** Types of the official API, and what servers call the same. */
const ERROR_TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    invalid_request_error: 'invalid_request_error',
    BadRequestError: 'invalid_request_error',
    context_length_exceeded: 'invalid_request_error',
    authentication_error: 'authentication_error',
    billing_error: 'billing_error',
    insufficient_quota: 'billing_error',
    permission_error: 'permission_error',
    not_found_error: 'not_found_error',
    request_too_large: 'request_too_large',
    rate_limit_error: 'rate_limit_error',
    rate_limit_exceeded: 'rate_limit_error',
    timeout_error: 'timeout_error',
    overloaded_error: 'overloaded_error',
  }),
);

/** The error body of the messages dialect. `status` 0: unknown, the server's own type decides. */
function errorMember({ code, message, param, requestId, type }: ServerError, status: number): Members {
  const own = ERROR_TYPES.get(type) ?? ERROR_TYPES.get(code) ?? 'api_error';
  return {
    type: 'error',
    error: {
      type: status === 0 ? own : errorType(status),
      message,
      ...(code !== '' && { code }),
      ...(param !== '' && { param }),
    },
    ...(requestId !== '' && { request_id: requestId }),
  };
}
