// An `AdminService` that records every act in the log of acts: before it is carried out with the state of its subject, and
// afterwards with how it ended. An act that cannot be recorded is not carried out.

import type { AdminActor, Ledger } from '../billing/index.ts';
import { HeadraceError, messageOf } from '../errors.ts';
import type { Fields } from './admin-requests.ts';
import type { AdminService } from './admin-service.ts';

type Acts = Pick<Ledger['adminActs'], 'begin' | 'end'>;

/** What a change is called, and the state of its subject before it; `subject` is the first argument unless it is the fields. */
interface ActKind {
  readonly action: string;
  readonly before: (service: AdminService, subject: string) => Promise<object | null>;
  /** Name of the field that names the subject, where it is no argument. */
  readonly subjectField?: string;
}

const account = (service: AdminService, id: string): Promise<object | null> => known(service.account(id));
const key = async (service: AdminService, id: string): Promise<object | null> => await known(service.key(id));
const budget = async (service: AdminService, id: string): Promise<object | null> => await known(service.budget(id));
const payment = async (service: AdminService, id: string): Promise<object | null> => await known(service.payment(id));
const nothing = async (): Promise<null> => null;

/** Null where the subject does not exist; the act is refused for it then. */
async function known(state: Promise<object>): Promise<object | null> {
  return await state.catch(() => null);
}

/** Every method: what it changes, or null where it only reads. */
const ACTS: Readonly<Record<keyof AdminService, ActKind | null>> = {
  listAccounts: null,
  createAccount: { action: 'account.create', before: account, subjectField: 'id' },
  account: null,
  changeAccount: { action: 'account.change', before: account },
  grant: { action: 'credit.grant', before: account },
  adjust: { action: 'credit.adjust', before: account },
  refund: { action: 'credit.refund', before: account },
  openGrants: null,
  responses: null,
  removeResponses: { action: 'responses.remove', before: nothing },
  history: null,
  listKeys: null,
  key: null,
  createKey: { action: 'key.create', before: account, subjectField: 'account' },
  editKey: { action: 'key.edit', before: key },
  disableKey: { action: 'key.disable', before: key },
  rotateKey: { action: 'key.rotate', before: key },
  listBudgets: null,
  budget: null,
  setBudget: { action: 'budget.set', before: account, subjectField: 'account' },
  removeBudget: { action: 'budget.remove', before: budget },
  usage: null,
  audit: null,
  requests: null,
  request: null,
  acts: null,
  payments: null,
  payment: null,
  decidePayment: { action: 'payment.decide', before: payment },
  deliveries: null,
  redeliver: { action: 'webhook.redeliver', before: nothing },
};

type Method = (...args: unknown[]) => Promise<object>;

/** Records the acts of an actor. What the result holds in `key` is a secret and stays out of the log. */
export function recordedService(service: AdminService, acts: Acts, actor: AdminActor): AdminService {
  const recorded: Record<string, Method> = {};
  for (const [name, kind] of Object.entries(ACTS)) {
    const method = (service as unknown as Readonly<Record<string, Method>>)[name] as Method;
    recorded[name] = kind === null ? method : (...args) => carryOut(service, acts, actor, kind, method, args);
  }
  return recorded as unknown as AdminService;
}

async function carryOut(
  service: AdminService,
  acts: Acts,
  actor: AdminActor,
  { action, before, subjectField }: ActKind,
  method: Method,
  args: readonly unknown[],
): Promise<object> {
  const fields = args.find((arg): arg is Fields => typeof arg === 'object') ?? {};
  const named = subjectField === undefined ? args[0] : fields[subjectField];
  // An act that will be refused for its subject is recorded too, and no text of PostgreSQL holds NUL.
  const subject = typeof named === 'string' && !named.includes('\0') ? named : '';
  const state = subject === '' ? null : await before(service, subject);
  return await recordAct(acts, { actor, action, subject, request: fields, before: state }, () => method(...args));
}

/** Carries an act out between the record of its beginning and that of its end. */
export async function recordAct<Result extends object>(
  acts: Acts,
  act: Parameters<Acts['begin']>[0],
  carryOut: () => Promise<Result>,
): Promise<Result> {
  const id = await acts.begin({ ...act, request: bounded(act.request) });
  let result: Result;
  try {
    result = await carryOut();
  } catch (error) {
    await acts.end(id, 'refused', { reason: reasonOf(error) });
    throw error;
  }
  const { key: _secret, ...after } = result as Readonly<Record<string, unknown>>;
  await acts.end(id, 'done', after);
  return result;
}

/** Most characters of what was asked for that are kept: a refused request may hold anything. */
const MAX_REQUEST = 4096;

function bounded(request: object): object {
  const text = JSON.stringify(request);
  return text.length <= MAX_REQUEST ? request : { cut: text.slice(0, MAX_REQUEST) };
}

function reasonOf(error: unknown): string {
  if (error instanceof HeadraceError && error.validation !== undefined)
    return error.validation.map(({ loc, msg }) => `${loc.join('.')} ${msg}`).join('; ');
  return messageOf(error);
}
