// Accounts, keys, usage and the audit on the admin listener, for operators with `adminToken`. Each path is one call of the
// `AdminService`, whose refusals become HTTP statuses here.
//
// GET/POST /accounts   GET /accounts/ID   POST /accounts/ID/grants   GET /accounts/ID/history
// GET/POST /keys       POST /keys/ID/disable   POST /keys/ID/rotate   GET /usage (JSON or CSV)   GET /audit

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { createAdminService, type AdminService, type AdminServiceDeps } from './admin-service.ts';
import type { Fields } from './admin-requests.ts';
import { printCsv, usageColumns } from './table-format.ts';
import { type Ledger, LedgerError, type LedgerRefusal } from '../billing/index.ts';
import { ERRORS, HeadraceError, type ValidationEntry } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { bearerGuard, readJson, respond, respondJson } from './admin-exchange.ts';

/** Fits a request with the longest texts allowed. */
const MAX_REQUEST_BYTES = 16 * 1024;

/** Responses with keys, balances and accounts must not be stored by caches. */
const PRIVATE: OutgoingHttpHeaders = { 'cache-control': 'no-store' };

/** What a call answers. `status` default 200; `note` is what the log keeps of a change. */
interface Reply {
  readonly value: object;
  readonly status?: number;
  readonly note?: string;
}

/** A question as a route sees it: the id of its path decoded, fields of its query or body. */
interface Question {
  readonly id: string;
  readonly fields: Fields;
}

interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
  readonly call: (adminService: AdminService, question: Question) => Promise<Reply>;
}

const ROUTES: readonly Route[] = [
  route('GET', '/accounts', async (adminService) => ({ value: { data: await adminService.listAccounts() } })),
  route('POST', '/accounts', async (adminService, { fields }) => {
    return { value: await adminService.createAccount(fields), status: 201, note: 'account made' };
  }),
  route('GET', '/accounts/ID', async (adminService, { id }) => ({ value: await adminService.account(id) })),
  route('POST', '/accounts/ID/grants', async (adminService, { id, fields }) => {
    const grant = await adminService.grant(id, fields);
    return grant.repeated ? { value: grant } : { value: grant, status: 201, note: 'credit granted' };
  }),
  route('GET', '/accounts/ID/history', async (adminService, { id, fields }) => {
    return { value: { data: await adminService.history(id, fields) } };
  }),
  route('GET', '/keys', async (adminService, { fields }) => ({ value: { data: await adminService.listKeys(fields) } })),
  route('POST', '/keys', async (adminService, { fields }) => {
    return { value: await adminService.createKey(fields), status: 201, note: 'key made' };
  }),
  route('POST', '/keys/ID/disable', async (adminService, { id }) => {
    return { value: await adminService.disableKey(id), note: 'key disabled' };
  }),
  route('POST', '/keys/ID/rotate', async (adminService, { id, fields }) => {
    return { value: await adminService.rotateKey(id, fields), status: 201, note: 'key rotated' };
  }),
  route('GET', '/usage', async (adminService, { fields }) => ({ value: { data: await adminService.usage(fields) } })),
  route('GET', '/audit', async (adminService) => ({ value: await adminService.audit() })),
];

function route(method: Route['method'], path: string, call: Route['call']): Route {
  return { method, path: new RegExp(`^${path.replace('ID', '([^/]+)')}$`), call };
}

/** Every path below these requires the token, so that a client without it does not learn which paths exist. */
const OWN = /^\/(?:accounts|keys|usage|audit)(?:\/|$)/;

const STATUS: Readonly<Partial<Record<LedgerRefusal, number>>> = {
  'account-unknown': 404,
  'key-unknown': 404,
  'amount-invalid': 422,
  'date-invalid': 422,
  'balance-overflow': 409,
  'key-taken': 409,
  'id-reused': 409,
  'queue-full': 503,
  closed: 503,
};

export interface AccountRoutesOptions extends AdminServiceDeps {
  /** Null while there is none: before it is open. */
  readonly ledger: () => Ledger | null;
  /** `adminToken`; null: every path answers 403. */
  readonly token: string | null;
  readonly log: Log;
}

export class AccountRoutes {
  readonly #options: AccountRoutesOptions;
  #isGood: ((authorization: string | undefined) => boolean) | null;

  constructor(options: AccountRoutesOptions) {
    this.#options = options;
    this.#isGood = bearerGuard(options.token);
  }

  /** Takes over another token. */
  configure(token: string | null): void {
    this.#isGood = bearerGuard(token);
  }

