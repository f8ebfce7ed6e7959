// HTTP client for untrusted servers, over a connection pool whose sockets come from the guarded connector. One
// request is one hop; redirects, decoding and size limits are left to the caller. No text from a server gets into an error.

import { Agent, type Dispatcher } from 'undici';
import type { Clock, TimerHandle } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import { type ConnectorOptions, GuardedConnector, type Target } from './guarded-connector.ts';
import { readingResponses } from './response-bytes.ts';

export interface GuardedClientOptions extends ConnectorOptions {
  /** Longest wait for the response head once the request is sent, in milliseconds. */
  readonly firstByteTimeoutMs: number;
  /** Longest response as on the wire, with its heads and framing. Longer ones fail with `HR_FETCH_TOO_LARGE`. */
  readonly maxWireBytes: number;
  /** Most connections to one origin. */
  readonly connections: number;
}

/** More than undici's default: security policies make heads long. */
const MAX_HEAD_BYTES = 65_536;

/** Long enough for a redirect and the page behind it. */
const KEEP_ALIVE_MS = 5000;
const MAX_KEEP_ALIVE_MS = 30_000;

/** Bytes that may wait for the reader before the connection is paused. */
const MAX_WAITING_BYTES = 65_536;

/** 1xx answers before the head; servers send one or two. */
const MAX_INFORMATIONAL = 8;

/** Smallest and largest block of a body, where pieces are no larger. Up to the largest, each is as long as all before it. */
const MIN_CAPACITY = 4096;
const MAX_BLOCK = 1_048_576;

/** What waits for the head of an answer from one origin. */
interface OriginWait {
  requests: number;
  /** Ends the connection attempts when no request waits. */
  readonly connecting: AbortController;
}

export class GuardedClient {
  readonly #options: GuardedClientOptions;
  readonly #connector: GuardedConnector;
  readonly #agent: Agent;
  readonly #waiting = new Map<string, OriginWait>();

  constructor(options: GuardedClientOptions) {
    this.#options = options;
    this.#connector = new GuardedConnector(options);
    this.#agent = new Agent({
      connections: options.connections,
      pipelining: 1,
      allowH2: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
      // Timeouts are set here, by the clock; undici's are coarse.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (target, callback) => {
        this.#connector.connect(target, this.#waiting.get(originOf(target))?.connecting.signal).then(
          (socket) => callback(null, readingResponses(socket, options.maxWireBytes)),
          (error: Error) => callback(error, null),
        );
      },
    });
  }

  /**
   * Sends a GET and resolves at the response head. The URL must have passed the guard. Rejects with a `HeadraceError`, or
   * with the reason of `signal`, which also ends the body.
   */
  async get(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<GuardedResponse> {
    const waiting = this.#wait(url.origin);
    try {
      return await this.#dispatch(url, headers, signal);
    } catch (error) {
      // The request may have gone out on a reused connection, which the server has just closed: try once more.
      if (!isCutOff(error) || signal.aborted) throw error;
      return await this.#dispatch(url, headers, signal);
    } finally {
      this.#waitNoMore(url.origin, waiting);
    }
  }

  /** Sends a POST once and resolves at the response head; otherwise as `get`. */
  async post(
    url: URL,
    headers: Readonly<Record<string, string>>,
    body: string,
    signal: AbortSignal,
  ): Promise<GuardedResponse> {
    const waiting = this.#wait(url.origin);
    try {
      const response = new GuardedResponse(this.#options.clock, this.#options.firstByteTimeoutMs, signal);
      const path = url.pathname + url.search;
      this.#agent.dispatch({ origin: url.origin, path, method: 'POST', headers: { ...headers }, body }, response);
      return await response.head;
    } finally {
      this.#waitNoMore(url.origin, waiting);
    }
  }

  /** Ends all requests and connections. */
  async close(): Promise<void> {
    this.#connector.close();
    await this.#agent.destroy();
  }

  #wait(origin: string): OriginWait {
    const waiting = this.#waiting.get(origin) ?? { requests: 0, connecting: new AbortController() };
    this.#waiting.set(origin, waiting);
    waiting.requests++;
    return waiting;
  }

  /** Connections that nobody waits for any more are given up: a client that leaves costs no lookup and no socket. */
  #waitNoMore(origin: string, waiting: OriginWait): void {
    if (--waiting.requests > 0) return;
    this.#waiting.delete(origin);
    waiting.connecting.abort(new HeadraceError('HR_FETCH_FAILED', { subject: 'connection closed' }));
  }

  #dispatch(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<GuardedResponse> {
    const response = new GuardedResponse(this.#options.clock, this.#options.firstByteTimeoutMs, signal);
    const path = url.pathname + url.search;
    this.#agent.dispatch({ origin: url.origin, path, method: 'GET', headers: { ...headers } }, response);
    return response.head;
  }
}

