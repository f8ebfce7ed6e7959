// Group commit of the ledger: all waiting commands go into one commit; while it runs, and until `lingerMs` have passed since it
// began, the next one gathers. A submission resolves after the commits of all its commands are durable.

import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { Blame } from './database.ts';
import { LedgerError } from './store.ts';

/** How one command ended; a rejected one has changed nothing. */
export type Outcome = PromiseSettledResult<unknown>;

export interface GroupCommitOptions<Command> {
  readonly clock: Clock;
  /** Shortest time between the starts of two commits in milliseconds; after a longer pause a command goes at once. */
  readonly lingerMs: number;
  /** Most commands of one commit. */
  readonly maxBatch: number;
  /** When so many commands wait, submissions are refused. */
  readonly maxWaiting: number;
  /** Commits the commands together, or rejects when nothing was committed or the outcome is unknown. Safe to repeat. */
  commit(commands: readonly Command[]): Promise<readonly Outcome[]>;
  blame(error: unknown): Blame;
}

/** Commands that were submitted together. */
interface Submission {
  readonly outcomes: Outcome[];
  open: number;
  readonly resolve: (outcomes: readonly Outcome[]) => void;
}

interface Waiting<Command> {
  readonly command: Command;
  readonly submission: Submission;
  /** Its place among the outcomes. */
  readonly at: number;
}

/** How often a commit is tried again after a conflict with another process or a lost connection. */
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

  /** Resolves with one outcome for each command. Rejects when nothing was accepted: `queue-full`, `closed`. */
  submit(commands: readonly Command[]): Promise<readonly Outcome[]> {
    if (this.#closed) return Promise.reject(new LedgerError('closed', 'The ledger is closed'));
    if (this.#waiting.length >= this.#options.maxWaiting) {
      return Promise.reject(new LedgerError('queue-full', `${this.#waiting.length} commands wait for the store`));
    }
    if (commands.length === 0) return Promise.resolve([]);
    const { promise, resolve } = Promise.withResolvers<readonly Outcome[]>();
    const submission = { outcomes: [], open: commands.length, resolve };
    for (const [at, command] of commands.entries()) this.#waiting.push({ command, submission, at });
    this.#arm();
    return promise;
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
    // Not at once: what is submitted in the same turn joins this commit.
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
    const commands: Command[] = [];
    for (const { command } of batch) commands.push(command);
    let outcomes: readonly Outcome[] = [];
    let failure: Outcome | undefined;
    for (let tries = 0; ; tries++) {
      try {
        outcomes = await this.#options.commit(commands);
        break;
      } catch (error) {
        const blame = this.#options.blame(error);
        if (tries < RETRIES[blame]) continue;
        if (batch.length > 1 && blame !== 'store') {
          for (const waiting of batch) await this.#commit([waiting]);
          return;
        }
        failure = { status: 'rejected', reason: error };
        break;
      }
    }
    for (const [index, { at, submission }] of batch.entries()) {
      submission.outcomes[at] = failure ?? (outcomes[index] as Outcome);
      if (--submission.open === 0) submission.resolve(submission.outcomes);
    }
  }
}
