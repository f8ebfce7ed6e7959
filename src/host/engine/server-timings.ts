// Timestamps of a request inside the engine, in microseconds: what a gateway adds is the difference to what its client saw.
// Recorded only for requests that ask for it.
import type { Clock } from '../../actor/index.ts';
import type { SequenceJob, SequenceEnd } from './sequence.ts';

/** All times are microseconds of the engine's clock. */
export interface ServerTimings {
  readonly arrivedUs: number;
  readonly startedUs: number;
  readonly firstTokenUs: number;
  /** Undefined while it runs. */
  readonly end?: SequenceEnd;
  readonly queueUs: number;
  /** When each token was due: ends of steps. */
  readonly tokensUs: readonly number[];
  /**
   * When each was really handed over; later than due by as much as the process was behind, and by a step when it waited
   * for the next one. Held tokens are not included.
   */
  readonly handedUs: readonly number[];
}

/** The same job with its timings recorded; `timings()` returns what is known so far. */
export interface TimedJob {
  readonly job: SequenceJob;
  readonly timings: () => ServerTimings;
}

/** Watches a job from now on; `clock` is the engine's, and now is taken as its arrival until it has ended. */
export function timeJob(job: SequenceJob, clock: Clock): TimedJob {
  const nowUs = (): number => Math.round(clock.now() * 1000);
  const arrivedUs = nowUs();
  const tokensUs: number[] = [];
  const handedUs: number[] = [];
  let startedUs = arrivedUs;
  let end: SequenceEnd | undefined;
  // Its timings are kept for long, and must not keep its prompt and its answer.
  let running: SequenceJob | null = job;
  const releaseHeld = (): void => {
    const handed = nowUs();
    while (handedUs.length < tokensUs.length) handedUs.push(handed);
  };
  const watched: SequenceJob = {
    ...job,
    onStart(slotId, cachedTokens, promptTokens) {
      startedUs = nowUs();
      running?.onStart(slotId, cachedTokens, promptTokens);
    },
    onToken(token, atUs, waits) {
      tokensUs.push(atUs);
      if (!waits) releaseHeld();
      running?.onToken(token, atUs, waits);
    },
    onDue() {
      releaseHeld();
      running?.onDue();
    },
    onEnd(ended) {
      end = ended;
      releaseHeld();
      running?.onEnd(ended);
      running = null;
    },
  };
  const timings = (): ServerTimings => {
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
  return { job: watched, timings };
}

/** Tokens whose times are in a header: clients take 16 KB of all headers of an answer. */
const HEADER_TOKENS = 200;

/** The header with the timings of a whole answer; those of its first tokens where it has many. */
export function timingsHeader(timings: ServerTimings | undefined): Readonly<Record<string, string>> {
  if (timings === undefined) return {};
  const { tokensUs, handedUs } = timings;
  const first = { tokensUs: tokensUs.slice(0, HEADER_TOKENS), handedUs: handedUs.slice(0, HEADER_TOKENS) };
  return { 'x-headrace-truth': JSON.stringify({ ...timings, ...first }) };
}

/** Server timings of the last requests by id; the oldest are dropped when there are more than `capacity`. */
export class TimingsLog {
  readonly #capacity: number;
  readonly #timings = new Map<string, () => ServerTimings>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Takes the place of an earlier one with the same id. */
  add(id: string, timings: () => ServerTimings): void {
    this.#timings.delete(id);
    this.#timings.set(id, timings);
    if (this.#timings.size <= this.#capacity) return;
    for (const oldest of this.#timings.keys()) {
      this.#timings.delete(oldest);
      return;
    }
  }

  get(id: string): ServerTimings | undefined {
    return this.#timings.get(id)?.();
  }
}
