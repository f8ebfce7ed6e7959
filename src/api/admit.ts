// The key gate in front of every endpoint that needs one. A bad key is refused from the headers alone, before the body
// is read; a missing one only after the request proved valid, because it may still be paid for
// (order of checks: 401 bad key, 413, 422, 404, 401 no key).

import { type Credential, presentedKey } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import type { ApiDeps } from './deps.ts';

/** What the gate found. */
export interface Admission {
  readonly credential: Credential;
  /** The key of a client that sent it as `x-api-key` only. */
  readonly bearer: string | undefined;
}

/** Reads and judges the credentials of a request. Throws 401 for a bad key. */
export function admit(exchange: Exchange, deps: ApiDeps): Admission {
  const presented = presentedKey(exchange.header('authorization'), exchange.header('x-api-key'));
  const credential = deps.keys.check(presented.key);
  if (credential.kind === 'bad' && deps.settings.keys.required) throw new HeadraceError('HR_AUTH_INVALID');
  if (credential.kind === 'good') exchange.account = credential.account;
  return { credential, bearer: presented.bearer };
}

/** Throws 401 when a key is needed and there is none. */
export function requireKey(admission: Admission, deps: ApiDeps): void {
  if (admission.credential.kind === 'none' && deps.settings.keys.required) throw new HeadraceError('HR_AUTH_MISSING');
}
