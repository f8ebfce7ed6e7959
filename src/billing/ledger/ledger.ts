// Interface of the ledger: accounts, credit, holds, payments, usage and keys, over either database; one suite tests both. Every
// writing call resolves after the durable commit and may be repeated with the same id without moving money twice.

import type { Pruned } from './retention.ts';
import type { AdminActs } from './admin-acts.ts';
import type { RequestRecords } from './request-records.ts';
import type { ResponseRecords } from './response-records.ts';
import type { NewWebhookEvent, WebhookRecords } from './webhook-records.ts';

/**
 * Money in pico-USD (1e-12 USD), the unit of every amount here. A price of 0.04 USD per million tokens is 40,000 a
 * token and one of 0.0375 is 37,500, so prices per token and their products stay integers. A balance is a signed
 * 64-bit integer: it holds 9.2 million USD either way. Accounts of the operator (`book.ts`) have no balance row
 * and are summed without that limit.
 */
export type Pico = bigint;

/** Public credits are millionths of a USD. */
export const PICO_PER_CREDIT: Pico = 1_000_000n;

export const PICO_PER_USD: Pico = 1_000_000_000_000n;

/** The most that one movement carries: 1.15 million USD, so that a few of them add up in 64 bits. */
export const MAX_AMOUNT: Pico = 1n << 60n;

/** Stable reason of a refusal. */
export type LedgerRefusal =
  | 'amount-invalid'
  | 'date-invalid'
  | 'balance-overflow'
  | 'account-unknown'
  | 'account-nested'
  | 'charge-unknown'
  | 'request-unknown'
  | 'message-unknown'
  | 'credit-short'
  | 'hold-unknown'
  | 'hold-closed'
  | 'payment-unknown'
  | 'payment-settled'
  | 'key-unknown'
  | 'key-taken'
  | 'key-disabled'
  | 'budget-unknown'
  | 'id-reused'
  | 'cursor-invalid'
  | 'backup-unsupported'
  | 'queue-full'
  | 'closed'
  | 'schema-newer'
  | 'url-invalid'
  | 'driver-missing';

/** A call that the ledger refuses; nothing has moved. */
export class LedgerError extends Error {
  override readonly name = 'LedgerError';
  readonly refusal: LedgerRefusal;

  constructor(refusal: LedgerRefusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.refusal = refusal;
  }
}

const ADDRESS = /^0x[0-9a-f]{40}$/i;

/** The id of an account as stored: hexadecimal addresses are lower-cased, because their case is only a checksum. */
export function accountId(name: string): string {
  return ADDRESS.test(name) ? name.toLowerCase() : name;
}

export interface Account {
  readonly id: string;
  readonly label: string;
  readonly createdMs: number;
  /** What may still be held or leased. Below zero only within the bound stated at `Ledger.charge`. */
  readonly balance: Pico;
  /** What open holds and leases hold. */
  readonly held: Pico;
  /** Account whose credit is spent in place of this one's; null: its own. */
  readonly organisation: string | null;
  /** How far below zero the balance may go by holds and leases: what is paid later. */
  readonly creditLimit: Pico;
  /** The event `credit.low` is written when what the account is worth falls below it; null: the default of the ledger. */
  readonly lowBalance: Pico | null;
  /** What of the balance and of what is held comes from grants that expire. Charges take it first. */
  readonly expiring: Pico;
}

export interface Grant {
  /** Names this grant for ever. A repeat of the id changes nothing. */
  readonly id: string;
  readonly account: string;
  readonly amount: Pico;
  readonly memo?: string;
  /** From then on the unspent rest is taken back. Milliseconds since 1970. Default: it does not expire. */
  readonly expiresMs?: number;
}

/** A correction by the operator: credit that is given, or taken where the amount is below zero. */
export interface Adjustment {
  /** Names this adjustment for ever. A repeat of the id changes nothing. */
  readonly id: string;
  readonly account: string;
  readonly amount: Pico;
  readonly memo?: string;
}

