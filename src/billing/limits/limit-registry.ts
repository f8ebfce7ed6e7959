// Limits as the control thread knows them: which key or budget has which cell of the shared memory, what the ledger says was
// spent, and which thresholds were crossed. A cell is free again when no valid key or budget needs it. Without a free cell a key
// or budget refuses its requests until it gets one; it is never without its limit.

import {
  type Budget,
  type BudgetChange,
  type BudgetEvent,
  type BudgetScope,
  periodOf,
  Periods,
  startOf,
} from './budgets.ts';
import { type KeyAllowance, KeyLimiter } from './key-limiter.ts';
import { type LimitCell, type LimitMemory, LimitTable } from './limit-table.ts';
import type { SliceManager } from './slice-manager.ts';
import type { BudgetRecords, Charge, KeyLimits, StoredBudget } from '../ledger/ledger.ts';
import { DAY_MS, dayOf } from '../days.ts';
import { firstDay, sumSpending } from './budget-spending.ts';

/** What the registry knows of a valid key. */
export interface RegisteredKey {
  readonly hash: string;
  readonly id: string;
  readonly lineage: string;
  readonly account: string;
  readonly createdMs: number;
  readonly limits: KeyLimits;
}

export interface LimitRegistryDeps {
  readonly memory: LimitMemory;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Passes a change of budgets on to every data plane. */
  readonly tell: (change: BudgetChange) => void;
  /** A threshold was crossed; may be called again for the same one after a restart. */
  readonly onCrossed: (event: BudgetEvent) => void;
  /** A key or budget got no cell. Called once for each that waits for one. */
  readonly onFull: (kind: 'key' | 'budget', id: string) => void;
  /** Shares the limits with siblings. */
  readonly slices: Pick<SliceManager, 'putKey' | 'dropKey' | 'putBudget' | 'dropBudget' | 'readBudget' | 'takeRefused'>;
}

/** Keys that replace each other. They share their counts. */
interface Chain {
  readonly keys: Map<string, RegisteredKey>;
  /** Undefined: none is needed. */
  cell: LimitCell | null | undefined;
}

/** A valid key whose limits have a place now. */
export interface PlacedKey {
  readonly hash: string;
  readonly allowance: KeyAllowance;
}

/** A budget of one scope and period, and what the ledger says of it. Its limit and its threshold change. */
interface BudgetEntry {
  budget: Budget;
  /** Threads know its cell. */
  isTold: boolean;
  /** Days of the present period that do not change any more: their first day and that after the last, and what was spent. */
  closed: { readonly from: string; readonly to: string; readonly amount: bigint } | null;
  /** What this process has posted in a period: it is both in the ledger and in the rows of the threads. */
  posted: { readonly period: number; amount: number };
  /** What this process had spent at the last reading. */
  seen: number;
  /** Periods for which thresholds were reported. */
  soft: number;
  hard: number;
}

/** Cells of one kind. */
class Cells {
  readonly #size: number;
  readonly #free: LimitCell[] = [];
  #used = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** Cells that were ever taken are below this. */
  get high(): number {
    return this.#used;
  }

  get taken(): number {
    return this.#used - this.#free.length;
  }

  /** Null when all are taken. A generation is never used again for the same cell. */
  take(): LimitCell | null {
    const free = this.#free.pop();
    if (free !== undefined) return { index: free.index, generation: free.generation + 1 };
    return this.#used === this.#size ? null : { index: this.#used++, generation: 1 };
  }

  give(cell: LimitCell): void {
    this.#free.push(cell);
  }
}

/** How long a key that has gone may still be charged for: requests under way, and charges that wait for the store. */
const GONE_MS = DAY_MS;

/** Budgets without traffic that one reading brings up to date: with a reading every 5 s, 6,000 a minute. */
const IDLE_ROUND = 500;

