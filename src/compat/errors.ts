// Errors in the shapes that the clients of other products read, with the statuses by which they choose their exceptions.

import type { ErrorCode, HeadraceError, ValidationEntry } from '../errors.ts';

/** Products whose paths are served. */
const PRODUCTS = ['tavily', 'searxng', 'jina', 'firecrawl'] as const;
export type Product = (typeof PRODUCTS)[number];

const BELOW: ReadonlyMap<string, Product> = new Map(PRODUCTS.map((product) => [`/${product}`, product]));

/** The product below whose paths this one is; undefined for all others. */
export function productOf(path: string): Product | undefined {
  const end = path.indexOf('/', 1);
  return BELOW.get(end < 0 ? path : path.slice(0, end));
}

/** An error as it is answered. */
export interface ErrorAnswer {
  readonly status: number;
  readonly body: object;
}

export function errorAnswer(product: Product, error: HeadraceError): ErrorAnswer {
  const { code, message, validation } = error;
  const text = validation === undefined ? message : validation.map(sentenceOf).join('; ');
  switch (product) {
    case 'tavily':
      return { status: TAVILY_STATUSES[code] ?? error.status, body: { detail: { error: text } } };
    case 'searxng':
      return { status: searxngStatus(error), body: { error: text } };
    case 'jina': {
      const status = code === 'HR_REQUEST_INVALID' ? 400 : error.status;
      const name = JINA_NAMES[status] ?? 'AssertionFailureError';
      const readableMessage = `${name}: ${text}`;
      return { status, body: { data: null, code: status, name, status: status * 100, message: text, readableMessage } };
    }
    case 'firecrawl': {
      const status = FIRECRAWL_STATUSES[code] ?? error.status;
      const details = validation === undefined ? {} : { details: validation };
      return { status, body: { success: false, error: text, code: firecrawlCode(error), ...details } };
    }
  }
}

function sentenceOf({ loc, msg }: ValidationEntry): string {
  const field = loc.filter((part) => part !== 'body').join('.');
  return field === '' ? msg : `${field}: ${msg}`;
}

/** 432 and 433 are limits of the plan and of paying as one goes. */
const TAVILY_STATUSES: Readonly<Partial<Record<ErrorCode, number>>> = {
  HR_REQUEST_INVALID: 400,
  HR_KEY_SPENT: 432,
  HR_CREDIT_SHORT: 433,
};

/** A format that is not switched on is forbidden there. */
function searxngStatus({ code, status, validation = [] }: HeadraceError): number {
  if (code !== 'HR_REQUEST_INVALID') return status;
  return validation.some(({ loc }) => loc.at(-1) === 'format') ? 403 : 400;
}

const JINA_NAMES: Readonly<Record<number, string>> = {
  400: 'ParamValidationError',
  401: 'AuthenticationFailedError',
  402: 'InsufficientBalanceError',
  403: 'OperationNotAllowedError',
  404: 'ResourceNotFoundError',
  408: 'RequestTimeoutError',
  429: 'RateLimitTriggeredError',
  500: 'InternalServerError',
  503: 'ServiceNodeResourceDrainError',
};

/** Its clients send a request that got 502 three times; a page that takes too long is 408. */
const FIRECRAWL_STATUSES: Readonly<Partial<Record<ErrorCode, number>>> = {
  HR_REQUEST_INVALID: 400,
  HR_FETCH_FAILED: 500,
  HR_FETCH_CHALLENGE: 500,
  HR_FETCH_UNREADABLE: 500,
  HR_FETCH_TIMEOUT: 408,
};

/** Reasons of `HR_FETCH_FAILED` whose codes have an exception of their own in its clients. */
const FIRECRAWL_CODES: ReadonlyMap<string, string> = new Map([
  ['name not found', 'SCRAPE_DNS_RESOLUTION_ERROR'],
  ['TLS failed', 'SCRAPE_SSL_ERROR'],
]);

/** Codes by which its clients choose an exception; ours for all others. */
function firecrawlCode({ code, subject }: HeadraceError): string {
  if (code === 'HR_FETCH_TIMEOUT') return 'SCRAPE_TIMEOUT';
  return (code === 'HR_FETCH_FAILED' ? FIRECRAWL_CODES.get(subject) : undefined) ?? code;
}
