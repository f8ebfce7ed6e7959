// The date of a store. On PostgreSQL it is the clock of the database, so that gateways whose clocks differ agree on what has ended and on
// what another one has left. Processes with one SQLite file share a machine, and its wall clock.

import type { Clock } from '../../actor/index.ts';
import { clockOf, type Database } from './database.ts';

export interface StoreDateOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Wall clock of the process, in milliseconds since 1970. */
  readonly dateMs: () => number;
  /** Follows `dateMs` on PostgreSQL too. */
  readonly ownDates: boolean;
}

export class StoreDate {
  readonly #options: StoreDateOptions;
  readonly #follows: boolean;
  /** What the date is ahead of the steady clock. */
  #aheadMs = 0;

  constructor(options: StoreDateOptions) {
    this.#options = options;
    this.#follows = options.database.dialect.name === 'postgres' && !options.ownDates;
  }

  /** Milliseconds since 1970. */
  readonly now = (): number => {
    const { clock, dateMs } = this.#options;
    return Math.floor(this.#follows ? clock.now() + this.#aheadMs : dateMs());
  };

  /**
   * Asks the database for its clock. Until the next call the steady clock goes on from there: it stands still while the machine is
   * suspended, and no step of a wall clock changes it.
   */
  async measure(): Promise<void> {
    if (!this.#follows) return;
    const { clock, database } = this.#options;
    this.#aheadMs = (await database.snapshot((session) => clockOf(session, database.dialect.nowMs))) - clock.now();
  }
}
