// Canonical URLs: a key that all spellings of the address of one page share. For comparison only, never shown to clients.
// Only what servers do not distinguish is removed: the case of a path and parameters not known as tracking stay. The
// functions take any text and never throw; the canonical form of a canonical form is itself. The rules are listed in docs/search.md.

import { percentDecoded } from '../net/percent-decoding.ts';

/** The parts of a normalised URL: `query` with its `?`, `fragment` with its `#`, each possibly empty. */
export interface Address {
  /** User information with its `@`. */
  readonly user: string;
  readonly host: string;
  /** With its colon; empty for 80 and 443. */
  readonly port: string;
  readonly path: string;
  readonly query: string;
  readonly fragment: string;
}

/** Redirect wrappers that are unwrapped; an address with more of them stays as it is. */
const MAX_WRAPPERS = 4;

/**
 * One URL for all spellings of a page: https, without tracking parameters, redirect wrappers and AMP forms, escapes
 * normalised (RFC 3986 section 6.2.2). Text that is not an http(s) URL is returned trimmed.
 */
export function canonicalUrl(url: string): string {
  const text = url.trim();
  const plain = plainAddress(text);
  if (plain !== undefined) return SCHEME + plain;
  const address = unwrap(text);
  return address === undefined ? text : write(address);
}

/** Whether both are addresses of one page, which the pages of one work need not be. */
export function isSamePage(one: string, other: string): boolean {
  const text = one.trim();
  const plain = plainAddress(text);
  const otherText = other.trim();
  const otherPlain = plainAddress(otherText);
  if (plain !== undefined && otherPlain !== undefined) return plain === otherPlain;
  return canonicalUrl(text) === canonicalUrl(otherText);
}

/**
 * Identity of a page: `doi:…`, `arxiv:…` or `pmid:…` of a scholarly work, whichever page shows it, else the canonical URL without its
 * scheme, which is a part of the URL where that is plain and takes little memory then.
 */
export function pageKey(url: string): string {
  const text = url.trim();
  const plain = plainAddress(text);
  if (plain !== undefined) return plain;
  const key = readKey(text);
  return key.startsWith(SCHEME) ? key.slice(SCHEME.length) : key;
}

/** Hears the steps from an address to its key, for those who ask why two addresses are one page. */
export interface AddressSteps {
  /** `text` was normalised to `address`. */
  folded(text: string, address: Address): void;
  /** `address` is another form of the address of a site of this host. */
  site(address: Address, host: string): void;
  /** `address` only leads to another one. */
  wrapper(address: Address): void;
}

/** Tells the steps by which the key of an address comes about, but for the last one to the id of a work. */
export function traceSteps(url: string, steps: AddressSteps): void {
  unwrap(url.trim(), steps);
}

const SCHEME = 'https://';

function readKey(text: string): string {
  const address = unwrap(text);
  if (address === undefined) return text;
  return (mayBeScholarly(address) ? scholarlyKey(address) : undefined) ?? write(address);
}

/**
 * Hosts with rules of their own: redirect wrappers, scholarly sites, AMP caches, mobile wikis, sites with several forms of an
 * address. A host that merely resembles one is read by the URL parser like it.
 */
const SPECIAL_HOST =
  /^https?:\/\/[^/?]*(?:google\.|bing\.com|duckduckgo\.|facebook\.|ampproject\.|youtu|arxiv\.|doi\.|ncbi\.|\.m\.wik|reddit\.|twitter\.|xn--)/;
/** A host of at least two labels in lower case, of which the last is no number, and a path that the URL parser leaves as it is. */
const PLAIN =
  /^https?:\/\/(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z](?:[a-z\d-]*[a-z\d])?(?:\/[\w!*'():@,$&+=~-][\w!*'():@,$&+=~.-]*)*\/?(?:\?[\w!*():@,$=&/~.-]*)?$/;
/** Works, and files and folders that are folded. */
const SPECIAL_PATH = /\/(?:10\.|(?:article|amp|index\.(?:html?|php))\/?(?:\?|$))/;

/**
 * The canonical URL, without its scheme, of text that is plain: of an ordinary site, without escapes, with at most one parameter that
 * counts. Equal to what the URL parser would come to, at a tenth of its memory. Undefined for all other text.
 */
