// HTTP access to an attached engine: base URL, API key, connections. Short requests are buffered, generations and relayed
// requests are streamed. API keys of clients are never sent to the engine.
import type { Clock } from '../../actor/index.ts';
import { httpUrl } from '../../config/units.ts';
import { type BufferedResponse, BufferedClient } from '../../net/buffered-client.ts';
import { ConnectionPool } from '../../net/client.ts';
import { DeadlineQueue } from '../../net/deadline.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';
import { type EngineTimeouts, type OpenAnswer, EngineDispatch, AttachedEngineError } from './engine-dispatch.ts';
export type JsonObject = Readonly<Record<string, unknown>>;

export interface EngineHttpSettings {
  /** Base URL, http: or https:, with or without a trailing slash; a path such as `/v1` at its end is left out. */
  readonly url: string;
  /** Sent as a bearer token; undefined: none. */
  readonly apiKey: string | undefined;
  readonly clock: Clock;
  readonly timeouts: EngineTimeouts;
  /** Most requests to the engine at once. */
  readonly maxConnections: number;
}

/** An answer read whole; `json` is undefined when the body is no JSON. */
export interface AttachedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly json: unknown;
  readonly text: string;
}

/** The largest answer to a short question: token lists of long texts are the longest. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

const KEEP_ALIVE_MS = 30_000;

/** Connections for short questions, besides those of generations. */
const QUESTIONS = 16;

export class EngineHttp {
  /** Base URL without a trailing slash. */
  readonly url: string;
  readonly #origin: string;
  readonly #prefix: string;
  readonly #settings: EngineHttpSettings;
  readonly #pool: ConnectionPool;
  readonly #deadlines: DeadlineQueue;
  readonly #questions = new BufferedClient(QUESTIONS);
  /** Health is asked for on a connection of its own, so that no question of a client keeps it waiting. */
  readonly #probes = new BufferedClient(1);

  /** Throws when the URL is none or is neither http: nor https:. */
  constructor(settings: EngineHttpSettings) {
    const { url, clock, maxConnections } = settings;
    const parsed = httpUrl(url);
    if (parsed === null) throw new Error(`not the URL of an engine: ${url}`);
    this.#origin = parsed.origin;
    this.#prefix = parsed.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
    this.url = this.#origin + this.#prefix;
    this.#settings = settings;
    this.#pool = new ConnectionPool(this.#origin, { maxConnections, keepAliveMs: KEEP_ALIVE_MS, clock });
    this.#deadlines = new DeadlineQueue(clock);
  }

  /** GETs, or POSTs `body`. Rejects with AttachedEngineError when there is no whole answer within `timeoutMs`. */
  ask(path: string, body: JsonObject | undefined, timeoutMs: number): Promise<AttachedResponse> {
    return this.#ask(this.#questions, path, body, timeoutMs);
  }

  /** GETs as `ask` does, whatever else is asked. */
  probe(path: string, timeoutMs: number): Promise<AttachedResponse> {
    return this.#ask(this.#probes, path, undefined, timeoutMs);
  }

  async #ask(
    client: BufferedClient,
    path: string,
    body: JsonObject | undefined,
    timeoutMs: number,
  ): Promise<AttachedResponse> {
    const { clock } = this.#settings;
    const late = new AbortController();
    const timer = clock.setTimeout(() => late.abort(), timeoutMs);
    try {
      const response = await client.send(
        {
          method: body === undefined ? 'GET' : 'POST',
          url: this.url + path,
          headers: { ...this.#credential(), accept: 'application/json', 'content-type': 'application/json' },
          ...(body !== undefined && { body: JSON.stringify(body) }),
        },
        late.signal,
        MAX_ANSWER_BYTES,
      );
      return reading(response);
    } catch (error) {
      const isLate = late.signal.aborted;
      const message = isLate ? 'the engine did not answer in time' : 'the engine cannot be reached';
      throw new AttachedEngineError(message, { status: isLate ? 504 : 502, isUnreachable: true, cause: error });
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** POSTs; `headers` are flat and hold no credentials. Rejects with AttachedEngineError or the reason of the signal. */
  post(path: string, headers: readonly string[], body: Buffer, signal: AbortSignal): Promise<OpenAnswer> {
    const { timeouts } = this.#settings;
    const options = {
      method: 'POST',
      path: this.#prefix + path,
      headers: [...headers, ...Object.entries(this.#credential()).flat()],
      body,
    } as const;
    return new EngineDispatch({ pool: this.#pool, deadlines: this.#deadlines, timeouts }, options, signal).start();
  }

  close(): void {
    this.#pool.close();
    this.#deadlines.close();
    this.#questions.close();
    this.#probes.close();
  }

  #credential(): Record<string, string> {
    const { apiKey } = this.#settings;
    return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  }
}

function reading({ status, headers, body }: BufferedResponse): AttachedResponse {
  const text = body.toString();
  return { status, headers, json: parsedJson(text), text };
}

/** `value` when it is a finite number, otherwise undefined. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/**
 * Why an engine answered with this status in place of what was asked for. What is the client's to mend keeps its status;
 * a refused key is the host's, and anything else the engine's.
 */
export function failureOf(status: number, text: string): AttachedEngineError {
  if (status === 401 || status === 403) {
    return new AttachedEngineError('the engine behind this host refused the credentials of the host');
  }
  const isPassedOn = (status >= 400 && status < 500) || status === 503;
  return new AttachedEngineError(complaintOf(status, text), { status: isPassedOn ? status : 502 });
}

/** What an engine says in an error body, whatever its shape. */
export function complaintOf(status: number, text: string): string {
  const body = membersOf(parsedJson(text));
  const error = body['error'];
  const said = [membersOf(error)['message'], body['message'], error, body['detail']].find(
    (words) => typeof words === 'string' && words !== '',
  );
  if (typeof said === 'string') return said;
  const { detail } = body as { detail?: unknown };
  const short = detail === undefined ? text.trim() : JSON.stringify(detail);
  return short === '' ? `the engine answered ${status}` : `the engine answered ${status}: ${short.slice(0, 500)}`;
}
