// The gateway as the library's object: `createGateway` for embedding, `serveGateway` for the command line. Composes the control
// plane, the local data plane and the listeners.

import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { systemClock, systemEpochMs, systemRandom } from '../actor/index.ts';
import { fetchFor, type PageResult } from '../api/fetch.ts';
import {
  configurationRoutes,
  type AdminRoutes,
  createAdminService,
  AccountRoutes,
  type Admin,
  AdminTokens,
  openAdmin,
  type CrnStatus,
  History,
  historyRoutes,
  ExplainRoutes,
  OverviewRoutes,
  PlaygroundRoutes,
  RequestRoutes,
  type ReloadAnswer,
} from '../admin/index.ts';
import type { Ledger } from '../billing/index.ts';
import { searchFor } from '../api/search.ts';
import { findConflicts } from '../config/conflicts.ts';
import { diffSettings, settingsInForce } from '../config/diff.ts';
import { environment, packageVersion, setHeaderLimit } from '../config/env.ts';
import { settingsInForceDocument } from '../config/in-force.ts';
import { type Mistake, type ResolvedSettings, resolveSettings, type SettingSources } from '../config/load.ts';
import type { Settings, SettingsInput } from '../config/settings.ts';
import { HeadraceError } from '../errors.ts';
import type { PageAnswer, PageExtra, PageFormat } from '../fetch/index.ts';
import { ControlPlane } from './control-plane.ts';
import type { DataPlane } from './data-plane.ts';
import { plugInMistakes, withEnginesChecked } from './engine-settings.ts';
import { inject, type InjectRequest, type InjectResponse, signalOf } from '../ingress/inject.ts';
import { createNodeListener } from '../ingress/node-listener.ts';
import { type Address, addressUrl, ListenError } from '../ingress/server.ts';
import type { SearchAnswer, SearchFilters, SearchType } from '../search/index.ts';
import { createLog, type Log } from '../telemetry/log.ts';

/** Wrong settings, with every mistake. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(`wrong settings:\n${mistakes.map(({ path, message }) => `  ${path}: ${message}`).join('\n')}`);
    this.mistakes = mistakes;
  }
}

/** Where a gateway answers. */
export interface Listening {
  /** Public base URL, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Base URL of the admin listener; null when it is off. */
  readonly adminUrl: string | null;
}

/** Result of a reload: paths of settings that changed. */
export interface Reloaded {
  /** In force now. */
  readonly applied: readonly string[];
  /** In force after a restart. */
  readonly needRestart: readonly string[];
}

export interface Gateway {
  /**
   * Opens the public port and the admin listener, once; after an address that could not be listened on, for which it rejects with the
   * code of the system (`EADDRINUSE`), it may be called again. The public port stays open where it was the address of the admin
   * listener. Rejects with `HR_DRAINING` when the gateway closes or has been closed.
   */
  listen(): Promise<Listening>;
  /**
   * Resolves when every CRN has been judged once; `/health` answers 200 from then on. Rejects with `HR_DRAINING` when the gateway
   * closes before or has been closed.
   */
  ready(): Promise<void>;
  /** Stops accepting, lets requests in flight finish within `timeouts.drain`, ends everything. Safe to call twice. */
  close(): Promise<void>;
  /** Sends a request through the same handlers without a socket. Rejects when the answer is broken off. */
  inject(request: InjectRequest): Promise<InjectResponse>;
  /**
   * Searches as `POST /search` does: `query` (required), `engines`, `max_results`, `search_type`. Rejects with
   * `HeadraceError`: `HR_REQUEST_INVALID`, or `HR_SEARCH_ALL_FAILED`, whose `cause` has the reason of each engine; with the reason of
   * `signal` when it fires.
   */
  search(request: SearchInput, options?: { readonly signal?: AbortSignal }): Promise<SearchAnswer>;
  /**
   * Fetches a page as `POST /search/fetch` does and answers with its clean text. Rejects with `HeadraceError`:
   * `HR_REQUEST_INVALID` or one of the `HR_FETCH_…` codes; with the reason of `signal` when it fires.
   */
  fetchPage(url: string, options?: FetchPageOptions): Promise<PageAnswer>;
  /**
   * Fetches up to 20 pages as `POST /search/fetch` with `urls` does. Resolves with one entry for each URL, in their order: the page, or
   * `{url, error}`. Rejects with `HeadraceError` when the request is wrong or all pages were refused for want of places.
   */
  fetchPages(urls: readonly string[], options?: FetchPageOptions): Promise<readonly PageResult[]>;
  /** A request listener for `http.createServer`, Express (`app.use`) or Fastify (a route that hijacks its reply). */
  readonly nodeListener: (req: IncomingMessage, res: ServerResponse) => void;
  /**
   * Takes over new settings without dropping a request. Throws `ConfigError` and keeps the old ones when they are wrong; throws
   * `HR_DRAINING` when the gateway has been closed.
   */
  reload(input: SettingsInput): Reloaded;
  /** Every CRN with its standing. */
  crns(): CrnStatus[];
}

