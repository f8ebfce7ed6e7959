// What really happened to a request, to the microsecond, kept by the engine itself: what a gateway adds is the difference
// to what its client saw. Used by whoever submits jobs, for requests that ask for it; others pay nothing.
import type { Clock } from '../../actor/index.ts';
import type { Job, JobEnd } from './sequence.ts';

/** All times are microseconds of the engine's clock. */
export interface Truth {
  readonly arrivedUs: number;
  readonly startedUs: number;
  readonly firstTokenUs: number;
  /** Undefined while it runs. */
  readonly end?: JobEnd;
  readonly queueUs: number;
  /** When each token was due: ends of steps. */
  readonly tokensUs: readonly number[];
  /**
   * When each was really handed over; later than due by as much as the process was behind, and by a step when it waited
   * for the next one. What waits is not in it yet.
   */
  readonly handedUs: readonly number[];
}

/** The same job with a witness: `truth()` tells at any time what has happened to it so far. */
export interface Witnessed {
  readonly job: Job;
  readonly truth: () => Truth;
}

/** Watches a job from now on; `clock` is the engine's, and now is taken as its arrival until it has ended. */
export function witness(job: Job, clock: Clock): Witnessed {
  const nowUs = (): number => Math.round(clock.now() * 1000);
  const arrivedUs = nowUs();
  const tokensUs: number[] = [];
  const handedUs: number[] = [];
  let startedUs = arrivedUs;
  let end: JobEnd | undefined;
  const handOver = (): void => {
    const handed = nowUs();
    while (handedUs.length < tokensUs.length) handedUs.push(handed);
  };
  const watched: Job = {
    ...job,
    onStart(slotId, cachedTokens, promptTokens) {
      startedUs = nowUs();
      job.onStart(slotId, cachedTokens, promptTokens);
    },
    onToken(token, atUs, waits) {
      tokensUs.push(atUs);
      if (!waits) handOver();
      job.onToken(token, atUs, waits);
    },
    onDue() {
      handOver();
      job.onDue();
    },
    onEnd(ended) {
      end = ended;
      handOver();
      job.onEnd(ended);
    },
  };
  const truth = (): Truth => {
    const times = end ?? { arrivedUs, startedUs, firstTokenUs: tokensUs[0] ?? startedUs };
    return {
      arrivedUs: times.arrivedUs,
      startedUs: times.startedUs,
      firstTokenUs: times.firstTokenUs,
      queueUs: times.startedUs - times.arrivedUs,
      tokensUs,
      handedUs,
      ...(end !== undefined && { end }),
    };
  };
  return { job: watched, truth };
}

/** The truths of the last requests by their id; the oldest is forgotten when there are more than `capacity`. */
export class TruthLog {
  readonly #capacity: number;
  readonly #truths = new Map<string, () => Truth>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Takes the place of an earlier one with the same id. */
  add(id: string, truth: () => Truth): void {
    this.#truths.delete(id);
    this.#truths.set(id, truth);
    if (this.#truths.size <= this.#capacity) return;
    for (const oldest of this.#truths.keys()) {
      this.#truths.delete(oldest);
      return;
    }
  }

  get(id: string): Truth | undefined {
    return this.#truths.get(id)?.();
  }
}