/**
 * The response to one request: its head, and its body as on the wire. The body has one reader, which takes what `collect`
 * has gathered or iterates over pieces. Both throw `HR_FETCH_FAILED` for a body that is cut off; what was not taken by then
 * is dropped. A response must be read to its end or closed.
 */
export class GuardedResponse implements Dispatcher.DispatchHandler, AsyncIterable<Uint8Array<ArrayBuffer>> {
  status = 0;
  /** Names in lower case; repeated fields are joined by a comma. */
  readonly headers: Record<string, string> = {};
  /** The `Set-Cookie` fields, which cannot be joined. */
  readonly cookies: string[] = [];
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal;
  readonly #head = Promise.withResolvers<GuardedResponse>();
  readonly #body = new GrowingBytes();
  #state: 'open' | 'ended' | 'closed' | { readonly error: Error } = 'open';
  #controller: Dispatcher.DispatchController | null = null;
  #timer: TimerHandle | null = null;
  #reader: PromiseWithResolvers<void> | null = null;
  /** The reader waits for more bytes than these. */
  #wanted = 0;
  #paused = false;
  #informational = 0;

  constructor(clock: Clock, firstByteTimeoutMs: number, signal: AbortSignal) {
    this.#clock = clock;
    this.#timeoutMs = firstByteTimeoutMs;
    this.#signal = signal;
    signal.addEventListener('abort', this, { once: true });
    if (signal.aborted) this.handleEvent();
  }

  /** Resolves with this response once its head is complete. */
  get head(): Promise<GuardedResponse> {
    return this.#head.promise;
  }

  /** Bytes of the body that have not been taken. */
  get length(): number {
    return this.#body.length;
  }

