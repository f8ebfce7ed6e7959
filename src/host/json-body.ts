// Bodies of requests as JSON objects, with the mistakes that a gateway names too.

import { type Checked, parseJsonBody } from '../api/schema.ts';
import { tooDeepAt } from '../config/json-syntax.ts';
import { tooDeep } from '../dialect/index.ts';

/** As `limits.jsonDepth` of a gateway: a parser takes 50 bytes and 100 ns for each bracket. */
const MAX_DEPTH = 256;

/** The object in a body, or the one mistake that keeps it from being one. The content type does not count. */
export function readJsonBody(body: Buffer): Checked<Record<string, unknown>> {
  const deepAt = tooDeepAt(body, MAX_DEPTH);
  return deepAt >= 0 ? { errors: [tooDeep(deepAt, MAX_DEPTH)] } : parseJsonBody(body, undefined);
}
