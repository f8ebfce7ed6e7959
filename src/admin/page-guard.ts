// Keeps web pages of others away from the admin listener: the open paths answer no name that such a page could point at this address
// (DNS rebinding), and no path answers a page of another origin (CSRF, RFC 6454). A valid token is exempt: no such page has one.

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { isLoopback, isPrivate } from '../config/units.ts';

export interface PageGuardOptions {
  /** Host that the listener is bound to. */
  readonly listenHost: string;
  /** Further names, as the setting `adminHosts` has them; `*` is every name. */
  readonly hosts: () => readonly string[];
  /** Whether a value of `Authorization` has a valid token of an operator or of a host. */
  readonly isTrusted: (authorization: string | undefined) => boolean;
}

const HOST_NAME = /^[a-z\d._-]+$/;

/** Read by machines, which may know this one by any name of the network. */
const MACHINE_PATHS: ReadonlySet<string> = new Set(['/metrics', '/health']);

export class PageGuard {
  readonly #options: PageGuardOptions;
  /** Of this machine. */
  readonly #own: ReadonlySet<string>;

  constructor(options: PageGuardOptions) {
    this.#options = options;
    this.#own = new Set([options.listenHost.toLowerCase(), hostname().toLowerCase()]);
  }

  /** Why a request is refused with 403; null when it is not. */
  refusal(req: IncomingMessage, path: string): string | null {
    const reason = this.#hostRefusal(req, path) ?? this.#originRefusal(req);
    return reason === null || this.#options.isTrusted(req.headers.authorization) ? null : reason;
  }

  #hostRefusal({ headers: { host } }: IncomingMessage, path: string): string | null {
    const name = host === undefined ? '' : nameOf(host);
    // Browsers always send `Host` (RFC 9112 §3.2); old probes may not.
    if (host === undefined || this.#isKnown(name)) return null;
    if (MACHINE_PATHS.has(path) && !isLoopback(this.#options.listenHost)) return null;
    return `the name in Host is not known here: use an IP address or localhost, or add the name to the setting adminHosts`;
  }

  /** Names that nobody can register for themselves: addresses, names of this machine and of private networks, and configured ones. */
  #isKnown(name: string): boolean {
    if (isIP(name) !== 0 || this.#own.has(name) || this.#isConfigured(name)) return true;
    return HOST_NAME.test(name) && (isPrivate(name) || name.endsWith('.svc'));
  }

  #isConfigured(name: string): boolean {
    return this.#options.hosts().some((host) => host === '*' || host.toLowerCase() === name);
  }

  #originRefusal({ headers, method }: IncomingMessage): string | null {
    const { host, origin } = headers;
    const site = headers['sec-fetch-site'];
    // A link to the dashboard is no attack; what a page embeds or sends is none of its own.
    const isLink = (method === 'GET' || method === 'HEAD') && headers['sec-fetch-mode'] === 'navigate';
    const isForeign = (site === 'cross-site' || site === 'same-site') && !isLink;
    if (!isForeign && (origin === undefined || this.#isOwnOrigin(origin, host))) return null;
    return 'pages of another origin may not use the admin interface; behind a proxy, add its name to the setting adminHosts';
  }

  /** A proxy in front may have replaced `Host` by its own. */
  #isOwnOrigin(origin: string, host: string | undefined): boolean {
    const url = URL.parse(origin);
    if (url === null) return false;
    const own = host === undefined ? null : URL.parse(`${url.protocol}//${host}`);
    const name = nameOf(url.host);
    return own?.host === url.host || this.#options.hosts().some((each) => each.toLowerCase() === name);
  }
}

/** The name of `Host`, without port, brackets and the dot of the root; '' when it is none. */
function nameOf(host: string): string {
  const [, bracketed, name = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host.toLowerCase()) ?? [];
  return bracketed ?? name.replace(/\.$/, '');
}
