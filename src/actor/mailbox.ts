// A mailbox: a ring buffer of messages that grows up to its capacity. Positions are wrapping 32-bit counts of all messages
// so far, so that a notice (a timer, a `Terminated`) can be placed behind the messages that came before it.

/**
 * What happens to a message that meets a full mailbox.
 * - `drop-new`: the arriving message becomes a dead letter
 * - `drop-old`: the oldest waiting message becomes a dead letter, the new one is kept
 * - `fail`: the arriving message becomes a dead letter and `tell` throws `MailboxFullError` at the sender
 */
export type Overflow = 'drop-new' | 'drop-old' | 'fail';

export interface MailboxOptions {
  /** Messages that may wait at once; at least 1. */
  readonly capacity: number;
  readonly overflow: Overflow;
}

/** Holds a burst of a few thousand small messages; 64 KiB of slots when full. */
export const DEFAULT_MAILBOX: MailboxOptions = { capacity: 8192, overflow: 'drop-new' };

const INITIAL_SLOTS = 8;

export class Mailbox<T> {
  readonly capacity: number;
  #slots: (T | undefined)[] = emptySlots(INITIAL_SLOTS);
  #mask: number = INITIAL_SLOTS - 1;
  #head = 0;
  #tail = 0;

  constructor(capacity: number) {
    if (!(capacity >= 1)) throw new RangeError('the capacity of a mailbox must be at least 1');
    this.capacity = capacity;
  }

  /** Messages waiting. */
  get size(): number {
    return (this.#tail - this.#head) | 0;
  }

  /** The position behind the last message waiting now. */
  get end(): number {
    return this.#tail;
  }

  /** Whether everything that waited before `position` has been taken. */
  reached(position: number): boolean {
    return ((this.#head - position) | 0) >= 0;
  }

  /** Appends a message; false, and nothing done, when the mailbox is full. */
  push(message: T): boolean {
    const size = (this.#tail - this.#head) | 0;
    if (size >= this.capacity) return false;
    if (size > this.#mask) this.#grow();
    this.#slots[this.#tail & this.#mask] = message;
    this.#tail = (this.#tail + 1) | 0;
    return true;
  }

  /** Removes and returns the oldest message. Not to be called when `size` is 0. */
  shift(): T {
    const index = this.#head & this.#mask;
    const message = this.#slots[index] as T;
    this.#slots[index] = undefined;
    this.#head = (this.#head + 1) | 0;
    return message;
  }

  #grow(): void {
    const slots = emptySlots<T>(this.#slots.length * 2);
    const mask = slots.length - 1;
    // Positions in use must stay valid: the counters are kept and the copy is aligned to them.
    for (let at = this.#head; at !== this.#tail; at = (at + 1) | 0) slots[at & mask] = this.#slots[at & this.#mask];
    this.#slots = slots;
    this.#mask = mask;
  }
}

function emptySlots<T>(count: number): (T | undefined)[] {
  const slots: (T | undefined)[] = [];
  slots.length = count;
  return slots.fill(undefined);
}
