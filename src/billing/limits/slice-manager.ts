// Shares the limits of keys and budgets with sibling gateways: claims slices of them from an engine that all siblings ask, writes
// them into the limit table, and lets requests wait that find none. Runs in the control thread.
//
// Model. For each key the engine keeps a quota for each gateway: how many running requests, and how many requests and tokens of the
// last 62 s, the gateway may have counted at a time. The quotas of all gateways together never exceed the limit, so whatever each
// admits within its own, no minute has more than the limit anywhere. A quota is what the gateway has counted plus its slice: what it
// may admit without asking. Of a budget the engine keeps for each gateway what it has spent beyond the ledger's sum, holds for requests,
// and may spend; the newest sum of the ledger and all of these never exceed the limit.
//
// Clocks. Windows are counted by each gateway's own clock (in its limit table). What the engine is told of them are durations, which
// it adds to its own `TIME`; no date of one gateway's clock is read by another.
//
// Lease. A quota holds for 5 s after its claim, in the table for 3 to 5 s after the claim was sent, and is renewed or given up twice a
// second. What is counted stays reserved for as long as its requests are in the window, whatever becomes of the gateway: the engine
// knows the window in eight parts. The slice of a gateway that dies is free again when its lease ends: after 5 s, money after 20 s. That of one that is
// silent but still connected, as a process that stands still, counts as if it had been used: requests and tokens for 67 s. When it comes back its
// own lease has ended, too: it claims again, and nothing is admitted twice.
//
// Slices. A slice is what the key takes in half a second, and at most a sixteenth of the limit. Below sixteen there are none: every
// request is claimed. Near the limit slices are a quarter of what is left at most. A key without requests for a second gives its slice
// back and is closed: its next request is claimed. A gateway that finds nothing left recalls slices: siblings give theirs back at once
// and claim every request for 2 s.
//
// Waiting. A request beyond the slice waits, in the order of arrival, for at most 50 ms. More is claimed when half of a slice is used, so
// that steady traffic does not wait. While requests of a key wait, later ones wait behind them. When all gateways together have
// reached a limit, requests are refused for up to 100 ms (running: 20 ms) without another claim.
//
// Without the engine. When it is away, or has not answered for 50 ms, each gateway counts alone with the whole limit. When it is back,
// each claims what it has counted, even where that exceeds the limit; nothing is granted until it does not. The overshoot is what the
// gateways admit alone, and one slice for each gateway that has not told yet.
//
// Changes. Keys that replace each other (a lineage) share a quota. It is cut from the largest limit among them; each request is held
// against the limit of its own key. A changed limit holds from the next claim on. Tokens are claimed as they are reserved; what a request
// settles below that stays in the slice and goes back with it.

import type { Clock, Ref, TimerHandle } from '../../actor/index.ts';
import { messageOf } from '../../errors.ts';
import { Alarm } from '../../net/alarm.ts';
import type { Budget } from './budgets.ts';
import { BUCKET_MS, type LimitCell, type LimitTable, type SliceUse } from './limit-table.ts';
import type { SliceNeed } from './slice-client.ts';
import { SLICE_LEASE_MS, type SliceClaim, type SliceGrant, type SliceStore } from './slice-store.ts';
import {
  BudgetUnit,
  KeyUnit,
  type QueuedNeed,
  REQUESTS,
  RUNNING,
  type SliceUnit,
  type SliceWaiter,
} from './slice-units.ts';

/** How long a request waits for a slice, and an answer of the engine is waited for. */
export const SLICE_WAIT_MS = 50;

/** From threads. */
export type SliceCommand =
  | { readonly type: 'Join'; readonly thread: number; readonly replyTo: Ref<SliceNotice> }
  | { readonly type: 'Refill'; readonly kind: 'key' | 'budget'; readonly cell: number }
  | { readonly type: 'Wait'; readonly thread: number; readonly id: number; readonly need: SliceNeed }
  | { readonly type: 'Leave'; readonly thread: number; readonly id: number };

/** To a thread: its waiting request of this id is to be admitted in this way. */
export interface SliceNotice {
  readonly id: number;
  readonly use: SliceUse;
}

export interface SliceManagerDeps {
  /** Row of the control thread. */
  readonly table: LimitTable;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Whether limits are shared, has changed. `away`: each gateway counts alone, for this reason. */
  readonly onState: (state: 'shared' | 'away', reason: string) => void;
  /** Default: `SLICE_WAIT_MS`. */
  readonly waitMs?: number;
}

