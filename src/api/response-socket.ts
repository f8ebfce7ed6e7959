// GET /v1/responses as a WebSocket: each message `response.create` of the client is a request of its own, served like one that was posted,
// and its events go back as text messages. One response at a time, in the order of the messages. The last one is kept, so that the next
// one may continue it unstored; its memory is that of request bodies, of which half is left to requests.

import { randomBytes } from 'node:crypto';
import { systemEpochMs } from '../actor/index.ts';
import {
  allItemsOf,
  dialectOf,
  emptyResponse,
  endsResponse,
  endTypeOf,
  inputOf,
  responseDataOf,
  responsePartsOf,
  scanBody,
  type SocketMessage,
  socketMessageOf,
  TOO_MANY_VALUES,
  withEarlierItems,
  withMembers,
} from '../dialect/index.ts';
import { type ErrorCode, HeadraceError, type ValidationEntry, validationText } from '../errors.ts';
import { type DetachedExchange, type ResponseSink, startDetached } from '../ingress/detached-exchange.ts';
import type { EndCause, Exchange, RequestHead } from '../ingress/exchange.ts';
import { type ClientSocket, handshakeFault, type SocketListener } from '../ingress/web-socket.ts';
import { chosenHeaders, headerOf, headersByName } from '../net/flat-headers.ts';
import { EventSplitter, parseEvents } from '../net/sse.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';
import type { ApiDeps } from './deps.ts';
import { authenticate } from './pipeline.ts';

const PATH = '/v1/responses';

/** Endpoint of the socket in metrics and logs; its responses are counted as those that are posted. */
const ENDPOINT = 'socket';

/** Most messages that wait for the response that runs; their memory is that of request bodies. */
const WAITING = 16;

/** Longest event, and longest answer that is no stream. */
const EVENT_BYTES = 16 * 1024 * 1024;
const ANSWER_BYTES = 4 * 1024 * 1024;

/** At least what the last event has beside its data. */
const EVENT_HEAD_BYTES = 64;

/** Usage of an answer that no server gave. */
const NO_TOKENS = {
  ...{ input_tokens: 0, input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 } },
  ...{ output_tokens: 0, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 0 },
};

/** Close codes (RFC 6455 §7.4.1, and its registry). */
const GOING_AWAY = 1001;

/** Headers of the handshake that its requests do not have. */
const OF_HANDSHAKE = /^(?:connection|upgrade|sec-websocket-.*|content-.*|x-request-id|x-client-request-id|expect|te)$/;

/** Headers of an error that clients wait by. */
const OF_ERRORS = /^(?:retry-after|retry-after-ms|x-should-retry|x-headrace-error|x-ratelimit-.*)$/;

/** What is known of a conversation here. */
interface Conversation {
  /** Id of the response that it goes on from, and that others have; '' where it begins here. */
  readonly base: string;
  /** The items behind that, as JSON texts, of which one may hold several with commas between. */
  readonly items: readonly string[];
}

/** A response that may be continued: its conversation ends with its output. */
interface KeptResponse extends Conversation {
  readonly id: string;
  /** The store has it too. */
  readonly stored: boolean;
}

/**
 * Serves the handshake. Throws 401 for a missing or bad key, 403 for a web page of an origin that is not in `cors.origins`, 405 without
 * `Upgrade: websocket`, 400 for a malformed handshake, 426 for another version or where this server has no WebSockets.
 */
export function responseSocket(exchange: Exchange, deps: ApiDeps): void {
  const fault = handshakeFault(exchange);
  if (fault === 'none') throw new HeadraceError('HR_ROUTE_METHOD', { headers: ['allow', 'POST, OPTIONS'] });
  if (!isOriginAllowed(exchange, deps)) throw new HeadraceError('HR_SOCKET_ORIGIN');
  const { credential } = authenticate(exchange, deps);
  if (credential.kind === 'none' && deps.settings.keys.required) throw new HeadraceError('HR_AUTH_MISSING');
  if (fault === 'malformed') throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: 'the WebSocket handshake' });
  exchange.endpoint = ENDPOINT;
  const socket = fault === null ? new ResponseSocket(exchange, deps).open() : null;
  if (socket === null) throw upgradeRequired();
}

