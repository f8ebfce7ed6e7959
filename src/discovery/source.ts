// What every source of servers has in common: it reports what it has found, or why it could not. A source that fails is asked
// again later, and what it found last stays in force meanwhile.

import type { FoundModels } from '../routing/index.ts';

export interface SourceDeps {
  /**
   * The source has answered, with the same models as before or with others. `notes`: sentences about what was left out. `problem`: why
   * a part of it could not be read, in plain words; null when all was.
   */
  readonly onAnswer: (models: FoundModels, notes: readonly string[], problem?: string | null) => void;
  /** The source could not be read, for this reason in plain words. */
  readonly onFailure: (problem: string) => void;
}

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 30_000;

/** Waits between tries, doubled after each failure up to 30 s. Spread over half of their length, so that gateways do not try in step. */
export class Backoff {
  readonly #random: () => number;
  #failures = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** The next wait in milliseconds, at least `leastMs`. */
  next(leastMs = 0): number {
    const fullMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures++);
    return Math.max(leastMs, fullMs * (0.5 + 0.5 * this.#random()));
  }

  reset(): void {
    this.#failures = 0;
  }
}

/** The base URL of a server, as settings have it. `address`: an IP address or a name. */
export function baseUrl(scheme: string, address: string, port: number): string {
  return new URL(`${scheme}://${address.includes(':') ? `[${address}]` : address}:${port}`).origin;
}
