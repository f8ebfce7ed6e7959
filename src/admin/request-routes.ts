// Requests under way and the request log in memory, as JSON on the admin listener. With admin tokens they take the role viewer, and the
// texts of prompts and answers the role operator; without any they are open, and have no texts. Records in the ledger are another list
// (`GET /requests`, account-routes.ts).
//
// GET /requests/live   GET /requests/log?limit&before&after&model&account&crn&status&code&endpoint&tool&q&slowerThan   GET /requests/log/ID

import type { IncomingMessage, ServerResponse } from 'node:http';
import { ERRORS, HeadraceError, messageOf } from '../errors.ts';
import {
  comparePlaces,
  type LogEntry,
  type LoggedRequest,
  type LogPart,
  type LogQuery,
  readPlace,
  type RequestTexts,
} from '../telemetry/request-log.ts';
import { askForToken, refusesMethod, respondJson } from './admin-exchange.ts';
import { queryFields, readLogQuery } from './admin-requests.ts';
import { type AdminTokens, isAllowed } from './admin-tokens.ts';

const LIVE = '/requests/live';
const LOG = '/requests/log';
const ENTRY = `${LOG}/`;

/** What rows of the log have too. */
type Logged =
  | ('requestId' | 'method' | 'endpoint' | 'path' | 'dialect' | 'model' | 'alias' | 'tool' | 'account' | 'key' | 'crn')
  | ('attempts' | 'heldMs' | 'sentMs' | 'begunMs' | 'firstByteMs' | 'bytesIn' | 'bytesOut' | 'translation')
  | ('predictedHit' | 'affinity' | 'traceId');

/** A request under way. Null: not known yet, or there is none. Milliseconds count from the arrival, but for `sinceMs`. */
export interface LiveRequest extends Pick<LoggedRequest, Logged> {
  /** Number of the thread that serves it. */
  readonly thread: number;
  /** When its head had arrived, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly ageMs: number;
  /** See `ExchangePhase`. */
  readonly phase: string;
  readonly lastFailure: string | null;
}

/** Requests under way: all of a thread are counted, the oldest are listed. */
export interface LivePart {
  readonly count: number;
  readonly requests: readonly LiveRequest[];
}

/** What the threads answered; `missing` did not in time. */
export interface Gathered<Part> {
  readonly parts: readonly Part[];
  readonly missing: number;
}

export interface RequestRoutesOptions {
  readonly tokens: AdminTokens;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Rows that a thread keeps; 0: the log is off. */
  readonly size: () => number;
  readonly live: () => Promise<Gathered<LivePart>>;
  readonly log: (query: LogQuery) => Promise<Gathered<LogPart>>;
  readonly entries: (id: string) => Promise<Gathered<readonly LogEntry[]>>;
}

/** Most requests in one answer. */
const MOST_LIVE = 1000;

export class RequestRoutes {
  readonly #options: RequestRoutesOptions;

  constructor(options: RequestRoutesOptions) {
    this.#options = options;
  }

  /** Answers a request to one of its paths; false for any other path. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    if (path !== LIVE && path !== LOG && !path.startsWith(ENTRY)) return false;
    const identity = this.#options.tokens.identify(req.headers.authorization);
    if (refusesMethod(req, res, 'GET', 'HEAD')) return true;
    if (this.#options.tokens.any && identity === null) {
      // Every role includes that of a viewer.
      askForToken(req, res);
    } else {
      void this.#respond(res, path, query, identity !== null && isAllowed(identity.role, 'operator'));
    }
    return true;
  }

  async #respond(res: ServerResponse, path: string, query: URLSearchParams, readsTexts: boolean): Promise<void> {
    try {
      const value =
        path === LIVE
          ? await this.#live(query)
          : path === LOG
            ? await this.#log(query)
            : await this.#entry(decodeURIComponent(path.slice(ENTRY.length)), readsTexts);
      if (value === null) respondJson(res, 404, { detail: NO_ENTRY }, PRIVATE);
      else respondJson(res, 200, value, PRIVATE);
    } catch (error) {
      if (error instanceof URIError) respondJson(res, 404, { detail: NO_ENTRY }, PRIVATE);
      else if (error instanceof HeadraceError)
        respondJson(res, ERRORS[error.code].status, { detail: error.detail }, PRIVATE);
      else respondJson(res, 500, { detail: messageOf(error) }, PRIVATE);
    }
  }

  async #live(query: URLSearchParams): Promise<object> {
    refuseAny(query);
    const { parts, missing } = await this.#options.live();
    const requests = parts.flatMap((part) => part.requests);
    requests.sort((one, other) => one.sinceMs - other.sinceMs || one.thread - other.thread);
    return {
      dateMs: this.#options.epochMs(),
      count: parts.reduce((sum, { count }) => sum + count, 0),
      missingThreads: missing,
      data: requests.slice(0, MOST_LIVE),
    };
  }

  async #log(query: URLSearchParams): Promise<object> {
    const asked = readLogQuery(queryFields(query));
    const { parts, missing } = await this.#options.log(asked);
    const isForward = asked.after !== null;
    const rows = parts.flatMap((part) => part.rows);
    rows.sort((one, other) => (isForward ? byPlace(one, other) : byPlace(other, one)));
    const data = rows.slice(0, asked.limit);
    const since = parts.map(({ sinceMs }) => sinceMs).filter((sinceMs) => sinceMs !== null);
    return {
      dateMs: this.#options.epochMs(),
      size: this.#options.size(),
      // Before it the log has not all requests.
      completeSinceMs: since.length === 0 ? null : Math.max(...since),
      missingThreads: missing,
      data,
      next: rows.length > data.length ? (data.at(-1)?.cursor ?? null) : null,
    };
  }

  async #entry(id: string, readsTexts: boolean): Promise<object | null> {
    const { parts } = await this.#options.entries(id);
    const [entry, ...others] = parts.flat().sort((one, other) => byPlace(other, one));
    if (entry === undefined) return null;
    const { texts, ...row } = entry;
    return { ...row, texts: textsFor(texts, readsTexts), others: others.map(({ cursor }) => cursor) };
  }
}

/** `kept`: whether there are texts; they are null for those who may not read them. */
function textsFor(texts: RequestTexts | null, readsTexts: boolean): object {
  const { answer, prompt } = (readsTexts ? texts : null) ?? { answer: null, prompt: null };
  return { kept: texts !== null, prompt, answer };
}

const PRIVATE = { 'cache-control': 'no-store' };
const NO_ENTRY = 'the request log has no request of this id: it may have been overwritten';

function byPlace(one: LoggedRequest, other: LoggedRequest): number {
  const [place, otherPlace] = [readPlace(one.cursor), readPlace(other.cursor)];
  return place === null || otherPlace === null ? 0 : comparePlaces(place, otherPlace);
}

function refuseAny(query: URLSearchParams): void {
  const validation = [...query.keys()].map((name) => {
    return { loc: ['query', name], msg: 'is not a field here', type: 'extra_forbidden' };
  });
  if (validation.length > 0) throw new HeadraceError('HR_REQUEST_INVALID', { validation });
}
