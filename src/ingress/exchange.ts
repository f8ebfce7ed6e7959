// One HTTP request with its body and its response, whichever server adapter carries it. The head of the response is kept until the
// first byte of its body, so that both leave in one write. Three facts become true in this order and stay true: committed (the head
// has left), handed over (the endpoint has given the last byte), ended (the client has everything, or is gone).

import { randomFillSync } from 'node:crypto';
import { HeadraceError } from '../errors.ts';
import { headerOf } from '../net/flat-headers.ts';
import { freeMemory } from '../net/large-memory.ts';
import type { RequestTokens } from '../telemetry/access-log.ts';
import type { FailedAttempt, RequestTexts } from '../telemetry/request-log.ts';
import type { Span } from '../telemetry/span.ts';
import type { Body, BodyCallback } from './body.ts';
import { codingsOf } from './content-coding.ts';
import { HeadFields } from './head-fields.ts';
import type { ClientSocket, SocketListener } from './web-socket.ts';

/**
 * How an exchange ended. `delivered`: the kernel has all bytes of the response. `gone`: the client closed the connection or did not
 * read in time. `broken`: the gateway broke the connection, so that the client sees an incomplete response.
 */
export type EndCause = 'delivered' | 'gone' | 'broken';

/** Hears what happens to the response of one exchange. */
export interface ExchangeListener {
  /** The client can take more after a `write` returned false. */
  onWritable(): void;
  /** The gateway shuts down before the response has been handed over: it must be ended with an error. */
  onCut(): void;
  /** The exchange is over. Called once for every exchange, also after the response was handed over. */
  onEnded(cause: EndCause): void;
  /** The client has to read before it gets more. */
  readonly isFull?: boolean;
}

/** The attempt on a CRN that was made last, or whose answer passes. Monotonic milliseconds, 0 before. */
export interface ExchangeAttempt {
  readonly sentMs: number;
  readonly begunMs: number;
}

/**
 * Where an exchange stands. `reading`: its body comes in. `waiting`: for a CRN that can take it. `connecting`, `sent`: to a CRN. `begun`:
 * the answer of the CRN has begun, and nothing of it has left. `streaming`: the answer passes. `draining`: the client has to read. `running`:
 * another endpoint than those of models is at work.
 */
export type ExchangePhase =
  | 'reading'
  | 'waiting'
  | 'connecting'
  | 'sent'
  | 'begun'
  | 'streaming'
  | 'draining'
  | 'running';

/** The money of one request. What was charged is 0 until it is closed. */
export interface ExchangeSettlement {
  /** Pico-USD. */
  readonly cost: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** False when the tokens are estimates. */
  readonly measured: boolean;
  /** Closed, and the request that makes this one has yet to say whether it is charged. */
  readonly isWaiting?: boolean;
  /** Called once when that is known. */
  onDecided?: (() => void) | null;
  close(): void;
}

/** What a request costs that another one makes, until that one says whether it is charged. The first call counts. */
export interface PartCharge {
  /** By what was delivered so far, in pico-USD. */
  readonly dueCost: number;
  readonly isWaiting: boolean;
  /** What was delivered is charged, at once or at the end. */
  commit(): void;
  /** Nothing is charged. */
  release(): void;
}

/** Charges of the requests that a request makes. */
export interface PartCharges {
  /** What was committed, by what was delivered of it so far, in pico-USD. */
  readonly dueCost: number;
  /** What parts that have ended hold until this is over, in pico-USD. */
  readonly waitingCost: number;
  add(charge: PartCharge): void;
  /** The client has got something that all parts so far have led to, those under way included: they are charged. */
  deliver(): void;
  /** The request is over: what was not committed is released, now and later. */
  end(): void;
}

/** Knows the tokens of a request once it is over. */
export interface TokenSource {
  /** Null when nothing was delivered, or when the answer is not counted in tokens. */
  tokens(): RequestTokens | null;
  /** What tokens cost by the prices of the model, in pico-USD; 0 for a free one. */
  priceOf(tokens: RequestTokens): number;
}

/** Knows the trailer fields of a response when its last byte is given. */
export interface TrailerSource {
  /** A flat list: name, value, name, value. */
  trailers(): readonly string[];
}

/** How far the work of a request has come. */
export interface ExchangeProgress {
  /** Parts that have ended, of `total`. Grows with every report. */
  readonly done: number;
  readonly total: number;
  /** What has ended, in a few words for people. */
  readonly message: string;
}

