// A key or a budget whose limit gateways share, as `slice-manager.ts` sees it: what is counted in the limit table, the quota of this
// process, and the requests that wait for more.

import { createHash } from 'node:crypto';
import { type Budget, periodOf } from './budgets.ts';
import { BUCKET_MS, type LimitCell, type LimitTable, MAX_HOLD_MS, MAX_TOKENS, type WindowPart } from './limit-table.ts';
import type { SliceGrant } from './slice-store.ts';

/** Resources of a key. A budget has one, money. */
export const RUNNING = 0;
export const REQUESTS = 1;
const TOKENS = 2;

const HOLD_RUNNING_MS = 20;

/** A request that waits until slices have what it needs. */
export interface SliceWaiter {
  readonly thread: number;
  readonly id: number;
  readonly sinceMs: number;
  readonly deadlineMs: number;
  readonly units: SliceUnit[];
  /** Units that have not granted what it needs. */
  missing: number;
  isOver: boolean;
}

/** What a waiting request needs of one key or budget. */
export interface QueuedNeed {
  /** By resource. */
  readonly most: readonly number[];
  readonly least: readonly number[];
}

/** A key or a budget. Lists are by resource. */
export abstract class SliceUnit {
  abstract readonly kind: 'key' | 'budget';
  readonly cell: LimitCell;
  /** What named it in its last claim. */
  id = '';
  /** `whole`: the limit belongs to this process. `closed`: every request waits. `open`: requests are admitted within the quota. */
  state: 'whole' | 'closed' | 'open' = 'whole';
  limits: readonly number[];
  quota: number[];
  /** What a slice should be, and what it was at the last answer. */
  readonly desired: number[];
  readonly slack: number[];
  /** In order of arrival. */
  readonly queue = new Map<SliceWaiter, QueuedNeed>();
  /** What requests take that were told to go on, and may not have done so; and what was counted when the first of them was told. */
  promised: { readonly untilMs: number; readonly amounts: readonly number[] }[] = [];
  counted = 0;
  isUnderWay = false;
  isUrgent = false;
  answeredMs = 0;
  activeMs = 0;
  dueMs = Infinity;
  contendedUntilMs = 0;
  recalledMs = -Infinity;
  /** Largest amount of the last resource that a request has waited for. */
  largest = 0;
  grant: SliceGrant | null = null;

  constructor(cell: LimitCell, limits: readonly number[]) {
    this.cell = cell;
    this.limits = limits;
    this.quota = limits.map(() => 0);
    this.desired = limits.map(() => 0);
    this.slack = limits.map(() => 0);
  }

  /** What names it to siblings. */
  abstract idAt(epochMs: number): string;
  abstract used(epochMs: number): number[];
  /** Whether requests have come since the last call. */
  abstract wasActive(epochMs: number): boolean;
  /** Whether it may be given up: nothing has to be renewed. */
  abstract canRest(used: readonly number[]): boolean;
  abstract parts(epochMs: number): WindowPart[];
  abstract get ledger(): number;
  abstract free(): void;
  abstract close(): void;
  abstract lower(quota: readonly number[]): void;
  abstract open(validBucket: number, grant: SliceGrant, low: readonly number[]): void;
  abstract setQueued(isQueued: boolean): void;
  abstract refuse(resource: number, first: number, nowMs: number): void;
}

export class KeyUnit extends SliceUnit {
  readonly kind = 'key';
  readonly #table: LimitTable;
  readonly #lineage: string;
  #id: string | null = null;
  #mark = 0;
  #marked = 0;

  constructor(table: LimitTable, lineage: string, cell: LimitCell, limits: readonly number[]) {
    super(cell, limits);
    this.#table = table;
    this.#lineage = lineage;
  }

  get ledger(): number {
    return 0;
  }

  idAt(): string {
    this.#id ??= idOf(`key ${this.#lineage}`);
    return this.#id;
  }

  used(epochMs: number): number[] {
    return this.#table.countKey(this.cell, epochMs);
  }

  wasActive(epochMs: number): boolean {
    const isActive = this.#table.countSince(this.cell, this.#mark) > this.#marked;
    this.#mark = Math.floor(epochMs / BUCKET_MS);
    this.#marked = this.#table.countSince(this.cell, this.#mark);
    return isActive;
  }

  canRest(used: readonly number[]): boolean {
    return used[RUNNING] === 0;
  }