/** Claims in one call, and time between two calls: at most 25,600 claims a second. */
const MAX_CLAIMS = 128;
const PAUSE_MS = 5;
const MAX_CALLS = 4;

/** Share of a limit that a slice is at most. */
const SHARE: number = 1 / 16;
const SLICE_MS = 500;
/** Shortest time that a rate is taken of. */
const MIN_RATE_MS = 20;

const RENEW_MS = 500;
const IDLE_MS = 1000;
const SWEEP_MS = 100;
/** While requests wait, or siblings need what is given back here. */
const TICK_MS = 5;
const ASK_AGAIN_MS = 12;
const CONTENDED_MS = 2000;
const RECALL_MS = 100;
const PROBE_MS = 500;
const STALL_MS = 20;
/** A command is given up after so many times the wait for an answer. */
const ANSWERS = 4;
/** A thread has admitted a request so long after it was told to. */
const ADMIT_MS = 10;
/** Keys and budgets that are looked at in one turn when the engine is back. */
const CHUNK = 512;

export class SliceManager {
  readonly #deps: SliceManagerDeps;
  readonly #waitMs: number;
  readonly #keys = new Map<string, KeyUnit>();
  readonly #budgets = new Map<string, BudgetUnit>();
  readonly #byCell = { key: new Map<number, SliceUnit>(), budget: new Map<number, SliceUnit>() };
  readonly #byId = new Map<string, SliceUnit>();
  readonly #threads = new Map<number, Ref<SliceNotice>>();
  readonly #waiters = new Map<string, SliceWaiter>();
  /** Those that are claimed next, in order; those with quotas; those with waiting requests or siblings. */
  readonly #urgent = new Set<SliceUnit>();
  readonly #open = new Set<SliceUnit>();
  readonly #hot = new Set<SliceUnit>();
  #store: SliceStore | null = null;
  #mode: 'off' | 'away' | 'shared' = 'off';
  /** Counts changes of the mode: answers to claims before the last one do not count. */
  #round = 0;
  #sequence = 0;
  #calls = 0;
  #sentMs = -Infinity;
  #sweptMs = 0;
  readonly #alarm: Alarm;

  constructor(deps: SliceManagerDeps) {
    this.#deps = deps;
    this.#waitMs = deps.waitMs ?? SLICE_WAIT_MS;
    this.#alarm = new Alarm(deps.clock, (dueMs) => this.#tick(dueMs));
  }

  /** How limits are counted: by this process alone, alone because the engine does not answer, or together with siblings. */
  get mode(): 'off' | 'away' | 'shared' {
    return this.#mode;
  }

