// Load client of a locality run: sends the requests of a workload when they are due, whatever became of earlier ones, keeps no cookies,
// and times the first token of each stream from when its request was due. `node client.mjs JSON` prints one line of JSON.
//
// JSON: { trace or workload, seed, requests, durationMs, warmUp (share of the requests that do not count), model, key, path, blockBytes,
// answerTokens, sessions, ports (of the gateways, which take turns), oracle (whether to go straight to the hosts, as an oracle chooses), hostPorts,
// controlPort, watch: { NAME: PID } }

import { readFileSync } from 'node:fs';
import { Agent, request as send } from 'node:http';
import { Histogram } from '../lib/histogram.mjs';
import { nowUs } from '../lib/traffic.mjs';
import { openWindow } from '../lib/window.mjs';
import { chatBodies, generate, readTrace, spread } from './traces.mjs';

/** Requests that have not ended this long after the last one was sent count as errors. */
const TAIL_MS = 15_000;
/** Content in an event: the first one is the first token. */
const CONTENT = Buffer.from('"content":"');
const FINISH = '"finish_reason":"';
/** Characters at the end of a stream in which its end is looked for. */
const END_CHARS = 2048;

const load = JSON.parse(process.argv[2]);
const all =
  load.trace === undefined
    ? generate(load.workload, { seed: load.seed, requests: load.requests })
    : readTrace(readFileSync(load.trace, 'utf8'), load.trace, load.requests);
const requests = spread(all, load.durationMs);
const bodyOf = chatBodies(requests, { model: load.model, blockBytes: load.blockBytes });
const firstCounted = Math.floor(requests.length * load.warmUp);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity });

const firstToken = new Histogram();
const late = new Histogram();
const count = { sent: 0, ended: 0, errors: 0, lastError: '' };
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function get(path, body) {
  return new Promise((resolve, reject) => {
    const { controlPort: port } = load;
    const asked = send({ port, host: '127.0.0.1', path, method: body === undefined ? 'GET' : 'POST', agent });
    asked.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve(text));
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

/** Sends one request and reads its stream; resolves when it has ended, one way or another. */
async function exchange(index, dueUs) {
  const request = requests[index];
  const answer = Math.max(1, Math.min(load.answerTokens, request.outputTokens));
  const body = bodyOf(request, { max_tokens: answer });
  let port = load.ports[index % load.ports.length];
  let sinceUs = dueUs;
  if (load.oracle) {
    const askedUs = nowUs();
    port = load.hostPorts[Number(await get('/choose', body))];
    // What the oracle costs is not what is measured.
    sinceUs += nowUs() - askedUs;
  }
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${load.key}`,
    'content-length': body.length,
    ...(load.sessions && { 'x-session-id': request.conversation }),
  };
  const isCounted = index >= firstCounted;
  return new Promise((resolve) => {
    const fail = (why) => {
      count.errors++;
      count.lastError = why;
      resolve();
    };
    const asked = send({ port, host: '127.0.0.1', method: 'POST', path: load.path, headers, agent });
    asked.on('error', (error) => fail(error.message));
    asked.on('response', (response) => {
      let end = '';
      let hasBegun = false;
      response.on('data', (chunk) => {
        if (!hasBegun && chunk.includes(CONTENT)) {
          hasBegun = true;
          if (isCounted) firstToken.add(nowUs() - sinceUs);
        }
        end = (end + chunk.latin1Slice()).slice(-END_CHARS);
      });
      response.on('error', (error) => fail(error.message));
      response.on('end', () => {
        count.ended++;
        if (response.statusCode !== 200) fail(`status ${response.statusCode}: ${end.slice(0, 200)}`);
        else if (!hasBegun || !end.includes(FINISH)) fail('a stream without its end');
        else resolve();
      });
    });
    asked.end(body);
  });
}

const running = new Set();
const startUs = nowUs();
let closeWindow;
let before;
for (const [index, { atMs }] of requests.entries()) {
  if (index === firstCounted) {
    before = JSON.parse(await get('/counters'));
    closeWindow = openWindow(load.watch);
  }
  const dueUs = startUs + atMs * 1000;
  const leftMs = (dueUs - nowUs()) / 1000;
  if (leftMs > 0) await wait(leftMs);
  else if (index % 32 === 0) await new Promise(setImmediate);
  if (index >= firstCounted) late.add(nowUs() - dueUs);
  count.sent++;
  const exchanged = exchange(index, dueUs).catch((error) => {
    count.errors++;
    count.lastError = error.message;
  });
  running.add(exchanged);
  void exchanged.then(() => running.delete(exchanged));
}
const window = closeWindow();
await Promise.race([Promise.all(running), wait(TAIL_MS)]);
count.errors += running.size;
if (running.size > 0) count.lastError ||= 'no answer in time';
const after = JSON.parse(await get('/counters'));
const hosts = after.map((host, at) =>
  Object.fromEntries(Object.entries(host).map(([name, value]) => [name, value - before[at][name]])),
);
const report = {
  ...window,
  ...count,
  requests: requests.length - firstCounted,
  firstTokenMs: firstToken.summary(),
  lateMs: late.summary(),
  hosts,
};
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
