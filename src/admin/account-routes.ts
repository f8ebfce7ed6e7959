// Accounts, keys, usage, requests, the audit and the log of acts on the admin listener, for holders of an admin token. Each path
// is one call of the `AdminService` (operations.ts), whose refusals become HTTP statuses here. Every act is recorded.
//
// GET /whoami  name and role of the holder of the token

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { createAdminService, MovementUnknown, type AdminService, type AdminServiceDeps } from './admin-service.ts';
import { type Fields, queryFields } from './admin-requests.ts';
import { type AdminIdentity, type AdminTokens, isAllowed, peerOf } from './admin-tokens.ts';
import { nextCursor } from './lists.ts';
import { callOf, OPERATIONS } from './operations.ts';
import { actRecord, recordedService } from './recorded-service.ts';
import { printCsv, printJsonLines } from './table-format.ts';
import type { Ledger, LedgerRefusal } from '../billing/index.ts';
import { LedgerError } from '../billing/main-thread.ts';
import { ERRORS, HeadraceError, type ValidationEntry, invalidRequest } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { isJsonObject } from '../net/json-object.ts';
import { authenticate, readJson, refusesMethod, respond, respondJson } from './admin-exchange.ts';

/** Fits a request with the longest texts allowed. */
const MAX_REQUEST_BYTES = 16 * 1024;

/** Responses with keys, balances and accounts must not be stored by caches. */
const PRIVATE: OutgoingHttpHeaders = { 'cache-control': 'no-store' };

const ROUTES = Object.entries(OPERATIONS).map(([name, operation]) => ({
  name: name as keyof AdminService,
  ...operation,
  pattern: new RegExp(`^${operation.path.replace('ID', '([^/]+)')}$`),
}));
type Route = (typeof ROUTES)[number];

/** Every path below these requires the token, so that a client without it does not learn which paths exist. */
const OWN = /^\/(?:accounts|keys|budgets|usage|audit|payments|requests|acts|webhooks|whoami)(?:\/|$)/;

const STATUS: Readonly<Partial<Record<LedgerRefusal, number>>> = {
  'account-unknown': 404,
  'key-unknown': 404,
  'charge-unknown': 404,
  'payment-unknown': 404,
  'payment-settled': 409,
  'request-unknown': 404,
  'message-unknown': 404,
  'account-nested': 409,
  'credit-short': 409,
  'budget-unknown': 404,
  'amount-invalid': 422,
  'date-invalid': 422,
  'key-disabled': 422,
  'cursor-invalid': 422,
  'balance-overflow': 409,
  'key-taken': 409,
  'id-reused': 409,
  'queue-full': 503,
  closed: 503,
};

export interface AccountRoutesOptions extends AdminServiceDeps {
  /** Null while there is none: before it is open. */
  readonly ledger: () => Ledger | null;
  /** Without any, every path answers 403. */
  readonly tokens: AdminTokens;
  readonly log: Log;
}

export class AccountRoutes {
  readonly #options: AccountRoutesOptions;

  constructor(options: AccountRoutesOptions) {
    this.#options = options;
  }

