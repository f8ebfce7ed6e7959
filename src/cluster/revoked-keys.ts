// Tells siblings which keys were revoked: it holds there at once, also where the store does not answer. They ask the store all the same.

import type { ClusterLink } from './link.ts';

/** A SHA-256. */
const HASH_BYTES = 32;

/** Keys that are revoked in one message, at most. */
const MOST = 1024;

/** The keys of this gateway. */
export interface RevocableKeys {
  /** Called with the hash of each key of which the store says that it is not valid any more. */
  onRevoked: ((hash: string) => void) | null;
  /** A sibling says that a key was revoked. */
  revoked(hash: string): void;
}

/** Shares revocations through a link while it is connected. The store tells everybody else. */
export function shareRevocations(link: ClusterLink, keys: RevocableKeys): void {
  keys.onRevoked = (hash) => {
    if (link.enabled) link.publish('keys', Buffer.from(hash, 'hex'));
  };
  link.on('keys', (body) => {
    const count = body.length / HASH_BYTES;
    if (!Number.isInteger(count) || count === 0 || count > MOST) throw new Error('the message has a wrong length');
    for (let at = 0; at < body.length; at += HASH_BYTES) keys.revoked(body.toString('hex', at, at + HASH_BYTES));
  });
}
