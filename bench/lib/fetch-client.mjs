// Load client of the fetch benchmark: asks the gateway for pages (POST /search/fetch). It runs as a process of its own.
// `node fetch-client.mjs JSON` prints one line of JSON: what was counted between warm-up and end.
//
// JSON: { port, sitePort, pages, connections, warmupMs, durationMs, ratePerS, watch: { NAME: PID } }
// Without ratePerS every connection asks again when it has its response. With it, requests are due at fixed times, and
// latency counts from then.

import { Agent, request } from 'undici';
import { Histogram } from './histogram.mjs';
import { KEY, nowUs } from './traffic.mjs';
import { openWindow } from './window.mjs';

const load = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: load.connections, pipelining: 1 });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };

const count = { requests: 0, errors: 0, lastError: '', words: 0 };
const latency = new Histogram();
let measuring = false;
let stopped = false;
let next = 0;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fetchOne(sinceUs) {
  // The number makes every URL unique: no response comes from the cache, no two requests share a download.
  const n = next++;
  const body = JSON.stringify({ url: `http://127.0.0.1:${load.sitePort}/${n % load.pages}?n=${n}` });
  try {
    const answer = await request(`http://127.0.0.1:${load.port}/search/fetch`, {
      method: 'POST',
      dispatcher,
      headers,
      body,
    });
    const text = await answer.body.text();
    if (!measuring) return;
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}: ${text.slice(0, 200)}`);
    count.requests++;
    count.words += JSON.parse(text).word_count;
    latency.add(nowUs() - sinceUs);
  } catch (error) {
    if (!measuring) return;
    count.errors++;
    count.lastError = error.message;
  }
}

async function loop() {
  while (!stopped) await fetchOne(nowUs());
}

async function pace() {
  const intervalUs = 1e6 / load.ratePerS;
  for (let nextUs = nowUs(); !stopped; await wait(1))
    for (const now = nowUs(); nextUs <= now; nextUs += intervalUs) void fetchOne(nextUs);
}

const running = load.ratePerS === undefined ? Array.from({ length: load.connections }, loop) : [pace()];
await wait(load.warmupMs);
const closeWindow = openWindow(load.watch);
measuring = true;
await wait(load.durationMs);
measuring = false;
const window = closeWindow();
stopped = true;
await Promise.race([Promise.all(running), wait(3000)]);
const report = { ...window, ...count, perSecond: count.requests / window.seconds, latencyMs: latency.summary() };
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
