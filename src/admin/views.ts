// Views of accounts, keys, movements and usage: the shape behind JSON over the admin listener, `--format json`, CSV and tables.
// Money is exact decimal strings, dates are ISO 8601 in UTC. No view holds a key or its hash, except that of a key just
// created, which is the only time the key is shown.

import {
  type Account,
  type AuditReport,
  type Movement,
  type StoredKey,
  type UsageRow,
  printCredits,
  printUsd,
} from '../billing/index.ts';

export interface AccountView {
  readonly id: string;
  readonly label: string;
  /** What may still be spent; below zero when more was. */
  readonly balance_usd: string;
  readonly balance_credits: string;
  /** What requests under way hold. */
  readonly held_usd: string;
  readonly created_at: string;
}

export interface KeyView {
  readonly id: string;
  /** First characters of the key. */
  readonly prefix: string;
  readonly account: string;
  readonly label: string;
  readonly state: 'active' | 'expired' | 'disabled';
  /** Requests and tokens a minute, USD a month; null: no limit. */
  readonly rpm: number | null;
  readonly tpm: number | null;
  readonly monthly_usd: string | null;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly disabled_at: string | null;
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

export function accountView({ id, label, balance, held, createdMs }: Account): AccountView {
  return {
    id,
    label,
    balance_usd: printUsd(balance),
    balance_credits: printCredits(balance),
    held_usd: printUsd(held),
    created_at: dateOf(createdMs),
  };
}

export function keyView(key: StoredKey, nowMs: number): KeyView {
  const { account, createdMs, disabledMs, expiresMs, id, label, limits, prefix } = key;
  const isExpired = expiresMs !== null && expiresMs <= nowMs;
  return {
    id,
    prefix,
    account,
    label,
    state: disabledMs !== null ? 'disabled' : isExpired ? 'expired' : 'active',
    rpm: limits.requestsPerMinute ?? null,
    tpm: limits.tokensPerMinute ?? null,
    monthly_usd: limits.monthlySpend === undefined ? null : printUsd(BigInt(limits.monthlySpend)),
    created_at: dateOf(createdMs),
    expires_at: expiresMs === null ? null : dateOf(expiresMs),
    disabled_at: disabledMs === null ? null : dateOf(disabledMs),
  };
}

export function movementView(movement: Movement): MovementView {
  const { account, amount, dateMs, id, kind, memo, seq, usage } = movement;
  return {
    seq: seq.toString(),
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
