// Recent failures of one data plane, bounded: requests that ended as an error, why each engine and each CRN failed last, and how
// often a request left a CRN for another.

/** Errors a thread remembers; also how many the overview shows. */
export const MOST_ERRORS = 100;

/** Outcome of an engine that is suspended. */
export const UNASKED = 'suspended';

/** A request that ended as an error. */
export interface RecentError {
  /** The request id as it stands in the answer's header; may be the client's own word. */
  readonly requestId: string;
  /** When it ended, in milliseconds since 1970. */
  readonly dateMs: number;
  /** Route of the table. */
  readonly endpoint: string;
  /** Configured id; empty when it was not known. */
  readonly model: string;
  /** Of the error table; empty for an error that a CRN answered itself. */
  readonly code: string;
  readonly status: number;
  /** Base URL of the CRN that was tried last; empty when there was none. */
  readonly crn: string;
}

/** Why an engine failed last. */
export interface EngineTrouble {
  readonly engine: string;
  /** In the words of the API, for example `rate limited`. */
  readonly reason: string;
  readonly dateMs: number;
}

/** Why a request to a CRN failed last, or was refused by it. */
export interface CrnFailure {
  /** In milliseconds since 1970. */
  readonly dateMs: number;
  /** In plain words, such as `connection refused`. */
  readonly reason: string;
  /** Configured id. */
  readonly model: string;
  /** As in `RecentError`. */
  readonly requestId: string;
}

/** CRNs that a thread remembers failures of; past it the one whose last failure is the oldest is forgotten. */
const MOST_CRNS = 4096;

/** Recent failures of one thread. */
export interface RecentReport {
  /** Newest last. */
  readonly errors: readonly RecentError[];
  readonly troubles: readonly EngineTrouble[];
  /** Failovers by the CRN they left. */
  readonly failovers: readonly (readonly [crn: string, count: number])[];
  /** The last failure of each CRN. */
  readonly crnFailures: readonly (readonly [crn: string, failure: CrnFailure])[];
}

/** Nothing has failed. */
export const NO_FAILURES: RecentReport = { errors: [], troubles: [], failovers: [], crnFailures: [] };

/** The failures of several threads, bounded as those of one. */
export function mergedRecent(reports: readonly RecentReport[]): RecentReport {
  const byDate = <Value extends { readonly dateMs: number }>(values: readonly Value[]): Value[] =>
    values.toSorted((one, other) => one.dateMs - other.dateMs);
  const troubles = byDate(reports.flatMap((report) => report.troubles)).map(
    (trouble) => [trouble.engine, trouble] as const,
  );
  const crnFailures = new Map<string, CrnFailure>();
  const failures = reports.flatMap((report) => report.crnFailures.map(([crn, failure]) => ({ crn, ...failure })));
  for (const { crn, ...failure } of byDate(failures)) setNewest(crnFailures, crn, failure);
  const failovers = new Map<string, number>();
  for (const [crn, count] of reports.flatMap((report) => report.failovers))
    setNewest(failovers, crn, (failovers.get(crn) ?? 0) + count);
  return {
    errors: byDate(reports.flatMap((report) => report.errors)).slice(-MOST_ERRORS),
    troubles: [...new Map(troubles).values()],
    failovers: [...failovers],
    crnFailures: [...crnFailures],
  };
}

/** An exchange that is over. */
type Finished = Pick<RecentError, 'requestId' | 'endpoint' | 'model' | 'crn'> & { readonly errorCode: string };

export class Recent {
  readonly #epochMs: () => number;
  readonly #errors: RecentError[] = [];
  /** Index of the next error in the ring: the oldest one once it is full. */
  #oldest = 0;
  readonly #troubles = new Map<string, EngineTrouble>();
  readonly #failovers = new Map<string, number>();
  readonly #crnFailures = new Map<string, CrnFailure>();

  /** `epochMs`: milliseconds since 1970. */
  constructor(epochMs: () => number) {
    this.#epochMs = epochMs;
  }

  /** A request has ended. Keeps errors of the gateway, and answers of CRNs from 500 on. */
  closed({ requestId, endpoint, model, errorCode, crn }: Finished, status: number): void {
    if (errorCode === '' && status < 500) return;
    const error = { requestId, dateMs: this.#epochMs(), endpoint, model, code: errorCode, status, crn };
    this.#errors[this.#oldest] = error;
    this.#oldest = (this.#oldest + 1) % MOST_ERRORS;
  }

  /** An engine has reported. `outcome`: `ok`, or the reason. An engine that was not asked changes nothing. */
  engine(engine: string, outcome: string): void {
    if (outcome !== 'ok' && outcome !== UNASKED)
      this.#troubles.set(engine, { engine, reason: outcome, dateMs: this.#epochMs() });
  }

  /** A request left this CRN for another. */
  failover(crn: string): void {
    setNewest(this.#failovers, crn, (this.#failovers.get(crn) ?? 0) + 1);
  }

  /** An attempt at this CRN has failed. */
  attemptFailed(crn: string, failure: Omit<CrnFailure, 'dateMs'>): void {
    setNewest(this.#crnFailures, crn, { dateMs: this.#epochMs(), ...failure });
  }

  report(): RecentReport {
    const errors = [...this.#errors.slice(this.#oldest), ...this.#errors.slice(0, this.#oldest)];
    return {
      errors,
      troubles: [...this.#troubles.values()],
      failovers: [...this.#failovers],
      crnFailures: [...this.#crnFailures],
    };
  }
}

/** Sets a value as the newest, which is the last one in the map, and forgets the oldest of too many. */
function setNewest<Value>(map: Map<string, Value>, crn: string, value: Value): void {
  map.delete(crn);
  map.set(crn, value);
  const [oldest] = map.keys();
  if (map.size > MOST_CRNS && oldest !== undefined) map.delete(oldest);
}
