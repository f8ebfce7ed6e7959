// The dashboard on the admin listener, the overview document it shows, and the admin actions of operators with `adminToken`.
// The document is built at most once a second, however many clients read it.
//
// GET / and the files of the page (dashboard-files.ts)   GET /overview   POST /crns/drain, /crns/eject, /crns/return {url, for?}   POST /reload

import type { IncomingMessage, ServerResponse } from 'node:http';
import { AskTimeoutError, type Clock } from '../actor/index.ts';
import type { Mistake } from '../config/load.ts';
import { parseDuration } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { atMost } from '../net/abortable.ts';
import type { ActResult } from '../cluster/index.ts';
import type { CrnOverride } from '../routing/index.ts';
import type { Log } from '../telemetry/log.ts';
import { dayOf, type Ledger } from '../billing/index.ts';
import { authenticate, readJson, refusesMethod, respondJson } from './admin-exchange.ts';
import { type AdminIdentity, type AdminTokens, isAllowed, peerOf } from './admin-tokens.ts';
import { DashboardFiles } from './dashboard-files.ts';
import type { History } from './history.ts';
import { buildOverview, type Overview, type OverviewParts } from './overview.ts';
import { actRecord, recordAct } from './recorded-service.ts';

/** How long a document is reused. */
const FRESH_MS = 900;
/** The same for the sum of a day, which the database computes. */
const SPENT_FRESH_MS = 10_000;
/** How long a document waits for the first one of a day. */
const SPENT_WAIT_MS = 500;

const MAX_ACTION_BYTES = 4096;

/** Result of a reload; with mistakes the running settings stay. */
export type ReloadAnswer =
  | { readonly applied: readonly string[]; readonly needRestart: readonly string[] }
  | { readonly mistakes: readonly Mistake[] };

export interface OverviewRoutesOptions {
  readonly version: string;
  /** Without any, actions answer 403. */
  readonly tokens: AdminTokens;
  /** Where acts are recorded; null without a ledger that is open: they are in the log alone then. */
  readonly acts: () => Ledger['adminActs'] | null;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** When the process began, by the clock. */
  readonly startedMs: number;
  /** Base URL of the public port; null while it does not listen. */
  readonly publicUrl: () => string | null;
  readonly parts: () => Promise<OverviewParts>;
  readonly history: Pick<History, 'take' | 'recent'>;
  /** USD spent on the day of this date in UTC, as a decimal text; null without a ledger that is open. */
  readonly spentOn: (day: string) => Promise<string | null>;
  /** Carries out an action of the operator `by`, in all gateways of the cluster; rejects when its actor does not answer. */
  readonly override: (url: string, override: CrnOverride, by: string) => Promise<ActResult>;
  /** Gateways of the cluster that are alive, this one included. */
  readonly gateways: () => number;
  /** Reads the configuration again; null where there is none to read. */
  readonly reload: (() => Promise<ReloadAnswer>) | null;
  readonly log: Log;
}

/** A value that is read again once it is older than `freshMs`; concurrent readers share one read. */
class Fresh<T> {
  readonly #ask: () => Promise<T>;
  readonly #freshMs: number;
  #readMs = -Infinity;
  #value: Promise<T> | null = null;

  constructor(freshMs: number, ask: () => Promise<T>) {
    this.#freshMs = freshMs;
    this.#ask = ask;
  }

  get(nowMs: number): Promise<T> {
    if (this.#value === null || nowMs - this.#readMs >= this.#freshMs) {
      this.#readMs = nowMs;
      this.#value = this.#ask();
    }
    return this.#value;
  }

  forget(): void {
    this.#value = null;
  }
}

/** `/house` is the deprecated name of `/overview`, kept for one release. */
const DOCUMENTS = new Set(['/overview', '/house']);
/** `Deprecation` (RFC 9745) with the date of the release that renamed the path, and its successor (RFC 5829). */
const DEPRECATED = { deprecation: '@1795305600', link: '</overview>; rel="successor-version"' };
const ACTIONS: ReadonlySet<string> = new Set(['/crns/drain', '/crns/eject', '/crns/return', '/reload']);

