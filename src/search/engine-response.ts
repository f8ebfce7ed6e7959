// Reads the responses of search services: challenge pages and refusals, JSON, paging, and fields whose null or wrong type
// counts as absent. No error carries text of the service.

import { parseJson } from '../config/json-text.ts';
import { EngineError, type EngineHit, type EngineQuery, type EngineResponse, type ParseContext } from './engine.ts';
import type { JsonMembers } from './json-members.ts';

/** Longer answers are looked at before they are parsed. */
export const COUNTED_BYTES: number = 256 * 1024;

/** Lists, objects and tags in an answer: parsers take up to 0.7 us for each, and 8 MB of them held a thread up for 2 to 6 s. */
export const MAX_MARKS = 500_000;

/** The value when it is an array, else an empty one. */
export function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value when it is a string, without white space around it, else ''. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value.trim() : '';
}

/** A whole number from 0 to 2^53 - 1, given as number or as digits; undefined for anything else. */
export function asCount(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\s*\d{1,16}\s*$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) && (number as number) >= 0 ? (number as number) : undefined;
}

/** Markup that only challenge pages carry: texts of hits are escaped and cannot hold it. */
const CHALLENGE_MARKUP =
  /_cf_chl_opt|<title>(?:Just a moment\.\.\.|Attention Required! \| Cloudflare)|class="?'?(?:g-recaptcha|h-captcha|cf-turnstile|anomaly-modal)|\/recaptcha\/(?:api|enterprise)\.js|hcaptcha\.com\/1\/api\.js|challenges\.cloudflare\.com|captcha-delivery\.com|id="px-captcha/i;

/** Sentences of challenge pages. Looked for in short pages only: in a long one they may come from a hit. */
const CHALLENGE_WORDS = /unusual traffic|are you a robot|verify (?:that )?you are (?:a )?human|complete the captcha/i;

const SHORT_PAGE_BYTES = 16_384;
const SCANNED_BYTES = 65_536;

/**
 * Whether the response is a challenge page of Cloudflare, reCAPTCHA, hCaptcha or their like, whatever its status. JSON and
 * XML never are, whatever their texts say.
 */
