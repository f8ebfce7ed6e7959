// How a thread asks for pages: the actor may be in another thread, so a request is a question with a deadline, and leaving
// is a message of its own.

import { ask, MailboxFullError, type Ref, TerminatedError } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import type { PageAnswer, PageRequest } from './page.ts';
import type { PageReply, PagesCommand } from './pages.ts';

/** What an answer may take on its way between threads, beyond the deadline of the page itself. */
const MARGIN_MS = 1000;

/** A page that has been asked for. */
export interface PendingPage {
  /** The client has left; nothing is called any more. */
  abort(): void;
}

/** Hears the answer, and whether it was kept from an earlier request; or a `HeadraceError`. */
export type PageDone = (error: HeadraceError | null, answer: PageAnswer | null, cached: boolean) => void;

export class PageClient {
  readonly #pages: Ref<PagesCommand>;
  /** Unique among the threads. */
  readonly #name: string;
  #count = 0;

  constructor(pages: Ref<PagesCommand>, name: string) {
    this.#pages = pages;
    this.#name = name;
  }

  /** Asks for a page. `done` is called once, later than this call returns, unless aborted. */
  fetch(request: PageRequest, timeoutMs: number, done: PageDone): PendingPage {
    const asker = `${this.#name}/${++this.#count}`;
    let wanted = true;
    ask<PagesCommand, PageReply>(this.#pages, (replyTo) => ({ type: 'Fetch', asker, request, replyTo }), {
      timeoutMs: timeoutMs + MARGIN_MS,
    }).then(
      (reply) => {
        if (!wanted) return;
        if ('answer' in reply) done(null, reply.answer, reply.cached);
        else done(new HeadraceError(reply.code, reply), null, false);
      },
      (error: unknown) => {
        if (wanted) done(errorOf(error), null, false);
      },
    );
    return {
      abort: () => {
        if (!wanted) return;
        wanted = false;
        this.#pages.tell({ type: 'Leave', asker, request });
      },
    };
  }
}

/** The actor did not answer: it is overrun, or has ended. */
function errorOf(cause: unknown): HeadraceError {
  if (cause instanceof MailboxFullError)
    return new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'], cause });
  if (cause instanceof TerminatedError) return new HeadraceError('HR_DRAINING', { cause });
  return new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'no answer in time', cause });
}
