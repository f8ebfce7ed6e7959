// Views of accounts, keys, movements and usage: the shape behind JSON over the admin listener, `--format json`, CSV and tables.
// Money is exact decimal strings, dates are ISO 8601 in UTC. No view holds a key or its hash, except that of a key just
// created, which is the only time the key is shown.

import {
  type Account,
  type AdminAct,
  type AuditReport,
  type CreditGrant,
  type Movement,
  type Pico,
  type Payment,
  type RequestDocument,
  type RequestRecord,
  type StoredBudget,
  type StoredKey,
  type UsageRow,
  type WebhookDelivery,
  periodOf,
  printCredits,
  printUsd,
  startOf,
} from '../billing/index.ts';
import { answerOf, PURCHASE, submissionOf, requestDocument } from '../billing/main-thread.ts';

export interface AccountView {
  readonly id: string;
  readonly label: string;
  /** What may still be spent; below zero when more was. */
  readonly balance_usd: string;
  readonly balance_credits: string;
  /** What requests under way hold. */
  readonly held_usd: string;
  /** Account whose credit is spent in place of this one's; null: its own. */
  readonly organisation: string | null;
  /** How far below zero the balance may go. */
  readonly credit_limit_usd: string;
  /** What of the credit expires. */
  readonly expiring_usd: string;
  /** The event `credit.low` comes below it; null: the default of the gateway. */
  readonly low_balance_usd: string | null;
  readonly created_at: string;
}

export interface KeyView {
  readonly id: string;
  /** First characters of the key. */
  readonly prefix: string;
  readonly account: string;
  readonly label: string;
  readonly state: 'active' | 'expired' | 'disabled';
  /** Requests at the same time, requests and tokens a minute, USD a month; null: no limit. */
  readonly running: number | null;
  readonly rpm: number | null;
  readonly tpm: number | null;
  readonly monthly_usd: string | null;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly disabled_at: string | null;
  /** Id of the first key in its chain of rotations, whose budget it shares. */
  readonly lineage: string;
}

/** What an account, a key, a model or a combination of them may spend in a period. */
export interface BudgetView {
  readonly id: string;
  /** Null: all of them. */
  readonly account: string | null;
  /** Id of the first key in a chain of rotations. */
  readonly key: string | null;
  readonly model: string | null;
  readonly period: string;
  readonly limit_usd: string;
  /** Spending from which on an alert is due; null: none. */
  readonly alert_usd: string | null;
  /** In the present period, as far as it is in the ledger. */
  readonly spent_usd: string;
  readonly starts_at: string;
  readonly ends_at: string;
}

/** A new key; the key itself is shown only here. */
export interface NewKeyView extends KeyView {
  readonly key: string;
}

export interface RotationView extends NewKeyView {
  /** The old key and when it ends. */
  readonly replaces: string;
  readonly replaced_until: string | null;
}

export interface GrantView {
  readonly id: string;
  readonly account: string;
  readonly amount_usd: string;
  readonly amount_credits: string;
  /** The id was known: nothing moved. */
  readonly repeated: boolean;
  readonly balance_usd: string;
  readonly balance_credits: string;
}

/** Credit that expires, with what is unspent of it. */
export interface OpenGrantView {
  readonly id: string;
  readonly account: string;
  readonly amount_usd: string;
  readonly remaining_usd: string;
  readonly expires_at: string;
}

/** One request of a client: what it used and cost. */
export interface RequestView extends RequestDocument {
  readonly account: string;
  readonly key: string | null;
}

/** One act of an operator. */
export interface ActView {
  readonly seq: string;
  readonly id: string;
  readonly date: string;
  readonly actor: string;
  readonly role: string;
  readonly via: string;
  readonly action: string;
  readonly subject: string;
  readonly request: object;
  readonly before: object | null;
  readonly outcome: string;
  readonly after: object | null;
}

export interface DeliveryView {
  readonly message: string;
  readonly endpoint: string;
  readonly type: string;
  readonly account: string;
  readonly date: string;
  readonly state: string;
  readonly attempts: number;
  readonly due_at: string;
  readonly result: string;
  readonly data: object;
}

