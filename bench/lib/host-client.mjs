// Load client of the model host benchmark: opens streams over a ramp and counts their tokens in a window. Afterwards it reads
// the server timings of some streams (GET /sim/truth/ID), which say when each token was due and when it was written.
// Prints one line of JSON.

import { connect } from 'node:net';
import { Histogram } from './histogram.mjs';
import { cpuUs } from './process.mjs';

const { pid, url, streams, tokens, rampMs, warmupMs, windowMs, sampledStreams } = JSON.parse(process.argv[2]);
const { hostname, port } = new URL(url);
const gaps = new Histogram();
let counting = false;
let arrived = 0;
let ended = 0;
let failed = 0;

/** Read buffer shared by all sockets: responses are counted, not kept. */
const buffer = Buffer.allocUnsafe(65_536);

/** Events that end within the first `bytes` of the buffer: each ends with two line feeds. */
function countEvents(bytes) {
  let events = 0;
  for (let at = 1; at < bytes; at++) if (buffer[at] === 10 && buffer[at - 1] === 10) events++;
  return events;
}

function open(index) {
  const body = JSON.stringify({
    prompt: `Stream ${index} begins`,
    n_predict: tokens,
    ignore_eos: true,
    stream: true,
    seed: index,
  });
  const timingsHeader =
    index % Math.ceil(streams / sampledStreams) === 0 ? `x-headrace-truth: 1\r\nx-request-id: w${index}\r\n` : '';
  let lastMs = 0;
  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    onread: {
      buffer,
      callback(bytes) {
        const nowMs = performance.now();
        if (counting) {
          arrived += countEvents(bytes);
          if (lastMs > 0) gaps.add((nowMs - lastMs) * 1000);
        }
        lastMs = nowMs;
        return true;
      },
    },
  });
  socket.on('error', () => failed++);
  socket.on('close', () => ended++);
  socket.write(
    `POST /completion HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\n${timingsHeader}` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  return socket;
}

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const get = async (path) => (await fetch(url + path)).text();

/** Value of a metric without labels. */
async function metrics(...names) {
  const text = await get('/metrics');
  return names.map((name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]));
}

const FIGURES = ['headrace_host_steps_total', 'headrace_host_late_steps_total'];
const sockets = [];
const portion = Math.max(1, Math.ceil((streams * 10) / rampMs));
while (sockets.length < streams) {
  for (let at = 0; at < portion && sockets.length < streams; at++) sockets.push(open(sockets.length));
  await after(10);
}
await after(warmupMs);
const [stepsBefore, lateBefore] = await metrics(...FIGURES);
const fromMs = performance.now();
const fromUs = Math.round((performance.timeOrigin + fromMs) * 1000);
const cpuBefore = cpuUs(pid);
const ownBefore = process.cpuUsage();
counting = true;
await after(windowMs);
counting = false;
const cpu = cpuUs(pid) - cpuBefore;
const own = process.cpuUsage(ownBefore);
const tookMs = performance.now() - fromMs;
const [steps, late, mostBehind] = await metrics(...FIGURES, 'headrace_host_most_behind_seconds');
const timings = [];
for (let index = 0; index < streams; index += Math.ceil(streams / sampledStreams)) {
  const timing = JSON.parse(await get(`/sim/truth/w${index}`));
  if (timing.tokensUs === undefined) throw new Error(`stream ${index}: ${timing.detail}, ${failed} failed`);
  timings.push(timing);
}
const behind = new Histogram();
for (const { tokensUs, handedUs } of timings) {
  tokensUs.forEach((dueUs, at) => {
    if (dueUs < fromUs || dueUs > fromUs + tookMs * 1000) return;
    behind.add(handedUs[at] - dueUs);
  });
}
const result = {
  streams,
  cpu: cpu / 1000 / tookMs,
  cpuUsPerToken: cpu / arrived,
  clientCpu: (own.user + own.system) / 1000 / tookMs,
  live: sockets.length - ended,
  failed,
  tokensPerSecond: (arrived * 1000) / tookMs,
  perStream: (arrived * 1000) / tookMs / streams,
  steps: steps - stepsBefore,
  lateSteps: late - lateBefore,
  mostBehindMsEver: mostBehind * 1000,
  behindMs: behind.summary(),
  gapMs: gaps.summary(),
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