/** A search, in the shape of the interface's request. */
export interface SearchInput {
  readonly query: string;
  /** Default: the setting `search.default`. */
  readonly engines?: readonly string[];
  /** Most results per engine, 1 to 100; default 10. */
  readonly max_results?: number;
  /** Default `web`. */
  readonly search_type?: SearchType;
  /** A word counts back from now; days are included. */
  readonly time_range?: SearchFilters['timeRange'];
  /** Hosts, with their subdomains; at most 50. */
  readonly include_domains?: readonly string[];
  readonly exclude_domains?: readonly string[];
  /** ISO 639-1. */
  readonly language?: string;
  /** ISO 3166-1 alpha-2. */
  readonly country?: string;
  readonly safe_search?: SearchFilters['safeSearch'];
  /** 1 to 10, of `max_results` from each engine; default 1. */
  readonly page?: number;
  /** Fetches the best results, within the time of the search: each has `content` or `content_error`. */
  readonly content?: {
    /** 1 to 10; default 5. */
    readonly results?: number;
    /** Most characters of each text, 1 to 100,000; default 10,000. */
    readonly max_chars?: number;
    /** Default `text`. */
    readonly format?: 'text' | 'markdown';
  };
}

/** How a page is wanted. */
export interface FetchPageOptions {
  /** How `content` is written; default `text`. */
  readonly format?: PageFormat;
  /** Further fields of the answer; default none. */
  readonly include?: readonly Exclude<PageExtra, 'images'>[];
  /** Longest `content`, in UTF-16 code units; default all of it. A piece has `truncated` and `next_start`. */
  readonly max_chars?: number;
  /** Where `content` begins: `next_start` of the answer before. */
  readonly start?: number;
  /** Oldest page in seconds; 0 asks its server again. Default: the setting `fetch.cacheTtl`. */
  readonly max_age?: number;
  /** Whether the answer has the links of the content; default false. */
  readonly links?: boolean;
  /** Whether the answer has the images of the content; default false. */
  readonly images?: boolean;
  readonly signal?: AbortSignal;
}

/** Options that cannot stand in a settings file. */
export interface GatewayOptions {
  /** Called when the gateway cannot go on. Default: throws, which ends the process. */
  readonly onFatal?: (error: unknown) => void;
}

/**
 * Makes a gateway from settings in the shape of the configuration file. Unless they say otherwise it runs in the calling
 * thread (`threads: 0`), without an admin listener, and logs warnings only. Throws `ConfigError` with every mistake.
 * Probing begins at once; call `close()` to end it.
 */
export function createGateway(input: SettingsInput, options: GatewayOptions = {}): Gateway {
  const resolve = (given: SettingsInput): ResolvedSettings => {
    // Spreading anything else would make it an empty object, and a reload of `null` a gateway without models.
    if (Object.prototype.toString.call(given) !== '[object Object]')
      throw new ConfigError([{ path: '(root)', message: 'must be an object with settings' }]);
    const said = Object.entries(given).filter(([, value]) => value !== undefined);
    return resolved({ ...EMBEDDED, ...Object.fromEntries(said) });
  };
  const { settings, sources } = resolve(input);
  if (options.onFatal !== undefined && typeof options.onFatal !== 'function')
    throw new ConfigError([{ path: 'onFatal', message: 'must be a function' }]);
  return new RunningGateway(settings, { ...options, sources }, resolve);
}

