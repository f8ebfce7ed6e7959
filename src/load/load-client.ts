// HTTP client of the load generator: sends requests and records the times of their responses with as little work as possible.
// Every request ends once, with a response or an error. The API key is in the headers alone, in no error and no report.
import type { Clock, TimerHandle } from '../actor/index.ts';
import { type AnswerFailure, AnswerJudge, type DialectName, DIALECTS } from '../dialect/index.ts';
import {
  type Connection,
  type DispatchError,
  type DispatchHandler,
  ConnectionPool,
  isSendable,
} from '../net/client.ts';
import type { LoadRequest } from './load-request.ts';
import { LoadError } from './workload.ts';
import { type Counted, MAX_ANSWER_BYTES, StreamObserver } from './stream-observer.ts';

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
  /** Aborts requests in progress (outcome `cut`) and closes all connections. */
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

const UNSENDABLE = 'its name or value has characters that no header may have, or it is written for each connection';

export class LoadClient implements Sender {
  /** @internal */ readonly clock: Clock;
  /** @internal */ readonly settings: ClientSettings;
  /** @internal */ readonly headers: readonly string[];
  readonly #pool: ConnectionPool;
  readonly #prefix: string;
  readonly #live = new Set<PendingRequest>();

  /** Throws `LoadError` for a header that cannot be sent. */
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
    for (const [name, value] of Object.entries(all)) {
      // The value may be the key.
      if (!isSendable(name, value)) throw new LoadError(`the header "${name}" cannot be sent: ${UNSENDABLE}`);
    }
    this.headers = Object.entries(all).flat();
  }

  send(request: LoadRequest, keepsText: boolean, done: (answer: LoadResponse) => void): void {
    const pending = new PendingRequest(this, keepsText, (answer) => {
      this.#live.delete(pending);
      done(answer);
    });
    this.#live.add(pending);
    const { path, body } = request;
    const options = { method: 'POST', path: this.#prefix + path, headers: this.headers, body } as const;
    pending.connection = this.#pool.dispatch(options, pending);
  }

  close(): void {
    for (const pending of [...this.#live]) pending.cut('cut');
    this.#pool.close();
  }
}

type Done = (answer: LoadResponse) => void;

/** One request under way. */
class PendingRequest implements DispatchHandler {
  connection: Connection | null = null;
  readonly #clock: Clock;
  readonly #observer: StreamObserver;
  readonly #dialect: DialectName;
  readonly #done: Done;
  readonly #timer: TimerHandle;
  /** When the request was dispatched; opening a connection is included in its latency. */
  readonly #sentMs: number;
  #headMs = NaN;
  #status = 0;
  #bytes = 0;
  #contentType = '';
  #isEncoded = false;
  #code = '';
  #isDone = false;

  constructor({ clock, settings }: LoadClient, keepsText: boolean, done: Done) {
    this.#clock = clock;
    this.#done = done;
    this.#observer = new StreamObserver(settings.dialect, keepsText);
    this.#dialect = settings.dialect;
    this.#timer = clock.setTimeout(() => this.cut('timeout'), settings.timeoutMs);
    this.#sentMs = clock.now();
  }

  onRequestSent(): void {
    // Nothing is measured from here: opening the connection counts.
  }

  get #isStream(): boolean {
    return this.#contentType.startsWith('text/event-stream');
  }

  onResponseStart(status: number, headers: readonly string[]): void {
    this.#headMs = this.#clock.now();
    this.#status = status;
    for (let at = 0; at < headers.length; at += 2) {
      const value = headers[at + 1] as string;
      if (headers[at] === 'content-type') this.#contentType = value.toLowerCase();
      else if (headers[at] === 'content-encoding') this.#isEncoded = value !== 'identity';
      else if (headers[at] === 'x-headrace-error') this.#code = ` ${value}`;
      else if (headers[at] === 'x-headrace-truth') this.#observer.serverTimings = value;
    }
  }

  onResponseData(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    if (this.#isStream) this.#observer.push(chunk, this.#clock.now());
    else if (this.#status < 400) this.#observer.pushWhole(chunk);
  }

  onResponseEnd(): void {
    const observer = this.#observer;
    observer.end(this.#clock.now());
    if (this.#status < 200 || this.#status >= 300) this.#end(`${this.#status}${this.#code}`);
    else if (!this.#isStream) this.#end(this.#failureOfWhole(observer.endWhole()) ?? 'ok');
    else if (observer.failed) this.#end('error event');
    else this.#end(observer.complete ? 'ok' : 'truncated');
  }

  /** Why a whole answer is none, as the gateway judges it: servers and proxies also report errors under status 200. */
  #failureOfWhole(body: Buffer): AnswerFailure | null {
    const judge = new AnswerJudge(DIALECTS[this.#dialect], 1, false, MAX_ANSWER_BYTES);
    const head = { status: this.#status, contentType: this.#contentType, encoded: this.#isEncoded, contentLength: -1 };
    judge.begin(head);
    if (this.#bytes > MAX_ANSWER_BYTES) return null;
    judge.data(body);
    return judge.end(body, true);
  }

  onResponseError({ cause, fault }: DispatchError): void {
    this.#end((cause as NodeJS.ErrnoException | undefined)?.code ?? fault);
  }

  /** Ends it before its answer has. */
  cut(outcome: string): void {
    this.connection?.abort(this);
    this.#end(outcome);
  }

  #end(outcome: string): void {
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
    this.#done(answer);
  }
}