export function isChallenge(response: EngineResponse): boolean {
  if (response.headers['cf-mitigated'] === 'challenge') return true;
  if (!mayBeHtml(response)) return false;
  const page = response.body.toString('latin1', 0, SCANNED_BYTES);
  const html = /html/i.test(response.headers['content-type'] ?? '') || /^\W*(?:!doctype html|html)\b/i.test(page);
  if (!html || /^\W{0,3}\s*(?:[[{]|<\?xml)/.test(page)) return false;
  return CHALLENGE_MARKUP.test(page) || (response.body.length <= SHORT_PAGE_BYTES && CHALLENGE_WORDS.test(page));
}

/** By the first byte behind a byte order mark and white space: most responses are JSON and need not be decoded to see it. */
function mayBeHtml({ body, headers }: EngineResponse): boolean {
  let at = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0;
  while (at < body.length && (body[at] as number) <= SPACE) at++;
  const first = body[at];
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return false;
  return first === LESS_THAN || /html/i.test(headers['content-type'] ?? '');
}

const SPACE = 0x20;
const LESS_THAN = 0x3c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/** Statuses that blame the query and not the engine. */
const REJECTED = new Set([400, 413, 414, 422, 431]);

/**
 * Throws the `EngineError` of a response without results: a challenge page (`challenge`, looked for first), 401 and 403
 * (`denied`), 402 (`quota`), 429 (`rate limited`, with the time it names), 400, 413, 414, 422 and 431 (`rejected`), any other
 * status outside of 200 to 299 (`http`).
 */
export function refuse(response: EngineResponse): void {
  if (isChallenge(response)) throw new EngineError('challenge');
  const { status } = response;
  if (status >= 200 && status < 300) return;
  if (status === 401 || status === 403) throw new EngineError('denied');
  if (REJECTED.has(status)) throw new EngineError('rejected');
  if (status === 402) throw new EngineError('quota', { retryAfterMs: retryAfter(response) });
  if (status === 429) throw new EngineError('rate limited', { retryAfterMs: retryAfter(response) });
  throw new EngineError('http', { status, retryAfterMs: namedWait(response) });
}

/**
 * Milliseconds to wait before the next request, by a response that refuses it for its number: as `namedWait`, else `X-RateLimit-Reset`
 * or `RateLimit-Reset`, which other responses have too. Dates count from the response's own `Date`.
 */
export function retryAfter(response: EngineResponse): number | undefined {
  const { headers } = response;
  return namedWait(response) ?? resetAfter(headers, dateOf(headers));
}

/** Milliseconds of `Retry-After`, in seconds or as a date (RFC 9110 section 10.2.3). */
export function namedWait({ headers }: EngineResponse): number | undefined {
  const named = headers['retry-after'] ?? '';
  const untilMs = /^\s*[\d.]+\s*$/.test(named) ? Number(named) * 1000 : Date.parse(named) - dateOf(headers);
  return Number.isFinite(untilMs) ? Math.max(0, Math.ceil(untilMs)) : undefined;
}

function dateOf(headers: EngineResponse['headers']): number {
  return Date.parse(headers['date'] ?? '');
}

/** Greater resets are Unix times in seconds, smaller ones are waits. */
const LONGEST_WAIT_S = 100_000_000;

/**
 * Both fields list the same windows in one order. Used-up windows: the last to reset. Where none is said to be used up: the first to reset
 * of those of which nothing is known.
 */
function resetAfter(headers: EngineResponse['headers'], nowMs: number): number | undefined {
  const list = (name: string): number[] =>
    (headers[`x-ratelimit-${name}`] ?? headers[`ratelimit-${name}`])?.split(',').map((part) => Number(part || NaN)) ??
    [];
  const remaining = list('remaining');
  const waits = list('reset')
    .map((reset, index) => ({
      ms: reset > LONGEST_WAIT_S ? reset * 1000 - nowMs : reset * 1000,
      left: remaining[index] ?? NaN,
    }))
    .filter(({ left, ms }) => Number.isFinite(ms) && !(left > 0));
  if (waits.length === 0) return undefined;
  const usedUp = waits.filter(({ left }) => left === 0).map(({ ms }) => ms);
  return Math.max(0, usedUp.length > 0 ? Math.max(...usedUp) : Math.min(...waits.map(({ ms }) => ms)));
}

const BYTE_ORDER_MARK = 0xfeff;

/** The body as a JSON object, with `members` read only, if given. Throws `EngineError('invalid')` for anything else. */
export function jsonBody({ body }: EngineResponse, members?: JsonMembers): Readonly<Record<string, unknown>> {
  const value = members?.read(body) ?? parsed(body);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new EngineError('invalid');
  return value as Record<string, unknown>;
}

function parsed(body: Buffer): unknown {
  try {
    const text = body.toString('utf8');
    return parseJson(text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text);
  } catch {
    throw new EngineError('invalid');
  }
}

/** The member `name`, which every response with results has as an array. Throws `EngineError('invalid')`. */
export function listOf(body: Readonly<Record<string, unknown>>, name: string): readonly unknown[] {
  const list = body[name];
  if (!Array.isArray(list)) throw new EngineError('invalid');
  return list;
}

/** Whether more hits are wanted than those of the pages before and of this one. */
export function wantsMore({ query, collected, wantsMore: isMore }: ParseContext, found: readonly EngineHit[]): boolean {
  return isMore === true || collected + found.length < query.maxResults;
}

/** A request for `count` results from number `offset` on, counted from 0. */
interface Span {
  readonly offset: number;
  readonly count: number;
}

/** The span to ask for with `state`, an offset. The same count on every page; `maxCount` is the most the API gives at once. */
export function span(query: EngineQuery, state: unknown, maxCount: number): Span {
  const offset = typeof state === 'number' ? state : firstOf(query);
  return { offset, count: Math.min(query.maxResults, maxCount) };
}

/** Results before the page that is asked for. */
export function firstOf({ maxResults, page = 1 }: EngineQuery): number {
  return (page - 1) * maxResults;
}

/** Where the page that is asked for begins, in pages of `size` from 0, and how many results of that page are before it. */
export function startOf(query: EngineQuery, size: number): { readonly index: number; readonly skip: number } {
  const first = firstOf(query);
  return { index: Math.floor(first / size), skip: first % size };
}

/** What came back for a span. */
interface Received {
  /** Results in the answer, usable or not. */
  readonly results: number;
  /** The usable ones. */
  readonly hits: readonly EngineHit[];
  /** Results that can be reached in all, where the answer or the API's rules say so. */
  readonly reachable?: number | undefined;
}

/**
 * The offset of the next page; undefined when enough is collected, the page was short, or nothing in it was usable: a
 * broken service would be asked on and on.
 */
export function nextOffset(context: ParseContext, maxCount: number, received: Received): number | undefined {
  const { offset, count } = span(context.query, context.state, maxCount);
  const exhausted = received.results < count || received.hits.length === 0;
  if (exhausted || !wantsMore(context, received.hits)) return undefined;
  return offset + count < (received.reachable ?? Infinity) ? offset + count : undefined;
}
