// The form in which gateways share a page. What another one has written is checked field by field.

import { parseJson } from '../config/json-text.ts';
import type { PageImage, PageLink, PageMetadata } from '../extract/index.ts';
import { membersOf } from '../net/json-object.ts';
import type { Validators } from './download.ts';
import type { ReadPage } from './page-answer.ts';

/** A page with the validators of its URL. */
export interface SharedPage {
  readonly page: ReadPage;
  /** Null: the server gave none. */
  readonly validators: Validators | null;
}

const METADATA = [
  'description',
  'author',
  'site_name',
  'published',
  'modified',
  'language',
  'image',
  'canonical',
] as const satisfies readonly (keyof PageMetadata)[];

type Fields = Readonly<Record<string, unknown>>;

/** What a header field may hold. */
const FIELD_VALUE = /^[\x20-\x7e]{1,512}$/;

export function sharedPageText({ page, validators }: SharedPage): string {
  const { etag, lastModified } = validators ?? {};
  return JSON.stringify({ ...page, etag, last_modified: lastModified });
}

/** Null for what no gateway writes; throws for what is no JSON. */
export function readSharedPage(bytes: Buffer): SharedPage | null {
  const fields = membersOf(parseJson(bytes.toString()));
  const page = pageOf(fields);
  if (page === null) return null;
  const { etag, last_modified: lastModified } = fields;
  const [hasTag, hasDate] = [isFieldValue(etag), isFieldValue(lastModified)];
  if ((etag !== undefined && !hasTag) || (lastModified !== undefined && !hasDate)) return null;
  const validators = {
    url: page.url,
    ...(hasTag && { etag: etag as string }),
    ...(hasDate && { lastModified: lastModified as string }),
  };
  return { page, validators: hasTag || hasDate ? validators : null };
}

function isFieldValue(value: unknown): value is string {
  return typeof value === 'string' && FIELD_VALUE.test(value);
}

function pageOf(fields: Fields): ReadPage | null {
  const {
    authors,
    content,
    fetched_at,
    html,
    images,
    links,
    metadata,
    rendered,
    title,
    truncated,
    url,
    version,
    word_count,
  } = fields;
  if (typeof url !== 'string' || typeof title !== 'string' || typeof content !== 'string') return null;
  if (html !== undefined && typeof html !== 'string') return null;
  if (!Number.isSafeInteger(word_count) || (word_count as number) < 0) return null;
  if ((truncated ?? true) !== true || (rendered ?? true) !== true) return null;
  if (typeof version !== 'string') return null;
  if (typeof fetched_at !== 'string' || Number.isNaN(Date.parse(fetched_at))) return null;
  const areNames = Array.isArray(authors) && authors.every((name) => typeof name === 'string');
  if (authors !== undefined && !areNames) return null;
  const readImages = images === undefined ? undefined : imagesOf(images);
  const readLinks = links === undefined ? undefined : linksOf(links);
  const readMetadata = metadata === undefined ? undefined : metadataOf(metadata);
  if (readLinks === null || readImages === null || readMetadata === null) return null;
  return {
    ...{ url, title, content, word_count: word_count as number, fetched_at, version },
    ...(html !== undefined && { html }),
    ...(readImages !== undefined && { images: readImages }),
    ...(areNames && { authors: authors as string[] }),
    ...(readLinks !== undefined && { links: readLinks }),
    ...(readMetadata !== undefined && { metadata: readMetadata }),
    ...(truncated === true && { truncated }),
    ...(rendered === true && { rendered }),
  };
}

function linksOf(value: unknown): PageLink[] | null {
  if (!Array.isArray(value)) return null;
  const links: PageLink[] = [];
  for (const entry of value as unknown[]) {
    const { text, url } = membersOf(entry);
    if (typeof text !== 'string' || typeof url !== 'string') return null;
    links.push({ text, url });
  }
  return links;
}

function imagesOf(value: unknown): PageImage[] | null {
  if (!Array.isArray(value)) return null;
  const images: PageImage[] = [];
  for (const entry of value as unknown[]) {
    const { alt, url } = membersOf(entry);
    if (typeof alt !== 'string' || typeof url !== 'string') return null;
    images.push({ url, alt });
  }
  return images;
}

function metadataOf(value: unknown): PageMetadata | null {
  const fields = membersOf(value);
  const metadata: Record<string, string> = {};
  for (const name of METADATA) {
    const text = fields[name];
    if (text === undefined) continue;
    if (typeof text !== 'string') return null;
    metadata[name] = text;
  }
  return metadata;
}
