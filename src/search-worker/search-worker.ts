// A search worker: an HTTP server for one search engine, which gateways ask by the search worker protocol. Every search that
// is admitted ends by its deadline; a client that disconnects cancels its search.
//
// POST /search  the protocol      GET /health  200 once the engine can answer      GET /metrics  Prometheus text

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock, systemEpochMs, systemRandom } from '../actor/index.ts';
import { parseAddress, printAddress } from '../config/units.ts';
import {
  ACCOUNT_HEADER,
  configureEngines,
  type EngineQuery,
  type EngineReport,
  type EngineSpec,
  IndexThread,
} from '../search/index.ts';
import { ListenError } from '../ingress/server.ts';
import { TEXT_TYPE } from '../telemetry/exposition.ts';
import { bearerCheck } from '../net/bearer-token.ts';
import { readIncoming } from '../net/incoming-body.ts';
import { formatOf, readQuery, Refusal, refusalOf, writeHits } from './protocol.ts';
import { CELL, ServedEngine } from './served-engine.ts';
import { WorkerMetrics } from './worker-metrics.ts';

export interface SearchWorkerSettings {
  /** Kind of the engine, as in an entry of `search.engines`. */
  readonly kind: string;
  /** The rest of such an entry. */
  readonly engine?: Readonly<Record<string, unknown>>;
  /** `HOST:PORT`; default a free port of loopback. */
  readonly listen?: string;
  /** Bearer token that gateways must send. Default: none is needed. */
  readonly secret?: string;
  /** Time limit of a search in milliseconds. Default 9000, less than the 10 s that a gateway waits. */
  readonly timeoutMs?: number;
  /** Most searches admitted at once. Default 16 for each that the engine runs at once; the others wait. */
  readonly maxInFlight?: number;
  /** Default: the clock of the process. */
  readonly clock?: Clock;
  /** Called with a sentence for the operator. */
  readonly onNotice?: (sentence: string) => void;
}

export interface SearchWorker {
  /** Opens the port and resolves with the base URL; rejects with the system's reason. */
  listen(): Promise<string>;
  /** Stops accepting, answers the searches in flight, ends. Safe to call twice. */
  close(): Promise<void>;
  /** Ends at once; searches in flight are cut off. */
  abort(): Promise<void>;
}

const TIMEOUT_MS = 9000;

/** Searches that may wait for each that the engine runs at once: more would wait past their deadline. */
const WAITING = 16;

/** Longer than gateways keep idle connections, so that none is closed as a request is sent. */
const KEEP_ALIVE_MS = 65_000;

/** Time limit for head and body of a request. */
const REQUEST_MS = 10_000;

/** Time limit for a client to take an answer: one that reads nothing would keep its place. */
const ANSWER_MS = 30_000;

const MAX_BODY_BYTES = 64 * 1024;

/** Time beyond the deadline for the last answers, when the worker closes. */
const DRAIN_EXTRA_MS = 1000;

/** Makes a worker, which serves once `listen` is called. Throws an `Error` that names the mistake in the settings. */
export function createSearchWorker(settings: SearchWorkerSettings): SearchWorker {
  return new ServingWorker(settings);
}

class ServingWorker implements SearchWorker {
  readonly #listen: { readonly host: string; readonly port: number };
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #maxInFlight: number;
  readonly #isAuthorized: (authorization: string | undefined) => boolean;
  readonly #metrics = new WorkerMetrics();
  readonly #engine: ServedEngine;
  /** Of a local engine; starts with its first search. */
  readonly #indexes: IndexThread;
  readonly #server: Server;
  #closing: Promise<void> | null = null;
  #whenIdle: () => void = () => undefined;

