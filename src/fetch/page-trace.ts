// What happened while a page was fetched, for operators: each request with its status and times, what was downloaded, and what the
// cleaner made of it. Collected by the parts that do the work; a fetch without a trace collects nothing.

import type { Clock } from '../actor/index.ts';
import type { CleanExplanation } from '../extract/index.ts';

/** One request for the page. */
export interface ExplainedHop {
  readonly url: string;
  /** Null without an answer. */
  readonly status: number | null;
  /** `Content-Type` as the server says it. */
  readonly contentType: string | null;
  /** Where it leads, by a redirect or by the page itself; null for the page that was read. */
  readonly leadsTo: string | null;
  /** Until its host had a free slot. */
  readonly waitedMs: number;
  /** From then on: until the head of the answer, and until all of it was read. */
  readonly headMs: number | null;
  readonly totalMs: number | null;
}

/** Plain data: it passes between threads. */
export interface PageExplanation {
  readonly hops: readonly ExplainedHop[];
  /** Whether robots.txt was asked, and allowed the requests that were made. */
  readonly robots: boolean;
  /** Whether clients would get the page from the cache now. */
  readonly isKept: boolean;
  readonly download: {
    readonly bytes: number;
    /** By the header, or sniffed where the server does not say. */
    readonly mediaType: string;
    /** From the header; null when it says none. */
    readonly charset: string | null;
    /** The server forbids caching. */
    readonly noStore: boolean;
  } | null;
  /** From the first request to the end of the download, and from there to clean text. */
  readonly downloadMs: number | null;
  readonly cleanMs: number | null;
  /** Whether a browser has run the scripts of the page. */
  readonly isRendered: boolean;
  /** Null for a page that is no HTML, and without a page. */
  readonly clean: CleanExplanation | null;
}

type Hop = { -readonly [Name in keyof ExplainedHop]: ExplainedHop[Name] };

export class PageTrace {
  readonly #clock: Clock;
  readonly #hops: Hop[] = [];
  readonly #startedMs: number;
  /** When the present request had its slot. */
  #slotMs = 0;
  #robots = false;
  #isKept = false;
  #isRendered = false;
  #download: PageExplanation['download'] = null;
  #downloadedMs: number | null = null;
  #cleanedMs: number | null = null;
  #clean: CleanExplanation | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedMs = clock.now();
  }

  /** The cache has the page. */
  kept(): void {
    this.#isKept = true;
  }

  robots(): void {
    this.#robots = true;
  }

  /** A request waits for its slot. */
  asked(url: string): void {
    this.#slotMs = this.#clock.now();
    this.#hops.push({
      ...{ url, status: null, contentType: null, leadsTo: null, waitedMs: 0, headMs: null, totalMs: null },
    });
  }

  /** The request is sent. */
  sent(): void {
    const nowMs = this.#clock.now();
    this.#set({ waitedMs: nowMs - this.#slotMs });
    this.#slotMs = nowMs;
  }

  /** The head of the answer is there. */
  answered(status: number, contentType: string | undefined): void {
    this.#set({ status, contentType: contentType ?? null, headMs: this.#clock.now() - this.#slotMs });
  }

  /** All of the answer that is wanted was read. `next`: where it leads, null for a page. */
  read(next: string | null): void {
    this.#set({ leadsTo: next, totalMs: this.#clock.now() - this.#slotMs });
  }

  downloaded({ bytes, charset, mediaType, noStore }: Download): void {
    this.#downloadedMs = this.#clock.now();
    this.#download = { bytes: bytes.byteLength, mediaType, charset, noStore };
  }

  /** A browser has run the scripts of the page. */
  rendered(): void {
    this.#isRendered = true;
  }

  cleaned(explanation: CleanExplanation | undefined): void {
    this.#cleanedMs = this.#clock.now();
    this.#clean = explanation ?? null;
  }

  explanation(): PageExplanation {
    const [downloadedMs, cleanedMs] = [this.#downloadedMs, this.#cleanedMs];
    return {
      hops: this.#hops,
      robots: this.#robots,
      isKept: this.#isKept,
      download: this.#download,
      downloadMs: downloadedMs === null ? null : downloadedMs - this.#startedMs,
      cleanMs: downloadedMs === null || cleanedMs === null ? null : cleanedMs - downloadedMs,
      isRendered: this.#isRendered,
      clean: this.#clean,
    };
  }

  #set(fields: Partial<Hop>): void {
    Object.assign(this.#hops.at(-1) ?? {}, fields);
  }
}

interface Download {
  readonly bytes: Uint8Array;
  readonly mediaType: string;
  readonly charset: string | null;
  readonly noStore: boolean;
}
