// Latencies and rankings of the simulated web: functions of a name and a seed, so that everybody who is measured meets the same ones.

/** A number in [0, 1) for a text (FNV-1a, then mulberry32). */
export function chanceOf(text) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  let mixed = (hash + 0x6d2b79f5) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 15), 1 | mixed);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}

/** A normally distributed number for a text (Box-Muller). */
function normalOf(text) {
  return Math.sqrt(-2 * Math.log(1 - chanceOf(text))) * Math.cos(2 * Math.PI * chanceOf(`${text}'`));
}

/** A log-normal latency in milliseconds: half of all are below `medianMs`. */
export function latencyMs(text, { medianMs, sigma }) {
  return medianMs * Math.exp(sigma * normalOf(text));
}

/** Log-normal latencies whose 95th percentile is about 2.3 times (engines) and 3.2 times (sites) their median. */
export const ENGINE_LATENCY = { medianMs: 400, sigma: 0.5 };
export const SITE_LATENCY = { medianMs: 300, sigma: 0.7 };

/** Pages that there are for a query, and how much engines err about their order: the deviation, beside 1 for that of the pages. */
const PAGES = 40;
const ENGINE_ERROR = 0.7;

/** Pages of a query as an engine ranks them, best first: those that are better are higher with every engine, mostly. */
export function rankingOf(query, engine, count) {
  const scores = Array.from({ length: PAGES }, (_, page) => {
    return { page, score: normalOf(`${query} ${page}`) + ENGINE_ERROR * normalOf(`${query} ${page} ${engine}`) };
  });
  scores.sort((one, other) => other.score - one.score);
  return scores.slice(0, count).map(({ page }) => page);
}
