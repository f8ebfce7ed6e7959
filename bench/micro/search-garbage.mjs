// Bytes that one search over five engines allocates on the JavaScript heap, from the query to the merged answer, and its CPU time:
//
//   node bench/micro/search-garbage.mjs [DIST]     prints them, for dist or another built tree
//   node bench/micro/search-garbage.mjs --check    fails when a search allocates more than MOST_BYTES
//
// Five search workers answer ten hits each as in the search benchmark (`../lib/search-traffic.mjs`). Their answers are in memory: sockets
// and HTTP are not counted. The young generation holds a whole sample, so that nothing is collected while one is taken and
// the growth of the heap is what was allocated. Runs of equal code differ by 2 % as a rule, by 8 % at most.

import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { PerformanceObserver } from 'node:perf_hooks';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { useOwnNode } from '../lib/own-node.mjs';
import { ENGINES, HITS, PAGES, workerAnswer } from '../lib/search-traffic.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What a search may allocate: what it does, 57 to 60 KB, and 5 % more. */
const MOST_BYTES = 63_000;

const WARM = 3000;
const SAMPLES = 5;
const SEARCHES = 200;

/** A young generation of 256 MiB from the start: a sample of the slowest code that was ever measured takes 60 MB. */
const NODE_FLAGS = ['--expose-gc', '--max-semi-space-size=256', '--min-semi-space-size=256'];
const CHILD = 'measured';

function hostOf(engine) {
  return `${engine.replace('_', '-')}.test`;
}

/** Answers at once, but in another turn of the event loop, as a socket does. */
function memoryTransport() {
  const answers = new Map(
    ENGINES.map((engine) => [hostOf(engine), Buffer.from(workerAnswer(engine, 123_456_789_012_345))]),
  );
  return {
    send({ url }) {
      const body = answers.get(new URL(url).hostname);
      const response = { status: 200, headers: { 'content-type': 'application/json' }, body };
      return new Promise((done) => setImmediate(done, response));
    },
    close() {},
  };
}

/** Bytes of one call of `send` above, which are not the search's. */
async function transportBytes(transport) {
  const request = { url: 'http://engine-a.test/search' };
  const measure = async () => {
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < SEARCHES; at++) await transport.send(request);
    return (process.memoryUsage().heapUsed - before) / SEARCHES;
  };
  for (let at = 0; at < 20; at++) await measure();
  globalThis.gc();
  return await measure();
}

async function measure(dist) {
  const load = (file) => import(pathToFileURL(join(dist, file)).href);
  const { configureEngines, SearchService, EngineCells } = await load('src/search/index.js');
  const { createPlaceMemory } = await load('src/routing/index.js');
  const { systemClock, systemEpochMs, systemRandom } = await load('src/actor/index.js');
  const { memory } = new EngineCells();
  const transport = memoryTransport();
  const service = new SearchService({
    ...{ clock: systemClock, random: systemRandom, epochMs: systemEpochMs, memory, transport },
    ...{ placeMemory: createPlaceMemory(1), thread: 0 },
    onOutcome() {},
  });
  const entries = ENGINES.map((id) => [id, { kind: 'worker', url: `http://${hostOf(id)}` }]);
  const { engines } = configureEngines(Object.fromEntries(entries), (id) => ENGINES.indexOf(id));
  service.configure({
    timeoutMs: 10_000,
    softTimeoutMs: 4000,
    cacheTtlMs: null,
    cacheBytes: 1,
    perAccount: 8,
    engines,
  });
  const query = { query: 'fall of a headrace', engines: ENGINES, maxResults: HITS, type: 'web' };
  const search = () => new Promise((done) => service.search(query, { account: 'account', caller: 'account' }, done));
  const { answer } = await search();
  if (answer.results.length !== PAGES) throw new Error(`expected ${PAGES} pages, not ${answer.results.length}`);
  for (let at = 0; at < WARM; at++) await search();
  const perSend = await transportBytes(transport);
  const collections = [];
  new PerformanceObserver((list) => collections.push(...list.getEntries())).observe({ entryTypes: ['gc'] });
  const samples = [];
  for (let sample = 0; sample < SAMPLES; sample++) {
    globalThis.gc();
    const fromMs = performance.now();
    const cpuBefore = process.cpuUsage();
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < SEARCHES; at++) await search();
    const bytes = (process.memoryUsage().heapUsed - before) / SEARCHES - ENGINES.length * perSend;
    const { user, system } = process.cpuUsage(cpuBefore);
    // The observer hears of a collection later.
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
    if (!collections.some(({ startTime }) => startTime > fromMs))
      samples.push({ bytes, cpuUs: (user + system) / SEARCHES });
  }
  if (samples.length === 0) throw new Error('every sample was cut by a collection');
  service.close();
  const median = (name) => samples.map((each) => each[name]).sort((a, b) => a - b)[samples.length >> 1];
  return { bytes: Math.round(median('bytes')), cpuUs: Math.round(median('cpuUs')) };
}

useOwnNode(ROOT);
if (process.argv[2] === CHILD) {
  process.stdout.write(JSON.stringify(await measure(process.argv[3])));
} else {
  const check = process.argv.includes('--check');
  const dist = resolve(process.argv.slice(2).find((each) => !each.startsWith('--')) ?? join(ROOT, 'dist'));
  const args = [...NODE_FLAGS, fileURLToPath(import.meta.url), CHILD, dist];
  const { status, stdout } = spawnSync(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 120_000,
  });
  if (status !== 0) process.exit(1);
  const { bytes, cpuUs } = JSON.parse(stdout.toString());
  process.stdout.write(`a search over ${ENGINES.length} engines: ${bytes} bytes allocated, ${cpuUs} µs CPU\n`);
  if (check && bytes > MOST_BYTES) {
    process.stderr.write(`more than ${MOST_BYTES} bytes\n`);
    process.exitCode = 1;
  }
}
