// Change feed of the store, which invalidates caches in every process. A change takes the next number under the lock of one
// counter, so numbers appear in the order of commits, and a watcher that continues after the last number misses nothing.

import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { Database, Reads, Session } from './database.ts';
import type { Change } from './ledger.ts';
import { INSERT_CHANGES, integer, text } from './tables.ts';

/** Changes that are kept; a watcher further behind is told `all`. */
const KEPT = 10_000n;

/** Longest delay of another process's change when the database cannot wake watchers. */
const POLL_MS = 1000;

type NotedChange = Exclude<Change, { kind: 'all' }>;

/** What a change is about, as it is stored. Names of holders have no blanks. */
function subjectOf(change: NotedChange): string {
  switch (change.kind) {
    case 'key':
      return change.hash;
    case 'budget':
      return change.budget;
    case 'account':
      return change.account;
    case 'wanted':
      return `${change.by} ${change.account}`;
  }
}

/** Reads the holder, which has no blanks, and the account behind one. */
export function wantedBy(subject: string): Extract<Change, { kind: 'wanted' }> {
  const at = subject.indexOf(' ');
  return { kind: 'wanted', by: subject.slice(0, at), account: subject.slice(at + 1) };
}

/** Null for a kind that a newer program has noted. */
function changeOf(kind: string, subject: string): NotedChange | null {
  switch (kind) {
    case 'key':
      return { kind, hash: subject };
    case 'budget':
      return { kind, budget: subject };
    case 'account':
      return { kind, account: subject };
    case 'wanted':
      return wantedBy(subject);
    default:
      return null;
  }
}

export async function noteChanges(session: Session, changes: readonly NotedChange[]): Promise<void> {
  const count = BigInt(changes.length);
  const [row] = await session.all('update change_count set value = value + $1 returning value', [count]);
  const last = row === undefined ? count : integer(row, 'value');
  await session.write(
    INSERT_CHANGES,
    changes.map((change, at) => ({
      seq: last - count + 1n + BigInt(at),
      kind: change.kind,
      subject: subjectOf(change),
    })),
  );
  await session.all('delete from changes where seq <= $1', [last - KEPT]);
  await session.notify();
}

/** The number of the last change. */
async function countOf(session: Reads): Promise<bigint> {
  const [row] = await session.all('select value from change_count');
  return row === undefined ? 0n : integer(row, 'value');
}

/** Reads the changes regularly and when nudged, and passes them to its listeners. */
export class Watch {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #listeners = new Set<(change: Change) => void>();
  #starting: Promise<void> | undefined;
  #seen = 0n;
  #timer: TimerHandle | undefined;
  #reading: Promise<void> | undefined;
  #again = false;
  #closed = false;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  async add(listener: (change: Change) => void): Promise<() => void> {
    this.#starting ??= this.#start().catch((error: unknown) => {
      this.#starting = undefined;
      throw error;
    });
    await this.#starting;
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Reads soon: something may have changed. */
  nudge(): void {
    if (this.#starting === undefined || this.#closed) return;
    if (this.#reading !== undefined) {
      this.#again = true;
      return;
    }
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
      if (!this.#again) return;
      this.#again = false;
      this.nudge();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer);
    await this.#reading;
  }

  async #start(): Promise<void> {
    this.#seen = await this.#database.snapshot(countOf);
    await this.#database.listen(() => this.nudge());
    this.#poll();
  }

  #poll(): void {
    if (this.#closed) return;
    this.#timer = this.#clock.setTimeout(() => {
      this.nudge();
      this.#poll();
    }, POLL_MS);
  }

  /** When the store does not answer, the timer tries again. */
  async #read(): Promise<void> {
    const { count, rows } = await this.#database
      .snapshot(async (session) => ({
        count: await countOf(session),
        rows: await session.all('select seq, kind, subject from changes where seq > $1 order by seq', [this.#seen]),
      }))
      .catch(() => ({ count: this.#seen, rows: [] }));
    if (count < this.#seen) {
      // The store fell back to an older state, and its numbers begin again from there.
      this.#seen = count;
      return this.#tell({ kind: 'all' });
    }
    const [first] = rows;
    if (first === undefined) return;
    const gap = integer(first, 'seq') > this.#seen + 1n;
    this.#seen = rows.reduce((seen, row) => (integer(row, 'seq') > seen ? integer(row, 'seq') : seen), this.#seen);
    if (gap) return this.#tell({ kind: 'all' });
    for (const row of rows) {
      const change = changeOf(text(row, 'kind'), text(row, 'subject'));
      if (change !== null) this.#tell(change);
    }
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }
}
