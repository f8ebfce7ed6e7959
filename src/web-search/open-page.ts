// Pages that the model opens: which it may open, what is asked of `POST /search/fetch`, and what the model is told. An address that only
// a page or the model has written is not opened: it could carry what the conversation says to whoever owns it.

import { type HostedPageError } from '../dialect/index.ts';
import { membersOf } from '../net/json-object.ts';
import { type ContextSize, listOf, type Members, type PageTool, textOf } from './hosted-request.ts';
import { hrefOf, type Source, type Sources, toldPage } from './sources.ts';

/** Most pages of one answer; a model that opens more is told so. */
const MOST_PAGES = 10;
/** Browsers and sites do not take longer ones. */
const MAX_URL_CHARS = 2048;
const MAX_PATTERN_CHARS = 100;
/** Most characters of a page that the model is given at once, without `max_content_tokens`. */
const PAGE_CHARS: Readonly<Record<ContextSize, number>> = { low: 5000, medium: 12_000, high: 30_000 };
/** Most characters of a page in which a pattern is looked for. */
const SEARCHED_CHARS = 200_000;
/** Most places of a pattern that the model is given. */
const MOST_PLACES = 8;
/** Characters before and behind such a place. */
const AROUND_CHARS = 300;

/** What the model has asked for. */
export interface PageCall {
  readonly url: string;
  readonly pattern: string;
  readonly start: number;
}

/** Reads the arguments of the function. A number stands for the result of that number. */
export function pageCallOf(args: unknown, sources: Sources): PageCall {
  const { pattern, start, url } = membersOf(args);
  const asked = textOf(url).trim();
  const number = /^\[?(\d{1,4})\]?$/.exec(typeof url === 'number' ? String(url) : asked)?.[1];
  const known = number === undefined ? undefined : sources.find(Number(number))?.url;
  return {
    url: known ?? asked,
    pattern: textOf(pattern).trim().slice(0, MAX_PATTERN_CHARS),
    start: typeof start === 'number' && Number.isSafeInteger(start) && start > 0 ? start : 0,
  };
}

/** The addresses that a conversation has: those that searches found, and those that the user wrote. */
export class KnownUrls {
  readonly #sources: Sources;
  readonly #messages: readonly unknown[];
  #written: Set<string> | null = null;

  constructor(sources: Sources, messages: readonly unknown[]) {
    this.#sources = sources;
    this.#messages = messages;
  }

