// Accounts, keys, credit, usage and the audit for operators, over a ledger. The command line and the admin listener both call an
// `AdminService`; `admin-client.ts` implements it over the network. A key is returned once, when it is created: the ledger
// has only its SHA-256.

import {
  hashKey,
  type Account,
  type Ledger,
  type Moved,
  type Movement,
  type NewKey,
  type Payment,
  type Pico,
  type RequestRecord,
  type StoredBudget,
  type StoredKey,
  printCredits,
  printUsd,
} from '../billing/index.ts';
import { LedgerError, decidePayment, isServed, spentOf } from '../billing/main-thread.ts';
import { invalidRequest } from '../errors.ts';
import {
  type Fields,
  readAccountChange,
  readAccountQuery,
  readAccountRequest,
  readActQuery,
  readAdjustmentRequest,
  readDeliveryQuery,
  readBudgetRequest,
  readGrantRequest,
  readHistoryQuery,
  readKeyEdit,
  readKeyRequest,
  readOwnedQuery,
  readPaymentDecision,
  readPaymentQuery,
  readRedelivery,
  readRefundRequest,
  readRequestQuery,
  readRotationRequest,
  readAuditQuery,
  readUsageQuery,
} from './admin-requests.ts';
import {
  accountView,
  type AccountView,
  actView,
  type ActView,
  auditView,
  type AuditView,
  deliveryView,
  type DeliveryView,
  budgetView,
  type BudgetView,
  type GrantView,
  keyView,
  type KeyView,
  movementView,
  type MovementView,
  type NewKeyView,
  openGrantView,
  type OpenGrantView,
  paymentView,
  type PaymentView,
  requestView,
  type RequestView,
  type ResponsesView,
  type RotationView,
  usageView,
  type UsageView,
} from './views.ts';

/**
 * Fields are those of `admin-requests.ts`. Calls reject with `HR_REQUEST_INVALID` for fields that are wrong, with a `LedgerError`
 * for what the ledger refuses, or with the error of the database.
 */
export interface AdminService {
  listAccounts(fields?: Fields): Promise<AccountView[]>;
  /** One that exists stays as it is. */
  createAccount(fields: Fields): Promise<AccountView>;
  account(id: string): Promise<AccountView>;
  /** Changes the credit limit, the organisation, or the threshold of `credit.low`. */
  changeAccount(id: string, fields: Fields): Promise<AccountView>;
  /** Credit for an account that exists; a repeat of the id moves nothing. */
  grant(account: string, fields: Fields): Promise<GrantView>;
  /** Credit given or taken, never below the credit limit; a repeat of the id moves nothing. */
  adjust(account: string, fields: Fields): Promise<GrantView>;
  /** Gives back a sum, what is left of a charge, or what a request cost; a repeat of the id moves nothing. */
  refund(account: string, fields: Fields): Promise<GrantView>;
  /** Credit that expires, the first to expire first. */
  openGrants(account: string): Promise<OpenGrantView[]>;
  /** Stored responses of an account, and their bytes. */
  responses(account: string): Promise<ResponsesView>;
  /** Removes them; what they took is in the answer. */
  removeResponses(account: string): Promise<ResponsesView>;
  /** Newest first. */
  history(account: string, fields: Fields): Promise<MovementView[]>;
  listKeys(fields: Fields): Promise<KeyView[]>;
  key(id: string): Promise<KeyView>;
  /** Makes the account too when it is new. */
  createKey(fields: Fields): Promise<NewKeyView>;
  /** Changes the label, expiry or limits of a key in place. */
  editKey(id: string, fields: Fields): Promise<KeyView>;
  disableKey(id: string): Promise<KeyView>;
  /** A successor that ends when the old key would have, by default. Refuses a key that is disabled. */
  rotateKey(id: string, fields: Fields): Promise<RotationView>;
  listBudgets(fields: Fields): Promise<BudgetView[]>;
  budget(id: string): Promise<BudgetView>;
  /** Sets the budget of an account, key or model and period; one that exists is changed. */
  setBudget(fields: Fields): Promise<BudgetView>;
  removeBudget(id: string): Promise<BudgetView>;
  usage(fields: Fields): Promise<UsageView[]>;
  audit(fields?: Fields): Promise<AuditView>;
  /** Single requests, the newest first, where the setting `costLog.requests` keeps them. */
  requests(fields: Fields): Promise<RequestView[]>;
  request(id: string): Promise<RequestView>;
  /** Acts of operators, the newest first. */
  acts(fields: Fields): Promise<ActView[]>;
  /** Payments by x402 in one state, those that changed last first. */
  payments(fields: Fields): Promise<PaymentView[]>;
  /** `id`: of the payment, or its nonce. */
  payment(id: string): Promise<PaymentView>;
  /** Closes a payment without a known outcome by what the operator has seen on the chain. */
  decidePayment(id: string, fields: Fields): Promise<PaymentView>;
  /** Deliveries of webhooks, the newest first. */
  deliveries(fields: Fields): Promise<DeliveryView[]>;
  /** Makes a delivery due again, with all its attempts. */
  redeliver(message: string, fields: Fields): Promise<{ readonly message: string; readonly endpoint: string }>;
}

