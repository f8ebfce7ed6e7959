// Members of a JSON text that another program wrote.

import { parseJson } from '../config/json-text.ts';

/** The members of a JSON object; none where the bytes are something else. Their values are unchecked. */
export function jsonObjectOf(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    return (parseJson(body.toString()) ?? {}) as Record<string, unknown>;
  } catch {
    return {};
  }
}