/** A gateway that is reloaded with resolved settings. */
export interface ServedGateway extends Gateway {
  reloadSettings(settings: Settings, sources: SettingSources): Reloaded;
  /** Opens the admin listener alone: no request is served on a public port. Resolves with its base URL; null when it is off. */
  listenAdmin(): Promise<string | null>;
  /** The data plane of the calling thread. */
  readonly plane: Pick<DataPlane, 'budget' | 'deps' | 'limits'>;
  /** Makes an ingress thread throw, to test that another one replaces it. */
  crash(thread: number): void;
  /** Ends everything at once. Await it before an early exit: a process that exits while threads serve aborts. */
  abort(): Promise<void>;
}

/** What the command line adds. */
export interface ServeOptions extends GatewayOptions {
  /** Reads the configuration again and applies it, for `POST /reload` of the admin API. Default: not available. */
  readonly reload?: () => Promise<ReloadAnswer>;
  /** Where the settings come from. Default: all are defaults. */
  readonly sources?: SettingSources;
}

/** The same from settings that have been resolved already, with the defaults of the command line. */
export function serveGateway(settings: Settings, options: ServeOptions = {}): ServedGateway {
  return new RunningGateway(settings, options, resolved);
}

/** Interval of attempts to bind an admin port that another gateway holds. */
const ADMIN_RETRY_MS = 250;

/** Defaults of an embedded gateway where they differ from those of the command line. */
const EMBEDDED: SettingsInput = { threads: 0, admin: null, store: null, log: { level: 'warn' } };

function resolved(input: SettingsInput): ResolvedSettings {
  // A program says which variables count by naming them: others are those of the command line.
  const resolution = withEnginesChecked(resolveSettings(input, {}, {}, environment()));
  if ('mistakes' in resolution) throw new ConfigError(resolution.mistakes);
  const { settings, sources } = resolution;
  return { settings, sources: Object.fromEntries(Object.keys(sources).map((path) => [path, 'program'])) };
}

class RunningGateway implements ServedGateway {
  readonly #control: ControlPlane;
  readonly #log: Log;
  readonly #resolve: (input: SettingsInput) => ResolvedSettings;
  #settings: Settings;
  #sources: SettingSources;
  /** Paths of changes that wait for a restart. */
  #pending: readonly string[] = [];
  readonly #tokens: AdminTokens;
  #admin: Admin | null = null;
  #publicUrl: string | null = null;
  readonly #accounts: AccountRoutes;
  readonly #history: History;
  readonly #overview: OverviewRoutes;
  readonly #explain: ExplainRoutes;
  readonly #playground: PlaygroundRoutes;
  readonly #requests: RequestRoutes;
  readonly #configuration: AdminRoutes;
  #waiting: NodeJS.Timeout | undefined;
  #closing: Promise<void> | null = null;
  #couldNotListen = false;
  #listens = false;
  readonly nodeListener: (req: IncomingMessage, res: ServerResponse) => void;

