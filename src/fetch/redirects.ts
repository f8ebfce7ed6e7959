// Where an answer sends its reader. No request carries anything secret, so a redirect from https to http is followed, as a
// reader's browser would.

import { isUtf8 } from 'node:buffer';
import { HeadraceError } from '../errors.ts';
import type { Guard } from './guard.ts';

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** The way of one download; admits every hop before it is asked. */
export class Trail {
  readonly #guard: Guard;
  readonly #maxRedirects: number;
  readonly #seen: Set<string>;
  /** The hop in turn. */
  url: URL;

  /** Throws `HR_FETCH_BLOCKED` as the guard does. */
  constructor(url: string, guard: Guard, maxRedirects: number) {
    this.#guard = guard;
    this.#maxRedirects = maxRedirects;
    this.url = guard.admit(url);
    this.#seen = new Set([this.url.href]);
  }

  /**
   * Goes on to the next hop; false when the answer is no redirect. Throws `HR_FETCH_FAILED` (`bad redirect`,
   * `redirect loop`, `too many redirects`) or `HR_FETCH_BLOCKED`.
   */
  follow(status: number, field: string | undefined): boolean {
    if (!REDIRECTS.has(status) || field === undefined) return false;
    const location = unescapedText(field);
    if (URL.parse(location, this.url.href) === null) throw failed('bad redirect');
    const next = this.#guard.admit(location, this.url);
    // Without cookies the same question gets the same answer.
    if (this.#seen.has(next.href)) throw failed('redirect loop');
    if (this.#seen.size > this.#maxRedirects) throw failed('too many redirects');
    this.#seen.add(next.href);
    this.url = next;
    return true;
  }
}

/** Fields come as Latin-1. What is not escaped in a Location is UTF-8 where it can be, as browsers take it. */
function unescapedText(field: string): string {
  const bytes = Buffer.from(field, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : field;
}

function failed(subject: string): HeadraceError {
  return new HeadraceError('HR_FETCH_FAILED', { subject });
}
