// Load client of the search benchmark. It runs as a process of its own. `node search-client.mjs JSON` prints one line of JSON:
// what was counted between warm-up and end, and the CPU time of the watched processes and of itself in that window.
//
// JSON: { port, logPort, direct, connections, warmupMs, durationMs, ratePerS, watch: { NAME: PID } }
// Without ratePerS the loop is closed and latency counts from sending. With it searches are due at fixed times, latency
// counts from then however late they are sent, and every search that was due in the window counts.

import { connect } from 'node:net';
import { Histogram } from './histogram.mjs';
import { ResponseReader } from './response.mjs';
import { ENGINES, HITS, PAGES, searchRequests } from './search-traffic.mjs';
import { nowUs } from './traffic.mjs';
import { openWindow } from './window.mjs';

/** Searches still running at the end get this long before they count as lost. */
const TAIL_MS = 3_000;
const RECONNECT_MS = 50;
const HEAD_END = '\r\n\r\n';

const load = JSON.parse(process.argv[2]);
const open = load.ratePerS !== undefined;
const enginesAsked = load.direct ? 1 : ENGINES.length;
const requestOf = searchRequests(load);

const count = { requests: 0, errors: 0, lastError: '' };
/** Least and most results in one answer. */
const results = { min: Infinity, max: 0 };
/** Searches that count for latency: `[number, latency in microseconds]`. */
const samples = [];
const sendLag = new Histogram();

/** Numbers of searches: the clock makes them new for every run. */
let nextNumber = nowUs();
let windowFromUs = Infinity;
let windowToUs = Infinity;
let ending = false;
/** Times in microseconds at which searches were due that have no connection yet. */
const due = [];
const idle = [];

const within = (us) => us >= windowFromUs && us < windowToUs;

class Connection {
  #socket = null;
  #reader = new ResponseReader(() => {});
  #pieces = [];
  #number = 0;
  #sinceUs = 0;
  busy = false;

  open() {
    // A connection that is refused is an error, as a request on it would be.
    this.busy = true;
    this.#socket = connect({ port: load.port, host: '127.0.0.1', noDelay: true });
    this.#socket.once('connect', () => this.ready());
    this.#socket.on('data', (bytes) => this.#read(bytes));
    this.#socket.once('error', (error) => this.#fail(error.message));
    this.#socket.once('close', () => this.#fail('connection closed'));
  }

  ready() {
    this.busy = false;
    if (due.length > 0) this.send(due.shift());
    else if (open) idle.push(this);
    else if (!ending) this.send(nowUs());
  }

  send(sinceUs) {
    this.busy = true;
    this.#sinceUs = sinceUs;
    this.#number = nextNumber++;
    this.#socket.write(requestOf(this.#number), 'latin1');
    if (within(sinceUs)) sendLag.add(nowUs() - sinceUs);
  }

  #read(bytes) {
    const readUs = nowUs();
    this.#pieces.push(bytes);
    try {
      if (this.#reader.push(bytes)) this.#complete(readUs);
    } catch (error) {
      this.#fail(error.message);
    }
  }

  #complete(readUs) {
    const { status } = this.#reader;
    const text = Buffer.concat(this.#pieces).toString('utf8');
    this.#pieces = [];
    this.#reader.reset();
    // An answer that cannot be read fails the search.
    const wrong = mistakeIn(status, text.slice(text.indexOf(HEAD_END) + HEAD_END.length));
    this.busy = false;
    if (wrong !== null) recordError(wrong);
    else {
      if (within(readUs)) count.requests++;
      if (within(open ? this.#sinceUs : readUs)) samples.push([this.#number, readUs - this.#sinceUs]);
    }
    this.ready();
  }

  /** Idle connections may be closed by the peer; one with a search may not. */
  #fail(why) {
    if (this.#socket === null) return;
    this.#socket.destroy();
    this.#socket = null;
    const at = idle.indexOf(this);
    if (at >= 0) idle.splice(at, 1);
    if (this.busy) recordError(why);
    this.busy = false;
    this.#pieces = [];
    this.#reader = new ResponseReader(() => {});
    if (!ending) setTimeout(() => this.open(), RECONNECT_MS);
  }
}

/** What is wrong with an answer; null: nothing. */
function mistakeIn(status, body) {
  if (status !== 200) return `status ${status}: ${body.slice(0, 200)}`;
  const answer = JSON.parse(body);
  results.min = Math.min(results.min, answer.results.length);
  results.max = Math.max(results.max, answer.results.length);
  if (load.direct) return answer.results.length === HITS ? null : `${answer.results.length} hits`;
  const { engines_used: used, engine_errors: errors } = answer.meta;
  if (used.length !== ENGINES.length) return errors.map(({ engine, reason }) => `${engine}: ${reason}`).join(', ');
  return answer.results.length === PAGES ? null : `${answer.results.length} results`;
}

function recordError(why) {
  count.errors++;
  count.lastError = why;
}

/** Sends what is due by now; ticks are about a millisecond apart, which `sendLag` shows. */
function pace() {
  const intervalUs = 1e6 / load.ratePerS;
  let nextUs = nowUs();
  const tick = () => {
    if (ending) return;
    for (const now = nowUs(); nextUs <= now; nextUs += intervalUs) {
      const connection = idle.pop();
      if (connection === undefined) due.push(nextUs);
      else connection.send(nextUs);
    }
    setTimeout(tick, 1);
  };
  tick();
}

/** Latencies of the samples, whole and beyond the slowest engine's own time for the same search. */
async function latencies() {
  const response = await fetch(`http://127.0.0.1:${load.logPort}/log`, { headers: { connection: 'close' } });
  const log = new Map((await response.json()).map(([number, ...entry]) => [number, entry]));
  const [latency, added, slowest] = [new Histogram(), new Histogram(), new Histogram()];
  for (const [number, tookUs] of samples) {
    const [slowestUs, answers] = log.get(number) ?? [0, 0];
    if (answers !== enginesAsked) {
      recordError(`${answers} workers were asked`);
      continue;
    }
    latency.add(tookUs);
    slowest.add(slowestUs);
    added.add(tookUs - slowestUs);
  }
  return { latencyMs: latency.summary(), addedMs: added.summary(), slowestMs: slowest.summary() };
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function run() {
  const connections = Array.from({ length: load.connections }, () => new Connection());
  // Opened over half the warm-up, so that searches are spread.
  const everyMs = load.warmupMs / 2 / load.connections;
  for (const [index, connection] of connections.entries()) setTimeout(() => connection.open(), index * everyMs);
  if (open) pace();
  await wait(load.warmupMs);
  const closeWindow = openWindow({ ...load.watch, client: process.pid });
  windowFromUs = nowUs();
  await wait(load.durationMs);
  windowToUs = nowUs();
  const window = closeWindow();
  ending = true;
  const lastMs = performance.now() + TAIL_MS;
  const unfinished = () => due.length + connections.filter(({ busy }) => busy).length;
  while (unfinished() > 0 && performance.now() < lastMs) await wait(20);
  if (unfinished() > 0) count.lastError = 'not answered in time';
  count.errors += unfinished();
  const report = { ...window, ...(await latencies()), results, sendLagMs: sendLag.summary() };
  const line = JSON.stringify({ ...report, ...count, perSecond: count.requests / window.seconds });
  process.stdout.write(`${line}\n`, () => process.exit(0));
}

await run();
