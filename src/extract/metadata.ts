// Title, metadata and kind of a page, from its head, linked data, URL and headings.

import { decodeHTML } from 'entities';
import { oneLine, type PageMetadata } from './page.ts';
import type { UrlResolver } from './links.ts';
import type { Head } from './parse.ts';
import { type LinkedData, typeOf } from './structured.ts';
import { titleOf } from './title.ts';

const MAX_CHARACTERS = 2000;

const ISO_DATE = /^\d{4}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)?$/;
const LANGUAGE = /^[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,5}$/i;

/** The title of the page at `url`; `headings` are its `h1` elements. */
export function titleOfPage(head: Head, data: LinkedData, headings: readonly string[], url: string): string {
  return titleOf({
    url,
    headings,
    title: head.title,
    shared: metaOf(head, 'og:title'),
    others: [metaOf(head, 'twitter:title'), data.headline ?? ''],
    siteName: siteNameOf(head, data),
  });
}

export function metadataOf(head: Head, data: LinkedData, urls: UrlResolver): PageMetadata {
  const first = (...values: readonly (string | undefined)[]): string =>
    values.map((value) => clip(value ?? '')).find((value) => value !== '') ?? '';
  const meta = (...names: readonly string[]): string => first(...names.map((name) => metaOf(head, name)));
  const fields = {
    description: first(
      meta('og:description', 'description', 'twitter:description'),
      decodeHTML(data.description ?? ''),
    ),
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
    image: urls.absolute(meta('og:image', 'og:image:url', 'twitter:image') || data.image) ?? '',
    canonical: urls.absolute(head.canonical || meta('og:url') || undefined) ?? '',
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}

/** Elements whose contents name authors; repeated for several. */
const AUTHORS = [
  'citation_author',
  'author',
  'article:author_name',
  'parsely-author',
  'dc.creator',
  'dcterms.creator',
] as const;

/** Further ones are left out. */
export const MAX_AUTHORS = 50;

/** Names of the authors, each once: of linked data, else of the first kind of element that names one. Addresses are no names. */
export function authorsOf(head: Head, data: LinkedData): readonly string[] {
  const named = AUTHORS.map((name) => head.meta.filter(([key]) => key === name).map(([, value]) => value));
  for (const names of [data.authors, ...named]) {
    const authors = names.map(clip).filter((name) => name !== '' && !/^https?:/i.test(name));
    if (authors.length > 0) return [...new Set(authors)].slice(0, MAX_AUTHORS);
  }
  return [];
}

/** The longest description of the page. */
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

/** Whether there is the day, or the month, of an ISO 8601 date: programs write `0000-00-00` for none. */
export function hasDay(date: string): boolean {
  return !Number.isNaN(Date.parse(date.slice(0, 'YYYY-MM-DD'.length)));
}

/** The first ISO 8601 date. */
function dateOf(...dates: readonly (string | undefined)[]): string {
  return (
    dates
      .map((date) => (date ?? '').trim().replaceAll('/', '-'))
      .find((date) => ISO_DATE.test(date) && hasDay(date))
      ?.replace(' ', 'T') ?? ''
  );
}

/** The first characters of what a page says of itself, on one line. */
export function clip(text: string): string {
  return oneLine(text.slice(0, MAX_CHARACTERS)).toWellFormed();
}

/**
 * Kinds of pages whose parts have different roles: replies are the content of a discussion, not of an article; reviews are
 * not the description of a product. `other` is everything else: listings, services, documentation.
 */
export type PageKind = 'article' | 'discussion' | 'other' | 'product';

const SOFTWARE =
  /\b(?:discourse|phpbb|vbulletin|xenforo|mybb|flarum|invision|simple machines|vanilla|nodebb|lemmy|woltlab|fluxbb|punbb)\b/i;
const HOST = /^(?:forums?|community|communities|discuss|discussions?|boards?|answers|ask|talk)[.\d]/;
const PATH =
  /\/(?:forums?|threads?|topic|t|discussions?|questions?|viewtopic\.php|showthread\.php|thread-\d+|comments|community|board|answers|r|post\/\d+(?=\/|$))(?:\/|$|\.|-)/;

/** Not questions, which many articles and products list with answers. */
const POSTS = /"(?:DiscussionForumPosting|QAPage)"/;
const ARTICLES = /"(?:NewsArticle|Article|BlogPosting)"/;
const PRODUCTS = /"@type"\s*:\s*"Product(?:Group)?"/;

const LIST = /^(?:ItemList|CollectionPage|SearchResultsPage|OfferCatalog|ProductCollection)$/;
const QUESTIONS = /^(?:FAQPage|QAPage|Question)$/;

/** Whether linked data declare a list of items, or questions with answers. */
export function declaredBy({ items }: LinkedData): { declaresList: boolean; declaresQuestions: boolean } {
  const has = (types: RegExp): boolean => items.some((item) => types.test(typeOf(item)));
  return { declaresList: has(LIST), declaresQuestions: has(QUESTIONS) };
}

/** The kind of the page at `url`, by its software, its URL and its metadata. */
export function kindOf(head: Head, url: string): PageKind {
  if (isDiscussion(head, url)) return 'discussion';
  const type = head.meta.find(([name]) => name === 'og:type')?.[1] ?? '';
  const says = (types: RegExp): boolean => head.linkedData.some((text) => types.test(text));
  if (/^article/i.test(type) || says(ARTICLES)) return 'article';
  return /product/i.test(type) || says(PRODUCTS) ? 'product' : 'other';
}

function isDiscussion(head: Head, url: string): boolean {
  for (const [name, content] of head.meta) if (name === 'generator' && SOFTWARE.test(content)) return true;
  if (head.linkedData.some((text) => POSTS.test(text))) return true;
  const parsed = URL.parse(url);
  return parsed !== null && (HOST.test(parsed.hostname) || PATH.test(parsed.pathname));
}