/** The service where the ledger is. */
export interface StoreService extends AdminService {
  /** The budget that `setBudget` would change. */
  budgetBefore(fields: Fields): Promise<BudgetView>;
}

export interface AdminServiceDeps {
  /** Milliseconds since 1970, whole. */
  readonly dateMs: () => number;
  /** Good for secrets. */
  readonly randomBytes: (size: number) => Buffer;
}

const KEY_BYTES = 32;
const ID_BYTES = 9;

/** `hr_` and six characters: 36 of the 256 bits, enough to tell keys apart and too few to help guessing. */
const PREFIX_LENGTH = 9;

/** A key and what is stored of it. Its id is random. */
function makeKey(deps: AdminServiceDeps): { key: string; stored: Pick<NewKey, 'id' | 'hash' | 'prefix'> } {
  const key = `hr_${deps.randomBytes(KEY_BYTES).toString('base64url')}`;
  const id = `key_${newId(deps)}`;
  return { key, stored: { id, hash: hashKey(key), prefix: key.slice(0, PREFIX_LENGTH) } };
}

/** An id that nobody has. */
export function newId({ randomBytes }: Pick<AdminServiceDeps, 'randomBytes'>): string {
  return randomBytes(ID_BYTES).toString('hex');
}

async function requireAccount(ledger: Ledger, id: string): Promise<Account> {
  const account = await ledger.account(id);
  if (account === undefined) throw new LedgerError('account-unknown', `No account '${id}'`);
  return account;
}

async function requireKey(ledger: Ledger, id: string): Promise<StoredKey> {
  const key = await ledger.findKeyById(id);
  if (key === undefined) throw new LedgerError('key-unknown', `No key '${id}'`);
  return key;
}

/**
 * The store, or the connection to the gateway, failed in the middle of a movement. Its caller may not have chosen the id, and would move credit
 * twice under another one.
 */
export class MovementUnknown extends Error {
  override readonly name = 'MovementUnknown';

  constructor(id: string, cause: unknown) {
    super(`credit may have moved: repeat it with the id ${id}, which moves it once`, { cause });
  }
}

async function moving<Answer extends Moved>(id: string, movement: Promise<Answer>): Promise<Answer> {
  return await movement.catch((error: unknown) => {
    throw error instanceof LedgerError ? error : new MovementUnknown(id, error);
  });
}

/** What credit moved, and the balance behind it: nothing is read that could fail once it has moved. */
function movedView(id: string, account: string, amount: Pico, { balance, repeated }: Moved): GrantView {
  return {
    id,
    account,
    amount_usd: printUsd(amount),
    amount_credits: printCredits(amount),
    repeated,
    balance_usd: printUsd(balance),
    balance_credits: printCredits(balance),
  };
}

