// A problem that happens again and again while a part of the system is away, such as the store with a full disk: told at once,
// then once a minute with its number, and told once more when it is over.

import { type Clock, type TimerHandle, unreferenced } from '../actor/index.ts';
import { counted } from '../config/units.ts';

export interface RecurringProblemOptions {
  readonly clock: () => Clock;
  readonly onProblem: (error: unknown, what: string) => void;
  readonly onOver?: ((what: string) => void) | undefined;
  /** It has begun, or is over. */
  readonly onChange?: () => void;
}

/** Between two reports. */
const REPORT_MS = 60_000;

/** It is over when nothing has failed for this long and the last try succeeded: successes and failures may alternate, as of two accounts of which one is locked. */
const QUIET_MS = 5000;

export class RecurringProblem {
  readonly #options: RecurringProblemOptions;
  readonly #what: string;
  #times = 0;
  /** Since the last report. */
  #untold = 0;
  #toldMs = -Infinity;
  #failedMs = -Infinity;
  /** Set by a success, which may be the last for a long time: the end must not wait for another one. */
  #ending: TimerHandle | null = null;

  /** `what` is a sentence. */
  constructor(what: string, options: RecurringProblemOptions) {
    this.#what = what;
    this.#options = options;
  }

  /** It has happened and is not over. */
  get active(): boolean {
    return this.#times > 0;
  }

  /** `what` may say more of this time. */
  failed(error: unknown, what: string = this.#what): void {
    const nowMs = this.#options.clock().now();
    this.#times++;
    this.#failedMs = nowMs;
    this.#cancelEnding();
    if (this.#times === 1) this.#options.onChange?.();
    if (nowMs - this.#toldMs < REPORT_MS) {
      this.#untold++;
      return;
    }
    const more = this.#untold;
    this.#untold = 0;
    this.#toldMs = nowMs;
    this.#options.onProblem(error, more === 0 ? what : `${what}, and ${counted(more, 'time')} before`);
  }

  succeeded(): void {
    if (this.#times === 0 || this.#ending !== null) return;
    const clock = this.#options.clock();
    const quietMs = clock.now() - this.#failedMs;
    if (quietMs >= QUIET_MS) this.ended();
    else this.#ending = unreferenced(clock).setTimeout(() => this.ended(), QUIET_MS - quietMs);
  }

  /** It is over for certain: its work is done once. */
  ended(): void {
    if (this.#times === 0) return;
    this.#cancelEnding();
    this.#options.onOver?.(`it works again: ${this.#what}, ${counted(this.#times, 'time')}`);
    this.#times = 0;
    this.#untold = 0;
    this.#toldMs = -Infinity;
    this.#options.onChange?.();
  }

  #cancelEnding(): void {
    if (this.#ending !== null) this.#options.clock().clearTimeout(this.#ending);
    this.#ending = null;
  }
}
