// When requests are sent: closed loop (users who wait for their answer) or open loop (arrivals at given times), with a ramp.
// Times are offsets from the start in milliseconds; those of an open loop depend on the seed alone.
/**
 * `closed`: a number of users, each with one request at a time; the ramp starts them one after the other.
 * `constant`, `poisson`: arrivals per second, evenly or at random; the ramp raises the rate from zero to this.
 * `trace`: the times of the workload's own file, run `speed` times as fast.
 */
export type Arrivals =
  | { readonly kind: 'closed'; readonly users: number; readonly rampMs: number }
  | { readonly kind: 'constant' | 'poisson'; readonly perSecond: number; readonly rampMs: number }
  | { readonly kind: 'trace'; readonly speed: number };

/** When the next request of an open loop is due; `recordedMs` is the time in the file, when there is one. */
export type Timetable = (recordedMs: number | undefined) => number;

/** The timetable of an open loop. `random` is uniform in [0, 1). */
export function timetable(arrivals: Exclude<Arrivals, { kind: 'closed' }>, random: () => number): Timetable {
  if (arrivals.kind === 'trace') return (recordedMs) => (recordedMs ?? 0) / arrivals.speed;
  const { kind, perSecond, rampMs } = arrivals;
  let expected = 0;
  return () => {
    const dueMs = whenExpected(expected, perSecond / 1000, rampMs);
    // The n-th arrival is due when n are expected; a Poisson process takes steps of random length instead of 1.
    expected += kind === 'constant' ? 1 : -Math.log(1 - random());
    return dueMs;
  };
}

/** The time at which this many arrivals are expected: the rate rises linearly to `perMs` in the ramp, and stays. */
function whenExpected(arrivals: number, perMs: number, rampMs: number): number {
  const inRamp = (perMs * rampMs) / 2;
  return arrivals < inRamp ? Math.sqrt((2 * arrivals * rampMs) / perMs) : rampMs + (arrivals - inRamp) / perMs;
}

/** When each user of a closed loop begins. */
export function userStartMs({ users, rampMs }: Extract<Arrivals, { kind: 'closed' }>, user: number): number {
  return (rampMs * user) / users;
}
