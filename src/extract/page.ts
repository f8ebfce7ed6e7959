// The result of extraction and its options, and what all readers share to build a result: tidy text, a title, the word
// count.

import type { CleanExplanation } from './clean-trace.ts';
import { countWords } from './word-count.ts';

/** How `content` is written: paragraphs of plain text, Markdown (CommonMark with GitHub's extensions), or clean HTML. */
export type PageFormat = 'text' | 'markdown' | 'html';

/** Optional fields of a result. */
export type PageExtra = 'images' | 'links' | 'metadata';

/** A link of the main content. */
export interface PageLink {
  readonly text: string;
  /** Absolute. */
  readonly url: string;
}

/** An image of the main content. */
export interface PageImage {
  /** Absolute. */
  readonly url: string;
  /** As the page describes it; may be empty. */
  readonly alt: string;
}

/** Metadata of a page. Fields that were not found are absent. */
export interface PageMetadata {
  readonly description?: string;
  readonly author?: string;
  readonly site_name?: string;
  /** ISO 8601, as exact as the page states it. */
  readonly published?: string;
  readonly modified?: string;
  /** BCP 47, as the page declares it. */
  readonly language?: string;
  /** Absolute. */
  readonly image?: string;
  /** Absolute. */
  readonly canonical?: string;
}

/** Clean text of a page. */
export interface CleanPage {
  readonly title: string;
  readonly content: string;
  /** Words of the text by `Intl.Segmenter`, the same in all formats. */
  readonly wordCount: number;
  readonly links?: readonly PageLink[];
  readonly images?: readonly PageImage[];
  readonly metadata?: PageMetadata;
  /** Names, with the metadata; absent where the page names none. */
  readonly authors?: readonly string[];
  /** The content is cut: the document has more pages or characters than are read, or pages that are damaged. */
  readonly truncated?: boolean;
  /** @internal The content as HTML too, where a `CleanJob` asks for it. */
  readonly html?: string;
  /** @internal Where a `CleanJob` asks for it and the page is HTML. */
  readonly explanation?: CleanExplanation;
}

/** Options of extraction. */
export interface CleanOptions {
  /** Base of relative links. Default: none, and relative links are left out. */
  readonly url?: string;
  /** Default: `text`. */
  readonly format?: PageFormat;
  /** Default: none. */
  readonly include?: readonly PageExtra[];
  /** @internal Whether the page is XHTML, whose elements may close themselves. Default: no. */
  readonly isXml?: boolean;
}

/** A downloaded page with its options. `bytes` is transferred to a thread: it is empty for the caller afterwards. */
export interface CleanJob extends CleanOptions {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mediaType: string;
  /** Whether the content is also written as HTML. Default: no. */
  readonly alsoHtml?: boolean;
  readonly charset: string | null;
  /** @internal When the thread of the reader is ended: a PDF that takes longer is cut. Default: never. */
  readonly timeoutMs?: number;
  /** @internal Whether the page has an explanation. Default: no. */
  readonly explain?: boolean;
}

/** Longer lines are text, not titles. Titles of discussions have up to 300 characters. */
const MAX_TITLE_CHARACTERS = 300;

/**
 * Normalises line ends to `\n`, removes control characters, trailing white space, and blank lines at both ends, and keeps at
 * most one blank line in a row. Indents stay. Linear.
 */
export function tidy(text: string): string {
  return text
    .replaceAll(/\r\n?|[\f\v\u0085\u2028\u2029]/g, '\n')
    .replaceAll(/[^\P{Cc}\t\n]|\ufeff/gu, '')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .replace(/^\n+/, '')
    .trimEnd();
}

/** The text on one line, with single spaces. */
export function oneLine(text: string): string {
  return tidy(text).split(/\s+/).join(' ').trim();
}

/** A line end between characters of scripts without spaces, which stands for nothing (CSS Text, section 4.1.3). */
const JOINED =
  /(?<=[\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60])[ \t]*\r?\n\s*(?=[\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60])/g;

/** Text with white space collapsed, as displayed, without soft hyphens, zero-width and control characters. */
export function onLine(text: string): string {
  if (!/[^\S ]|  |[\p{Cc}\u00ad\u200b\u2060\ufeff]/u.test(text)) return text;
  const shown = text.replaceAll(/[\u00ad\u200b\u2060\ufeff]/g, '').replaceAll(JOINED, '');
  return withoutControls(shown.replaceAll(/[\s\u0085]+/g, ' '));
}

/** The text without control characters other than tabs and line ends. */
export function withoutControls(text: string): string {
  return text.replaceAll(/[^\P{Cc}\t\n]|\ufeff/gu, '');
}

/** Builds a result. The title is the first usable one of `titles`, else the last part of the URL. */
export function pageOf(
  content: string,
  titles: readonly string[],
  url: string,
  about: Pick<CleanPage, 'authors' | 'metadata'> = {},
): CleanPage {
  const title = titles.map(oneLine).find((line) => line !== '' && line.length <= MAX_TITLE_CHARACTERS);
  const page = { title: (title ?? titleOfUrl(url)).toWellFormed(), content: content.toWellFormed() };
  return { ...page, wordCount: countWords(page.content), ...about };
}

/** The last part of the path, or the host. */
function titleOfUrl(url: string): string {
  const { pathname = '', hostname = url } = URL.parse(url) ?? {};
  const name = pathname.split('/').findLast((part) => part !== '') ?? hostname;
  try {
    return oneLine(decodeURIComponent(name));
  } catch {
    return name;
  }
}
