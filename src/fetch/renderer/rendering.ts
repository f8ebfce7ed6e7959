// The reading of a page in the browser beside the one without its scripts, and the choice between them. Where the browser is asked
// only for sparse pages, its failure never fails a page.

import type { Settings } from '../../config/settings.ts';
import { HeadraceError } from '../../errors.ts';
import type { CleanJob } from '../../extract/index.ts';
import type { CleanedPage, CleaningPool } from '../cleaning-pool.ts';
import type { Downloader } from '../download.ts';
import { isSparse } from './needs-browser.ts';
import type { Renderer } from './renderer.ts';

/** A page as it was read. */
export interface Rendering {
  readonly page: CleanedPage;
  /** Where it was found. */
  readonly url: string;
  readonly isRendered: boolean;
  /** False when another attempt may bring more, so that the page is not kept. */
  readonly isFinal: boolean;
}

export interface RenderingTools {
  readonly downloader: Downloader;
  readonly pool: CleaningPool;
  readonly renderer: Renderer;
}

/** The fetch that a page belongs to. */
export interface RenderingFetch {
  readonly signal: AbortSignal;
  /** When it must have ended, by the clock. */
  readonly dueMs: number;
}

/** Kept of the time of a fetch, for what follows the browser. */
const RESERVE_MS = 1000;

export class Renderings {
  readonly #tools: RenderingTools;
  readonly #settings: Settings['fetch']['renderer'];

  constructor(tools: RenderingTools, settings: Settings['fetch']['renderer']) {
    this.#tools = tools;
    this.#settings = settings;
  }

  /**
   * The better reading of a page: in the browser, unless that has fewer words. Rejects with the errors of the renderer for `always`, with
   * `HR_FETCH_CHALLENGE`, and with the reason of the signal.
   */
  async read(
    plain: Rendering,
    options: Pick<CleanJob, 'format' | 'include' | 'explain'>,
    account: string,
    fetch: RenderingFetch,
  ): Promise<Rendering> {
    if (this.#settings.when === 'auto' && !isSparse(plain.page)) return plain;
    try {
      const rendered = await this.#render(plain.url, options, account, fetch);
      const isPlainBetter = rendered.page.wordCount < plain.page.wordCount;
      return isPlainBetter ? { ...plain, isFinal: rendered.isFinal } : rendered;
    } catch (error) {
      if (this.#settings.when === 'always' || !isOfPage(error) || fetch.signal.aborted) throw error;
      return { ...plain, isFinal: false };
    }
  }

  async #render(
    url: string,
    options: Pick<CleanJob, 'format' | 'include' | 'explain'>,
    account: string,
    { dueMs, signal }: RenderingFetch,
  ): Promise<Rendering> {
    const { downloader, pool, renderer } = this.#tools;
    const visit = downloader.visit.bind(downloader, url, account);
    const request = { url, account, dueMs: dueMs - RESERVE_MS, visit };
    const { bytes, isSettled, url: shownAt } = await renderer.render(request, signal);
    const job = { bytes, url: shownAt, mediaType: 'text/html', charset: 'utf-8', ...options };
    return { page: await pool.read(job, account, signal), url: shownAt, isRendered: true, isFinal: isSettled };
  }
}

/** Whether an error means that the page cannot be shown; a challenge is the answer, and anything else is a defect. */
function isOfPage(error: unknown): boolean {
  return error instanceof HeadraceError && error.code !== 'HR_FETCH_CHALLENGE';
}
