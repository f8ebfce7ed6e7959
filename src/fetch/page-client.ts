// The client by which any thread asks the pages actor in the main thread.

import { ask, MailboxFullError, type Ref, TerminatedError } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { PageAnswer, PageRequest } from './page-answer.ts';
import type { PageExplanation } from './page-trace.ts';

/** How the flight of a page ended. Plain data: errors lose their class between threads. */
export interface PageFailure {
  readonly code: ErrorCode;
  readonly subject: string;
  readonly headers: string[];
}

export type PageReply = ({ readonly answer: PageAnswer } | PageFailure) & {
  readonly cached: boolean;
  /** Where the request asks for it. */
  readonly explanation?: PageExplanation;
};

export type PagesCommand =
  | {
      readonly type: 'Fetch';
      /** Unique among all threads. */
      readonly id: string;
      /** Whose places the page takes. */
      readonly account: string;
      readonly request: PageRequest;
      /** Reads the page anew, shares it with none, and tells how. Default: no. */
      readonly explain?: boolean;
      readonly replyTo: Ref<PageReply>;
    }
  /** The client of request `id` has left. */
  | { readonly type: 'Abort'; readonly id: string }
  | { readonly type: 'Configure'; readonly settings: Settings['fetch'] };

/** Added to the timeout of a page for the way between threads. */
const MARGIN_MS = 1000;

/** A page request without its answer. */
export interface PendingPage {
  /** The client has left. Nothing is called any more. */
  abort(): void;
}

/** Gets the answer and whether it comes from the cache, or a `HeadraceError`. */
export type PageDone = (error: HeadraceError | null, answer: PageAnswer | null, cached: boolean) => void;

/** Asks the pages actor, which may be in another thread. */
export class PageClient {
  readonly #pages: Ref<PagesCommand>;
  readonly #name: string;
  #count = 0;

  /** `name` is unique among the threads. */
  constructor(pages: Ref<PagesCommand>, name: string) {
    this.#pages = pages;
    this.#name = name;
  }

  /** Reads a page anew, in the places of `account`, and resolves with what happened. */
  async explain(account: string, request: PageRequest, timeoutMs: number): Promise<ExplainedPage> {
    const id = `${this.#name}/${++this.#count}`;
    const command = { type: 'Fetch', id, account, request, explain: true } as const;
    try {
      const reply = await ask<PagesCommand, PageReply>(this.#pages, (replyTo) => ({ ...command, replyTo }), {
        timeoutMs: timeoutMs + MARGIN_MS,
      });
      const explanation = reply.explanation ?? null;
      if ('answer' in reply) return { answer: reply.answer, explanation };
      return { error: new HeadraceError(reply.code, reply), explanation };
    } catch (error) {
      return { error: askError(error), explanation: null };
    }
  }

  /** Asks for a page in the places of `account`. `done` is called once, later than this call returns, unless aborted. */
  fetch(account: string, request: PageRequest, timeoutMs: number, done: PageDone): PendingPage {
    const id = `${this.#name}/${++this.#count}`;
    let wanted = true;
    ask<PagesCommand, PageReply>(this.#pages, (replyTo) => ({ type: 'Fetch', id, account, request, replyTo }), {
      timeoutMs: timeoutMs + MARGIN_MS,
    }).then(
      (reply) => {
        if (!wanted) return;
        if ('answer' in reply) done(null, reply.answer, reply.cached);
        else done(new HeadraceError(reply.code, reply), null, false);
      },
      (error: unknown) => {
        if (wanted) done(askError(error), null, false);
      },
    );
    return {
      abort: () => {
        if (!wanted) return;
        wanted = false;
        this.#pages.tell({ type: 'Abort', id });
      },
    };
  }
}

/** A page, or why there is none, and what happened. */
export type ExplainedPage = ({ readonly answer: PageAnswer } | { readonly error: HeadraceError }) & {
  readonly explanation: PageExplanation | null;
};

/** The actor did not answer: it is overloaded or has stopped. */
function askError(cause: unknown): HeadraceError {
  if (cause instanceof MailboxFullError)
    return new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'], cause });
  if (cause instanceof TerminatedError) return new HeadraceError('HR_DRAINING', { cause });
  return new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'no answer in time', cause });
}
