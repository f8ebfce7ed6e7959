// Circuit breaker of one CRN (outlier detection): consecutive failures or the failure rate of a window ask for ejection, and each
// ejection in a row lasts twice as long as the one before. A state machine without a clock: the time is an argument.

export interface BreakerSettings {
  /** Consecutive failures that ask for ejection. */
  readonly consecutive: number;
  /** Share of failures in the window that asks for ejection, 0 to 1. */
  readonly errorRate: number;
  /** Fewest requests in the window for which the rate counts. */
  readonly minRequests: number;
  /** Length of the window in milliseconds. */
  readonly windowMs: number;
  /** Length of the first ejection in milliseconds; doubled each time. */
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
}

/** After this many times `backoffMaxMs` without an ejection the next one lasts `backoffMs` again. */
const FORGIVE_FACTOR = 4;

export class Breaker {
  readonly #settings: BreakerSettings;
  #consecutive = 0;
  /** The window consists of two halves; the older half is dropped as a whole. */
  #windowStartMs = -Infinity;
  #current = { ok: 0, failed: 0 };
  #previous = { ok: 0, failed: 0 };
  #ejections = 0;
  #lastEndMs = -Infinity;

  constructor(settings: BreakerSettings) {
    this.#settings = settings;
  }

  /** Counts `count` successes. */
  ok(nowMs: number, count: number): void {
    this.#turn(nowMs);
    this.#current.ok += count;
    this.#consecutive = 0;
  }

  /** Counts a failure; true when the CRN should be ejected. */
  failed(nowMs: number): boolean {
    this.#turn(nowMs);
    this.#current.failed++;
    this.#consecutive++;
    const failed = this.#current.failed + this.#previous.failed;
    const total = failed + this.#current.ok + this.#previous.ok;
    const { consecutive, errorRate, minRequests } = this.#settings;
    return this.#consecutive >= consecutive || (total >= minRequests && failed / total >= errorRate);
  }

  /** Starts an ejection and returns its length in milliseconds, which `random` in [0, 1) spreads by ±10 %. */
  eject(nowMs: number, random: number): number {
    const { backoffMs, backoffMaxMs } = this.#settings;
    if (nowMs - this.#lastEndMs > backoffMaxMs * FORGIVE_FACTOR) this.#ejections = 0;
    const lengthMs = Math.min(backoffMs * 2 ** this.#ejections, backoffMaxMs) * (0.9 + 0.2 * random);
    this.#ejections = Math.min(this.#ejections + 1, 32);
    this.#lastEndMs = nowMs + lengthMs;
    this.#consecutive = 0;
    this.#current = { ok: 0, failed: 0 };
    this.#previous = { ok: 0, failed: 0 };
    return lengthMs;
  }

  #turn(nowMs: number): void {
    const halfMs = this.#settings.windowMs / 2;
    const halves = Math.floor((nowMs - this.#windowStartMs) / halfMs);
    if (halves < 1) return;
    this.#previous = halves === 1 ? this.#current : { ok: 0, failed: 0 };
    this.#current = { ok: 0, failed: 0 };
    this.#windowStartMs = halves === 1 ? this.#windowStartMs + halfMs : nowMs;
  }
}
