// The table of errors that the gateway itself answers with: stable code, HTTP status, source of the error, whether the same
// request may succeed when sent again, and the sentence for the client. `ingress/respond.ts` alone turns an entry into a
// response; docs/errors.md is generated from this table.

/** Where an error comes from: the caller, a model server, or the gateway itself. */
export type ErrorSource = 'client' | 'upstream' | 'internal';

/** One row of the table. `detail` may hold `{}`, which is replaced by the subject of the error. */
export interface ErrorEntry {
  readonly status: number;
  readonly source: ErrorSource;
  /** Whether the same request may succeed when sent again: the header `x-should-retry`. Null: not known, no header. */
  readonly retryable: boolean | null;
  readonly detail: string;
}

export type ErrorCode =
  | 'HR_AUTH_MISSING'
  | 'HR_AUTH_INVALID'
  | 'HR_AUTH_HOSTED_SEARCH'
  | 'HR_REQUEST_MALFORMED'
  | 'HR_REQUEST_INVALID'
  | 'HR_REQUEST_UNTRANSLATABLE'
  | 'HR_REQUEST_TOO_LARGE'
  | 'HR_REQUEST_ENCODING'
  | 'HR_REQUEST_TIMEOUT'
  | 'HR_REQUEST_LINE_TOO_LONG'
  | 'HR_REQUEST_HEAD_TOO_LARGE'
  | 'HR_REQUEST_VERSION'
  | 'HR_ROUTE_NOT_FOUND'
  | 'HR_ROUTE_METHOD'
  | 'HR_ROUTE_UNSERVED'
  | 'HR_ROUTE_UNKNOWN_MODEL'
  | 'HR_ROUTE_ALL_FAILED'
  | 'HR_ROUTE_UNKNOWN_DIALECT'
  | 'HR_ROUTE_LOOP'
  | 'HR_ROUTE_BACKLOG'
  | 'HR_SOCKET_UNSUPPORTED'
  | 'HR_SOCKET_ORIGIN'
  | 'HR_SOCKET_MESSAGE'
  | 'HR_SOCKET_BUSY'
  | 'HR_SOCKET_PREVIOUS'
  | 'HR_UPSTREAM_BUSY'
  | 'HR_UPSTREAM_CREDENTIALS'
  | 'HR_UPSTREAM_ANSWER'
  | 'HR_ANSWER_UNTRANSLATABLE'
  | 'HR_STREAM_BROKEN'
  | 'HR_STREAM_STALLED'
  | 'HR_STREAM_TRUNCATED'
  | 'HR_RESPONSE_UNKNOWN'
  | 'HR_RESPONSE_BROKEN'
  | 'HR_RESPONSE_STATE'
  | 'HR_RESPONSE_LENGTH'
  | 'HR_RESPONSE_BACKGROUND'
  | 'HR_RESPONSE_UNAVAILABLE'
  | 'HR_TOOL_ORIGIN'
  | 'HR_SEARCH_ALL_FAILED'
  | 'HR_SEARCH_LIMIT'
  | 'HR_SEARCH_BUSY'
  | 'HR_FETCH_BLOCKED'
  | 'HR_FETCH_ROBOTS'
  | 'HR_FETCH_TOO_LARGE'
  | 'HR_FETCH_TYPE'
  | 'HR_FETCH_FAILED'
  | 'HR_FETCH_CHALLENGE'
  | 'HR_FETCH_UNREADABLE'
  | 'HR_FETCH_TIMEOUT'
  | 'HR_FETCH_RENDERER'
  | 'HR_FETCH_BUSY'
  | 'HR_FETCH_LIMIT'
  | 'HR_KEY_RATE'
  | 'HR_KEY_TOKENS'
  | 'HR_KEY_TOO_LARGE'
  | 'HR_KEY_RUNNING'
  | 'HR_KEY_SPENT'
  | 'HR_BUDGET_HELD'
  | 'HR_LIMITS_FULL'
  | 'HR_CREDIT_SHORT'
  | 'HR_CREDIT_BUSY'
  | 'HR_CREDIT_UNKNOWN'
  | 'HR_ACCOUNT_RATE'
  | 'HR_ACCOUNT_REQUEST'
  | 'HR_ACCOUNT_UNAVAILABLE'
  | 'HR_PAYMENT_REQUIRED'
  | 'HR_PAYMENT_MALFORMED'
  | 'HR_PAYMENT_AMOUNT'
  | 'HR_PAYMENT_ADDRESS'
  | 'HR_PAYMENT_PENDING'
  | 'HR_PAYMENT_UNAVAILABLE'
  | 'HR_PAYMENT_LIMIT'
  | 'HR_PAYMENT_OFF'
  | 'HR_LIST_NOT_READY'
  | 'HR_OVERLOADED'
  | 'HR_STARTING'
  | 'HR_DRAINING'
  | 'HR_INTERNAL';