  /** Gathers the body until it has ended (true) or is longer than `maxBytes` (false). */
  async collect(maxBytes: number): Promise<boolean> {
    this.#wanted = maxBytes;
    for (;;) {
      if (typeof this.#state === 'object') throw this.#state.error;
      if (this.#body.length > maxBytes) return false;
      if (this.#state !== 'open') return true;
      this.#resume();
      this.#reader = Promise.withResolvers();
      await this.#reader.promise;
    }
  }

  /** What has been gathered, in a buffer of exactly its size. */
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#body.take();
    this.#resume();
    return bytes;
  }

  /** The rest of the body in pieces of useful size, whatever the pieces on the wire. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
    let ended = false;
    while (!ended) {
      ended = await this.collect(0);
      if (this.#body.length > 0) yield this.take();
    }
  }

  /** Drops the body. Ends the connection unless the body has ended. */
  close(): void {
    if (this.#state === 'open') this.#stop(new HeadraceError('HR_FETCH_FAILED', { subject: 'connection closed' }));
    this.#state = 'closed';
    this.#body.take();
  }

  /** @internal The signal has fired. */
  handleEvent(): void {
    this.#stop(this.#signal.reason as Error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal.aborted) {
      controller.abort(this.#signal.reason as Error);
      return;
    }
    const late = (): void => this.#stop(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'first byte' }));
    this.#timer = this.#clock.setTimeout(late, this.#timeoutMs);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: NodeJS.Dict<string | string[]>,
  ): void {
    if (status < 200) {
      if (++this.#informational > MAX_INFORMATIONAL)
        this.#stop(new HeadraceError('HR_FETCH_FAILED', { subject: 'malformed answer' }));
      return;
    }
    this.#clearTimer();
    this.status = status;
    const cookies = headers['set-cookie'] ?? [];
    this.cookies.push(...(typeof cookies === 'string' ? [cookies] : cookies));
    for (const [name, value = ''] of Object.entries(headers))
      this.headers[name] = typeof value === 'string' ? value : value.join(', ');
    this.#head.resolve(this);
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#state !== 'open') return;
    this.#body.append(piece);
    if (!this.#paused && this.#body.length >= Math.max(this.#wanted + 1, MAX_WAITING_BYTES)) {
      this.#paused = true;
      this.#controller?.pause();
    }
    if (this.#body.length > this.#wanted) this.#wake();
  }

  onResponseEnd(): void {
    this.#release();
    const end = (): void => {
      if (this.#state === 'open') this.#state = 'ended';
      this.#wake();
    };
    // undici frees the connection one turn later; the next request of the reader should find it.
    setImmediate(() => setImmediate(end));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(errorOf(error));
  }

  #stop(error: Error): void {
    this.#fail(error);
    this.#controller?.abort(error);
  }

  #fail(error: Error): void {
    this.#release();
    this.#head.reject(error);
    if (this.#state !== 'closed') this.#state = { error };
    this.#wake();
  }

  #wake(): void {
    this.#reader?.resolve();
    this.#reader = null;
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#controller?.resume();
  }

  #release(): void {
    this.#clearTimer();
    this.#signal.removeEventListener('abort', this);
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/**
 * Bytes that come in pieces, kept in blocks: a million pieces of one byte take no more memory than one megabyte, and nothing is copied
 * before they are taken.
 */
export class GrowingBytes {
  length = 0;
  readonly #full: Uint8Array[] = [];
  #block: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  #used = 0;

  /** Copies a piece to the end. */
  append(piece: Uint8Array): void {
    const room = this.#block.byteLength - this.#used;
    const fitting = piece.byteLength <= room ? piece : piece.subarray(0, room);
    this.#block.set(fitting, this.#used);
    this.#used += fitting.byteLength;
    const rest = piece.byteLength - fitting.byteLength;
    if (rest > 0) {
      if (this.#used > 0) this.#full.push(this.#block);
      const wanted = Math.min(this.length, MAX_BLOCK);
      this.#block = new Uint8Array(Math.max(rest, wanted, MIN_CAPACITY));
      this.#block.set(piece.subarray(fitting.byteLength));
      this.#used = rest;
    }
    this.length += piece.byteLength;
  }

  /** All bytes so far, in a buffer of exactly their size. Nothing stays here. */
  take(): Uint8Array<ArrayBuffer> {
    const exact = this.length === this.#block.byteLength ? this.#block : this.#joined();
    this.#full.length = 0;
    this.#block = new Uint8Array(0);
    this.#used = 0;
    this.length = 0;
    return exact;
  }

  #joined(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.length);
    let at = 0;
    for (const block of this.#full) {
      bytes.set(block, at);
      at += block.byteLength;
    }
    bytes.set(this.#block.subarray(0, this.#used), at);
    return bytes;
  }
}

function isCutOff(error: unknown): boolean {
  return error instanceof HeadraceError && error.subject === 'connection closed';
}

function errorOf(cause: Error): HeadraceError {
  if (cause instanceof HeadraceError) return cause;
  return new HeadraceError('HR_FETCH_FAILED', { subject: subjectOf(cause), cause });
}

function subjectOf(error: Error): string {
  if (error.name === 'HTTPParserError') return 'malformed answer';
  switch ((error as NodeJS.ErrnoException).code) {
    case 'UND_ERR_HEADERS_OVERFLOW':
      return 'head too large';
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return 'wrong length';
    default:
      return 'connection closed';
  }
}

/** The origin of a target as `URL` writes it. */
function originOf({ hostname, port, protocol }: Target): string {
  const host = hostname.includes(':') ? `[${hostname}]` : hostname;
  return new URL(`${protocol}//${host}${port === '' ? '' : `:${port}`}`).origin;
}
