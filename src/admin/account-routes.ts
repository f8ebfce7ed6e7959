// Accounts, keys, usage, requests, the audit and the log of acts on the admin listener, for holders of an admin token. Each path
// is one call of the `AdminService`, whose refusals become HTTP statuses here. Every act is recorded.
//
// GET/POST /accounts   GET/POST /accounts/ID   POST /accounts/ID/adjustments, /refunds   GET/POST /accounts/ID/grants
// GET/DELETE /accounts/ID/responses   GET /accounts/ID/history   GET/POST /keys   GET/PATCH /keys/ID   POST /keys/ID/disable, /keys/ID/rotate   GET /audit
// GET /requests   GET /requests/ID   GET /acts   GET /webhooks/deliveries   POST /webhooks/deliveries/ID/redeliver
// GET/POST /budgets   GET/DELETE /budgets/ID   GET /usage   GET /payments   GET /payments/ID
// POST /payments/ID/decide   GET /whoami
// Lists take `limit` and `cursor`, and answer with `next`: the cursor of the next page, or null.

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { createAdminService, type AdminService, type AdminServiceDeps } from './admin-service.ts';
import { type Fields, queryFields } from './admin-requests.ts';
import { type AdminIdentity, type AdminRole, type AdminTokens, isAllowed, peerOf } from './admin-tokens.ts';
import { type List, LISTS, nextCursor } from './lists.ts';
import { recordedService } from './recorded-service.ts';
import { printCsv, printJsonLines } from './table-format.ts';
import type { Ledger, LedgerRefusal } from '../billing/index.ts';
import { LedgerError } from '../billing/main-thread.ts';
import { ERRORS, HeadraceError, type ValidationEntry } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { readJson, respond, respondJson } from './admin-exchange.ts';

/** Fits a request with the longest texts allowed. */
const MAX_REQUEST_BYTES = 16 * 1024;

/** Responses with keys, balances and accounts must not be stored by caches. */
const PRIVATE: OutgoingHttpHeaders = { 'cache-control': 'no-store' };

/** What a call answers. `status` default 200; `note` is what the log keeps of a change. */
interface Reply {
  readonly value: object;
  readonly status?: number;
  readonly note?: string;
  /** How the rows of a list are printed and continued; `value` is the rows. */
  readonly list?: List<never>;
}

/** A question as a route sees it: the id of its path decoded, fields of its query or body. */
interface Question {
  readonly id: string;
  readonly fields: Fields;
}

interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: RegExp;
  readonly role: AdminRole;
  readonly call: (adminService: AdminService, question: Question) => Promise<Reply>;
}

const ROUTES: readonly Route[] = [
  list('/accounts', LISTS.accounts, (adminService, { fields }) => adminService.listAccounts(fields)),
  route('POST', '/accounts', async (adminService, { fields }) => {
    return { value: await adminService.createAccount(fields), status: 201, note: 'account made' };
  }),
  route('GET', '/accounts/ID', async (adminService, { id }) => ({ value: await adminService.account(id) })),
  // Credit limits and organisations decide whose money is spent.
  route(
    'POST',
    '/accounts/ID',
    async (adminService, { id, fields }) => {
      return { value: await adminService.changeAccount(id, fields), note: 'account changed' };
    },
    'owner',
  ),
  list('/accounts/ID/grants', LISTS.openGrants, (adminService, { id }) => adminService.openGrants(id)),
  credit('grants', 'credit granted', (adminService, { id, fields }) => adminService.grant(id, fields)),
  credit('adjustments', 'credit adjusted', (adminService, { id, fields }) => adminService.adjust(id, fields)),
  credit('refunds', 'credit refunded', (adminService, { id, fields }) => adminService.refund(id, fields)),
  route('GET', '/accounts/ID/responses', async (adminService, { id }) => ({ value: await adminService.responses(id) })),
  route(
    'DELETE',
    '/accounts/ID/responses',
    async (adminService, { id }) => {
      return { value: await adminService.removeResponses(id), note: 'responses removed' };
    },
    'owner',
  ),
  list('/accounts/ID/history', LISTS.history, (adminService, { id, fields }) => adminService.history(id, fields)),
  list('/keys', LISTS.keys, (adminService, { fields }) => adminService.listKeys(fields)),
  route('POST', '/keys', async (adminService, { fields }) => {
    return { value: await adminService.createKey(fields), status: 201, note: 'key made' };
  }),
  route('GET', '/keys/ID', async (adminService, { id }) => ({ value: await adminService.key(id) })),
  route('PATCH', '/keys/ID', async (adminService, { id, fields }) => {
    return { value: await adminService.editKey(id, fields), note: 'key edited' };
  }),
  route('POST', '/keys/ID/disable', async (adminService, { id }) => {
    return { value: await adminService.disableKey(id), note: 'key disabled' };
  }),
  route('POST', '/keys/ID/rotate', async (adminService, { id, fields }) => {
    return { value: await adminService.rotateKey(id, fields), status: 201, note: 'key rotated' };
  }),
  list('/budgets', LISTS.budgets, (adminService, { fields }) => adminService.listBudgets(fields)),
  route('GET', '/budgets/ID', async (adminService, { id }) => ({ value: await adminService.budget(id) })),
  route('POST', '/budgets', async (adminService, { fields }) => {
    return { value: await adminService.setBudget(fields), note: 'budget set' };
  }),
  route('DELETE', '/budgets/ID', async (adminService, { id }) => {
    return { value: await adminService.removeBudget(id), note: 'budget removed' };
  }),
  list('/usage', LISTS.usage, (adminService, { fields }) => adminService.usage(fields)),
  route('GET', '/audit', async (adminService, { fields }) => ({ value: await adminService.audit(fields) })),
  list('/requests', LISTS.requests, (adminService, { fields }) => adminService.requests(fields)),
  route('GET', '/requests/ID', async (adminService, { id }) => ({ value: await adminService.request(id) })),
  list('/acts', LISTS.acts, (adminService, { fields }) => adminService.acts(fields)),
  list('/payments', LISTS.payments, (adminService, { fields }) => adminService.payments(fields)),
  route('GET', '/payments/ID', async (adminService, { id }) => ({ value: await adminService.payment(id) })),
  // It turns money into credit, or gives it up.
  route(
    'POST',
    '/payments/ID/decide',
    async (adminService, { id, fields }) => {
      return { value: await adminService.decidePayment(id, fields), note: 'payment decided' };
    },
    'owner',
  ),
  list('/webhooks/deliveries', LISTS.deliveries, (adminService, { fields }) => adminService.deliveries(fields)),
  route('POST', '/webhooks/deliveries/ID/redeliver', async (adminService, { id, fields }) => {
    return { value: await adminService.redeliver(id, fields), note: 'webhook sent again' };
  }),
];

