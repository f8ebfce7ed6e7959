// `POST /explain?path=/v1/chat/completions&account=NAME` on the admin listener, for viewers and above: the body and the headers are those
// of a request, and the answer says which CRN it would go to and why. Bodies are neither logged nor kept. With the paths `/search` and
// `/search/fetch`, for operators and above, the search or the fetch is made, charged to nobody, and the answer says what happened in it.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../errors.ts';
import { readIncoming } from '../net/incoming-body.ts';
import { authenticate, refusesMethod, respond, respondJson } from './admin-exchange.ts';
import { type AdminTokens, isAllowed } from './admin-tokens.ts';

const PATH = '/explain';
const DEFAULT_PATH = '/v1/chat/completions';

/** Requests that are made, which may cost the operator of the gateway money. */
const MADE: ReadonlySet<string> = new Set(['/search', '/search/fetch']);

/** Those at the same time. */
const MAX_MADE = 8;

/** Headers of the request that are its own, and not those of the admin request. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'connection',
  'content-length',
  'host',
  'transfer-encoding',
]);

/** The request to explain; can be posted to another thread. */
export interface ExplainRequest {
  readonly path: string;
  /** Names are lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** As which account it is sent; '' for none. */
  readonly account: string;
}

/** `json`: a `RequestExplanation`, or an error. */
export interface ExplainAnswer {
  readonly status: number;
  readonly json: string;
}

export interface ExplainRoutesOptions {
  /** Without any, every request is answered 403. */
  readonly tokens: AdminTokens;
  /** Largest body of a request. */
  readonly maxBodyBytes: () => number;
  /** Rejects when nobody answers in time. */
  readonly explain: (request: ExplainRequest) => Promise<ExplainAnswer>;
}

export class ExplainRoutes {
  readonly #options: ExplainRoutesOptions;
  #made = 0;

  constructor(options: ExplainRoutesOptions) {
    this.#options = options;
  }

  /** Answers a request to its path; false for any other path. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    if (path !== PATH) return false;
    if (refusesMethod(req, res, 'POST')) return true;
    const identity = authenticate(req, res, this.#options.tokens, 'requests are not explained here');
    if (identity === null) return true;
    // Without its query, which does not change what the request is.
    const [asked = ''] = (query.get('path') ?? DEFAULT_PATH).split('?', 1);
    if (!MADE.has(asked)) {
      // Every role includes that of a viewer.
      void this.#explain(req, res, asked, query);
    } else if (!isAllowed(identity.role, 'operator')) {
      respondJson(res, 403, { detail: 'searches and fetches are explained to the role operator and above' });
    } else if (this.#made >= MAX_MADE) {
      const detail = `${MAX_MADE} searches and fetches are being explained; try again when one has ended`;
      respondJson(res, 503, { detail }, { 'retry-after': '1' });
    } else {
      this.#made++;
      void this.#explain(req, res, asked, query).finally(() => this.#made--);
    }
    return true;
  }

  async #explain(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): Promise<void> {
    const maxBytes = this.#options.maxBodyBytes();
    const body = await readIncoming(req, maxBytes);
    if (body === 'gone') return;
    if (body === 'too long') {
      respondJson(res, 413, { detail: `the body is longer than ${maxBytes} bytes` }, { connection: 'close' });
      return;
    }
    if (!path.startsWith('/')) {
      respondJson(res, 422, { detail: 'path must begin with a slash, such as /v1/chat/completions' });
      return;
    }
    try {
      const account = query.get('account') ?? '';
      const { json, status } = await this.#options.explain({ path, headers: headersOf(req), body, account });
      respond(res, status, 'application/json', json, { 'cache-control': 'no-store' });
    } catch (error) {
      respondJson(res, 503, { detail: messageOf(error) });
    }
  }
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string' && !OWN_HEADERS.has(name)) own[name] = value;
  }
  return own;
}
