// The sequences that wait for room, first come first served; the ones memory pressure pushed out go to the front.
// Used by batch.ts and scheduler.ts. Cancelled ones are left in place and skipped, so that cancelling costs nothing.
import type { Sequence } from './sequence.ts';

/** Passed entries are dropped once there are so many and they are half of the line. */
const COMPACT_AT = 1024;

export class WaitingLine {
  #line: (Sequence | undefined)[] = [];
  #head = 0;
  #cancelled = 0;

  get size(): number {
    return this.#line.length - this.#head - this.#cancelled;
  }

  /** The next in line that was not cancelled. */
  get first(): Sequence | undefined {
    while (this.#line[this.#head]?.isWaiting === false) {
      this.#cancelled--;
      this.#pass();
    }
    return this.#line[this.#head];
  }

  push(sequence: Sequence): void {
    sequence.isWaiting = true;
    this.#line.push(sequence);
  }

  pushFront(sequence: Sequence): void {
    sequence.isWaiting = true;
    if (this.#head === 0) this.#line.unshift(sequence);
    else this.#line[--this.#head] = sequence;
  }

  shift(): Sequence | undefined {
    const first = this.first;
    if (first === undefined) return undefined;
    first.isWaiting = false;
    this.#pass();
    return first;
  }

  /** Takes one out that stands in the line. */
  cancel(sequence: Sequence): void {
    sequence.isCancelled = true;
    sequence.isWaiting = false;
    this.#cancelled++;
  }

  #pass(): void {
    this.#line[this.#head++] = undefined;
    if (this.#head < COMPACT_AT || this.#head * 2 < this.#line.length) return;
    this.#line = this.#line.slice(this.#head);
    this.#head = 0;
  }
}