  constructor(settings: SearchWorkerSettings) {
    const { listen = '127.0.0.1:0', timeoutMs = TIMEOUT_MS, clock = systemClock } = settings;
    const address = parseAddress(listen, '127.0.0.1');
    if (address === undefined) throw new Error('listen must be HOST:PORT');
    const { onNotice = () => undefined } = settings;
    this.#indexes = new IndexThread({ clock, onNotice });
    const spec = specOf(settings, this.#indexes);
    const metrics = this.#metrics;
    this.#listen = address;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#maxInFlight = settings.maxInFlight ?? WAITING * spec.concurrency;
    this.#isAuthorized = settings.secret === undefined ? () => true : bearerCheck(settings.secret);
    this.#engine = new ServedEngine({
      spec,
      timeoutMs,
      clock,
      metrics,
      random: systemRandom,
      epochMs: systemEpochMs,
      onNotice,
    });
    const limits = {
      keepAliveTimeout: KEEP_ALIVE_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: REQUEST_MS / 4,
    };
    this.#server = createServer(limits, (req, res) => this.#serve(req, res));
  }

  listen(): Promise<string> {
    const { host, port } = this.#listen;
    return new Promise((resolve, reject) => {
      const refuse = (error: Error): void => reject(new ListenError({ host, port }, error));
      this.#server.once('error', refuse);
      this.#server.listen(port, host, () => {
        this.#server.off('error', refuse);
        const bound = (this.#server.address() as AddressInfo).port;
        resolve(`http://${printAddress({ host, port: bound })}`);
      });
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  abort(): Promise<void> {
    this.#closing ??= Promise.resolve();
    this.#server.close();
    this.#server.closeAllConnections();
    this.#engine.close();
    return this.#indexes.close();
  }

  async #drain(): Promise<void> {
    const idle = new Promise<void>((resolve) => (this.#whenIdle = resolve));
    this.#server.close();
    const timer = this.#clock.setTimeout(this.#whenIdle, this.#timeoutMs + DRAIN_EXTRA_MS);
    if (this.#metrics.inFlight > 0) await idle;
    this.#clock.clearTimeout(timer);
    await this.abort();
  }

  #serve(req: IncomingMessage, res: ServerResponse): void {
    const [path] = (req.url ?? '').split('?', 1);
    if (path === '/search') {
      if (req.method === 'POST') this.#search(req, res).catch(() => res.destroy());
      else this.#json(res, 405, { detail: 'method not allowed' }, { allow: 'POST' });
    } else if (path !== '/health' && path !== '/metrics') {
      this.#json(res, 404, { detail: 'not found' });
    } else if (req.method !== 'GET' && req.method !== 'HEAD') {
      this.#json(res, 405, { detail: 'method not allowed' }, { allow: 'GET, HEAD' });
    } else if (path === '/health') {
      this.#health(res);
    } else {
      this.#reply(res, 200, TEXT_TYPE, this.#metrics.text());
    }
  }

  #health(res: ServerResponse): void {
    const { engine, ready, suspendedMs } = this.#engine;
    const status = this.#closing !== null ? 'draining' : ready ? 'ok' : 'starting';
    const { kind, types } = engine;
    const { inFlight, totals } = this.#metrics;
    this.#json(res, status === 'ok' ? 200 : 503, {
      status,
      engine: kind,
      search_types: types,
      suspended_ms: Math.ceil(suspendedMs),
      in_flight: inFlight,
      ...totals,
    });
  }

  /** Answers a search; rejects for unexpected errors only. */
  async #search(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const startedMs = this.#clock.now();
    let outcome = 'cancelled';
    this.#metrics.begin();
    res.once('close', () => {
      this.#metrics.end(outcome, this.#clock.now() - startedMs);
      this.#metrics.leave();
      if (this.#metrics.inFlight === 0) this.#whenIdle();
    });
    try {
      const answered = await this.#report(req, res);
      if (answered === null) return;
      const { query, report } = answered;
      if ('reason' in report) {
        const isOfAccount = this.#engine.refusesAccountOnly(report.reason);
        throw refusalOf(report.reason, this.#engine.retryAfterMs, isOfAccount);
      }
      const { contentType, body } = writeHits(report, query, req.headers.accept);
      outcome = 'ok';
      this.#reply(res, 200, contentType, body);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      outcome = error.outcome;
      this.#json(res, error.status, { detail: error.message }, error.headers);
    }
  }

  /** The engine's report; null when the client has left. Throws `Refusal` for requests that are not passed to the engine. */
  async #report(
    req: IncomingMessage,
    res: ServerResponse,
  ): Promise<{ readonly query: EngineQuery; readonly report: EngineReport } | null> {
    const { authorization, 'content-type': contentType, [ACCOUNT_HEADER]: account } = req.headers;
    if (!this.#isAuthorized(authorization))
      throw new Refusal(401, 'unauthorized', 'unauthorized', { 'www-authenticate': 'Bearer' });
    if (this.#closing !== null) throw new Refusal(503, 'draining', 'draining');
    if (this.#metrics.inFlight > this.#maxInFlight)
      throw new Refusal(503, 'too many searches', 'too many searches', { 'retry-after': '1' });
    const format = formatOf(contentType);
    const body = await readIncoming(req, MAX_BODY_BYTES);
    if (body === 'gone') return null;
    if (body === 'too long')
      throw new Refusal(413, `the body exceeds ${MAX_BODY_BYTES} bytes`, 'invalid request', { connection: 'close' });
    const query = readQuery(body, format);
    return new Promise((resolve) => {
      const abort = this.#engine.search(query, String(account ?? ''), (report) => resolve({ query, report }));
      res.once('close', () => {
        if (res.writableEnded) return;
        abort();
        resolve(null);
      });
    });
  }

  #json(res: ServerResponse, status: number, value: object, headers: Readonly<Record<string, string>> = {}): void {
    this.#reply(res, status, 'application/json', JSON.stringify(value), headers);
  }

  #reply(
    res: ServerResponse,
    status: number,
    contentType: string,
    body: string | Uint8Array,
    headers: Readonly<Record<string, string>> = {},
  ): void {
    // A kept connection would keep the process alive.
    const closing = this.#closing === null ? {} : { connection: 'close' };
    const length = { 'content-type': contentType, 'content-length': Buffer.byteLength(body) };
    res.writeHead(status, { ...length, ...closing, ...headers });
    res.end(body);
    const timer = this.#clock.setTimeout(() => res.destroy(), ANSWER_MS);
    res.once('close', () => this.#clock.clearTimeout(timer));
  }
}

/** The engine of the settings. Throws an `Error` that names a mistake in them. */
function specOf({ kind, engine = {} }: SearchWorkerSettings, indexes: IndexThread): EngineSpec {
  const { engines, mistakes } = configureEngines({ [kind]: { ...engine, kind } }, () => CELL, { indexes });
  const [spec] = engines;
  if (spec === undefined) throw new Error(`engine ${kind}: ${mistakes[0]?.message}`);
  return spec;
}
