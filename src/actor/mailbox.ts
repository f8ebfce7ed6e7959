// The queue in front of an actor: a ring that grows up to its capacity and then follows a named overflow policy.
// Called for every message, so it does nothing but move two counters. Positions are wrapping 32-bit counts of
// messages ever taken, which lets an actor place news (a timer, a `Terminated`) behind the messages that came before.

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

/** Room for a burst of a few thousand small messages (64 KiB of slots when full) before pressure shows. */
export const DEFAULT_MAILBOX: MailboxOptions = { capacity: 8192, overflow: 'drop-new' };

const INITIAL_SLOTS = 8;

export class Mailbox<T> {
  readonly capacity: number;
  #slots: (T | undefined)[] = emptySlots(INITIAL_SLOTS);
  #mask: number = INITIAL_SLOTS - 1;
  #head = 0;
  #tail = 0;

  constructor(capacity: number) {
    if (!(capacity >= 1)) throw new RangeError('a mailbox holds at least one message');
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

  /** Takes the oldest message. Ask `size` first: an empty mailbox has none to give. */
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
    // Positions given out must stay valid: the counters are kept and the copy is aligned to them.
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
