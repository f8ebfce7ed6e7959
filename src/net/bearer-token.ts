// The check of a shared secret in the field `Authorization: Bearer` (RFC 6750, section 2.1).

import { createHash, timingSafeEqual } from 'node:crypto';

/** Makes the check whether the value of `Authorization` carries this token. Its time says nothing about the token. */
export function bearerCheck(token: string): (authorization: string | undefined) => boolean {
  const wanted = digest(token);
  return (authorization) => {
    const [, given] = /^bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
    return given !== undefined && timingSafeEqual(digest(given), wanted);
  };
}

/** Digests have one length, so that the time of a comparison does not depend on the token. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
