// What the explanations of searches and fetches share.

import type { HeadraceError } from '../errors.ts';

/** The body of a request, and its type as the client says it. */
export interface GivenBody {
  readonly body: Buffer;
  readonly contentType: string | undefined;
}

/** The error that a client would get. */
export interface ExplainedError {
  readonly code: string;
  readonly detail: string;
}

export function explainedError(error: HeadraceError | null): ExplainedError | null {
  return error === null ? null : { code: error.code, detail: error.message };
}
