// Client of the benchmark of rendered pages: `node renderer-client.mjs JSON` asks the gateway for pages in a closed loop, and prints one
// line of JSON: what was counted between warm-up and end, and the most memory that the browser had.
//
// JSON: { port, webPort, path, atOnce, warmupMs, durationMs, watch: { NAME: PID }, browserPid }

import { Agent, request } from 'undici';
import { Histogram } from '../lib/histogram.mjs';
import { pssBytes } from '../lib/process.mjs';
import { KEY, nowUs } from '../lib/traffic.mjs';
import { openWindow } from '../lib/window.mjs';

const load = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: load.atOnce, pipelining: 1 });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };

/** How often the memory of the browser is read. */
const SAMPLE_MS = 100;

const count = { requests: 0, errors: 0, lastError: '' };
const latency = new Histogram();
let measuring = false;
let stopped = false;
let next = 0;
let memoryBytes = 0;

async function ask() {
  const sinceUs = nowUs();
  // Every page is of another address: none comes from a cache.
  const url = `http://127.0.0.1:${load.webPort}${load.path}/${process.pid}-${next++}`;
  try {
    const answer = await request(`http://127.0.0.1:${load.port}/search/fetch`, {
      ...{ method: 'POST', dispatcher, headers },
      body: JSON.stringify({ url }),
    });
    const text = await answer.body.text();
    // Of the articles, some are gone.
    if (answer.statusCode === 502 && text.includes('status 410')) return;
    if (answer.statusCode !== 200 || JSON.parse(text).word_count < 100) throw new Error(text.slice(0, 200));
    if (!measuring) return;
    count.requests++;
    latency.add(nowUs() - sinceUs);
  } catch (error) {
    if (!measuring) return;
    count.errors++;
    count.lastError = error.message;
  }
}

async function loop() {
  while (!stopped) await ask();
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const running = Array.from({ length: load.atOnce }, loop);
await wait(load.warmupMs);
const closeWindow = openWindow(load.watch);
measuring = true;
const sampling = setInterval(() => (memoryBytes = Math.max(memoryBytes, pssBytes(load.browserPid))), SAMPLE_MS);
await wait(load.durationMs);
clearInterval(sampling);
measuring = false;
const window = closeWindow();
stopped = true;
await Promise.race([Promise.all(running), wait(15_000)]);
const report = {
  ...{ ...window, ...count, memoryBytes },
  ...{ perSecond: count.requests / window.seconds, latencyMs: latency.summary() },
};
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
