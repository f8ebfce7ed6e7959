// Why a probe or a request of a server failed, in plain words: one table for logs, `/health`, the overview and the command line.
// Reasons are made from error codes, statuses, paths without their query and settings, so that they hold no secret.

import { TooLongError } from '../net/buffered-client.ts';
import { DispatchError, type DispatchFault } from '../net/client.ts';
import type { Failure } from './outcome.ts';

/** By the codes of Node.js: sockets, names, then TLS. */
const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed by the server',
  EPIPE: 'connection closed by the server',
  ETIMEDOUT: 'connection timed out',
  EHOSTDOWN: 'host is down',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'network unreachable',
  EACCES: 'connection not permitted',
  EPERM: 'connection not permitted',
  EADDRNOTAVAIL: 'no local port left',
  EMFILE: 'no file descriptor left',
  ENFILE: 'no file descriptor left',
  ENOTFOUND: 'name not found',
  ENODATA: 'name not found',
  EAI_AGAIN: 'name lookup failed',
  EAI_FAIL: 'name lookup failed',
  ESERVFAIL: 'name lookup failed',
  EREFUSED: 'name lookup failed',
  ETIMEOUT: 'name lookup timed out',
  CERT_HAS_EXPIRED: 'TLS certificate expired',
  CERT_NOT_YET_VALID: 'TLS certificate not valid yet',
  CERT_REVOKED: 'TLS certificate revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'TLS certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'TLS certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'TLS certificate of an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT: 'TLS certificate of an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'TLS certificate of an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'TLS certificate of an unknown authority',
  ERR_SSL_WRONG_VERSION_NUMBER: 'no TLS at this port',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'no TLS at this port',
};

/** What a fault of the client means where no code says more. */
const FAULTS: Readonly<Record<DispatchFault, string>> = {
  unsendable: 'request cannot be sent',
  'no connection free': 'no connection free (limits.connectionsPerServer)',
  connect: 'connection failed',
  stale: 'connection closed without an answer',
  reset: 'connection closed without an answer',
  malformed: 'answer is not HTTP',
  truncated: 'answer broke off',
  internal: 'internal error',
};

/** Failures that an answer with a good status turned out to have. */
const ANSWERS: Partial<Record<Failure, string>> = {
  'empty answer': 'empty answer',
  'not an answer': 'not an answer of this API',
  'error answer': 'error in place of an answer',
  'error event': 'error event in the stream',
  'only done': 'stream without an event',
  'not begun': 'stream ended before it began',
};

/** Refusals, by what the status means. */
const REFUSALS: Partial<Record<Failure, string>> = {
  busy: 'the server is busy',
  credentials: 'the server refuses the key',
  'dialect unknown': 'the server does not know the path',
  'model unknown': 'the server does not know the model',
  redirect: 'a redirect, which is not followed',
};

/** Longer paths are cut: clients choose those of requests. */
const MAX_PATH = 100;

/** A path as reasons show it: without its query, which may hold a key. */
function shownPath(path: string): string {
  const bare = path.replace(/[?#].*$/s, '').replaceAll(/[^\x21-\x7e]/g, '?');
  return bare.length > MAX_PATH ? `${bare.slice(0, MAX_PATH)}…` : bare;
}

/** `50 ms`, `2 s`, `10 min`. */
function time(durationMs: number): string {
  if (durationMs < 1000) return `${Math.round(durationMs)} ms`;
  return durationMs < 120_000 ? `${Math.round(durationMs / 100) / 10} s` : `${Math.round(durationMs / 60_000)} min`;
}

/** Why a status is no success: `404 at /v1/health`. */
export function statusReason(status: number, path: string): string {
  return `${status} at ${shownPath(path)}`;
}

/** Why a request without an answer failed. `timeoutMs`: the time it had. */
export function errorReason(error: unknown, timeoutMs: number): string {
  if (error instanceof TooLongError) return 'answer is too long';
  if (error instanceof DispatchError) return faultReason(error.fault, error.cause);
  const { code, name } = (error ?? {}) as { readonly code?: unknown; readonly name?: unknown };
  if (name === 'TimeoutError') return timeoutReason(timeoutMs);
  return typeof code === 'string' ? codeReason(code) : 'no answer';
}

function timeoutReason(timeoutMs: number): string {
  return `timeout after ${time(timeoutMs)}`;
}

/** Why a connection ended or could not be opened. `cause`: the error of the socket. */
function faultReason(fault: DispatchFault, cause: unknown): string {
  const { code } = (cause ?? {}) as { readonly code?: unknown };
  // What the socket says of a connection that was open adds nothing to the fault.
  return (fault === 'connect' || fault === 'no connection free') && typeof code === 'string'
    ? codeReason(code)
    : FAULTS[fault];
}

function codeReason(code: string): string {
  const known = CODES[code];
  if (known !== undefined) return known;
  const isTls = code === 'EPROTO' || /^ERR_(?:SSL|TLS)_/.test(code);
  return `${isTls ? 'TLS handshake failed' : 'connection failed'} (${code.replaceAll(/\W/g, '').slice(0, 40)})`;
}

/** Every reason that has no figure, path or status in it. `docs/operations.md` explains them. */
export const PLAIN_REASONS: ReadonlySet<string> = new Set(
  [CODES, FAULTS, ANSWERS, REFUSALS].flatMap((table) => Object.values(table)).filter((reason) => reason !== undefined),
);

/** An attempt that failed, or that the server has refused. */
export interface FailedAttempt {
  /** Null: the answer of the server passes to the client as it is. */
  readonly failure: Failure | null;
  /** With the path of the base URL. */
  readonly path: string;
  /** Of the answer; 0 without one. */
  readonly status: number;
  /** Why the connection failed, if it did. */
  readonly cause: unknown;
  /** See `AttemptTimeouts`. */
  readonly timeouts: {
    readonly connectMs: number;
    readonly headersMs: number;
    readonly firstByteMs: number | null;
    readonly idleMs: number;
  };
}

/** Refusals that may be the fault of the configuration rather than of the client: a key, a path. */
const SUSPECT_STATUSES: ReadonlySet<number> = new Set([401, 403, 404, 405]);

/** Why an attempt failed; null where that says nothing about the server. */
export function attemptReason({ cause, failure, path, status, timeouts }: FailedAttempt): string | null {
  const { connectMs, firstByteMs, headersMs, idleMs } = timeouts;
  switch (failure) {
    case null:
      return SUSPECT_STATUSES.has(status) ? statusReason(status, path) : null;
    case 'client gone':
    case 'context length':
    case 'hedged':
    case 'internal':
    case 'unsendable':
    case 'untranslatable':
      return null;
    case 'connect':
    case 'malformed':
    case 'no connection free':
    case 'reset':
    case 'stale':
    case 'truncated':
      return faultReason(failure, cause);
    case 'connect timeout':
      return `no connection: ${timeoutReason(connectMs)}`;
    case 'headers timeout':
      return `no answer: ${timeoutReason(headersMs)}`;
    case 'first byte timeout':
      return `no first byte: ${timeoutReason(firstByteMs ?? headersMs)}`;
    case 'idle timeout':
      return `silence in an answer: ${timeoutReason(idleMs)}`;
    case 'unreachable':
      return 'no answer to probes any more';
    default: {
      const refusal = REFUSALS[failure];
      if (refusal !== undefined) return `${statusReason(status, path)}: ${refusal}`;
      return ANSWERS[failure] ?? statusReason(status, path);
    }
  }
}
