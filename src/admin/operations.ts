// The calls of the `AdminService` over the admin listener and in the log of acts: where each is found, who may make it, and
// what is recorded of it. The routes, the client and the recorded service are made from this table.
//
// A path is called with the fields of its query (GET) or its JSON body; `ID` in it is the first argument of the call. Lists take
// `limit` and `cursor`, and answer with `next`: the cursor of the next page, or null.

import type { AdminService } from './admin-service.ts';
import type { AdminRole } from './admin-tokens.ts';
import { type List, LISTS } from './lists.ts';

export interface Operation {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly role: AdminRole;
  /** How the rows of a list are printed and continued; null: the answer is no list. */
  readonly list: List<never> | null;
  /** Null: it only reads. */
  readonly act: Act | null;
}

/** What changes something. */
export interface Act {
  /** Its name in the log of acts. */
  readonly action: string;
  /** What the log of the gateway says of it. */
  readonly note: string;
  /** What reads the state of its subject before; default: nothing is recorded. */
  readonly before?: 'account' | 'key' | 'budget' | 'payment' | 'budgetBefore';
  /** Field that names the subject; default: it is the id in the path. */
  readonly subjectField?: string;
  /** Its answer has a new key in `key`, which stays out of the log. */
  readonly makesKey?: true;
  /** Of an answer that has repeated nothing; default 200. */
  readonly status?: 201;
}

type Path = `${Operation['method']} /${string}`;

function operation(path: Path, role: AdminRole, list: Operation['list'], act: Act | null): Operation {
  const [method, place] = path.split(' ') as [Operation['method'], string];
  return { method, path: place, role, list, act };
}

const read = (path: string): Operation => operation(`GET /${path}`, 'viewer', null, null);
const list = <Row>(path: string, shown: List<Row>): Operation =>
  operation(`GET /${path}`, 'viewer', shown as List<never>, null);
const change = (path: Path, act: Act, role: AdminRole = 'operator'): Operation => operation(path, role, null, act);
/** A movement of credit by hand. */
const credit = (path: Path, action: string, note: string): Operation =>
  change(path, { action, note, before: 'account', status: 201 }, 'owner');

export const OPERATIONS: Readonly<Record<keyof AdminService, Operation>> = {
  listAccounts: list('accounts', LISTS.accounts),
  createAccount: change('POST /accounts', {
    ...{ action: 'account.create', note: 'account made', before: 'account', subjectField: 'id', status: 201 },
  }),
  account: read('accounts/ID'),
  // Credit limits and organisations decide whose money is spent.
  changeAccount: change(
    'POST /accounts/ID',
    { action: 'account.change', note: 'account changed', before: 'account' },
    'owner',
  ),
  openGrants: list('accounts/ID/grants', LISTS.openGrants),
  grant: credit('POST /accounts/ID/grants', 'credit.grant', 'credit granted'),
  adjust: credit('POST /accounts/ID/adjustments', 'credit.adjust', 'credit adjusted'),
  refund: credit('POST /accounts/ID/refunds', 'credit.refund', 'credit refunded'),
  responses: read('accounts/ID/responses'),
  removeResponses: change(
    'DELETE /accounts/ID/responses',
    { action: 'responses.remove', note: 'responses removed' },
    'owner',
  ),
  history: list('accounts/ID/history', LISTS.history),
  listKeys: list('keys', LISTS.keys),
  createKey: change('POST /keys', {
    ...{ action: 'key.create', note: 'key made', makesKey: true, status: 201 },
    ...{ before: 'account', subjectField: 'account' },
  }),
  key: read('keys/ID'),
  editKey: change('PATCH /keys/ID', { action: 'key.edit', note: 'key edited', before: 'key' }),
  disableKey: change('POST /keys/ID/disable', { action: 'key.disable', note: 'key disabled', before: 'key' }),
  rotateKey: change('POST /keys/ID/rotate', {
    ...{ action: 'key.rotate', note: 'key rotated', makesKey: true, before: 'key', status: 201 },
  }),
  listBudgets: list('budgets', LISTS.budgets),
  budget: read('budgets/ID'),
  setBudget: change('POST /budgets', {
    ...{ action: 'budget.set', note: 'budget set', before: 'budgetBefore', subjectField: 'account' },
  }),
  removeBudget: change('DELETE /budgets/ID', { action: 'budget.remove', note: 'budget removed', before: 'budget' }),
  usage: list('usage', LISTS.usage),
  audit: read('audit'),
  requests: list('requests', LISTS.requests),
  request: read('requests/ID'),
  acts: list('acts', LISTS.acts),
  payments: list('payments', LISTS.payments),
  payment: read('payments/ID'),
  // It turns money into credit, or gives it up.
  decidePayment: change(
    'POST /payments/ID/decide',
    { action: 'payment.decide', note: 'payment decided', before: 'payment' },
    'owner',
  ),
  deliveries: list('webhooks/deliveries', LISTS.deliveries),
  redeliver: change('POST /webhooks/deliveries/ID/redeliver', {
    ...{ action: 'webhook.redeliver', note: 'webhook sent again' },
  }),
};

/** A call without its types: the id of its path, if it has one, and its fields. */
export type Call = (...args: readonly unknown[]) => Promise<object>;

/** A service whose calls are made by `make`. */
export function serviceOf(make: (name: keyof AdminService, operation: Operation) => Call): AdminService {
  const calls = Object.entries(OPERATIONS).map(([name, each]) => [name, make(name as keyof AdminService, each)]);
  return Object.fromEntries(calls) as AdminService;
}

/** A call of a service by its name. */
export function callOf(service: AdminService, name: keyof AdminService): Call {
  return service[name] as Call;
}
