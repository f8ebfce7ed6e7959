// The playground of the console: the public API on the admin listener, served in this process by the handler of the public port. A
// request has the rights of the API key that it carries and no others: no admin token, no cookie and no origin passes.
//
// ANY /playground/v1/…  as /v1/…   POST /playground/search  as /search   POST /playground/fetch  as /search/fetch
// GET /playground/answers/ID   what came of the request with this id; waits for its end
// GET /playground/target   the public API that it stands for

import type { IncomingMessage, ServerResponse } from 'node:http';
import { exactUsdText } from '../billing/index.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { createNodeListener } from '../ingress/node-listener.ts';
import type { ServerOptions } from '../ingress/server.ts';
import { refusesMethod, respondJson } from './admin-exchange.ts';
import type { AdminTokens } from './admin-tokens.ts';

const PREFIX = '/playground/';
const ANSWERS = '/playground/answers/';
const TARGET = '/playground/target';

/** Public paths of what does not begin with `/v1/`. */
const PUBLIC_PATHS: ReadonlyMap<string, string> = new Map([
  ['/playground/search', '/search'],
  ['/playground/fetch', '/search/fetch'],
]);

/** Requests of the playground at the same time: they run in the control thread, which must stay responsive. */
const MAX_RUNNING = 64;

/**
 * Of them, those without an API key where clients need one. Anybody can send them, and they wait for their bodies, so that they would take
 * the places of all others. A further one ends the oldest.
 */
const MAX_KEYLESS = 16;

/** Answers that are remembered for `/playground/answers/ID`. */
const MAX_ANSWERS = 256;

/** Headers of the browser that are not the user's request. */
const DROPPED_REQUEST: ReadonlySet<string> = new Set(['cookie', 'origin', 'referer']);

/** A browser that keeps affinity cookies for the admin listener would send them to other services of this host too. */
const DROPPED_RESPONSE: ReadonlySet<string> = new Set(['set-cookie']);

/** A page that a server answers with must not run in the origin of the console, where admin tokens are kept. */
const GUARDS: readonly string[] = [
  ...['content-security-policy', "sandbox; default-src 'none'; frame-ancestors 'none'"],
  ...['x-content-type-options', 'nosniff'],
  ...['cache-control', 'no-store'],
];

/** What came of a request of the playground. */
export interface PlaygroundAnswer {
  readonly requestId: string;
  /** 499: the client has gone before there was an answer. */
  readonly status: number;
  /** Error code; '' without an error. */
  readonly code: string;
  /** Whether the client has gone before the end. */
  readonly aborted: boolean;
  readonly endpoint: string;
  readonly model: string;
  /** The CRN of the last attempt; '' when none was asked. */
  readonly crn: string;
  readonly attempts: number;
  /** Name of the translation in which the CRN was asked; '' without one. */
  readonly translation: string;
  /** Time for which the request waited for a CRN with a short backlog. */
  readonly heldMs: number;
  /** Until the first piece of a stream; null without one. */
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  /** Share of the prompt that the CRN was expected to hold; null: not known. */
  readonly predictedHit: number | null;
  /** Cached tokens that the CRN reports; null: it does not say. */
  readonly cachedTokens: number | null;
  /** What was charged, as a decimal; null for a request that is not charged. */
  readonly costUsd: string | null;
}

/** The public API that the playground stands for. */
export interface PlaygroundTarget {
  /** Base URL of the public port; null where this gateway opens none. */
  readonly url: string | null;
  /** Whether clients need an API key. */
  readonly keyRequired: boolean;
}

export interface PlaygroundRoutesOptions {
  /** The public API of this thread. */
  readonly server: ServerOptions;
  readonly tokens: AdminTokens;
  readonly target: () => PlaygroundTarget;
  /** The gateway is closing. */
  readonly draining: () => boolean;
}

export class PlaygroundRoutes {
  readonly #options: PlaygroundRoutesOptions;
  readonly #listener: (req: IncomingMessage, res: ServerResponse) => void;
  /** By request id; those of requests that still run resolve when they end. */
  readonly #answers = new Map<string, PlaygroundAnswer | Promise<PlaygroundAnswer>>();
  #running = 0;
  readonly #keyless = new Set<ServerResponse>();
  /** The response of the request that the listener is being given. */
  #opening: ServerResponse | null = null;

  constructor(options: PlaygroundRoutesOptions) {
    const { draining, server } = options;
    this.#options = options;
    this.#listener = createNodeListener({ ...server, handler: (exchange) => this.#handle(exchange) }, draining);
  }

  /** Answers a request to a path of the playground; false for any other path. */
  answer(req: IncomingMessage, res: ServerResponse, path: string): boolean {
    if (!path.startsWith(PREFIX)) return false;
    if (path === TARGET || path.startsWith(ANSWERS)) {
      void this.#respondOwn(req, res, path);
      return true;
    }
    const publicPath = path.startsWith('/playground/v1/') ? path.slice('/playground'.length) : PUBLIC_PATHS.get(path);
    if (publicPath === undefined) {
      respondJson(res, 404, {
        detail: 'the playground has /playground/v1/…, /playground/search and /playground/fetch',
      });
    } else if (this.#hasAdminToken(req)) {
      const detail = 'this is an admin token: the playground needs an API key, as clients of the public port do';
      respondJson(res, 401, { detail }, { 'www-authenticate': 'Bearer' });
    } else if (this.#running >= MAX_RUNNING) {
      const detail = `${MAX_RUNNING} requests of the playground are running; try again when one has ended`;
      respondJson(res, 503, { detail }, { 'retry-after': '1' });
    } else {
      this.#forward(req, res, publicPath);
    }
    return true;
  }

