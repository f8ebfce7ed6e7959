// The clean text of a page, and what extraction is asked for. Types only.

/** How `content` is written: paragraphs of plain text, or Markdown (CommonMark with tables). */
export type PageFormat = 'text' | 'markdown';

/** Fields that an answer carries only when they are asked for. */
export type PageExtra = 'links' | 'metadata';

/** A link of the main content. */
export interface PageLink {
  readonly text: string;
  /** Absolute. */
  readonly url: string;
}

/** What a page says of itself; absent fields were not found. */
export interface PageMetadata {
  readonly description?: string;
  readonly author?: string;
  readonly site_name?: string;
  /** ISO 8601, as exact as the page is. */
  readonly published?: string;
  readonly modified?: string;
  /** BCP 47, as the page says. */
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
  /** Words of `content` by `Intl.Segmenter`. */
  readonly wordCount: number;
  readonly links?: readonly PageLink[];
  readonly metadata?: PageMetadata;
}

/** What the cleaners are asked. */
export interface CleanOptions {
  /** Base for relative links. */
  readonly url?: string;
  /** Default `text`. */
  readonly format?: PageFormat;
  /** Default none. */
  readonly include?: readonly PageExtra[];
}

/** A download and what is wanted of it. `bytes` is transferred: it is empty for the caller afterwards. */
export interface CleanJob extends CleanOptions {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly mediaType: string;
  readonly charset: string | null;
}
