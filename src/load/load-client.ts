// HTTP client of the load generator: sends requests and records the times of their responses with as little work as possible.
// Every request ends once, with a response or an error. The API key is in the headers alone, in no error and no report.
import type { Clock, TimerHandle } from '../actor/index.ts';
import type { DialectName } from '../dialect/index.ts';
import {
  type Connection,
  type DispatchController,
  type DispatchHandler,
  ConnectionPool,
  DispatchError,
} from '../net/client.ts';
import type { LoadRequest } from './load-request.ts';
import { type Counted, StreamObserver } from './stream-observer.ts';

/** What became of a request. Times are those of the clock; NaN for what did not happen. */
export interface LoadResponse extends Readonly<Counted> {
  /** 0 when there was none. */
  readonly status: number;
  /** `ok`, or what went wrong in a word or two: `503 HR_ROUTE_ALL_FAILED`, `timeout`, `reset`, `truncated`. */
  readonly outcome: string;
  readonly sentMs: number;
  readonly headMs: number;
  readonly firstEventMs: number;
  /** When each event with output of the model came. */
  readonly textMs: readonly number[];
  readonly endedMs: number;
  readonly bytes: number;
  /** Text of the answer, when it was requested. */
  readonly text: string;
  /** Server timings of a simulated host, as JSON. */
  readonly serverTimings: string | undefined;
}

/** Sends requests; the runner knows no more of the network than this. */
export interface Sender {
  send(request: LoadRequest, keepsText: boolean, done: (answer: LoadResponse) => void): void;
  /** Aborts requests in progress (outcome `stopped`) and closes all connections. */
  close(): void;
}

export interface ClientSettings {
  /** Where the paths of the dialects begin. */
  readonly url: URL;
  readonly dialect: DialectName;
  readonly stream: boolean;
  /** Undefined for none. */
  readonly key: string | undefined;
  /** Further headers, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Longest time of a request. */
  readonly timeoutMs: number;
  /** Asks a simulated host for what really happened. */
  readonly truth: boolean;
}

/** Shorter than servers keep idle connections, so that no request meets a closing one. */
const KEEP_ALIVE_MS = 4000;

export class LoadClient implements Sender {
  /** @internal */ readonly clock: Clock;
  /** @internal */ readonly settings: ClientSettings;
  /** @internal */ readonly headers: readonly string[];
  readonly #pool: ConnectionPool;
  readonly #prefix: string;
  readonly #live = new Set<PendingRequest>();

  constructor(settings: ClientSettings, clock: Clock) {
    const { url, key, headers, stream, dialect, truth } = settings;
    this.settings = settings;
    this.clock = clock;
    // How many are open is for the plan to say.
    this.#pool = new ConnectionPool(url.origin, { maxConnections: Infinity, keepAliveMs: KEEP_ALIVE_MS });
    this.#prefix = url.pathname.replace(/(?:\/v1)?\/*$/, '');
    const all = {
      'content-type': 'application/json',
      accept: stream ? 'text/event-stream' : 'application/json',
      'user-agent': 'headrace-bench',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(dialect === 'messages' && { 'anthropic-version': '2023-06-01' }),
      ...(truth && { 'x-headrace-truth': '1' }),
      ...headers,
    };
    this.headers = Object.entries(all).flat();
  }

  send(request: LoadRequest, keepsText: boolean, done: (answer: LoadResponse) => void): void {
    const connection = this.#pool.take() as Connection;
    const pending = new PendingRequest(this, connection, keepsText, (answer, isReusable) => {
      this.#live.delete(pending);
      if (isReusable) this.#pool.give(connection);
      else this.#pool.discard(connection);
      done(answer);
    });
    this.#live.add(pending);
    const { path, body } = request;
    connection.client.dispatch({ method: 'POST', path: this.#prefix + path, headers: this.headers, body }, pending);
  }

  close(): void {
    for (const pending of [...this.#live]) pending.cut('stopped');
    this.#pool.close();
  }
}

type Done = (answer: LoadResponse, isReusable: boolean) => void;

/** One request under way. */
class PendingRequest implements DispatchHandler {
  readonly #clock: Clock;
  readonly #observer: StreamObserver;
  readonly #connection: Connection;
  readonly #done: Done;
  readonly #timer: TimerHandle;
  /** When the request was dispatched; opening a connection is included in its latency. */
  readonly #sentMs: number;
  #headMs = NaN;
  #status = 0;
  #bytes = 0;
  #isStream = false;
  #code = '';
  #isDone = false;

  constructor({ clock, settings }: LoadClient, connection: Connection, keepsText: boolean, done: Done) {
    this.#clock = clock;
    this.#connection = connection;
    this.#done = done;
    this.#observer = new StreamObserver(settings.dialect, keepsText);
    this.#timer = clock.setTimeout(() => this.cut('timeout'), settings.timeoutMs);
    this.#sentMs = clock.now();
  }

  onRequestStart(): void {
    // Nothing is measured from here: opening the connection counts.
  }

  onResponseStart(_: DispatchController, status: number, headers: readonly string[]): void {
    this.#headMs = this.#clock.now();
    this.#status = status;
    for (let at = 0; at < headers.length; at += 2) {
      const value = headers[at + 1] as string;
      if (headers[at] === 'content-type') this.#isStream = value.startsWith('text/event-stream');
      else if (headers[at] === 'x-headrace-error') this.#code = ` ${value}`;
      else if (headers[at] === 'x-headrace-truth') this.#observer.serverTimings = value;
    }
  }

  onResponseData(_: DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    if (this.#isStream) this.#observer.push(chunk, this.#clock.now());
    else if (this.#status < 400) this.#observer.pushWhole(chunk);
  }

  onResponseEnd(): void {
    const observer = this.#observer;
    if (!this.#isStream && this.#status < 400) observer.endWhole();
    if (this.#status < 200 || this.#status >= 300) this.#end(`${this.#status}${this.#code}`, true);
    else if (observer.failed) this.#end('error event', true);
    else this.#end(observer.complete ? 'ok' : 'truncated', true);
  }

  onResponseError(_: DispatchController, error: Error): void {
    const code = (error as NodeJS.ErrnoException).code;
    this.#end(error instanceof DispatchError ? error.fault : (code ?? error.name), false);
  }

  /** Ends it before its answer has. */
  cut(outcome: string): void {
    this.#end(outcome, false);
  }

  #end(outcome: string, isReusable: boolean): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#clock.clearTimeout(this.#timer);
    const observer = this.#observer;
    const { firstEventMs, textMs, promptTokens, cachedTokens, outputTokens, text, serverTimings } = observer;
    const answer: LoadResponse = {
      status: this.#status,
      outcome,
      sentMs: this.#sentMs,
      headMs: this.#headMs,
      firstEventMs,
      textMs,
      endedMs: this.#clock.now(),
      bytes: this.#bytes,
      ...{ promptTokens, cachedTokens, outputTokens, text, serverTimings },
    };
    this.#done(answer, isReusable && !this.#connection.client.destroyed);
  }
}
