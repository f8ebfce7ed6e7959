// Helpers of the admin endpoints: JSON answers, small bodies, and the check of a token in constant time.

import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { bearerCheck } from '../net/bearer-token.ts';

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
  body: string | Buffer,
  headers: OutgoingHttpHeaders = {},
): void {
  res.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body), ...headers });
  res.end(body);
}

/** Resolves with the JSON value of a body, or with the reason why there is none. */
export async function readJson(
  req: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly value: unknown } | 'too long' | 'not JSON' | 'gone'> {
  const body = await readBytes(req, maxBytes);
  return typeof body === 'string' ? body : parsed(body);
}

/** Resolves with a body, or with the reason why there is none. */
export function readBytes(req: IncomingMessage, maxBytes: number): Promise<Buffer | 'too long' | 'gone'> {
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

function parsed(body: Buffer): { readonly value: unknown } | 'not JSON' {
  try {
    return { value: JSON.parse(body.toString()) as unknown };
  } catch {
    return 'not JSON';
  }
}

/** The check of an operator's or a host's token; null when none is set. */
export function bearerGuard(token: string | null): ReturnType<typeof bearerCheck> | null {
  return token === null ? null : bearerCheck(token);
}