/** Browsers ask nobody before a page opens a WebSocket, and let it read all messages (RFC 6455 §10.2). */
function isOriginAllowed(exchange: Exchange, { settings }: ApiDeps): boolean {
  const { origin } = exchange;
  const { origins } = settings.cors;
  if (origin === undefined || origins.includes('*') || origins.includes(origin)) return true;
  return origin.replace(/^https?:\/\//, '') === exchange.header('host');
}

function upgradeRequired(): HeadraceError {
  return new HeadraceError('HR_SOCKET_UNSUPPORTED', { headers: ['sec-websocket-version', '13'] });
}

class ResponseSocket implements SocketListener {
  readonly #exchange: Exchange;
  readonly #deps: ApiDeps;
  /** Of every request of this socket. */
  readonly #head: RequestHead;
  #socket: ClientSocket | null = null;
  #running: RunningResponse | null = null;
  readonly #waiting: SocketMessage[] = [];
  #last: KeptResponse | null = null;
  #drains = false;

  constructor(exchange: Exchange, deps: ApiDeps) {
    const { headers, query, remoteAddress } = exchange;
    const passed = chosenHeaders(headers, (name) => !OF_HANDSHAKE.test(name));
    passed.push('content-type', 'application/json');
    this.#exchange = exchange;
    this.#deps = deps;
    this.#head = { method: 'POST', path: PATH, query, headers: passed, remoteAddress };
  }

  open(): ClientSocket | null {
    this.#socket = this.#exchange.openSocket(this, this.#deps.settings.limits.bodyBytes);
    return this.#socket;
  }

  onMessage(bytes: Buffer, isText: boolean): void {
    const fault = isText ? this.#sizeFault(bytes) : 'it is binary, and should be JSON as text';
    const message = fault === null ? socketMessageOf(bytes) : null;
    if (message === null) this.#refuse('', 'HR_SOCKET_MESSAGE', fault ?? 'it is no JSON object');
    else if (message.type !== 'response.create')
      this.#refuse(message.streamId, 'HR_SOCKET_MESSAGE', 'its type is not response.create');
    else if (message.background)
      this.#refuse(message.streamId, 'HR_SOCKET_MESSAGE', 'a response on a socket cannot be one in the background');
    else if (this.#drains) this.#refuse(message.streamId, 'HR_DRAINING');
    else if (this.#running === null && this.#waiting.length === 0) this.#create(message);
    else this.#wait(message);
  }

  /** Checked before a message is read in parts: its request is checked when its turn comes. */
  #sizeFault(bytes: Buffer): string | null {
    const { jsonDepth: maxDepth, jsonValues: maxValues } = this.#deps.settings.limits;
    const scan = scanBody(bytes, { maxDepth, maxValues, requireModel: false });
    const isLarge = !scan.ok && scan.errors.some(({ type }) => type === TOO_MANY_VALUES);
    return isLarge ? `it has more than ${maxValues} values and keys` : null;
  }

  onWritable(): void {
    this.#running?.exchange?.resume();
  }

  onDrain(): void {
    this.#drains = true;
    if (this.#running === null) this.#socket?.close(GOING_AWAY, 'the gateway shuts down');
  }

  onCut(): void {
    // The response that runs is cut as every other request is, and tells the client so.
    this.onDrain();
  }

  onEnded(_cause: EndCause): void {
    const running = this.#running;
    this.#running = null;
    this.#keep(null);
    for (const { body } of this.#waiting.splice(0)) this.#deps.detached.budget.give(body.byteLength, false);
    running?.exchange?.leave();
  }

  /** Largest last response, with all that it continues, that is kept for the next one. */
  get keptBytes(): number {
    return this.#deps.settings.responses.maxBytes;
  }

  /** Sends a message. False asks to wait for `onWritable`. */
  send(text: string): boolean {
    return this.#socket?.send(Buffer.from(text)) ?? true;
  }

  /** The response that ran is over; null: it cannot be continued from memory. */
  over(kept: KeptResponse | null): void {
    this.#running = null;
    this.#keep(kept);
    this.#goOn();
  }

  /** Keeps a response for the next one in place of the last. False where there is no memory for it. */
  #keep(kept: KeptResponse | null): boolean {
    const { budget } = this.#deps.detached;
    if (this.#last !== null) budget.give(memoryOf(this.#last), false);
    const isKept = kept !== null && budget.takeSpare(memoryOf(kept));
    this.#last = isKept ? kept : null;
    return isKept;
  }

  #goOn(): void {
    if (this.#drains) this.#socket?.close(GOING_AWAY, 'the gateway shuts down');
    else if (this.#waiting.length > 0) setImmediate(() => this.#next());
  }

  #wait(message: SocketMessage): void {
    const isFull = this.#waiting.length >= WAITING;
    if (isFull) this.#refuse(message.streamId, 'HR_SOCKET_BUSY');
    else if (!this.#deps.detached.budget.take(message.body.byteLength, false)) {
      this.#refuse(message.streamId, 'HR_OVERLOADED', 'memory for request bodies');
    } else this.#waiting.push(message);
  }

  #next(): void {
    const message = this.#running === null && !this.#drains ? this.#waiting.shift() : undefined;
    if (message === undefined) return;
    this.#deps.detached.budget.give(message.body.byteLength, false);
    this.#create(message);
  }

  #create({ body, generates, previousResponseId, store, streamId }: SocketMessage): void {
    const last = this.#last !== null && previousResponseId === this.#last.id ? this.#last : null;
    const { base, items: earlier } = last ?? { base: previousResponseId, items: [] };
    const conversation = { base, items: [...earlier, ...allItemsOf(inputOf(body))] };
    if (!generates) {
      const { jsonDepth: maxDepth, jsonValues: maxValues } = this.#deps.settings.limits;
      const scan = scanBody(body, { maxDepth, maxValues });
      if (scan.ok) this.#warmUp(previousResponseId !== '' && last === null, conversation, streamId, scan.model, body);
      else this.send(named(errorMessage(422, 'HR_REQUEST_INVALID', validationText(scan.errors), []), streamId));
      this.#goOn();
      return;
    }
    const isKept = sizeOf(conversation.items) <= this.keptBytes;
    const isStored = this.#deps.settings.responses.store && store;
    const running = new RunningResponse(this, isKept ? conversation : null, streamId, isStored);
    this.#running = running;
    // What is stored continues what is stored: its conversation is not written once more.
    const request = last === null || (store && last.stored) ? body : continuing(body, last);
    const head = { ...this.#head, headers: [...this.#head.headers, 'content-length', String(request.byteLength)] };
    startDetached(this.#deps.detached, head, request, running, (exchange) => {
      running.exchange = exchange;
      if (request !== body) exchange.continues = previousResponseId;
    });
  }

  /** Answers with an id to go on from; no server is asked. */
  #warmUp(isUnknown: boolean, conversation: Conversation, streamId: string, model: string, body: Buffer): void {
    const id = `resp_${randomBytes(24).toString('hex')}`;
    if (isUnknown) this.#refuse(streamId, 'HR_SOCKET_PREVIOUS');
    else if (sizeOf(conversation.items) > this.keptBytes)
      this.#refuse(streamId, 'HR_REQUEST_TOO_LARGE', String(this.keptBytes));
    else if (this.#keep({ id, stored: false, ...conversation })) this.#tellWarm({ id, model }, body, streamId);
    else this.#refuse(streamId, 'HR_OVERLOADED', 'memory for request bodies');
  }

  #tellWarm(own: { readonly id: string; readonly model: string }, body: Buffer, streamId: string): void {
    const createdS = Math.floor(systemEpochMs() / 1000);
    const tell = (type: string, sequence: number, status: string, usage: object | null): void => {
      const response = emptyResponse(body, { ...own, createdS, status, usage }).toString();
      this.send(named(`{"type":"${type}","sequence_number":${sequence},"response":${response}}`, streamId));
    };
    tell('response.created', 0, 'in_progress', null);
    tell('response.completed', 1, 'completed', NO_TOKENS);
  }

  /** `streamId`: the name that the client gave to the message that is refused. */
  #refuse(streamId: string, code: ErrorCode, subject?: string): void {
    const { message, status } = new HeadraceError(code, subject === undefined ? {} : { subject });
    this.send(named(errorMessage(status, code, message, []), streamId));
  }
}