/** What a movement by hand came to. */
export interface Moved {
  /** The id was known: nothing has moved. */
  readonly repeated: boolean;
  /** Of the account that pays, behind the movement. */
  readonly balance: Pico;
}

/** Money given back as credit: a sum, or what was charged. */
export type Refund = {
  /** Names this refund for ever. A repeat of the id changes nothing. */
  readonly id: string;
  readonly account: string;
  readonly memo?: string;
} & (
  | { readonly amount: Pico }
  /**
   * Ids of movements. The amount is taken of the first charge as far as it reaches, and so on; default: all that is left of them. All
   * refunds of a charge together are at most the charge.
   */
  | { readonly charges: readonly string[]; readonly amount?: Pico }
);

/** A grant that expires, with what is unspent of it. */
export interface CreditGrant {
  readonly id: string;
  readonly account: string;
  readonly amount: Pico;
  readonly remaining: Pico;
  readonly expiresMs: number;
}

/** Credit held before work, or leased to an ingress thread. */
export interface HoldRequest {
  readonly id: string;
  readonly account: string;
  readonly amount: Pico;
  /** The process or thread whose `renew` keeps it open. */
  readonly holder: string;
  /** After so many milliseconds of the database's clock, `expire` gives it back. */
  readonly ttlMs: number;
}

/** A hold or lease as stored: what is left of it is `amount - spent`. */
export interface StoredHold {
  readonly id: string;
  readonly kind: 'hold' | 'lease';
  readonly account: string;
  readonly holder: string;
  readonly amount: Pico;
  readonly spent: Pico;
  readonly state: 'open' | 'closed';
  /** By the database's clock, in milliseconds since 1970. */
  readonly expiresMs: number;
  /** Number of the last operation on a lease; 0 before the first. */
  readonly operation: bigint;
  /** What a hold was settled with; null: it was not. */
  readonly charged: Pico | null;
}

/** An open hold or lease. */
export interface OpenHold {
  readonly id: string;
  /** What was not charged of it. */
  readonly left: Pico;
}

/** `short`: nothing was held, the balance is too low. */
export type HoldAnswer =
  | { readonly kind: 'held'; readonly amount: Pico; readonly repeated: boolean }
  | { readonly kind: 'short'; readonly balance: Pico };

/** What one charge was for. A search engine or a fetched page is a model of its own (`search:engine_a`, `fetch`). */
export interface Usage {
  /** Id of the key that asked, null when no key did. */
  readonly key: string | null;
  readonly model: string;
  readonly inputTokens: number;
  /** The part of the input that came from the cache. */
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** False when the charge rests on an estimate, as after a broken stream. */
  readonly measured: boolean;
  /** Requests that this charge sums up. Default 1. */
  readonly requests?: number;
  /** The version of the prices that made the amount, in any words that tell versions apart. */
  readonly price?: string;
}

/** A charge of a lease, or straight of the balance of the account. An account that does not exist is created. */
export interface Charge {
  /** Names this charge for ever, together with its account and date. */
  readonly id: string;
  /** Whose usage it is; its organisation pays, or who gave the lease. */
  readonly account: string;
  /** Pays as far as it reaches. The balance pays the rest, and all when the lease is closed or not known (any more). */
  readonly lease?: string;
  readonly amount: Pico;
  readonly usage: Usage;
  /** When the work was delivered, in milliseconds since 1970. It stays the same when the charge is repeated. */
  readonly dateMs: number;
}

/**
 * `late`: the hold or lease was closed or unknown; the balance paid. `repeated`: the id was known, nothing moved. `parked`: the
 * database refuses the charge itself; it is kept aside for the operator, moved nothing, and need not be repeated.
 */
export interface HoldSettlement {
  readonly late: boolean;
  readonly repeated: boolean;
  readonly parked?: string;
}