  /** Limits are shared through this store from now on; null: they are not. */
  share(store: SliceStore | null): void {
    this.#store = store;
    if (store === null) this.#leave('off', 'the cluster is off');
    else if (this.#mode !== 'shared') this.#begin();
  }

  /** The engine does not answer. */
  lose(reason: string): void {
    if (this.#mode !== 'off') this.#leave('away', reason);
  }

  /** Keys and budgets that are gone are unknown here. Limits: running requests, requests, tokens; -1: none. */
  putKey(lineage: string, cell: LimitCell, limits: readonly number[]): void {
    const known = this.#keys.get(lineage);
    if (known?.cell === cell) {
      known.limits = limits;
      if (known.state === 'open') this.#push(known);
      return;
    }
    if (known !== undefined) this.#forget(known);
    const unit = new KeyUnit(this.#deps.table, lineage, cell, limits);
    this.#keys.set(lineage, unit);
    this.#put(unit);
  }

  dropKey(lineage: string): void {
    const unit = this.#keys.get(lineage);
    this.#keys.delete(lineage);
    if (unit !== undefined) this.#forget(unit);
  }

  putBudget(budget: Budget): void {
    const { cell, id, limit } = budget;
    const known = this.#budgets.get(id);
    if (known !== undefined && known.cell === cell) {
      known.budget = budget;
      known.limits = [limit];
      if (known.state === 'open') this.#push(known);
      return;
    }
    this.dropBudget(id);
    if (cell === null) return;
    const unit = new BudgetUnit(this.#deps.table, budget, cell);
    this.#budgets.set(id, unit);
    this.#put(unit);
  }

  dropBudget(id: string): void {
    const unit = this.#budgets.get(id);
    this.#budgets.delete(id);
    if (unit !== undefined) this.#forget(unit);
  }

  /** The sum of the ledger for a period, and what of it this process has posted. */
  readBudget(id: string, period: number, ledger: number, posted: number): void {
    this.#budgets.get(id)?.read(period, ledger, posted);
  }

  /** Whether requests of the budget were refused since the last call because all gateways together have used it up. */
  takeRefused(id: string): boolean {
    return this.#budgets.get(id)?.takeRefused() ?? false;
  }

  /** A sibling needs what is left of slices here. */
  recall(ids: readonly string[]): void {
    if (this.#mode !== 'shared') return;
    const nowMs = this.#deps.clock.now();
    for (const id of ids) {
      const unit = this.#byId.get(id);
      if (unit === undefined || unit.state !== 'open') continue;
      unit.contendedUntilMs = nowMs + CONTENDED_MS;
      this.#hot.add(unit);
      this.#push(unit);
    }
    this.#wake(TICK_MS);
  }

  receive(command: SliceCommand): void {
    switch (command.type) {
      case 'Join':
        this.#threads.set(command.thread, command.replyTo);
        break;
      case 'Refill': {
        const unit = this.#byCell[command.kind].get(command.cell);
        if (unit?.state === 'open') this.#push(unit);
        break;
      }
      case 'Wait':
        this.#wait(command.thread, command.id, command.need);
        break;
      case 'Leave': {
        const waiter = this.#waiters.get(`${command.thread} ${command.id}`);
        if (waiter !== undefined) this.#end(waiter);
        break;
      }
    }
  }

  /** Gives all slices back, and counts alone from then on. */
  async close(): Promise<void> {
    const store = this.#store;
    const isShared = this.#mode === 'shared';
    const open = [...this.#open];
    this.#leave('off', 'the gateway ends');
    this.#store = null;
    if (store === null || !isShared) return;
    for (let from = 0; from < open.length; from += MAX_CLAIMS) {
      const claims = open.slice(from, from + MAX_CLAIMS).map((unit) => this.#restClaim(unit));
      const isTold = await store.exchange(claims, this.#waitMs).then(
        () => true,
        () => false,
      );
      // What is not given back lapses.
      if (!isTold) return;
    }
  }

  #put(unit: SliceUnit): void {
    this.#byCell[unit.kind].set(unit.cell.index, unit);
    if (this.#mode === 'shared') this.#admitUnit(unit);
    else unit.free();
  }

  #forget(unit: SliceUnit): void {
    for (const waiter of unit.queue.keys()) this.#answer(waiter, 'whole');
    unit.free();
    unit.state = 'whole';
    unit.dueMs = Infinity;
    for (const set of [this.#urgent, this.#open, this.#hot]) set.delete(unit);
    if (this.#byCell[unit.kind].get(unit.cell.index) === unit) this.#byCell[unit.kind].delete(unit.cell.index);
    if (this.#byId.get(unit.id) === unit) this.#byId.delete(unit.id);
  }

  /** From counting alone to slices: at once where nothing is counted, else when the engine has been told. */
  #admitUnit(unit: SliceUnit): void {
    const used = unit.used(this.#deps.epochMs());
    if (used.some((amount) => amount > 0)) {
      this.#push(unit);
      return;
    }
    unit.state = 'closed';
    unit.close();
  }

  #begin(): void {
    const round = ++this.#round;
    this.#mode = 'shared';
    this.#deps.onState('shared', '');
    const units = [...this.#keys.values(), ...this.#budgets.values()];
    const next = (from: number): void => {
      if (round !== this.#round) return;
      for (const unit of units.slice(from, from + CHUNK)) if (unit.state === 'whole') this.#admitUnit(unit);
      if (from + CHUNK < units.length) this.#deps.clock.setTimeout(() => next(from + CHUNK), PAUSE_MS);
    };
    next(0);
    this.#wake(SWEEP_MS);
  }

  #leave(mode: 'off' | 'away', reason: string): void {
    const { clock, onState } = this.#deps;
    const before = this.#mode;
    const round = ++this.#round;
    this.#mode = mode;
    this.#alarm.clear();
    this.#calls = 0;
    for (const unit of [...this.#keys.values(), ...this.#budgets.values()]) {
      unit.free();
      unit.state = 'whole';
      unit.isUnderWay = false;
      unit.isUrgent = false;
      unit.dueMs = Infinity;
      unit.queue.clear();
      unit.promised = [];
      unit.id = '';
    }
    for (const set of [this.#urgent, this.#open, this.#hot]) set.clear();
    this.#byId.clear();
    for (const waiter of [...this.#waiters.values()]) this.#answer(waiter, 'whole');
    if (before !== mode && mode === 'away') onState('away', reason);
    if (mode === 'away') clock.setTimeout(() => void this.#probe(round), PROBE_MS);
  }

  /** Asks whether the engine answers in time again. */
  async #probe(round: number): Promise<void> {
    const store = this.#store;
    if (round !== this.#round || store === null) return;
    try {
      await store.exchange([], this.#waitMs);
    } catch {
      // It does not: `onState` has told so.
      if (round === this.#round) this.#deps.clock.setTimeout(() => void this.#probe(round), PROBE_MS);
      return;
    }
    if (round === this.#round) this.#begin();
  }

  #wait(thread: number, id: number, { budgets, key }: SliceNeed): void {
    const nowMs = this.#deps.clock.now();
    const deadlineMs = nowMs + this.#waitMs;
    const waiter: SliceWaiter = { thread, id, sinceMs: nowMs, deadlineMs, units: [], missing: 0, isOver: false };
    this.#waiters.set(`${thread} ${id}`, waiter);
    if (key !== null) {
      const { cell, leastTokens, requests, tokens } = key;
      this.#queue(this.#byCell.key.get(cell), waiter, [requests, requests, tokens], [requests, requests, leastTokens]);
    }
    for (const { amount, cell, least } of budgets)
      this.#queue(this.#byCell.budget.get(cell), waiter, [amount], [least]);
    // What was closed when the request came is not any more.
    if (waiter.missing === 0) this.#answer(waiter, this.#mode === 'shared' ? 'granted' : 'whole');
    else this.#wake(TICK_MS);
  }

  #queue(unit: SliceUnit | undefined, waiter: SliceWaiter, most: readonly number[], least: readonly number[]): void {
    if (unit === undefined || unit.state === 'whole') return;
    waiter.units.push(unit);
    waiter.missing++;
    unit.queue.set(waiter, { most, least });
    unit.largest = Math.max(unit.largest, most.at(-1) as number);
    unit.activeMs = waiter.sinceMs;
    if (unit.queue.size === 1) unit.setQueued(true);
    this.#hot.add(unit);
    this.#push(unit);
  }

  #push(unit: SliceUnit): void {
    if (this.#mode !== 'shared') return;
    if (unit.isUnderWay) {
      unit.isUrgent = true;
      return;
    }
    this.#urgent.add(unit);
    this.#wake(Math.max(this.#sentMs + PAUSE_MS - this.#deps.clock.now(), 0));
  }

  /** Looks after everything within so long. */
  #wake(delayMs: number): void {
    if (this.#mode === 'shared') this.#alarm.setBy(this.#deps.clock.now() + delayMs);
  }

  #tick(dueMs: number): void {
    const { clock, epochMs } = this.#deps;
    const nowMs = clock.now();
    // After a standstill of this thread, answers that have come are read first.
    const isLate = nowMs - dueMs > STALL_MS;
    for (const waiter of this.#waiters.values()) {
      if (waiter.deadlineMs > nowMs || isLate) break;
      this.#expire(waiter);
    }
    for (const unit of this.#hot) {
      const isContended = nowMs < unit.contendedUntilMs;
      if (unit.queue.size === 0 && !isContended) this.#hot.delete(unit);
      else if (unit.dueMs <= nowMs) this.#push(unit);
      else if (isContended && unit.state === 'open' && !unit.isUnderWay) {
        const used = unit.used(epochMs());
        if (unit.quota.some((amount, at) => limited(unit, at) && amount > (used[at] as number))) this.#push(unit);
      }
    }
    if (nowMs - this.#sweptMs >= SWEEP_MS) {
      this.#sweptMs = nowMs;
      for (const unit of this.#open) if (unit.dueMs <= nowMs) this.#push(unit);
    }
    this.#send();
    this.#wakeNext(isLate ? 0 : this.#hot.size > 0 || this.#urgent.size > 0 ? TICK_MS : SWEEP_MS);
  }

  /** Sleeps when there is nothing to look after: keys and budgets without requests. */
  #wakeNext(delayMs: number): void {
    const isIdle = [this.#hot, this.#urgent, this.#open, this.#waiters].every(({ size }) => size === 0);
    if (!isIdle) this.#wake(delayMs);
  }

  #send(): void {
    const { clock } = this.#deps;
    if (this.#urgent.size === 0 || this.#calls >= MAX_CALLS || clock.now() - this.#sentMs < PAUSE_MS) return;
    const units: SliceUnit[] = [];
    for (const unit of this.#urgent) {
      this.#urgent.delete(unit);
      units.push(unit);
      if (units.length === MAX_CLAIMS) break;
    }
    void this.#exchange(units);
  }

  async #exchange(units: readonly SliceUnit[]): Promise<void> {
    const { clock, epochMs } = this.#deps;
    const store = this.#store as SliceStore;
    const round = this.#round;
    this.#sentMs = clock.now();
    this.#calls++;
    const sentAt = epochMs();
    const claims = units.map((unit) => this.#claim(unit));
    let grants: readonly (SliceGrant | null)[];
    const watch = this.#watch(round);
    try {
      grants = await store.exchange(claims, ANSWERS * this.#waitMs);
    } catch (error) {
      if (round === this.#round) this.lose(messageOf(error));
      return;
    } finally {
      watch.end();
    }
    if (round !== this.#round) return;
    this.#calls--;
    for (let at = 0; at < units.length; at++) {
      this.#answered(units[at] as SliceUnit, claims[at] as SliceClaim, grants[at] ?? null, sentAt);
    }
    this.#wakeNext(this.#urgent.size > 0 ? PAUSE_MS : SWEEP_MS);
  }

  /** Counts alone when there is no answer in time, unless this thread has stood still: the claim may have left only then. */
  #watch(round: number): { end(): void } {
    const { clock } = this.#deps;
    const start = (): TimerHandle => {
      const dueMs = clock.now() + this.#waitMs;
      return clock.setTimeout(() => {
        if (clock.now() - dueMs > STALL_MS) timer = start();
        else if (round === this.#round) this.lose('the engine does not answer in time');
      }, this.#waitMs);
    };
    let timer = start();
    return { end: () => clock.clearTimeout(timer) };
  }

  /** A claim of what a unit has counted alone. */
  #restClaim(unit: SliceUnit): SliceClaim {
    const nowMs = this.#deps.epochMs();
    const used = unit.used(nowMs);
    return {
      ...{ id: unit.idAt(nowMs), kind: unit.kind, sequence: ++this.#sequence, isQuiet: true },
      resources: used.map((amount, at) => ({
        ...{ limit: unit.limits[at] as number, used: amount, keep: amount, need: 0, want: 0, first: 0 },
      })),
      parts: unit.parts(nowMs),
      ledger: unit.ledger,
    };
  }

  #claim(unit: SliceUnit): SliceClaim {
    const { clock, epochMs } = this.#deps;
    const nowMs = clock.now();
    const epoch = epochMs();
    const id = unit.idAt(epoch);
    if (id !== unit.id) {
      this.#byId.delete(unit.id);
      this.#byId.set(id, unit);
      unit.id = id;
    }
    unit.isUnderWay = true;
    unit.isUrgent = false;
    if (unit.wasActive(epoch)) unit.activeMs = nowMs;
    const isContended = nowMs < unit.contendedUntilMs;
    let used = unit.used(epoch);
    const isQuiet =
      unit.state !== 'whole' &&
      unit.queue.size === 0 &&
      unit.promised.length === 0 &&
      (isContended || nowMs - unit.activeMs >= IDLE_MS) &&
      unit.canRest(used);
    if (isQuiet) {
      unit.close();
      unit.state = 'closed';
      return this.#restClaim(unit);
    }
    const need = this.#needs(unit, used, nowMs);
    this.#adapt(unit, used, need, nowMs, isContended);
    let keep = used;
    if (unit.state === 'open') {
      const target = used.map((amount, at) => amount + (need[at] as number) + (unit.desired[at] as number));
      const lowered = unit.quota.map((amount, at) =>
        limited(unit, at) ? Math.min(amount, target[at] as number) : amount,
      );
      if (lowered.some((amount, at) => amount < (unit.quota[at] as number))) {
        unit.lower(lowered);
        used = unit.used(epoch);
      }
      unit.quota = lowered;
      keep = lowered.map((amount, at) =>
        limited(unit, at) ? Math.max(amount, used[at] as number) : (used[at] as number),
      );
    }
    const { kind, ledger } = unit;
    const first = unit.queue.values().next().value;
    const resources = used.map((amount, at) => {
      const wanted = amount + (need[at] as number);
      const kept = keep[at] as number;
      return {
        limit: unit.limits[at] as number,
        used: amount,
        keep: kept,
        need: Math.max(wanted - kept, 0),
        want: Math.max(wanted + (unit.desired[at] as number) - Math.max(kept, wanted), 0),
        first: first?.least[at] ?? 0,
      };
    });
    return { id, kind, sequence: ++this.#sequence, isQuiet: false, resources, parts: unit.parts(epoch), ledger };
  }

  /** What waiting requests need, and those that were told to go on and have not done so. */
  #needs(unit: SliceUnit, used: readonly number[], nowMs: number): number[] {
    const need = this.#outstanding(unit, used, nowMs);
    for (const { most } of unit.queue.values()) addTo(need, most, 1);
    return need.map((amount, at) => Math.min(amount, Math.max(unit.limits[at] as number, 0)));
  }

  /**
   * What requests still take that were told to go on. Each that has done so has raised the count of requests, or of money; of parts of
   * requests, which do not, nobody knows.
   */
  #outstanding(unit: SliceUnit, used: readonly number[], nowMs: number): number[] {
    unit.promised = unit.promised.filter(({ untilMs }) => untilMs > nowMs);
    const sum = unit.limits.map(() => 0);
    const parts = unit.limits.map(() => 0);
    const at = unit.kind === 'key' ? REQUESTS : 0;
    for (const { amounts } of unit.promised) addTo(amounts[at] === 0 ? parts : sum, amounts, 1);
    const promised = sum[at] as number;
    const share = promised === 0 ? 0 : Math.min(Math.max(1 - ((used[at] as number) - unit.counted) / promised, 0), 1);
    return sum.map((amount, each) => Math.ceil(amount * share) + (parts[each] as number));
  }

  /** Brings the size of slices in line with what was taken since the last answer. */
  #adapt(unit: SliceUnit, used: readonly number[], need: readonly number[], nowMs: number, isContended: boolean): void {
    const elapsedMs = Math.max(nowMs - unit.answeredMs, MIN_RATE_MS);
    const last = used.length - 1;
    const isIdle = nowMs - unit.activeMs >= IDLE_MS;
    for (let at = 0; at < used.length; at++) {
      const limit = unit.limits[at] as number;
      const left = Math.max((unit.quota[at] as number) - (used[at] as number), 0);
      const taken = (unit.state === 'open' ? Math.max((unit.slack[at] as number) - left, 0) : 0) + (need[at] as number);
      const floor = at === last && !isIdle ? 2 * unit.largest : 0;
      const wished = Math.max(
        (taken * SLICE_MS) / elapsedMs,
        (unit.desired[at] as number) * 0.5 ** (elapsedMs / SLICE_MS),
        floor,
      );
      unit.desired[at] = isContended || limit < 0 ? 0 : Math.min(Math.ceil(wished), Math.floor(limit * SHARE));
    }
  }

  #answered(unit: SliceUnit, claim: SliceClaim, grant: SliceGrant | null, sentAt: number): void {
    const { clock, epochMs } = this.#deps;
    unit.isUnderWay = false;
    // Forgotten meanwhile, or given to another key.
    if (this.#byCell[unit.kind].get(unit.cell.index) !== unit) return;
    const nowMs = clock.now();
    const isPast = claim.id !== unit.idAt(epochMs());
    if (grant === null || isPast) {
      this.#push(unit);
      return;
    }
    unit.grant = grant;
    if (claim.isQuiet) {
      unit.dueMs = Infinity;
      this.#open.delete(unit);
      if (unit.queue.size > 0) this.#push(unit);
      return;
    }
    const used = unit.used(epochMs());
    unit.quota = [...grant.quota];
    for (let at = 0; at < used.length; at++) {
      unit.slack[at] = Math.max((unit.quota[at] as number) - (used[at] as number), 0);
    }
    const low = unit.desired.map((amount, at) => Math.min(Math.ceil(amount / 2), unit.slack[at] as number));
    unit.open(Math.floor((sentAt + SLICE_LEASE_MS) / BUCKET_MS) - 1, grant, low);
    unit.state = 'open';
    unit.answeredMs = nowMs;
    unit.dueMs = nowMs + RENEW_MS;
    this.#open.add(unit);
    this.#deal(unit, used, nowMs);
    if (unit.isUrgent) this.#push(unit);
  }

  /** Tells waiting requests to go on, as far as the slice reaches. */
  #deal(unit: SliceUnit, used: readonly number[], nowMs: number): void {
    const free = unit.quota.map((amount, at) => (limited(unit, at) ? amount - (used[at] as number) : Infinity));
    addTo(free, this.#outstanding(unit, used, nowMs), -1);
    if (unit.promised.length === 0) unit.counted = used[unit.kind === 'key' ? REQUESTS : 0] as number;
    for (const [waiter, { least, most }] of unit.queue) {
      const lacking = least.findIndex((amount, at) => amount > 0 && (free[at] as number) < amount);
      if (lacking !== -1) {
        this.#lack(unit, waiter, lacking, least[lacking] as number, nowMs);
        return;
      }
      const amounts = most.map((amount, at) => Math.min(amount, free[at] as number));
      addTo(free, amounts, -1);
      unit.queue.delete(waiter);
      unit.promised.push({ untilMs: nowMs + ADMIT_MS, amounts });
      if (--waiter.missing === 0) this.#answer(waiter, 'granted');
    }
    unit.setQueued(false);
  }

  /** The first waiting request needs so much of a resource, and the slice has less: asks again, or refuses. */
  #lack(unit: SliceUnit, { sinceMs }: SliceWaiter, lacking: number, first: number, nowMs: number): void {
    const { others = [], spare = [] } = unit.grant ?? {};
    const isElsewhere =
      (spare[lacking] ?? 0) > 0 || (unit.kind === 'key' && lacking === RUNNING && (others[RUNNING] ?? 0) > 0);
    const isLast = nowMs + ASK_AGAIN_MS >= sinceMs + SLICE_WAIT_MS;
    const isFull = isLast || (!isElsewhere && unit.promised.length === 0);
    if (isFull) {
      this.#refuse(unit, lacking, first);
      return;
    }
    if (isElsewhere && nowMs - unit.recalledMs >= RECALL_MS) {
      unit.recalledMs = nowMs;
      this.#store?.recall([unit.idAt(this.#deps.epochMs())]);
    }
    unit.dueMs = nowMs + ASK_AGAIN_MS;
  }

  /** All gateways together have reached the limit: those that wait are admitted by what there is, or refused. */
  #refuse(unit: SliceUnit, resource: number, first: number): void {
    unit.refuse(resource, first, this.#deps.epochMs());
    for (const waiter of unit.queue.keys()) this.#answer(waiter, 'granted');
  }

  #expire(waiter: SliceWaiter): void {
    const isAnswered = waiter.units.every(({ answeredMs }) => answeredMs >= waiter.sinceMs);
    const unit = waiter.units.find(({ queue }) => queue.has(waiter));
    if (isAnswered && unit !== undefined) {
      const { least } = unit.queue.get(waiter) as QueuedNeed;
      const used = unit.used(this.#deps.epochMs());
      const lacking = least.findIndex(
        (amount, at) => amount > 0 && limited(unit, at) && (unit.quota[at] ?? 0) - (used[at] ?? 0) < amount,
      );
      if (lacking !== -1) unit.refuse(lacking, least[lacking] ?? 0, this.#deps.epochMs());
    }
    this.#answer(waiter, isAnswered ? 'granted' : 'whole');
  }

  #answer(waiter: SliceWaiter, use: SliceUse): void {
    if (waiter.isOver) return;
    this.#end(waiter);
    this.#threads.get(waiter.thread)?.tell({ id: waiter.id, use });
  }

  #end(waiter: SliceWaiter): void {
    waiter.isOver = true;
    this.#waiters.delete(`${waiter.thread} ${waiter.id}`);
    for (const unit of waiter.units) {
      if (unit.queue.delete(waiter) && unit.queue.size === 0) unit.setQueued(false);
    }
  }
}

function addTo(sums: number[], amounts: readonly number[], sign: 1 | -1): void {
  for (let at = 0; at < sums.length; at++) sums[at] = (sums[at] as number) + sign * (amounts[at] ?? 0);
}

function limited(unit: SliceUnit, resource: number): boolean {
  return (unit.limits[resource] as number) >= 0;
}