async function grant(ledger: Ledger, deps: AdminServiceDeps, account: string, fields: Fields): Promise<GrantView> {
  const { amount, expiresMs, id = newId(deps), memo } = readGrantRequest(fields, deps.dateMs());
  const expires = expiresMs === null ? {} : { expiresMs };
  const moved = await moving(id, ledger.grant({ id, account, amount, memo, ...expires }));
  return movedView(id, account, amount, moved);
}

async function adjust(ledger: Ledger, deps: AdminServiceDeps, account: string, fields: Fields): Promise<GrantView> {
  const { amount, id = newId(deps), memo } = readAdjustmentRequest(fields);
  return movedView(id, account, amount, await moving(id, ledger.adjust({ id, account, amount, memo })));
}

async function refund(ledger: Ledger, deps: AdminServiceDeps, account: string, fields: Fields): Promise<GrantView> {
  const { amount: asked, charge, memo, request, ...given } = readRefundRequest(fields);
  if (request !== undefined) {
    const record = await ledger.requests.find(request, account);
    if (record === undefined)
      throw new LedgerError('request-unknown', `No request '${request}' of account '${account}'`);
    // Named by the record: a request is given back once, whatever its client called it.
    const amount = asked ?? record.amount;
    if (amount > record.amount || amount === 0n)
      throw invalidRequest(['body', 'amount'], `must be at most what it cost: ${printUsd(record.amount)}`);
    return movedView(record.id, account, amount, await refundRequest(ledger, record, amount, memo));
  }
  // All of a charge is given back once; parts of it are told apart by their ids.
  const id = given.id ?? (asked === undefined ? charge : undefined) ?? newId(deps);
  const what =
    charge === undefined
      ? { amount: asked as Pico }
      : { charges: [charge], ...(asked !== undefined && { amount: asked }) };
  const moved = await moving(id, ledger.refund({ id, account, memo, ...what }));
  return movedView(id, account, moved.amount, moved);
}

/** Gives back a request as a part of the charges that may contain it, so that both together are given back once. */
async function refundRequest(ledger: Ledger, record: RequestRecord, amount: Pico, memo: string): Promise<Moved> {
  const { account, id } = record;
  const charges = await chargesOf(ledger, record, amount);
  if (charges.length === 0)
    throw new LedgerError('charge-unknown', `The charge of request '${id}' is not posted yet, or was removed`);
  return await ledger.refund({ id, account, charges, amount, memo });
}

/** `credit.flush` is a minute at most: the date of a charge is that of its report. */
const POSTED_WITHIN_MS = 61_000;

const HISTORY_ROWS = 1000;

/** What is charged of requests without a model: each engine of a search by itself, and pages. */
const WITHOUT_MODEL = /^(?:fetch$|search:)/;

/**
 * Charges of the key of a request that were made behind it, the nearest first: those of its model that are large enough; of a search or
 * of pages, which have a charge for each engine and for pages, all of them.
 */
async function chargesOf(ledger: Ledger, record: RequestRecord, amount: Pico): Promise<string[]> {
  const { dateMs, key, model } = record;
  const { organisation } = await requireAccount(ledger, record.account);
  const found: Movement[] = [];
  for (const account of new Set([organisation ?? record.account, record.account])) {
    let before = `${dateMs + POSTED_WITHIN_MS}-m-a`;
    for (;;) {
      const page = await ledger.history({ account, before, limit: HISTORY_ROWS });
      found.push(...page.filter((movement) => movement.kind === 'charge' && movement.dateMs >= dateMs));
      const last = page.at(-1);
      if (last === undefined || page.length < HISTORY_ROWS || last.dateMs < dateMs) break;
      before = last.seq;
    }
  }
  return found
    .filter(({ amount: charged, usage }) => {
      if (usage?.key !== key) return false;
      return model === '' ? WITHOUT_MODEL.test(usage.model) : usage.model === model && -charged >= amount;
    })
    .sort((one, other) => one.dateMs - other.dateMs)
    .slice(0, HISTORY_ROWS)
    .map(({ id }) => id);
}

