// Redirects that a page declares in place of its server: the `Refresh` field and `meta http-equiv="refresh"`, by the shared declarative
// refresh steps of the HTML standard. Pages that have text of their own and merely reload later are no redirects.

import { decodeHTML } from 'entities';
import { visibleLength } from './challenge.ts';

/** Largest page that is examined. Pages that only lead elsewhere are small. */
export const REFRESH_BYTES = 65_536;

/** With this delay, in seconds, nobody reads the page. */
const AT_ONCE_S = 1;

/** Longest delay of a page that only leads elsewhere: "You will be redirected in a few seconds". */
const MAX_DELAY_S = 10;

/** Visible characters of such a page, at most. */
const MAX_TEXT_LENGTH = 400;

/** Leads to an app, a script or a mail: the page is what there is to read. */
const OTHER_SCHEME = /^\s*(?!https?:)[a-z][a-z\d+.-]*:/i;

/** Elements whose text is no markup. */
const RAW_TEXT: ReadonlySet<string> = new Set([
  'iframe',
  'noembed',
  'noframes',
  'script',
  'style',
  'textarea',
  'title',
  'xmp',
]);

/** A declared refresh. */
interface Refresh {
  readonly delayS: number;
  /** As written; relative to `base`. */
  readonly url: string;
}

/** Where a page leads. */
export interface RefreshTarget {
  readonly url: string;
  /** Of the first `base` element; '' without one. */
  readonly base: string;
}

/** Where a page leads in place of showing something; null: nowhere. `field`: the `Refresh` field. Linear in the size of the page. */
export function refreshOf(field: string | undefined, bytes: Uint8Array): RefreshTarget | null {
  const declared = field === undefined ? null : parseRefresh(field);
  if (bytes.byteLength > REFRESH_BYTES) return declared !== null && declared.delayS <= AT_ONCE_S ? at(declared) : null;
  const page = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const inPage = /http-equiv/i.test(page) ? scan(page) : NOTHING;
  const refresh = declared ?? inPage.refresh;
  if (refresh !== null && refresh.delayS <= AT_ONCE_S) return at(refresh, inPage.base);
  const slow = refresh ?? inPage.scriptless;
  if (slow === null || slow.delayS > MAX_DELAY_S) return null;
  return visibleLength(page.toLowerCase()) <= MAX_TEXT_LENGTH ? at(slow, inPage.base) : null;
}

function at({ url }: Refresh, base = ''): RefreshTarget | null {
  return OTHER_SCHEME.test(url) ? null : { url, base };
}

interface Declarations {
  readonly refresh: Refresh | null;
  /** For browsers without scripts. */
  readonly scriptless: Refresh | null;
  readonly base: string;
}

const NOTHING: Declarations = { refresh: null, scriptless: null, base: '' };

/** The first declaration of each kind. */
function scan(page: string): Declarations {
  const tag = /<(\/?)([a-z][^\s/>]*)/iy;
  let refresh: Refresh | null = null;
  let scriptless: Refresh | null = null;
  let base = '';
  let inNoscript = false;
  for (let open = page.indexOf('<'); open !== -1;) {
    if (page.startsWith('<!--', open)) {
      const end = page.indexOf('-->', open + 2);
      open = end === -1 ? -1 : page.indexOf('<', end);
      continue;
    }
    tag.lastIndex = open;
    const [text = '', slash = '', found = ''] = tag.exec(page) ?? [];
    if (text === '') {
      open = page.indexOf('<', open + 1);
      continue;
    }
    const name = found.toLowerCase();
    const [attributes, end] = attributesAt(page, open + text.length);
    if (name === 'noscript') inNoscript = slash === '';
    if (slash === '' && name === 'base') base ||= attributes.get('href') ?? '';
    if (slash === '' && name === 'meta' && attributes.get('http-equiv')?.trim().toLowerCase() === 'refresh') {
      const declared = parseRefresh(attributes.get('content') ?? '');
      if (inNoscript) scriptless ??= declared;
      else refresh ??= declared;
    }
    open = page.indexOf('<', slash === '' && RAW_TEXT.has(name) ? endOfRawText(page, name, end) : end);
  }
  return { refresh, scriptless, base };
}

function endOfRawText(page: string, name: string, from: number): number {
  const end = new RegExp(`</${name}[\\s/>]`, 'gi');
  end.lastIndex = from;
  return end.exec(page)?.index ?? page.length;
}

/** Attributes of a tag, the first of each name, and where the tag ends. */
function attributesAt(page: string, start: number): [ReadonlyMap<string, string>, number] {
  const attribute = /[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"?|'([^']*)'?|([^\s>]*)))?/y;
  const found = new Map<string, string>();
  let end = start;
  attribute.lastIndex = start;
  for (let match = attribute.exec(page); match !== null; match = attribute.exec(page)) {
    const [, name = '', double, single, bare] = match;
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, decodeHTML(double ?? single ?? bare ?? ''));
    end = attribute.lastIndex;
  }
  return [found, end];
}

/** Null for a refresh of the page itself. */
function parseRefresh(content: string): Refresh | null {
  const [, seconds, double, single, bare] =
    /^\s*(\d*)(?:\.[\d.]*)?\s*(?:[;,]|\s)\s*(?:url\s*=\s*)?(?:"([^"]*)|'([^']*)|(.*))/is.exec(content) ?? [];
  const url = (double ?? single ?? bare ?? '').trim();
  if (seconds === undefined || url === '') return null;
  return { delayS: Number(seconds), url };
}
