// Limits of one thread's requests: running requests, requests and tokens per minute of a key, and the money of budgets. All that a
// request may take is reserved before it runs and replaced by what it has taken when it is over, exactly once.

import { printUsd } from '../money.ts';
import { type Budget, type BudgetChange, type BudgetScope, Periods, startOf } from './budgets.ts';
import { type KeyBounds, type LimitCell, type LimitMemory, LimitTable, type SliceUse } from './limit-table.ts';
import type { SliceNeed } from './slice-client.ts';

/** Limits of a key, and its place in the shared memory. */
export interface KeyAllowance extends KeyBounds {
  /** Null: there was no free cell; the key is refused. */
  readonly cell: LimitCell | null;
}

/** Whose request it is. */
export interface LimitedPayer {
  readonly account: string;
  /** Id of the first key in a chain of rotations; null without one. */
  readonly lineage: string | null;
  /** Null: the key has no limits of its own. */
  readonly allowance: KeyAllowance | null;
}

/**
 * What a request may take. It is served when there is at least `least`; `most` is a sure upper bound. Amounts in pico-USD; tokens of
 * prompt and output together, 0 for a call that is not counted in tokens.
 */
export interface RequestBound {
  readonly least: number;
  /** 0: the request is free. */
  readonly most: number;
  readonly leastTokens: number;
  readonly mostTokens: number;
}

/** What was reserved. A request must not take more. */
export class LimitReservation {
  readonly kind = 'reserved';
  /** Infinity: tokens are not limited. */
  tokens = Infinity;
  /** Pico-USD. Infinity: no budget applies. */
  amount = Infinity;
  /** @internal */
  allowance: KeyAllowance | null = null;
  /** @internal */
  bucket = 0;
  /** @internal */
  budgets: readonly Budget[] = NO_BUDGETS;
  /** What is left of the key's limits, for the headers of the answer. */
  remainingRequests = 0;
  remainingTokens = 0;
}

/** The limit that a request has reached. */
export type Exceeded =
  | {
      /** `running`, `requests` and `tokens`: the request is admitted later. `size`: one request exceeds the tokens of a minute. */
      readonly kind: 'running' | 'requests' | 'tokens' | 'size';
      readonly allowance: KeyAllowance;
      readonly limit: number;
      /** Time until the same request is admitted, if no other is. 0: nobody knows. */
      readonly retryMs: number;
      /** Time until all that was counted has left the window. */
      readonly resetMs: number;
      readonly remainingRequests: number;
      readonly remainingTokens: number;
    }
  /** `spent`: the budget is used up until `endsMs`. `held`: requests under way hold what is left. */
  | { readonly kind: 'spent' | 'held'; readonly budget: Budget; readonly endsMs: number }
  /** The gateway has more limited keys or budgets than it can count for. */
  | { readonly kind: 'capacity' };

/** The slices of this process do not reach: the request waits for more (`SliceClient.wait`), and is admitted anew. */
export interface NeedsSlice {
  readonly kind: 'slice';
}

const NEEDS_SLICE: NeedsSlice = { kind: 'slice' };

/** One limit of a payer, with what is left of it. Counts; of a budget USD as decimals. */
export interface LimitState {
  readonly kind: 'running' | 'requests' | 'tokens' | 'budget';
  /** Null: at any moment. */
  readonly per: string | null;
  /** Model of a budget; null: all of them. */
  readonly model: string | null;
  readonly limit: number | string;
  readonly remaining: number | string;
  /** End of a budget's period; null: a sliding window. */
  readonly resets_at: string | null;
}

const NO_BUDGETS: readonly Budget[] = [];

/** Of requests that nothing limits; shared by all of them. */
const UNLIMITED: LimitReservation = Object.freeze(new LimitReservation());

/** Combinations of account, key and model whose budgets are remembered; then the memory begins anew. */
const MAX_REMEMBERED = 50_000;

type ByModel = Map<string, readonly Budget[]>;

export class KeyLimiter {
  readonly #table: LimitTable;
  readonly #onLow: (kind: 'key' | 'budget', cell: number) => void;
  readonly #periods = new Periods();
  readonly #budgets = new Map<string, Budget>();
  /** Ids of budgets by what they are for: the key, or else the account, or else the model. */
  readonly #index = new Map<string, Set<string>>();
  /** Budgets by account, lineage ('' without) and model, as far as they were asked for. */
  readonly #found = new Map<string, Map<string, ByModel>>();
  #remembered = 0;

