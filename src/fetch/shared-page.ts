// Reads a page that another gateway has shared. What it says is checked field by field.

import type { PageLink, PageMetadata } from '../extract/index.ts';
import type { PageAnswer } from './pages.ts';

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

/** Null for what no gateway writes; throws for what is no JSON. */
export function readPageAnswer(bytes: Buffer): PageAnswer | null {
  const { content, links, metadata, title, truncated, url, word_count } = fieldsOf(JSON.parse(bytes.toString()));
  if (typeof url !== 'string' || typeof title !== 'string' || typeof content !== 'string') return null;
  if (!Number.isSafeInteger(word_count) || (word_count as number) < 0) return null;
  if (truncated !== undefined && truncated !== true) return null;
  const readLinks = links === undefined ? undefined : linksOf(links);
  const readMetadata = metadata === undefined ? undefined : metadataOf(metadata);
  if (readLinks === null || readMetadata === null) return null;
  return {
    ...{ url, title, content, word_count: word_count as number },
    ...(readLinks !== undefined && { links: readLinks }),
    ...(readMetadata !== undefined && { metadata: readMetadata }),
    ...(truncated === true && { truncated }),
  };
}

function linksOf(value: unknown): PageLink[] | null {
  if (!Array.isArray(value)) return null;
  const links: PageLink[] = [];
  for (const entry of value as unknown[]) {
    const { text, url } = fieldsOf(entry);
    if (typeof text !== 'string' || typeof url !== 'string') return null;
    links.push({ text, url });
  }
  return links;
}

function metadataOf(value: unknown): PageMetadata | null {
  const fields = fieldsOf(value);
  const metadata: Record<string, string> = {};
  for (const name of METADATA) {
    const text = fields[name];
    if (text === undefined) continue;
    if (typeof text !== 'string') return null;
    metadata[name] = text;
  }
  return metadata;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
