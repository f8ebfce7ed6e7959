// Runs the gateway under V8's precise coverage and sends it the requests of ../path.mjs. `node path-gateway.mjs SPEC`, SPEC being
// JSON, prints one line of JSON: for every path, the calls of every function in each counted request.

import { readFileSync, realpathSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { Session } from 'node:inspector';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** From the last byte of an answer to the end of its window. */
const SETTLE_MS = 100;
/** From the end of a request to the flush of its charge: the settling, and time to read the counters on a busy machine. */
const FLUSH_MS = 1000;
/** The window of a charge begins this long before the flush, and ends this long after the commit. */
const CHARGE_MARGIN_MS = 80;
/** Longest wait for a booked charge. */
const BOOKED_MS = 10_000;
/** Requests that may be thrown away because their charge was booked before the counters were read. */
const MAX_SPOILED = 30;
/** Requests after the warm-up that are counted and thrown away: reading the counters has a first time too. */
const UNCOUNTED = 2;
/** Nothing that the gateway does at intervals happens in a run, where a setting decides. */
const NEVER = '3600s';
const ENGINES = ['engine_a', 'engine_b'];

/** Files below the built tree; the model host is no part of a gateway's work. */
const COUNTED = /^(?:src\/(?!host\/)|workers\/).*\.js$/;

const { dist, host, sitePort, key, model, store, tokens, warmRequests, repeats } = JSON.parse(process.argv[2]);

/** As V8 names its files. */
const BASE_URL = pathToFileURL(`${realpathSync(dist)}/`).href;

const session = new Session();
session.connect();

/** Commands of the profiler answer before they return. */
function profiler(method, params) {
  let answer;
  session.post(`Profiler.${method}`, params, (error, result) => {
    if (error) throw error;
    answer = result;
  });
  return answer;
}

/** Before the gateway is loaded, so that every function has its counters from the beginning. */
profiler('enable');
profiler('startPreciseCoverage', { callCount: true, detailed: true });

const { createGateway } = await import(pathToFileURL(join(dist, 'src', 'index.js')).href);
const worker = { kind: 'worker', url: `http://127.0.0.1:${sitePort}`, types: ['web'] };
const gateway = createGateway({
  listen: '127.0.0.1:0',
  threads: 0,
  store: `sqlite:${store}`,
  models: { [model]: { servers: [host], pricing: { prompt: '0.25', completion: '1.50' } } },
  search: {
    engines: Object.fromEntries(ENGINES.map((id) => [id, worker])),
    pricing: Object.fromEntries(ENGINES.map((id) => [id, '0.001'])),
  },
  fetch: { allow: ['127.0.0.1'], ports: [sitePort], cacheTtl: null, cleaners: 1, price: '0.001' },
  health: { interval: NEVER },
  credit: { lease: '10', leaseTtl: NEVER, flush: `${FLUSH_MS}ms` },
});
const { url } = await gateway.listen();
await gateway.ready();

const ledger = new DatabaseSync(store, { readOnly: true });
const dataVersion = ledger.prepare('pragma data_version');
/** Changes with every commit of another connection, whatever the tables are called. */
const commits = () => dataVersion.get().data_version;

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

/** Sends one request over the one kept connection and resolves with its whole answer. */
function post(path, body) {
  const text = JSON.stringify(body);
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${key}`,
    'content-length': Buffer.byteLength(text),
  };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(new URL(path, url), { method: 'POST', agent, headers }, (response) => {
      const pieces = [];
      response.on('data', (piece) => pieces.push(piece));
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode, text: Buffer.concat(pieces).toString() }));
    });
    sent.on('error', reject);
    sent.end(text);
  });
}

function expect(what, { status, text }, isRight) {
  if (status !== 200 || !isRight(text)) throw new Error(`${what} was answered with ${status}: ${text.slice(0, 500)}`);
}

/** One request of each path; `n` makes it unlike all others, so that nothing is answered from a cache. */
const REQUESTS = {
  async chat(n) {
    const messages = [{ role: 'user', content: `Question ${n}` }];
    const body = { model, messages, stream: true, max_tokens: tokens };
    expect('a chat', await post('/v1/chat/completions', body), (text) => text.trimEnd().endsWith('data: [DONE]'));
  },
  async search(n) {
    const fromBoth = (text) => ENGINES.every((id) => text.includes(`/${id}/`));
    expect('a search', await post('/search', { query: `sluice ${n}`, engines: ENGINES }), fromBoth);
  },
  async page(n) {
    const url = `http://127.0.0.1:${sitePort}/${n}`;
    expect('a page', await post('/search/fetch', { url }), (text) => JSON.parse(text).content.includes('headrace'));
  },
};