  /** `thread`: the row of the memory that this limiter writes. `onLow`: little is left of the slice of a key or budget. */
  constructor(memory: LimitMemory, thread: number, onLow: (kind: 'key' | 'budget', cell: number) => void = ignore) {
    this.#table = new LimitTable(memory, thread);
    this.#onLow = onLow;
  }

  /** Takes over a change of the budgets. Requests under way keep what they have reserved. */
  updateBudgets({ drop, put, reset }: BudgetChange): void {
    if (reset) {
      this.#budgets.clear();
      this.#index.clear();
    }
    for (const id of drop) this.#unindex(id);
    for (const budget of put) {
      this.#unindex(budget.id);
      this.#budgets.set(budget.id, budget);
      const place = placeOf(budget);
      const ids = this.#index.get(place);
      if (ids === undefined) this.#index.set(place, new Set([budget.id]));
      else ids.add(budget.id);
    }
    this.#found.clear();
    this.#remembered = 0;
  }

  /** Reserves what a request may take. `model`: its configured id, empty for what is no model. */
  admit(
    payer: LimitedPayer,
    model: string,
    bound: RequestBound,
    nowMs: number,
    use: SliceUse = 'direct',
  ): LimitReservation | Exceeded | NeedsSlice {
    const { allowance } = payer;
    const budgets = bound.most > 0 ? this.budgetsOf(payer, model) : NO_BUDGETS;
    if (allowance === null && budgets.length === 0) return UNLIMITED;
    const reservation = new LimitReservation();
    if (allowance !== null) {
      const exceeded = this.#admitKey(reservation, allowance, bound, nowMs, use);
      if (exceeded !== null) return exceeded;
    }
    if (budgets.length > 0) {
      const exceeded = this.#admitBudgets(reservation, budgets, bound, nowMs, use);
      if (exceeded !== null) {
        if (allowance?.cell != null) {
          this.#table.withdrawKey(allowance.cell, reservation.bucket, reservation.tokens, allowance.isPart);
        }
        return exceeded;
      }
    }
    return reservation;
  }

  /** What slices must have for a request that they do not reach for. */
  needOf(
    payer: LimitedPayer,
    model: string,
    { least, leastTokens, most, mostTokens }: RequestBound,
    nowMs: number,
  ): SliceNeed {
    const { allowance } = payer;
    const budgets = most > 0 ? this.budgetsOf(payer, model) : NO_BUDGETS;
    const { tokensPerMinute } = allowance ?? {};
    return {
      key:
        allowance?.cell == null
          ? null
          : {
              cell: allowance.cell.index,
              requests: allowance.isPart === true ? 0 : 1,
              tokens: tokensPerMinute === undefined ? 0 : Math.min(Math.ceil(mostTokens), tokensPerMinute),
              leastTokens:
                tokensPerMinute === undefined ? 0 : LimitTable.floor(tokensPerMinute, leastTokens, mostTokens),
            },
      budgets: budgets.flatMap(({ cell, limit, period }) => {
        if (cell === null) return [];
        const isLast = this.#table.spent(cell, this.#periods.of(period, nowMs)) + most > limit;
        return [{ cell: cell.index, amount: most, least: isLast ? least : most }];
      }),
    };
  }

  /** Gives back the money of budgets that a request turns out not to need, before it runs. */
  lower(reservation: LimitReservation, amount: number): void {
    const { budgets } = reservation;
    if (reservation.amount === Infinity || amount >= reservation.amount) return;
    this.#releaseBudgets(budgets, budgets.length, reservation.amount - amount);
    reservation.amount = amount;
  }

  /** Gives back the tokens that a request has not taken, before its reservation ends. */
  lowerTokens(reservation: LimitReservation, tokens: number): void {
    const { allowance, bucket } = reservation;
    if (allowance?.cell == null || reservation.tokens === Infinity || tokens >= reservation.tokens) return;
    this.#table.lowerTokens(allowance.cell, bucket, reservation.tokens - tokens);
    reservation.tokens = tokens;
  }