export interface MovementView {
  /** What `before` of the next question takes. */
  readonly seq: string;
  readonly date: string;
  readonly kind: string;
  readonly id: string;
  readonly account: string;
  readonly amount_usd: string;
  readonly amount_credits: string;
  readonly memo: string;
  /** Null where nothing was used. */
  readonly usage: UsedView | null;
}

export interface UsedView {
  readonly key: string | null;
  readonly model: string;
  readonly requests: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly measured: boolean;
}

/** Totals; only the dimensions that were asked for. */
export interface UsageView {
  readonly account?: string;
  /** Empty for charges without a key. */
  readonly key?: string;
  readonly model?: string;
  readonly day?: string;
  readonly requests: number;
  /** Requests whose charge rests on an estimate. */
  readonly estimated: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly amount_usd: string;
  readonly amount_credits: string;
}

/** A payment by x402. */
export interface PaymentView {
  readonly id: string;
  /** `submitted`: the outcome is not known. */
  readonly state: 'reserved' | 'submitted' | 'settled' | 'failed';
  readonly kind: 'purchase' | 'request';
  /** Who gets the money as credit, unless work is delivered for it. */
  readonly account: string;
  readonly payer: string;
  readonly network: string;
  /** Address of the token. */
  readonly asset: string;
  readonly nonce: string;
  readonly amount_usd: string;
  readonly amount_credits: string;
  /** The transaction that has moved the money, or that is said to. */
  readonly transaction: string | null;
  /** Whether the money became credit; null unless it is settled. */
  readonly credited: boolean | null;
  /** Why it failed. */
  readonly reason: string | null;
  /** When the facilitator was first asked to settle it. */
  readonly sent_at: string | null;
  readonly changed_at: string;
  /** End of the signature's validity: the money cannot move later. */
  readonly valid_until: string;
}

export interface AuditView {
  readonly sound: boolean;
  /** Of all entries ever. */
  readonly sum_usd: string;
  readonly movements: number;
  readonly accounts: number;
  readonly open_holds: number;
  readonly problems: readonly string[];
}

function dateOf(dateMs: number): string {
  return new Date(dateMs).toISOString();
}

export function accountView(account: Account): AccountView {
  const { balance, createdMs, creditLimit, expiring, held, id, label, lowBalance, organisation } = account;
  return {
    id,
    label,
    balance_usd: printUsd(balance),
    balance_credits: printCredits(balance),
    held_usd: printUsd(held),
    organisation,
    credit_limit_usd: printUsd(creditLimit),
    expiring_usd: printUsd(expiring),
    low_balance_usd: lowBalance === null ? null : printUsd(lowBalance),
    created_at: dateOf(createdMs),
  };
}

export function openGrantView({ account, amount, expiresMs, id, remaining }: CreditGrant): OpenGrantView {
  const money = { amount_usd: printUsd(amount), remaining_usd: printUsd(remaining) };
  return { id, account, ...money, expires_at: dateOf(expiresMs) };
}

export function requestView(record: RequestRecord): RequestView {
  const { date, id, request_id, ...rest } = requestDocument(record);
  return { id, date, request_id, account: record.account, key: record.key, ...rest };
}

export function actView(act: AdminAct): ActView {
  const { action, actor, after, before, dateMs, id, outcome, request, seq, subject } = act;
  const { name, role, via } = actor;
  const when = { seq: seq.toString(), id, date: dateOf(dateMs) };
  return { ...when, actor: name, role, via, action, subject, request, before, outcome, after };
}

export function deliveryView(delivery: WebhookDelivery): DeliveryView {
  const { account, attempts, data, dateMs, dueMs, endpoint, message, result, state, type } = delivery;
  const what = { message, endpoint, type, account, date: dateOf(dateMs) };
  return { ...what, state, attempts, due_at: dateOf(dueMs), result, data };
}

