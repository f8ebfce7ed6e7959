// The shapes that the parts of the fetch room pass on: a download on its way to a cleaner, and what a cleaner makes of it.
// Types only; the threads of the cleaning pool import them too.

/** A page as it came, decompressed and within the limits. */
export interface Download {
  /** Where it was found after redirects, without fragment. */
  readonly url: string;
  /** Lower case, without parameters; sniffed from the bytes where the server does not say. */
  readonly mediaType: string;
  /** From the header, lower case; null when it says none. */
  readonly charset: string | null;
  /** Owns the whole of its buffer, which may be transferred to another thread. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The server forbids keeping it (`Cache-Control: no-store` or `private`). */
  readonly noStore: boolean;
}

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

/** What a client asks for. */
export interface PageRequest {
  readonly url: string;
  readonly format: PageFormat;
  /** In alphabetical order, each once. */
  readonly include: readonly PageExtra[];
}

/** What a client gets: the four fields of the interface, and the extras it asked for. */
export interface PageAnswer {
  /** Where the page was found after redirects. */
  readonly url: string;
  readonly title: string;
  readonly content: string;
  readonly word_count: number;
  readonly links?: readonly PageLink[];
  readonly metadata?: PageMetadata;
}
