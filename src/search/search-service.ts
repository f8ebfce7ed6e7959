// The searches of one thread: its engines, the places of accounts, the cache of answers, and the coordinator of every search under way.
// Equal searches of one account share one coordinator. A place is held until the last engine of its search has ended.

import type { Clock } from '../actor/index.ts';
import { AnswerCache, type AnswerCallback, type Flight, type FlightWork, type Pending } from '../net/answer-cache.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { IntrusiveSet } from '../net/intrusive-set.ts';
import { type SharedCache, sharedKey } from '../net/shared-cache.ts';
import { AccountPlaces, type Place, type Turn } from '../routing/index.ts';
import { Coordinator } from './coordinator.ts';
import { EngineBoard } from './engine-board.ts';
import { CONNECTIONS, EngineClient, type EngineReport, type EngineSpec, type Transport } from './engine-client.ts';
import { type EngineList, merge } from './merge.ts';
import { isLasting, type SearchType } from './engine.ts';
import type { SearchAnswer, SearchQuery, SearchResult } from './query.ts';
import type { SearchTrace } from './search-trace.ts';
import { readAnswer } from './shared-answer.ts';

export interface SearchServiceDeps {
  readonly clock: Clock;
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly epochMs: () => number;
  /** Memory of the engine board. */
  readonly memory: SharedArrayBuffer;
  /** Memory of the places of accounts, and the row of this thread. */
  readonly placeMemory: SharedArrayBuffer;
  readonly thread: number;
  /** Default: the network. */
  readonly transport?: Transport;
  /** Answers of other gateways. Default: none. */
  readonly shared?: SharedCache;
  /** As `EngineClientDeps.claimTrial`. */
  readonly claimTrial?: (cell: number) => Promise<boolean>;
  /** Hears how an engine's part of a search ended: `ok`, a reason as clients read it, or `cancelled`. */
  readonly onOutcome: (engine: string, reason: string, elapsedMs: number) => void;
  /** As `EngineClientDeps.onThrown`. */
  readonly onThrown: (engine: string, error: unknown) => void;
}

/** What a reload may change. */
export interface SearchServiceSettings {
  readonly timeoutMs: number;
  /** When the answers of half the engines are enough. */
  readonly softTimeoutMs: number;
  /** Largest number of searches of one account that run at once, over all threads and gateways. */
  readonly perAccount: number;
  readonly engines: readonly EngineSpec[];
  /** How long answers are kept; null: not at all. */
  readonly cacheTtlMs: number | null;
  readonly cacheBytes: number;
}

/** Whose search it is. */
export interface SearchCaller {
  /** Equal searches of an account share their answers; null: this search shares with none. */
  readonly account: string | null;
  /** Whose places and turns it takes: the account, or what stands for one. */
  readonly caller: string;
  /** Collects what happens in a search that shares with none. */
  readonly trace?: SearchTrace;
  /** Hears how the search goes until it is answered; not where the answer comes from a cache. */
  readonly watcher?: SearchWatcher;
}

/** Hears how a search goes, also one that other requests share. */
export interface SearchWatcher {
  /** The search has its place. Engines are cut off at this time of the thread's clock. */
  onStarted(deadlineMs: number): void;
  /** An engine has ended. */
  onEngine(progress: SearchProgress): void;
}

export interface SearchProgress {
  /** The engine that has ended. */
  readonly engine: string;
  /** Why it gave nothing, as in `meta.engine_errors`; null: it answered. */
  readonly reason: string | null;
  /** Engines that have ended, those of them that answered, and all. */
  readonly ended: number;
  readonly answered: number;
  readonly total: number;
  /** What has been found by now, merged, the best first. */
  results(): readonly SearchResult[];
}

/** A search that found an answer, or no place: the account, or all together, have too many waiting. */
export type SearchOutcome = AnsweredSearch | { readonly refused: 'full' | 'limit' };

export interface AnsweredSearch {
  readonly answer: SearchAnswer;
  /** What each engine of `meta.engines_used` did, in prices of it. */
  readonly units: ReadonlyMap<string, number>;
  /** Of these, what came after the search had been answered, so that nobody has paid for it; null: nothing. */
  readonly late: LateUnits | null;
}

/** Prices of what engines did for a kept answer after its search had been answered. The first search that gets them pays. */
class LateUnits {
  #units: ReadonlyMap<string, number> | null;
  readonly #onPaid: () => void;

