// Deadlines of asks on a hashed timing wheel with one timer: O(1) add and remove, whatever the durations; asks often carry
// the rest of a budget, so no two are equal. A deadline is never early, and late by no more than the clock's own timer.

import type { Clock, TimerHandle } from './clock.ts';

/** Something with a deadline, as an entry of the wheel's linked lists. */
export interface Deadlined {
  dueMs: number;
  previousDeadline: Deadlined | null;
  nextDeadline: Deadlined | null;
  /** Called once, when time is up and the entry has left the wheel. */
  expire(): void;
}

const SLOT_MS = 16;
const SLOTS = 256;
/** Longest sleep: limits how long an idle wheel keeps the process alive, and how far a sweep looks ahead. */
const MAX_SLEEP_MS = 256;

export class Deadlines {
  readonly #clock: Clock;
  readonly #slots: (Deadlined | null)[] = Array.from({ length: SLOTS }, () => null);
  #pending = 0;
  #sweptSlot = 0;
  #wakeMs = Infinity;
  #timer: TimerHandle | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Entries whose deadline lies ahead. */
  get pending(): number {
    return this.#pending;
  }

  add(entry: Deadlined, timeoutMs: number): void {
    const nowMs = this.#clock.now();
    entry.dueMs = nowMs + timeoutMs;
    const index = slotOf(entry.dueMs) % SLOTS;
    const head = this.#slots[index] ?? null;
    entry.nextDeadline = head;
    if (head !== null) head.previousDeadline = entry;
    this.#slots[index] = entry;
    if (this.#pending++ === 0) this.#sweptSlot = slotOf(nowMs);
    const wakeMs = Math.min(entry.dueMs, nowMs + MAX_SLEEP_MS);
    if (wakeMs < this.#wakeMs) this.#sleep(wakeMs, nowMs);
  }

  /** Removes an entry that was added and has not expired. */
  remove(entry: Deadlined): void {
    const { previousDeadline, nextDeadline } = entry;
    if (previousDeadline === null) this.#slots[slotOf(entry.dueMs) % SLOTS] = nextDeadline;
    else previousDeadline.nextDeadline = nextDeadline;
    if (nextDeadline !== null) nextDeadline.previousDeadline = previousDeadline;
    entry.previousDeadline = null;
    entry.nextDeadline = null;
    this.#pending--;
  }

  #sleep(wakeMs: number, nowMs: number): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#wakeMs = wakeMs;
    this.#timer = this.#clock.setTimeout(this.#sweep, wakeMs - nowMs);
  }

  readonly #sweep = (): void => {
    this.#timer = null;
    this.#wakeMs = Infinity;
    const nowMs = this.#clock.now();
    const nowSlot = slotOf(nowMs);
    const firstSlot = Math.max(this.#sweptSlot, nowSlot - SLOTS + 1);
    const expired: Deadlined[] = [];
    for (let slot = firstSlot; slot <= nowSlot; slot++) this.#collect(slot, nowMs, expired);
    this.#sweptSlot = nowSlot;
    for (const entry of expired) this.remove(entry);
    if (this.#pending > 0) this.#sleep(this.#nextWakeMs(nowMs), nowMs);
    expired.sort((a, b) => a.dueMs - b.dueMs);
    for (const entry of expired) entry.expire();
  };

  #collect(slot: number, nowMs: number, expired: Deadlined[]): void {
    for (let entry = this.#slots[slot % SLOTS] ?? null; entry !== null; entry = entry.nextDeadline) {
      if (entry.dueMs <= nowMs) expired.push(entry);
    }
  }

  #nextWakeMs(nowMs: number): number {
    let wakeMs = nowMs + MAX_SLEEP_MS;
    const lastSlot = slotOf(wakeMs);
    for (let slot = slotOf(nowMs); slot <= lastSlot; slot++) {
      for (let entry = this.#slots[slot % SLOTS] ?? null; entry !== null; entry = entry.nextDeadline) {
        if (entry.dueMs < wakeMs) wakeMs = entry.dueMs;
      }
      if (wakeMs < (slot + 1) * SLOT_MS) break;
    }
    return wakeMs;
  }
}

function slotOf(timeMs: number): number {
  return Math.floor(timeMs / SLOT_MS);
}
