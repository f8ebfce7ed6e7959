// Model server for load benchmarks on uWebSockets.js, as cheap as possible. `node upstream.mjs GAP_MS [PORT]` prints
// `ready PORT PORT` for the two ports that stand for two CRNs, and serves until SIGTERM. A POST is answered at once with one
// JSON body, or with 64 events if it asks for a stream: the first at once, the others on the ticks of one timer for all streams.
// It speaks messages and responses too.

import * as uWS from 'uWebSockets.js';
import { ANSWERS, STREAMS } from './dialect-traffic.mjs';
import { ANSWER, EVENTS, eventText, MODEL, nowUs } from './traffic.mjs';

const GAP_MS = Number(process.argv[2] ?? 5);
/** First of two consecutive ports; 0: any free ports. */
const PORT = Number(process.argv[3] ?? 0);
const STREAM_MARK = '"stream":true';
/** The mark is searched in so many first and last bytes: uploads have none. */
const MARK_WITHIN_BYTES = 2048;

const streams = new Set();

/** `texts`: events of another dialect than chat completions. */
function send(stream) {
  const { res, texts } = stream;
  const last = texts === null ? EVENTS : texts.length;
  const text = texts === null ? eventText(stream.sent, nowUs()) : texts[stream.sent];
  stream.sent++;
  res.cork(() => {
    if (stream.sent < last) res.write(text);
    else res.end(text);
  });
  if (stream.sent === last) streams.delete(stream);
}

setInterval(() => {
  for (const stream of streams) send(stream);
}, GAP_MS);

function answerStream(res, state, texts) {
  const stream = { res, sent: 0, texts };
  state.stream = stream;
  res.cork(() => {
    res.writeHeader('content-type', 'text/event-stream; charset=utf-8').writeHeader('cache-control', 'no-cache');
    send(stream);
  });
  streams.add(stream);
}

function answerJson(res, answer) {
  res.cork(() => {
    res.writeHeader('content-type', 'application/json').end(answer);
  });
}

/** Answers POSTs with `answer`, or with a stream of `texts`; null: events of chat completions, with the time. */
function poster(answer, texts) {
  return (res) => {
    const state = { gone: false, stream: null, head: '', bytes: 0 };
    res.onAborted(() => {
      state.gone = true;
      streams.delete(state.stream);
    });
    res.onData((chunk, last) => {
      // A body may come in pieces of any size.
      if (state.bytes < MARK_WITHIN_BYTES) state.head += asText(chunk, 0, MARK_WITHIN_BYTES);
      state.bytes += chunk.byteLength;
      if (!last || state.gone) return;
      const tail = asText(chunk, Math.max(0, chunk.byteLength - MARK_WITHIN_BYTES), chunk.byteLength);
      if (state.head.includes(STREAM_MARK) || tail.includes(STREAM_MARK)) answerStream(res, state, texts);
      else answerJson(res, answer);
    });
  };
}

function asText(chunk, from, to) {
  const end = Math.min(to, chunk.byteLength);
  return Buffer.from(chunk, from, end - from).latin1Slice();
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
app.post('/v1/chat/completions', poster(ANSWER, null));
app.post('/v1/messages', poster(ANSWERS.messages, STREAMS.messages));
app.post('/v1/responses', poster(ANSWERS.responses, STREAMS.responses));
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
