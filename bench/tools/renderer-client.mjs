// Client of the benchmark of rendered pages: `node renderer-client.mjs JSON` asks the gateway for pages in a closed loop, and prints one
// line of JSON: what was counted between warm-up and end, and the most memory that the browser had.
//
// JSON: { port, webPort, path, callers, warmupMs, durationMs, watch: { NAME: PID }, browserPid }

import { Agent, request } from 'undici';
import { pssBytes } from '../lib/process.mjs';
import { KEY } from '../lib/traffic.mjs';
import { runClosedLoop } from './closed-loop.mjs';

const load = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: load.callers, pipelining: 1 });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };

/** How often the memory of the browser is read. */
const SAMPLE_MS = 100;

let memoryBytes = 0;

async function ask(n) {
  // Every page is of another address: none comes from a cache.
  const url = `http://127.0.0.1:${load.webPort}${load.path}/${process.pid}-${n}`;
  const answer = await request(`http://127.0.0.1:${load.port}/search/fetch`, {
    ...{ method: 'POST', dispatcher, headers },
    body: JSON.stringify({ url }),
  });
  const text = await answer.body.text();
  // Of the articles, some are gone.
  if (answer.statusCode === 502 && text.includes('status 410')) return false;
  if (answer.statusCode !== 200 || JSON.parse(text).word_count < 100) throw new Error(text.slice(0, 200));
  return true;
}

function sampleMemory() {
  const timer = setInterval(() => {
    memoryBytes = Math.max(memoryBytes, pssBytes(load.browserPid));
  }, SAMPLE_MS);
  return () => clearInterval(timer);
}

await runClosedLoop(load, ask, sampleMemory, () => ({ memoryBytes }));
