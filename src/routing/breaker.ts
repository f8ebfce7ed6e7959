// Outlier detection: when the outcomes of a CRN's requests ask for its ejection, and how long an ejection lasts. A CRN is judged by
// consecutive failures, by its failure rate, and by its failure rate beside that of its peers. No clock: the time is an argument.

export interface BreakerSettings {
  /** Consecutive failures that ask for ejection. */
  readonly consecutive: number;
  /** Share of failures in the window that asks for ejection, 0 to 1. */
  readonly errorRate: number;
  /** Share of failures that asks for ejection when it is also `outlierFactor` times that of the other CRNs of a model. */
  readonly outlierRate: number;
  readonly outlierFactor: number;
  /** Fewest requests in the window for which a rate counts. */
  readonly minRequests: number;
  /** Length of the window in milliseconds. */
  readonly windowMs: number;
  /** Length of the first ejection in milliseconds; doubled each time. */
  readonly backoffMs: number;
  /** Longest ejection in milliseconds; also how long a trial may take until another one is offered. */
  readonly backoffMaxMs: number;
}

/** After this many times `backoffMaxMs` without an ejection the next one lasts `backoffMs` again. */
const FORGIVE_FACTOR = 4;

/** Requests with an outcome. */
interface Tally {
  ok: number;
  failed: number;
}

/** Outcomes of one member. The window consists of two halves; the older half is dropped as a whole. */
interface Window {
  startMs: number;
  current: Tally;
  previous: Tally;
}

/** Outcomes of all members within a window, by member cell. */
export class FailureRates {
  readonly #windows = new Map<number, Window>();

  note(member: number, windowMs: number, nowMs: number, ok: number, failed: number): void {
    const { current } = this.#turn(member, windowMs, nowMs);
    current.ok += ok;
    current.failed += failed;
  }

  read(member: number, windowMs: number, nowMs: number): Readonly<Tally> {
    if (!this.#windows.has(member)) return { ok: 0, failed: 0 };
    const { current, previous } = this.#turn(member, windowMs, nowMs);
    return { ok: current.ok + previous.ok, failed: current.failed + previous.failed };
  }

  forget(member: number): void {
    this.#windows.delete(member);
  }

  #turn(member: number, windowMs: number, nowMs: number): Window {
    let window = this.#windows.get(member);
    if (window === undefined) {
      window = { startMs: -Infinity, current: { ok: 0, failed: 0 }, previous: { ok: 0, failed: 0 } };
      this.#windows.set(member, window);
    }
    const halfMs = windowMs / 2;
    const halves = Math.floor((nowMs - window.startMs) / halfMs);
    if (halves >= 1) {
      window.previous = halves === 1 ? window.current : { ok: 0, failed: 0 };
      window.current = { ok: 0, failed: 0 };
      window.startMs = halves === 1 ? window.startMs + halfMs : nowMs;
    }
    return window;
  }
}

/** The breaker of one CRN. */
export class Breaker {
  readonly #settings: BreakerSettings;
  readonly #rates: FailureRates;
  /** Member cells of this CRN, one for each of its models. */
  readonly #members: readonly number[];
  #consecutive = 0;
  #ejections = 0;
  #lastEndMs = -Infinity;

  constructor(settings: BreakerSettings, members: readonly number[], rates: FailureRates) {
    this.#settings = settings;
    this.#members = members;
    this.#rates = rates;
  }

  /** Counts `count` successes of a member. */
  ok(member: number, nowMs: number, count: number): void {
    this.#rates.note(member, this.#settings.windowMs, nowMs, count, 0);
    this.#consecutive = 0;
  }

  /** Counts a failure of a member; true when the CRN should be ejected. `peers`: cells of the same model on the other CRNs. */
  failed(member: number, nowMs: number, peers: readonly number[]): boolean {
    const { consecutive, errorRate, minRequests, windowMs } = this.#settings;
    this.#rates.note(member, windowMs, nowMs, 0, 1);
    this.#consecutive++;
    if (this.#consecutive >= consecutive) return true;
    const { ok, failed } = this.#sum(this.#members, nowMs, 0);
    const enough = ok + failed >= minRequests;
    return (enough && failed / (ok + failed) >= errorRate) || this.#isOutlier(member, nowMs, peers);
  }

  #isOutlier(member: number, nowMs: number, peers: readonly number[]): boolean {
    const { minRequests, outlierFactor, outlierRate, windowMs } = this.#settings;
    const own = this.#rates.read(member, windowMs, nowMs);
    const total = own.ok + own.failed;
    if (total < minRequests || own.failed / total < outlierRate) return false;
    const others = this.#sum(peers, nowMs, minRequests);
    const compared = others.ok + others.failed;
    // Without a division: 0.3 is three times 0.1.
    return compared > 0 && own.failed * compared >= outlierFactor * others.failed * total;
  }

  /** Outcomes of those members that have at least `least`. */
  #sum(members: readonly number[], nowMs: number, least: number): Tally {
    const sum: Tally = { ok: 0, failed: 0 };
    for (const member of members) {
      const { ok, failed } = this.#rates.read(member, this.#settings.windowMs, nowMs);
      if (ok + failed < least) continue;
      sum.ok += ok;
      sum.failed += failed;
    }
    return sum;
  }

  /** Starts an ejection and returns its length in milliseconds, which `random` in [0, 1) spreads by ±10 % below the longest. */
  eject(nowMs: number, random: number): number {
    const { backoffMs, backoffMaxMs } = this.#settings;
    if (nowMs - this.#lastEndMs > backoffMaxMs * FORGIVE_FACTOR) this.#ejections = 0;
    const lengthMs = Math.min(backoffMs * 2 ** this.#ejections * (0.9 + 0.2 * random), backoffMaxMs);
    this.#ejections = Math.min(this.#ejections + 1, 32);
    this.#lastEndMs = nowMs + lengthMs;
    this.#consecutive = 0;
    for (const member of this.#members) this.#rates.forget(member);
    return lengthMs;
  }
}
