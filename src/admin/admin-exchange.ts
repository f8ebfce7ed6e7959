// Helpers of the admin endpoints: JSON answers, small bodies, and the check of a token in constant time.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** Answers with a JSON value. */
export function respondJson(
  res: ServerResponse,
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): void {
  respond(res, status, 'application/json', JSON.stringify(value), headers);
}

export function respond(
  res: ServerResponse,
  status: number,
  contentType: string,
  body: string,
  headers: OutgoingHttpHeaders = {},
): void {
  res.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body), ...headers });
  res.end(body);
}

/** Resolves with the JSON value of a body, or with the reason why there is none. */
export function readJson(
  req: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly value: unknown } | 'too long' | 'not JSON' | 'gone'> {
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve('too long');
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    req.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > maxBytes) resolve('too long');
      else chunks.push(chunk);
    });
    req.on('end', () => resolve(parsed(Buffer.concat(chunks))));
    // Without effect after the end.
    req.on('close', () => resolve('gone'));
    req.on('error', () => resolve('gone'));
  });
}

function parsed(body: Buffer): { readonly value: unknown } | 'not JSON' {
  try {
    return { value: JSON.parse(body.toString()) as unknown };
  } catch {
    return 'not JSON';
  }
}

/** Whether `Authorization` carries this token; null when there is none to carry. */
export function bearerGuard(token: string | null): ((authorization: string | undefined) => boolean) | null {
  if (token === null) return null;
  const wanted = digest(token);
  return (authorization) => {
    const [, given] = /^bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
