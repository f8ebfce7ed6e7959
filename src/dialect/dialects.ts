// The table of dialects by name and by request path, and the rules for paths that speak none of them.

import { type Dialect, type DialectName, type Failure, sseEvent } from './dialect.ts';
import { llama } from './llama.ts';
import { messages } from './messages.ts';
import { chatCompletions, completions, openaiError, responses } from './openai.ts';

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  completions,
  'chat-completions': chatCompletions,
  responses,
  messages,
  llama,
};

const BY_PATH: ReadonlyMap<string, Dialect> = new Map(
  Object.values(DIALECTS).flatMap((dialect) => dialect.paths.map((path) => [path, dialect] as const)),
);

const ASCII_ESCAPE = /%[2-7][\da-f]/gi;
const SLASHES = /\/{2,}/g;

/**
 * The usual spelling of a path: servers and proxies before them answer others too, with escapes, with two slashes or with a slash at
 * the end, and the same must be read from those answers.
 */
export function usualPath(path: string): string {
  if (BY_PATH.has(path)) return path;
  if (!path.endsWith('/') && !path.includes('%') && !path.includes('//')) return path;
  const plain = path
    .replace(ASCII_ESCAPE, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16)))
    .replace(SLASHES, '/');
  return plain.endsWith('/') ? plain.slice(0, -1) : plain;
}

/** The dialect of `path` (without base URL and query); undefined on paths whose bytes are only passed on. */
export function dialectOf(path: string): Dialect | undefined {
  return BY_PATH.get(path) ?? BY_PATH.get(usualPath(path));
}

/** The path on a CRN for `path` on the gateway: `/completion` for `/completions`, otherwise the same. */
export function upstreamPath(path: string): string {
  return usualPath(path) === '/completions' ? '/completion' : path;
}

/** The error event of `dialect`; without one, an event on which both families of SDKs throw. */
export function errorEvent(dialect: Dialect | undefined, failure: Failure): string {
  return dialect?.errorEvent(failure) ?? sseEvent('error', { type: 'error', error: openaiError(failure) });
}
