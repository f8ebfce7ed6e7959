// Probes of CRNs. What matters beside the status is whether a CRN has responded at all: one that gives no response may have lost its
// power or its network, and requests that wait for it are lost with it.

import { type BufferedClient, TooLongError } from '../net/buffered-client.ts';
import { DispatchError, type DispatchFault } from '../net/client.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';
import { errorReason, statusReason } from './failure-reason.ts';

/** Longest answer of a probe in bytes. */
const PROBE_BYTES = 64 * 1024;

/** Faults after which something has responded, if not with an answer. */
const UNREADABLE_ANSWERS: ReadonlySet<DispatchFault> = new Set(['stale', 'reset', 'malformed', 'truncated']);

/** What a CRN answered to a probe. */
export interface ProbeAnswer {
  /** 0 for an answer that cannot be read. */
  readonly status: number;
  /** Identifies the process of the CRN, as `headrace host` does; '' when the answer does not. */
  readonly instance: string;
  /** It loads its model, so that its process has just begun. */
  readonly isLoading: boolean;
  /** Why it is no success, in plain words; null when it is one. */
  readonly reason: string | null;
}

/** A longer identity counts as none. */
const MAX_INSTANCE_CHARS = 128;

/** Longer bodies are not read for what they say. */
const READ_BYTES = 4096;

/** llama-server and `headrace host` say so beside a 503. */
const LOADING = /\bloading\b/i;

/** GETs `url`. Rejects without any response in time. */
export async function probe(client: BufferedClient, url: string, timeoutMs: number): Promise<ProbeAnswer> {
  try {
    const { body, status } = await client.get(url, timeoutMs, PROBE_BYTES);
    const text = body.byteLength <= READ_BYTES ? body.toString('utf8') : '';
    const isLoading = status === 503 && LOADING.test(text);
    return { status, instance: instanceIn(text), isLoading, reason: reasonOf(status, isLoading, url) };
  } catch (error) {
    const isResponse =
      error instanceof TooLongError || (error instanceof DispatchError && UNREADABLE_ANSWERS.has(error.fault));
    if (!isResponse) throw error;
    return { status: 0, instance: '', isLoading: false, reason: errorReason(error, timeoutMs) };
  }
}

function reasonOf(status: number, isLoading: boolean, url: string): string | null {
  if (status >= 200 && status < 300 && status !== 202) return null;
  const reason = statusReason(status, new URL(url).pathname);
  return status === 202 ? `${reason}: the model is not loaded` : isLoading ? `${reason}: loading its model` : reason;
}

/** Whether a probe could not be sent for want of a connection of this process, such as a file descriptor. */
export function isUnsent(error: unknown): boolean {
  return error instanceof DispatchError && error.fault === 'no connection free';
}

/** Whether nothing listened where a probe went: the process of the CRN has ended. */
export function isRefused(error: unknown): boolean {
  const cause = error instanceof DispatchError ? (error.cause as { readonly code?: unknown } | undefined) : undefined;
  return cause?.code === 'ECONNREFUSED';
}

function instanceIn(text: string): string {
  if (!text.includes('"instance"')) return '';
  const { instance } = membersOf(parsedJson(text));
  return typeof instance === 'string' && instance.length <= MAX_INSTANCE_CHARS ? instance : '';
}
