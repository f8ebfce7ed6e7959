// An HTTP proxy in front of a gateway that keeps every request with the status of its answer, and passes upgrades on as they are.

import { createServer, request as send } from 'node:http';
import { connect } from 'node:net';
import { gunzipSync } from 'node:zlib';

/** Starts a recorder in front of `target` on a free port of the loopback interface. A request waits for `before(entry)`. */
export async function startRecorder(target, before) {
  const { hostname, port } = new URL(target);
  const requests = [];
  const server = createServer((request, response) => {
    const entry = { method: request.method, path: request.url, headers: request.headers, body: undefined, status: 0 };
    requests.push(entry);
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    const pass = async () => {
      const bytes = Buffer.concat(chunks);
      entry.body = parsed(bytes, request.headers['content-encoding']);
      await before(entry);
      const upstream = send({
        hostname,
        port,
        method: request.method,
        path: request.url,
        headers: request.headers,
        agent: false,
      });
      upstream.on('response', (answer) => {
        entry.status = answer.statusCode;
        entry.translated = answer.headers['x-headrace-translated'];
        entry.isStream = answer.headers['content-type']?.startsWith('text/event-stream') === true;
        response.writeHead(answer.statusCode, answer.headers);
        response.flushHeaders();
        const answered = [];
        answer.on('data', (chunk) => answered.push(chunk));
        answer.on('end', () => void (entry.answer = Buffer.concat(answered).toString()));
        answer.on('error', () => response.destroy());
        answer.pipe(response);
      });
      upstream.on('error', () => response.destroy());
      response.on('close', () => upstream.destroy());
      upstream.end(bytes);
    };
    request.on('end', () => void pass());
  });
  server.on('upgrade', (request, socket, head) => {
    const entry = { method: 'UPGRADE', path: request.url, headers: request.headers, status: 0, isStream: true };
    requests.push(entry);
    const upstream = connect(Number(port), hostname);
    const pass = async () => {
      await before(entry);
      const lines = request.rawHeaders.flatMap((name, at) =>
        at % 2 === 0 ? [`${name}: ${request.rawHeaders[at + 1]}`] : [],
      );
      upstream.once(
        'data',
        (head) => void (entry.status = Number(/^HTTP\/1.1 (\d+)/.exec(head.toString('latin1'))?.[1])),
      );
      upstream.write(`GET ${request.url} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    };
    upstream.on('connect', () => void pass());
    upstream.on('error', () => socket.destroy());
    socket.on('error', () => upstream.destroy());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function parsed(bytes, encoding) {
  const text = (encoding === 'gzip' ? gunzipSync(bytes) : bytes).toString();
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}