/** Reading needs a viewer and changing an operator, unless a role is named. */
function route(
  method: Route['method'],
  path: string,
  call: Route['call'],
  role: AdminRole = method === 'GET' ? 'viewer' : 'operator',
): Route {
  return { method, path: new RegExp(`^${path.replace('ID', '([^/]+)')}$`), call, role };
}

function list<Row extends object>(
  path: string,
  shown: List<Row>,
  call: (adminService: AdminService, question: Question) => Promise<Row[]>,
): Route {
  return route('GET', path, async (adminService, question) => {
    return { value: await call(adminService, question), list: shown as List<never> };
  });
}

/** A movement of credit by hand. */
function credit(
  name: string,
  note: string,
  call: (adminService: AdminService, question: Question) => Promise<{ readonly repeated: boolean }>,
): Route {
  return route(
    'POST',
    `/accounts/ID/${name}`,
    async (adminService, question) => {
      const made = await call(adminService, question);
      return made.repeated ? { value: made } : { value: made, status: 201, note };
    },
    'owner',
  );
}

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
  #tokens: AdminTokens;

  constructor(options: AccountRoutesOptions) {
    this.#options = options;
    this.#tokens = options.tokens;
  }

  /** Takes over other tokens. */
  configure(tokens: AdminTokens): void {
    this.#tokens = tokens;
  }

  /** Answers a request to one of its paths on the admin listener; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    if (!OWN.test(path)) return false;
    const identity = this.#tokens.identify(req.headers.authorization);
    if (!this.#tokens.any) {
      respondJson(res, 403, { detail: 'accounts are not served here: adminToken is not set' });
    } else if (identity === null) {
      respondJson(res, 401, { detail: 'the admin token is required' }, { 'www-authenticate': 'Bearer' });
    } else if (path === '/whoami') {
      respondJson(res, 200, identity, PRIVATE);
    } else {
      void this.#serve(req, res, path, query, identity);
    }
    return true;
  }

  async #serve(
    req: IncomingMessage,
    res: ServerResponse,
    path: string,
    query: URLSearchParams,
    identity: AdminIdentity,
  ): Promise<void> {
    const here = ROUTES.filter((each) => each.path.test(path));
    const found = here.find(({ method }) => method === req.method);
    const id = decoded(found?.path.exec(path)?.[1] ?? '');
    if (here.length === 0 || id === undefined) {
      respondJson(res, 404, { detail: 'Not Found' });
    } else if (found === undefined) {
      const allow = here.map(({ method }) => method).join(', ');
      respondJson(res, 405, { detail: 'Method Not Allowed' }, { allow });
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
    const adminService = recordedService(createAdminService(store, this.#options), store.adminActs, actor);
    const { list: shown, value, status = 200, note } = await found.call(adminService, { id, fields });
    if (note !== undefined) log.info({ ...noteOf(value, id), actor: identity.name }, note);
    if (shown === undefined) {
      respondJson(res, status, value, PRIVATE);
      return;
    }
    const rows = value as readonly never[];
    const next = nextCursor(shown, rows, fields);
    // Formats that are rows alone have the cursor in a header.
    const headers = next === null ? PRIVATE : { ...PRIVATE, 'x-next-cursor': next };
    if (format === 'csv') {
      respond(res, status, 'text/csv; charset=utf-8; header=present', printCsv(shown.columns(fields), rows), headers);
    } else if (format === 'jsonl') {
      respond(res, status, 'application/jsonl; charset=utf-8', printJsonLines(rows), headers);
    } else {
      respondJson(res, status, { data: rows, next }, PRIVATE);
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
      respondJson(res, 500, { detail: 'the ledger failed; a repeat is safe with the same id' });
    } else if (status === 422) {
      respondJson(res, 422, { detail: [entry('body', (error as Error).message)] });
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
  throw invalid(entry('query', `must be one of ${FORMATS.join(', ')}`, 'format'));
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

/** Undefined for what no id is: broken escapes, and NUL, which no text of PostgreSQL holds. */
function decoded(segment: string): string | undefined {
  try {
    const id = decodeURIComponent(segment);
    return id.includes('\0') ? undefined : id;
  } catch {
    return undefined;
  }
}
