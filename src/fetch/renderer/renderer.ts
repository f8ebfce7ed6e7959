// Pages that need a browser: a bounded number of them at once in an outside browser, in turns between accounts. Every request of a page
// goes through a proxy of this gateway, which asks the guard. Settings apply to pages that start later; a page that is under way ends
// in the browser it began in.

import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../actor/index.ts';
import type { Settings } from '../../config/settings.ts';
import { HeadraceError } from '../../errors.ts';
import { type Place, TurnQueue, type TurnLimits } from '../../routing/index.ts';
import type { RendererNumbers } from '../../telemetry/page-metrics.ts';
import { isChallengePage } from '../challenge.ts';
import type { Visit } from '../download.ts';
import { abortable, joinedSignal } from '../../net/abortable.ts';
import { Browser } from './browser.ts';
import { DevToolsError } from './devtools.ts';
import { GuardingProxy, type PageProxy } from './guarding-proxy.ts';
import { rendererError, showPage, type Snapshot } from './tab.ts';

export type RendererSettings = Settings['fetch']['renderer'];

/** A page to load in the browser. */
export interface RenderJob {
  readonly url: string;
  /** Whose turn the page takes. */
  readonly account: string;
  /** When what the page shows is taken at the latest, by the clock; its time in the browser begins when it has a place there. */
  readonly dueMs: number;
  /** Asks for leave to load the page: guard, robots.txt, and a slot of its host. */
  readonly visit: (signal: AbortSignal) => Promise<Visit>;
}

/** A page as its scripts have made it. */
export interface RenderedPage {
  readonly url: string;
  /** HTML in UTF-8. Owns the whole of its buffer. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** False when the time of the page was over before it had stopped to change. */
  readonly isSettled: boolean;
}

export interface Renderer {
  /**
   * Shows a page in the browser. Rejects with `HR_FETCH_RENDERER` when the browser cannot be used, with the errors of a fetch when the
   * page cannot be shown, and with the reason of `signal`.
   */
  render(job: RenderJob, signal: AbortSignal): Promise<RenderedPage>;
  configure(settings: Settings['fetch']): void;
  stats(): RendererNumbers;
  /** Ends all pages, the connection and the proxy. */
  close(): void;
}

export interface RendererDeps {
  readonly clock: Clock;
  /** The browser is connected, or is not: `reason` says why, without the URL's secrets. */
  readonly onState?: (state: 'connected' | 'away', reason: string) => void;
  /** `outcome` is `shown`, or what a page failed with. */
  readonly onPage?: (outcome: string, elapsedMs: number) => void;
}

/** Longest wait for a connection and for a command of the browser. */
const COMMAND_MS = 5000;

/** Share of the queue that one account may fill. */
const QUEUE_SHARE = 1 / 4;

export function createRenderer(settings: Settings['fetch'], deps: RendererDeps): Renderer {
  return new BrowserRenderer(settings, deps);
}

/** Where the browser is, and how it reaches the proxy. */
type Way = Pick<RendererSettings, 'url' | 'proxyListen' | 'proxyHost'>;

/** A browser, and the pages in it. */
interface Generation {
  readonly way: Way;
  readonly browser: Browser;
  readonly proxy: GuardingProxy;
  pages: number;
}

class BrowserRenderer implements Renderer {
  readonly #deps: RendererDeps;
  readonly #turns: TurnQueue;
  readonly #closing = new AbortController();
  #settings: Settings['fetch'];
  #current: Generation | null = null;
  #connects = 0;
  #requests = 0;
  #refused = 0;

  constructor(settings: Settings['fetch'], deps: RendererDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#turns = new TurnQueue(turnLimits(settings.renderer), deps.clock);
  }

  configure(settings: Settings['fetch']): void {
    this.#settings = settings;
    this.#turns.configure(turnLimits(settings.renderer));
    const old = this.#current;
    if (old === null || isDeepStrictEqual(old.way, wayOf(settings.renderer))) return;
    this.#current = null;
    this.#retire(old);
  }

