// Quantiles of latency and first byte as the gateway has them, beside those of the load client on the same run, in per cent of the
// client's: from `/overview` (computed in the process) and from the text of `/metrics` as `histogram_quantile` of Prometheus.
//
//   node bench/quantiles.mjs [--users N] [--seconds N]     default 8 users, 20 s
//
// Starts `headrace demo` on free ports and `headrace bench` against it. The client also measures the way to the gateway and back
// (well below a millisecond on loopback) and its own delays, so that the two differ by more than the buckets on a busy machine.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const BIN = fileURLToPath(new URL('../bin/headrace.js', import.meta.url));
const { values } = parseArgs({
  options: { users: { type: 'string', default: '8' }, seconds: { type: 'string', default: '20' } },
});
/** `/overview` has the last minute. */
const seconds = Math.min(Number(values.seconds), 45);
const LATENCY = 'headrace_request_duration_seconds';
const FIRST_BYTE = 'headrace_stream_first_byte_seconds';
const QUANTILES = { p50: 0.5, p95: 0.95, p99: 0.99 };

const children = [];
process.on('exit', () => children.forEach((child) => child.kill('SIGTERM')));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(130));

const demo = start(['demo', '--port', '0', '--admin-port', '0']);
const { admin, key, model, url } = await readyDemo();

const report = JSON.parse(
  await outputOf(
    ['bench', url, '--model', model, '--key', key, '--json', '-'].concat([
      '--users',
      values.users,
      '--duration',
      `${seconds}s`,
      '--output-tokens',
      '8-96',
      '--progress',
      'false',
    ]),
  ),
);
const overview = await (await fetch(`${admin}/overview`)).json();
const text = await (await fetch(`${admin}/metrics`)).text();
const { recent } = overview.models.find((one) => one.model === model);
const client = { latency: report.latency.e2e, firstByte: report.latency.ttfe };
const rows = ['latency', 'firstByte'].flatMap((name) =>
  Object.entries(QUANTILES).map(([word, quantile]) => {
    const exact = client[name][word];
    const inProcess = recent[name === 'latency' ? 'latencyMs' : 'firstByteMs'][word];
    const promql = promqlQuantile(name === 'latency' ? LATENCY : FIRST_BYTE, quantile) * 1000;
    return {
      name,
      quantile: word,
      client: exact,
      overview: inProcess,
      error: inProcess / exact - 1,
      text: promql,
      textError: promql / exact - 1,
    };
  }),
);
console.log(
  'ms'.padEnd(16),
  'client'.padStart(10),
  '/overview'.padStart(10),
  'error'.padStart(8),
  'text'.padStart(10),
  'error'.padStart(8),
);
for (const row of rows) {
  const cells = [row.client.toFixed(1).padStart(10), row.overview.toFixed(1).padStart(10), percent(row.error)];
  console.log(
    `${row.name} ${row.quantile}`.padEnd(16),
    ...cells,
    row.text.toFixed(1).padStart(10),
    percent(row.textError),
  );
}
process.exit(0);

function percent(share) {
  return `${share < 0 ? '' : '+'}${(share * 100).toFixed(1)} %`.padStart(8);
}

/** `histogram_quantile` on all buckets of a metric of this model since the start. */
function promqlQuantile(metric, quantile) {
  const sums = new Map();
  for (const [, le, labels, count] of text.matchAll(
    new RegExp(`^${metric}_bucket\\{le="([^"]+)",([^}]*)\\} (\\d+)$`, 'gm'),
  )) {
    if (!labels.includes(`model="${model}"`)) continue;
    const bound = le === '+Inf' ? Infinity : Number(le);
    sums.set(bound, (sums.get(bound) ?? 0) + Number(count));
  }
  const buckets = [...sums].sort(([a], [b]) => a - b);
  const rank = quantile * buckets.at(-1)[1];
  const at = buckets.findIndex(([, count]) => count >= rank);
  const [lower, below] = buckets[at - 1] ?? [0, 0];
  const [upper, count] = buckets[at];
  return lower + ((upper - lower) * (rank - below)) / (count - below);
}

/** Resolves with the addresses that the demo prints. */
async function readyDemo() {
  let output = '';
  for await (const chunk of demo.stdout.iterator({ destroyOnReturn: false })) {
    output += chunk;
    const found = /headrace demo: (\S+), key (\S+), models (\S+)[^]*metrics at (\S+)\/metrics/.exec(output);
    if (found === null) continue;
    demo.stdout.resume();
    const [, url, key, model, admin] = found;
    return { url, key, model, admin };
  }
  throw new Error(`headrace demo has ended: ${output}`);
}

/** Starts a command of headrace, which ends with this process. */
function start(args) {
  const child = spawn(process.execPath, [BIN, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

/** Resolves with the output of a command of headrace. */
async function outputOf(args) {
  const child = start(args);
  let output = '';
  for await (const chunk of child.stdout) output += chunk;
  return output;
}
