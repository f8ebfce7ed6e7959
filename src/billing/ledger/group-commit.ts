// Group commit of the ledger: all waiting commands go into one commit; while it runs, and until `lingerMs` have passed since it
// began, the next one gathers. Commands on an account that another process has locked leave the batch for a lane of their
// own, in which they wait in order; all others go on. A submission resolves after the commits of all its commands are durable.

import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { Blame } from './database.ts';
import { LedgerError } from './ledger.ts';

/** How one command ended; a rejected one has changed nothing. */
export type Outcome = PromiseSettledResult<unknown>;

/** The command was left out because the account is locked by another process or waits in its lane. */
export interface Deferred {
  readonly status: 'deferred';
  readonly account: string;
}

/** Where a commit runs: in the lane of an account it waits for locks; else it leaves out what is locked or in a lane. */
export interface CommitPlace {
  readonly lane: string | null;
  /** Accounts that have a lane. */
  readonly lanes: Iterable<string>;
}

export interface GroupCommitOptions<Command> {
  readonly clock: Clock;
  /** Shortest time between the starts of two commits in milliseconds; after a longer pause a command goes at once. */
  readonly lingerMs: number;
  /** Most commands of one commit. */
  readonly maxBatch: number;
  /** When so many commands wait, submissions are refused. */
  readonly maxWaiting: number;
  /** Longest time for all tries of one batch, in milliseconds; what is left of it then is rejected. */
  readonly maxBatchMs: number;
  /** Commits the commands together, or rejects when nothing was committed or the outcome is unknown. Safe to repeat. */
  readonly commit: (commands: readonly Command[], place: CommitPlace) => Promise<readonly (Outcome | Deferred)[]>;
  readonly blame: (error: unknown) => Blame;
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

/** Tries of a batch before it is halved, or rejected where halves would do no better. */
const TRIES: Readonly<Record<Blame, number>> = { command: 1, conflict: 5, store: 2 };

/** Lanes that commit at the same time: each may occupy a connection until its lock times out. */
const LANES_AT_ONCE = 2;

export class GroupCommit<Command> {
  readonly #options: GroupCommitOptions<Command>;
  /** What waits for its account, by account. */
  readonly #lanes = new Map<string, Waiting<Command>[]>();
  readonly #runningLanes = new Map<string, Promise<void>>();
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
    while (this.#runningLanes.size > 0) await Promise.all(this.#runningLanes.values());
  }

  /** Not at once where a commit is due: what is submitted in the same turn joins it. */
  #arm(defer: (flush: () => void) => void = queueMicrotask): void {
    if (this.#armed || this.#running !== undefined || this.#waiting.length === 0 || this.#closed) return;
    this.#armed = true;
    const { clock, lingerMs } = this.#options;
    const delayMs = this.#lastMs + lingerMs - clock.now();
    const flush = (): void => {
      this.#armed = false;
      this.#timer = undefined;
      if (this.#running === undefined && this.#waiting.length > 0) void this.#flush();
    };
    if (delayMs <= 0) defer(flush);
    else this.#timer = clock.setTimeout(flush, delayMs);
  }

  #flush(): Promise<void> {
    this.#lastMs = this.#options.clock.now();
    const batch = this.#waiting.slice(0, this.#options.maxBatch);
    this.#waiting = this.#waiting.slice(batch.length);
    this.#running = this.#commit(batch, null, this.#deadlineMs()).finally(() => {
      this.#running = undefined;
      this.#startLanes();
      // Where the store works in this thread, all else would wait until the last commit of a backlog.
      this.#arm(setImmediate);
    });
    return this.#running;
  }

  #deadlineMs(): number {
    return this.#options.clock.now() + this.#options.maxBatchMs;
  }

  #startLanes(): void {
    for (const account of this.#lanes.keys()) {
      if (this.#runningLanes.size >= LANES_AT_ONCE) return;
      if (!this.#runningLanes.has(account)) this.#runningLanes.set(account, this.#runLane(account));
    }
  }

  /** The lane stays until it is empty, so that the commands of its account keep their order. */
  async #runLane(account: string): Promise<void> {
    for (;;) {
      const batch = this.#lanes.get(account)?.splice(0, this.#options.maxBatch) ?? [];
      if (batch.length === 0) break;
      await this.#commit(batch, account, this.#deadlineMs());
    }
    this.#lanes.delete(account);
    this.#runningLanes.delete(account);
    this.#startLanes();
  }

  async #commit(batch: readonly Waiting<Command>[], lane: string | null, deadlineMs: number): Promise<void> {
    const { blame: blameOf, clock, commit } = this.#options;
    const commands: Command[] = [];
    for (const { command } of batch) commands.push(command);
    for (let tries = 1; ; tries++) {
      try {
        const outcomes = await commit(commands, { lane, lanes: this.#lanes.keys() });
        for (const [at, waiting] of batch.entries()) this.#end(waiting, outcomes[at] as Outcome | Deferred);
        return;
      } catch (error) {
        const blame = blameOf(error);
        const isLate = clock.now() >= deadlineMs;
        // A lane waits for its account; halves of it would wait for the same.
        const waits = lane !== null && blame === 'conflict';
        if (!isLate && (waits || tries < TRIES[blame])) continue;
        if (!isLate && batch.length > 1 && blame !== 'store') {
          const half = Math.ceil(batch.length / 2);
          await this.#commit(batch.slice(0, half), lane, deadlineMs);
          await this.#commit(batch.slice(half), lane, deadlineMs);
          return;
        }
        for (const waiting of batch) this.#end(waiting, { status: 'rejected', reason: error });
        return;
      }
    }
  }

  #end(waiting: Waiting<Command>, outcome: Outcome | Deferred): void {
    if (outcome.status === 'deferred') {
      const lane = this.#lanes.get(outcome.account);
      if (lane === undefined) this.#lanes.set(outcome.account, [waiting]);
      else lane.push(waiting);
      return;
    }
    const { at, submission } = waiting;
    submission.outcomes[at] = outcome;
    if (--submission.open === 0) submission.resolve(submission.outcomes);
  }
}
