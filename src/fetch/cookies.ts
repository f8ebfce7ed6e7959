// The cookies of one fetch, from its redirects to its page (RFC 6265). Nothing is kept after it. A site that sets none of its own never
// gets a cookie: there is no list of public suffixes here, so that cookies for a parent domain are taken only where it cannot be one.

import { isIP } from 'node:net';

interface Cookie {
  readonly name: string;
  readonly value: string;
  /** Without a leading dot. */
  readonly domain: string;
  /** Goes to `domain` alone, not to its subdomains. */
  readonly hostOnly: boolean;
  readonly path: string;
  readonly secure: boolean;
}

/** RFC 6265 §6.1 asks for 50 of a domain; a fetch sees few hosts. */
const MAX_COOKIES = 50;

/** Bytes of a cookie, as §6.1 asks for, and of all that one request carries: servers refuse heads above 8 KiB. */
const MAX_COOKIE_BYTES = 4096;
const MAX_HEADER_BYTES = 6144;

/** Labels under which countries sell names, such as `co.uk` and `com.au`: too short to be the name of a site. */
const SHORT_LABEL = 3;

// oxlint-disable-next-line no-control-regex -- what a Set-Cookie field may not hold
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/;

export class Cookies {
  /** In order of arrival; by name, domain and path. */
  readonly #cookies = new Map<string, Cookie>();

  /** Takes the `Set-Cookie` fields of an answer. `nowMs`: Unix time. */
  take(fields: readonly string[], url: URL, nowMs: number): void {
    for (const field of fields) {
      const parsed = parse(field, url);
      if (parsed === null) continue;
      const { cookie, expiresMs } = parsed;
      const key = `${cookie.name};${cookie.domain};${cookie.path}`;
      // §5.4 of RFC 6265bis: what https has set is not changed by http.
      if (this.#cookies.get(key)?.secure === true && url.protocol !== 'https:') continue;
      if (expiresMs <= nowMs) this.#cookies.delete(key);
      else if (this.#cookies.has(key) || this.#cookies.size < MAX_COOKIES) this.#cookies.set(key, cookie);
    }
  }

  /** The `Cookie` field of a request; '' for none. Longer paths come first (§5.4). */
  header(url: URL): string {
    if (this.#cookies.size === 0) return '';
    const fitting = [...this.#cookies.values()].filter((cookie) => matches(cookie, url));
    let text = '';
    for (const { name, value } of fitting.toSorted((one, other) => other.path.length - one.path.length)) {
      const pair = name === '' ? value : `${name}=${value}`;
      if (text.length + pair.length > MAX_HEADER_BYTES) break;
      text += text === '' ? pair : `; ${pair}`;
    }
    return text;
  }
}

function parse(field: string, url: URL): { cookie: Cookie; expiresMs: number } | null {
  if (field.length > MAX_COOKIE_BYTES || CONTROL.test(field)) return null;
  const [pair = '', ...attributes] = field.split(';');
  const [name, value] = split(pair);
  // §5.2: a pair without "=" is ignored.
  if (!pair.includes('=') || (name === '' && value === '')) return null;
  const said = new Map(attributes.map((attribute) => split(attribute)).map(([key, text]) => [key.toLowerCase(), text]));
  const secure = said.has('secure');
  if (secure && url.protocol !== 'https:') return null;
  const domain = said.get('domain')?.replace(/^\./, '').toLowerCase() ?? '';
  if (domain !== '' && !mayCover(domain, url.hostname)) return null;
  const hostOnly = domain === '';
  const path = said.get('path')?.startsWith('/') === true ? (said.get('path') as string) : defaultPath(url.pathname);
  const lower = name.toLowerCase();
  if (lower.startsWith('__secure-') && !secure) return null;
  if (lower.startsWith('__host-') && (!secure || !hostOnly || path !== '/')) return null;
  const cookie = { name, value, domain: hostOnly ? url.hostname : domain, hostOnly, path, secure };
  return { cookie, expiresMs: expiryOf(said) };
}

/** Name and value of `name=value`, trimmed. */
function split(text: string): [string, string] {
  const at = text.indexOf('=');
  return at === -1 ? [text.trim(), ''] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

/** Unix time in milliseconds; `Max-Age` goes before `Expires`. One that lasts is as good as any in a fetch. */
function expiryOf(said: ReadonlyMap<string, string>): number {
  const age = said.get('max-age');
  if (age !== undefined && /^-?\d+$/.test(age)) return Number(age) > 0 ? Infinity : -Infinity;
  const expiresMs = Date.parse(said.get('expires') ?? '');
  return Number.isNaN(expiresMs) ? Infinity : expiresMs;
}

/** Whether a host may set cookies for a domain: its own, or a parent that is surely no public suffix. */
function mayCover(domain: string, host: string): boolean {
  if (domain === host) return true;
  if (isIP(host) !== 0 || !host.endsWith(`.${domain}`)) return false;
  const labels = domain.split('.');
  const [second = '', top = ''] = labels.slice(-2);
  return labels.length > 2 || (labels.length === 2 && (top.length > 2 || second.length > SHORT_LABEL));
}

/** §5.1.4. */
function defaultPath(pathname: string): string {
  const end = pathname.lastIndexOf('/');
  return end <= 0 ? '/' : pathname.slice(0, end);
}

function matches({ domain, hostOnly, path, secure }: Cookie, { hostname, pathname, protocol }: URL): boolean {
  if (secure && protocol !== 'https:') return false;
  if (hostname !== domain && (hostOnly || !hostname.endsWith(`.${domain}`))) return false;
  return pathname === path || (pathname.startsWith(path) && (path.endsWith('/') || pathname[path.length] === '/'));
}
