// The only file that turns an error into an answer. Bodies are exactly `{"detail": string}`, or the array of 422;
// the stable code travels in `x-headrace-error`. Endpoints and carriers call it; nothing else writes error bodies.

import { HeadraceError } from '../errors.ts';
import type { Exchange } from './exchange.ts';

/** Seconds in `Retry-After` when the error does not say better. */
const RETRY_AFTER_S = '1';

/** Adds the members a dialect's clients read beside `detail`; see the setting `errorBodies`. */
export type ErrorDecorator = (exchange: Exchange, error: HeadraceError) => object | undefined;

/** Answers with an error of the table. Anything else that was thrown becomes 500 without its text. */
export function respondError(exchange: Exchange, thrown: unknown, decorate?: ErrorDecorator): void {
  if (exchange.finished) return;
  const error = thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
  exchange.errorCode = error.code;
  if (exchange.committed) {
    exchange.destroy();
    return;
  }
  const body = { detail: error.validation ?? error.message, ...decorate?.(exchange, error) };
  const headers = ['content-type', 'application/json', 'x-headrace-error', error.code, ...error.headers];
  if (error.status === 401) headers.push('www-authenticate', 'Bearer');
  if ((error.status === 429 || error.status === 503) && !error.headers.includes('retry-after')) {
    headers.push('retry-after', RETRY_AFTER_S);
  }
  exchange.respond(error.status, headers, Buffer.from(JSON.stringify(body)));
}

const JSON_HEADERS: readonly string[] = ['content-type', 'application/json'];

/** Answers with a JSON document. */
export function respondJson(exchange: Exchange, status: number, value: unknown, headers: readonly string[] = []): void {
  exchange.respond(status, [...JSON_HEADERS, ...headers], Buffer.from(JSON.stringify(value)));
}
