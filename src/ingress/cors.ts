// Cross-origin resource sharing (Fetch standard, "CORS protocol"): headers of responses and of preflights.

import type { Exchange } from './exchange.ts';

/** Headers that a browser script may read beside the safelisted ones. */
const EXPOSED =
  'x-request-id, request-id, x-headrace-error, x-headrace-hint, x-headrace-cache, x-headrace-cost, x-headrace-output-limit, ' +
  'x-headrace-stored, x-headrace-translated, x-headrace-estimate, x-headrace-affinity, mcp-session-id, retry-after, ' +
  'x-should-retry, server-timing, payment-required, payment-response, x-payment-response, retry-after-ms, ' +
  'x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, ' +
  'x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, ' +
  'anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, anthropic-ratelimit-requests-reset, ' +
  'anthropic-ratelimit-tokens-limit, anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset';

const ALLOWED_METHODS = 'GET, HEAD, POST, DELETE, OPTIONS';

/** How long a browser may cache a preflight, in seconds; Chromium's maximum. */
const MAX_AGE_S = '7200';

export class Cors {
  readonly #any: boolean;
  readonly #origins: ReadonlySet<string>;

  /** `origins`: exact origins, or `*` for all; an empty list turns CORS off. */
  constructor(origins: readonly string[]) {
    this.#any = origins.includes('*');
    this.#origins = new Set(origins);
  }

  /** Adds the CORS headers to the responses of an exchange whose origin is allowed. */
  admit(exchange: Exchange): void {
    const { commonHeaders, origin } = exchange;
    // Without an origin too: a cache must not serve such a response to a page.
    if (!this.#any) commonHeaders.push('vary', 'origin');
    if (origin === undefined) return;
    if (!this.#any && !this.#origins.has(origin)) return;
    commonHeaders.push('access-control-allow-origin', this.#any ? '*' : origin);
    commonHeaders.push('access-control-expose-headers', EXPOSED);
    if (!this.#any) commonHeaders.push('access-control-allow-credentials', 'true');
  }

  /** Headers of the response to a preflight. */
  preflight(exchange: Exchange): string[] {
    const asked = exchange.header('access-control-request-headers');
    const headers = ['access-control-allow-methods', ALLOWED_METHODS, 'access-control-max-age', MAX_AGE_S];
    if (asked !== undefined) headers.push('access-control-allow-headers', asked);
    return headers;
  }
}
