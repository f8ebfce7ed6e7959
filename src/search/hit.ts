// The one place where a hit is made: called by every engine's `parse` with fields as the service sent them. What leaves
// here satisfies `EngineHit` whatever came in: plain text, absolute http(s) URLs, no field that is undefined.

import { asCount, asRecord } from './answer.ts';
import type { EngineHit } from './engine.ts';
import { plainText } from './text.ts';

/** Fields of a hit, unread. A field that is missing, null or of another type counts as absent. */
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
}

const MAX_TITLE = 500;
const MAX_SOURCE = 200;
const MAX_URL = 8192;

/**
 * What most URLs look like, and what the parser would leave as it is: a host of letters whose last label is no number,
 * and visible ASCII behind it.
 */
const PLAIN_URL = /^https?:\/\/(?!xn--)(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.(?!xn--))+[a-z]{2,}(?:[/?#][!-~]*)?$/i;

/** The URL as it was given, or normalised where it was not well written; undefined when not absolute http(s). */
function webUrl(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_URL) return undefined;
  if (PLAIN_URL.test(value)) return value;
  const given = value.trim();
  const parsed = URL.parse(given);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) return undefined;
  return /^https?:\/\/[^/\\]/i.test(given) && !/[\s\p{Cc}\p{Cs}]/u.test(given) ? given : parsed.href;
}

/** A hit of these fields; undefined when its URL is none a client could open. A missing title becomes the URL. */
export function hit(fields: HitFields): EngineHit | undefined {
  const url = webUrl(fields.url);
  if (url === undefined) return undefined;
  const made: Writable<EngineHit> = {
    title: plainText(fields.title, MAX_TITLE) || url,
    url,
    snippet: plainText(fields.snippet),
  };
  const { publishedAt } = fields;
  const source = plainText(fields.source, MAX_SOURCE);
  const thumbnailUrl = webUrl(fields.thumbnailUrl);
  const imageUrl = webUrl(fields.imageUrl);
  const width = asCount(fields.width);
  const height = asCount(fields.height);
  // One by one: this runs for every hit, and a field that is absent must not be there as undefined.
  if (publishedAt !== undefined) made.publishedAt = publishedAt;
  if (source) made.source = source;
  if (thumbnailUrl !== undefined) made.thumbnailUrl = thumbnailUrl;
  if (imageUrl !== undefined) made.imageUrl = imageUrl;
  if (width) made.width = width;
  if (height) made.height = height;
  return made;
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

/** The hits of a list, in its order; entries that make no hit are left out. */
export function hits(
  list: readonly unknown[],
  read: (entry: Readonly<Record<string, unknown>>) => HitFields,
): EngineHit[] {
  return list.map((entry) => hit(read(asRecord(entry)))).filter((made) => made !== undefined);
}

/** Name of the site of a URL, for services that do not name the publication: its host without `www.`. */
export function siteOf(url: unknown): string | undefined {
  return typeof url === 'string' ? URL.parse(url)?.hostname.replace(/^www\./, '') : undefined;
}
