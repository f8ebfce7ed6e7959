// When connections read on that have read as much as the buffer takes. What is done with that takes up to a millisecond, and a turn of the
// event loop reads from every connection that has something: a few dozen large answers at once would keep all other requests of the
// thread waiting for the sum of theirs in every turn. So a turn lets few of them read on, in the order in which they stopped.

/** Connections that read on in a turn of the event loop. One alone is never kept waiting. */
const READS_PER_TURN = 4;

export class FullReads {
  #waiting: (() => void)[] = [];

  /** Calls `readOn` in this turn or a later one, behind those that were added before. It must not throw. */
  add(readOn: () => void): void {
    if (this.#waiting.push(readOn) === 1) setImmediate(turn, this);
  }

  /** @internal */
  turn(): void {
    const few = this.#waiting.slice(0, READS_PER_TURN);
    for (const readOn of few) readOn();
    // One that was added meanwhile finds these, so that no second turn begins.
    this.#waiting.splice(0, few.length);
    if (this.#waiting.length > 0) setImmediate(turn, this);
  }
}

function turn(turns: FullReads): void {
  turns.turn();
}

/** Of this thread. */
export const fullReads: FullReads = new FullReads();