  /** `onPaid` is called once nothing is left to be paid. */
  constructor(all: ReadonlyMap<string, number>, paid: ReadonlyMap<string, number>, onPaid: () => void) {
    const rest = Array.from(all, ([engine, units]) => [engine, units - (paid.get(engine) ?? 0)] as const);
    this.#units = new Map(rest.filter(([, units]) => units > 0));
    this.#onPaid = onPaid;
    if (this.#units.size === 0) this.take();
  }

  /** What is to be paid; null from the second call on, and where there is nothing. */
  take(): ReadonlyMap<string, number> | null {
    const units = this.#units;
    this.#units = null;
    if (units !== null) this.#onPaid();
    return units !== null && units.size > 0 ? units : null;
  }
}

/** Most searches that wait in one thread, of all accounts and of one. */
const WAITING = { waiting: 1024, waitingOfAccount: 64 } as const;

export class SearchService {
  readonly #deps: SearchServiceDeps;
  readonly #board: EngineBoard;
  readonly #transport: Transport;
  readonly #cache: AnswerCache<SearchOutcome, SearchWork>;
  readonly #places: AccountPlaces;
  /** Searches that have been answered and go on with slow engines. */
  readonly #late = new IntrusiveSet<'lateSlot', SearchWork>('lateSlot');
  #engines: ReadonlyMap<string, EngineClient> = new Map();
  #cacheFingerprint = '';
  #cacheTtlMs: number | null = null;
  #timeoutMs = 0;
  #softTimeoutMs = 0;
  #unshared = 0;

  constructor(deps: SearchServiceDeps) {
    this.#deps = deps;
    this.#board = new EngineBoard(deps.memory);
    this.#transport = deps.transport ?? new BufferedClient(CONNECTIONS);
    this.#cache = new AnswerCache({ clock: deps.clock, sizeOf });
    this.#places = new AccountPlaces({ memory: deps.placeMemory, thread: deps.thread, clock: deps.clock });
  }

