// The passive half of health, as a pure state machine with the time passed in: consecutive failures or the failure rate
// of a window ask for ejection; every ejection in a row lasts twice as long as the last. Known elsewhere as a circuit
// breaker (ejected = open, trial = half-open) or outlier detection. Used by the CRN actor.

export interface BreakerSettings {
  /** Failures in a row that ask for ejection. */
  readonly consecutive: number;
  /** Share of failures in the window that asks for ejection, 0 to 1. */
  readonly errorRate: number;
  /** The rate counts only with at least this many requests in the window. */
  readonly minRequests: number;
  /** Length of the window in milliseconds. */
  readonly windowMs: number;
  /** First ejection, doubled each time, in milliseconds. */
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
}

/** Without an ejection for this many times `backoffMaxMs` the next one starts at `backoffMs` again. */
const FORGIVE_FACTOR = 4;

export class Breaker {
  readonly #settings: BreakerSettings;
  #inARow = 0;
  /** Two half windows: what is older than the window is forgotten in halves. */
  #windowStartMs = -Infinity;
  #now = { ok: 0, failed: 0 };
  #before = { ok: 0, failed: 0 };
  #ejections = 0;
  #lastEndMs = -Infinity;

  constructor(settings: BreakerSettings) {
    this.#settings = settings;
  }

  /** Notes `count` requests that the CRN served well. */
  ok(nowMs: number, count: number): void {
    this.#turn(nowMs);
    this.#now.ok += count;
    this.#inARow = 0;
  }

  /** Notes a failure of the CRN; true when it should be ejected now. */
  failed(nowMs: number): boolean {
    this.#turn(nowMs);
    this.#now.failed++;
    this.#inARow++;
    const failed = this.#now.failed + this.#before.failed;
    const total = failed + this.#now.ok + this.#before.ok;
    const { consecutive, errorRate, minRequests } = this.#settings;
    return this.#inARow >= consecutive || (total >= minRequests && failed / total >= errorRate);
  }

  /** Starts an ejection and gives its length in milliseconds. `random` in [0, 1) spreads it by up to a fifth. */
  eject(nowMs: number, random: number): number {
    const { backoffMs, backoffMaxMs } = this.#settings;
    if (nowMs - this.#lastEndMs > backoffMaxMs * FORGIVE_FACTOR) this.#ejections = 0;
    const lengthMs = Math.min(backoffMs * 2 ** this.#ejections, backoffMaxMs) * (0.9 + 0.2 * random);
    this.#ejections = Math.min(this.#ejections + 1, 32);
    this.#lastEndMs = nowMs + lengthMs;
    this.#forget();
    return lengthMs;
  }

  #forget(): void {
    this.#inARow = 0;
    this.#now = { ok: 0, failed: 0 };
    this.#before = { ok: 0, failed: 0 };
  }

  #turn(nowMs: number): void {
    const halfMs = this.#settings.windowMs / 2;
    const halves = Math.floor((nowMs - this.#windowStartMs) / halfMs);
    if (halves < 1) return;
    this.#before = halves === 1 ? this.#now : { ok: 0, failed: 0 };
    this.#now = { ok: 0, failed: 0 };
    this.#windowStartMs = halves === 1 ? this.#windowStartMs + halfMs : nowMs;
  }
}