function plainAddress(text: string): string | undefined {
  if (!PLAIN.test(text) || SPECIAL_HOST.test(text) || SPECIAL_PATH.test(text)) return undefined;
  const hostFrom = text.indexOf('//') + 2;
  const slash = text.indexOf('/', hostFrom);
  const mark = text.indexOf('?', hostFrom);
  const pathEnd = mark < 0 ? text.length : mark;
  const hostEnd = slash < 0 || slash > pathEnd ? pathEnd : slash;
  const from = variantEnd(text, hostFrom, hostEnd);
  let to = pathEnd;
  while (to > hostEnd && text.endsWith('/', to)) to -= 1;
  const query = mark < 0 ? '' : keptParameter(text, mark + 1);
  if (query === undefined) return undefined;
  const root = to === hostEnd;
  if (query === '') {
    if (!root) return text.slice(from, to);
    return slash === hostEnd ? text.slice(from, hostEnd + 1) : `${text.slice(from, to)}/`;
  }
  // A part of the text wherever nothing between has been removed: it takes no memory of its own.
  if (!root && to === pathEnd && query.length === text.length - mark - 1) return text.slice(from);
  return `${text.slice(from, to)}${root ? '/' : ''}?${query}`;
}

const VARIANT_LABELS = ['www.', 'm.', 'mobile.', 'amp.'];

/** Where the host begins without the labels of its variants. */
function variantEnd(text: string, hostFrom: number, hostEnd: number): number {
  let from = hostFrom;
  for (;;) {
    let next = from;
    for (let at = 0; at < VARIANT_LABELS.length && next === from; at++) {
      const label = VARIANT_LABELS[at] as string;
      if (text.startsWith(label, from)) next = from + label.length;
    }
    if (next === from) return from;
    const dot = text.indexOf('.', next);
    if (dot < 0 || dot >= hostEnd) return from;
    from = next;
  }
}

/** The only parameter of a query that is no tracking; '' where all are, undefined where several count. */
function keptParameter(text: string, queryFrom: number): string | undefined {
  let kept = '';
  for (let from = queryFrom; from <= text.length;) {
    const and = text.indexOf('&', from);
    const to = and < 0 ? text.length : and;
    // The most frequent by far, told without a copy.
    if (to > from && !text.startsWith('utm_', from)) {
      const entry = text.slice(from, to);
      if (!isTracking(entry)) {
        if (kept !== '') return undefined;
        kept = entry;
      }
    }
    from = to + 1;
  }
  return kept;
}

function write({ user, host, port, path, query, fragment }: Address): string {
  return `https://${user}${host}${port}${path}${query}${fragment}`;
}

function unwrap(text: string, steps?: AddressSteps): Address | undefined {
  const outer = fold(text, steps);
  let address = outer === undefined ? undefined : foldSite(outer, steps);
  for (let wrappers = 0; address !== undefined; wrappers++) {
    const target = mayBeWrapper(address.host) ? wrappedUrl(address) : undefined;
    const inner = target === undefined ? undefined : fold(target, steps);
    if (inner === undefined) return address;
    if (wrappers === MAX_WRAPPERS) return outer;
    steps?.wrapper(address);
    address = foldSite(inner, steps);
  }
  return undefined;
}

function fold(text: string, steps?: AddressSteps): Address | undefined {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined;
  const { username, password, port, search, hash } = url;
  const address = {
    user: username === '' && password === '' ? '' : `${username}:${password}@`,
    host: foldHost(url.hostname),
    port: port === '' || port === '80' || port === '443' ? '' : `:${port}`,
    path: foldPath(url),
    query: search === '' ? '' : foldQuery(search),
    fragment: hash === '' ? '' : foldFragment(hash),
  };
  steps?.folded(text, address);
  return address;
}