/** An account that nobody has made may have responses, where nothing is charged. */
async function responsesOf(ledger: Ledger, account: string): Promise<ResponsesView> {
  const counts = await ledger.responses.counts(account);
  if (counts.responses === 0) await requireAccount(ledger, account);
  return { account, ...counts };
}

async function changeAccount(ledger: Ledger, id: string, fields: Fields): Promise<AccountView> {
  const { creditLimit, lowBalance, organisation } = readAccountChange(fields);
  return accountView(await ledger.configureAccount(id, { creditLimit, lowBalance, organisation }));
}

async function rotateKey(ledger: Ledger, deps: AdminServiceDeps, id: string, fields: Fields): Promise<RotationView> {
  const nowMs = deps.dateMs();
  const { graceMs, expiresMs: wantedMs } = readRotationRequest(fields, nowMs);
  const old = await requireKey(ledger, id);
  const hasExpired = old.expiresMs !== null && old.expiresMs <= nowMs;
  if (wantedMs === undefined && hasExpired)
    throw invalidRequest(['body', 'expires'], 'is required: the key has expired');
  const { key, stored } = makeKey(deps);
  const { created, replaced } = await ledger.rotateKey(id, { ...stored, expiresMs: wantedMs }, graceMs);
  const { expires_at: replacedUntil } = keyView(replaced, nowMs);
  return { ...keyView(created, nowMs), key, replaces: id, replaced_until: replacedUntil };
}

async function budgetViews(
  ledger: Ledger,
  { dateMs }: AdminServiceDeps,
  budgets: readonly StoredBudget[],
): Promise<BudgetView[]> {
  const nowMs = dateMs();
  const spent = await spentOf(budgets, (query) => ledger.budgets.spending(query), nowMs);
  return budgets.map((budget) => budgetView(budget, spent.get(budget) ?? 0n, nowMs));
}

async function oneBudgetView(ledger: Ledger, deps: AdminServiceDeps, budget: StoredBudget): Promise<BudgetView> {
  const [view] = await budgetViews(ledger, deps, [budget]);
  return view as BudgetView;
}

async function requirePayment(ledger: Ledger, id: string): Promise<Payment> {
  if (/^0x[0-9a-f]{64}$/i.test(id)) {
    const [payment, another] = await ledger.listPayments({ nonce: id.toLowerCase(), limit: 2 });
    if (another !== undefined)
      throw invalidRequest(['body', 'id'], 'is the nonce of several payments: use the id of one');
    if (payment !== undefined) return payment;
  }
  const payment = await ledger.findPayment(id.toLowerCase());
  if (payment === undefined) throw new LedgerError('payment-unknown', `No payment '${id}'`);
  return payment;
}

async function decide(ledger: Ledger, id: string, fields: Fields): Promise<PaymentView> {
  const { force, transaction } = readPaymentDecision(fields);
  const payment = await requirePayment(ledger, id);
  const { state, validUntilMs } = payment;
  if (transaction === null && state === 'submitted' && validUntilMs > ledger.dateMs() && !force) {
    const until = paymentView(payment).valid_until;
    throw invalidRequest(
      ['body', 'not_settled'],
      `is refused until ${until}, when the signature ends: the money can still move`,
    );
  }
  if (isServed(payment, ledger.dateMs())) {
    const message = `Payment '${payment.id}' is decided by the gateway that serves its request; try again when it is over`;
    throw new LedgerError('payment-settled', message);
  }
  if (!(await decidePayment(ledger, payment, { transaction }))) {
    throw new LedgerError('payment-settled', `Payment '${payment.id}' is not open: it is ${state}`);
  }
  return paymentView(await requirePayment(ledger, payment.id));
}