/** One response on its way from the handler to the socket. */
class RunningResponse implements ResponseSink {
  exchange: DetachedExchange | null = null;
  readonly #socket: ResponseSocket;
  /** Up to its input; null when it is too large to be kept. */
  readonly #conversation: Conversation | null;
  readonly #isStored: boolean;
  /** The name that the client gave to the message; '' without one. */
  readonly #streamId: string;
  /** Null until the first piece of a stream, and for an answer that is none. */
  #splitter: EventSplitter | null = null;
  /** Of an answer that is no stream. */
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #kept: KeptResponse | null = null;
  #isTold = false;

  constructor(socket: ResponseSocket, conversation: Conversation | null, streamId: string, isStored: boolean) {
    this.#socket = socket;
    this.#isStored = isStored;
    this.#conversation = conversation;
    this.#streamId = streamId;
  }

  piece(chunk: Uint8Array): boolean {
    const exchange = this.exchange as DetachedExchange;
    if (this.#splitter === null && this.#bytes === 0 && isStream(exchange)) {
      this.#splitter = new EventSplitter({ maxHeldBytes: EVENT_BYTES });
    }
    this.#bytes += chunk.byteLength;
    if (this.#splitter === null) {
      if (this.#bytes <= ANSWER_BYTES) this.#pieces.push(Buffer.from(chunk));
      return true;
    }
    const whole = this.#splitter.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    if (this.#splitter.midEvent) {
      this.#tell('HR_STREAM_BROKEN');
      exchange.leave();
      this.#socket.over(null);
      return true;
    }
    return whole === undefined || this.#send(whole);
  }

