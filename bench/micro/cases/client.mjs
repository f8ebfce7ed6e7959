// Cases of the HTTP/1.1 client for model servers: a request with its response over loopback, the server in the same process. The
// server answers every read with the same bytes, so that its part is the least that a socket costs.

import { once } from 'node:events';
import { createServer } from 'node:net';

const CONNECTIONS = 16;
const REQUESTS = 256;

const RESPONSE = Buffer.from(
  [
    'HTTP/1.1 200 OK',
    'date: Mon, 02 Nov 2026 10:00:10 GMT',
    'server: uvicorn',
    'content-length: 603',
    'content-type: application/json',
    '',
    'x'.repeat(603),
  ].join('\r\n'),
);

const LINES = [
  'accept: application/json',
  'content-type: application/json',
  'user-agent: OpenAI/Python 2.8.1',
  'x-stainless-lang: python',
  'x-stainless-package-version: 2.8.1',
  'x-stainless-runtime: CPython',
  'authorization: Bearer sk-bench-0123456789abcdef0123456789abcdef',
  'accept-encoding: identity',
  'x-request-id: req-0123456789abcdef',
];

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { ConnectionPool } = await load('src/net/client.js');
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.write(RESPONSE));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;
  const pool = new ConnectionPool(origin, { maxConnections: CONNECTIONS, keepAliveMs: 60_000 });
  const lines = LINES.map((line) => `${line}\r\n`).join('');
  const headers = LINES.flatMap((line) => line.split(': '));
  const body = Buffer.alloc(1024, 'x');
  const path = '/v1/chat/completions';
  return {
    'request of 1 KB, lines as written': requests(pool, { method: 'POST', path, headers: [], lines, body }),
    'request of 1 KB, 9 fields to check': requests(pool, { method: 'POST', path, headers, body }),
  };
}

/** Sends requests one after the other on each connection. */
function requests(pool, options) {
  const run = () =>
    new Promise((resolve, reject) => {
      let left = REQUESTS;
      let open = CONNECTIONS;
      const next = () => {
        if (left-- > 0) pool.dispatch(options, handler);
        else if (--open === 0) resolve();
      };
      const handler = {
        onRequestSent: () => undefined,
        onResponseStart: () => undefined,
        onResponseData: () => undefined,
        onResponseEnd: next,
        onResponseError: reject,
      };
      for (let at = 0; at < CONNECTIONS; at++) next();
    });
  return { run, calls: REQUESTS };
}