  /** Answers a request to one of its paths on the admin listener; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    if (!OWN.test(path)) return false;
    if (this.#isGood === null) {
      respondJson(res, 403, { detail: 'accounts are not served here: adminToken is not set' });
    } else if (!this.#isGood(req.headers.authorization)) {
      respondJson(res, 401, { detail: 'the admin token is required' }, { 'www-authenticate': 'Bearer' });
    } else {
      void this.#serve(req, res, path, query);
    }
    return true;
  }

  async #serve(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): Promise<void> {
    const here = ROUTES.filter((each) => each.path.test(path));
    const found = here.find(({ method }) => method === req.method);
    const id = decoded(found?.path.exec(path)?.[1] ?? '');
    if (here.length === 0 || id === undefined) {
      respondJson(res, 404, { detail: 'Not Found' });
    } else if (found === undefined) {
      const allow = here.map(({ method }) => method).join(', ');
      respondJson(res, 405, { detail: 'Method Not Allowed' }, { allow });
    } else {
      try {
        await this.#call(found, id, req, res, query);
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
  ): Promise<void> {
    const isCsv = takeFormat(query, req.headers.accept, found.path.test('/usage'));
    const fields = found.method === 'GET' ? queryFields(query) : await bodyFields(req);
    if (fields === undefined) return;
    const { ledger, log } = this.#options;
    const store = ledger();
    if (store === null) throw new LedgerError('closed', 'the store is not open');
    const { value, status = 200, note } = await found.call(createAdminService(store, this.#options), { id, fields });
    if (note !== undefined) log.info(noteOf(value, id), note);
    if (!isCsv) {
      respondJson(res, status, value, PRIVATE);
      return;
    }
    const { data } = value as { data: Awaited<ReturnType<AdminService['usage']>> };
    const columns = usageColumns(fields['by'] as string | undefined);
    respond(res, status, 'text/csv; charset=utf-8; header=present', printCsv(columns, data), PRIVATE);
  }

  #refuse(res: ServerResponse, error: unknown): void {
    if (error instanceof HeadraceError) {
      // A body that was not read to its end blocks the next request of the connection.
      const headers = error.code === 'HR_REQUEST_TOO_LARGE' ? { connection: 'close' } : {};
      respondJson(res, ERRORS[error.code].status, { detail: error.validation ?? error.message }, headers);
      return;
    }
    const status = error instanceof LedgerError ? STATUS[error.refusal] : undefined;
    if (status === undefined) {
      this.#options.log.error({ err: error }, 'the ledger failed');
      respondJson(res, 500, { detail: 'the ledger failed; a repeat is safe with the same id' });
    } else if (status === 422) {
      respondJson(res, 422, { detail: [entry('body', (error as Error).message)] });
    } else {
      respondJson(res, status, { detail: (error as Error).message });
    }
  }
}

/** Whether CSV is wanted: `format` says so, or else `Accept`. Takes the parameter out of the query. */
function takeFormat(query: URLSearchParams, accept: string | undefined, canBeCsv: boolean): boolean {
  if (!canBeCsv) return false;
  const formats = query.getAll('format');
  query.delete('format');
  if (formats.length === 0) return /^\s*text\/csv\b/i.test(accept ?? '');
  if (formats.length === 1 && (formats[0] === 'csv' || formats[0] === 'json')) return formats[0] === 'csv';
  throw invalid(entry('query', 'must be csv or json', 'format'));
}

function queryFields(query: URLSearchParams): Fields {
  const fields = new Map<string, string>();
  for (const [name, value] of query) {
    if (fields.has(name)) throw invalid(entry('query', 'is given twice', name));
    fields.set(name, value);
  }
  return Object.fromEntries(fields);
}

/** Undefined when the client has gone. An empty body is valid where no field is required. */
async function bodyFields(req: IncomingMessage): Promise<Fields | undefined> {
  const length = req.headers['content-length'];
  if ((length === undefined || length === '0') && req.headers['transfer-encoding'] === undefined) return {};
  const body = await readJson(req, MAX_REQUEST_BYTES);
  if (body === 'gone') return undefined;
  if (body === 'too long') throw new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: String(MAX_REQUEST_BYTES) });
  const value = body === 'not JSON' ? undefined : body.value;
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw invalid(entry('body', 'the body must be a JSON object'));
}

function entry(source: string, msg: string, ...names: string[]): ValidationEntry {
  return { loc: [source, ...names], msg, type: 'value_error' };
}

function invalid(mistake: ValidationEntry): HeadraceError {
  return new HeadraceError('HR_REQUEST_INVALID', { validation: [mistake] });
}

/** What the log may keep of an answer: ids and amounts, never the key that was made. */
function noteOf(value: object, pathId: string): object {
  const { id, account, amount_usd: usd } = value as Partial<Record<string, string>>;
  return { id, account, usd, ...(pathId !== '' && pathId !== id && { of: pathId }) };
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
