// Many callers, few commits. Whatever waits goes into one commit; while that runs, and until `lingerMs` have passed
// since it began, the next one gathers. Every caller hears after its own commit is durable. Called by the ledger.

import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { Blame } from './database.ts';
import { LedgerError } from './store.ts';

/** How one command of a commit ended; a refused one has changed nothing. */
export type Outcome =
  { readonly kind: 'done'; readonly answer: unknown } | { readonly kind: 'refused'; error: unknown };

export interface GroupCommitOptions<Command> {
  readonly clock: Clock;
  /** Shortest time between the beginnings of two commits in milliseconds; a command that finds it passed goes at once. */
  readonly lingerMs: number;
  /** Most commands of one commit. */
  readonly maxBatch: number;
  /** Most commands that wait; more are refused. */
  readonly maxWaiting: number;
  /** Commits the commands together, or rejects when nothing was committed or nobody knows. Safe to repeat. */
  commit(commands: readonly Command[]): Promise<readonly Outcome[]>;
  blame(error: unknown): Blame;
}

interface Waiting<Command> {
  readonly command: Command;
  readonly settle: (outcome: Outcome) => void;
}

/** How often a commit is tried again when it ran into another process or lost its database. */
const RETRIES: Readonly<Record<Blame, number>> = { command: 0, conflict: 4, store: 1 };

export class GroupCommit<Command> {
  readonly #options: GroupCommitOptions<Command>;
  #waiting: Waiting<Command>[] = [];
  #running: Promise<void> | undefined;
  #timer: TimerHandle | undefined;
  #armed = false;
  #lastMs = -Infinity;
  #closed = false;

  constructor(options: GroupCommitOptions<Command>) {
    this.#options = options;
  }

  /** Resolves with the answer of the command once it is durable. */
  submit(command: Command): Promise<unknown> {
    if (this.#closed) return Promise.reject(new LedgerError('closed', 'The ledger is closed'));
    if (this.#waiting.length >= this.#options.maxWaiting) {
      return Promise.reject(new LedgerError('queue-full', `${this.#waiting.length} commands wait for the store`));
    }
    return new Promise((resolve, reject) => {
      const settle = (outcome: Outcome): void =>
        outcome.kind === 'done' ? resolve(outcome.answer) : reject(outcome.error as Error);
      this.#waiting.push({ command, settle });
      this.#arm();
    });
  }

  /** Commits what waits without lingering; later commands are refused. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== undefined) this.#options.clock.clearTimeout(this.#timer);
    while (this.#running !== undefined || this.#waiting.length > 0) await (this.#running ?? this.#flush());
  }

  #arm(): void {
    if (this.#armed || this.#running !== undefined || this.#waiting.length === 0 || this.#closed) return;
    this.#armed = true;
    const { clock, lingerMs } = this.#options;
    const delayMs = this.#lastMs + lingerMs - clock.now();
    const flush = (): void => {
      this.#armed = false;
      this.#timer = undefined;
      if (this.#running === undefined && this.#waiting.length > 0) void this.#flush();
    };
    // Not at once: what the caller submits in the same turn goes along.
    if (delayMs <= 0) queueMicrotask(flush);
    else this.#timer = clock.setTimeout(flush, delayMs);
  }

  #flush(): Promise<void> {
    this.#lastMs = this.#options.clock.now();
    const batch = this.#waiting.slice(0, this.#options.maxBatch);
    this.#waiting = this.#waiting.slice(batch.length);
    this.#running = this.#commit(batch).finally(() => {
      this.#running = undefined;
      this.#arm();
    });
    return this.#running;
  }

  async #commit(batch: readonly Waiting<Command>[]): Promise<void> {
    const [error, outcomes] = await this.#attempt(batch.map((waiting) => waiting.command));
    if (outcomes !== undefined) {
      batch.forEach((waiting, at) => waiting.settle(outcomes[at] as Outcome));
    } else if (batch.length > 1 && this.#options.blame(error) !== 'store') {
      for (const waiting of batch) await this.#commit([waiting]);
    } else {
      for (const waiting of batch) waiting.settle({ kind: 'refused', error });
    }
  }

  async #attempt(commands: readonly Command[]): Promise<[unknown, readonly Outcome[] | undefined]> {
    for (let tried = 0; ; tried++) {
      try {
        return [undefined, await this.#options.commit(commands)];
      } catch (error) {
        if (tried >= RETRIES[this.#options.blame(error)]) return [error, undefined];
      }
    }
  }
}