  /** Answers a request to one of its paths on the admin listener; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    if (!OWN.test(path)) return false;
    const identity = authenticate(req, res, this.#options.tokens, 'accounts are not served here');
    if (identity === null) return true;
    if (path !== '/whoami') void this.#serve(req, res, path, query, identity);
    else if (!refusesMethod(req, res, 'GET', 'HEAD')) respondJson(res, 200, identity, PRIVATE);
    return true;
  }

  async #serve(
    req: IncomingMessage,
    res: ServerResponse,
    path: string,
    query: URLSearchParams,
    identity: AdminIdentity,
  ): Promise<void> {
    const here = ROUTES.filter((each) => each.pattern.test(path));
    const found = here.find(({ method }) => method === req.method);
    const id = decoded(found?.pattern.exec(path)?.[1] ?? '');
    if (here.length === 0 || id === undefined) {
      respondJson(res, 404, { detail: 'Not Found' });
    } else if (found === undefined) {
      refusesMethod(req, res, ...here.map(({ method }) => method));
    } else if (!isAllowed(identity.role, found.role)) {
      respondJson(res, 403, { detail: `the role ${identity.role} may not do this: it takes ${found.role}` });
    } else {
      try {
        await this.#call(found, id, req, res, query, identity);
      } catch (error) {
        this.#refuse(res, error);
      }
    }
  }

  async #call(
    found: Route,
    id: string,
    req: IncomingMessage,
    res: ServerResponse,
    query: URLSearchParams,
    identity: AdminIdentity,
  ): Promise<void> {
    const format = takeFormat(query, req.headers.accept, found.method === 'GET');
    const fields = found.method === 'GET' ? queryFields(query) : await bodyFields(req);
    if (fields === undefined) return;
    const { ledger, log } = this.#options;
    const store = ledger();
    if (store === null) throw new LedgerError('closed', 'the store is not open');
    const actor = { ...identity, via: peerOf(req) };
    const adminService = recordedService(
      createAdminService(store, this.#options),
      actRecord(store.adminActs, log),
      actor,
    );
    const { act, list, name, path } = found;
    const call = callOf(adminService, name);
    const value = await (path.includes('ID') ? call(id, fields) : call(fields));
    const isNew = (value as { readonly repeated?: boolean }).repeated !== true;
    if (act !== null && isNew) log.info({ ...noteOf(value, id), actor: identity.name }, act.note);
    if (list === null) {
      respondJson(res, (isNew ? act?.status : undefined) ?? 200, value, PRIVATE);
      return;
    }
    const rows = value as readonly never[];
    const next = nextCursor(list, rows, fields);
    // Formats that are rows alone have the cursor in a header, which has no other characters than Latin-1.
    const headers = next === null ? PRIVATE : { ...PRIVATE, 'x-next-cursor': encodeURIComponent(next) };
    if (format === 'csv') {
      respond(res, 200, 'text/csv; charset=utf-8; header=present', printCsv(list.columns(fields), rows), headers);
    } else if (format === 'jsonl') {
      respond(res, 200, 'application/jsonl; charset=utf-8', printJsonLines(rows), headers);
    } else {
      respondJson(res, 200, { data: rows, next }, PRIVATE);
    }
  }

  #refuse(res: ServerResponse, error: unknown): void {
    if (error instanceof HeadraceError) {
      // A body that was not read to its end blocks the next request of the connection.
      const headers = error.code === 'HR_REQUEST_TOO_LARGE' ? { connection: 'close' } : {};
      respondJson(res, ERRORS[error.code].status, { detail: error.detail }, headers);
      return;
    }
    const status = error instanceof LedgerError ? STATUS[error.refusal] : undefined;
    if (status === undefined) {
      this.#options.log.error({ err: error }, 'the ledger failed');
      const hint = error instanceof MovementUnknown ? `: ${error.message}` : '';
      respondJson(res, 500, { detail: `the ledger failed${hint}` });
    } else if (status === 422) {
      const mistake: ValidationEntry = { loc: ['body'], msg: (error as Error).message, type: 'value_error' };
      respondJson(res, 422, { detail: [mistake] });
    } else {
      respondJson(res, status, { detail: (error as Error).message });
    }
  }
}

const FORMATS = ['json', 'csv', 'jsonl'] as const;
type Format = (typeof FORMATS)[number];

/** The format of a list: `format` says so, or else `Accept`. Takes the parameter out of the query. */
function takeFormat(query: URLSearchParams, accept: string | undefined, hasFormat: boolean): Format {
  if (!hasFormat) return 'json';
  const formats = query.getAll('format');
  query.delete('format');
  if (formats.length === 0) return /^\s*text\/csv\b/i.test(accept ?? '') ? 'csv' : 'json';
  const format = FORMATS.find((each) => each === formats[0]);
  if (formats.length === 1 && format !== undefined) return format;
  throw invalidRequest(['query', 'format'], `must be one of ${FORMATS.join(', ')}`);
}

/** Undefined when the client has gone. An empty body is valid where no field is required. */
async function bodyFields(req: IncomingMessage): Promise<Fields | undefined> {
  const length = req.headers['content-length'];
  if ((length === undefined || length === '0') && req.headers['transfer-encoding'] === undefined) return {};
  const body = await readJson(req, MAX_REQUEST_BYTES);
  if (body === 'gone') return undefined;
  if (body === 'too long') throw new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: String(MAX_REQUEST_BYTES) });
  const value = body === 'not JSON' ? undefined : body.value;
  if (isJsonObject(value)) return value as Fields;
  throw invalidRequest(['body'], 'the body must be a JSON object');
}

/** What the log may keep of an answer: ids and amounts, never the key that was made. */
function noteOf(value: object, pathId: string): object {
  const { id, account, amount_usd: usd } = value as Partial<Record<string, string>>;
  return { id, account, usd, ...(pathId !== '' && pathId !== id && { of: pathId }) };
}

/** Undefined for what no id is: broken escapes, and NUL, which no text of PostgreSQL holds. */
function decoded(segment: string): string | undefined {
  try {
    const id = decodeURIComponent(segment);
    return id.includes('\0') ? undefined : id;
  } catch {
    return undefined;
  }
}
