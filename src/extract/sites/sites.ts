// The site adapters, and the choice of the one for a page. A host decides by the URL of the page alone; a generator is what the
// page says about itself, so its reader must find the text that the page shows.

import type { Head } from '../parse.ts';
import { arxiv } from './arxiv.ts';
import { discourse } from './discourse.ts';
import { PageElement } from './element.ts';
import { github } from './github.ts';
import { hackerNews } from './hacker-news.ts';
import { jsonOf } from '../state/literal.ts';
import { reddit } from './reddit.ts';
import type { SiteAdapter, SiteContent } from './site.ts';
import { stackExchange } from './stack-exchange.ts';
import { youtube } from './youtube.ts';

/** In alphabetical order. The reference table is generated from these rows. */
export const SITES: readonly SiteAdapter[] = [arxiv, discourse, github, hackerNews, reddit, stackExchange, youtube];

/** What an adapter read from a page. */
export interface SiteReading extends SiteContent {
  /** Whether the host is the site's own, so that the page is trusted to be one of its pages. */
  readonly isOwnHost: boolean;
}

/** The content of a page by the adapter of its site; null when none reads it. */
export function readSite(html: string, head: Head, address: string): SiteReading | null {
  const url = URL.parse(address);
  const adapter = url === null ? undefined : adapterOf(url, head);
  if (url === null || adapter === undefined) return null;
  const content = adapter.read({ url, head, root: PageElement.of(html) });
  return content === null ? null : { ...content, isOwnHost: adapter.hosts.length > 0 };
}

/** The content of a JSON document of a known site or software; null when none reads it. */
export function readSiteJson(text: string, address: string): SiteContent | null {
  const url = URL.parse(address);
  if (!url?.pathname.endsWith('.json')) return null;
  for (const { hosts, paths, readJson } of SITES) {
    if (readJson === undefined || !paths.test(url.pathname)) continue;
    const content = hosts.length === 0 || isHost(url.hostname, hosts) ? readJson(jsonOf(text)) : null;
    if (content !== null) return content;
  }
  return null;
}

function adapterOf(url: URL, { meta }: Head): SiteAdapter | undefined {
  return SITES.find(({ hosts, generator, paths }) => {
    if (!paths.test(url.pathname)) return false;
    if (generator === undefined) return isHost(url.hostname, hosts);
    return meta.some(([name, content]) => name === 'generator' && generator.test(content));
  });
}

function isHost(hostname: string, hosts: readonly string[]): boolean {
  const name = hostname.replace(/\.$/, '');
  return hosts.some((host) => (host.startsWith('.') ? name.endsWith(host) : name === host));
}