  /** Takes over engines and limits. Searches under way end with the engines they began with. */
  configure({ cacheBytes, cacheTtlMs, engines, perAccount, softTimeoutMs, timeoutMs }: SearchServiceSettings): void {
    this.#engines = new Map(engines.map((spec) => [spec.id, this.#engine(spec)]));
    this.#timeoutMs = timeoutMs;
    this.#softTimeoutMs = softTimeoutMs;
    this.#places.configure({ perAccount, ...WAITING, waitMs: timeoutMs });
    const fingerprints = engines.map(({ id, fingerprint, generation, weight }) => [
      id,
      fingerprint,
      generation,
      weight,
    ]);
    const fingerprint = JSON.stringify([cacheTtlMs, cacheBytes, fingerprints]);
    if (fingerprint === this.#cacheFingerprint) return;
    this.#cacheFingerprint = fingerprint;
    this.#cacheTtlMs = cacheTtlMs;
    this.#cache.configure(cacheTtlMs, cacheBytes);
  }

  /** Searches. `done` is called once, later than this call returns, unless the search is aborted. */
  search(
    query: SearchQuery,
    { account, caller, trace, watcher }: SearchCaller,
    done: AnswerCallback<SearchOutcome>,
  ): Pending {
    const key = keyOf(query, account ?? ++this.#unshared);
    const pending = this.#cache.request(
      key,
      done,
      (flight) => {
        const isKept = account !== null && flight.isKept;
        const sharing = isKept ? this.#sharingOf(query, account, caller) : null;
        return this.#start({ query, flight, caller, isKept, sharing, trace });
      },
      caller,
    );
    if (watcher !== undefined) this.#cache.workOf(key, caller)?.watch(watcher);
    return pending;
  }

  /** Whether an answer to an equal search of an account is kept. */
  keeps(query: SearchQuery, account: string): boolean {
    return this.#cache.peek(keyOf(query, account)) !== undefined;
  }

  /** Whether an engine is configured and has searches of the type. */
  serves(engine: string, type: SearchType): boolean {
    return this.#engines.get(engine)?.serves(type) ?? false;
  }

  /** Searches that run, slow engines of answered ones included, and that wait for a place. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#places.running, waiting: this.#places.waiting };
  }

  /** Answers the searches under way with what there is and closes all connections. */
  close(): void {
    for (const work of [...this.#cache.works(), ...this.#late.list()]) work.close();
    this.#engines = new Map();
    this.#transport.close();
  }

  /** The client there is, if nothing about its engine has changed. */
  #engine(spec: EngineSpec): EngineClient {
    const before = this.#engines.get(spec.id);
    const isSame = before?.spec.fingerprint === spec.fingerprint && before.spec.generation === spec.generation;
    if (isSame) return before;
    if (before !== undefined) {
      // New settings, such as a key or an address, may end what the engine was suspended for.
      this.#board.reset(spec.cell);
      // What was counted by other limits would hold for as long as they did.
      if (JSON.stringify(before.spec.rates) !== JSON.stringify(spec.rates)) this.#board.resetRates(spec.cell);
    }
    return new EngineClient(spec, { ...this.#deps, board: this.#board, transport: this.#transport });
  }

  /** How an answer is shared with other gateways; null: not at all. Theirs must be equal in all that an answer depends on. */
  #sharingOf(query: SearchQuery, account: string, caller: string): Sharing | null {
    const { shared } = this.#deps;
    const lifetimeMs = this.#cacheTtlMs;
    if (shared === undefined || !shared.isOn || lifetimeMs === null) return null;
    const engines = query.engines.map((id) => {
      const spec = this.#engines.get(id)?.spec;
      return [id, spec?.fingerprint, spec?.weight];
    });
    const key = sharedKey(['search', account, lifetimeMs, ...asked(query), engines]);
    return { shared, key, lifetimeMs, group: caller };
  }

  /** Takes the answer of another gateway, or searches with a place. */
  #start(search: Search): SearchWork {
    const { caller, flight, query, sharing } = search;
    const work = new SearchWork(flight);
    const acceptedMs = this.#deps.clock.now();
    const begin = (): Coordinator => this.#coordinator(search, work, acceptedMs);
    const wait = (): void => work.wait((onTurn) => this.#places.request(caller, onTurn), begin);
    if (sharing === null) {
      wait();
      return work;
    }
    const { key, lifetimeMs, shared } = sharing;
    const read = (bytes: Buffer): SearchAnswer | null => readAnswer(bytes, query);
    shared.get('search', key, read, (answer, remainingMs) => {
      if (answer === null) wait();
      else flight.landCached({ answer, units: NO_UNITS, late: null }, Math.min(remainingMs, lifetimeMs));
    });
    return work;
  }

  /** The engines of a search that has its place, and what becomes of their answers. */
  #coordinator(search: Search, work: SearchWork, acceptedMs: number): Coordinator {
    const { caller, flight, isKept, query, sharing, trace } = search;
    const { clock } = this.#deps;
    const engines = this.#engines;
    const startedMs = clock.now();
    const deadlineMs = startedMs + this.#timeoutMs;
    const outcomeOf = (reports: readonly EngineReport[]): AnsweredSearch =>
      outcome(query, engines, reports, clock.now() - acceptedMs, trace);
    let paid: AnsweredSearch['units'] = new Map();
    work.started(deadlineMs);
    return new Coordinator({
      ...{ query, engines, clock, account: caller, keepsLate: isKept, trace, deadlineMs },
      softDeadlineMs: startedMs + this.#softTimeoutMs,
      onReport: (report, reports) => {
        work.tell(() => progressOf(report, reports, query, engines));
      },
      onDone: (reports) => {
        this.#late.add(work);
        const found = outcomeOf(reports);
        paid = found.units;
        const keep = isKept && isWhole(found);
        flight.land(found, keep);
        if (keep) share(sharing, found, 0);
      },
      onEnd: (reports) => {
        this.#late.delete(work);
        work.end();
        const found = reports === null || !isKept ? null : outcomeOf(reports);
        if (found === null || !isWhole(found)) return;
        const foundMs = clock.now();
        // Shared once it has been paid: two gateways must not charge for the same.
        const onPaid = (): void => share(sharing, found, clock.now() - foundMs);
        flight.keep({ ...found, late: new LateUnits(found.units, paid, onPaid) });
      },
    });
  }
}

/** A search that no other one answers. */
interface Search {
  readonly query: SearchQuery;
  readonly flight: Flight<SearchOutcome, SearchWork>;
  readonly caller: string;
  /** Whether its answer is kept for equal searches. */
  readonly isKept: boolean;
  readonly sharing: Sharing | null;
  readonly trace: SearchTrace | undefined;
}

/** Gives an answer that is so old to the other gateways. */
function share(sharing: Sharing | null, { answer }: AnsweredSearch, ageMs: number): void {
  if (sharing === null) return;
  const { group, key, lifetimeMs, shared } = sharing;
  shared.set('search', key, JSON.stringify(answer), lifetimeMs - ageMs, group);
}

/** Equal for equal searches of an owner. */
function keyOf(query: SearchQuery, owner: string | number): string {
  return JSON.stringify([owner, asked(query), query.engines]);
}

const NO_UNITS: ReadonlyMap<string, number> = new Map();

/** All of a query that its answer depends on, but the engines. */
function asked({ filters, maxResults, page = 1, query, type }: SearchQuery): readonly unknown[] {
  return [type, maxResults, query, page, filters ?? null];
}

/** How the answer of a search is shared with other gateways. */
interface Sharing {
  readonly shared: SharedCache;
  readonly key: string;
  readonly lifetimeMs: number;
  readonly group: string;
}

/** One search: its wait for a place, then its coordinator. */
class SearchWork implements FlightWork {
  /** Index among those whose engines go on after the answer. */
  lateSlot = -1;
  readonly #flight: Flight<SearchOutcome, SearchWork>;
  #place: Place | null = null;
  #coordinator: Coordinator | null = null;
  #watchers: SearchWatcher[] | null = null;
  /** When its engines are cut off; null before they are asked. */
  #deadlineMs: number | null = null;
  #ended = false;

  constructor(flight: Flight<SearchOutcome, SearchWork>) {
    this.#flight = flight;
  }

  /** Asks for a place; with it, `begin` is called. */
  wait(request: (onTurn: (turn: Turn) => void) => Place, begin: () => Coordinator): void {
    if (this.#ended) return;
    const place = request((turn) => {
      if (turn !== 'place') {
        this.#flight.land({ refused: turn }, false);
        return;
      }
      this.#coordinator = begin();
      this.#coordinator.start();
    });
    this.#place = place;
    if (this.#ended) place.leave();
  }

  /** Lets a watcher hear how the search goes. It may have begun. */
  watch(watcher: SearchWatcher): void {
    (this.#watchers ??= []).push(watcher);
    if (this.#deadlineMs !== null) watcher.onStarted(this.#deadlineMs);
  }

  /** The engines are asked. */
  started(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs;
    for (const watcher of this.#watchers ?? []) watcher.onStarted(deadlineMs);
  }

  /** An engine has ended. */
  tell(progress: () => SearchProgress): void {
    if (this.#watchers === null) return;
    const told = progress();
    for (const watcher of this.#watchers) watcher.onEngine(told);
  }

  /** The place, or the wait for one, ends with the search. */
  end(): void {
    this.#ended = true;
    this.#place?.leave();
  }

  abort(): void {
    if (this.#coordinator === null) this.end();
    else this.#coordinator.abort();
  }

  /** Answers with what there is. */
  close(): void {
    if (this.#coordinator !== null) this.#coordinator.close();
    else this.#flight.land({ refused: 'full' }, false);
    this.end();
  }
}

/** A kept answer without one of its engines would prolong that engine's failure, but for one that lasts. */
function isWhole({ answer }: AnsweredSearch): boolean {
  const { engine_errors: errors, engines_failed: failed, engines_used: used } = answer.meta;
  return used.length > 0 && errors.every(({ engine, reason }) => !failed.includes(engine) || isLasting(reason));
}

function outcome(
  query: SearchQuery,
  engines: ReadonlyMap<string, EngineClient>,
  reports: readonly EngineReport[],
  elapsedMs: number,
  trace: SearchTrace | undefined,
): AnsweredSearch {
  const lists: EngineList[] = [];
  const units = new Map<string, number>();
  const failed: string[] = [];
  const errors: { engine: string; reason: string }[] = [];
  for (const report of reports) {
    const { engine } = report;
    const weight = engines.get(engine)?.spec.weight ?? 1;
    trace?.answered(report, weight);
    if ('reason' in report) {
      errors.push({ engine, reason: report.reason });
      failed.push(engine);
      continue;
    }
    if (report.note !== undefined) errors.push({ engine, reason: report.note });
    const { before, hits } = report;
    lists.push(before === undefined ? { engine, hits, weight } : { engine, hits, weight, before });
    units.set(engine, unitsOf(report.calls, report.hits.length, query.maxResults));
  }
  const answer = {
    results: merge(lists, { searchType: query.type, trace }),
    meta: {
      duration_ms: Math.round(elapsedMs),
      engines_used: lists.map(({ engine }) => engine),
      engines_failed: failed,
      engine_errors: errors,
    },
  };
  return { answer, units, late: null };
}

function progressOf(
  report: EngineReport,
  reports: readonly (EngineReport | null)[],
  query: SearchQuery,
  engines: ReadonlyMap<string, EngineClient>,
): SearchProgress {
  const all = reports.filter((each) => each !== null);
  return {
    engine: report.engine,
    reason: 'reason' in report ? report.reason : null,
    ended: all.length,
    answered: all.filter((each) => 'hits' in each).length,
    total: query.engines.length,
    results: () => outcome(query, engines, all, 0, undefined).answer.results,
  };
}

/** Prices of an engine that a search may cost: one for each started ten results asked for. */
export function mostUnits(maxResults: number): number {
  return Math.ceil(maxResults / 10);
}

/** Prices of what an engine did: one for each request it answered or for each started ten hits, whichever are more. */
function unitsOf(calls: number, hits: number, maxResults: number): number {
  return Math.min(mostUnits(maxResults), Math.max(calls, Math.ceil(hits / 10)));
}

/** Bytes an answer takes in memory, roughly: two for a character. */
function sizeOf(found: SearchOutcome, key: string): number {
  return 2 * (('answer' in found ? JSON.stringify(found.answer).length : 0) + key.length);
}
