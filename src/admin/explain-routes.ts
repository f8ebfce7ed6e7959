// `POST /explain?path=/v1/chat/completions&account=NAME` on the admin listener, for viewers and above: the body and the headers are those
// of a request, and the answer says which CRN it would go to and why. Bodies are neither logged nor kept.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { messageOf } from '../errors.ts';
import { readBytes, respond, respondJson } from './admin-exchange.ts';
import type { AdminTokens } from './admin-tokens.ts';

const PATH = '/explain';
const DEFAULT_PATH = '/v1/chat/completions';

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
  #tokens: AdminTokens;

  constructor(options: ExplainRoutesOptions) {
    this.#options = options;
    this.#tokens = options.tokens;
  }

  /** Takes over other tokens. */
  configure(tokens: AdminTokens): void {
    this.#tokens = tokens;
  }

  /** Answers a request to its path; false for any other path. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    if (path !== PATH) return false;
    if (req.method !== 'POST') {
      respondJson(res, 405, { detail: 'Method Not Allowed' }, { allow: 'POST' });
    } else if (!this.#tokens.any) {
      respondJson(res, 403, { detail: 'requests are not explained here: adminToken is not set' });
    } else if (this.#tokens.identify(req.headers.authorization) === null) {
      // Every role includes that of a viewer.
      respondJson(res, 401, { detail: 'the admin token is required' }, { 'www-authenticate': 'Bearer' });
    } else {
      void this.#explain(req, res, query);
    }
    return true;
  }

  async #explain(req: IncomingMessage, res: ServerResponse, query: URLSearchParams): Promise<void> {
    const maxBytes = this.#options.maxBodyBytes();
    const body = await readBytes(req, maxBytes);
    if (body === 'gone') return;
    if (body === 'too long') {
      respondJson(res, 413, { detail: `the body is longer than ${maxBytes} bytes` }, { connection: 'close' });
      return;
    }
    const path = query.get('path') ?? DEFAULT_PATH;
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