export class LimitRegistry {
  readonly #deps: LimitRegistryDeps;
  readonly #table: LimitTable;
  /** Finds the budgets of a charge. */
  readonly #finder: KeyLimiter;
  readonly #keyCells: Cells;
  readonly #budgetCells: Cells;
  readonly #chains = new Map<string, Chain>();
  /** Lineages by hash. */
  readonly #lineages = new Map<string, string>();
  /** Lineages by id, of keys that have replaced others; and when those went that are not valid: their last charges are still to come. */
  readonly #lineagesById = new Map<string, string>();
  readonly #goneMs = new Map<string, number>();
  readonly #budgets = new Map<string, BudgetEntry>();
  /** Ids of budgets whose spending was never read. */
  readonly #unread = new Set<string>();
  /** Lineages and ids of budgets that got no cell, in order. */
  readonly #waitingKeys = new Set<string>();
  readonly #waitingBudgets = new Set<string>();
  readonly #periods = new Periods();
  /** Where the reading of idle budgets goes on. */
  #idleAt = 0;

  constructor(deps: LimitRegistryDeps) {
    this.#deps = deps;
    this.#table = new LimitTable(deps.memory, 0);
    this.#finder = new KeyLimiter(deps.memory, 0);
    this.#keyCells = new Cells(deps.memory.keys);
    this.#budgetCells = new Cells(deps.memory.budgets);
  }

