// Small messages that leave together. A write to a socket of the same machine wakes the process that waits for it, within the system call.
// What a turn of the event loop writes to several sockets wakes each process once if it is written at the end of the turn, since the process
// is at work when the second message comes. A gateway with little to do gains nothing and would answer later: there each message is written
// at once.

/** Has bytes that wait for the end of the turn. */
export interface BatchedWriter {
  /** Writes them, if there are any still. What it throws is an uncaught error of the thread. */
  sendBatched(): void;
}

/** Writers of a batch: more would delay the first ones, and gain nothing. */
const MOST_WRITERS = 32;
/** Messages in a turn from which batches begin, and below which they end. */
const FEW = 8;
/** Messages after which the ones of a turn are counted, and batches with few writers after which the next message is written at once. */
const SAMPLE = 64;
/** Memory for the messages of a batch. All of it is kept for as long as a socket needs a part. */
const MEMORY_BYTES = 16 * 1024;
/** Bytes in it from which a batch leaves. */
const FULL_BYTES = 12 * 1024;

/** Of one thread. */
export class WriteBatch {
  /** Small messages are put together here, from `used` on. Replaced when a socket still needs it. */
  memory: Buffer = Buffer.allocUnsafeSlow(MEMORY_BYTES);
  /** Bytes at the beginning of `memory` that wait for the end of the turn. */
  used = 0;
  /** Calls of `flush` that have not returned: a writer may write what belongs to the next batch. */
  #flushing = 0;
  #writers: BatchedWriter[] = [];
  #isBatching = false;
  #isTurnEndSet = false;
  /** Messages written at once since those of a turn were counted. */
  #direct = 0;
  /** Batches with few writers, one after the other. */
  #fewTimes = 0;

  /** Whether a message that is about to be written waits for the end of the turn: then `add` its writer. */
  collects(): boolean {
    if (!this.#isBatching && ++this.#direct >= SAMPLE && !this.#isTurnEndSet) {
      this.#direct = 0;
      this.#atTurnEnd();
    }
    return this.#isBatching;
  }

  /** `writer` has all that it is going to write: a full batch leaves at once. It may be added again before its `sendBatched` is called. */
  add(writer: BatchedWriter): void {
    this.#writers.push(writer);
    if (this.#writers.length >= MOST_WRITERS || this.used >= FULL_BYTES) this.flush();
    else if (!this.#isTurnEndSet) this.#atTurnEnd();
  }

  /** Whether so many bytes fit into `memory` behind `used`. */
  hasRoom(bytes: number): boolean {
    return this.used + bytes <= MEMORY_BYTES;
  }

  /** Writes what waits. */
  flush(): void {
    const writers = this.#writers;
    if (writers.length === 0) return;
    this.#writers = [];
    this.#flushing++;
    for (const writer of writers) {
      try {
        writer.sendBatched();
      } catch (error) {
        setImmediate(surface, error);
      }
    }
    this.#flushing--;
    this.#fewTimes = writers.length < FEW ? this.#fewTimes + 1 : 0;
    if (this.#flushing > 0 || this.#writers.length > 0) return;
    this.used = 0;
    if (this.#fewTimes < SAMPLE) return;
    this.#fewTimes = 0;
    this.#isBatching = false;
  }

  /** A socket needs `memory` from now on. */
  giveAway(): void {
    this.memory = Buffer.allocUnsafeSlow(MEMORY_BYTES);
  }

  /** Immediates come behind all reads of a turn. */
  #atTurnEnd(): void {
    this.#isTurnEndSet = true;
    setImmediate(endTurn, this);
  }

  /** @internal */
  endTurn(): void {
    this.#isTurnEndSet = false;
    if (this.#isBatching) {
      this.flush();
    } else {
      this.#isBatching = this.#direct >= FEW;
      this.#direct = 0;
    }
  }
}

function surface(error: unknown): never {
  throw error;
}

function endTurn(batch: WriteBatch): void {
  batch.endTurn();
}

/** That of this thread. */
export const writeBatch: WriteBatch = new WriteBatch();
