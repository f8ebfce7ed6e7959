// Client of the benchmark of tool calls: `node mcp-client.mjs JSON` asks for searches in one of several ways, in a closed loop, and prints
// one line of JSON: what was counted between warm-up and end.
//
// JSON: { way, port, connections, warmupMs, durationMs, watch: { NAME: PID } }
// way: `http` (POST /search), `sse` (a tool call of the revisions of 2025, answered as an event), `json` (of the revision of 2026)

import { Agent, request } from 'undici';
import { Histogram } from '../lib/histogram.mjs';
import { KEY, nowUs } from '../lib/traffic.mjs';
import { openWindow } from '../lib/window.mjs';

const load = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: load.connections, pipelining: 1 });
const HEADERS = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };
const REVISION = '2026-07-28';

const callOf = (query, params = {}) => {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search', arguments: { query }, ...params } };
};

const WAYS = {
  http: { path: '/search', headers: HEADERS, bodyOf: (query) => ({ query }) },
  sse: { path: '/mcp', headers: { ...HEADERS, accept: 'application/json, text/event-stream' }, bodyOf: callOf },
  json: {
    path: '/mcp',
    headers: {
      ...HEADERS,
      accept: 'application/json, text/event-stream',
      ...{ 'mcp-protocol-version': REVISION, 'mcp-method': 'tools/call', 'mcp-name': 'search' },
    },
    bodyOf: (query) =>
      callOf(query, {
        _meta: {
          'io.modelcontextprotocol/protocolVersion': REVISION,
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      }),
  },
};

const way = WAYS[load.way];
const count = { requests: 0, errors: 0, lastError: '' };
const latency = new Histogram();
let measuring = false;
let stopped = false;
let next = 0;

async function ask() {
  const sinceUs = nowUs();
  try {
    const answer = await request(`http://127.0.0.1:${load.port}${way.path}`, {
      ...{ method: 'POST', dispatcher, headers: way.headers },
      body: JSON.stringify(way.bodyOf(`${load.way} ${next++}`)),
    });
    const text = await answer.body.text();
    if (answer.statusCode !== 200 || !text.includes('engines_used')) throw new Error(text.slice(0, 200));
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

const running = Array.from({ length: load.connections }, loop);
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
