// Time to a search with the text of its best pages: one request to the gateway, beside two, and beside the loop that a script has. Engines
// and sites are simulated on loopback; everybody meets the same latencies. The gateway may use both cores, as a script may.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE, PROXY_CORE } from '../lib/cores.mjs';
import { runChild } from '../lib/process.mjs';
import { roundsText, show, showErrors } from '../lib/report.mjs';
import { interleave, turnsOf } from '../lib/rounds.mjs';
import { spread } from '../lib/statistics.mjs';
import { withSimulatedWeb } from './simulated-web.mjs';

const CLIENT = fileURLToPath(new URL('content-client.mjs', import.meta.url));

/** What is measured, as the client knows it, and what the table says. */
const WAYS = {
  content: 'POST /search with content',
  batch: 'POST /search, then POST /search/fetch with urls',
  'loop at once': 'script: POST /search, then all pages at once, cleaned by Readability',
  loop: 'script: the same, one page after the other',
};

export const flags = {
  queries: { type: 'number', default: 40, quick: 6, help: 'content: searches of each run' },
  atOnce: { type: 'number', default: 4, quick: 2, help: 'content: searches at once' },
  pages: { type: 'number', default: 5, help: 'content: pages of a search' },
  scale: { type: 'number', default: 1, quick: 0.1, help: 'content: factor of the latencies of engines and sites' },
};

export const steps = ({ rounds }) => Object.keys(WAYS).length * turnsOf(rounds);

export async function measure(settings, rig) {
  const cores = `${PROXY_CORE},${LOAD_CORE}`;
  const { nodeFlags, scale } = settings;
  await withSimulatedWeb({ cores, fetch: { cleaners: 2 }, nodeFlags, scale }, async ({ gateway, webPort }) => {
    const peers = Object.keys(WAYS).map((name) => ({ name, ...gateway }));
    let turn = 0;
    const run = async ({ name, port }) => {
      const who = `turn${turn}`;
      // Everybody has the same queries in a round, and new ones in the next.
      const first = Math.floor(turn++ / peers.length) * settings.queries;
      const { atOnce, pages, queries } = settings;
      const ran = await runChild({
        ...{ name: `content client (${name})`, command: process.execPath, core: cores },
        args: [CLIENT, JSON.stringify({ way: name, who, port, first, count: queries, atOnce, pages })],
      });
      const asked = await (await fetch(`http://127.0.0.1:${webPort}/asked`)).json();
      return { ...ran, visits: asked[who] ?? 0 };
    };
    const runs = await interleave(peers, settings.rounds, run, (text) => rig.step(`content, ${text}`));
    rig.result(resultOf(settings, runs));
  });
}

function quantile(times, share) {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
}

function resultOf(settings, runs) {
  const all = Object.entries(runs).map(([name, list]) => ({
    name: WAYS[name],
    p50: spread(list.map(({ times }) => quantile(times, 0.5))),
    p95: spread(list.map(({ times }) => quantile(times, 0.95))),
    texts: spread(list.map(({ texts, times }) => texts / times.length)),
    visits: spread(list.map(({ visits, times }) => visits / times.length)),
    errors: showErrors({
      errors: list.reduce((sum, { errors }) => sum + errors, 0),
      lastError: list.find(({ lastError }) => lastError)?.lastError ?? '',
    }),
  }));
  const [content] = all;
  const ratios = all.slice(1).map(({ name, p50, p95 }) => {
    return `${name}: ${(p50.median / content.p50.median).toFixed(2)} times the p50, ${(p95.median / content.p95.median).toFixed(2)} times the p95.`;
  });
  return {
    title: `Search with the text of ${settings.pages} pages, ${settings.atOnce} at once, ${settings.queries} searches a run, ${roundsText({ rounds: settings.rounds })}: median (min-max)`,
    columns: ['way', 'p50 ms', 'p95 ms', 'texts', 'pages asked for', 'errors'],
    rows: all.map(({ errors, name, p50, p95, texts, visits }) => [
      ...[name, show(p50, 0), show(p95, 0), show(texts, 2), show(visits, 2), errors],
    ]),
    remarks: [
      `Three engines (log-normal, median 400 ms, p95 about 0.9 s) and sites (median 300 ms, p95 about 0.95 s; 3 % of the pages are gone), latencies times ${settings.scale}. Texts and pages asked for are those of one search.`,
      ...ratios,
    ],
    figures: { scenario: 'content', peers: all },
    data: { runs },
    plots: [],
  };
}
