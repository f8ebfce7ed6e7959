// Title and metadata of a page from its head, its linked data and its first heading. Called by clean.ts.

import type { PageMetadata } from './page.ts';
import { oneLine } from './text.ts';
import type { AddressBook } from './links.ts';
import type { Head } from './parse.ts';
import type { LinkedData } from './structured.ts';

/** What divides the name of a page from that of its site. */
const SEPARATOR = /\s+(?:[|\-–—\\/>»«·•~]|::)\s+|\s*[|»｜]\s*/u;
const MAX_CHARACTERS = 2000;
const MAX_TITLE_CHARACTERS = 300;

const ISO_DATE = /^\d{4}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)?$/;
const LANGUAGE = /^[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,5}$/i;

export function titleOf(head: Head, data: LinkedData, heading: string): string {
  const site = siteNameOf(head, data);
  const given = [metaOf(head, 'og:title'), metaOf(head, 'twitter:title'), data.headline ?? ''].map(clip);
  const title = clip(head.title);
  const named = given.find((each) => each !== '' && each.toLowerCase() !== site.toLowerCase());
  if (named !== undefined) return withoutSite(named, site, title === named ? heading : '');
  if (title !== '') return withoutSite(title, site, heading);
  return heading;
}

/** The title without the name of its site, where that can be told. */
function withoutSite(title: string, site: string, heading: string): string {
  const parts = title.split(SEPARATOR).filter((part) => part !== '');
  if (parts.length < 2) return title;
  const isSite = (part: string): boolean => part.toLowerCase() === site.toLowerCase();
  const said = parts.find((part) => part.length > 3 && heading.toLowerCase() === part.toLowerCase());
  if (said !== undefined) return said;
  if (site !== '' && isSite(parts.at(-1) ?? '')) return cut(title, 0, title.lastIndexOf(parts.at(-1) ?? ''));
  if (site !== '' && isSite(parts[0] ?? '')) return cut(title, (parts[0] ?? '').length, title.length);
  if (heading !== '' && title.toLowerCase().startsWith(heading.toLowerCase()) && heading.length > 3) return heading;
  if (site !== '') return title;
  // The last part names the site when the rest is a title by its length.
  const rest = cut(title, 0, title.lastIndexOf(parts.at(-1) ?? ''));
  return rest.split(' ').length >= 4 && (parts.at(-1) ?? '').split(' ').length <= 4 ? rest : title;
}

function cut(title: string, from: number, to: number): string {
  return title.slice(from, to).replaceAll(/^[\s|\-–—\\/>»«·•~:｜]+|[\s|\-–—\\/>»«·•~:｜]+$/gu, '');
}

export function metadataOf(head: Head, data: LinkedData, addresses: AddressBook): PageMetadata {
  const first = (...values: readonly (string | undefined)[]): string =>
    values.map((value) => clip(value ?? '')).find((value) => value !== '') ?? '';
  const meta = (...names: readonly string[]): string => first(...names.map((name) => metaOf(head, name)));
  const fields = {
    description: first(meta('og:description', 'description', 'twitter:description'), data.description),
    author: first(
      data.author,
      meta('author', 'article:author_name', 'parsely-author', 'dc.creator', 'dcterms.creator', 'citation_author'),
    ),
    site_name: siteNameOf(head, data),
    published: dateOf(
      meta(
        'article:published_time',
        'og:published_time',
        'datepublished',
        'citation_publication_date',
        'dc.date',
        'dcterms.date',
        'date',
      ),
      data.published,
    ),
    modified: dateOf(meta('article:modified_time', 'og:updated_time', 'datemodified', 'last-modified'), data.modified),
    language: LANGUAGE.test(head.language.trim()) ? head.language.trim() : '',
    image: addresses.absolute(meta('og:image', 'og:image:url', 'twitter:image') || data.image) ?? '',
    canonical: addresses.absolute(head.canonical || meta('og:url') || undefined) ?? '',
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}

/** What the page says it is about, at its longest. */
export function descriptionOf(head: Head): string {
  const descriptions = [metaOf(head, 'description'), metaOf(head, 'og:description')];
  return descriptions.reduce((longest, each) => (each.length > longest.length ? each : longest), '');
}

function siteNameOf(head: Head, data: LinkedData): string {
  return clip(metaOf(head, 'og:site_name') || data.siteName || metaOf(head, 'application-name'));
}

function metaOf(head: Head, name: string): string {
  return head.meta.find(([key, value]) => key === name && value.trim() !== '')?.[1] ?? '';
}

/** The first that is a date of ISO 8601. */
function dateOf(...dates: readonly (string | undefined)[]): string {
  return (
    dates
      .map((date) => (date ?? '').trim().replaceAll('/', '-'))
      .find((date) => ISO_DATE.test(date))
      ?.replace(' ', 'T') ?? ''
  );
}

function clip(text: string): string {
  const line = oneLine(text.slice(0, MAX_CHARACTERS));
  return (line.length > MAX_TITLE_CHARACTERS ? line.slice(0, MAX_CHARACTERS) : line).toWellFormed();
}
