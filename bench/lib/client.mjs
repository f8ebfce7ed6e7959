// Load client of the chat benchmarks. It runs as a process of its own, so that every peer gets the same bytes and the peer's
// CPU time does not include the client's. `node client.mjs JSON` prints one line of JSON: what was counted between warm-up
// and end, and the CPU time that the watched processes used in that window.
//
// JSON: { port, path, headers, stream, connections, bodyBytes, warmupMs, durationMs, ratePerS, answerBytes, answerEvents,
// dialect, model, watch: { NAME: PID } }. With `dialect` the requests are those of `dialect-traffic.mjs`.
// Without `answerBytes` answers may have any length.
// Without ratePerS the loop is closed: a connection sends again as soon as its response is complete. With it the loop is open:
// requests are due at fixed times and wait for a free connection. Latency counts from when a request was due, of all that were due in the
// window, whenever they are answered; so do times of events, from when they began.

import { connect } from 'node:net';
import { dialectRequests } from './dialect-traffic.mjs';
import { Histogram } from './histogram.mjs';
import { ResponseReader } from './response.mjs';
import { EVENTS, nowUs, requests } from './traffic.mjs';
import { openWindow } from './window.mjs';

const READ_BUFFER_BYTES = 256 * 1024;
/** Requests still running at the end get this long before they count as lost. */
const TAIL_MS = 3_000;
const RECONNECT_MS = 50;

const load = JSON.parse(process.argv[2]);
const messages = load.dialect === undefined ? requests(load) : dialectRequests(load);
/** Events of one stream through this peer, the closing one included. */
const eventsPerStream = load.answerEvents ?? EVENTS + 1;
const readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);

const count = { requests: 0, events: 0, errors: 0, lastError: '' };
const latency = new Histogram();
const firstEvent = new Histogram();
const eventDelay = new Histogram();
const eventGap = new Histogram();

const open = load.ratePerS !== undefined;

let measuring = false;
let stopped = false;
let windowFromUs = Infinity;
let windowToUs = Infinity;
let nextMessage = 0;
/** Times in microseconds at which requests were due that have no connection yet. */
const due = [];
const idle = [];

class Connection {
  #socket = null;
  #reader = new ResponseReader((index, stampUs) => this.#event(index, stampUs));
  #startedUs = 0;
  #eventUs = 0;
  #readUs = 0;
  busy = false;

  open() {
    // A connection that is refused is an error, as a request on it would be.
    this.busy = true;
    this.#socket = connect({
      port: load.port,
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer: readBuffer, callback: (bytes, buffer) => this.#read(buffer.subarray(0, bytes)) },
    });
    this.#socket.once('connect', () => this.ready());
    this.#socket.once('error', (error) => this.#fail(error.message));
    this.#socket.once('close', () => this.#fail('connection closed'));
  }

  ready() {
    this.busy = false;
    if (!open) this.send(nowUs());
    else if (due.length > 0) this.send(due.shift());
    else idle.push(this);
  }

  send(sinceUs) {
    if (stopped && !open) return;
    this.busy = true;
    this.#startedUs = sinceUs;
    this.#socket.write(messages[nextMessage]);
    nextMessage = nextMessage + 1 === messages.length ? 0 : nextMessage + 1;
  }

  #read(bytes) {
    this.#readUs = nowUs();
    try {
      if (this.#reader.push(bytes)) this.#complete();
    } catch (error) {
      this.#fail(error.message);
    }
    return true;
  }

  #event(index, stampUs) {
    if (measuring) count.events++;
    if (stampUs > 0 && isSample(stampUs)) eventDelay.add(this.#readUs - stampUs);
    if (index === 0) {
      if (isSample(this.#startedUs)) firstEvent.add(this.#readUs - this.#startedUs);
    } else if (index > 1 && index < EVENTS && isSample(this.#eventUs)) eventGap.add(this.#readUs - this.#eventUs);
    this.#eventUs = this.#readUs;
  }

  #complete() {
    const { status, bodyBytes, events } = this.#reader;
    const isLong = load.answerBytes === undefined || bodyBytes === load.answerBytes;
    const whole = status === 200 && isLong && (!load.stream || events === eventsPerStream);
    this.#reader.reset();
    this.busy = false;
    if (!whole) recordError(`status ${status}, ${bodyBytes} bytes, ${events} events`);
    else {
      if (measuring) count.requests++;
      if (isSample(this.#startedUs)) latency.add(this.#readUs - this.#startedUs);
    }
    if (stopped && due.length === 0) this.#socket.destroy();
    else this.ready();
  }

  /** Idle connections may be closed by the peer; one with a request may not. */
  #fail(why) {
    if (this.#socket === null) return;
    this.#socket.destroy();
    this.#socket = null;
    const at = idle.indexOf(this);
    if (at >= 0) idle.splice(at, 1);
    if (this.busy) recordError(why);
    this.busy = false;
    this.#reader = new ResponseReader((index, stampUs) => this.#event(index, stampUs));
    if (!stopped || due.length > 0) setTimeout(() => this.open(), RECONNECT_MS);
  }
}

/** Whether a time that ends now and began then counts. */
function isSample(sinceUs) {
  return open ? sinceUs >= windowFromUs && sinceUs < windowToUs : measuring;
}

function recordError(why) {
  count.errors++;
  count.lastError = why;
}

/** Sends the requests that are due, about once per millisecond. */
function pace() {
  const intervalUs = 1e6 / load.ratePerS;
  let nextUs = nowUs();
  const tick = () => {
    if (stopped) return;
    for (const now = nowUs(); nextUs <= now; nextUs += intervalUs) {
      const connection = idle.pop();
      if (connection === undefined) due.push(nextUs);
      else connection.send(nextUs);
    }
    setTimeout(tick, 1);
  };
  tick();
}

function report(window) {
  return {
    ...window,
    ...count,
    eventsPerStream,
    perSecond: count.requests / window.seconds,
    eventsPerSecond: count.events / window.seconds,
    latencyMs: latency.summary(),
    firstEventMs: firstEvent.summary(),
    eventDelayMs: eventDelay.summary(),
    eventGapMs: eventGap.summary(),
  };
}

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function run() {
  const connections = Array.from({ length: load.connections }, () => new Connection());
  // Opened over half the warm-up, so that streams are spread and do not all end at once.
  const everyMs = load.warmupMs / 2 / load.connections;
  for (const [index, connection] of connections.entries()) setTimeout(() => connection.open(), index * everyMs);
  if (open) pace();
  await wait(load.warmupMs);
  const closeWindow = openWindow(load.watch);
  measuring = true;
  windowFromUs = nowUs();
  await wait(load.durationMs);
  measuring = false;
  windowToUs = nowUs();
  const window = closeWindow();
  stopped = true;
  const lastMs = performance.now() + TAIL_MS;
  const unfinished = () => due.length + connections.filter(({ busy }) => busy).length;
  while (unfinished() > 0 && performance.now() < lastMs) await wait(20);
  if (unfinished() > 0) count.lastError = 'not answered in time';
  count.errors += unfinished();
  process.stdout.write(`${JSON.stringify(report(window))}\n`, () => process.exit(0));
}

await run();
