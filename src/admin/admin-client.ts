// The `AdminService` of a running gateway, called over its admin listener: the same calls and answers as over a ledger.

import type { Fields } from './admin-requests.ts';
import { type AdminService, type AdminServiceDeps, MovementUnknown, newId } from './admin-service.ts';
import { serviceOf } from './operations.ts';
import { HeadraceError, type ValidationEntry } from '../errors.ts';
import type { BufferedRequest, BufferedResponse } from '../net/buffered-client.ts';
import { DispatchError } from '../net/client.ts';
import { errorReason } from '../routing/index.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';

/** The gateway refused, or answered nothing that makes sense; the message is a sentence without the token. */
export class AdminClientError extends Error {
  override readonly name = 'AdminClientError';
}

export interface AdminClientOptions extends Pick<AdminServiceDeps, 'randomBytes'> {
  /** Base URL of the admin listener, without a slash at its end. */
  readonly url: string;
  readonly token: string;
  /** The time that `send` gives a request. */
  readonly timeoutMs: number;
  readonly send: (request: BufferedRequest) => Promise<BufferedResponse>;
}

export function createAdminClient({ url, token, timeoutMs, send, ...deps }: AdminClientOptions): AdminService {
  return serviceOf((name, { list, method, path }) => async (...args) => {
    const [id, given = {}] = path.includes('ID') ? (args as [string, Fields?]) : ['', ...(args as [Fields?])];
    // Chosen here, so that who gets no answer can repeat it.
    const fields = isMovement(name, given) ? { id: newId(deps), ...given } : given;
    const unanswered = (error: AdminClientError): Error =>
      isMovement(name, given) ? new MovementUnknown(String(fields['id']), error) : error;
    const hasBody = method === 'POST' || method === 'PATCH';
    const place = path.replace('ID', encodeURIComponent(id)) + (method === 'GET' ? queryOf(fields) : '');
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
    const response = await send({
      method,
      url: url + place,
      headers: hasBody ? { ...headers, 'content-type': 'application/json' } : headers,
      ...(hasBody && { body: JSON.stringify(fields) }),
    }).catch((error: unknown) => {
      const failure = new AdminClientError(`${url} does not answer (${errorReason(error, timeoutMs)})`);
      throw error instanceof DispatchError && error.fault === 'connect' ? failure : unanswered(failure);
    });
    const value = parsedJson(response.body.toString());
    if (typeof value !== 'object' || value === null) {
      const failure = new AdminClientError(`${url} answers ${response.status} without JSON${ELSEWHERE}`);
      // Such as a proxy that has waited for too long.
      throw response.status >= 500 ? unanswered(failure) : failure;
    }
    const answer = valueOf(response.status, value, url);
    if (list === null) return answer;
    if (!Array.isArray(answer.data)) throw new AdminClientError(`${url} answers no list${ELSEWHERE}`);
    return answer.data as object;
  });
}

/** What would move credit again under another id. A request is given back once, and so is all of a charge. */
function isMovement(name: keyof AdminService, { amount, request }: Fields): boolean {
  return name === 'grant' || name === 'adjust' || (name === 'refund' && amount !== undefined && request === undefined);
}

function queryOf(fields: Fields): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) query.set(name, String(value));
  return query.size === 0 ? '' : `?${query.toString()}`;
}

const ELSEWHERE = ': is it the admin listener of a gateway?';

/** The value of a successful answer. Errors about fields are thrown as the service over a ledger throws them. */
function valueOf(status: number, value: object, url: string): { readonly data?: unknown } {
  if (status >= 200 && status < 300) return value;
  const { detail } = membersOf(value);
  if (status === 422 && Array.isArray(detail)) {
    throw new HeadraceError('HR_REQUEST_INVALID', { validation: detail as ValidationEntry[] });
  }
  throw new AdminClientError(`${url} answers ${status}${typeof detail === 'string' ? `: ${detail}` : ''}`);
}
