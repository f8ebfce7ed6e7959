// Bodies of requests, read whole. Searches are small: what is longer than the limit is not kept in memory.

import type { IncomingMessage } from 'node:http';

/** Resolves with the body, with `too long` as soon as it is, or with null when the client left before its end. */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer | 'too long' | null> {
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
    // After the end this says nothing new.
    req.on('close', () => resolve(null));
    req.on('error', () => resolve(null));
  });
}