  constructor(settings: Settings, options: ServeOptions, resolve: (input: SettingsInput) => ResolvedSettings) {
    const log = createLog(settings.log.level);
    if (settings.server === 'uws') setHeaderLimit(settings.limits.headerBytes);
    this.#log = log;
    this.#settings = settings;
    this.#sources = options.sources ?? {};
    this.#tokens = new AdminTokens(settings);
    this.#resolve = resolve;
    this.#control = new ControlPlane({
      settings,
      threads: settings.threads === 'auto' ? availableParallelism() : settings.threads,
      log,
      clock: systemClock,
      random: systemRandom,
      createdS: Math.floor(performance.timeOrigin / 1000),
      onFatal: (error) => {
        log.fatal({ err: error }, 'the gateway cannot go on');
        if (options.onFatal === undefined) throw error;
        options.onFatal(error);
      },
    });
    this.#accounts = new AccountRoutes({
      ledger: () => this.#control.ledger,
      dateMs: () => Math.floor(systemEpochMs()),
      randomBytes,
      tokens: this.#tokens,
      log,
    });
    this.#history = new History({
      clock: systemClock,
      epochMs: systemEpochMs,
      sample: () => this.#control.readings.history(),
      log,
    });
    const publicUrl = (): string | null => this.#publicUrl;
    this.#overview = openOverview(this.#control, this.#history, this.#tokens, options.reload ?? null, publicUrl, log);
    const { local } = this.#control;
    this.#explain = new ExplainRoutes({
      tokens: this.#tokens,
      maxBodyBytes: () => local.limits.maxBodyBytes,
      explain: (request) => this.#control.readings.explain(request),
    });
    this.#requests = new RequestRoutes({
      tokens: this.#tokens,
      epochMs: systemEpochMs,
      size: () => this.#settings.requestLog.size,
      live: () => this.#control.readings.live(),
      log: (query) => this.#control.readings.log(query),
      entries: (id) => this.#control.readings.logEntries(id),
    });
    this.#configuration = configurationRoutes({
      tokens: this.#tokens,
      reloadable: options.reload !== undefined,
      settings: () => settingsInForceDocument(this.#settings, this.#sources, this.#pending, this.#control.limits),
    });
    const server = {
      ...{ handler: local.handler, onRefused: local.refused, decorate: local.decorate, clock: systemClock },
      ...{ limits: local.limits, budget: local.budget },
    };
    const draining = (): boolean => this.#closing !== null;
    this.nodeListener = createNodeListener(server, draining);
    this.#playground = new PlaygroundRoutes({
      ...{ server, tokens: this.#tokens, draining },
      target: () => ({ url: this.#publicUrl, keyRequired: this.#settings.keys.required }),
    });
  }

  async listen(): Promise<Listening> {
    if (this.#closing !== null) throw new HeadraceError('HR_DRAINING');
    if (this.#listens) throw new Error('listen() has been called before');
    this.#listens = true;
    try {
      this.#publicUrl ??= addressUrl(await this.#control.listen());
      const adminUrl = await this.listenAdmin();
      this.#couldNotListen = false;
      return { url: this.#publicUrl, adminUrl };
    } catch (error) {
      this.#couldNotListen = true;
      // Nothing has begun: an address that was taken may be free later.
      this.#listens = !(error instanceof ListenError);
      throw error;
    }
  }

  async listenAdmin(): Promise<string | null> {
    const { admin } = this.#settings;
    if (admin !== null) {
      await this.#openAdmin(admin);
      this.#history.start();
    }
    return this.#admin === null ? null : addressUrl(this.#admin.address);
  }

  get plane(): DataPlane {
    return this.#control.local;
  }

  /** With a shared port, the gateway that is replaced holds the admin port until it drains: binding is tried again. */
  async #openAdmin(address: Address): Promise<void> {
    try {
      const { hosts, readings } = this.#control;
      const deps = {
        status: () => ({ stage: this.#control.stage, crns: readings.crns(), hosts: hosts.status() }),
        metrics: () => readings.metrics(),
        guard: {
          hosts: () => this.#settings.adminHosts,
          isTrusted: (authorization: string | undefined) =>
            this.#tokens.identify(authorization) !== null || hosts.isTrusted(authorization),
        },
      };
      const admin = await openAdmin(
        address,
        deps,
        hosts,
        // Before the records of the ledger, whose ids are those of clients.
        this.#requests,
        this.#configuration,
        this.#accounts,
        this.#overview,
        historyRoutes(this.#history),
        this.#explain,
        this.#playground,
      );
      if (this.#closing !== null) {
        // `close` may be over, so that nothing else would close this listener.
        admin.close();
        throw new HeadraceError('HR_DRAINING');
      }
      this.#admin = admin;
      if (this.#waiting !== undefined) this.#log.info({ admin: addressUrl(address) }, 'admin listener started');
    } catch (error) {
      const isTaken = error instanceof ListenError && error.code === 'EADDRINUSE';
      if (!this.#settings.sharePort || !isTaken || this.#closing !== null) throw error;
      if (this.#waiting === undefined) this.#log.info({ problem: String(error) }, 'waiting for the admin port');
      this.#waiting = setTimeout(() => {
        this.#openAdmin(address).catch((late: unknown) =>
          this.#log.error({ err: late }, 'admin listener could not start'),
        );
      }, ADMIN_RETRY_MS);
    }
  }

  ready(): Promise<void> {
    return this.#closing === null ? this.#control.ready : Promise.reject(new HeadraceError('HR_DRAINING'));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async inject(request: InjectRequest): Promise<InjectResponse> {
    await this.#control.configured;
    return inject(this.#control.local.deps.detached, request);
  }

  async search(request: SearchInput, options: { readonly signal?: AbortSignal } = {}): Promise<SearchAnswer> {
    const signal = signalOf('search', options);
    await this.#control.configured;
    return this.#control.local.call((deps) => searchFor(deps, request, signal));
  }

  async fetchPage(url: string, options: FetchPageOptions = {}): Promise<PageAnswer> {
    const signal = signalOf('fetchPage', options);
    const { signal: _, ...wanted } = options;
    await this.#control.configured;
    return (await this.#control.local.call((deps) => fetchFor(deps, { url, ...wanted }, signal))) as PageAnswer;
  }

  async fetchPages(urls: readonly string[], options: FetchPageOptions = {}): Promise<readonly PageResult[]> {
    const signal = signalOf('fetchPages', options);
    const { signal: _, ...wanted } = options;
    await this.#control.configured;
    const answer = await this.#control.local.call((deps) => fetchFor(deps, { urls, ...wanted }, signal));
    return (answer as { readonly results: readonly PageResult[] }).results;
  }

  reload(input: SettingsInput): Reloaded {
    const { settings, sources } = this.#resolve(input);
    return this.reloadSettings(settings, sources);
  }

  reloadSettings(settings: Settings, sources: SettingSources): Reloaded {
    const { reloadable, restart } = diffSettings(this.#settings, settings);
    const inForce = settingsInForce(this.#settings, settings);
    // Of the threads and the store that run, which may be others than the settings ask for.
    const conflicts = findConflicts(inForce).map(({ message, path }) => ({
      path,
      message: `${message}; of the changes, ${restart.join(', ')} take effect at the next start`,
    }));
    const mistakes = [...plugInMistakes(inForce), ...conflicts];
    if (mistakes.length > 0) throw new ConfigError(mistakes);
    this.#control.apply(inForce);
    this.#settings = inForce;
    // What waits for a restart is still what the former configuration says.
    const kept = Object.fromEntries(restart.map((path) => [path, this.#sources[path] ?? 'default']));
    this.#sources = { ...sources, ...kept };
    this.#pending = restart;
    this.#log.level = settings.log.level;
    this.#tokens.configure(this.#settings);
    this.#overview.forget();
    return { applied: reloadable, needRestart: restart };
  }

  abort(): Promise<void> {
    this.#history.close();
    return this.#control.abort();
  }

  crns(): CrnStatus[] {
    return this.#control.readings.crns();
  }

  crash(thread: number): void {
    this.#control.crash(thread);
  }

  async #close(): Promise<void> {
    const { sharePort, timeouts } = this.#settings;
    clearTimeout(this.#waiting);
    // The gateway that takes over needs the admin port too.
    if (sharePort) this.#admin?.close();
    this.#control.unready();
    // No load balancer has to be told of a gateway that could not start.
    if (timeouts.unreadyMs > 0 && !this.#couldNotListen)
      await new Promise((resolve) => setTimeout(resolve, timeouts.unreadyMs));
    this.#history.close();
    await this.#control.close();
    this.#admin?.close();
  }
}

function openOverview(
  control: ControlPlane,
  history: History,
  tokens: AdminTokens,
  reload: (() => Promise<ReloadAnswer>) | null,
  publicUrl: () => string | null,
  log: Log,
): OverviewRoutes {
  return new OverviewRoutes({
    version: packageVersion(),
    tokens,
    acts: () => control.ledger?.adminActs ?? null,
    clock: systemClock,
    epochMs: systemEpochMs,
    startedMs: performance.timeOrigin,
    publicUrl,
    parts: () => control.readings.overview(),
    history,
    spentOn: (day) => spentOn(control.ledger, day),
    override: (url, override, by) => control.act(url, override, by),
    gateways: () => control.link.siblings().length,
    reload,
    log,
  });
}

async function spentOn(ledger: Ledger | null, day: string): Promise<string | null> {
  if (ledger === null) return null;
  const adminService = createAdminService(ledger, { dateMs: () => Date.parse(day), randomBytes });
  const [row] = await adminService.usage({ by: 'day', from: day, to: day });
  return row?.amount_usd ?? '0';
}
