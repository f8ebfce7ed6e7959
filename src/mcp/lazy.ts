// Loads the SDK with the first request, so that a gateway that is never asked by this protocol does without it.

import type { Caller } from './server.ts';

let loading: Promise<typeof import('./server.ts')> | null = null;

/** Serves one request. `message` is its JSON body. */
export async function respondTo(request: Request, message: unknown, caller: Caller): Promise<Response> {
  loading ??= import('./server.ts');
  return (await loading).respondTo(request, message, caller);
}
