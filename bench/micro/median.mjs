// Timing of the micro benchmarks: median nanoseconds of one call, over batches that are long against the clock's resolution. The
// function runs for a while before, so that V8 has compiled it.

const WARM_MS = 40;

/** Median nanoseconds of one call of `run`, from 25 batches of about `batchMs` each. */
export function medianNs(run, batchMs = 20, batches = 25) {
  const batch = (calls) => {
    const start = process.hrtime.bigint();
    for (let call = 0; call < calls; call++) run();
    return Number(process.hrtime.bigint() - start);
  };
  const warmMs = performance.now() + WARM_MS;
  do batch(10);
  while (performance.now() < warmMs);
  let calls = 1;
  while (batch(calls) < (batchMs * 1e6) / 2) calls *= 2;
  const samples = Array.from({ length: batches }, () => batch(calls) / calls);
  return middle(samples);
}

/** The same for a `run` that returns a promise; one run does the work of `calls` calls. */
export async function medianNsLater(run, calls, batchMs = 20, batches = 25) {
  const batch = async (repeats) => {
    const start = process.hrtime.bigint();
    for (let repeat = 0; repeat < repeats; repeat++) await run();
    return Number(process.hrtime.bigint() - start);
  };
  const warmMs = performance.now() + WARM_MS;
  do await batch(10);
  while (performance.now() < warmMs);
  let repeats = 1;
  while ((await batch(repeats)) < (batchMs * 1e6) / 2) repeats *= 2;
  const samples = [];
  for (let at = 0; at < batches; at++) samples.push((await batch(repeats)) / repeats / calls);
  return middle(samples);
}

function middle(samples) {
  return samples.sort((a, b) => a - b)[samples.length >> 1];
}