const functions = new Map();

/** Calls since the last time, by function: `FILE:OFFSET`. Reading sets the counters back. */
function takeCalls() {
  const calls = new Map();
  for (const script of profiler('takePreciseCoverage').result) {
    if (!script.url.startsWith(BASE_URL)) continue;
    const file = COUNTED.exec(script.url.slice(BASE_URL.length))?.[0];
    if (file === undefined) continue;
    for (const { functionName, ranges } of script.functions) {
      const { count, startOffset } = ranges[0];
      if (count === 0) continue;
      const id = `${file}:${startOffset}`;
      if (!functions.has(id)) functions.set(id, { file, path: fileURLToPath(script.url), functionName, startOffset });
      calls.set(id, (calls.get(id) ?? 0) + count);
    }
  }
  return calls;
}

const texts = new Map();

/** Line of the built file. */
function lineOf({ path, startOffset }) {
  let text = texts.get(path);
  if (text === undefined) texts.set(path, (text = readFileSync(path, 'utf8')));
  return text.slice(0, startOffset).split('\n').length;
}

async function booked(before) {
  const until = performance.now() + BOOKED_MS;
  while (commits() === before) {
    if (performance.now() > until) throw new Error('no charge was booked');
    await sleep(5);
  }
  await sleep(CHARGE_MARGIN_MS);
}

let sent = 0;

/** As long as all others: the digits of a body are read too. */
const numbered = (n) => String(n).padStart(4, '0');

/** One request and its charge. Null when the charge was booked before the counters of the request were read. */
async function countOnce(path) {
  // Timers with a period of their own must not meet every window.
  await sleep((++sent * 137) % 400);
  const before = commits();
  takeCalls();
  await REQUESTS[path](numbered(sent));
  const endedMs = performance.now();
  await sleep(SETTLE_MS);
  const request = takeCalls();
  await sleep(Math.max(0, endedMs + FLUSH_MS - CHARGE_MARGIN_MS - performance.now()));
  const spoiled = commits() !== before;
  takeCalls();
  if (!spoiled) await booked(before);
  const charge = takeCalls();
  return spoiled ? null : { request, charge };
}

async function count(path) {
  for (let at = 0; at < warmRequests; at++) await REQUESTS[path](numbered(++sent));
  await sleep(2 * FLUSH_MS);
  const counted = [];
  for (let spoiled = 0; counted.length < UNCOUNTED + repeats;) {
    const once = await countOnce(path);
    if (once !== null) counted.push(once);
    else if (++spoiled > MAX_SPOILED)
      throw new Error('charges are booked before the counters are read: a busy machine?');
  }
  return counted.slice(UNCOUNTED);
}

const chats = await count('chat');
const samples = {
  chat: chats.map(({ request }) => request),
  search: (await count('search')).map(({ request }) => request),
  page: (await count('page')).map(({ request }) => request),
  charge: chats.map(({ charge }) => charge),
};

function rowOf(id, runs) {
  const it = functions.get(id);
  const name = it.functionName === '' ? '(anonymous)' : it.functionName;
  return { file: it.file, line: lineOf(it), name, calls: runs.map((calls) => calls.get(id) ?? 0) };
}

const result = Object.fromEntries(
  Object.entries(samples).map(([path, runs]) => {
    const ids = new Set(runs.flatMap((calls) => [...calls.keys()]));
    return [path, [...ids].map((id) => rowOf(id, runs))];
  }),
);
await new Promise((resolve) => process.stdout.write(`${JSON.stringify(result)}\n`, resolve));
ledger.close();
agent.destroy();
await gateway.close();
process.exit(0);
