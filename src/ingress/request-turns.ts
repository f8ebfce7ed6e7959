// How many requests begin in a turn of the event loop. A turn reads from every socket that has something to read. If a request began
// with each read, a burst of them would be parsed, routed and sent on before the answers of earlier ones were looked at: these and
// the events of streams would be late, and each request would be taken up again when the processor's caches no longer hold it.
// So a turn begins few; the others wait as bytes, in the order in which they were read, until what has begun had its answers read.

import { writeBatch } from '../net/write-batch.ts';

/** Requests that begin in a turn of the event loop. Half as many and half as many again cost the same CPU time. */
const REQUESTS_PER_TURN = 48;

/** Most bytes that wait, apart from what their connections read on: a request that finds more begins at once, in memory that is counted. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024;

/** Has bytes of a request that has not begun. */
export interface WaitingRequest {
  /** It is the turn of the request: `mayBegin` answers true once. */
  beginRequest(): void;
}

/** Of one thread: which requests begin now. One that waits is bounded by what its connection may keep. */
export class RequestTurns {
  readonly #waiting: WaitingRequest[] = [];
  /** How many bytes each of them had when it began to wait, and all of them. */
  readonly #sizes: number[] = [];
  #bytes = 0;
  #called: WaitingRequest | null = null;
  #begun = 0;
  #ends = false;

  /**
   * Whether a request, of which `bytes` have come, begins now. Otherwise its `beginRequest` is called in this turn or a later one; it must not ask
   * before.
   */
  mayBegin(request: WaitingRequest, bytes: number): boolean {
    if (this.#called === request) {
      this.#called = null;
    } else if (this.#mustWait(bytes)) {
      this.#waiting.push(request);
      this.#sizes.push(bytes);
      this.#bytes += bytes;
      this.#endTurn();
      return false;
    }
    this.#begun++;
    return true;
  }

  #mustWait(bytes: number): boolean {
    if (this.#waiting.length === 0 && this.#begun < REQUESTS_PER_TURN) return false;
    return this.#bytes + bytes <= MOST_WAITING_BYTES;
  }

  /**
   * Immediates come behind all reads of a turn. A turn in which nothing waits has none, and the next one counts on: an immediate for
   * each would be a call for every request of a quiet gateway, and a request that waits without need begins in the same turn.
   */
  #endTurn(): void {
    if (this.#ends) return;
    this.#ends = true;
    setImmediate(beginNext, this);
  }

  /** @internal */
  beginNext(): void {
    this.#ends = false;
    this.#begun = 0;
    let called = 0;
    // A connection that has a further request waits behind the others, which may leave it a part of the same turn.
    while (called < this.#waiting.length && this.#begun < REQUESTS_PER_TURN) {
      this.#bytes -= this.#sizes[called] as number;
      const request = this.#waiting[called++] as WaitingRequest;
      this.#called = request;
      request.beginRequest();
    }
    this.#called = null;
    this.#waiting.splice(0, called);
    this.#sizes.splice(0, called);
    if (this.#waiting.length > 0) this.#endTurn();
    // What these have sent needs not wait for another turn.
    writeBatch.flush();
  }
}

function beginNext(turns: RequestTurns): void {
  turns.beginNext();
}
