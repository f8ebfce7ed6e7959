// Turns of the reads that take long: of all that a database does at the same time, so many are reads, and so many of those are reports,
// so that what the gateway itself waits for does not wait for reports.

import type { Clock } from '../../actor/index.ts';
import type { ReadKind } from './database.ts';
import { LedgerError } from './ledger.ts';

/** Reads at the same time. */
const MAX_READS = 3;

/** Of these, reports: a balance is read while reports take minutes. */
const MAX_REPORTS = 2;

/** As long as for a connection; reports take long themselves. */
const WAIT_MS = { read: 10_000, scan: 10_000, report: 60_000 } as const;

interface WaitingRead {
  readonly kind: ReadKind;
  readonly start: () => void;
}

export class ReadTurns {
  readonly #clock: Clock;
  /** Reads under way, reports among them. */
  #reads = 0;
  #reports = 0;
  /** The oldest first. */
  readonly #waiting = new Set<WaitingRead>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects when the read does not begin in time. */
  async run<T>(kind: ReadKind, read: () => Promise<T>): Promise<T> {
    await this.#begin(kind);
    try {
      return await read();
    } finally {
      this.#end(kind);
    }
  }

  async #begin(kind: ReadKind): Promise<void> {
    if (this.#take(kind)) return;
    const { promise, reject, resolve } = Promise.withResolvers<void>();
    const waiting = { kind, start: resolve };
    this.#waiting.add(waiting);
    const timer = this.#clock.setTimeout(() => {
      this.#waiting.delete(waiting);
      const message = `A ${kind} waited ${WAIT_MS[kind]} ms for other reads of the ledger to end`;
      reject(kind === 'report' ? new LedgerError('queue-full', `${message}: try again later`) : new Error(message));
    }, WAIT_MS[kind]);
    await promise.finally(() => this.#clock.clearTimeout(timer));
  }

  /** False: as many as may run are under way. */
  #take(kind: ReadKind): boolean {
    if (this.#reads === MAX_READS || (kind === 'report' && this.#reports === MAX_REPORTS)) return false;
    this.#reads++;
    if (kind === 'report') this.#reports++;
    return true;
  }

  /** Starts the read that has waited longest among those that may begin. */
  #end(kind: ReadKind): void {
    this.#reads--;
    if (kind === 'report') this.#reports--;
    for (const waiting of this.#waiting) {
      if (!this.#take(waiting.kind)) continue;
      this.#waiting.delete(waiting);
      waiting.start();
      return;
    }
  }
}
