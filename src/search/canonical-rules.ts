// By which rules of the canonical form an address became the key of its page, in the words of the table in docs/search.md. The steps
// come from canonical-url.ts, which makes the key; what a step has changed is told by comparing its address before and after.

import {
  type Address,
  type AddressSteps,
  canonicalUrl,
  foldEscapes,
  isTracking,
  pageKey,
  traceSteps,
} from './canonical-url.ts';
import type { SearchType } from './engine.ts';

/** The key of the page at an address, and the rules that applied. */
export interface KeySteps {
  readonly key: string;
  readonly rules: readonly string[];
}

/** `searchType`: pictures have no scholarly identity. */
export function keySteps(url: string, searchType: SearchType): KeySteps {
  const notes = new RuleNotes();
  traceSteps(url, notes);
  const key = searchType === 'images' ? canonicalUrl(url) : pageKey(url);
  const work = WORKS.get(/^[a-z]+(?=:)/.exec(key)?.[0] ?? '');
  if (work !== undefined) notes.rules.add(work);
  return { key, rules: [...notes.rules] };
}

/** Rules by the scheme of a key. */
const WORKS: ReadonlyMap<string, string> = new Map([
  ['doi', 'DOI'],
  ['arxiv', 'arXiv'],
  ['pmid', 'PubMed'],
]);

/** Rules by the host that an address is written with. */
const SITES: Readonly<Record<string, string>> = { 'youtube.com': 'YouTube', 'reddit.com': 'Reddit', 'x.com': 'X' };

/** Labels of a host, and the rule that removes them. */
const LABELS: ReadonlyMap<string, string> = new Map([
  ['www', 'www.'],
  ['m', 'mobile hosts'],
  ['mobile', 'mobile hosts'],
  ['amp', 'AMP pages'],
]);

/** Ends of paths, and the rule that removes them. */
const PATH_RULES: readonly (readonly [RegExp, string])[] = [
  [/.\/$/, 'closing slash'],
  [/\/index\.(?:html?|php)\/*$/, 'index pages'],
  [/\/amp\/*$/, 'AMP pages'],
  [/;jsessionid=/i, 'sessions'],
];

class RuleNotes implements AddressSteps {
  readonly rules = new Set<string>();

  folded(text: string, address: Address): void {
    const url = URL.parse(text);
    if (url === null) return;
    const [, authority = ''] = /^[^/]*\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(text) ?? [];
    if (url.protocol === 'http:') this.rules.add('scheme');
    if (/:(?:80|443)$/.test(authority) && address.port === '') this.rules.add('default ports');
    if (/[A-Z]/.test(authority)) this.rules.add('case of the host');
    if (url.hostname.endsWith('.')) this.rules.add('closing dot');
    this.#host(url.hostname.replace(/\.$/, ''), address.host);
    if (url.pathname !== address.path) this.#path(url.pathname);
    if (url.search !== address.query) this.#query(url.search);
    if (url.search === '' && /^[^#]*\?/.test(text)) this.rules.add('empty query');
    if (url.hash !== '' && url.hash !== address.fragment) this.rules.add('fragments');
  }

  site(_address: Address, host: string): void {
    this.rules.add(SITES[host] ?? host);
  }

  wrapper({ host, path }: Address): void {
    const isAmp = host.endsWith('ampproject.org') || path.startsWith('/amp/');
    this.rules.add(isAmp ? 'AMP caches' : 'redirects of engines');
  }

  #host(given: string, folded: string): void {
    if (given === folded) return;
    if (!given.endsWith(`.${folded}`)) {
      this.rules.add('mobile wikis');
      return;
    }
    for (const label of given.slice(0, given.length - folded.length - 1).split('.'))
      this.rules.add(LABELS.get(label) ?? label);
  }

  #path(path: string): void {
    for (const [shape, rule] of PATH_RULES) if (shape.test(path)) this.rules.add(rule);
    this.#escapes(path);
  }

  #query(search: string): void {
    const names: string[] = [];
    for (const entry of search.slice(1).split('&')) {
      if (isTracking(entry)) this.rules.add(trackingRule(entry));
      else if (entry !== '') names.push(entry.replace(/=.*$/s, ''));
      if (entry.includes('+')) this.rules.add('plus in queries');
    }
    if (names.some((name, index) => index > 0 && name < (names[index - 1] as string)))
      this.rules.add('order of parameters');
    this.#escapes(search);
  }

  #escapes(text: string): void {
    const folded = foldEscapes(text);
    if (folded === text) return;
    const upper = text.replaceAll(/%[\da-f]{2}/gi, (escape) => escape.toUpperCase());
    this.rules.add(folded === upper ? 'case of escapes' : 'escapes');
  }
}

function trackingRule(entry: string): string {
  if (/^(?:amp|outputtype)(?:=|$)/i.test(entry)) return 'AMP pages';
  return /^(?:jsessionid|phpsessid)=/i.test(entry) ? 'sessions' : 'tracking parameters';
}
