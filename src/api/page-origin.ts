// Web pages may send requests to a gateway on their visitor's machine or network. Where no key is needed, tools would work for any page
// that somebody opens: those of other origins are refused.

import type { Settings } from '../config/settings.ts';
import type { Exchange } from '../ingress/exchange.ts';

const LOOPBACK = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/i;

/**
 * Whether a page of another origin sends the request: not one of this machine, nor of an origin that `cors.origins` names; `*` names none
 * here. Pages may have images loaded and links followed without `Origin`: browsers then send `Sec-Fetch-Site` (Fetch Metadata) over TLS and
 * to this machine.
 */
export function isOfForeignPage(exchange: Exchange, { cors }: Pick<Settings, 'cors'>): boolean {
  const { origin } = exchange;
  if (origin !== undefined) return !LOOPBACK.test(origin) && !cors.origins.includes(origin);
  const site = exchange.header('sec-fetch-site');
  return site === 'cross-site' || site === 'same-site';
}
