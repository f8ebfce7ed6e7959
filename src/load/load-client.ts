// Sends the requests of a load and times their answers: the project's own HTTP/1.1 client under a handler that does as
// little as it can, so that the load client is not what is measured. The runner calls `send`; every call ends once, with
// an answer or with what went wrong. The key travels in the headers alone and is in no error and no report.
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
import { type Counted, StreamWatch } from './stream-observer.ts';

/** What became of a request. Times are those of the clock; NaN for what did not happen. */
export interface Answer extends Readonly<Counted> {
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
  /** What the model said, when it was asked for. */
  readonly text: string;
  /** What the simulated host said about itself, as JSON. */
  readonly truth: string | undefined;
}

/** Sends requests; the runner knows no more of the network than this. */
export interface Sender {
  send(request: LoadRequest, keepsText: boolean, done: (answer: Answer) => void): void;
  /** Cuts what is under way (each `done` hears `stopped`) and lets the process end. */
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
  readonly #live = new Set<Sending>();

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

  send(request: LoadRequest, keepsText: boolean, done: (answer: Answer) => void): void {
    const connection = this.#pool.take() as Connection;
    const sending = new Sending(this, connection, keepsText, (answer, isReusable) => {
      this.#live.delete(sending);
      if (isReusable) this.#pool.give(connection);
      else this.#pool.discard(connection);
      done(answer);
    });
    this.#live.add(sending);
    const { path, body } = request;
    connection.client.dispatch({ method: 'POST', path: this.#prefix + path, headers: this.headers, body }, sending);
  }

  close(): void {
    for (const sending of [...this.#live]) sending.cut('stopped');
    this.#pool.close();
  }
}

type Done = (answer: Answer, isReusable: boolean) => void;

/** One request under way. */
class Sending implements DispatchHandler {
  readonly #clock: Clock;
  readonly #watch: StreamWatch;
  readonly #connection: Connection;
  readonly #done: Done;
  readonly #timer: TimerHandle;
  /** When it was handed to the client: a new connection is part of what a user waits for. */
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
    this.#watch = new StreamWatch(settings.dialect, keepsText);
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
      else if (headers[at] === 'x-headrace-truth') this.#watch.truth = value;
    }
  }

  onResponseData(_: DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    if (this.#isStream) this.#watch.push(chunk, this.#clock.now());
    else if (this.#status < 400) this.#watch.pushWhole(chunk);
  }

  onResponseEnd(): void {
    const watch = this.#watch;
    if (!this.#isStream && this.#status < 400) watch.endWhole();
    if (this.#status < 200 || this.#status >= 300) this.#end(`${this.#status}${this.#code}`, true);
    else if (watch.failed) this.#end('error event', true);
    else this.#end(watch.complete ? 'ok' : 'truncated', true);
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
    const watch = this.#watch;
    const { firstEventMs, textMs, promptTokens, cachedTokens, outputTokens, text, truth } = watch;
    const answer: Answer = {
      status: this.#status,
      outcome,
      sentMs: this.#sentMs,
      headMs: this.#headMs,
      firstEventMs,
      textMs,
      endedMs: this.#clock.now(),
      bytes: this.#bytes,
      ...{ promptTokens, cachedTokens, outputTokens, text, truth },
    };
    this.#done(answer, isReusable && !this.#connection.client.destroyed);
  }
}
