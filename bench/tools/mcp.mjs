// What a call of the tool `search` over the Model Context Protocol adds to POST /search: CPU time of the gateway and latency, over engines
// that answer at once.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE, PROXY_CORE } from '../lib/cores.mjs';
import { runChild } from '../lib/process.mjs';
import { roundsText, show, showErrors } from '../lib/report.mjs';
import { interleave, turnsOf } from '../lib/rounds.mjs';
import { foreignUse, spread, spreadOf } from '../lib/statistics.mjs';
import { withSimulatedWeb } from './simulated-web.mjs';

const CLIENT = fileURLToPath(new URL('mcp-client.mjs', import.meta.url));

const WAYS = {
  http: 'POST /search',
  sse: '/mcp, revisions of 2025: an event',
  json: '/mcp, revision of 2026: JSON',
};

export const flags = {
  callers: { type: 'number', default: 4, help: 'mcp: calls at once' },
};

export const steps = ({ rounds }) => Object.keys(WAYS).length * turnsOf(rounds);

export async function measure({ callers, nodeFlags, rounds, seconds, warmUp }, rig) {
  await withSimulatedWeb({ cores: PROXY_CORE, nodeFlags, scale: 0 }, async ({ gateway }) => {
    const peers = Object.keys(WAYS).map((name) => ({ name, ...gateway }));
    const run = ({ name, pid, port }) => {
      const times = { warmupMs: warmUp * 1000, durationMs: seconds * 1000 };
      const load = { way: name, port, callers, ...times, watch: { peer: pid } };
      return runChild({
        ...{ name: `caller (${name})`, command: process.execPath, core: LOAD_CORE },
        args: [CLIENT, JSON.stringify(load)],
      });
    };
    const runs = await interleave(peers, rounds, run, (text) => rig.step(`mcp, ${text}`));
    rig.result(resultOf(runs, `${callers} at once, ${roundsText({ rounds, seconds })}`));
  });
}

function resultOf(runs, how) {
  const cpuOf = ({ cpuUs, requests }) => cpuUs.peer / requests;
  const all = Object.entries(runs).map(([name, list]) => ({
    name: WAYS[name],
    cpuUs: spread(list.map(cpuOf)),
    addedUs: spread(list.map((run, round) => cpuOf(run) - cpuOf(runs.http[round]))),
    latencyMs: spreadOf(list, 'latencyMs'),
    addedMs: spread(list.map((run, round) => run.latencyMs.p50 - runs.http[round].latencyMs.p50)),
    perSecond: spread(list.map((run) => run.perSecond)),
    foreignUse: spread(list.map((run) => foreignUse(run, name))),
    errors: showErrors({
      errors: list.reduce((sum, { errors }) => sum + errors, 0),
      lastError: list.find(({ lastError }) => lastError)?.lastError ?? '',
    }),
  }));
  return {
    title: `Tool calls beside the endpoint, ${how}: median (min-max)`,
    columns: ['way', 'CPU µs', 'added', 'p50 ms', 'added', 'p99 ms', 'calls/s', 'errors'],
    rows: all.map(({ addedMs, addedUs, cpuUs, errors, latencyMs, name, perSecond }, at) => [
      ...[name, show(cpuUs, 0), at === 0 ? '-' : show(addedUs, 0), show(latencyMs.p50, 2)],
      ...[at === 0 ? '-' : show(addedMs, 2), show(latencyMs.p99, 2), show(perSecond, 0), errors],
    ]),
    remarks: [
      'A search asks three engines that answer at once and has ten results each. CPU time is that of the gateway.',
    ],
    figures: { scenario: 'mcp', peers: all },
    data: { runs },
    plots: [],
  };
}
