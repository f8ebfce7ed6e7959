// Fetches pages from servers that nobody vouches for. One download: its hops, each admitted by the guard, asked in its
// turn and within the deadlines; the answer judged by status, type, challenge and size before and while it is read. The
// desk's actor calls it. A change of settings is for downloads that start later.

import type { Clock } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import { createGuard, type Guard, type Lookup } from './guard.ts';
import { GuardedClient, type GuardedResponse } from './guarded-client.ts';
import { abortable } from './abortable.ts';
import { ACCEPTED_CODINGS, BodyReader } from './body.ts';
import { CHALLENGE_BYTES, isChallengeHead, isChallengePage } from './challenge.ts';
import { declaredType, mediaTypeOf, refuseByHeader } from './media-type.ts';
import type { Download } from './page.ts';
import { Politeness } from './politeness.ts';
import { Trail } from './redirects.ts';
import { Robots, ROBOTS_BYTES, type RobotsAnswer } from './robots.ts';

export interface Downloader {
  /**
   * Fetches a page. Rejects with `HR_FETCH_BLOCKED`, `HR_FETCH_ROBOTS`, `HR_FETCH_TOO_LARGE` (subject the limit),
   * `HR_FETCH_TYPE`, `HR_FETCH_FAILED`, `HR_FETCH_CHALLENGE`, `HR_FETCH_TIMEOUT` (subject `connect`, `first byte` or
   * `total`), `HR_FETCH_BUSY`; with the reason of `signal` when that fires first.
   */
  download(url: string, signal: AbortSignal): Promise<Download>;
  /** Puts settings in force; running downloads end under their own. */
  configure(settings: Settings['fetch']): void;
  /** Ends running downloads with `HR_DRAINING` and closes all connections. */
  close(): Promise<void>;
}

export interface DownloaderParts {
  readonly clock: Clock;
  /** Default: the resolver of the system. */
  readonly lookup?: Lookup;
  /** Certificates of authorities to trust in place of the system's, PEM. For tests. */
  readonly ca?: string;
}

/** HTML first; what else can be read follows. */
const ACCEPT =
  'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,application/pdf;q=0.8,application/xml;q=0.7,application/json;q=0.7,*/*;q=0.1';

/** RFC 9309 section 2.3.1.2: at least five. */
const ROBOTS_REDIRECTS = 5;

/** Other refusals are no challenges; their bodies are not read. */
const CHALLENGE_STATUSES: ReadonlySet<number> = new Set([401, 403, 405, 429, 503]);

/** Settings in force, with the guard and the connections that belong to them. */
interface Line {
  readonly settings: Settings['fetch'];
  readonly guard: Guard;
  readonly client: GuardedClient;
  downloads: number;
}

/** A request for a page or a robots.txt under way. */
interface EngineCall {
  readonly line: Line;
  readonly trail: Trail;
  readonly signal: AbortSignal;
}

export function createDownloader(settings: Settings['fetch'], parts: DownloaderParts): Downloader {
  return new PageDownloader(settings, parts);
}

class PageDownloader implements Downloader {
  readonly #parts: DownloaderParts;
  readonly #politeness: Politeness;
  readonly #robots: Robots;
  readonly #bodies = new BodyReader();
  readonly #closing = new AbortController();
  /** The one in force, and those whose downloads have not ended. */
  readonly #lines = new Set<Line>();
  #line: Line;

  constructor(settings: Settings['fetch'], parts: DownloaderParts) {
    this.#parts = parts;
    this.#politeness = new Politeness(settings, parts.clock);
    this.#robots = new Robots(parts.clock);
    this.#line = this.#open(settings);
  }

  configure(settings: Settings['fetch']): void {
    const old = this.#line;
    this.#politeness.configure(settings);
    this.#line = this.#open(settings);
    this.#retire(old);
  }

