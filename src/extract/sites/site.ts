// The contract of site adapters: which pages of which site an adapter reads, and what it returns. An adapter never asks the
// network; it reads the page that it is given.

import type { Head } from '../parse.ts';
import type { PageElement } from './element.ts';

/** Content of a page of a known site. */
export interface SiteContent {
  readonly title: string;
  /** Rendered as text, Markdown or HTML like any page. */
  readonly html: string;
}

/** A page of a known site. */
export interface SitePage {
  readonly url: URL;
  readonly head: Head;
  /** Root of the page. */
  readonly root: PageElement;
}

/** Reads the pages of one site, or of one forum software. */
export interface SiteAdapter {
  /** Words with hyphens, unique. */
  readonly name: string;
  /** Pages that are read, for the documentation. */
  readonly reads: string;
  /** Host names. With a dot in front, all names below are meant too. Empty when `generator` decides. */
  readonly hosts: readonly string[];
  /** Tested against `meta name=generator`, for software that runs on many hosts. */
  readonly generator?: RegExp;
  /** Tested against the path of the URL. */
  readonly paths: RegExp;
  /** Content of the page, or null when the page has another structure than expected. */
  readonly read: (page: SitePage) => SiteContent | null;
  /** Content of a JSON document that the site serves at `paths`, or null when it is none that the adapter knows. */
  readonly readJson?: (value: unknown) => SiteContent | null;
}
