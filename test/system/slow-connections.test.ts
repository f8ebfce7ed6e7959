// Slow uploads, streams and responses are not cut, in real time: uWebSockets.js closes idle connections after about ten seconds,
// and its timer cannot be replaced. One wait of 13 s for each server adapter with a socket, all at once.

import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t, { type Test } from 'tap';
import { type ServerAdapterName, CHAT, GOOD, MODEL, open, SOCKETS, startHost } from '../support/server-adapter.ts';
import { encode, head } from '../support/server-adapter-wire.ts';

const SILENCE_MS = 13_000;
const PIECES = 14;
/** Our own limits on a host's silence lie close above it. */
const PATIENT = { timeouts: { headers: '15s', idle: '15s' } };

const PATH = '/v1/chat/completions';

t.setTimeout(60_000);

type Case = (t: Test, adapter: ServerAdapterName) => Promise<void>;

const upload: Case = async (t, adapter) => {
  const { dial, host } = await open(t, adapter, PATIENT);
  const body = JSON.stringify(CHAT).padEnd(PIECES * 1000);
  const wire = dial();
  await wire.send(head('POST', PATH, { host: 'x', ...GOOD, 'content-length': String(body.length) }));
  for (let piece = 0; piece < PIECES; piece++) {
    await wire.send(body.slice(piece * 1000, (piece + 1) * 1000));
    if (piece < PIECES - 1) await new Promise((resolve) => setTimeout(resolve, SILENCE_MS / (PIECES - 1)));
  }
  t.equal((await wire.answer()).status, 200, `${adapter}: an upload of 1 KB/s is read completely`);
  t.equal((await host.nextRequest()).bodyBytes, body.length);
};

const silentStream: Case = async (t, adapter) => {
  const host = await startHost(t, { interTokenMs: SILENCE_MS });
  const { ask } = await open(t, adapter, PATIENT, host);
  const answer = await ask({ path: PATH, headers: GOOD, body: { ...CHAT, stream: true, max_tokens: 2 } });
  t.ok(answer.text().endsWith('data: [DONE]\n\n'), `${adapter}: a stream without data for 13 s continues`);
};

const lateAnswer: Case = async (t, adapter) => {
  const host = await startHost(t, { timeToFirstTokenMs: SILENCE_MS });
  const { dial } = await open(t, adapter, PATIENT, host);
  const wire = dial();
  await wire.send(encode({ path: PATH, headers: GOOD, body: CHAT }));
  t.equal((await wire.answer()).status, 200, `${adapter}: a response that takes 13 s arrives`);
  await wire.send(encode({ path: '/health' }));
  t.equal((await wire.answer()).status, 200, `${adapter}: the connection is kept`);
};

/** More than the buffers of sockets and server adapters hold. */
const LARGE_BYTES = 48 * 1024 * 1024;

const slowReader: Case = async (t, adapter) => {
  const large = createServer((req, res) => res.end(req.method === 'GET' ? 'ok' : Buffer.alloc(LARGE_BYTES, 'x')));
  t.teardown(() => {
    large.close();
    large.closeAllConnections();
  });
  await new Promise<void>((resolve) => large.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(large.address() as AddressInfo).port}`;
  const opened = await open(t, adapter, { ...PATIENT, models: { [MODEL]: { servers: [url] } } });
  const socket = connect(opened.port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.write(encode({ path: PATH, headers: GOOD, body: CHAT }));
  socket.pause();
  await new Promise((resolve) => setTimeout(resolve, SILENCE_MS));
  let bytes = 0;
  for await (const piece of socket as AsyncIterable<Buffer>) {
    bytes += piece.byteLength;
    if (bytes >= LARGE_BYTES) break;
  }
  t.ok(bytes >= LARGE_BYTES, `${adapter}: a client that reads nothing for 13 s then gets the rest`);
};

t.jobs = SOCKETS.length;
for (const adapter of SOCKETS) {
  void t.test(`${adapter}: slow connections are not cut`, { buffered: true }, async (t) => {
    await Promise.all([upload, silentStream, lateAnswer, slowReader].map((run) => run(t, adapter)));
  });
}
