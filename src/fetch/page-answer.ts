// What a request gets of a page that was read: the piece of its content that it asked for, and its further fields. Cached pages are
// whole, so that all pieces are of one version.

import type { PageExtra, PageFormat, PageImage, PageLink, PageMetadata } from '../extract/index.ts';

export interface PageRequest {
  readonly url: string;
  readonly format: PageFormat;
  /** In alphabetical order, each once. */
  readonly include: readonly PageExtra[];
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
  readonly metadata?: PageMetadata;
  readonly authors?: readonly string[];
  /** The content is cut, as in `CleanPage`. */
  readonly truncated?: boolean;
  /** A browser has run the scripts of the page. */
  readonly rendered?: boolean;
  /** When the server gave it or said that it has not changed, ISO 8601. */
  readonly fetched_at: string;
}

/** A page as clean text, as the interface prescribes. */
export interface PageAnswer extends Omit<ReadPage, 'fetched_at'> {
  readonly fetched_at?: string;
  /** BCP 47, as the page declares it. */
  readonly language?: string;
  /** ISO 8601, as exact as the page states it. */
  readonly published_at?: string;
  readonly canonical_url?: string;
  /** Where to read on, in UTF-16 code units; absent where the content ends. */
  readonly next_start?: number;
}

/** What is read of a page for a request. What a page says of itself is read always, so that fewer pages are read twice. */
export function extrasOf({ include }: PageRequest): readonly PageExtra[] {
  return include.includes('metadata') ? include : [...include, 'metadata' as const];
}

/** The answer to a request for a page. `word_count` is that of the whole page. */
export function answerOf(page: ReadPage, request: PageRequest): PageAnswer {
  const { details = false, include, maxChars = Infinity, start = 0 } = request;
  const { authors, content, fetched_at, metadata, truncated, ...rest } = page;
  const [from, to] = pieceOf(content, start, maxChars, request.format);
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
    ...((truncated === true || isCut) && { truncated: true }),
    ...(isCut && { next_start: to }),
  };
}

/** A piece ends at a boundary only where that leaves at least this share of it. */
const LEAST_SHARE = 0.5;

/** Longer runs of characters that are displayed as one are cut: they are no text. */
const LONGEST_GRAPHEME = 64;

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/**
 * The bounds of a piece of at most `most` code units from `start` on, or of one character that is longer. It ends after a block where one
 * ends in its second half, else after a line, a sentence or a word; never inside a character as it is displayed. Pieces that follow each
 * other by their ends are the whole content.
 */
export function pieceOf(content: string, start: number, most: number, format: PageFormat): [from: number, to: number] {
  let from = Math.min(start, content.length);
  if (isInsidePair(content, from)) from--;
  if (content.length - from <= most) return [from, content.length];
  const limit = from + most;
  const least = from + Math.ceil(most * LEAST_SHARE);
  const piece = content.slice(from, limit);
  for (const boundary of format === 'html' ? HTML_BOUNDARIES : BOUNDARIES) {
    const to = from + boundary(piece);
    if (to >= least && to > from) return [from, to];
  }
  const to = graphemeEnd(content, from, limit);
  return [from, to];
}

/** Where a piece of text may end: the end of the last of these in it, 0 for none. */
type Boundary = (piece: string) => number;

const after =
  (mark: string): Boundary =>
  (piece) => {
    const at = piece.lastIndexOf(mark);
    return at < 0 ? 0 : at + mark.length;
  };

/** After a full stop and its space, in scripts with spaces and without. */
function afterSentence(piece: string): number {
  return Math.max(...['. ', '! ', '? ', '。', '！', '？'].map((mark) => after(mark)(piece)));
}

/** After a block of the page that has no line of preformatted text in it: elements of blocks have no line breaks otherwise. */
function afterHtmlBlock(piece: string): number {
  for (let at = piece.lastIndexOf('>\n<'); at >= 0; at = at === 0 ? -1 : piece.lastIndexOf('>\n<', at - 1)) {
    const before = piece.slice(0, at + 1);
    if (before.lastIndexOf('<pre') <= before.lastIndexOf('</pre>')) return at + 2;
  }
  return 0;
}

const BOUNDARIES: readonly Boundary[] = [after('\n\n'), after('\n'), afterSentence, after(' ')];
/** In HTML, a space may stand in a tag. */
const HTML_BOUNDARIES: readonly Boundary[] = [afterHtmlBlock, after('>')];

/** The last end of a displayed character at or before `limit`, else the first one after `from`. */
function graphemeEnd(content: string, from: number, limit: number): number {
  const begin = Math.max(from, limit - LONGEST_GRAPHEME);
  const window = content.slice(begin, limit + LONGEST_GRAPHEME);
  const { index = 0, segment = '' } = GRAPHEMES.segment(window).containing(limit - begin) ?? {};
  const last = begin + index;
  if (last > from && !isInsidePair(content, last)) return last;
  const next = last + segment.length;
  return isInsidePair(content, next) ? next + 1 : Math.max(next, from + 1);
}

function isInsidePair(text: string, at: number): boolean {
  const [before, unit] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  return before >= 0xd800 && before < 0xdc00 && unit >= 0xdc00 && unit < 0xe000;
}