/** A signed payment: the token contract takes (network, asset, payer, nonce) once, and so does the ledger. */
export interface PaymentKey {
  readonly network: string;
  readonly asset: string;
  readonly payer: string;
  readonly nonce: string;
}

export interface PaymentRequest extends PaymentKey {
  /** What the payment is for, in the caller's words; not interpreted here. */
  readonly purpose: string;
  readonly amount: Pico;
  /** End of the signature's validity. Milliseconds since 1970. */
  readonly validUntilMs: number;
}

/**
 * `reserved`: no other request may use it; no money has moved. `submitted`: written down before the facilitator is
 * asked to settle, so money may have moved. `settled`: posted, the answer is kept. `failed`: will not be tried again.
 */
export type PaymentState = 'reserved' | 'submitted' | 'settled' | 'failed';

export interface Payment extends PaymentRequest {
  readonly id: string;
  readonly state: PaymentState;
  /** What was submitted: what a restart needs to ask the facilitator again. */
  readonly request: string | null;
  /** The answer that a repeat receives, or why it failed. */
  readonly answer: string | null;
  readonly changedMs: number;
}

export interface PaymentQuery {
  /** Default: any. */
  readonly state?: PaymentState;
  readonly payer?: string;
  readonly nonce?: string;
  /** Only those behind this payment. */
  readonly before?: { readonly changedMs: number; readonly id: string };
  readonly limit: number;
}

export type ReserveAnswer =
  | { readonly kind: 'reserved'; readonly id: string }
  | { readonly kind: 'taken'; readonly payment: Payment };

/** Where the money of a settled payment goes: credit of an account (made when it is new) or one charge. */
export type PaymentTarget =
  | { readonly kind: 'credit'; readonly account: string }
  /** `amount`: what is charged of the money, the rest is credit of the account; default all. */
  | { readonly kind: 'charge'; readonly account: string; readonly usage: Usage; readonly amount?: Pico | null };

export interface KeyLimits {
  /** Requests under way at the same time. */
  readonly runningRequests?: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  /** Decimal digits of pico-USD in a calendar month, UTC: JSON has no large integers. */
  readonly monthlySpend?: string;
}

/** What of an account may be changed; what is missing stays. */
export interface AccountChange {
  /** How far below zero holds and leases may bring the account; 0: prepaid. What is below already stays. */
  readonly creditLimit?: Pico | undefined;
  /** Null: none. */
  readonly lowBalance?: Pico | null | undefined;
  /**
   * Whose credit the account spends; null: its own. Its own credit stays untouched meanwhile. Refused (`account-nested`) are an organisation
   * that is a member itself, and a member that is an organisation.
   */
  readonly organisation?: string | null | undefined;
}

/** A key as stored: its hash, never itself. */
export interface StoredKey {
  readonly id: string;
  /** SHA-256 in hex. */
  readonly hash: string;
  /** The first characters, shown to tell keys apart. */
  readonly prefix: string;
  readonly account: string;
  readonly label: string;
  readonly limits: KeyLimits;
  readonly createdMs: number;
  readonly expiresMs: number | null;
  readonly disabledMs: number | null;
  /** Id of the first key of its chain of rotations: what was spent with any of them counts towards one budget. */
  readonly lineage: string;
}

export type Successor = Pick<NewKey, 'id' | 'hash' | 'prefix'> & {
  readonly expiresMs?: number | null | undefined;
};

export interface Rotation {
  readonly created: StoredKey;
  /** The old key as it is now. */
  readonly replaced: StoredKey;
}

/** `lineage`: default its own id. */
export type NewKey = Pick<StoredKey, 'id' | 'hash' | 'prefix' | 'account'> &
  Partial<Pick<StoredKey, 'label' | 'limits' | 'expiresMs' | 'lineage'>>;

/** Members of a key that may be edited; those that are absent stay. A limit of null is removed. */
export interface KeyEdit {
  readonly label?: string;
  /** Null: the key does not expire. */
  readonly expiresMs?: number | null;
  readonly limits?: { readonly [Name in keyof KeyLimits]?: KeyLimits[Name] | null };
}