/** The service over a ledger, which the caller closes. */
export function createAdminService(ledger: Ledger, deps: AdminServiceDeps): StoreService {
  return {
    listAccounts: async (fields = {}) => (await ledger.listAccounts(readAccountQuery(fields))).map(accountView),
    createAccount: async (fields) => accountView(await ledger.createAccount(readAccountRequest(fields))),
    account: async (id) => accountView(await requireAccount(ledger, id)),
    changeAccount: (id, fields) => changeAccount(ledger, id, fields),
    grant: (account, fields) => grant(ledger, deps, account, fields),
    adjust: (account, fields) => adjust(ledger, deps, account, fields),
    refund: (account, fields) => refund(ledger, deps, account, fields),
    async openGrants(account) {
      await requireAccount(ledger, account);
      return (await ledger.openGrants(account)).map(openGrantView);
    },
    async history(account, fields) {
      const query = readHistoryQuery(account, fields);
      await requireAccount(ledger, account);
      return (await ledger.history(query)).map(movementView);
    },
    async listKeys(fields) {
      const { account, page } = readOwnedQuery(fields, 'key_');
      return (await ledger.listKeys(account, page)).map((key) => keyView(key, deps.dateMs()));
    },
    key: async (id) => keyView(await requireKey(ledger, id), deps.dateMs()),
    async createKey(fields) {
      const request = readKeyRequest(fields, deps.dateMs());
      const { key, stored } = makeKey(deps);
      await ledger.createAccount({ id: request.account });
      return { ...keyView(await ledger.createKey({ ...stored, ...request }), deps.dateMs()), key };
    },
    editKey: async (id, fields) => keyView(await ledger.editKey(id, readKeyEdit(fields, deps.dateMs())), deps.dateMs()),
    async listBudgets(fields) {
      const { account, page } = readOwnedQuery(fields, 'budget_');
      return await budgetViews(ledger, deps, await ledger.budgets.list(account, page));
    },
    async budget(id) {
      const budget = await ledger.budgets.find(id);
      if (budget === undefined) throw new LedgerError('budget-unknown', `No budget '${id}'`);
      return await oneBudgetView(ledger, deps, budget);
    },
    async budgetBefore(fields) {
      const budget = await ledger.budgets.findFor(readBudgetRequest(fields));
      if (budget === undefined) throw new LedgerError('budget-unknown', 'No such budget');
      return await oneBudgetView(ledger, deps, budget);
    },
    async setBudget(fields) {
      const id = `budget_${newId(deps)}`;
      return await oneBudgetView(ledger, deps, await ledger.budgets.set({ id, ...readBudgetRequest(fields) }));
    },
    responses: (account) => responsesOf(ledger, account),
    async removeResponses(account) {
      const before = await responsesOf(ledger, account);
      await ledger.responses.deleteAccount(account);
      return before;
    },
    removeBudget: async (id) => await oneBudgetView(ledger, deps, await ledger.budgets.remove(id)),
    disableKey: async (id) => keyView(await ledger.disableKey(id), deps.dateMs()),
    rotateKey: (id, fields) => rotateKey(ledger, deps, id, fields),
    usage: async (fields) => (await ledger.usage(readUsageQuery(fields))).map(usageView),
    audit: async (fields = {}) => auditView(await ledger.audit(readAuditQuery(fields))),
    requests: async (fields) => (await ledger.requests.list(readRequestQuery(fields))).map(requestView),
    async request(id) {
      const record = await ledger.requests.find(id);
      if (record === undefined) throw new LedgerError('request-unknown', `No request '${id}'`);
      return requestView(record);
    },
    acts: async (fields) => (await ledger.adminActs.list(readActQuery(fields))).map(actView),
    payments: async (fields) => (await ledger.listPayments(readPaymentQuery(fields))).map(paymentView),
    payment: async (id) => paymentView(await requirePayment(ledger, id)),
    decidePayment: (id, fields) => decide(ledger, id, fields),
    deliveries: async (fields) => (await ledger.webhooks.list(readDeliveryQuery(fields))).map(deliveryView),
    async redeliver(message, fields) {
      const endpoint = readRedelivery(fields);
      if (await ledger.webhooks.redeliver(message, endpoint)) return { message, endpoint };
      throw new LedgerError('message-unknown', `No delivery of '${message}' to '${endpoint}'`);
    },
  };
}
