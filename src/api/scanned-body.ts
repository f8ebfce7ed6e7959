// The body of a proxied request, scanned: what is priced, routed and forwarded. Without the line of Claude Code that changes with every
// request, unless the settings keep it.

import { type NamedBody, scanBody, type ScannedBody, usualPath, withoutVolatileSystem } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import type { ApiDeps } from './deps.ts';

/** Paths whose bodies have the members of the messages dialect, `/v1/messages/count_tokens` included. */
const MESSAGES_PATH = '/v1/messages';

/** Throws 422 for what is no JSON object with a model. `received` is not to be used any more: a shorter body is in its memory. */
export function scannedBody(path: string, { limits, rewrite }: ApiDeps['settings'], received: Buffer): NamedBody {
  const scan = scannedAsSent(received, limits);
  if (!rewrite.volatileSystem || !usualPath(path).startsWith(MESSAGES_PATH)) return { body: received, scan };
  return withoutVolatileSystem(received, scan);
}

/** The same of a body that is passed on as it was sent. */
export function scannedAsSent(body: Buffer, { jsonDepth, jsonValues }: ApiDeps['settings']['limits']): ScannedBody {
  const scan = scanBody(body, { maxDepth: jsonDepth, maxValues: jsonValues });
  if (!scan.ok) throw new HeadraceError('HR_REQUEST_INVALID', { validation: scan.errors });
  return scan;
}