/** How much an account, a key, a model or a combination of them may spend in a period, UTC. Null: all of them. */
export interface StoredBudget {
  readonly id: string;
  readonly account: string | null;
  /** Lineage: of a key and those that have replaced it. */
  readonly key: string | null;
  readonly model: string | null;
  readonly period: 'day' | 'week' | 'month';
  readonly limit: Pico;
  /** Spending from which on an alert is due; null: none. */
  readonly soft: Pico | null;
  readonly createdMs: number;
  readonly changedMs: number;
}

/** `key`: the id of any key of the lineage. */
export type NewBudget = Omit<StoredBudget, 'createdMs' | 'changedMs'>;

/** What a budget is for. */
export type BudgetScope = Pick<NewBudget, 'account' | 'key' | 'model' | 'period'>;

/** An alert that is given once. */
export interface BudgetAlert {
  readonly budget: string;
  readonly threshold: 'soft' | 'hard';
  /** Beginning of the period. */
  readonly startsMs: number;
}

/** Accounts whose spending is asked for by key and model, and models whose spending is asked for over all accounts. */
export interface SpendingQuery {
  readonly accounts: readonly string[];
  readonly models: readonly string[];
  /** First day, and the day after the last; null: up to now. */
  readonly from: string;
  readonly to: string | null;
}

export interface SpendingRow {
  /** Null in sums over all accounts. */
  readonly account: string | null;
  /** Lineage; '' without a key, and in sums over all accounts. */
  readonly key: string;
  readonly model: string;
  readonly amount: Pico;
}

/** Budgets in the store, and what they are compared with. */
export interface BudgetRecords {
  /** Sets the budget of an account, key or model and period. One that exists keeps its id, and its alerts are due again. */
  set(budget: NewBudget): Promise<StoredBudget>;
  remove(id: string): Promise<StoredBudget>;
  find(id: string): Promise<StoredBudget | undefined>;
  /** The one that `set` would change. */
  findFor(budget: BudgetScope): Promise<StoredBudget | undefined>;
  /** In order of ids; all of them, or a page behind the id `after`. */
  list(account?: string, page?: PageQuery): Promise<StoredBudget[]>;
  /** Records that an alert was given, and writes its event; false, without an event, when it was before, here or by another process. */
  noteAlert(alert: BudgetAlert, event: NewWebhookEvent): Promise<boolean>;
  /** What was spent, for budgets. */
  spending(query: SpendingQuery): Promise<SpendingRow[]>;
}

/** A change that invalidates caches. `all`: too many changes; invalidate everything. */
export type Change =
  | { readonly kind: 'key'; readonly hash: string }
  /** A budget was set or removed. */
  | { readonly kind: 'budget'; readonly budget: string }
  | { readonly kind: 'account'; readonly account: string }
  /** The holder `by` needs credit of the account that others have leased. */
  | { readonly kind: 'wanted'; readonly account: string; readonly by: string }
  | { readonly kind: 'all' };

export type MovementKind = 'grant' | 'payment' | 'adjustment' | 'refund' | 'expiry' | 'charge';

/** One amount that moved between an account and one of the operator: double entry without further rows. */
export interface Movement {
  /** Position in the history of its account; what `before` takes. */
  readonly seq: string;
  readonly id: string;
  readonly kind: MovementKind;
  readonly account: string;
  /** What the account gained: below zero for a charge. */
  readonly amount: Pico;
  readonly dateMs: number;
  readonly memo: string;
  readonly usage: Usage | null;
}

/** A part of a list. Default: all of it. */
export interface PageQuery {
  /** Cursor: the last entry of the page before. */
  readonly after?: string;
  readonly limit?: number;
}

export interface HistoryQuery {
  readonly account: string;
  /** Only movements before this one (`seq`); the newest when absent. */
  readonly before?: string;
  /** Default 50, at most 1,000. */
  readonly limit?: number;
}