// The unreserved characters of RFC 3986; the marks !*'() that RFC 2396 counted among them and encodeURIComponent still
// leaves; and :@, which mean nothing inside a path or a query but which some writers escape (`Paris%2C_Texas`).
const UNESCAPED = new Map(
  Array.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!*'():@,", (character) => [
    `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
    character,
  ]),
);

export function foldEscapes(text: string): string {
  return text.replace(/%(?:[0-9a-f]{2})?/gi, (escape) => {
    // A bare % is escaped: together with decoded characters after it, it could become an escape.
    if (escape === '%') return '%25';
    const upper = escape.toUpperCase();
    return UNESCAPED.get(upper) ?? upper;
  });
}

const VARIANT = /^(?:www|m|mobile|amp)\./;
const MOBILE_WIKI = /^([a-z-]+)\.m\.(wik[a-z]+\.org)$/;

function foldHost(hostname: string): string {
  let host = /[^.]\.$/.test(hostname) ? hostname.slice(0, -1) : hostname;
  for (;;) {
    const rest = host.replace(VARIANT, '');
    // `m.me` and `amp.dev` are sites of their own.
    if (rest === host || !rest.includes('.')) break;
    host = rest;
  }
  return host.includes('.m.wik') ? host.replace(MOBILE_WIKI, '$1.$2') : host;
}

const SESSION = /;jsessionid=[^/;]*/gi;

function foldPath(url: URL): string {
  let { pathname: path } = url;
  if (path.includes('%')) path = foldEscapes(path);
  const stateless = path.includes(';') ? path.replace(SESSION, '') : path;
  if (stateless !== path) {
    // Through the setter: what is left may be a dot segment.
    url.pathname = stateless;
    path = url.pathname;
  }
  let end = path.length;
  for (;;) {
    if (end > 0 && path.endsWith('/', end)) end -= 1;
    else if (path.endsWith('/index.html', end)) end -= '/index.html'.length;
    else if (path.endsWith('/index.htm', end) || path.endsWith('/index.php', end)) end -= '/index.htm'.length;
    // `/amp` alone is a page of that name.
    else if (end > '/amp'.length && path.endsWith('/amp', end)) end -= '/amp'.length;
    else return end === 0 ? '/' : path.slice(0, end);
  }
}

/** Names of parameters that begin so: campaigns of Urchin, Matomo, HubSpot and the like. */
const TRACKING_PREFIX = /^(?:utm_|mtm_|pk_|hsa_|_hs|__hs|vero_|oly_|amp_js)/;
/**
 * Click ids of advertisers and networks, recipients of newsletters, sessions, AMP viewers, in lower case. `ref`, `source`, `si`
 * and the like select content on some sites and stay.
 */
export const TRACKING: ReadonlySet<string> = new Set(
  `gclid gclsrc dclid gbraid wbraid srsltid _ga _gl fbclid igshid msclkid twclid ttclid yclid ysclid li_fat_id epik irclickid
  wickedid ref_src ref_url s_cid cmpid mc_cid mc_eid mkt_tok at_medium at_campaign jsessionid phpsessid usqp amp_gsa`.split(
    /\s+/,
  ),
);
// With their values: `?amp=16` is an electric current.
const AMP: ReadonlySet<string> = new Set(['amp', 'amp=', 'amp=1', 'amp=true', 'outputtype=amp']);

/** Whether a parameter, with its value, says only how a reader came to the page or which form of it is wanted. */
export function isTracking(entry: string): boolean {
  const equals = entry.indexOf('=');
  const name = (equals < 0 ? entry : entry.slice(0, equals)).toLowerCase();
  if (TRACKING.has(name) || TRACKING_PREFIX.test(name)) return true;
  return (name === 'amp' || name === 'outputtype') && AMP.has(entry.toLowerCase());
}

function foldQuery(search: string): string {
  const named: [name: string, entry: string][] = [];
  for (const raw of search.slice(1).split('&')) {
    const entry = (raw.includes('%') ? foldEscapes(raw) : raw).replaceAll('+', '%20');
    const equals = entry.indexOf('=');
    const name = equals < 0 ? entry : entry.slice(0, equals);
    if (entry === '' || isTracking(entry)) continue;
    named.push([name, entry]);
  }
  if (named.length === 0) return '';
  // By name alone: the order of a repeated parameter can matter.
  named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `?${named.map(([, entry]) => entry).join('&')}`;
}

/** Keeps the routes of single-page applications. */
function foldFragment(hash: string): string {
  const [route = ''] = (hash.includes('%') ? foldEscapes(hash) : hash).split(':~:', 1);
  return /^#(?:!.|\/.)/.test(route) && route !== '#!/' ? route : '';
}

/** Other names of a site under which it has the same pages at the same paths. */
const SAME_SITE: ReadonlyMap<string, string> = new Map([
  ['old.reddit.com', 'reddit.com'],
  ['new.reddit.com', 'reddit.com'],
  ['np.reddit.com', 'reddit.com'],
  ['twitter.com', 'x.com'],
]);

/** `/shorts/ID`, `/embed/ID` and `/live/ID` are players of the video with this id. */
const VIDEO_PATH = /^\/(?:shorts|embed|live|v)\/([\w-]{11})$/;
const VIDEO_PARAMETER = /[?&]v=([\w-]{11})(?:&|$)/;

/** One address for the forms in which some sites give the address of a page. */
function foldSite(address: Address, steps?: AddressSteps): Address {
  const folded = foldedSite(address);
  if (folded !== address) steps?.site(address, folded.host);
  return folded;
}

function foldedSite(address: Address): Address {
  const { host, path, port, query, user } = address;
  if (port !== '' || user !== '') return address;
  if (host === 'youtube.com' || host === 'youtube-nocookie.com' || host === 'youtu.be') {
    const inPath = host === 'youtu.be' ? /^\/([\w-]{11})$/.exec(path) : VIDEO_PATH.exec(path);
    const video = path === '/watch' && host === 'youtube.com' ? VIDEO_PARAMETER.exec(query) : inPath;
    return video === null
      ? address
      : { ...address, host: 'youtube.com', path: '/watch', query: `?v=${video[1]}`, fragment: '' };
  }
  const site = SAME_SITE.get(host);
  return site === undefined ? address : { ...address, host: site };
}

const GOOGLE = /^google\.(?:com|[a-z]{2}|com?\.[a-z]{2})$/;
const AMP_CACHE = 'cdn.ampproject.org';

interface Wrapper {
  readonly path: string;
  readonly parameters: readonly string[];
}

const GOOGLE_WRAPPER: Wrapper = { path: '/url', parameters: ['q', 'url'] };
const DUCKDUCKGO_WRAPPER: Wrapper = { path: '/l', parameters: ['uddg'] };
const FACEBOOK_WRAPPER: Wrapper = { path: '/l.php', parameters: ['u'] };

const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map([
  ['duckduckgo.com', DUCKDUCKGO_WRAPPER],
  ['html.duckduckgo.com', DUCKDUCKGO_WRAPPER],
  ['lite.duckduckgo.com', DUCKDUCKGO_WRAPPER],
  ['l.facebook.com', FACEBOOK_WRAPPER],
  ['lm.facebook.com', FACEBOOK_WRAPPER],
  ['youtube.com', { path: '/redirect', parameters: ['q'] }],
  ['bing.com', { path: '/ck/a', parameters: ['u'] }],
]);

function mayBeWrapper(host: string): boolean {
  return WRAPPERS.has(host) || host.startsWith('google.') || host.endsWith(AMP_CACHE);
}

/** The target of a redirect wrapper, as text that may be a URL; undefined when the address is none. */
function wrappedUrl(address: Address): string | undefined {
  const { host, path, query } = address;
  if (host.endsWith(AMP_CACHE)) return ampTarget(/^\/[cvi]\/(s\/)?(.+)$/, address);
  const google = host.startsWith('google.') && GOOGLE.test(host);
  if (google && path.startsWith('/amp/')) return ampTarget(/^\/amp\/(s\/)?(.+)$/, address);
  const wrapper = google ? GOOGLE_WRAPPER : WRAPPERS.get(host);
  if (wrapper === undefined || path !== wrapper.path) return undefined;
  const parameters = new URLSearchParams(query);
  for (const name of wrapper.parameters) {
    const value = parameters.get(name);
    const target = host === 'bing.com' ? bingTarget(value) : value;
    // The replacement character stands for bytes that were not UTF-8: two targets could look the same.
    if (target !== null && /^https?:/i.test(target) && !target.includes('\uFFFD')) return target;
  }
  return undefined;
}

/** AMP caches have the origin's address in their path, behind `s/` for https. */
function ampTarget(shape: RegExp, { path, query }: Address): string | undefined {
  const [, secure, rest] = shape.exec(path) ?? [];
  return rest === undefined ? undefined : `${secure === undefined ? 'http' : 'https'}://${rest}${query}`;
}

