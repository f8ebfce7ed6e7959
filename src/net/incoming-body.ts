// Small bodies of requests that `node:http` serves.

import type { IncomingMessage } from 'node:http';

/** Resolves with the body; with `too long` as soon as it is, and with `gone` when the client left before its end. */
export function readIncoming(req: IncomingMessage, maxBytes: number): Promise<Buffer | 'too long' | 'gone'> {
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve('too long');
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    req.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > maxBytes) resolve('too long');
      else chunks.push(chunk);
    });
    req.on('end', () => resolve(Buffer.concat(chunks)));
    // Without effect after the end.
    req.on('close', () => resolve('gone'));
    req.on('error', () => resolve('gone'));
  });
}