export type UsageDimension = 'account' | 'key' | 'model' | 'day';

export interface UsageQuery {
  readonly account?: string;
  readonly key?: string;
  readonly model?: string;
  /** First and last day, `YYYY-MM-DD` in UTC, both included. */
  readonly fromDay?: string;
  readonly toDay?: string;
  /** One row for each combination of these; one row of totals when empty. */
  readonly by: readonly UsageDimension[];
  /** Only rows behind this one: its values of `by`, in that order. */
  readonly after?: readonly string[];
  /** Default: all rows. */
  readonly limit?: number;
}

/** Totals; a dimension that was not asked for is absent, and `key` is empty for charges without a key. */
export interface UsageRow {
  readonly account?: string;
  readonly key?: string;
  readonly model?: string;
  readonly day?: string;
  readonly requests: bigint;
  readonly estimated: bigint;
  readonly inputTokens: bigint;
  readonly cachedTokens: bigint;
  readonly outputTokens: bigint;
  readonly amount: Pico;
}

export interface AuditReport {
  readonly sound: boolean;
  /** Sum of all accounts, those of the operator included; zero. */
  readonly sum: bigint;
  /** Charges included. */
  readonly movements: bigint;
  readonly accounts: bigint;
  readonly openHolds: bigint;
  /** One sentence for each thing that does not add up. */
  readonly problems: readonly string[];
}

/** Writing calls reject with a `LedgerError`, or with the error of the database, after which a repeat is safe. */
export interface Ledger {
  /** Creates an empty account; one that exists stays as it is. */
  createAccount(account: { readonly id: string; readonly label?: string }): Promise<Account>;
  account(id: string): Promise<Account | undefined>;
  /** Changes all that is given at once, or refuses and changes nothing. */
  configureAccount(account: string, change: AccountChange): Promise<Account>;
  /** In order of ids; all of them, or a page behind the id `after`, or the members of an organisation. */
  listAccounts(query?: PageQuery & { readonly organisation?: string }): Promise<Account[]>;

  /** Credit that expires is spent before other credit, the grant that expires first before later ones. */
  grant(grant: Grant): Promise<Moved>;
  /** Refuses (`credit-short`) to take more than the account may still spend. */
  adjust(adjustment: Adjustment): Promise<Moved>;
  /** Answers with what was given back, also of a repeat. */
  refund(refund: Refund): Promise<Moved & { readonly amount: Pico }>;
  /** Grants of an account that expire and are not spent, the first to expire first. */
  openGrants(account: string): Promise<CreditGrant[]>;
  /** All of the amount or nothing. */
  hold(request: HoldRequest): Promise<HoldAnswer>;
  /** Charges what the work cost and gives the rest of the hold back. More than was held is taken from the balance. */
  settle(holdId: string, amount: Pico, usage: Usage): Promise<HoldSettlement>;
  /** Gives a hold or the rest of a lease back. False when it was closed before. */
  release(holdId: string): Promise<boolean>;
  /** Leases as much of the amount as the balance has; `short` when it has nothing. */
  lease(request: HoldRequest): Promise<HoldAnswer>;
  /**
   * Charges leases, and accounts that pay later, in as few commits as possible. Resolves with one outcome for each charge;
   * rejects when none was accepted. The bound on overdraft: a balance falls below zero only by what holders spend beyond a
   * lease or hold, and by what they spent of leases that expired before it was charged, at most the amount of each such
   * lease.
   */
  charge(charges: readonly Charge[]): Promise<readonly PromiseSettledResult<HoldSettlement>[]>;
  /**
   * Adds to an open lease as much of the amount as the balance has; answers with what was added. `operation` is larger than
   * that of every operation on the lease before. Not to be repeated: after an error nobody knows whether it counted.
   */
  extend(leaseId: string, operation: number, amount: Pico): Promise<HoldAnswer>;
  /** Takes back what a holder does not need of an open lease, at most what is left of it; answers with how much. */
  giveBack(leaseId: string, operation: number, amount: Pico): Promise<Pico>;
  /** Tells watchers that the holder `by` needs credit of the account that others have leased. */
  want(account: string, by: string): Promise<void>;
  /** Keeps what a holder has open for `ttlMs` from now on, by the database's clock; answers with it in order of ids. */
  renew(holder: string, ttlMs: number): Promise<OpenHold[]>;
  /**
   * Gives back holds and leases that have expired by the database's clock, which it reads anew; answers with how many. Takes back the unspent rest
   * of grants that expired: of what is on hold at that moment, what is released later is taken later.
   */
  expire(): Promise<number>;
  findHold(id: string): Promise<StoredHold | undefined>;

