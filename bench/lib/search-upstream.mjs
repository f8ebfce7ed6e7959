// Five search workers in one process on uWebSockets.js: each answers ten hits 50 ms after a request.
// `node search-upstream.mjs SERVICE_MS` prints `ready PORT PORT PORT PORT PORT`, one port per engine, and serves until SIGTERM.
// `GET /log` returns how long each search took here: a 50 ms timer may fire a millisecond late, which is not to be counted
// as latency of the gateway.

import * as uWS from 'uWebSockets.js';
import { ENGINES, numberOf, workerAnswer } from './search-traffic.mjs';
import { nowUs } from './traffic.mjs';

const SERVICE_MS = Number(process.argv[2] ?? 50);

/** By number of the search: the slowest engine in microseconds, and how many engines answered. */
let searches = new Map();

function record(number, tookUs) {
  const search = searches.get(number);
  if (search === undefined) searches.set(number, { slowestUs: tookUs, answers: 1 });
  else {
    search.slowestUs = Math.max(search.slowestUs, tookUs);
    search.answers++;
  }
}

function answer(res, state, engine, number) {
  if (state.gone) return;
  const body = workerAnswer(engine, number);
  record(number, nowUs() - state.arrivedUs);
  res.cork(() => {
    res.writeHeader('content-type', 'application/json').end(body);
  });
}

function post(res) {
  const state = { gone: false, arrivedUs: 0 };
  const pieces = [];
  res.onAborted(() => {
    state.gone = true;
  });
  res.onData((chunk, last) => {
    pieces.push(Buffer.from(chunk).toString('latin1'));
    if (!last) return;
    state.arrivedUs = nowUs();
    const { engine, query } = JSON.parse(pieces.join(''));
    setTimeout(answer, SERVICE_MS, res, state, engine, numberOf(query));
  });
}

/** `[[number, slowestUs, answers], …]` of all searches since the last time; forgets them. */
function log(res) {
  const rows = [...searches].map(([number, { slowestUs, answers }]) => [number, slowestUs, answers]);
  searches = new Map();
  res.writeHeader('content-type', 'application/json').end(JSON.stringify(rows));
}

uWS._cfg('silent');
const app = uWS.App();
app.post('/search', post);
app.get('/log', log);

const ports = [];
for (const engine of ENGINES) {
  app.listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error(`no port for ${engine}`);
    ports.push(uWS.us_socket_local_port(socket));
    if (ports.length === ENGINES.length) process.stdout.write(`ready ${ports.join(' ')}\n`);
  });
}

process.on('SIGTERM', () => {
  app.close();
  process.exit(0);
});