/** `a1`, then the URL as base64. */
function bingTarget(value: string | null): string | null {
  return value?.startsWith('a1') === true ? Buffer.from(value.slice(2), 'base64url').toString() : null;
}

const DOI = /^10\.\d{4,9}(?:\.\d+)*\/.+$/;
const RESOLVER_PATH = /^\/(?:doi:)?(10\..+)$/i;
// Paths of works at publishers; pages about a work (`/details/doi/10.…`, `/reports/10.…`) have others.
const PUBLISHER_PATH =
  /^\/(?:journals\/[\w-]+\/)?(?:doi|articles?|content|chapter|book|document\/doi)(?:\/(?:abs|full|e?pdf|epub|pdfdirect|reader|html))?\/(10\..+)$/;
const VIEW = /(?:\/(?:abstract|full(?:\/html)?|html|e?pdf|meta|summary)|\.pdf)$/;
// bioRxiv and medRxiv append version and view to the DOI.
const PREPRINT_VERSION = /^(10\.1101\/[\d.]+)v\d+(?:\.[a-z.-]+)?$/i;
const ARXIV_DOI = /^10\.48550\/arxiv\./;
const ARXIV_PATH = /^\/(?:abs|pdf|html)\/(.+)$/;
// Since 2007 `2101.00001`, before `math.GT/0309136`, where the subject class does not matter.
const ARXIV_ID = /^(?:(\d{4}\.\d{4,5})|([a-z-]+)(?:\.[a-z]{2})?\/(\d{7}))(?:v\d+)?(?:\.pdf)?$/i;

