// Helpers of the admin endpoints: JSON answers, small bodies, and the check of a token in constant time.

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { AdminIdentity, AdminTokens } from './admin-tokens.ts';
import { bearerCheck } from '../net/bearer-token.ts';
import { parseJson } from '../config/json-text.ts';
import { readIncoming } from '../net/incoming-body.ts';

/** Answers with a JSON value. */
export function respondJson(
  res: ServerResponse,
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): void {
  respond(res, status, 'application/json', JSON.stringify(value), headers);
}

export function respond(
  res: ServerResponse,
  status: number,
  contentType: string,
  body: string | Buffer,
  headers: OutgoingHttpHeaders = {},
): void {
  res.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body), ...headers });
  res.end(body);
}

/** Answers 405 to a method that the path does not take; false for one that it does. */
export function refusesMethod(
  { method = '' }: IncomingMessage,
  res: ServerResponse,
  ...methods: readonly string[]
): boolean {
  if (methods.includes(method)) return false;
  respondJson(res, 405, { detail: 'Method Not Allowed' }, { allow: methods.join(', ') });
  return true;
}

/** Whether the client takes gzip: names it, and not with a weight of 0 (RFC 9110, section 12.5.3). */
export function takesGzip({ headers }: IncomingMessage): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(headers['accept-encoding'] ?? '');
}

/** Answers 401 where an admin token is missing or unknown. */
export function askForToken({ headers }: IncomingMessage, res: ServerResponse): void {
  const problem = headers.authorization === undefined ? 'required' : 'wrong';
  respondJson(res, 401, { detail: `the admin token is ${problem}` }, { 'www-authenticate': 'Bearer' });
}

/** Who sends a request. Null when it has been answered: 403 with `refusal` where no admin token is set, else 401. */
export function authenticate(
  req: IncomingMessage,
  res: ServerResponse,
  tokens: AdminTokens,
  refusal: string,
): AdminIdentity | null {
  const identity = tokens.identify(req.headers.authorization);
  if (!tokens.any) respondJson(res, 403, { detail: `${refusal}: adminToken is not set` });
  else if (identity === null) askForToken(req, res);
  return identity;
}

/** Resolves with the JSON value of a body, or with the reason why there is none. */
export async function readJson(
  req: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly value: unknown } | 'too long' | 'not JSON' | 'gone'> {
  const body = await readIncoming(req, maxBytes);
  return typeof body === 'string' ? body : parsed(body);
}

function parsed(body: Buffer): { readonly value: unknown } | 'not JSON' {
  try {
    return { value: parseJson(body.toString()) };
  } catch {
    return 'not JSON';
  }
}

/** The check of an operator's or a host's token; null when none is set. */
export function bearerGuard(token: string | null): ReturnType<typeof bearerCheck> | null {
  return token === null ? null : bearerCheck(token);
}
