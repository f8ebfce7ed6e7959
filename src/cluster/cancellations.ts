// Tells siblings which call a client has cancelled: the request that says so may reach another gateway than the call.

import type { ClusterLink } from './link.ts';

/** A SHA-256. */
const DIGEST_BYTES = 32;

/** `onCancelled` hears what siblings say. Returns what tells them; digests are hexadecimal. */
export function shareCancellations(link: ClusterLink, onCancelled: (digest: string) => void): (digest: string) => void {
  link.on('cancels', (body) => {
    if (body.length !== DIGEST_BYTES) throw new Error('the message has a wrong length');
    onCancelled(body.toString('hex'));
  });
  return (digest) => {
    if (link.enabled) link.publish('cancels', Buffer.from(digest, 'hex'));
  };
}