const SCHOLARLY_HOSTS: ReadonlySet<string> = new Set([
  'arxiv.org',
  'export.arxiv.org',
  'pubmed.ncbi.nlm.nih.gov',
  'ncbi.nlm.nih.gov',
  'doi.org',
  'dx.doi.org',
]);

function mayBeScholarly({ host, path }: Address): boolean {
  return path.includes('/10.') || path.endsWith('/article') || SCHOLARLY_HOSTS.has(host);
}

function scholarlyKey(address: Address): string | undefined {
  const { host, path } = address;
  if (host === 'arxiv.org' || host === 'export.arxiv.org') return arxivKey(ARXIV_PATH.exec(path)?.[1]);
  const pmid = /^(\/pubmed)?\/([1-9]\d{0,8})$/.exec(path);
  if (pmid !== null && host === (pmid[1] === undefined ? 'pubmed.ncbi.nlm.nih.gov' : 'ncbi.nlm.nih.gov')) {
    return `pmid:${pmid[2]}`;
  }
  const doi = doiOf(address)?.toLowerCase();
  if (doi === undefined) return undefined;
  return ARXIV_DOI.test(doi) ? (arxivKey(doi.replace(ARXIV_DOI, '')) ?? `doi:${doi}`) : `doi:${doi}`;
}

function arxivKey(id: string | undefined): string | undefined {
  const [, number, archive, serial] = ARXIV_ID.exec(id ?? '') ?? [];
  if (number !== undefined) return `arxiv:${number}`;
  return archive === undefined ? undefined : `arxiv:${archive.toLowerCase()}/${serial}`;
}

function doiOf({ host, path, query }: Address): string | undefined {
  // PLOS has the DOI in a parameter: `/plosone/article?id=10.1371/…`.
  if (path.endsWith('/article') && query.startsWith('?id=10.')) return doi(query.slice('?id='.length));
  if (host === 'doi.org' || host === 'dx.doi.org') return doi(RESOLVER_PATH.exec(percentDecoded(path))?.[1]);
  if (!path.includes('/10.')) return undefined;
  const inPath = doi(PUBLISHER_PATH.exec(path)?.[1]);
  return inPath?.replace(VIEW, '').replace(PREPRINT_VERSION, '$1');
}

function doi(escaped: string | undefined): string | undefined {
  const text = percentDecoded(escaped ?? '');
  return DOI.test(text) ? text : undefined;
}
