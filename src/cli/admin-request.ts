// Requests of commands to the admin listener of a running gateway. What goes wrong is a sentence that continues its address.

import type { BufferedClient, BufferedRequest, BufferedResponse } from '../net/buffered-client.ts';
import { errorReason } from '../routing/index.ts';
import { parseJson } from '../config/json-text.ts';
import type { ValidationEntry } from '../errors.ts';
import { membersOf } from '../net/json-object.ts';

const ELSEWHERE = 'is it the admin listener of a gateway?';

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
    throw new Error(`answers ${status} without JSON: ${ELSEWHERE}`);
  }
}

/** What is wrong with a request, by the names of its fields. */
export function mistakesText(mistakes: readonly Pick<ValidationEntry, 'loc' | 'msg'>[]): string {
  return mistakes.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`.trim()).join('; ');
}

/** Of an answer that is not the one that was asked for. `value`: its JSON. */
export function refusalOf(status: number, value: unknown): Error {
  const { detail } = membersOf(value);
  const said = Array.isArray(detail) ? mistakesText(detail as readonly ValidationEntry[]) : detail;
  return new Error(`answers ${status}: ${typeof said === 'string' && said !== '' ? said : ELSEWHERE}`);
}