/** Header names are lower case; the list is flat: name, value, name, value. */
export interface RequestHead {
  readonly method: string;
  /** Path as sent, without the query. */
  readonly path: string;
  /** Query without the question mark; empty when there is none. */
  readonly query: string;
  readonly headers: readonly string[];
  /** IP address of the peer as text, as its socket says it; '' when it is unknown. */
  readonly remoteAddress: string;
  /** What has been read of the headers of a request before that had the same ones, but for their Content-Length. */
  readonly fields?: HeadFields;
  /** Length of the body where the framing has been checked: 0 when there is none, -1 when it is chunked. */
  readonly declaredBytes?: number;
}

const FIELD_NAME = /^[!#$%&'*+\-.^_`|~\da-z]+$/;
const NO_FIELD_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NO_TARGET = /[^\x21-\x7e\x80-\xff]/;

/**
 * 400 for a head with a character that could end its line where it is forwarded (RFC 9110 §5.1 and §5.5, RFC 9112 §3.2). For heads
 * that no parser has checked: handlers rely on it.
 */
export function checkHead({ headers, path, query }: RequestHead): HeadraceError | null {
  let part = NO_TARGET.test(path) ? 'path' : NO_TARGET.test(query) ? 'query' : '';
  for (let i = 0; i < headers.length; i += 2) {
    if (!FIELD_NAME.test(headers[i] as string)) part ||= 'name of a header';
    if (NO_FIELD_VALUE.test(headers[i + 1] as string)) part ||= `header ${headers[i]}`;
  }
  if (part === '') return null;
  return new HeadraceError('HR_REQUEST_MALFORMED', {
    subject: `the ${part} has a character that is not allowed there`,
  });
}

const HEX = Buffer.from('0123456789abcdef', 'latin1');
/** Ids that are made at once. */
const IDS = 128;
/** A UUID of version 4 (RFC 9562 §5.4), and where the digits of its bytes stand. */
const ID_FORM = '00000000-0000-4000-8000-000000000000';
const ID_PLACES = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
const ID_BYTES = Buffer.from(ID_FORM.repeat(IDS), 'latin1');
const RANDOM = Buffer.allocUnsafeSlow(ID_PLACES.length * IDS);
/** The ids that were made last, one behind the other, and where the next one begins. */
let ids = '';
let idAt = 0;

/** A new UUID. That of `randomUUID` is joined from twenty parts, anew by every head that it is written to. */
function newId(): string {
  if (idAt === ids.length) makeIds();
  const id = ids.slice(idAt, idAt + ID_FORM.length);
  idAt += ID_FORM.length;
  return id;
}

function makeIds(): void {
  randomFillSync(RANDOM);
  for (let from = 0, to = 0; from < RANDOM.byteLength; from += ID_PLACES.length, to += ID_FORM.length) {
    for (let index = 0; index < ID_PLACES.length; index++) {
      const place = ID_PLACES[index] as number;
      let byte = RANDOM[from + index] as number;
      if (place === 14) byte = 0x40 | (byte & 0x0f);
      else if (place === 19) byte = 0x80 | (byte & 0x3f);
      ID_BYTES[to + place] = HEX[byte >> 4] as number;
      ID_BYTES[to + place + 1] = HEX[byte & 0x0f] as number;
    }
  }
  ids = ID_BYTES.toString('latin1');
  idAt = 0;
}

const TE_TRAILERS = /(?:^|,)[ \t]*trailers[ \t]*(?:,|$)/i;

const NO_BYTES: Buffer = Buffer.alloc(0);

export abstract class Exchange implements RequestHead {
  /** @internal Index in the set of requests in flight. */
  slot = -1;
  readonly method: string;
  /** As sent, until the router finds that it is another spelling of a path. */
  path: string;
  readonly query: string;
  readonly headers: readonly string[];
  /** What the headers say, but for the length of the body. */
  readonly fields: HeadFields;
  readonly remoteAddress: string;
  /** The model that the path names, in the form of Azure's deployments; '' where it names none. */
  deployment = '';
  /** `x-request-id`, else `x-client-request-id`, when it is safe; else a new UUID. */
  readonly requestId: string;
  /** The first header of each name. */
  readonly authorization: string | undefined;
  /** `x-api-key`, else `api-key`, in which Azure's clients send it. */
  readonly apiKey: string | undefined;
  readonly contentType: string | undefined;
  /** All values, joined by commas. Undefined once the body is known to come decoded. */
  contentEncoding: string | undefined;
  readonly cookie: string | undefined;
  readonly origin: string | undefined;
  /** The preferred one of the session headers that are not empty. */
  readonly session: string | undefined;
  /** Declared length of the body: 0 when there is none, -1 when it is chunked. */
  readonly declaredBytes: number;
  /** Why the request is refused before it is routed, such as a declared length that is no number (RFC 9112 §6.3). */
  framingError: HeadraceError | null;
  /** Milliseconds of the thread's monotonic clock at which the head was complete. */
  readonly receivedMs: number;
  /** Headers of every response of this exchange (request ids, CORS); a flat list. */
  readonly commonHeaders: string[];

  /** How the exchange ended; null while the client may still get bytes. */
  endCause: EndCause | null = null;
  /** Set by the endpoint that answers. */
  listener: ExchangeListener | null = null;
  /** Called once when the exchange is over, after the listener. */
  onClose: ((exchange: Exchange) => void) | null = null;

  /** The money held for the request, if any; closed when the exchange is over, before `onClose`. */
  settlement: ExchangeSettlement | null = null;
  /** Asked for trailer fields at the end of a response whose head announces them; see `acceptsTrailers`. */
  trailerSource: TrailerSource | null = null;
  /** Set for requests to models; asked once, at the end. */
  tokenSource: TokenSource | null = null;

  /** Status of the response, 0 before there is one. */
  status = 0;
  /** Code of the error table when the response is, or ends with, an error of the gateway's own. */
  errorCode = '';
  /** Names for metrics and logs: the route and, once known, the configured model. */
  endpoint = 'other';
  model = '';
  /** The name by which the client asked for the model, where that is not its id; also of a model that is not known. */
  alias = '';
  /** Id of the response that the request continues, where its body has the conversation in place of the id; else ''. */
  continues = '';
  /** The request has no key where one is required. To be set before the body is read, whose memory is then limited further. */
  keyless = false;
  /** Account of the key or of the wallet; empty without either. */
  account = '';
  /** Id of the key; null without a key, and for one that has no id. */
  credential: string | null = null;
  /** The CRN of the last attempt, and the number of attempts. */
  crn = '';
  attempts = 0;
  attempt: ExchangeAttempt | null = null;
  /** The first attempts that failed; null when none has. */
  failures: FailedAttempt[] | null = null;
  /** Why the first CRN was chosen; empty without one. */
  affinity = '';
  /** Name of the translation in which the CRN was asked; '' where it was asked as the client wrote it. */
  translation = '';
  /** How long the request waited for a CRN with a short backlog, in milliseconds; 0 when it did not. */
  heldMs = 0;
  /** Share of the prompt that this CRN was expected to have in its cache; -1: not known. */
  predictedHit = -1;
  /** What the request took, once it is over; null where nothing was delivered, or nothing is counted in tokens. */
  tokens: RequestTokens | null = null;
  /** What it cost in pico-USD, once it is over: what was charged or paid, else by the prices of the model. */
  cost = 0;
  /** When the first piece of a stream was handed to the client, in milliseconds; 0 without a stream. */
  firstPieceMs = 0;
  /** Size of the body of the request as far as it is known. */
  bytesIn = 0;
  /** The span of this request when it is traced. */
  span: Span | null = null;
  /** Asked when the request is over; null where texts are not kept. */
  texts: { texts(): RequestTexts } | null = null;
  /** By which tool or compatible interface a search or a page was asked for; '' by the endpoint itself. Never a client's own word. */
  tool = '';
  /** Hears how far the work has come, before the answer; null where nobody wants to know. Must not throw. */
  onProgress: ((progress: ExchangeProgress) => void) | null = null;
  /** The request that makes this one, with the credentials of the same client; null for a request of the client itself. */
  parent: Exchange | null = null;
  /** Another request has its id and does its work: what the store records is that one. */
  isPassedOn = false;
  /** Requests that this one makes and that are under way: they leave with it. */
  subRequests: Set<{ leave(): void }> | null = null;
  /** What it costs itself, where somebody else says whether it is charged; null: its own outcome does, or that of its parent. */
  heldBy: PartCharges | null = null;
  /** What they cost, where that is charged by the outcome of this one; null: each is charged by its own. */
  partCharges: PartCharges | null = null;
  /** How many it has made: they are told apart by it. */
  subRequestCount = 0;

  /** Set by the server adapter when the request has a body. */
  protected requestBody: Body | null = null;
  /** Whether somebody may read the body when the exchange is over. False: its memory is freed then. */
  bodyIsRead = true;
  /** The memory of the response's body never changes. */
  protected bodyIsShared = false;
  /** Head of the response, for the first write. */
  protected responseHeaders: readonly string[] = [];
  protected contentLength = -1;

  // What every piece of a stream touches is together, with the fields of the server adapter behind it: few cache lines.
  /** The head of the response has been handed to the socket: the status cannot change any more. */
  committed = false;
  /** The last byte has been given, the response was broken off, or the client has gone: later calls do nothing. */
  handedOver = false;
  /** Size of what was handed out of the body of the response. */
  bytesOut = 0;

  constructor(head: RequestHead, receivedMs: number) {
    const { method } = head;
    const fields = head.fields ?? new HeadFields(head.headers);
    this.method = method;
    this.path = head.path;
    this.query = head.query;
    this.headers = head.headers;
    this.fields = fields;
    this.remoteAddress = head.remoteAddress;
    this.requestId = fields.requestId || newId();
    this.authorization = fields.authorization;
    this.apiKey = fields.apiKey;
    this.contentType = fields.contentType;
    this.contentEncoding = fields.contentEncoding;
    this.cookie = fields.cookie;
    this.origin = fields.origin;
    this.session = fields.session;
    const hasFault = head.declaredBytes === undefined && fields.lengthFault !== '';
    this.declaredBytes = head.declaredBytes ?? fields.declaredBytes;
    this.framingError =
      hasFault && method !== 'GET' && method !== 'HEAD'
        ? new HeadraceError('HR_REQUEST_MALFORMED', { subject: fields.lengthFault })
        : null;
    this.receivedMs = receivedMs;
    this.commonHeaders = ['x-request-id', this.requestId, 'request-id', this.requestId];
  }

  /** The client has gone before it had the whole response. */
  get aborted(): boolean {
    return this.endCause === 'gone';
  }

  get phase(): ExchangePhase {
    const { attempt, requestBody } = this;
    if (this.handedOver || this.listener?.isFull === true) return 'draining';
    if (requestBody !== null && !requestBody.settled) return 'reading';
    if (this.committed) return 'streaming';
    if (attempt === null) return this.model === '' ? 'running' : 'waiting';
    if (attempt.begunMs > 0) return 'begun';
    return attempt.sentMs > 0 ? 'sent' : 'connecting';
  }

  /** Bytes of the body of the request that have come. */
  get receivedBytes(): number {
    return this.requestBody?.receivedBytes ?? this.bytesIn;
  }

  /** Whether the client reads trailer fields (RFC 9110, section 6.5.1) and this server can send them. */
  get acceptsTrailers(): boolean {
    return this.sendsTrailers && TE_TRAILERS.test(this.header('te') ?? '');
  }

  /** Whether a body of unknown length may be followed by trailer fields. */
  protected get sendsTrailers(): boolean {
    return false;
  }

  /** First value of a header by its lower-case name. */
  header(name: string): string | undefined {
    return headerOf(this.headers, name);
  }

  /**
   * Waits for the whole body. `done` is called once, at once if possible: with the bytes, without a content coding, or with 400, 408, 413,
   * 415 or 503 of the error table. It is not called when the client goes first. To be called at most once. `maxBytes`: of paths whose
   * bodies are smaller than the largest that the server takes.
   */
  readBody(done: BodyCallback, maxBytes?: number): void {
    if (maxBytes !== undefined) this.requestBody?.limit(maxBytes);
    if (this.requestBody === null) done(null, NO_BYTES);
    else if (this.contentEncoding === undefined) this.requestBody.wait(done, this.account, this.keyless);
    else this.#readEncoded(this.requestBody, this.contentEncoding, done);
  }

  #readEncoded(body: Body, contentEncoding: string, done: BodyCallback): void {
    const codings = codingsOf(contentEncoding);
    if (codings instanceof HeadraceError) body.fail(codings);
    body.wait(
      (error, bytes) => {
        const isEncoded = this.contentEncoding !== undefined && codings instanceof Array && codings.length > 0;
        if (error !== null || !isEncoded || bytes.byteLength === 0) done(error, bytes);
        else body.decode(bytes, codings, done);
      },
      this.account,
      this.keyless,
    );
  }

  /**
   * Takes memory for another body that the gateway makes of the one that was read, until the exchange is over. Throws 503 when there is not
   * so much left.
   */
  reserveBody(bytes: number): void {
    if (this.endCause !== null || this.requestBody?.reserveAdded(bytes) !== false) return;
    throw new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' });
  }

  /**
   * As `reserveBody`, for a body that nobody else keeps: what refers to it is empty when the exchange is over, or when this throws. See
   * `bodyIsRead`.
   */
  adoptBody(made: Buffer): void {
    try {
      this.reserveBody(made.byteLength);
    } catch (error) {
      freeMemory(made);
      throw error;
    }
    this.requestBody?.adopt(made);
  }

  /** Sets the head of the response. `contentLength` is -1 when unknown: the body is then chunked. */
  start(status: number, headers: readonly string[], contentLength: number): void {
    if (this.committed || this.handedOver) return;
    this.status = status;
    if (contentLength > 0) this.bytesOut = contentLength;
    this.responseHeaders = headers;
    this.contentLength = contentLength;
  }

  /**
   * Sends a piece of the body; false asks the caller to wait for `onWritable`. The caller may reuse the memory of the piece when
   * the call returns.
   */
  abstract write(chunk: Uint8Array): boolean;

  /** Sends the last piece, if any, and completes the response. */
  abstract end(chunk?: Uint8Array): void;

  /** Breaks the connection, so that the client sees an incomplete response. */
  abstract destroy(): void;

  /**
   * Turns the connection into a WebSocket; the exchange ends with it. To be called before anything was sent, for a handshake without
   * fault (`handshakeFault`). Null where this server has no WebSockets.
   */
  openSocket(_listener: SocketListener, _maxMessageBytes: number): ClientSocket | null {
    return null;
  }

  /** Ends what is held of money, of the request and of those that it makes. */
  settle(): void {
    try {
      this.partCharges?.end();
    } finally {
      this.settlement?.close();
    }
  }

  /**
   * Gives the value of a JSON response to whoever has made the request within this process, as it is: it must not be changed any more.
   * False where its text has to be sent.
   */
  handValue(_status: number, _headers: readonly string[], _value: unknown): boolean {
    return false;
  }

  /** Sends a whole response. HEAD requests get the head alone. */
  respond(status: number, headers: readonly string[], body: Uint8Array): void {
    this.start(status, headers, body.byteLength);
    this.end(body);
  }

  /** As `respond`, of a body that never changes: a large one is sent from its memory, which many clients share, and not copied for each. */
  respondShared(status: number, headers: readonly string[], body: Uint8Array): void {
    this.bodyIsShared = true;
    this.respond(status, headers, body);
  }

  /** For the server adapter: the exchange is over. The first call counts. */
  protected ended(cause: EndCause): void {
    if (this.endCause !== null) return;
    this.handedOver = true;
    this.endCause = cause;
    try {
      this.listener?.onEnded(cause);
      if (this.subRequests !== null) for (const inner of this.subRequests) inner.leave();
    } finally {
      try {
        this.settle();
        this.heldBy?.end();
      } finally {
        this.#close();
      }
    }
  }

  #close(): void {
    // Of requests that are not sent on, and of those whose body has not come to its end.
    if (this.bytesIn === 0) this.bytesIn = this.receivedBytes;
    try {
      this.onClose?.(this);
    } finally {
      this.requestBody?.release(this.bodyIsRead);
    }
  }
}

