// Cross-origin rules (Fetch standard, "CORS protocol"). One instance per data plane; carriers never see it: the
// composition adds the headers to `exchange.standing` before the endpoint runs.

import type { Exchange } from './exchange.ts';

/** Headers a browser script may read beside the safelisted ones. */
const EXPOSED =
  'x-request-id, request-id, x-headrace-error, x-headrace-cache, retry-after, x-should-retry, server-timing, ' +
  'payment-required, payment-response, x-payment-response';

const ALLOWED_METHODS = 'GET, HEAD, POST, OPTIONS';

/** How long a browser may remember a preflight, in seconds; two hours is the most that Chromium honours. */
const MAX_AGE_S = '7200';

export class Cors {
  readonly #any: boolean;
  readonly #origins: ReadonlySet<string>;

  /** `origins`: exact origins, or `*` for all; empty turns CORS off. */
  constructor(origins: readonly string[]) {
    this.#any = origins.includes('*');
    this.#origins = new Set(origins);
  }

  /** Adds the CORS headers of an answer when the request names an origin that is let in. */
  admit(exchange: Exchange): void {
    const origin = exchange.header('origin');
    // Also without an origin: a cache must not hand that answer to a page that sends one.
    if (!this.#any) exchange.standing.push('vary', 'origin');
    if (origin === undefined) return;
    if (!this.#any && !this.#origins.has(origin)) return;
    exchange.standing.push('access-control-allow-origin', this.#any ? '*' : origin);
    exchange.standing.push('access-control-expose-headers', EXPOSED);
    if (!this.#any) exchange.standing.push('access-control-allow-credentials', 'true');
  }

  /** Headers of the answer to a preflight. */
  preflight(exchange: Exchange): string[] {
    const asked = exchange.header('access-control-request-headers');
    const headers = ['access-control-allow-methods', ALLOWED_METHODS, 'access-control-max-age', MAX_AGE_S];
    if (asked !== undefined) headers.push('access-control-allow-headers', asked);
    return headers;
  }
}