  /** @param href as `hrefOf` has it */
  has(href: string, { opensFound, opensWritten }: PageTool): boolean {
    if (opensFound && this.#sources.has(href)) return true;
    if (!opensWritten) return false;
    this.#written ??= writtenIn(this.#messages);
    return this.#written.has(href);
  }
}

const WRITTEN = /https?:\/\/[^\s<>"'`\\]+/gi;
/** What ends a sentence or a bracket behind an address, and may be a part of it as well. */
const ENDS = new Set('.,;:!?)]}*_');
/** Most such characters that are judged behind one address. */
const MOST_ENDS = 8;

/** Most readings of addresses of one conversation, from its end on: each takes some ten microseconds, and a long one that for each part. */
const MOST_READINGS = 5000;
const PART_CHARS = 256;

function writtenIn(messages: readonly unknown[]): Set<string> {
  const written = new Set<string>();
  let left = MOST_READINGS;
  for (const message of messages.toReversed()) {
    const { content, role } = membersOf(message);
    if (role !== 'user') continue;
    const texts =
      typeof content === 'string' ? [content] : listOf(content).map((part) => textOf(membersOf(part)['text']));
    for (const text of texts) {
      for (const [address] of text.matchAll(WRITTEN)) {
        if (left <= 0) return written;
        const readings = readingsOf(address);
        for (const reading of readings) written.add(reading);
        left -= Math.max(readings.length, 1) * Math.ceil(address.length / PART_CHARS);
      }
    }
  }
  return written;
}

function readingsOf(written: string): string[] {
  if (written.length > MAX_URL_CHARS) return [];
  const readings = [hrefOf(written)];
  for (let end = written.length; readings.length <= MOST_ENDS && ENDS.has(written[end - 1] ?? ''); end--) {
    readings.push(hrefOf(written.slice(0, end - 1)));
  }
  return readings.filter((href) => href !== '');
}

/** Why a page may not be opened; null: it may. */
export function pageRefusal(
  { url }: PageCall,
  tool: PageTool,
  opened: number,
  known: KnownUrls,
): HostedPageError | null {
  if (opened >= Math.min(tool.maxUses ?? MOST_PAGES, MOST_PAGES)) return 'max_uses_exceeded';
  if (url.length > MAX_URL_CHARS) return 'url_too_long';
  const href = hrefOf(url);
  if (href === '') return 'invalid_tool_input';
  if (!known.has(href, tool)) return 'url_not_in_prior_context';
  return isAllowed(url, tool) ? null : 'url_not_allowed';
}

/** The body of `POST /search/fetch`. */
export function pageBody({ pattern, start, url }: PageCall, tool: PageTool): Members {
  const piece = pattern === '' ? { start, max_chars: pageChars(tool) } : { max_chars: SEARCHED_CHARS };
  return { url, format: 'markdown', ...piece, ...(tool.isFresh && { max_age: 0 }) };
}

function pageChars({ contextSize, maxChars }: PageTool): number {
  return Math.min(maxChars ?? PAGE_CHARS[contextSize], SEARCHED_CHARS);
}

/** How it ended. */
export interface OpenedPage {
  readonly source: Source | null;
  /** What of the page the model is given. */
  readonly text: string;
  readonly error: HostedPageError | null;
  /** What the model is told. */
  readonly told: string;
}

/** Statuses of `POST /search/fetch`. */
const ERRORS: Readonly<Record<number, HostedPageError>> = {
  400: 'url_not_allowed',
  413: 'content_too_large',
  415: 'unsupported_content_type',
  422: 'invalid_tool_input',
  429: 'too_many_requests',
  502: 'url_not_accessible',
  504: 'url_not_accessible',
};

/** Reads the answer of `POST /search/fetch`. */
export function openedPage(
  call: PageCall,
  tool: PageTool,
  status: number,
  json: unknown,
  sources: Sources,
): OpenedPage {
  if (status !== 200) return pageError(ERRORS[status] ?? 'unavailable');
  const { content, next_start: next, title, url } = membersOf(json);
  const found = hrefOf(textOf(url)) === '' ? call.url : textOf(url);
  // A page may redirect to a place that the client does not want.
  if (!isAllowed(found, tool)) return pageError('url_not_allowed');
  const whole = textOf(content);
  const text = call.pattern === '' ? whole : placesOf(whole, call.pattern, pageChars(tool));
  const source = sources.add(found, textOf(title), null, text);
  const rest =
    call.pattern === '' && typeof next === 'number' ? `\n\nThe page goes on: open it with \`start\` ${next}.` : '';
  return { source, text: source.text, error: null, told: `${toldPage(call, source)}${rest}` };
}

export function pageError(error: HostedPageError): OpenedPage {
  return { source: null, text: '', error, told: TOLD_ERRORS[error] };
}

/** The places of a page where a pattern is, each with what is around it. */
function placesOf(text: string, pattern: string, most: number): string {
  const lower = text.toLowerCase();
  // Letters whose other case has another length would move all places.
  const [within, wanted] = lower.length === text.length ? [lower, pattern.toLowerCase()] : [text, pattern];
  const places: string[] = [];
  let from = 0;
  for (let at = within.indexOf(wanted); at >= 0 && places.length < MOST_PLACES; at = within.indexOf(wanted, from)) {
    from = at + wanted.length + AROUND_CHARS;
    places.push(text.slice(Math.max(at - AROUND_CHARS, 0), from).toWellFormed());
  }
  return places.join('\n…\n').slice(0, most).toWellFormed();
}

const TOLD_ERRORS: Readonly<Record<HostedPageError, string>> = {
  invalid_tool_input: 'error: `url` should be an address that begins with http:// or https://.',
  url_too_long: `error: the address is longer than ${MAX_URL_CHARS} characters.`,
  url_not_allowed: 'error: this page may not be opened.',
  url_not_in_prior_context: 'error: only addresses that a search has found or the user has written can be opened.',
  url_not_accessible: 'error: the page could not be read.',
  unsupported_content_type: 'error: the page is no text.',
  content_too_large: 'error: the page is too large.',
  too_many_requests: 'error: too many pages at once.',
  max_uses_exceeded: 'error: no more pages can be opened. Answer with what is known.',
  unavailable: 'error: pages cannot be opened now. Answer without it, and say so.',
};

function isAllowed(url: string, { allowed, blocked }: PageTool): boolean {
  return (
    (allowed.length === 0 || allowed.some((place) => isUnder(url, place))) &&
    !blocked.some((place) => isUnder(url, place))
  );
}

/** Whether an address is of a host or one of its subdomains, and begins with the path behind it, if any. */
export function isUnder(url: string, place: string): boolean {
  const { hostname: spelled = '', pathname = '' } = URL.parse(url) ?? {};
  // A name with a dot at its end is the same name.
  const hostname = spelled.replace(/\.$/, '');
  const at = place.indexOf('/');
  const host = at < 0 ? place : place.slice(0, at);
  const path = at < 0 ? '' : place.slice(at);
  return (hostname === host || hostname.endsWith(`.${host}`)) && pathname.startsWith(path);
}
