// GET requests to servers that strangers name, on a connection pool of their own: undici's, with the guarded connector
// underneath. One request is one hop: redirects, decoding and limits are the fetch room's. Nothing of a server's text
// gets into an error.

import { Agent, type Dispatcher } from 'undici';
import type { Clock, TimerHandle } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import { type BodySource, PageBody } from './page-body.ts';
import { type ConnectorOptions, GuardedConnector } from './guarded-connector.ts';

export interface GuardedClientOptions extends ConnectorOptions {
  /** Longest wait for the head of an answer once the request is sent, in milliseconds. */
  readonly firstByteTimeoutMs: number;
  /** Most connections to one origin. */
  readonly connections: number;
}

export interface GuardedResponse {
  readonly status: number;
  /** Names in lower case; repeated fields are joined by a comma. */
  readonly headers: Readonly<Record<string, string>>;
  /** As on the wire; to be read to its end or left with `return()`. Throws `HR_FETCH_FAILED` when it is cut off. */
  readonly body: PageBody;
}

/** More than the default: policies in heads are long. */
const MAX_HEAD_BYTES = 65_536;

/** Long enough for a redirect and the page behind it; pages come back rarely. */
const KEEP_ALIVE_MS = 5000;
const MAX_KEEP_ALIVE_MS = 30_000;

export class GuardedClient {
  readonly #options: GuardedClientOptions;
  readonly #connector: GuardedConnector;
  readonly #agent: Agent;
  /** Origins being asked: how many requests wait for a head, and connections made meanwhile. */
  readonly #asked = new Map<string, { requests: number; connects: number }>();

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
      // Deadlines are our own: exact, and by the clock.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: (target, callback) => {
        this.#connector.connect(target).then(
          (socket) => callback(null, socket),
          (error: Error) => callback(error, null),
        );
      },
    });
    this.#agent.on('connect', ({ origin }) => {
      const asked = this.#asked.get(origin);
      if (asked !== undefined) asked.connects++;
    });
  }

  /**
   * Sends a GET and resolves at the head of the answer. Rejects with a `HeadraceError`, or with the reason of `signal`,
   * which ends the body too. The URL has been admitted by the guard.
   */
  async get(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<GuardedResponse> {
    const asked = this.#asked.get(url.origin) ?? { requests: 0, connects: 0 };
    this.#asked.set(url.origin, asked);
    asked.requests++;
    const { connects } = asked;
    try {
      return await this.#dispatch(url, headers, signal);
    } catch (error) {
      // No connection was made meanwhile: the request went out on a used one, which its server may just have closed.
      if (connects !== asked.connects || !isCutOff(error) || signal.aborted) throw error;
      return await this.#dispatch(url, headers, signal);
    } finally {
      if (--asked.requests === 0) this.#asked.delete(url.origin);
    }
  }

  /** Ends everything at once. */
  async close(): Promise<void> {
    this.#connector.close();
    await this.#agent.destroy();
  }

  #dispatch(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<GuardedResponse> {
    const exchange = new Exchange(this.#options.clock, this.#options.firstByteTimeoutMs, signal);
    const path = url.pathname + url.search;
    this.#agent.dispatch({ origin: url.origin, path, method: 'GET', headers: { ...headers } }, exchange);
    return exchange.response;
  }
}

function isCutOff(error: unknown): boolean {
  return error instanceof HeadraceError && error.subject === 'connection closed';
}

/** One request and its answer. */
class Exchange implements Dispatcher.DispatchHandler, BodySource {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal;
  readonly #head = Promise.withResolvers<GuardedResponse>();
  #controller: Dispatcher.DispatchController | null = null;
  #body: PageBody | null = null;
  #timer: TimerHandle | null = null;

  constructor(clock: Clock, timeoutMs: number, signal: AbortSignal) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    signal.addEventListener('abort', this.#leave, { once: true });
    if (signal.aborted) this.#leave();
  }

  get response(): Promise<GuardedResponse> {
    return this.#head.promise;
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
    if (status < 200) return;
    this.#clearTimer();
    this.#body = new PageBody(this);
    this.#head.resolve({ status, headers: joined(headers), body: this.#body });
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#body?.write(piece);
  }

  onResponseEnd(): void {
    this.#settle();
    // undici keeps the connection back for a turn, for stray bytes; the reader's next request is to find it.
    setImmediate(() => setImmediate(() => this.#body?.end()));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(faultOf(error));
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  abort(): void {
    this.#stop(new HeadraceError('HR_FETCH_FAILED', { subject: 'connection closed' }));
  }

  readonly #leave = (): void => this.#stop(this.#signal.reason as Error);

  #stop(error: Error): void {
    this.#fail(error);
    this.#controller?.abort(error);
  }

  #fail(error: Error): void {
    this.#settle();
    this.#head.reject(error);
    this.#body?.fail(error);
  }

  #settle(): void {
    this.#clearTimer();
    this.#signal.removeEventListener('abort', this.#leave);
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}

function joined(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]),
  );
}

function faultOf(cause: Error): HeadraceError {
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
