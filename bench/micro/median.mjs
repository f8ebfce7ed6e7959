// The one stopwatch of the micro benchmarks: batches long enough for the clock, and their median.

/** Median nanoseconds of one call of `run`, from 25 batches of about `batchMs` each. */
export function medianNs(run, batchMs = 20, batches = 25) {
  const batch = (calls) => {
    const start = process.hrtime.bigint();
    for (let call = 0; call < calls; call++) run();
    return Number(process.hrtime.bigint() - start);
  };
  let calls = 1;
  while (batch(calls) < (batchMs * 1e6) / 2) calls *= 2;
  const samples = Array.from({ length: batches }, () => batch(calls) / calls);
  return samples.sort((a, b) => a - b)[batches >> 1];
}