  /** Cells in use. */
  get taken(): { readonly keys: number; readonly budgets: number } {
    return { keys: this.#keyCells.taken, budgets: this.#budgetCells.taken };
  }

  /** Takes off what a thread has reserved that has ended. */
  clearThread(thread: number): void {
    this.#table.clearThread(thread, this.#keyCells.high, this.#budgetCells.high);
  }

  /** The budgets, for a new data plane. */
  budgets(): BudgetChange {
    const put = [...this.#budgets.values()].map(({ budget, isTold }) => (isTold ? budget : { ...budget, cell: null }));
    return { reset: true, put, drop: [] };
  }

  /** Takes in a valid key, new or changed. Answers with its limits per minute and of running requests; undefined: none. */
  putKey(key: RegisteredKey): KeyAllowance | undefined {
    const { hash, id, lineage } = key;
    let chain = this.#chains.get(lineage);
    if (chain === undefined) this.#chains.set(lineage, (chain = { keys: new Map(), cell: undefined }));
    chain.keys.set(hash, key);
    this.#lineages.set(hash, lineage);
    // The first of a lineage names it.
    if (id !== lineage) this.#lineagesById.set(id, lineage);
    this.#goneMs.delete(id);
    this.#updateChain(lineage, chain);
    return allowanceOf(key, chain);
  }

  /** Forgets a key that is not valid any more. */
  dropKey(hash: string): void {
    const lineage = this.#lineages.get(hash);
    const chain = lineage === undefined ? undefined : this.#chains.get(lineage);
    if (lineage === undefined || chain === undefined) return;
    const id = chain.keys.get(hash)?.id;
    if (id !== undefined && id !== lineage) this.#goneMs.set(id, this.#deps.epochMs());
    chain.keys.delete(hash);
    this.#lineages.delete(hash);
    this.#updateChain(lineage, chain);
    if (chain.keys.size === 0) this.#chains.delete(lineage);
  }

  /** Takes in a budget, new or changed. Its spending is read before threads know of it; until then `spent` is right. */
  putBudget(stored: StoredBudget): void {
    const { account, id, key, limit, model, period, soft } = stored;
    const scope = { account, key, model };
    this.#put({ ...scope, id, period, limit: Number(limit), soft: soft === null ? null : Number(soft) });
  }

  dropBudget(id: string): void {
    const entry = this.#budgets.get(id);
    if (entry === undefined) return;
    this.#budgets.delete(id);
    this.#unread.delete(id);
    this.#waitingBudgets.delete(id);
    this.#deps.slices.dropBudget(id);
    if (entry.budget.cell !== null) this.#budgetCells.give(entry.budget.cell);
    this.#change({ reset: false, put: [], drop: [id] });
  }

  /** Forgets all stored budgets but these. Budgets of keys stay. */
  keepBudgets(ids: ReadonlySet<string>): void {
    for (const id of this.#budgets.keys()) if (!ids.has(id) && !id.startsWith(OF_KEY)) this.dropBudget(id);
  }

  /**
   * Gives cells that are free to what got none. Answers with the keys that have theirs now; threads hear of a budget when it has been
   * read what was spent of it.
   */
  placeWaiting(): PlacedKey[] {
    for (const id of this.#waitingBudgets) {
      const cell = this.#budgetCells.take();
      if (cell === null) break;
      const entry = this.#budgets.get(id) as BudgetEntry;
      this.#waitingBudgets.delete(id);
      this.#clear(cell);
      entry.budget = { ...entry.budget, cell };
      entry.isTold = false;
      this.#unread.add(id);
      this.#deps.slices.putBudget(entry.budget);
    }
    const placed: PlacedKey[] = [];
    for (const lineage of this.#waitingKeys) {
      const chain = this.#chains.get(lineage) as Chain;
      chain.cell ??= this.#keyCells.take();
      if (chain.cell === null) break;
      this.#waitingKeys.delete(lineage);
      const keys = [...chain.keys.values()];
      this.#deps.slices.putKey(lineage, chain.cell, largestLimits(keys));
      for (const key of keys) {
        const allowance = allowanceOf(key, chain);
        if (allowance !== undefined) placed.push({ hash: key.hash, allowance });
      }
    }
    return placed;
  }

  /** Notes a charge that is in the ledger now. */
  posted({ account, amount, dateMs, usage: { key, model } }: Charge): void {
    const lineage = key === null ? null : (this.#lineagesById.get(key) ?? key);
    for (const { id, period } of this.#finder.budgetsOf({ account, lineage, allowance: null }, model)) {
      const entry = this.#budgets.get(id);
      const number = periodOf(period, dateMs);
      if (entry === undefined) continue;
      // Charges of a period that has ended. One that has not begun is from before the clock was set back.
      const hasBegun = entry.posted.period <= periodOf(period, this.#deps.epochMs());
      if (number < entry.posted.period && hasBegun) continue;
      if (entry.posted.period === number) entry.posted.amount += Number(amount);
      else entry.posted = { period: number, amount: Number(amount) };
    }
  }

  /**
   * Reads what was spent beyond this process: for all budgets, or for those with traffic here and some of the others in turn. Reads
   * closed days once a day and the last two days each time.
   */
  async read(spending: BudgetRecords['spending'], all: boolean): Promise<void> {
    for (const [id, goneMs] of this.#goneMs) {
      if (this.#deps.epochMs() - goneMs < GONE_MS) continue;
      this.#goneMs.delete(id);
      this.#lineagesById.delete(id);
    }
    const entries = [...this.#budgets.values()];
    await this.#read(spending, all ? entries : this.#due(entries));
  }

  /** Whether there are budgets whose spending was never read. */
  get hasNew(): boolean {
    return this.#unread.size > 0;
  }

  /** Reads what was spent of these. */
  async readNew(spending: BudgetRecords['spending']): Promise<void> {
    const entries = [...this.#unread].map((id) => this.#budgets.get(id)).filter((entry) => entry !== undefined);
    await this.#read(spending, entries);
  }

  async #read(spending: BudgetRecords['spending'], due: readonly BudgetEntry[]): Promise<void> {
    if (due.length === 0) return;
    const nowMs = this.#deps.epochMs();
    const openFrom = dayOf(nowMs - DAY_MS);
    const stale = due.filter(({ budget, closed }) => {
      const from = firstDay(budget, nowMs);
      return from < openFrom && (closed?.from !== from || closed.to !== openFrom);
    });
    const months = await sumSpending(
      stale,
      spending,
      ({ budget }) => budget,
      (budget) => firstDay(budget, nowMs),
      openFrom,
    );
    for (const entry of stale) {
      entry.closed = { from: firstDay(entry.budget, nowMs), to: openFrom, amount: months.get(entry) ?? 0n };
    }
    const posted = new Map(due.map((entry) => [entry, { ...entry.posted }]));
    const open = await sumSpending(
      due,
      spending,
      ({ budget }) => budget,
      (budget) => later(firstDay(budget, nowMs), openFrom),
      null,
    );
    for (const entry of due) {
      const { budget, closed } = entry;
      // Gone or replaced meanwhile: another budget may have its cell.
      if (this.#budgets.get(budget.id) !== entry) continue;
      this.#unread.delete(budget.id);
      const period = periodOf(budget.period, nowMs);
      if (budget.cell === null || period !== periodOf(budget.period, this.#deps.epochMs())) continue;
      const before = firstDay(budget, nowMs) < openFrom ? (closed?.amount ?? 0n) : 0n;
      const own = posted.get(entry);
      // What was settled before the period or the budget began, and posted after it, is in no row: it stays in the base.
      const here = own?.period === period ? Math.min(own.amount, this.#table.spentHere(budget.cell, period)) : 0;
      const ledger = Number(before + (open.get(entry) ?? 0n));
      this.#table.setBase(budget.cell, period, Math.max(ledger - here, 0));
      this.#deps.slices.readBudget(budget.id, period, ledger, here);
      this.#checkThresholds(budget, budget.cell, period);
      if (!entry.isTold) this.#tell(entry);
    }
  }

  /** Reports thresholds that were crossed since the last call. */
  report(): void {
    for (const entry of this.#budgets.values()) {
      const { cell } = entry.budget;
      if (cell === null) continue;
      for (const threshold of ['soft', 'hard'] as const) {
        const period = this.#table.crossedIn(cell, threshold);
        if (period === 0 || period === entry[threshold]) continue;
        entry[threshold] = period;
        this.#deps.onCrossed(this.#event(entry.budget, cell, threshold, period));
      }
    }
  }

  /** Pico-USD spent in the present period, here and as far as the ledger was read; undefined for a budget that is not known. */
  spent(id: string): number | undefined {
    const budget = this.#budgets.get(id)?.budget;
    if (budget === undefined || budget.cell === null) return undefined;
    return this.#table.spent(budget.cell, periodOf(budget.period, this.#deps.epochMs()));
  }

  /** Brings a chain's cell and its monthly budget in line with its keys. The newest key says what the chain may spend. */
  #updateChain(lineage: string, chain: Chain): void {
    const keys = [...chain.keys.values()];
    if (keys.some(({ limits }) => isCounted(limits))) {
      chain.cell ??= this.#keyCells.take();
      if (chain.cell === null) this.#wait('key', this.#waitingKeys, lineage);
      else this.#deps.slices.putKey(lineage, chain.cell, largestLimits(keys));
    } else if (chain.cell !== undefined) {
      this.#waitingKeys.delete(lineage);
      this.#deps.slices.dropKey(lineage);
      if (chain.cell !== null) this.#keyCells.give(chain.cell);
      chain.cell = undefined;
    }
    const newest = keys.reduce<RegisteredKey | undefined>(
      (best, key) => (best === undefined || key.createdMs >= best.createdMs ? key : best),
      undefined,
    );
    const id = `${OF_KEY}${lineage}`;
    const monthly = newest?.limits.monthlySpend;
    if (newest === undefined || monthly === undefined) this.dropBudget(id);
    else {
      const scope = { account: newest.account, key: lineage, model: null };
      this.#put({ ...scope, id, period: 'month', limit: Number(monthly), soft: null });
    }
  }

  #put(wanted: Omit<Budget, 'cell'>): void {
    const before = this.#budgets.get(wanted.id);
    const isSame = before !== undefined && sameScope(before.budget, wanted) && before.budget.period === wanted.period;
    if (isSame && before.budget.limit === wanted.limit && before.budget.soft === wanted.soft) return;
    if (before !== undefined && !isSame && before.budget.cell !== null) this.#budgetCells.give(before.budget.cell);
    const cell = isSame ? before.budget.cell : this.#budgetCells.take();
    if (cell === null) this.#wait('budget', this.#waitingBudgets, wanted.id);
    else this.#waitingBudgets.delete(wanted.id);
    const budget = { ...wanted, cell };
    if (!isSame && cell !== null) this.#clear(cell);
    if (before !== undefined && !isSame) this.#deps.slices.dropBudget(wanted.id);
    const entry: BudgetEntry = isSame
      ? before
      : { budget, isTold: true, closed: null, posted: { period: 0, amount: 0 }, seen: -1, soft: 0, hard: 0 };
    entry.budget = budget;
    // Other thresholds may be crossed anew.
    entry.soft = 0;
    entry.hard = 0;
    if (cell !== null) for (const threshold of ['soft', 'hard'] as const) this.#table.cross(cell, threshold, 0);
    this.#budgets.set(wanted.id, entry);
    if (!isSame) this.#unread.add(wanted.id);
    this.#deps.slices.putBudget(budget);
    // Threads that refuse what it is for do so until its spending has been read.
    if (entry.isTold) this.#tell(entry);
  }

  #tell(entry: BudgetEntry): void {
    entry.isTold = true;
    this.#change({ reset: false, put: [entry.budget], drop: [] });
  }

  #wait(kind: 'key' | 'budget', waiting: Set<string>, id: string): void {
    if (waiting.has(id)) return;
    waiting.add(id);
    this.#deps.onFull(kind, id);
  }

  #clear(cell: LimitCell): void {
    this.#table.setBase(cell, 0, 0);
  }

  #change(change: BudgetChange): void {
    this.#finder.updateBudgets(change);
    this.#deps.tell(change);
  }

  /** Budgets that requests count for, or that others have used up, and the next ones of the rest. */
  #due(entries: readonly BudgetEntry[]): BudgetEntry[] {
    const nowMs = this.#deps.epochMs();
    const due = new Set<BudgetEntry>();
    for (const entry of entries) {
      if (!entry.isTold) due.add(entry);
      const { cell, period } = entry.budget;
      if (cell === null) continue;
      const here = this.#table.spentHere(cell, this.#periods.of(period, nowMs));
      if (here !== entry.seen || this.#deps.slices.takeRefused(entry.budget.id)) due.add(entry);
      entry.seen = here;
    }
    for (let count = Math.min(IDLE_ROUND, entries.length); count > 0; count--) {
      this.#idleAt = (this.#idleAt + 1) % entries.length;
      due.add(entries[this.#idleAt] as BudgetEntry);
    }
    return [...due];
  }

  #checkThresholds({ limit, soft }: Budget, cell: LimitCell, period: number): void {
    const spent = this.#table.spent(cell, period);
    if (soft !== null && spent >= soft) this.#table.cross(cell, 'soft', period);
    if (spent >= limit) this.#table.cross(cell, 'hard', period);
  }

  #event(budget: Budget, cell: LimitCell, threshold: 'soft' | 'hard', number: number): BudgetEvent {
    const { account, id, key, limit, model, period, soft } = budget;
    return {
      ...{ account, key, model, budget: id, threshold, period, limit, soft },
      startsMs: startOf(period, number),
      endsMs: startOf(period, number + 1),
      spent: this.#table.spent(cell, number),
    };
  }
}

/** Ids of the budgets that keys have in their limits. */
const OF_KEY = 'monthly:';

function isCounted({ requestsPerMinute, runningRequests, tokensPerMinute }: KeyLimits): boolean {
  return requestsPerMinute !== undefined || runningRequests !== undefined || tokensPerMinute !== undefined;
}

function allowanceOf({ limits }: RegisteredKey, { cell = null }: Chain): KeyAllowance | undefined {
  if (!isCounted(limits)) return undefined;
  const { requestsPerMinute, runningRequests, tokensPerMinute } = limits;
  return { cell, requestsPerMinute, runningRequests, tokensPerMinute };
}

/** Running requests, requests and tokens a minute, each the largest that a key has; -1 where none has a limit. */
function largestLimits(keys: readonly RegisteredKey[]): number[] {
  const largest = (of: (limits: KeyLimits) => number | undefined): number =>
    Math.max(...keys.map(({ limits }) => of(limits) ?? -1));
  return [
    largest(({ runningRequests }) => runningRequests),
    largest(({ requestsPerMinute }) => requestsPerMinute),
    largest(({ tokensPerMinute }) => tokensPerMinute),
  ];
}

function sameScope(a: BudgetScope, b: BudgetScope): boolean {
  return a.account === b.account && a.key === b.key && a.model === b.model;
}

function later(a: string, b: string): string {
  return a > b ? a : b;
}
