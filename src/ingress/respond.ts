// Error and JSON responses. An error body is `{"detail": string}`, with 422 `{"detail": [entries]}`; the stable code is in
// `x-headrace-error`. Errors that are not of the table become 500 without their text.

import { ERRORS, HeadraceError } from '../errors.ts';
import type { Exchange } from './exchange.ts';

/** Seconds of `Retry-After` when the error has none of its own. */
const RETRY_AFTER_S = '1';

/** Members to add beside `detail`, for the clients of a dialect; see the setting `errorBodies`. */
export type ErrorDecorator = (
  exchange: Exchange,
  error: Pick<HeadraceError, 'code' | 'message' | 'status' | 'validation'>,
) => object | undefined;

/** An error in the shape of another interface: its status and its whole body. Undefined: in that of this one. */
export type ErrorShape = (
  exchange: Exchange,
  error: HeadraceError,
) => { readonly status: number; readonly body: object } | undefined;

/** Responds with an error. Breaks the connection when a response has begun. */
export function respondError(exchange: Exchange, thrown: unknown, decorate?: ErrorDecorator, shape?: ErrorShape): void {
  if (exchange.handedOver) return;
  const error = thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
  exchange.errorCode = error.code;
  if (exchange.committed) {
    exchange.destroy();
    return;
  }
  const shaped = shape?.(exchange, error);
  const body = shaped?.body ?? { detail: error.detail, ...decorate?.(exchange, error) };
  const headers = ['content-type', 'application/json', 'x-headrace-error', error.code, ...error.headers];
  const hint = error.validation?.[0]?.hint;
  if (hint !== undefined) headers.push('x-headrace-hint', hint);
  const { retryable } = ERRORS[error.code];
  // Read by the SDKs that Stainless generates, those of OpenAI and Anthropic among them, before they look at the status.
  if (retryable !== null && !error.headers.includes('x-should-retry'))
    headers.push('x-should-retry', String(retryable));
  if (error.status === 401) headers.push('www-authenticate', 'Bearer');
  if ((error.status === 429 || error.status === 503) && !error.headers.includes('retry-after')) {
    headers.push('retry-after', RETRY_AFTER_S);
  }
  exchange.respond(shaped?.status ?? error.status, headers, Buffer.from(JSON.stringify(body)));
}

export const JSON_HEADERS: readonly string[] = ['content-type', 'application/json'];

/** Responds with a JSON document. */
export function respondJson(exchange: Exchange, status: number, value: unknown, headers: readonly string[] = []): void {
  const all = [...JSON_HEADERS, ...headers];
  if (!exchange.handValue(status, all, value)) exchange.respond(status, all, Buffer.from(JSON.stringify(value)));
}
