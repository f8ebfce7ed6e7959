// Load benchmark of the model host: many concurrent streams at 50 tokens per second each from the simulated engine, which
// makes a token per stream in steps of 20 ms. Measured is how late the tokens of a step are written; the goal is at most one
// step. Method: bench/README.md.

import { readFlags } from '../lib/flags.mjs';
import { runChild, startChild, stopChild } from '../lib/process.mjs';
import { printTable, progress, writeResult } from '../lib/report.mjs';

const STEP_MS = 20;
const CLI = new URL('../../bin/headrace.js', import.meta.url).pathname;
const CLIENT = new URL('../lib/host-client.mjs', import.meta.url).pathname;

const flags = readFlags('host', 'Streams at 50 tokens per second on one host: how late its steps are.', {
  rounds: { type: 'number', default: 3, least: 1, help: 'rounds; every number of streams runs once per round' },
  seconds: { type: 'number', default: 6, help: 'measured seconds per run, after the warm-up' },
  streams: { type: 'numbers', default: [500, 1000, 2000], help: 'streams at a time' },
});
const startedAt = new Date();
const runs = [];
for (let round = 1; round <= flags.rounds; round++) {
  for (const streams of flags.streams) {
    progress(`host, ${streams} streams, round ${round}`);
    runs.push(await measure(streams));
  }
}
print();
writeResult('host', startedAt, { flags, runs });

async function measure(streams) {
  const { child, match } = await startChild({
    name: 'host',
    command: process.execPath,
    args: [CLI, 'host', '--model', 'm', '--port', '0', '--profile', 'even'],
    core: 0,
    ready: /listening on (\S+)/,
  });
  const load = { rampMs: 5000, warmupMs: 2000, windowMs: flags.seconds * 1000 };
  const tokens = Math.ceil(((load.rampMs + load.warmupMs + load.windowMs) / STEP_MS) * 2);
  const spec = JSON.stringify({ pid: child.pid, url: match[1], streams, tokens, sampledStreams: 20, ...load });
  const result = await runChild({ name: 'client', command: process.execPath, args: [CLIENT, spec], core: 1 });
  await stopChild(child);
  return result;
}

function print() {
  printTable(
    `Streams of 50 tokens/s on one host, ${flags.rounds} rounds of ${flags.seconds} s; a step is ${STEP_MS} ms`,
    [
      'streams',
      'tokens/s',
      'per stream',
      'behind p50 / p99 / most ms',
      'late steps',
      'client gap p50 / p99 ms',
      'CPU',
      'us/token',
      'client CPU',
    ],
    runs.map(
      ({ streams, tokensPerSecond, perStream, behindMs, steps, lateSteps, gapMs, cpu, cpuUsPerToken, clientCpu }) => [
        String(streams),
        tokensPerSecond.toFixed(0),
        perStream.toFixed(1),
        [behindMs.p50, behindMs.p99, behindMs.max].map((ms) => ms.toFixed(1)).join(' / '),
        `${lateSteps} of ${steps}`,
        [gapMs.p50, gapMs.p99].map((ms) => ms.toFixed(1)).join(' / '),
        `${Math.round(cpu * 100)} %`,
        cpuUsPerToken.toFixed(1),
        `${Math.round(clientCpu * 100)} %`,
      ],
    ),
  );
}