  /** Reserves the nonce, exactly once over all processes of this store. */
  reservePayment(request: PaymentRequest): Promise<ReserveAnswer>;
  /** Records that the facilitator is about to be asked. Refuses what is settled or failed. */
  submitPayment(id: string, request: string): Promise<void>;
  /** Posts the money and keeps the answer, in one commit. A failed payment that turns out paid is posted as well. */
  settlePayment(id: string, target: PaymentTarget, answer: string): Promise<{ readonly repeated: boolean }>;
  failPayment(id: string, reason: string): Promise<void>;
  /** Fails a payment as `expired` that was never submitted. False: it was, by another process, or has ended. */
  expirePayment(id: string): Promise<boolean>;
  findPayment(id: string): Promise<Payment | undefined>;
  /** Payments, those that changed last first. */
  listPayments(query: PaymentQuery): Promise<Payment[]>;
  /** Payments left in a state, oldest first: after a crash the submitted ones must be asked about. */
  paymentsIn(state: PaymentState, limit?: number): Promise<Payment[]>;

  createKey(key: NewKey): Promise<StoredKey>;
  /** The oldest first; all of them, or a page behind the key with the id `after`. */
  listKeys(account?: string, page?: PageQuery): Promise<StoredKey[]>;
  findKey(hash: string): Promise<StoredKey | undefined>;
  findKeyById(id: string): Promise<StoredKey | undefined>;
  /** Changes the limits, label or expiry of a key in place. */
  editKey(id: string, edit: KeyEdit): Promise<StoredKey>;
  /** Disables a key at once; one that is disabled stays so. */
  disableKey(id: string): Promise<StoredKey>;
  /**
   * A new key with the account, label, limits and lineage of the old one, which stays valid for `graceMs`. Without a date of its own it
   * expires when the newest key of its chain does. Refuses one that would have expired before now (`date-invalid`), and any of a disabled
   * key (`key-disabled`).
   */
  rotateKey(id: string, successor: Successor, graceMs: number): Promise<Rotation>;

  readonly requests: RequestRecords;
  readonly adminActs: AdminActs;
  readonly webhooks: WebhookRecords;
  readonly budgets: BudgetRecords;
  readonly responses: ResponseRecords;

  history(query: HistoryQuery): Promise<Movement[]>;
  usage(query: UsageQuery): Promise<UsageRow[]>;
  /** With `full`, days that were audited before are read again. */
  audit(options?: { readonly full?: boolean }): Promise<AuditReport>;
  /** Removes closed leases, and charges of whole months before the date that an audit found sound; null keeps all charges. */
  prune(chargesBeforeMs: number | null): Promise<Pruned>;
  /** Copies the store into a new file while it is in use. Refuses (`backup-unsupported`) what is not a SQLite file. */
  backUp(file: string): Promise<void>;
  /** Calls back for changes made here or by another process, within about a second. Resolves with a function that stops it. */
  watch(onChange: (change: Change) => void): Promise<() => void>;
  /**
   * The date by which the store dates and ends things, in milliseconds since 1970: of the database where that is PostgreSQL, as last read
   * at the opening or in `expire`.
   */
  dateMs(): number;
  /** Commits what waits, then closes the database. */
  close(): Promise<void>;
}