export class OverviewRoutes {
  readonly #options: OverviewRoutesOptions;
  readonly #files = new DashboardFiles();
  readonly #overview: Fresh<Overview>;
  /** The sum of a day as it was read last. */
  #spent: { readonly day: string; readonly usd: string | null; readonly readMs: number } | null = null;
  /** Resolves when the sum that is being read is known; null: none is. */
  #spentReading: Promise<void> | null = null;

  constructor(options: OverviewRoutesOptions) {
    this.#options = options;
    this.#overview = new Fresh(FRESH_MS, () => this.#build());
  }

  /** The document is made anew for the next reader: settings have changed. */
  forget(): void {
    this.#overview.forget();
  }

  /** Answers a request to one of its paths on the admin listener; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string): boolean {
    if (this.#files.answer(req, res, path)) return true;
    const isAction = ACTIONS.has(path);
    if (!isAction && !DOCUMENTS.has(path)) return false;
    if (refusesMethod(req, res, ...(isAction ? ['POST'] : ['GET', 'HEAD']))) return true;
    if (isAction) this.#authorize(req, res, path);
    else void this.#respondOverview(res, path === '/house' ? DEPRECATED : {});
    return true;
  }

  #authorize(req: IncomingMessage, res: ServerResponse, path: string): void {
    const identity = authenticate(req, res, this.#options.tokens, 'admin actions are disabled');
    if (identity === null) return;
    if (!isAllowed(identity.role, 'operator')) {
      respondJson(res, 403, { detail: `the role ${identity.role} may not do this: it takes operator` });
    } else {
      void this.#act(req, res, path, identity);
    }
  }

  async #respondOverview(res: ServerResponse, headers: Readonly<Record<string, string>>): Promise<void> {
    try {
      const overview = await this.#overview.get(this.#options.clock.now());
      respondJson(res, 200, overview, { 'cache-control': 'no-store', ...headers });
    } catch (error) {
      this.#overview.forget();
      respondJson(res, 500, { detail: String(error) });
    }
  }

  async #build(): Promise<Overview> {
    const { clock, epochMs, history, startedMs, parts, publicUrl, reload, version } = this.#options;
    const [gathered, spentTodayUsd] = await Promise.all([parts(), this.#spentToday()]);
    history.take(gathered.totals);
    return buildOverview(gathered, {
      dateMs: epochMs(),
      uptimeMs: clock.now() - startedMs,
      version,
      orders: this.#options.tokens.any,
      reloadable: reload !== null,
      publicUrl: publicUrl(),
      spentTodayUsd,
      recent: (model) => history.recent(model),
    });
  }

  /** As far as it is known: a store that does not answer must not hold the document up. */
  async #spentToday(): Promise<string | null> {
    const { clock, epochMs } = this.#options;
    const day = dayOf(epochMs());
    const known = this.#spent?.day === day ? this.#spent : null;
    if (known !== null && clock.now() - known.readMs < SPENT_FRESH_MS) return known.usd;
    this.#spentReading ??= this.#readSpent(day).finally(() => {
      this.#spentReading = null;
    });
    if (known !== null) return known.usd;
    await atMost(clock, SPENT_WAIT_MS, this.#spentReading);
    return this.#spent?.day === day ? this.#spent.usd : null;
  }

  async #readSpent(day: string): Promise<void> {
    const { clock, log, spentOn } = this.#options;
    let usd: string | null = null;
    try {
      usd = await spentOn(day);
    } catch (error) {
      log.warn({ err: error }, 'the sum of today could not be read from the ledger');
    }
    this.#spent = { day, usd, readMs: clock.now() };
  }

  async #act(req: IncomingMessage, res: ServerResponse, path: string, identity: AdminIdentity): Promise<void> {
    const { log } = this.#options;
    const record: Recorder = async (action, subject, request, carryOut, refusalOf) => {
      const acts = this.#options.acts();
      log.info({ actor: identity.name, subject }, action);
      const actor = { ...identity, via: peerOf(req) };
      const act = { actor, action, subject, request, before: null };
      return acts === null ? await carryOut() : await recordAct(actRecord(acts, log), act, carryOut, refusalOf);
    };
    try {
      if (path === '/reload') await this.#reload(res, record);
      else await this.#steer(req, res, path.slice('/crns/'.length) as CrnOverride['action'], identity.name, record);
    } catch (error) {
      log.error({ err: error, action: path }, 'an admin action failed');
      const why = error instanceof AskTimeoutError ? ' in time' : `: ${messageOf(error)}`;
      respondJson(res, 503, { detail: `the action was not carried out${why}` });
    }
    this.#overview.forget();
  }

  async #reload(res: ServerResponse, record: Recorder): Promise<void> {
    const { reload } = this.#options;
    if (reload === null) {
      respondJson(res, 409, { detail: 'this gateway has no configuration file to read again' });
      return;
    }
    const answer = await record('configuration.reload', '', {}, reload, mistakesText);
    if ('mistakes' in answer) respondJson(res, 422, { detail: mistakesText(answer), mistakes: answer.mistakes });
    else respondJson(res, 200, answer);
  }

  async #steer(
    req: IncomingMessage,
    res: ServerResponse,
    action: CrnOverride['action'],
    by: string,
    record: Recorder,
  ): Promise<void> {
    const body = await readJson(req, MAX_ACTION_BYTES);
    if (body === 'gone') return;
    if (body === 'too long') {
      respondJson(res, 413, { detail: `a body has at most ${MAX_ACTION_BYTES} bytes` }, { connection: 'close' });
      return;
    }
    const read = body === 'not JSON' ? 'the body must be JSON' : readAction(action, body.value);
    if (typeof read === 'string') {
      respondJson(res, 422, { detail: read });
      return;
    }
    const { url, ...wanted } = read;
    const { gateways, override } = this.#options;
    const refusalOf = ({ result }: ActResult): string | null => (result === 'done' ? null : `there is no CRN ${url}`);
    const carryOut = (): Promise<ActResult> => override(url, wanted, by);
    const done = await record(`crn.${action}`, url, wanted, carryOut, refusalOf);
    const refusal = refusalOf(done);
    const cluster = done.told === null ? {} : { cluster: { told: done.told, gateways: gateways() } };
    if (refusal === null) respondJson(res, 200, { crn: url, action, ...cluster });
    else respondJson(res, 404, { detail: refusal });
  }
}