/** Every error the gateway itself answers with. Codes travel in the header `x-headrace-error`. */
export const ERRORS: Readonly<Record<ErrorCode, ErrorEntry>> = {
  HR_AUTH_MISSING: { status: 401, source: 'client', retryable: false, detail: 'Not authenticated' },
  HR_AUTH_HOSTED_SEARCH: {
    status: 401,
    source: 'client',
    retryable: false,
    detail:
      'A request with a web search tool takes an API key: a payment is for one request, and this one makes several. ' +
      'Buy credits for an account, or pay for POST /search and for requests without the tool',
  },
  HR_AUTH_INVALID: { status: 401, source: 'client', retryable: false, detail: 'Invalid API key' },
  HR_REQUEST_MALFORMED: { status: 400, source: 'client', retryable: false, detail: 'Malformed request: {}' },
  HR_REQUEST_INVALID: { status: 422, source: 'client', retryable: false, detail: 'Validation failed' },
  HR_REQUEST_UNTRANSLATABLE: {
    status: 422,
    source: 'client',
    retryable: false,
    detail: 'The servers of this model speak another dialect, which cannot say this: {}',
  },
  HR_REQUEST_TOO_LARGE: { status: 413, source: 'client', retryable: false, detail: 'Request body exceeds {} bytes' },
  HR_REQUEST_ENCODING: {
    status: 415,
    source: 'client',
    retryable: false,
    detail: 'The Content-Encoding of the body is not supported: {}',
  },
  HR_REQUEST_TIMEOUT: { status: 408, source: 'client', retryable: true, detail: 'Request arrived too slowly' },
  HR_REQUEST_LINE_TOO_LONG: { status: 414, source: 'client', retryable: false, detail: 'Request line too long' },
  HR_REQUEST_HEAD_TOO_LARGE: { status: 431, source: 'client', retryable: false, detail: 'Request head too large: {}' },
  HR_REQUEST_VERSION: { status: 505, source: 'client', retryable: false, detail: 'HTTP version not supported' },
  HR_ROUTE_NOT_FOUND: { status: 404, source: 'client', retryable: false, detail: 'Not Found' },
  HR_ROUTE_METHOD: { status: 405, source: 'client', retryable: false, detail: 'Method Not Allowed' },
  HR_ROUTE_UNSERVED: { status: 404, source: 'client', retryable: false, detail: 'This path is not served: {}' },
  HR_ROUTE_UNKNOWN_MODEL: { status: 404, source: 'client', retryable: false, detail: "Model '{}' not found" },
  HR_ROUTE_ALL_FAILED: {
    status: 503,
    source: 'upstream',
    retryable: true,
    detail: 'All servers unavailable for model {}',
  },
  HR_ROUTE_UNKNOWN_DIALECT: {
    status: 404,
    source: 'client',
    retryable: false,
    detail: 'No server of model {} is declared to serve this path or a dialect to which the request can be translated',
  },
  HR_ROUTE_LOOP: {
    status: 508,
    source: 'internal',
    retryable: false,
    detail: 'The request has passed this gateway before: a server of the model leads back to it',
  },
  HR_ROUTE_BACKLOG: {
    status: 429,
    source: 'upstream',
    retryable: true,
    detail: 'All servers of model {} have a long backlog, and too many requests wait for them',
  },
  HR_SOCKET_UNSUPPORTED: {
    status: 426,
    source: 'client',
    retryable: false,
    detail: 'This server opens no WebSocket for the request: version 13 over HTTP/1.1 is needed; POST works too',
  },
  HR_SOCKET_ORIGIN: {
    status: 403,
    source: 'client',
    retryable: false,
    detail: 'Web pages of this origin may not open a WebSocket; see cors.origins',
  },
  HR_SOCKET_MESSAGE: {
    status: 400,
    source: 'client',
    retryable: false,
    detail: 'The message cannot be read: {}',
  },
  HR_SOCKET_BUSY: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'Too many requests wait on this socket for the response that runs',
  },
  HR_SOCKET_PREVIOUS: {
    status: 404,
    source: 'client',
    retryable: false,
    detail: 'The response named by previous_response_id is not known on this socket',
  },
  HR_UPSTREAM_BUSY: {
    status: 429,
    source: 'upstream',
    retryable: true,
    detail: 'All servers are busy for model {}',
  },
  HR_UPSTREAM_CREDENTIALS: {
    status: 502,
    source: 'upstream',
    retryable: false,
    detail: 'A server of model {} refused the credentials of the gateway',
  },
  HR_UPSTREAM_ANSWER: {
    status: 502,
    source: 'upstream',
    retryable: true,
    detail: 'A server answered with what is no chat completion',
  },
  HR_ANSWER_UNTRANSLATABLE: {
    status: 502,
    source: 'upstream',
    retryable: false,
    detail: 'The answer of the server cannot be translated: it is encoded, or it or one of its events is too long',
  },
  HR_STREAM_BROKEN: {
    status: 502,
    source: 'upstream',
    retryable: true,
    detail: 'The server broke off in the middle of the answer',
  },
  HR_STREAM_STALLED: {
    status: 504,
    source: 'upstream',
    retryable: true,
    detail: 'The server fell silent in the middle of the answer',
  },
  HR_STREAM_TRUNCATED: {
    status: 502,
    source: 'upstream',
    retryable: true,
    detail: 'The server ended the stream before the answer was complete',
  },
  HR_RESPONSE_UNKNOWN: { status: 404, source: 'client', retryable: false, detail: 'Response {} was not found' },
  HR_RESPONSE_BROKEN: {
    status: 404,
    source: 'client',
    retryable: false,
    detail: 'Response {} continues a response that was deleted or has expired',
  },
  HR_RESPONSE_STATE: { status: 400, source: 'client', retryable: false, detail: 'Response {}' },
  HR_RESPONSE_LENGTH: {
    status: 413,
    source: 'client',
    retryable: false,
    detail: 'The conversation of response {} is longer than a request may be',
  },
  HR_RESPONSE_BACKGROUND: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'Too many responses run in the background: {}',
  },
  HR_RESPONSE_UNAVAILABLE: {
    status: 503,
    source: 'internal',
    retryable: true,
    detail: 'Responses cannot be stored or read at the moment',
  },
  HR_TOOL_ORIGIN: {
    status: 403,
    source: 'client',
    retryable: false,
    detail: 'Web pages of this origin may not call tools without a key; see cors.origins',
  },
  HR_SEARCH_ALL_FAILED: { status: 503, source: 'upstream', retryable: true, detail: 'All search engines failed' },
  HR_SEARCH_LIMIT: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'Too many searches of this account are waiting; it may run {} at the same time',
  },
  HR_SEARCH_BUSY: { status: 503, source: 'internal', retryable: true, detail: 'Too many searches are waiting' },
  HR_FETCH_BLOCKED: { status: 400, source: 'client', retryable: false, detail: 'This address may not be fetched: {}' },
  HR_FETCH_ROBOTS: {
    status: 403,
    source: 'upstream',
    retryable: false,
    detail: 'robots.txt of {} disallows this page',
  },
  HR_FETCH_TOO_LARGE: { status: 413, source: 'upstream', retryable: false, detail: 'The page exceeds {} bytes' },
  HR_FETCH_TYPE: { status: 415, source: 'upstream', retryable: false, detail: 'The page is not text: {}' },
  HR_FETCH_FAILED: { status: 502, source: 'upstream', retryable: true, detail: 'The page could not be fetched: {}' },
  HR_FETCH_CHALLENGE: {
    status: 502,
    source: 'upstream',
    retryable: false,
    detail: 'The server of the page wants proof of a human reader',
  },
  HR_FETCH_UNREADABLE: {
    status: 502,
    source: 'upstream',
    retryable: false,
    detail: 'The page could not be cleaned: {}',
  },
  HR_FETCH_TIMEOUT: { status: 504, source: 'upstream', retryable: true, detail: 'The page took too long: {}' },
  HR_FETCH_RENDERER: {
    status: 503,
    source: 'internal',
    retryable: true,
    detail: 'The page could not be shown in a browser: {}',
  },
  HR_FETCH_BUSY: { status: 503, source: 'internal', retryable: true, detail: 'Too many pages are waiting' },
  HR_FETCH_LIMIT: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'Too many pages of this account are waiting; it may fetch {} at the same time',
  },
  HR_KEY_RATE: { status: 429, source: 'client', retryable: true, detail: 'This key may send {} a minute' },
  HR_KEY_TOKENS: { status: 429, source: 'client', retryable: true, detail: 'This key may use {} a minute' },
  HR_KEY_TOO_LARGE: {
    status: 429,
    source: 'client',
    retryable: false,
    detail: 'The request alone exceeds the {} that this key may use a minute',
  },
  HR_KEY_RUNNING: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'This key may have {} under way at the same time',
  },
  HR_KEY_SPENT: { status: 402, source: 'client', retryable: false, detail: 'Budget used up: {}' },
  HR_BUDGET_HELD: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'Requests under way hold what is left of a budget: {}',
  },
  HR_LIMITS_FULL: {
    status: 503,
    source: 'internal',
    retryable: true,
    detail: 'The gateway counts for too many limited keys and budgets; this one is refused',
  },
  HR_CREDIT_SHORT: { status: 402, source: 'client', retryable: false, detail: 'Not enough credit: this may cost {}' },
  HR_CREDIT_BUSY: {
    status: 503,
    source: 'internal',
    retryable: true,
    detail: 'The credit of this account is held for other requests at the moment; nothing was charged',
  },
  HR_CREDIT_UNKNOWN: {
    status: 503,
    source: 'internal',
    retryable: true,
    detail: 'Credit cannot be checked at the moment; nothing was charged',
  },
  HR_ACCOUNT_RATE: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'The account is read too often',
  },
  HR_ACCOUNT_REQUEST: {
    status: 404,
    source: 'client',
    retryable: false,
    detail: 'No such request of this key is recorded',
  },
  HR_ACCOUNT_UNAVAILABLE: {
    status: 503,
    source: 'internal',
    retryable: true,
    detail: 'The account cannot be read at the moment',
  },
  HR_PAYMENT_REQUIRED: { status: 402, source: 'client', retryable: false, detail: 'Payment required: {}' },
  HR_PAYMENT_MALFORMED: { status: 400, source: 'client', retryable: false, detail: 'Malformed payment: {}' },
  HR_PAYMENT_AMOUNT: { status: 400, source: 'client', retryable: false, detail: 'Not for sale: {}' },
  HR_PAYMENT_ADDRESS: { status: 400, source: 'client', retryable: false, detail: 'No account has this address' },
  HR_PAYMENT_PENDING: {
    status: 503,
    source: 'upstream',
    retryable: true,
    detail: 'The outcome of this payment is not known yet; send the same payment again',
  },
  HR_PAYMENT_UNAVAILABLE: {
    status: 503,
    source: 'upstream',
    retryable: true,
    detail: 'Payments cannot be checked at the moment; nothing was paid',
  },
  HR_PAYMENT_LIMIT: {
    status: 429,
    source: 'client',
    retryable: true,
    detail: 'This payer has too many requests under way that are not paid yet; nothing was paid',
  },
  HR_PAYMENT_OFF: { status: 503, source: 'internal', retryable: false, detail: 'Payments are not set up here' },
  HR_LIST_NOT_READY: { status: 503, source: 'internal', retryable: true, detail: 'Prices are not loaded yet' },
  HR_OVERLOADED: { status: 503, source: 'internal', retryable: true, detail: 'The gateway is out of {}' },
  HR_STARTING: { status: 503, source: 'internal', retryable: true, detail: 'The gateway is starting' },
  HR_DRAINING: { status: 503, source: 'internal', retryable: true, detail: 'The gateway is shutting down' },
  HR_INTERNAL: { status: 500, source: 'internal', retryable: null, detail: 'Internal error' },
};

