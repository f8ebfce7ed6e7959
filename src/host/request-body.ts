// Bodies of requests to a host: read up to a size, parsed without a throw. Called by host.ts.
import type { IncomingMessage } from 'node:http';
import type { Json } from './wire/wire.ts';

/** Calls back once with the whole body, or with undefined as soon as it is too large; never when the client leaves. */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  callback: (body: Buffer | undefined) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    const fitted = bytes <= maxBytes;
    bytes += chunk.length;
    if (bytes <= maxBytes) return void chunks.push(chunk);
    chunks.length = 0;
    if (fitted) callback(undefined);
  });
  request.on('end', () => {
    if (bytes <= maxBytes) callback(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
  });
}

/** The parsed body, or undefined when it is no JSON. */
export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
