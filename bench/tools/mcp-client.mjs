// Client of the benchmark of tool calls: `node mcp-client.mjs JSON` asks for searches in one of several ways, in a closed loop, and prints
// one line of JSON: what was counted between warm-up and end.
//
// JSON: { way, port, callers, warmupMs, durationMs, watch: { NAME: PID } }
// way: `http` (POST /search), `sse` (a tool call of the revisions of 2025, answered as an event), `json` (of the revision of 2026)

import { Agent, request } from 'undici';
import { KEY } from '../lib/traffic.mjs';
import { runClosedLoop } from './closed-loop.mjs';

const load = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: load.callers, pipelining: 1 });
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

async function ask(n) {
  const answer = await request(`http://127.0.0.1:${load.port}${way.path}`, {
    ...{ method: 'POST', dispatcher, headers: way.headers },
    body: JSON.stringify(way.bodyOf(`${load.way} ${n}`)),
  });
  const text = await answer.body.text();
  // The snippet of every result.
  if (answer.statusCode !== 200 || !text.includes('brings water')) throw new Error(JSON.stringify(text.slice(0, 200)));
  return true;
}

await runClosedLoop(load, ask);
