// Pages that need a browser: pages per second through the gateway and a browser, one at once and several, the CPU time of both and the
// memory of the browser; beside pages that need none.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE, PROXY_CORE } from '../lib/cores.mjs';
import { isInstalled, pssBytes, runChild, startChild, stopChild, temporaryFolder } from '../lib/process.mjs';
import { roundsText, show, showErrors } from '../lib/report.mjs';
import { interleave, turnsOf } from '../lib/rounds.mjs';
import { spread, spreadOf } from '../lib/statistics.mjs';
import { withSimulatedWeb } from './simulated-web.mjs';

const CLIENT = fileURLToPath(new URL('renderer-client.mjs', import.meta.url));

const MB = 2 ** 20;

export const flags = {
  browser: { type: 'word', default: 'chromium', help: 'renderer: command of the browser' },
  rendered: { type: 'numbers', default: [1, 4], quick: [1], help: 'renderer: pages at once' },
  renderSeconds: { type: 'number', default: 5, quick: 2, help: 'renderer: measured seconds of each run' },
};

const PLAIN = 'no browser';

const namesOf = ({ rendered }) => [PLAIN, ...rendered.map((atOnce) => `${atOnce} at once`)];

export const steps = (settings) => namesOf(settings).length * turnsOf(settings.rounds);

export async function measure(settings, rig) {
  const { browser, nodeFlags, rendered, renderSeconds, rounds, warmUp } = settings;
  if (!isInstalled(browser)) {
    rig.note(`renderer is left out: there is no ${browser}`);
    return;
  }
  const cores = `${PROXY_CORE},${LOAD_CORE}`;
  const flagsOfBrowser = `--headless --no-sandbox --disable-gpu --webrtc-ip-handling-policy=disable_non_proxied_udp --remote-debugging-port=0 --user-data-dir=${temporaryFolder()}`;
  const { child, match } = await startChild({
    // The line that names its address goes to standard error.
    ...{ name: 'browser', command: 'sh', args: ['-c', `exec ${browser} ${flagsOfBrowser} about:blank 2>&1`] },
    ...{ core: cores, ready: /^DevTools listening on (ws:\/\/\S+)/ },
  });
  try {
    const renderer = { url: match[1], pages: Math.max(...rendered) };
    await withSimulatedWeb({ cores, fetch: { renderer }, nodeFlags, scale: 0 }, async ({ gateway, webPort }) => {
      const idleBytes = pssBytes(child.pid);
      const peers = namesOf(settings).map((name, at) => ({ name, ...gateway, atOnce: rendered[at - 1] ?? 1 }));
      const run = ({ atOnce, name, pid, port }) => {
        const load = {
          ...{ port, webPort, path: name === PLAIN ? '/page' : '/script', callers: atOnce, browserPid: child.pid },
          ...{ warmupMs: warmUp * 1000, durationMs: renderSeconds * 1000, watch: { peer: pid, browser: child.pid } },
        };
        return runChild({
          ...{ name: `renderer client (${name})`, command: process.execPath, core: cores },
          args: [CLIENT, JSON.stringify(load)],
        });
      };
      const runs = await interleave(peers, rounds, run, (text) => rig.step(`renderer, ${text}`));
      rig.result(resultOf(runs, idleBytes, roundsText({ rounds, seconds: renderSeconds })));
    });
  } finally {
    await stopChild(child);
  }
}

function resultOf(runs, idleBytes, how) {
  const all = Object.entries(runs).map(([name, list]) => ({
    name,
    perSecond: spread(list.map((run) => run.perSecond)),
    latencyMs: spreadOf(list, 'latencyMs'),
    gatewayMs: spread(list.map(({ cpuUs, requests }) => cpuUs.peer / 1000 / requests)),
    browserMs: spread(list.map(({ cpuUs, requests }) => cpuUs.browser / 1000 / requests)),
    memoryMb: spread(list.map(({ memoryBytes }) => memoryBytes / MB)),
    errors: showErrors({
      errors: list.reduce((sum, { errors }) => sum + errors, 0),
      lastError: list.find(({ lastError }) => lastError)?.lastError ?? '',
    }),
  }));
  return {
    title: `Pages whose text comes by their scripts, ${how}: median (min-max)`,
    columns: ['pages', 'pages/s', 'p50 ms', 'p99 ms', 'CPU ms, gateway', 'CPU ms, browser', 'browser MB', 'errors'],
    rows: all.map(({ browserMs, errors, gatewayMs, latencyMs, memoryMb, name, perSecond }) => [
      ...[name, show(perSecond), show(latencyMs.p50, 0), show(latencyMs.p99, 0), show(gatewayMs), show(browserMs)],
      ...[show(memoryMb, 0), errors],
    ]),
    remarks: [
      `Gateway, browser, site and client share two cores. The page has a script that asks for its text. Memory is the most that the browser had, shared pages counted once; without pages it had ${(idleBytes / MB).toFixed(0)} MB. The first row is an article that needs no browser.`,
    ],
    figures: { scenario: 'renderer', peers: all },
    data: { runs },
    plots: [],
  };
}
