// Calls that their clients may cancel by another request, which may reach another thread or gateway. A call is named by a digest of the
// caller, of the session and of the id of its JSON-RPC request: only whoever has begun a call can name it.

import { createHash } from 'node:crypto';

/** Told between threads: whoever has this call ends it. */
export interface CancelCommand {
  readonly type: 'Cancel';
  /** Hexadecimal. */
  readonly digest: string;
}

/** The name of a call. */
export function digestOf(caller: string, session: string, id: string | number): string {
  return createHash('sha256')
    .update(JSON.stringify([caller, session, id]))
    .digest('hex');
}

/** Calls of one thread that may be cancelled, by their digests. Every call takes itself out at its end. */
export class Cancellations {
  /** `abort` is null after the end, since tables of the map that are no longer used keep values alive: see `IntrusiveSet`. */
  readonly #calls = new Map<string, { abort: (() => void) | null }>();
  readonly #tell: (command: CancelCommand) => void;

  /** `tell` says it to the other threads and gateways. */
  constructor(tell: (command: CancelCommand) => void) {
    this.#tell = tell;
  }

  /** A call has begun. Returns what is to be called at its end. */
  add(digest: string, abort: () => void): () => void {
    const call: { abort: (() => void) | null } = { abort };
    this.#calls.set(digest, call);
    return () => {
      call.abort = null;
      if (this.#calls.get(digest) === call) this.#calls.delete(digest);
    };
  }

  /** A client has cancelled a call, which may be anywhere. */
  cancel(digest: string): void {
    if (!this.cancelled(digest)) this.#tell({ type: 'Cancel', digest });
  }

  /** Ends a call if this thread has it. */
  cancelled(digest: string): boolean {
    const abort = this.#calls.get(digest)?.abort ?? null;
    this.#calls.delete(digest);
    abort?.();
    return abort !== null;
  }

  get size(): number {
    return this.#calls.size;
  }
}
