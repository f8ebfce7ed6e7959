// A CRN on a raw socket that writes the bytes a test scripts, for responses that no well-behaved HTTP server would send. It reads
// whole requests, one after the other on the same connection.

import { createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import type { Test } from './upstream-bench.ts';

/** A request as it arrived. */
export interface RawRequest {
  readonly head: string;
  readonly body: Buffer;
  /** Requests that came on this socket before. */
  readonly earlier: number;
  readonly socket: Socket;
}

export interface RawCrn {
  readonly url: string;
  readonly requests: RawRequest[];
  /** Sockets that were opened. */
  readonly sockets: Set<Socket>;
  /** Resolves once `count` requests have arrived. */
  arrived(count: number): Promise<void>;
}

/** Starts a CRN that runs `script` for every request; it is closed with the test. */
export async function rawCrn(t: Test, script: (request: RawRequest) => void): Promise<RawCrn> {
  const requests: RawRequest[] = [];
  const sockets = new Set<Socket>();
  const waiting: { count: number; resolve: () => void }[] = [];
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let pending: Buffer = Buffer.alloc(0);
    let earlier = 0;
    socket.on('data', (chunk: Buffer) => {
      pending = Buffer.concat([pending, chunk]);
      const request = cut(pending, earlier, socket);
      if (request === undefined) return;
      pending = Buffer.alloc(0);
      earlier++;
      requests.push(request);
      for (const entry of waiting) if (entry.count === requests.length) entry.resolve();
      script(request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    sockets,
    arrived: (count) =>
      requests.length >= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count, resolve })),
  };
}

function cut(bytes: Buffer, earlier: number, socket: Socket): RawRequest | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end);
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
  const body = bytes.subarray(end + 4);
  return body.byteLength < length ? undefined : { head, body, earlier, socket };
}

/** A complete response with a content-length. */
export function answer(status: string, body: string | Buffer, ...headers: string[]): Buffer {
  const bytes = Buffer.from(body);
  const lines = [`HTTP/1.1 ${status}`, `content-length: ${bytes.byteLength}`, ...headers, '', ''];
  return Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), bytes]);
}

/** The head of a chunked response. */
export function chunkedHead(...headers: string[]): string {
  return ['HTTP/1.1 200 OK', 'transfer-encoding: chunked', ...headers, '', ''].join('\r\n');
}

/** One chunk of a chunked body; an empty one ends it. */
export function chunk(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([Buffer.from(`${bytes.byteLength.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

/** An event of a chat stream with text. */
export function delta(text: string): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`;
}