/** One mistake in a request, as an entry of `detail` (docs/interface.md, section 4). */
export interface ValidationEntry {
  readonly loc: (string | number)[];
  readonly msg: string;
  readonly type: string;
  /** What to do about it, for the header `x-headrace-hint` and the error objects of SDKs: `detail` has the other three members only. */
  readonly hint?: string;
}

/** Most entries of a 422: each item of a list in a body may be a mistake. */
export const MAX_VALIDATION_ENTRIES = 100;

/** Details of one error, for its response. */
export interface ErrorOptions {
  /** Replaces `{}` in the sentence of the table. */
  subject?: string;
  /** Extra response headers as a flat list: name, value, name, value. */
  headers?: string[];
  /** Entries of a 422 answer. */
  validation?: readonly ValidationEntry[];
  cause?: unknown;
}

/**
 * An error of the table, thrown to become a response.
 * `code` is stable and meant to be matched on; the sentence may change between versions.
 */
export class HeadraceError extends Error {
  override readonly name = 'HeadraceError';
  readonly code: ErrorCode;
  /** What stands for `{}` in the sentence of the table. */
  readonly subject: string;
  readonly headers: string[];
  readonly validation: readonly ValidationEntry[] | undefined;

  constructor(code: ErrorCode, options: ErrorOptions = {}) {
    const { subject = '', validation } = options;
    const sentence = ERRORS[code].detail.replace('{}', () => subject);
    super(validation === undefined ? sentence : `${sentence}: ${validationText(validation)}`, { cause: options.cause });
    this.code = code;
    this.subject = subject;
    this.headers = options.headers ?? [];
    this.validation = validation;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  /** `detail` of the response: the entries of a 422, else the sentence. */
  get detail(): string | readonly Omit<ValidationEntry, 'hint'>[] {
    return this.validation?.map(({ loc, msg, type }) => ({ loc, msg, type })) ?? this.message;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable === true;
  }
}

/** The refusal of a request for one mistake. `loc`: where it is, from `body`, `query` or `path` on. */
export function invalidRequest(loc: ValidationEntry['loc'], msg: string, type = 'value_error'): HeadraceError {
  return new HeadraceError('HR_REQUEST_INVALID', { validation: [{ loc, msg, type }] });
}

/** What is wrong with a request, as one text. */
export function validationText(entries: readonly ValidationEntry[]): string {
  return entries
    .map(({ hint = '', loc, msg }) => [loc.join('.'), msg, hint].filter((part) => part !== '').join(': '))
    .join('; ');
}

/** The sentence of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What was thrown as text for a log, with its stack where it has one. */
export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
