// The table of dialects, and what to do on a path that speaks none of them. Entered through index.ts by api/,
// ingress/respond and upstream/relay. Adding a dialect is one file and one line here.
import { chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import { sseEvent } from './dialect.ts';
import type { Dialect, DialectName, Failure } from './dialect.ts';
import { llama } from './llama.ts';
import { messages } from './messages.ts';
import { openaiError } from './openai.ts';
import { responses } from './responses.ts';

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

/** The dialect spoken on `path` (no query, no base URL), undefined when the gateway only passes the bytes on. */
export function dialectOf(path: string): Dialect | undefined {
  return BY_PATH.get(path);
}

/** The path a CRN serves what the gateway serves on `path`: `/completions` is `/completion` there, others are equal. */
export function upstreamPath(path: string): string {
  return path === '/completions' ? '/completion' : path;
}

/** The error event of `dialect`; on other paths one on which both SDK families throw. */
export function errorEvent(dialect: Dialect | undefined, failure: Failure): string {
  return dialect?.errorEvent(failure) ?? sseEvent('error', { type: 'error', error: openaiError(failure) });
}

/** Whether the stream ended properly; of an unknown dialect nothing can be demanded. */
export function endsWell(dialect: Dialect | undefined, tail: Buffer): boolean {
  return dialect?.endsWell(tail) ?? true;
}