  end(): void {
    if (this.#splitter === null) this.#answer(Buffer.concat(this.#pieces));
    else if (!this.#isTold) this.#tell('HR_STREAM_TRUNCATED');
    this.#socket.over(this.#kept);
  }

  broken(): void {
    if (!this.#isTold) this.#tell('HR_STREAM_BROKEN');
    this.#socket.over(null);
  }

  /** Sends whole events. */
  #send(events: Buffer): boolean {
    let isTaken = true;
    for (const { data, event } of parseEvents(events.toString())) {
      if (data === '[DONE]') continue;
      const type = event ?? typeIn(data);
      const isEnd = endsResponse(type);
      const message = isEnd || type === 'error' ? typed(data, type) : data;
      if (isEnd) this.#keep(message);
      else if (type === 'error') this.#isTold = true;
      isTaken = this.#tellClient(message);
    }
    return isTaken;
  }

  #tellClient(text: string): boolean {
    return this.#socket.send(named(text, this.#streamId));
  }

  /** Notes the end of the response, and what is needed to continue it. */
  #keep(data: string): void {
    this.#isTold = true;
    if (this.#conversation === null) return;
    const { base } = this.#conversation;
    const event = responseDataOf(Buffer.from(data));
    const parts = event === null || event.response === null ? null : responsePartsOf(event.response);
    if (parts === null || event?.type === 'response.failed') return;
    const { id, output } = parts;
    const items = [...this.#conversation.items, ...allItemsOf(output)];
    // The store takes no longer event.
    const isShort = Buffer.byteLength(data) + EVENT_HEAD_BYTES <= this.#socket.keptBytes;
    const { answerHeaders = [] } = this.exchange ?? {};
    const stored = this.#isStored && isShort && headerOf(answerHeaders, 'x-headrace-stored') === undefined;
    this.#kept = sizeOf(items) <= this.#socket.keptBytes ? { id, stored, base, items } : null;
  }

  /** An answer that is no stream: an error, or a response of a server that knows no streams. */
  #answer(body: Buffer): void {
    const { answerHeaders, status } = this.exchange as DetachedExchange;
    const text = body.toString();
    const answer = membersOf(parsedJson(text));
    if (status < 300 && answer['object'] === 'response') {
      const data = `{"type":"${endTypeOf(answer['status'])}","sequence_number":0,"response":${text}}`;
      this.#keep(data);
      this.#tellClient(data);
      return;
    }
    if (status < 300) {
      this.#tell('HR_ANSWER_UNTRANSLATABLE');
      return;
    }
    const code = headerOf(answerHeaders, 'x-headrace-error') ?? 'HR_STREAM_BROKEN';
    const { detail, error } = answer;
    const message =
      typeof detail === 'string'
        ? detail
        : Array.isArray(detail)
          ? validationText(detail as ValidationEntry[])
          : JSON.stringify(answer);
    this.#tellClient(errorMessage(status, code, message, answerHeaders, error));
  }

  #tell(code: ErrorCode): void {
    const { message, status } = new HeadraceError(code);
    this.#isTold = true;
    this.#tellClient(errorMessage(status, code, message, []));
  }
}