  /** A request runs no more, before its reservation ends: others may have its place. */
  leave(reservation: LimitReservation): void {
    const { allowance, bucket } = reservation;
    if (allowance?.cell == null || allowance.isPart === true) return;
    this.#table.settleKey(allowance.cell, bucket, Infinity, 0);
    reservation.allowance = { ...allowance, isPart: true };
  }

  /**
   * Ends a reservation with what the request has taken; to be called exactly once. Money counts for the budgets of the moment, which
   * may have changed since.
   */
  settle(
    reservation: LimitReservation,
    payer: LimitedPayer,
    model: string,
    tokens: number,
    amount: number,
    nowMs: number,
  ): void {
    if (reservation === UNLIMITED && this.#budgets.size === 0) return;
    this.#settleKey(reservation, tokens);
    if (amount > 0) for (const budget of this.budgetsOf(payer, model)) this.#spend(budget, amount, nowMs);
    if (reservation.budgets.length > 0) {
      this.#releaseBudgets(reservation.budgets, reservation.budgets.length, reservation.amount);
    }
  }

  /** The budgets that a request counts for. */
  budgetsOf({ account, lineage }: LimitedPayer, model: string): readonly Budget[] {
    if (this.#budgets.size === 0) return NO_BUDGETS;
    let byKey = this.#found.get(account);
    if (byKey === undefined) this.#found.set(account, (byKey = new Map<string, ByModel>()));
    let byModel = byKey.get(lineage ?? '');
    if (byModel === undefined) byKey.set(lineage ?? '', (byModel = new Map()));
    const known = byModel.get(model);
    if (known !== undefined) return known;
    const scope = { account, key: lineage, model };
    const places = [`key ${lineage}`, `account ${account}`, `model ${model}`];
    const ids = places.flatMap((place) => [...(this.#index.get(place) ?? [])]);
    const found = ids.map((id) => this.#budgets.get(id) as Budget).filter((budget) => applies(budget, scope));
    const budgets = found.length === 0 ? NO_BUDGETS : found;
    if (++this.#remembered > MAX_REMEMBERED) {
      this.#found.clear();
      this.#remembered = 0;
    } else {
      byModel.set(model, budgets);
    }
    return budgets;
  }

  /** What is left of the limits that apply to a payer. A budget of one model names it. */
  stateOf({ account, allowance, lineage }: LimitedPayer, nowMs: number): LimitState[] {
    const states: LimitState[] = [];
    if (allowance?.cell != null) {
      const { requestsPerMinute, runningRequests, tokensPerMinute } = allowance;
      const table = this.#table;
      table.readKey(allowance.cell, allowance, nowMs);
      const window = { per: 'minute', model: null, resets_at: null };
      if (runningRequests !== undefined) {
        const remaining = Math.max(runningRequests - table.running, 0);
        states.push({ kind: 'running', ...window, per: null, limit: runningRequests, remaining });
      }
      if (requestsPerMinute !== undefined) {
        states.push({ kind: 'requests', ...window, limit: requestsPerMinute, remaining: table.remainingRequests });
      }
      if (tokensPerMinute !== undefined) {
        states.push({ kind: 'tokens', ...window, limit: tokensPerMinute, remaining: table.remainingTokens });
      }
    }
    for (const budget of this.#budgets.values()) {
      const { cell, limit, model, period } = budget;
      if (cell === null || !applies({ ...budget, model: null }, { account, key: lineage, model: null })) continue;
      const number = this.#periods.of(period, nowMs);
      const left = Math.max(limit - this.#table.spent(cell, number), 0);
      const resets = new Date(startOf(period, number + 1)).toISOString();
      const amounts = { limit: printUsd(BigInt(Math.floor(limit))), remaining: printUsd(BigInt(Math.floor(left))) };
      states.push({ kind: 'budget', per: period, model, ...amounts, resets_at: resets });
    }
    return states;
  }

  #unindex(id: string): void {
    const budget = this.#budgets.get(id);
    if (budget === undefined) return;
    this.#budgets.delete(id);
    const place = placeOf(budget);
    const ids = this.#index.get(place);
    ids?.delete(id);
    if (ids?.size === 0) this.#index.delete(place);
  }

  #admitKey(
    reservation: LimitReservation,
    allowance: KeyAllowance,
    { leastTokens, mostTokens }: RequestBound,
    nowMs: number,
    use: SliceUse,
  ): Exceeded | NeedsSlice | null {
    const { cell } = allowance;
    if (cell === null) return { kind: 'capacity' };
    const table = this.#table;
    const kind = table.admitKey(cell, allowance, leastTokens, mostTokens, nowMs, use);
    const { remainingRequests, remainingTokens } = table;
    if (kind === 'slice') return NEEDS_SLICE;
    if (table.takeRefill()) this.#onLow('key', cell.index);
    if (kind !== 'admitted') {
      const limits = {
        running: allowance.runningRequests,
        requests: allowance.requestsPerMinute,
        tokens: allowance.tokensPerMinute,
        size: allowance.tokensPerMinute,
      };
      const { resetMs, retryMs } = table;
      return { kind, allowance, limit: limits[kind] ?? 0, retryMs, resetMs, remainingRequests, remainingTokens };
    }
    reservation.allowance = allowance;
    reservation.bucket = table.bucket;
    reservation.tokens = table.tokens;
    reservation.remainingRequests = remainingRequests;
    reservation.remainingTokens = remainingTokens;
    return null;
  }

  #admitBudgets(
    reservation: LimitReservation,
    budgets: readonly Budget[],
    { least, most }: RequestBound,
    nowMs: number,
    use: SliceUse,
  ): Exceeded | NeedsSlice | null {
    let amount = most;
    for (let at = 0; at < budgets.length; at++) {
      const budget = budgets[at] as Budget;
      const { cell, limit, period } = budget;
      const number = this.#periods.of(period, nowMs);
      const kind = cell === null ? 'capacity' : this.#table.admitBudget(cell, limit, least, amount, number, nowMs, use);
      if (cell !== null && this.#table.takeRefill()) this.#onLow('budget', cell.index);
      if (kind !== 'admitted') {
        this.#releaseBudgets(budgets, at, amount);
        if (cell === null || kind === 'capacity') return { kind: 'capacity' };
        if (kind === 'slice') return NEEDS_SLICE;
        if (kind === 'spent') this.#table.cross(cell, 'hard', number);
        return { kind, budget, endsMs: startOf(period, number + 1) };
      }
      const lowered = amount - this.#table.amount;
      if (lowered > 0) this.#releaseBudgets(budgets, at, lowered);
      amount = this.#table.amount;
    }
    reservation.budgets = budgets;
    reservation.amount = amount;
    return null;
  }

  #settleKey({ allowance, bucket, tokens }: LimitReservation, used: number): void {
    if (allowance?.cell != null) this.#table.settleKey(allowance.cell, bucket, tokens, used, allowance.isPart);
  }

  #spend({ cell, limit, period, soft }: Budget, amount: number, nowMs: number): void {
    if (cell === null) return;
    const number = this.#periods.of(period, nowMs);
    const table = this.#table;
    const isBelowSoft = soft !== null && table.isBelow(cell, 'soft', number);
    const isBelowHard = table.isBelow(cell, 'hard', number);
    const spent = table.spendBudget(cell, amount, number, isBelowSoft || isBelowHard);
    if (isBelowSoft && spent >= soft) table.cross(cell, 'soft', number);
    if (isBelowHard && spent >= limit) table.cross(cell, 'hard', number);
  }

  /** Takes an amount off the first `count` of the budgets. */
  #releaseBudgets(budgets: readonly Budget[], count: number, amount: number): void {
    for (let at = 0; at < count; at++) {
      const { cell } = budgets[at] as Budget;
      if (cell !== null) this.#table.releaseBudget(cell, amount);
    }
  }
}

function ignore(): void {
  // Slices are never low where there are none.
}

/** Where a budget is indexed: by the narrowest part of its scope. */
function placeOf({ account, key, model }: BudgetScope): string {
  return key !== null ? `key ${key}` : account !== null ? `account ${account}` : `model ${model}`;
}

/** Whether a budget is for this combination. */
function applies(budget: BudgetScope, { account, key, model }: BudgetScope): boolean {
  return (
    (budget.account === null || budget.account === account) &&
    (budget.key === null || budget.key === key) &&
    (budget.model === null || budget.model === model)
  );
}