/** Whether the answer with these headers is a stream of events. */
export function isEventStream(headers: readonly string[]): boolean {
  return /^text\/event-stream\b/i.test(headerOf(headers, 'content-type') ?? '');
}

/** Gets every exchange once its head is complete, before its body is read. Must not throw. */
export type ExchangeHandler = (exchange: Exchange) => void;

/**
 * The raw value of the first cookie called `name` in a Cookie header (RFC 6265 §5.4). Characters outside of cookie-octet pass,
 * as quotes and commas do in browsers.
 */
export function readCookie(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  let at = header.indexOf(name);
  while (at >= 0) {
    const equals = at + name.length;
    if (header.charCodeAt(equals) === 0x3d && startsCookie(header, at)) {
      const end = header.indexOf(';', equals);
      return header.slice(equals + 1, end < 0 ? undefined : end).trim();
    }
    at = header.indexOf(name, equals);
  }
  return undefined;
}

function startsCookie(header: string, at: number): boolean {
  let before = at - 1;
  while (before >= 0 && header.charCodeAt(before) === 0x20) before--;
  return before < 0 || header.charCodeAt(before) === 0x3b;
}

/**
 * When a browser sends a cookie back. `cross-site`: also with requests of pages of other sites, in a jar of its own for each (CHIPS); needs
 * https as `secure` does.
 */
export type CookieSending = 'plain' | 'secure' | 'cross-site';

const SENDING: Readonly<Record<CookieSending, string>> = {
  plain: 'SameSite=Lax',
  secure: 'SameSite=Lax; Secure',
  'cross-site': 'SameSite=None; Secure; Partitioned',
};

/** A Set-Cookie value for the whole site; `maxAgeS` in seconds. */
export function setCookie(name: string, value: string, maxAgeS: number, sending: CookieSending): string {
  return `${name}=${value}; Max-Age=${maxAgeS}; Path=/; HttpOnly; ${SENDING[sending]}`;
}