/** The type of an event without a name: that of its data, which may be an error as servers of chat completions write it. */
function typeIn(data: string): string {
  const { error, type } = membersOf(parsedJson(data));
  if (typeof type === 'string') return type;
  return typeof error === 'object' && error !== null ? 'error' : '';
}

/** Data with the type of its event, which a message has nowhere else. */
function typed(data: string, type: string): string {
  if (membersOf(parsedJson(data))['type'] === type) return data;
  return withMembers(Buffer.from(data), { type: JSON.stringify(type) }).toString();
}

/** A message, a JSON object, with the name that the client gave to what it answers; '' for none. */
function named(message: string, streamId: string): string {
  return streamId === '' ? message : message.replace(/\}\s*$/, () => `,"stream_id":${JSON.stringify(streamId)}}`);
}

/** Bytes of the texts of a response: up to two for each character. */
function memoryOf({ items }: KeptResponse): number {
  return 2 * sizeOf(items);
}

/** A request with what it continues: the items before its input, and the id of what is before those. */
function continuing(body: Buffer, { base, items }: Conversation): Buffer {
  const whole = withEarlierItems(body, items);
  return base === '' ? whole : withMembers(whole, { previous_response_id: JSON.stringify(base) });
}

function sizeOf(items: readonly string[]): number {
  return items.reduce((sum, item) => sum + item.length, 0);
}

function isStream({ answerHeaders, status }: DetachedExchange): boolean {
  return status < 300 && headerOf(answerHeaders, 'content-type')?.startsWith('text/event-stream') === true;
}

/**
 * An error as a message of the socket: the error object of the dialect with the status, and the headers that clients wait by.
 * @param error the error object, where a server has sent one
 */
function errorMessage(
  status: number,
  code: string,
  message: string,
  headers: readonly string[],
  error: unknown = dialectOf(PATH)?.errorMember({ code, message, status })['error'],
): string {
  const kept = headersByName(chosenHeaders(headers, (name) => OF_ERRORS.test(name)));
  return JSON.stringify({ type: 'error', status, error, headers: kept });
}
