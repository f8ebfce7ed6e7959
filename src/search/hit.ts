// Makes hits from fields as services send them. Every hit satisfies `EngineHit`, whatever comes in: plain text, absolute
// http(s) URLs, no field that is undefined.

import { httpUrl } from '../config/units.ts';
import { asCount } from './engine-response.ts';
import type { EngineHit } from './engine.ts';
import { plainText } from './text.ts';

/** Fields of a hit as they were sent. A field that is missing, null or of another type counts as absent. */
export interface HitFields {
  readonly title?: unknown;
  readonly url: unknown;
  readonly snippet?: unknown;
  /** Read by `isoDate`. */
  readonly publishedAt?: string | undefined;
  readonly source?: unknown;
  readonly thumbnailUrl?: unknown;
  readonly imageUrl?: unknown;
  /** Pixels; numbers or digits. */
  readonly width?: unknown;
  readonly height?: unknown;
  /** Bare, or as a URL of doi.org. */
  readonly doi?: unknown;
  /** Names; entries of another type are left out. */
  readonly authors?: unknown;
  /** Default: that of `publishedAt`, where the hit has another field of a scholarly work. */
  readonly year?: unknown;
  readonly venue?: unknown;
  readonly citations?: unknown;
  readonly openAccessUrl?: unknown;
}

/** Entries of a list that are read: no engine has as many results on a page, and a client gets 100 of an engine. */
const MAX_ENTRIES = 1000;
const MAX_TITLE = 500;
const MAX_SOURCE = 200;
const MAX_URL = 8192;
const MAX_DOI = 300;
const MAX_VENUE = 300;
const MAX_AUTHOR = 200;
/** Collaborations in physics have thousands. */
const MAX_AUTHORS = 50;
/** Journals are not older; proceedings may be announced years ahead. */
const YEARS = { first: 1400, last: 2200 } as const;
/** Three times what the most cited work has. */
const MAX_CITATIONS = 1_000_000;

/** URLs that the URL parser leaves as they are, as most are: the last label of the host is no number, the rest visible ASCII. */
const PLAIN_URL = /^https?:\/\/(?!xn--)(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.(?!xn--))+[a-z]{2,}(?:[/?#][!-~]*)?$/i;

/** Whether it is an http(s) URL that can be parsed. */
export function isWebUrl(value: unknown): value is string {
  return typeof value === 'string' && (PLAIN_URL.test(value) || httpUrl(value) !== null);
}

/** The URL as it was given, or normalised where it is malformed; undefined when it is not absolute http(s). */
function webUrl(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_URL) return undefined;
  if (PLAIN_URL.test(value)) return value;
  const given = value.trim();
  const parsed = httpUrl(given);
  if (parsed === null) return undefined;
  return /^https?:\/\/[^/\\]/i.test(given) && !/[\s\p{C}]/u.test(given) ? given : parsed.href;
}

/** A hit of these fields; undefined without a URL that a client could open. A missing title becomes the URL. */
export function hit(fields: HitFields): EngineHit | undefined {
  const url = webUrl(fields.url);
  if (url === undefined) return undefined;
  const { publishedAt, source, thumbnailUrl, imageUrl, width, height } = fields;
  const title = plainText(fields.title, MAX_TITLE) || url;
  const made: Writable<EngineHit> = { title, url, snippet: plainText(fields.snippet) };
  // Most hits have none of these: each is read only where it was sent.
  if (publishedAt !== undefined) made.publishedAt = publishedAt;
  if (source !== undefined) set(made, 'source', plainText(source, MAX_SOURCE));
  if (thumbnailUrl !== undefined) set(made, 'thumbnailUrl', webUrl(thumbnailUrl));
  if (imageUrl !== undefined) set(made, 'imageUrl', webUrl(imageUrl));
  if (width !== undefined) set(made, 'width', asCount(width));
  if (height !== undefined) set(made, 'height', asCount(height));
  if (fields.doi !== undefined || fields.authors !== undefined || fields.citations !== undefined) setWork(made, fields);
  return made;
}

/** The fields of a scholarly work. */
function setWork(made: Writable<EngineHit>, fields: HitFields): void {
  const { authors, citations, doi, openAccessUrl, publishedAt, venue, year } = fields;
  set(made, 'doi', bareDoi(doi));
  const names = authorNames(authors);
  if (names.length > 0) made.authors = names;
  const published = asCount(year) ?? Number(publishedAt?.slice(0, 4) ?? NaN);
  if (published >= YEARS.first && published <= YEARS.last) made.year = published;
  set(made, 'venue', plainText(venue, MAX_VENUE));
  const cited = asCount(citations);
  // 0 says something, too.
  if (cited !== undefined) made.citations = Math.min(cited, MAX_CITATIONS);
  set(made, 'openAccessUrl', webUrl(openAccessUrl));
}

/** `10.1000/xyz` in lower case, as DOIs have no case; undefined for anything else. */
function bareDoi(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_DOI) return undefined;
  const bare = value
    .trim()
    .replace(/^(?:https?:\/\/(?:dx\.)?doi\.org\/|doi:\s*)/i, '')
    .toLowerCase();
  return /^10\.\d{4,9}\/[^\s\p{Cc}\p{Cs}]+$/u.test(bare) ? bare : undefined;
}

function authorNames(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  const names: string[] = [];
  for (const author of value as readonly unknown[]) {
    if (names.length === MAX_AUTHORS) break;
    const name = plainText(author, MAX_AUTHOR);
    if (name !== '') names.push(name);
  }
  return names;
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

/** Sets a field to a value that is neither empty, 0 nor undefined. */
function set<Name extends keyof EngineHit>(made: Writable<EngineHit>, name: Name, value: EngineHit[Name]): void {
  if (value) made[name] = value;
}

/** The hits of the first 1000 entries of a list, in its order; entries that make no hit are left out. */
export function hits(
  list: readonly unknown[],
  read: (entry: Readonly<Record<string, unknown>>) => HitFields,
): EngineHit[] {
  const made: EngineHit[] = [];
  for (const entry of list.length > MAX_ENTRIES ? list.slice(0, MAX_ENTRIES) : list) {
    if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) continue;
    const one = hit(read(entry as Readonly<Record<string, unknown>>));
    if (one !== undefined) made.push(one);
  }
  return made;
}

/** Name of the site of a URL, for services that do not name the publication: its host without `www.`. */
export function siteOf(url: unknown): string | undefined {
  return typeof url === 'string' ? URL.parse(url)?.hostname.replace(/^www\./, '') : undefined;
}

/** Percent-encodes each segment of a path; the slashes between them stay. Never throws. */
export function encodePath(path: string): string {
  return path.toWellFormed().split('/').map(encodeURIComponent).join('/');
}
