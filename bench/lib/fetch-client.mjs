// Load client of the fetch benchmark: asks the gateway for pages (POST /search/fetch). It runs as a process of its own.
// `node fetch-client.mjs JSON` prints one line of JSON: what was counted between warm-up and end.
//
// JSON: { port, sitePort, pages, connections, warmupMs, durationMs, ratePerS, lastMs, watch: { NAME: PID } }
// Without ratePerS every connection asks again when it has its response. With it, requests are due at fixed times, and
// latency counts from then, of all that were due in the window. Pages that do not come within lastMs after the window are errors.

import { Agent, request } from 'undici';
import { Histogram } from './histogram.mjs';
import { KEY, nowUs } from './traffic.mjs';
import { openWindow } from './window.mjs';

/** Pages still on their way at the end get this long before they count as lost. */
const LAST_MS = 3_000;

const load = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: load.connections, pipelining: 1 });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };

const count = { requests: 0, errors: 0, lastError: '', words: 0 };
const latency = new Histogram();
const open = load.ratePerS !== undefined;
let windowFromUs = Infinity;
let windowToUs = Infinity;
let stopped = false;
let next = 0;
let unfinished = 0;
const settled = Promise.withResolvers();

const within = (us) => us >= windowFromUs && us < windowToUs;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fetchOne(sinceUs) {
  // The number makes every URL unique: no response comes from the cache, no two requests share a download.
  const n = next++;
  unfinished++;
  const body = JSON.stringify({ url: `http://127.0.0.1:${load.sitePort}/${n % load.pages}?n=${n}` });
  try {
    const answer = await request(`http://127.0.0.1:${load.port}/search/fetch`, {
      method: 'POST',
      dispatcher,
      headers,
      body,
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}: ${text.slice(0, 200)}`);
    const words = JSON.parse(text).word_count;
    const readUs = nowUs();
    if (within(readUs)) {
      count.requests++;
      count.words += words;
    }
    if (within(open ? sinceUs : readUs)) latency.add(readUs - sinceUs);
  } catch (error) {
    count.errors++;
    count.lastError = error.message;
  } finally {
    unfinished--;
    if (stopped && unfinished === 0) settled.resolve();
  }
}

async function loop() {
  while (!stopped) await fetchOne(nowUs());
}

/** Asks for what is due, about once per millisecond, up to the end of the window. */
async function pace() {
  const intervalUs = 1e6 / load.ratePerS;
  for (let nextUs = nowUs(); nextUs < windowToUs; await wait(1))
    for (const toUs = Math.min(nowUs(), windowToUs); nextUs <= toUs; nextUs += intervalUs) void fetchOne(nextUs);
}

const paced = open ? pace() : undefined;
if (!open) for (let at = 0; at < load.connections; at++) void loop();
await wait(load.warmupMs);
const closeWindow = openWindow(load.watch);
windowFromUs = nowUs();
await wait(load.durationMs);
windowToUs = nowUs();
const window = closeWindow();
await paced;
stopped = true;
if (unfinished > 0) await Promise.race([settled.promise, wait(load.lastMs ?? LAST_MS)]);
if (unfinished > 0) count.lastError = 'not answered in time';
count.errors += unfinished;
const report = { ...window, ...count, perSecond: count.requests / window.seconds, latencyMs: latency.summary() };
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
