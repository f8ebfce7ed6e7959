// robots.txt (RFC 9309), where the setting asks for it: one question per origin, kept for a bounded time, through the same
// guard and the same turns as pages.

import { LRUCache } from 'lru-cache';
import robotsParser from 'robots-parser';
import type { Clock } from '../actor/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';

/** How a request for robots.txt ended. */
export interface RobotsAnswer {
  readonly status: number;
  /** Its first `ROBOTS_BYTES`. */
  readonly bytes: Uint8Array;
}

/** Asks for a robots.txt, following redirects. Rejects when there is no answer. */
export type AskRobots = (url: string) => Promise<RobotsAnswer>;

interface Rules {
  isAllowed(url: string, userAgent: string): boolean | undefined;
}

/** RFC 9309 section 2.5: at least this is to be read. */
export const ROBOTS_BYTES = 512_000;

/** RFC 9309 section 2.4: not longer than a day. */
const KEPT_MS = 3_600_000;

/** A server in trouble is asked again soon. */
const TROUBLE_KEPT_MS = 60_000;

const MAX_ORIGINS = 1024;

/** The parser's matching costs a rule's length times a path's; more of the rules with wildcards is not looked at. */
const MAX_WILDCARD_RULES = 200;
const MAX_RULE = 512;

const UNREACHABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['HR_FETCH_FAILED', 'HR_FETCH_TIMEOUT']);

const ALL_ALLOWED: Rules = { isAllowed: () => true };
const NONE_ALLOWED: Rules = { isAllowed: () => false };

// The package's types speak of a default export that it does not have.
const parse = robotsParser as unknown as (url: string, text: string) => Rules;

export class Robots {
  readonly #kept: LRUCache<string, Rules>;
  readonly #asked = new Map<string, Promise<Rules>>();

  constructor(clock: Clock) {
    // 0 is no date to the cache.
    this.#kept = new LRUCache({ max: MAX_ORIGINS, ttlResolution: 0, perf: { now: () => clock.now() + 1 } });
  }

  /** Rejects with `HR_FETCH_ROBOTS` when the page may not be read by `userAgent`. Askers of one origin share a question. */
  async admit(url: URL, userAgent: string, ask: AskRobots): Promise<void> {
    const rules = this.#kept.get(url.origin) ?? (await this.#learn(url.origin, ask));
    if (rules.isAllowed(url.href, userAgent) === false)
      throw new HeadraceError('HR_FETCH_ROBOTS', { subject: url.host });
  }

  #learn(origin: string, ask: AskRobots): Promise<Rules> {
    const asked = this.#asked.get(origin) ?? this.#ask(origin, ask).finally(() => this.#asked.delete(origin));
    this.#asked.set(origin, asked);
    return asked;
  }

  async #ask(origin: string, ask: AskRobots): Promise<Rules> {
    const url = `${origin}/robots.txt`;
    // Section 2.3.1.4: no answer, or one of a server in trouble, disallows everything.
    const answer = await ask(url).catch(nullIfUnreachable);
    const inTrouble = answer === null || answer.status >= 500;
    const rules = inTrouble ? NONE_ALLOWED : rulesOf(url, answer);
    this.#kept.set(origin, rules, { ttl: inTrouble ? TROUBLE_KEPT_MS : KEPT_MS });
    return rules;
  }
}

/** Other errors are for the asker, and tell nothing of the server. */
function nullIfUnreachable(error: unknown): null {
  if (error instanceof HeadraceError && UNREACHABLE.has(error.code)) return null;
  throw error;
}

/** Section 2.3.1.3: without a file everything is allowed. */
function rulesOf(url: string, { bytes, status }: RobotsAnswer): Rules {
  if (status < 200 || status >= 300) return ALL_ALLOWED;
  let wildcards = 0;
  const lines = new TextDecoder()
    .decode(bytes)
    .split(/\r\n|\r|\n/)
    .filter((line) => line.length <= MAX_RULE && (!line.includes('*', 12) || ++wildcards <= MAX_WILDCARD_RULES));
  return parse(url, lines.join('\n'));
}
