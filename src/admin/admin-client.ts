// The `AdminService` of a running gateway, called over its admin listener: the same calls and answers as over a ledger.

import type { Fields } from './admin-requests.ts';
import type { AdminService } from './admin-service.ts';
import { HeadraceError, type ValidationEntry } from '../errors.ts';
import type { BufferedRequest, BufferedResponse } from '../net/buffered-client.ts';
import { errorReason } from '../routing/index.ts';

/** The gateway refused, or answered nothing that makes sense; the message is a sentence without the token. */
export class AdminClientError extends Error {
  override readonly name = 'AdminClientError';
}

export interface AdminClientOptions {
  /** Base URL of the admin listener, without a slash at its end. */
  readonly url: string;
  readonly token: string;
  /** The time that `send` gives a request. */
  readonly timeoutMs: number;
  readonly send: (request: BufferedRequest) => Promise<BufferedResponse>;
}

export function createAdminClient({ url, token, timeoutMs, send }: AdminClientOptions): AdminService {
  const ask = async <T>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: Fields): Promise<T> => {
    const headers = {
      authorization: `Bearer ${token}`,
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    };
    const request = {
      method,
      url: `${url}${path}`,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    };
    const response = await send(request).catch((error: unknown) => {
      throw new AdminClientError(`${url} does not answer (${errorReason(error, timeoutMs)})`);
    });
    return valueOf<T>(response, url);
  };
  const get = <T>(path: string, fields: Fields = {}): Promise<T> => ask('GET', path + queryOf(fields));
  const list = async <T>(path: string, fields?: Fields): Promise<T[]> => (await get<{ data: T[] }>(path, fields)).data;
  const account = (id: string): string => `/accounts/${encodeURIComponent(id)}`;
  const key = (id: string): string => `/keys/${encodeURIComponent(id)}`;
  const payment = (id: string): string => `/payments/${encodeURIComponent(id)}`;
  return {
    listAccounts: (fields) => list('/accounts', fields),
    createAccount: (fields) => ask('POST', '/accounts', fields),
    account: (id) => get(account(id)),
    changeAccount: (id, fields) => ask('POST', account(id), fields),
    adjust: (id, fields) => ask('POST', `${account(id)}/adjustments`, fields),
    refund: (id, fields) => ask('POST', `${account(id)}/refunds`, fields),
    openGrants: (id) => list(`${account(id)}/grants`),
    grant: (id, fields) => ask('POST', `${account(id)}/grants`, fields),
    responses: (id) => get(`${account(id)}/responses`),
    removeResponses: (id) => ask('DELETE', `${account(id)}/responses`),
    history: (id, fields) => list(`${account(id)}/history`, fields),
    listKeys: (fields) => list('/keys', fields),
    key: (id) => get(key(id)),
    createKey: (fields) => ask('POST', '/keys', fields),
    editKey: (id, fields) => ask('PATCH', key(id), fields),
    listBudgets: (fields) => list('/budgets', fields),
    budget: (id) => get(`/budgets/${encodeURIComponent(id)}`),
    setBudget: (fields) => ask('POST', '/budgets', fields),
    removeBudget: (id) => ask('DELETE', `/budgets/${encodeURIComponent(id)}`),
    disableKey: (id) => ask('POST', `${key(id)}/disable`, {}),
    rotateKey: (id, fields) => ask('POST', `${key(id)}/rotate`, fields),
    usage: (fields) => list('/usage', fields),
    audit: (fields) => get('/audit', fields),
    requests: (fields) => list('/requests', fields),
    request: (id) => get(`/requests/${encodeURIComponent(id)}`),
    acts: (fields) => list('/acts', fields),
    payments: (fields) => list('/payments', fields),
    payment: (id) => get(payment(id)),
    decidePayment: (id, fields) => ask('POST', `${payment(id)}/decide`, fields),
    deliveries: (fields) => list('/webhooks/deliveries', fields),
    redeliver: (message, fields) =>
      ask('POST', `/webhooks/deliveries/${encodeURIComponent(message)}/redeliver`, fields),
  };
}

function queryOf(fields: Fields): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) query.set(name, String(value));
  return query.size === 0 ? '' : `?${query.toString()}`;
}

/** The JSON of a successful answer. Errors about fields are thrown as the service over a ledger throws them. */
function valueOf<T>({ status, body }: BufferedResponse, url: string): T {
  const value = parsed(body);
  if (status >= 200 && status < 300 && value !== undefined) return value as T;
  const { detail } = (value ?? {}) as { detail?: unknown };
  if (status === 422 && Array.isArray(detail)) {
    throw new HeadraceError('HR_REQUEST_INVALID', { validation: detail as ValidationEntry[] });
  }
  throw new AdminClientError(`${url} answers ${status}${typeof detail === 'string' ? `: ${detail}` : ''}`);
}

function parsed(body: Buffer): object | undefined {
  try {
    const value = JSON.parse(body.toString()) as unknown;
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