  parts(epochMs: number): WindowPart[] {
    return this.#table.windowOf(this.cell, epochMs);
  }

  free(): void {
    this.#table.freeKey(this.cell);
  }

  close(): void {
    this.#table.closeKey(this.cell);
  }

  lower(quota: readonly number[]): void {
    this.#table.lowerKey(this.cell, quota);
  }

  open(validBucket: number, { others, quota }: SliceGrant, low: readonly number[]): void {
    const bounded = quota.map((amount) => Math.min(amount, MAX_TOKENS));
    this.#table.openKey(this.cell, {
      validBucket,
      quota: bounded,
      others: others.map((amount) => Math.min(amount, MAX_TOKENS)),
      low,
    });
  }

  setQueued(isQueued: boolean): void {
    this.#table.queueKey(this.cell, isQueued);
  }

  refuse(resource: number, first: number, nowMs: number): void {
    const { resetMs = 0, retryMs = 0 } = this.grant ?? {};
    const longest = resource === RUNNING ? HOLD_RUNNING_MS : MAX_HOLD_MS;
    const holdMs = resource === RUNNING || retryMs === 0 ? longest : Math.min(longest, retryMs);
    this.#table.refuseKey(this.cell, resource, resource === TOKENS ? first : 0, {
      ...{ nowMs, holdMs, resetMs },
      retryMs: resource === RUNNING ? 0 : retryMs,
    });
  }
}

export class BudgetUnit extends SliceUnit {
  readonly kind = 'budget';
  budget: Budget;
  /** Sum of the ledger as it was read, and what of it this process has posted. */
  #ledger = 0;
  #posted = 0;
  #period = -1;
  #cap = 0;
  #seen = 0;
  #wasRefused = false;
  readonly #table: LimitTable;

  constructor(table: LimitTable, budget: Budget, cell: LimitCell) {
    super(cell, [budget.limit]);
    this.#table = table;
    this.budget = budget;
  }

  get ledger(): number {
    return this.#ledger;
  }

  read(period: number, ledger: number, posted: number): void {
    if (period < this.#period) return;
    this.#begin(period);
    // What was posted here since the last reading is no part of the quota any more.
    this.quota = this.quota.map((amount) => Math.max(amount - (posted - this.#posted), 0));
    this.#ledger = ledger;
    this.#posted = posted;
  }

  idAt(epochMs: number): string {
    this.#begin(periodOf(this.budget.period, epochMs));
    return idOf(`budget ${this.budget.id} ${this.#period}`);
  }

  used(epochMs: number): number[] {
    this.#begin(periodOf(this.budget.period, epochMs));
    return [Math.max(this.#table.usedHere(this.cell, this.#period) - this.#posted, 0)];
  }

  /** Whether all gateways together have used it up since the last call. */
  takeRefused(): boolean {
    const wasRefused = this.#wasRefused;
    this.#wasRefused = false;
    return wasRefused;
  }

  wasActive(epochMs: number): boolean {
    const used = (this.used(epochMs)[0] as number) + this.#posted;
    const isActive = used !== this.#seen;
    this.#seen = used;
    return isActive;
  }

  canRest([used]: readonly number[]): boolean {
    return used === 0;
  }

  parts(): WindowPart[] {
    return [];
  }

  free(): void {
    this.#table.freeBudget(this.cell);
  }

  close(): void {
    this.#table.closeBudget(this.cell);
  }

  lower([amount = 0]: readonly number[]): void {
    this.#cap = amount + this.#posted;
    this.#table.capBudget(this.cell, this.#period, this.#cap);
  }

  open(_validBucket: number, { quota }: SliceGrant, [low = 0]: readonly number[]): void {
    this.lower(quota);
    this.#table.claimBudgetBelow(this.cell, low);
  }

  setQueued(isQueued: boolean): void {
    this.#table.queueBudget(this.cell, isQueued);
  }

  refuse(_resource: number, _first: number, nowMs: number): void {
    this.#wasRefused = true;
    this.#table.refuseBudget(this.cell, nowMs + MAX_HOLD_MS);
  }

  #begin(period: number): void {
    if (period === this.#period) return;
    this.#period = period;
    this.#ledger = 0;
    this.#posted = 0;
    this.quota = [0];
    if (this.state === 'open') {
      this.state = 'closed';
      this.close();
    }
  }
}

function idOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
