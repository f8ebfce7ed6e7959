// Load client of the memory benchmark. It opens many connections, 128 at a time, and sends one request on each. When every
// connection has its response (or, for streams, the first bytes of it), it reads the resident memory of the peer.
// `node memory-client.mjs JSON` (fields: port, path, headers, pid, stream, connections, bodyBytes) prints one line of JSON.

import { connect } from 'node:net';
import { rssBytes } from './process.mjs';
import { requests } from './traffic.mjs';

/** Connections opened concurrently: fewer than the accept backlog of a listener. */
const CONCURRENCY = 128;
/** Wait between the last response and the first sample. Idle connections wait twice as long, for timers to settle. */
const SETTLE_MS = 1000;
const SAMPLES = 5;
const ANSWER_TIMEOUT_MS = 20_000;

const load = JSON.parse(process.argv[2]);
const messages = requests(load);
const readBuffer = Buffer.allocUnsafeSlow(65_536);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let failed = 0;
let lost = 0;
let lastError = '';

/** Opens one connection and sends its request. Resolves when the response has begun. */
function openConnection(index) {
  return new Promise((resolve) => {
    let answered = false;
    let ended = false;
    const fail = (why) => {
      if (ended) return;
      ended = true;
      if (answered) lost++;
      else {
        failed++;
        lastError = why;
        resolve();
      }
      socket.destroy();
    };
    const socket = connect({
      port: load.port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (bytes, buffer) => {
          if (answered) return true;
          const head = buffer.latin1Slice(0, Math.min(bytes, 12));
          if (head !== 'HTTP/1.1 200') {
            fail(`answer ${head}`);
            return false;
          }
          answered = true;
          socket.setTimeout(0);
          resolve();
          return true;
        },
      },
    });
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => fail('no answer in time'));
    socket.once('connect', () => socket.write(messages[index % messages.length]));
    socket.on('error', (error) => fail(error.message));
    socket.on('close', () => fail('connection closed'));
  });
}

const beforeBytes = rssBytes(load.pid);
let next = 0;
const opener = async () => {
  while (next < load.connections) await openConnection(next++);
};
await Promise.all(Array.from({ length: CONCURRENCY }, opener));
// The streams are still open: they end after the samples.
await wait(load.stream ? SETTLE_MS : 2 * SETTLE_MS);
const samples = [];
for (let sample = 0; sample < SAMPLES; sample++) {
  samples.push(rssBytes(load.pid));
  await wait(200);
}
const report = {
  open: load.connections - failed - lost,
  failed: failed + lost,
  lastError: lost > 0 ? `${lost} were closed early` : lastError,
  beforeBytes,
  rssBytes: samples.sort((a, b) => a - b)[SAMPLES >> 1],
};
process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
