// Many connections at once, a process of its own: opens them by turns, sends one request on each, and when all have their
// answer (or, for streams, the first of it) reads the memory of the peer. Run as `node crowd.mjs JSON` (fields: port, path,
// headers, pid, stream, connections, bodyBytes); prints one line of JSON.

import { connect } from 'node:net';
import { rssBytes } from './process.mjs';
import { requests } from './traffic.mjs';

/** Connections that are being opened at a time: fewer than a listener's queue holds. */
const AT_ONCE = 128;
const CALM_MS = 1000;
const SAMPLES = 5;
const ANSWER_TIMEOUT_MS = 20_000;

const load = JSON.parse(process.argv[2]);
const messages = requests(load);
const readBuffer = Buffer.allocUnsafeSlow(65_536);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let failed = 0;
let lost = 0;
let lastError = '';

/** One connection with its request; settles when the answer has begun. */
function enter(index) {
  return new Promise((resolve) => {
    let answered = false;
    const fail = (why) => {
      if (answered) lost++;
      else {
        failed++;
        lastError = why;
        resolve();
      }
      answered = true;
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
          if (head !== 'HTTP/1.1 200') fail(`answer ${head}`);
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
  while (next < load.connections) await enter(next++);
};
await Promise.all(Array.from({ length: AT_ONCE }, opener));
// Streams go on meanwhile, and end only later.
await wait(load.stream ? CALM_MS : 2 * CALM_MS);
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