  /** Hands the request to the handler of the public port, with the public path. */
  #forward(req: IncomingMessage, res: ServerResponse, publicPath: string): void {
    const query = req.url?.indexOf('?') ?? -1;
    req.url = publicPath + (query < 0 ? '' : (req.url as string).slice(query));
    req.rawHeaders = without(req.rawHeaders, DROPPED_REQUEST);
    this.#running++;
    res.once('close', () => this.#running--);
    this.#opening = res;
    try {
      this.#listener(req, res);
    } finally {
      this.#opening = null;
    }
  }

  /** Gets the exchange within the call of the listener. */
  #handle(exchange: Exchange): void {
    const res = this.#opening;
    if (res !== null) explainHead(res, exchange);
    const { clock, handler } = this.#options.server;
    const { promise, resolve } = Promise.withResolvers<PlaygroundAnswer>();
    this.#remember(exchange.requestId, promise);
    handler(exchange);
    const closed = exchange.onClose;
    const close = (ended: Exchange): void => {
      closed?.(ended);
      const answer = answerOf(ended, clock.now());
      this.#remember(ended.requestId, answer);
      resolve(answer);
    };
    exchange.onClose = close;
    if (exchange.keyless && res !== null) this.#addKeyless(res);
  }

  #addKeyless(res: ServerResponse): void {
    this.#keyless.add(res);
    res.once('close', () => this.#keyless.delete(res));
    const [oldest] = this.#keyless;
    if (this.#keyless.size <= MAX_KEYLESS || oldest === undefined) return;
    this.#keyless.delete(oldest);
    oldest.destroy();
  }

  #remember(requestId: string, answer: PlaygroundAnswer | Promise<PlaygroundAnswer>): void {
    this.#answers.delete(requestId);
    this.#answers.set(requestId, answer);
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= MAX_ANSWERS) break;
      this.#answers.delete(oldest);
    }
  }

  async #respondOwn(req: IncomingMessage, res: ServerResponse, path: string): Promise<void> {
    const isTarget = path === TARGET;
    const value = isTarget ? this.#options.target() : await this.#answers.get(decoded(path.slice(ANSWERS.length)));
    if (refusesMethod(req, res, 'GET', 'HEAD')) return;
    if (value === undefined) {
      respondJson(res, 404, {
        detail: `no answer of the playground has this request id, among the last ${MAX_ANSWERS}`,
      });
    } else {
      respondJson(res, 200, value, { 'cache-control': 'no-store' });
    }
  }

  /** Keys of CRNs may be less guarded than admin tokens, and on an open gateway any credential would pass to them. */
  #hasAdminToken({ headers }: IncomingMessage): boolean {
    const keys = [headers['x-api-key'], headers['api-key']].map((key) => `Bearer ${String(key)}`);
    return [headers.authorization, ...keys].some((credential) => this.#options.tokens.identify(credential) !== null);
  }
}

/** Adds to the head of the response what the gateway knows of the way of the request by then. */
function explainHead(res: ServerResponse, exchange: Exchange): void {
  const writeHead = res.writeHead.bind(res);
  // Overrides the one call with which the listener sends a head.
  const explained = (status: number, headers: readonly string[]): ServerResponse => {
    const { attempts, crn, predictedHit } = exchange;
    const own = without(headers, DROPPED_RESPONSE);
    if (crn !== '') own.push('x-headrace-crn', crn, 'x-headrace-attempts', String(attempts));
    if (predictedHit >= 0) own.push('x-headrace-predicted-hit', predictedHit.toFixed(3));
    return writeHead(status, [...own, ...GUARDS]);
  };
  Object.assign(res, { writeHead: explained });
}

function answerOf(exchange: Exchange, nowMs: number): PlaygroundAnswer {
  const { aborted, attempts, crn, endpoint, errorCode, firstPieceMs, heldMs, model } = exchange;
  const { cost, predictedHit, receivedMs, requestId, settlement, status, tokens, translation } = exchange;
  return {
    ...{ requestId, status: aborted && status === 0 ? 499 : status, code: errorCode, aborted },
    ...{ endpoint, model, crn, attempts, translation, heldMs },
    firstByteMs: firstPieceMs > 0 ? firstPieceMs - receivedMs : null,
    durationMs: nowMs - receivedMs,
    predictedHit: predictedHit < 0 ? null : predictedHit,
    cachedTokens: tokens?.saysCached === true ? tokens.cachedTokens : null,
    costUsd: settlement === null && cost === 0 ? null : exactUsdText(cost),
  };
}

/** A flat list of headers without those of these names. */
function without(headers: readonly string[], names: ReadonlySet<string>): string[] {
  return headers.filter((_, index) => !names.has((headers[index - (index % 2)] as string).toLowerCase()));
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return '';
  }
}
