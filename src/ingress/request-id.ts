// Request ids: the caller's when it sent a sane one, else a new one. They appear in headers and logs, so only
// characters that are safe in both are taken over.

import { randomUUID } from 'node:crypto';

const SANE = /^[\w.:/+=-]{1,128}$/;

/** The id of a request with these headers: `x-request-id`, then `x-client-request-id`, else a new UUID. */
export function requestId(headers: readonly string[]): string {
  let fallback: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i];
    const value = headers[i + 1];
    if (value === undefined) continue;
    if (name === 'x-request-id' && SANE.test(value)) return value;
    if (name === 'x-client-request-id' && SANE.test(value)) fallback = value;
  }
  return fallback ?? randomUUID();
}
