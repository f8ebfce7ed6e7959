// One request to an attached engine: a pooled connection, a deadline for each phase, and a body that is read no faster than
// it is consumed. It ends once: with the whole body, a failure, or cancellation.
import {
  type Connection,
  type ConnectionPool,
  type DispatchError,
  type DispatchHandler,
  type DispatchOptions,
} from '../../net/client.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../../net/deadline.ts';

/** How long an engine may take, in milliseconds. */
export interface EngineTimeouts {
  /** Until the socket is open. */
  readonly connectMs: number;
  /**
   * From the request sent to the head of the answer, and from there to the first piece of its body: an engine may keep
   * a request waiting after either, and makes an answer that is not streamed in this time.
   */
  readonly firstMs: number;
  /** Between two pieces of the body. */
  readonly idleMs: number;
}

/** An answer whose body is still to come. Headers are flat: name in lower case, value. */
export interface OpenAnswer {
  readonly status: number;
  readonly headers: readonly string[];
  /** Read it once; leaving the loop early ends the request. */
  readonly body: AsyncIterable<Buffer>;
}

/** The body; of a longer one hardly more than its first `maxBytes`. */
export async function firstBytes({ body }: OpenAnswer, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of body) {
    pieces.push(piece);
    bytes += piece.byteLength;
    if (bytes > maxBytes) break;
  }
  return Buffer.concat(pieces);
}

export interface FailureDetails {
  /** Status for the client; default 502. */
  readonly status?: number;
  /** True when not even the head of an answer came, so that the engine itself is in doubt; default false. */
  readonly isUnreachable?: boolean;
  readonly cause?: unknown;
}

/** Why an engine gave no whole answer; `message` says so to people. */
export class AttachedEngineError extends Error {
  override readonly name = 'AttachedEngineError';
  readonly status: number;
  readonly isUnreachable: boolean;

  constructor(message: string, { status = 502, isUnreachable = false, cause }: FailureDetails = {}) {
    super(message, { cause });
    this.status = status;
    this.isUnreachable = isUnreachable;
  }
}

export interface EngineDispatchDeps {
  readonly pool: ConnectionPool;
  readonly deadlines: DeadlineQueue;
  readonly timeouts: EngineTimeouts;
}

/** Bytes of the body that may wait for their reader before the engine is paused. */
const MOST_WAITING_BYTES = 256 * 1024;

type Phase = 'connect' | 'headers' | 'body' | 'done';

const SENTENCES: Readonly<Record<Phase, string>> = {
  connect: 'the engine cannot be reached',
  headers: 'the engine closed the connection without an answer',
  body: 'the engine broke off in the middle of its answer',
  done: '',
};

const LATE: Readonly<Record<Phase, string>> = {
  connect: 'the engine cannot be reached in time',
  headers: 'the engine did not answer in time',
  body: 'the engine fell silent in the middle of its answer',
  done: '',
};

export class EngineDispatch implements DispatchHandler, Expirable {
  readonly #deps: EngineDispatchDeps;
  readonly #options: DispatchOptions;
  readonly #signal: AbortSignal;
  readonly #deadline: Deadline;
  readonly #chunks: Buffer[] = [];
  #waitingBytes = 0;
  #connection: Connection | null = null;
  #phase: Phase = 'connect';
  #isPaused = false;
  #isRetried = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;
  #onHead: (answer: OpenAnswer) => void = () => undefined;
  #onFailed: (error: Error) => void = () => undefined;

  constructor(deps: EngineDispatchDeps, options: DispatchOptions, signal: AbortSignal) {
    this.#deps = deps;
    this.#options = options;
    this.#signal = signal;
    this.#deadline = deps.deadlines.deadline(this);
  }

  /** Sends the request. Rejects with AttachedEngineError, or with the reason of the signal. */
  start(): Promise<OpenAnswer> {
    return new Promise((resolve, reject) => {
      this.#signal.throwIfAborted();
      this.#onHead = resolve;
      this.#onFailed = reject;
      this.#signal.addEventListener('abort', this.#leave);
      this.#dispatch(false);
    });
  }

  /** @internal */
  expire(): void {
    const isUnreachable = this.#phase !== 'body';
    this.#fail(new AttachedEngineError(LATE[this.#phase], { status: 504, isUnreachable }));
  }

  /** @internal */
  onRequestSent(): void {
    this.#phase = 'headers';
    this.#deadline.set(this.#deps.timeouts.firstMs);
  }

  /** @internal */
  onResponseStart(status: number, headers: readonly string[]): void {
    if (this.#phase === 'done') return;
    this.#phase = 'body';
    this.#deadline.set(this.#deps.timeouts.firstMs);
    this.#onHead({ status, headers, body: this.#body() });
  }

  /** @internal */
  onResponseData(chunk: Buffer): void {
    if (this.#phase === 'done') return;
    this.#chunks.push(Buffer.from(chunk));
    this.#waitingBytes += chunk.byteLength;
    if (this.#waitingBytes > MOST_WAITING_BYTES && !this.#isPaused) {
      this.#isPaused = true;
      // Its silence is our own doing now.
      this.#deadline.clear();
      this.#connection?.pause(this);
    }
    if (!this.#isPaused) this.#deadline.set(this.#deps.timeouts.idleMs);
    this.#wake?.();
  }

  /** @internal */
  onResponseEnd(): void {
    if (this.#phase === 'done') return;
    this.#finish();
    this.#wake?.();
  }

  /** @internal */
  onResponseError(error: DispatchError): void {
    if (this.#phase === 'done') return;
    if (error.fault === 'no connection free') {
      return this.#fail(
        new AttachedEngineError('the engine has reached its limit of concurrent requests', { status: 503 }),
      );
    }
    if (error.fault !== 'stale' || this.#isRetried) {
      const isUnreachable = this.#phase !== 'body';
      return this.#fail(new AttachedEngineError(SENTENCES[this.#phase], { isUnreachable, cause: error }));
    }
    // A kept connection was closed while the request was sent: this does not count against the engine.
    this.#isRetried = true;
    this.#connection = null;
    this.#phase = 'connect';
    this.#dispatch(true);
  }

  #dispatch(isFresh: boolean): void {
    this.#deadline.set(this.#deps.timeouts.connectMs);
    const connection = this.#deps.pool.dispatch(this.#options, this, isFresh);
    // A request that failed at once may have been sent again by then.
    if (connection !== null) this.#connection = connection;
  }

  async *#body(): AsyncGenerator<Buffer, void, void> {
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk !== undefined) {
          this.#waitingBytes -= chunk.byteLength;
          yield chunk;
        } else if (this.#failure !== undefined) throw this.#failure;
        else if (this.#phase === 'done') return;
        else await this.#more();
      }
    } finally {
      this.#finish();
    }
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (!this.#isPaused) return;
      this.#isPaused = false;
      this.#deadline.set(this.#deps.timeouts.idleMs);
      this.#connection?.resume(this);
    });
  }

  readonly #leave = (): void => this.#fail(this.#signal.reason as Error);

  #fail(error: Error): void {
    if (this.#phase === 'done') return;
    this.#failure = error;
    const isHeadless = this.#phase !== 'body';
    this.#finish();
    if (isHeadless) this.#onFailed(error);
    this.#wake?.();
  }

  #finish(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.#deadline.clear();
    this.#signal.removeEventListener('abort', this.#leave);
    this.#connection?.abort(this);
    this.#connection = null;
  }
}
