// A download, and a page request with its answer. Types only.

import type { PageExtra, PageFormat, PageLink, PageMetadata } from '../extract/index.ts';

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
