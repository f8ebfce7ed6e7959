// A closed loop of calls, counted between warm-up and end: each of some callers asks again when it has its answer.

import { Histogram } from '../lib/histogram.mjs';
import { nowUs } from '../lib/traffic.mjs';
import { openWindow } from '../lib/window.mjs';

/** Calls that take longer after the end are errors. */
const LAST_MS = 15_000;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Runs `ask(n)` in `callers` loops, n from 0. It answers with whether the call counts, and throws when it has failed. Calls under way at the
 * end get `lastMs`. `duringWindow` runs while calls are counted; what it returns ends it. Prints one line of JSON with the figures and
 * those of `more()`, and ends the process.
 */
export async function runClosedLoop(
  { callers, durationMs, lastMs = LAST_MS, warmupMs, watch },
  ask,
  duringWindow = () => () => undefined,
  more = () => ({}),
) {
  const count = { requests: 0, errors: 0, lastError: '' };
  const latency = new Histogram();
  let measuring = false;
  let stopped = false;
  let next = 0;
  let unfinished = 0;
  const call = async () => {
    const sinceUs = nowUs();
    unfinished++;
    try {
      const counts = await ask(next++);
      if (!measuring || !counts) return;
      count.requests++;
      latency.add(nowUs() - sinceUs);
    } catch (error) {
      if (!measuring) return;
      count.errors++;
      count.lastError = error.message;
    } finally {
      unfinished--;
    }
  };
  const loop = async () => {
    while (!stopped) await call();
  };
  const running = Array.from({ length: callers }, loop);
  await wait(warmupMs);
  const closeWindow = openWindow(watch);
  const end = duringWindow();
  measuring = true;
  await wait(durationMs);
  measuring = false;
  end();
  const window = closeWindow();
  stopped = true;
  await Promise.race([Promise.all(running), wait(lastMs)]);
  if (unfinished > 0) count.lastError = 'not answered in time';
  count.errors += unfinished;
  const { seconds } = window;
  const report = { ...window, ...count, ...more(), perSecond: count.requests / seconds, latencyMs: latency.summary() };
  process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
}
