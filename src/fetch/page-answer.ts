// What a request gets of a page that was read: the piece of its content that it asked for, and its further fields. Cached pages are
// whole, so that all pieces are of one version.

import type { PageExtra, PageFormat, PageImage, PageLink, PageMetadata } from '../extract/index.ts';
import { type CutInside, pieceOf } from './content-piece.ts';

export interface PageRequest {
  readonly url: string;
  readonly format: PageFormat;
  /** In alphabetical order, each once. */
  readonly include: readonly PageExtra[];
  /** Whether the answer has the content as HTML too, whole. Default: no. */
  readonly alsoHtml?: boolean;
  /** Longest content, in UTF-16 code units; undefined: all of it. */
  readonly maxChars?: number;
  /** Where the content begins, in UTF-16 code units. Default: 0. */
  readonly start?: number;
  /** A page that was read longer ago is asked for again, in milliseconds. Default: as long as pages are kept. */
  readonly maxAgeMs?: number;
  /** Whether the answer says what the page says of itself, in fields of its own. Default: no. */
  readonly details?: boolean;
}

/** A page as it was read, whole. */
export interface ReadPage {
  /** Where the page was found after redirects. */
  readonly url: string;
  readonly title: string;
  readonly content: string;
  readonly word_count: number;
  readonly links?: readonly PageLink[];
  readonly images?: readonly PageImage[];
  /** The content as HTML, where it was asked for beside another format. */
  readonly html?: string;
  readonly metadata?: PageMetadata;
  readonly authors?: readonly string[];
  /** The content is cut, as in `CleanPage`. */
  readonly truncated?: boolean;
  /** A browser has run the scripts of the page. */
  readonly rendered?: boolean;
  /** The browser failed, or its time was over before the page had stopped to change: text may be missing. Such a page is not kept. */
  readonly incomplete?: boolean;
  /** When the server gave it or said that it has not changed, ISO 8601. */
  readonly fetched_at: string;
  /** Equal for equal contents: positions in one are those in the other. */
  readonly version: string;
}

/** A page as clean text, as the interface prescribes. */
export interface PageAnswer extends Omit<ReadPage, 'fetched_at' | 'version'> {
  readonly fetched_at?: string;
  /** Of the whole content. */
  readonly version?: string;
  /** BCP 47, as the page declares it. */
  readonly language?: string;
  /** ISO 8601, as exact as the page states it. */
  readonly published_at?: string;
  readonly canonical_url?: string;
  /** Where to read on, in UTF-16 code units; absent where the content ends. */
  readonly next_start?: number;
  /** What the piece ends in the middle of: a code block or table of Markdown, or an element of HTML. */
  readonly cut_inside?: CutInside;
}

/** What is read of a page for a request. What a page says of itself is read always, so that fewer pages are read twice. */
export function extrasOf({ include }: PageRequest): readonly PageExtra[] {
  return include.includes('metadata') ? include : [...include, 'metadata' as const];
}

/** The answer to a request for a page. `word_count` is that of the whole page. */
export function answerOf(page: ReadPage, request: PageRequest): PageAnswer {
  const { details = false, include, maxChars = Infinity, start = 0 } = request;
  const { authors, content, fetched_at, metadata, truncated, version, ...rest } = page;
  const { cutInside, from, to } = pieceOf(content, start, maxChars, request.format);
  const isCut = to < content.length;
  const { canonical, language, published } = metadata ?? {};
  return {
    ...rest,
    content: from === 0 && !isCut ? content : content.slice(from, to),
    ...(include.includes('metadata') && metadata !== undefined && { metadata }),
    ...(details && {
      ...(language !== undefined && { language }),
      ...(published !== undefined && { published_at: published }),
      ...(authors !== undefined && { authors }),
      ...(canonical !== undefined && { canonical_url: canonical }),
      fetched_at,
    }),
    ...((details || isCut) && { version }),
    ...((truncated === true || isCut) && { truncated: true }),
    ...(isCut && { next_start: to }),
    ...(cutInside !== null && { cut_inside: cutInside }),
  };
}
