// The shared secret of a worker and its gateways. Compared by digests of one length, in a time that says nothing about
// how much of a guess was right.

import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether the field `Authorization` of a request is right. */
export type Guard = (authorization: string | undefined) => boolean;

/** Makes the guard of a secret; without one it lets everybody pass. */
export function guardOf(secret: string | undefined): Guard {
  if (secret === undefined) return () => true;
  const wanted = digest(secret);
  return (authorization) => {
    const [, given] = /^bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
