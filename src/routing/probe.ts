// Probes of CRNs. What matters beside the status is whether a CRN has responded at all: one that gives no response may have lost its
// power or its network, and requests that wait for it are lost with it.

import { type BufferedClient, TooLongError } from '../net/buffered-client.ts';
import { DispatchError, type DispatchFault } from '../net/client.ts';

/** Longest answer of a probe in bytes. */
const PROBE_BYTES = 64 * 1024;

/** Faults after which something has responded, if not with an answer. */
const UNREADABLE_ANSWERS: ReadonlySet<DispatchFault> = new Set(['stale', 'reset', 'malformed', 'truncated']);

/** GETs `url`. Resolves with the status, 0 for an answer that cannot be read; rejects without any response in time. */
export async function probe(client: BufferedClient, url: string, timeoutMs: number): Promise<number> {
  try {
    const { status } = await client.get(url, timeoutMs, PROBE_BYTES);
    return status;
  } catch (error) {
    if (error instanceof TooLongError) return 0;
    if (error instanceof DispatchError && UNREADABLE_ANSWERS.has(error.fault)) return 0;
    throw error;
  }
}
