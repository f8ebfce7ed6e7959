// Reads one cookie out of a Cookie header (RFC 6265 §5.4) and writes Set-Cookie values. Reading is lenient: the
// affinity cookie holds JSON text, whose quotes and commas lie outside the cookie-octet set but are sent by browsers.

/** The raw value of the first cookie of that name, or undefined. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  let at = header.indexOf(name);
  while (at >= 0) {
    const equals = at + name.length;
    if (header.charCodeAt(equals) === 0x3d && startsCookie(header, at)) {
      const end = header.indexOf(';', equals);
      return header.slice(equals + 1, end < 0 ? undefined : end).trim();
    }
    at = header.indexOf(name, equals);
  }
  return undefined;
}

function startsCookie(header: string, at: number): boolean {
  let before = at - 1;
  while (before >= 0 && header.charCodeAt(before) === 0x20) before--;
  return before < 0 || header.charCodeAt(before) === 0x3b;
}

/** A Set-Cookie value with the attributes. `maxAgeS` in seconds. */
export function setCookie(name: string, value: string, maxAgeS: number, secure: boolean): string {
  return `${name}=${value}; Max-Age=${maxAgeS}; Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
}
