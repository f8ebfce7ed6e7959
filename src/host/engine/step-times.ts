// Durations of the steps of one machine: the formula of its profile times jitter, warm-up, heat and what sets it apart from others
// of its kind, plus rare stalls. Every step draws the same count of random numbers, so that the same seed and the same steps
// give the same times.
import { createSeededRandom } from '../../actor/index.ts';
import { fnv1a } from '../../routing/index.ts';
import { type Profile, stepDurationUs } from './profile.ts';

/** Long steps vary less: 0.11 at 5.1 ms and 0.026 at 51.75 ms (profiles.ts) are on a line of this slope on logarithmic scales. */
const JITTER_EXPONENT = -0.62;

export interface StepTimesSettings {
  /** Of the variation of the profile; null: no variation. */
  readonly seed: number | null;
  /** Whether the first steps are slow, as the profile says. Default false. */
  readonly isCold?: boolean;
  /** Factor of all step times; default 1. */
  readonly slowdown?: number;
}

/** What a step consists of, as `stepDurationUs` takes it. */
export interface StepWork {
  readonly decodingCount: number;
  readonly memoryTokens: number;
  readonly prefillTokens: number;
  readonly prefillPairs: number;
}

export class StepTimes {
  readonly #profile: Profile;
  readonly #random: (() => number) | null;
  /** What this machine is slower or faster by, all of its life. */
  readonly #factor: number;
  readonly #isCold: boolean;
  #workedUs = 0;
  /** 0 cold, 1 as hot as it gets. */
  #heat = 0;
  #endUs = 0;

  constructor(profile: Profile, { seed, isCold = false, slowdown = 1 }: StepTimesSettings) {
    this.#profile = profile;
    this.#random = seed === null || profile.variation === undefined ? null : createSeededRandom(seed);
    this.#isCold = isCold;
    this.#factor = slowdown * (this.#random === null ? 1 : machineFactor(profile, this.#random));
  }

  /** Microseconds of the step that begins at `startUs`, whole. */
  next(startUs: number, { decodingCount, memoryTokens, prefillTokens, prefillPairs }: StepWork): number {
    const plainUs = stepDurationUs(this.#profile, decodingCount, memoryTokens, prefillTokens, prefillPairs);
    if (this.#random === null && this.#factor === 1 && !this.#isCold) return plainUs;
    const workUs = plainUs * this.#factor * this.#warmUp() * this.#throttling(startUs);
    const us = Math.max(1, Math.round(this.#random === null ? workUs : this.#vary(workUs, this.#random)));
    this.#workedUs += us;
    this.#endUs = startUs + us;
    return us;
  }

  #warmUp(): number {
    const { coldStart } = this.#profile;
    if (!this.#isCold || coldStart === undefined) return 1;
    return 1 + (coldStart.factor - 1) * Math.exp(-this.#workedUs / (coldStart.overMs * 1000));
  }

  /** Heat at the beginning of the step follows from the idle time before it and from the work before that. */
  #throttling(startUs: number): number {
    const thermal = this.#random === null ? undefined : this.#profile.variation?.thermal;
    if (thermal === undefined) return 1;
    this.#heat *= Math.exp(-Math.max(0, startUs - this.#endUs) / (thermal.overMs * 1000));
    return 1 + (thermal.factor - 1) * this.#heat;
  }

  #vary(workUs: number, random: () => number): number {
    const { jitter, stalls, thermal } = this.#profile.variation!;
    const length = Math.max(1, workUs / Math.max(1, this.#profile.stepUs));
    const us = workUs * Math.exp(jitter * length ** JITTER_EXPONENT * normal(random));
    const [chance, tail] = [random(), random()];
    if (thermal !== undefined) this.#heat = 1 - (1 - this.#heat) * Math.exp(-us / (thermal.overMs * 1000));
    if (stalls === undefined || chance * stalls.everyMs * 1000 >= us) return us;
    return us + 1000 * Math.min(stalls.mostMs, stalls.leastMs * (1 - tail) ** (-1 / stalls.shape));
  }
}

function machineFactor({ variation }: Profile, random: () => number): number {
  const spread = normal(random);
  const isSlow = random();
  const machines = variation?.machines;
  if (machines === undefined) return 1;
  return Math.exp(machines.spread * spread) * (isSlow < machines.slowShare ? machines.slowFactor : 1);
}

/** A number of the normal distribution with mean 0 and deviation 1 (Box and Muller). */
export function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** A seed for one purpose, from a seed and names. */
export function derivedSeed(seed: number, ...names: readonly string[]): number {
  return fnv1a([seed, ...names].join('\0')) >>> 0;
}