  download(url: string, signal: AbortSignal): Promise<Download> {
    return this.#within(signal, (line, total) => {
      const engineCall: EngineCall = {
        line,
        trail: new Trail(url, line.guard, line.settings.redirects),
        signal: total,
      };
      return this.#page(engineCall);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new HeadraceError('HR_DRAINING'));
    this.#politeness.close();
    await Promise.all([...this.#lines].map((line) => line.client.close()));
    this.#lines.clear();
  }

  #open(settings: Settings['fetch']): Line {
    const { allow, connectTimeoutMs, firstByteTimeoutMs, perHost, ports } = settings;
    const { ca, clock, lookup } = this.#parts;
    const guard = createGuard({ allow, ports, ...(lookup === undefined ? {} : { lookup }) });
    const timeouts = { timeoutMs: connectTimeoutMs, firstByteTimeoutMs };
    const trust = ca === undefined ? {} : { ca };
    const client = new GuardedClient({ guard, clock, ...timeouts, connections: perHost, ...trust });
    const line = { settings, guard, client, downloads: 0 };
    this.#lines.add(line);
    return line;
  }

  /** Closes the connections of a line that is neither in force nor in use. */
  #retire(line: Line): void {
    if (line === this.#line || line.downloads > 0 || !this.#lines.delete(line)) return;
    // Closing settles in the background; there is nobody left to tell.
    line.client.close().catch(() => undefined);
  }

  /** Runs `work` under the total deadline; what it leaves behind ends with it. */
  async #within<T>(signal: AbortSignal | null, work: (line: Line, total: AbortSignal) => Promise<T>): Promise<T> {
    const { clock } = this.#parts;
    const line = this.#line;
    const over = new AbortController();
    const late = (): void => over.abort(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'total' }));
    const timer = clock.setTimeout(late, line.settings.timeoutMs);
    const total = AbortSignal.any([over.signal, this.#closing.signal, ...(signal === null ? [] : [signal])]);
    line.downloads++;
    try {
      total.throwIfAborted();
      return await abortable(total, work(line, total));
    } finally {
      clock.clearTimeout(timer);
      line.downloads--;
      this.#retire(line);
    }
  }

  async #page(engineCall: EngineCall): Promise<Download> {
    for (;;) {
      const { line, signal, trail } = engineCall;
      const { robots, userAgent } = line.settings;
      const ask = (url: string): Promise<RobotsAnswer> => this.#askRobots(url);
      if (robots) await abortable(signal, this.#robots.admit(trail.url, userAgent, ask));
      const download = await this.#hop(engineCall, (response) => this.#read(response, engineCall));
      if (download !== null) return download;
    }
  }

  /** One request in its turn; null after a redirect. */
  async #hop<T>(
    { line, signal, trail }: EngineCall,
    read: (response: GuardedResponse) => Promise<T>,
    accept = ACCEPT,
  ): Promise<T | null> {
    const headers = {
      'user-agent': line.settings.userAgent,
      accept,
      'accept-encoding': ACCEPTED_CODINGS,
      'accept-language': 'en,*;q=0.5',
    };
    const release = await this.#politeness.enter(trail.url.hostname, signal);
    try {
      const response = await line.client.get(trail.url, headers, signal);
      try {
        const { location } = response.headers;
        return trail.follow(response.status, location) ? null : await read(response);
      } finally {
        await response.body.return();
      }
    } finally {
      release();
    }
  }

  async #read(response: GuardedResponse, { line, signal, trail }: EngineCall): Promise<Download> {
    const { headers, status } = response;
    if (isChallengeHead(status, headers)) throw new HeadraceError('HR_FETCH_CHALLENGE');
    if (status < 200 || status > 203) {
      if (CHALLENGE_STATUSES.has(status))
        refuseChallenge(await this.#bodies.readStart(response, CHALLENGE_BYTES, signal));
      throw new HeadraceError('HR_FETCH_FAILED', { subject: `status ${status}` });
    }
    const declared = declaredType(headers['content-type']);
    refuseByHeader(declared);
    const bytes = await this.#bodies.read(response, line.settings.maxBytes, signal);
    const mediaType = mediaTypeOf(declared, bytes);
    if (mediaType.includes('html')) refuseChallenge(bytes);
    return {
      url: trail.url.href,
      mediaType,
      charset: declared.charset,
      bytes,
      noStore: /(?:^|[\s,])(?:no-store|private)(?:$|[\s,=])/i.test(headers['cache-control'] ?? ''),
    };
  }

  /** Under a deadline of its own, since it is for all that ask meanwhile. */
  #askRobots(url: string): Promise<RobotsAnswer> {
    return this.#within(null, async (line, signal) => {
      const engineCall: EngineCall = { line, trail: new Trail(url, line.guard, ROBOTS_REDIRECTS), signal };
      const read = async (response: GuardedResponse): Promise<RobotsAnswer> => ({
        status: response.status,
        bytes: await this.#bodies.readStart(response, ROBOTS_BYTES, signal),
      });
      for (;;) {
        const answer = await this.#hop(engineCall, read, 'text/plain');
        if (answer !== null) return answer;
      }
    });
  }
}

function refuseChallenge(bytes: Uint8Array): void {
  if (isChallengePage(bytes)) throw new HeadraceError('HR_FETCH_CHALLENGE');
}
