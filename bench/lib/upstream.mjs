// Model server for load benchmarks on uWebSockets.js, as cheap as possible. `node upstream.mjs GAP_MS [PORT]` prints
// `ready PORT PORT` for the two ports that stand for two CRNs, and serves until SIGTERM. A POST is answered at once with one
// JSON body, or with 64 events if it asks for a stream: the first at once, the others on the ticks of one timer for all streams.

import * as uWS from 'uWebSockets.js';
import { ANSWER, EVENTS, eventText, MODEL, nowUs } from './traffic.mjs';

const GAP_MS = Number(process.argv[2] ?? 5);
/** First of two consecutive ports; 0: any free ports. */
const PORT = Number(process.argv[3] ?? 0);
const STREAM_MARK = '"stream":true';
/** The mark is searched in the first bytes only: chat bodies are shorter, and uploads have no mark. */
const MARK_WITHIN_BYTES = 2048;

const streams = new Set();

function send(stream) {
  const { res } = stream;
  const text = eventText(stream.sent++, nowUs());
  res.cork(() => {
    if (stream.sent < EVENTS) res.write(text);
    else res.end(text);
  });
  if (stream.sent === EVENTS) streams.delete(stream);
}

setInterval(() => {
  for (const stream of streams) send(stream);
}, GAP_MS);

function answerStream(res, state) {
  const stream = { res, sent: 0 };
  state.stream = stream;
  res.cork(() => {
    res.writeHeader('content-type', 'text/event-stream; charset=utf-8').writeHeader('cache-control', 'no-cache');
    res.write(eventText(stream.sent++, nowUs()));
  });
  streams.add(stream);
}

function answerJson(res) {
  res.cork(() => {
    res.writeHeader('content-type', 'application/json').end(ANSWER);
  });
}

function post(res) {
  const state = { gone: false, streaming: undefined, stream: null, head: '' };
  res.onAborted(() => {
    state.gone = true;
    streams.delete(state.stream);
  });
  res.onData((chunk, last) => {
    if (state.streaming === undefined) {
      // A body may come in pieces of any size.
      state.head += Buffer.from(chunk, 0, Math.min(chunk.byteLength, MARK_WITHIN_BYTES)).latin1Slice();
      if (last || state.head.length >= MARK_WITHIN_BYTES) state.streaming = state.head.includes(STREAM_MARK);
    }
    if (!last || state.gone) return;
    if (state.streaming) answerStream(res, state);
    else answerJson(res);
  });
}

uWS._cfg('silent');
const app = uWS.App();
app.get('/health', (res) => {
  res.end('{"status":"ok"}');
});
app.get('/v1/models', (res) => {
  const model = { id: MODEL, object: 'model', created: 1760000000, owned_by: 'bench', max_model_len: 32_768 };
  res.writeHeader('content-type', 'application/json').end(JSON.stringify({ object: 'list', data: [model] }));
});
app.post('/v1/chat/completions', post);
// Gateways of the SGLang family ask for more, and take 404 for an answer.
app.any('/*', (res) => {
  res.writeStatus('404 Not Found').end('{}');
});

const ports = [];
for (let crn = 0; crn < 2; crn++) {
  app.listen('127.0.0.1', PORT === 0 ? 0 : PORT + crn, (socket) => {
    if (!socket) throw new Error('no port for the upstream');
    ports.push(uWS.us_socket_local_port(socket));
    if (ports.length === 2) process.stdout.write(`ready ${ports.join(' ')}\n`);
  });
}

process.on('SIGTERM', () => {
  app.close();
  process.exit(0);
});
