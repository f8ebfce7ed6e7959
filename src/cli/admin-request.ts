// Requests of commands to the admin listener of a running gateway. What goes wrong is a sentence that continues its address.

import type { BufferedClient, BufferedRequest, BufferedResponse } from '../net/buffered-client.ts';
import { errorReason } from '../routing/index.ts';
import { parseJson } from '../config/json-text.ts';

/** The answer to a request. Rejects when none comes in time, or one that is longer than `maxBytes`. */
export async function askAdmin(
  client: BufferedClient,
  request: BufferedRequest,
  { maxBytes, timeoutMs }: { readonly maxBytes: number; readonly timeoutMs: number },
): Promise<BufferedResponse> {
  try {
    return await client.send(request, AbortSignal.timeout(timeoutMs), maxBytes);
  } catch (error) {
    throw new Error(`does not answer (${errorReason(error, timeoutMs)})`);
  }
}

/** The value of an answer in JSON, whatever its status. Throws for any other answer. */
export function adminJson({ body, status }: BufferedResponse): unknown {
  try {
    return parseJson(body.toString());
  } catch {
    throw new Error(`answers ${status} without JSON: is it the admin listener of a gateway?`);
  }
}

interface Mistake {
  readonly loc: readonly (string | number)[];
  readonly msg: string;
}

/** What an answer says of its refusal; '' where it says nothing. */
export function detailText(value: unknown): string {
  const { detail } = (value ?? {}) as { readonly detail?: string | readonly Mistake[] };
  if (typeof detail === 'string') return detail;
  const mistakes = Array.isArray(detail) ? (detail as readonly Mistake[]) : [];
  return mistakes.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`.trim()).join('; ');
}