export function keyView(key: StoredKey, nowMs: number): KeyView {
  const { account, createdMs, disabledMs, expiresMs, id, label, limits, lineage, prefix } = key;
  const isExpired = expiresMs !== null && expiresMs <= nowMs;
  return {
    id,
    prefix,
    account,
    label,
    state: disabledMs !== null ? 'disabled' : isExpired ? 'expired' : 'active',
    running: limits.runningRequests ?? null,
    rpm: limits.requestsPerMinute ?? null,
    tpm: limits.tokensPerMinute ?? null,
    monthly_usd: limits.monthlySpend === undefined ? null : printUsd(BigInt(limits.monthlySpend)),
    created_at: dateOf(createdMs),
    expires_at: expiresMs === null ? null : dateOf(expiresMs),
    disabled_at: disabledMs === null ? null : dateOf(disabledMs),
    lineage,
  };
}

export function budgetView(budget: StoredBudget, spent: Pico, nowMs: number): BudgetView {
  const { account, id, key, limit, model, period, soft } = budget;
  const number = periodOf(period, nowMs);
  return {
    ...{ id, account, key, model, period },
    limit_usd: printUsd(limit),
    alert_usd: soft === null ? null : printUsd(soft),
    spent_usd: printUsd(spent),
    starts_at: dateOf(startOf(period, number)),
    ends_at: dateOf(startOf(period, number + 1)),
  };
}

export function movementView(movement: Movement): MovementView {
  const { account, amount, dateMs, id, kind, memo, seq, usage } = movement;
  return {
    seq,
    date: dateOf(dateMs),
    kind,
    id,
    account,
    amount_usd: printUsd(amount),
    amount_credits: printCredits(amount),
    memo,
    usage:
      usage === null
        ? null
        : {
            key: usage.key,
            model: usage.model,
            requests: usage.requests ?? 1,
            input_tokens: usage.inputTokens,
            cached_tokens: usage.cachedTokens,
            output_tokens: usage.outputTokens,
            measured: usage.measured,
          },
  };
}

export function usageView(row: UsageRow): UsageView {
  const { amount, cachedTokens, estimated, inputTokens, outputTokens, requests, ...dimensions } = row;
  return {
    ...dimensions,
    requests: Number(requests),
    estimated: Number(estimated),
    input_tokens: Number(inputTokens),
    cached_tokens: Number(cachedTokens),
    output_tokens: Number(outputTokens),
    amount_usd: printUsd(amount),
    amount_credits: printCredits(amount),
  };
}

export function paymentView(payment: Payment): PaymentView {
  const { amount, answer, asset, changedMs, id, network, nonce, payer, purpose, state, validUntilMs } = payment;
  const submission = submissionOf(payment);
  const settled = answerOf(payment);
  const isPurchase = purpose.startsWith(PURCHASE);
  return {
    id,
    state,
    kind: isPurchase ? 'purchase' : 'request',
    account: submission?.account ?? (isPurchase ? purpose.slice(PURCHASE.length) : payer),
    payer,
    network,
    asset,
    nonce,
    amount_usd: printUsd(amount),
    amount_credits: printCredits(amount),
    transaction: settled?.receipt.transaction ?? submission?.transaction ?? null,
    credited: settled?.credited ?? null,
    reason: state === 'failed' ? answer : null,
    sent_at: submission?.sentMs === undefined ? null : dateOf(submission.sentMs),
    changed_at: dateOf(changedMs),
    valid_until: dateOf(validUntilMs),
  };
}

export function auditView(report: AuditReport): AuditView {
  return {
    sound: report.sound,
    sum_usd: printUsd(report.sum),
    movements: Number(report.movements),
    accounts: Number(report.accounts),
    open_holds: Number(report.openHolds),
    problems: report.problems,
  };
}

/** What is stored of an account. */
export interface ResponsesView {
  readonly account: string;
  readonly responses: number;
  readonly bytes: number;
  /** Those that run in the background; a gateway that runs one stops it within seconds when it is removed. */
  readonly running: number;
}