/** Carries an act out and records it, as `recordAct` does. */
type Recorder = <Result extends object>(
  action: string,
  subject: string,
  request: object,
  carryOut: () => Promise<Result>,
  refusalOf: (result: Result) => string | null,
) => Promise<Result>;

function mistakesText(answer: ReloadAnswer): string | null {
  if (!('mistakes' in answer)) return null;
  return answer.mistakes.map(({ path, message }) => `${path}: ${message}`).join('; ');
}

/** Parses the body of an action: the action, or a message about what is wrong with it. */
function readAction(action: CrnOverride['action'], value: unknown): (CrnOverride & { readonly url: string }) | string {
  const { url: given, for: duration, ...rest } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof given !== 'string' || given === '') return 'url: the base URL of a CRN is missing';
  // As in the configuration, where a slash at the end does not count.
  const url = given.replace(/\/+$/, '');
  // The act is recorded before the CRN is looked for, and no text of PostgreSQL holds it.
  if (url.includes('\0')) return 'url: must not hold NUL';
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) return `${unknown}: there is no such field`;
  if (action !== 'eject') return duration === undefined ? { url, action } : 'for: belongs to an ejection';
  if (duration === undefined) return { url, action, forMs: null };
  const forMs = parseDuration(duration);
  if (forMs === undefined || forMs < 1 || forMs > MAX_EJECTION_MS) return 'for: a duration from 1ms to 24h, such as 5m';
  return { url, action, forMs };
}

/** For longer, a CRN is drained. */
const MAX_EJECTION_MS = 86_400_000;