  async render(job: RenderJob, signal: AbortSignal): Promise<RenderedPage> {
    const { clock, onPage } = this.#deps;
    const startedMs = clock.now();
    const { release, signal: ended } = joinedSignal(signal, this.#closing.signal);
    let outcome = 'left';
    try {
      const page = await this.#render(job, ended);
      outcome = 'shown';
      return page;
    } catch (error) {
      if (error instanceof HeadraceError) outcome = error.code;
      throw error;
    } finally {
      release();
      onPage?.(outcome, clock.now() - startedMs);
    }
  }

  stats(): RendererNumbers {
    return {
      running: this.#turns.taken,
      queued: this.#turns.waiting,
      isConnected: this.#current?.browser.isConnected === true,
      connects: this.#connects,
      requests: this.#requests,
      refused: this.#refused,
    };
  }

  close(): void {
    this.#closing.abort(new HeadraceError('HR_DRAINING'));
    const old = this.#current;
    this.#current = null;
    old?.browser.close();
  }

  async #render(job: RenderJob, signal: AbortSignal): Promise<RenderedPage> {
    const place = await this.#enter(job.account, signal);
    let visit: Visit | null = null;
    let proxy: PageProxy | null = null;
    const generation = this.#generation();
    generation.pages++;
    let isOpen = false;
    // The place is given back when nothing of the page is left in the browser.
    const leave = (): void => {
      place.leave();
      generation.pages--;
      this.#retire(generation);
    };
    try {
      const { clock } = this.#deps;
      if (clock.now() >= job.dueMs)
        throw new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'no time is left for a browser' });
      const devtools = await abortable(signal, generation.browser.connect());
      visit = await job.visit(signal);
      const opened = await this.#openProxy(generation, visit);
      proxy = opened.proxy;
      const { maxBytes, renderer, userAgent } = this.#settings;
      const { password, username } = proxy;
      isOpen = true;
      const shown = showPage(
        job.url,
        {
          ...{ devtools, clock, userAgent, memoryBytes: renderer.memory, maxCharacters: maxBytes },
          proxy: { address: opened.address, username, password },
          untilMs: Math.min(clock.now() + renderer.timeoutMs, job.dueMs),
          admit: visit.admit,
        },
        signal,
        leave,
      );
      return this.#read(await abortable(signal, shown));
    } catch (error) {
      throw error instanceof DevToolsError ? rendererError(error) : error;
    } finally {
      if (proxy !== null) {
        const { refused, requests } = proxy.counts();
        this.#requests += requests;
        this.#refused += refused;
        proxy.close();
      }
      visit?.release();
      if (!isOpen) leave();
    }
  }

  #read({ html, isSettled, url }: Snapshot): RenderedPage {
    const { maxBytes } = this.#settings;
    const bytes = new TextEncoder().encode(`<!doctype html>${html}`);
    if (bytes.byteLength > maxBytes) throw new HeadraceError('HR_FETCH_TOO_LARGE', { subject: String(maxBytes) });
    if (isChallengePage(bytes)) throw new HeadraceError('HR_FETCH_CHALLENGE');
    return { url, bytes, isSettled };
  }

  #enter(account: string, signal: AbortSignal): Promise<Place> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      let place: Place | null = null;
      const left = (): void => {
        place?.leave();
        reject(signal.reason as Error);
      };
      const onTurn = (turn: 'place' | 'full' | 'limit'): void => {
        signal.removeEventListener('abort', left);
        // The first turn may come before `request` returns.
        if (turn === 'place') queueMicrotask(() => resolve(place as Place));
        else reject(new HeadraceError('HR_FETCH_RENDERER', { subject: 'too many pages wait for it', headers: RETRY }));
      };
      signal.addEventListener('abort', left, { once: true });
      place = this.#turns.request(account, onTurn);
    });
  }

  #generation(): Generation {
    if (this.#current !== null) return this.#current;
    const way = wayOf(this.#settings.renderer);
    const proxy = new GuardingProxy();
    const { clock, onState } = this.#deps;
    const browser = new Browser({
      url: way.url ?? '',
      clock,
      timeoutMs: COMMAND_MS,
      openProxy: () => this.#openProxy({ way, proxy }, null),
      onState: (state, reason) => {
        if (state === 'connected') this.#connects++;
        onState?.(state, reason);
      },
    });
    this.#current = { way, browser, proxy, pages: 0 };
    return this.#current;
  }

  /** Ends the connection to a browser that is not used any more. */
  #retire(generation: Generation): void {
    if (generation !== this.#current && generation.pages === 0) generation.browser.close();
  }

  /** A proxy with the address at which the browser reaches it. Without a visit, it refuses everything. */
  async #openProxy(
    { proxy, way: { proxyHost, proxyListen } }: Pick<Generation, 'proxy' | 'way'>,
    visit: Visit | null,
  ): Promise<{ proxy: PageProxy; address: string }> {
    const { connectTimeoutMs, renderer } = this.#settings;
    const { clock } = this.#deps;
    const { maxBytes, requests } = renderer;
    const guard = visit?.guard ?? NOTHING;
    const limits = { connectTimeoutMs, maxRequests: requests, maxBytes };
    const opened = await proxy.open(proxyListen, { guard, clock, ...limits });
    const host = proxyHost ?? proxyListen.host;
    return { proxy: opened, address: `${host.includes(':') ? `[${host}]` : host}:${opened.port}` };
  }
}

const RETRY = ['retry-after', '1'];

const NOTHING: Visit['guard'] = {
  admit: () => {
    throw new HeadraceError('HR_FETCH_BLOCKED', { subject: 'probe' });
  },
  resolve: () => Promise.reject(new HeadraceError('HR_FETCH_BLOCKED', { subject: 'probe' })),
};

function wayOf({ proxyHost, proxyListen, url }: RendererSettings): Way {
  return { url, proxyListen, proxyHost };
}

function turnLimits({ pages, queue }: RendererSettings): TurnLimits {
  // One account leaves a place to others.
  const most = Math.max(1, pages - 1);
  return {
    ...{ places: pages, placesOf: () => most, waiting: queue, waitMs: Infinity },
    waitingOfKey: Math.ceil(queue * QUEUE_SHARE),
  };
}
