// Engine kind `module`: an engine of the operator's own, from a JavaScript or TypeScript module that every thread loads. The module is read
// and checked once in a thread of its own, so that the file is read anew at every reload and a module that hangs or fails while it
// is loaded is a mistake in the configuration. What the engine answers is checked before it is believed.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { systemEpochMs } from '../../actor/index.ts';
import { checkedRequest } from '../checked-answers.ts';
import { isoDate } from '../dates.ts';
import {
  type Engine,
  type EngineAbout,
  EngineError,
  type EngineFailure,
  type EngineFilters,
  type EngineHit,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type FilterSupport,
  type ParseContext,
  type RateLimit,
  SEARCH_TYPES,
  type SearchType,
} from '../engine.ts';
import { FILTER_NAMES } from '../filters.ts';
import { hits } from '../hit.ts';

/** What a module is given beside its options. */
export interface EngineTools {
  /** The errors of engines: `throw new EngineError('rate limited', { retryAfterMs: 5000 })`. */
  readonly EngineError: typeof EngineError;
}

/** An option of a module, checked before `createEngine` is called. */
export interface EngineOption {
  /** `url` is http or https and loses its closing slash; `duration` is written `500ms` and given as milliseconds. */
  readonly type: 'string' | 'number' | 'integer' | 'boolean' | 'url' | 'duration' | 'strings';
  /** Default: it may be left out, and is undefined then. */
  readonly required?: boolean;
  /** Of a string: the only values. */
  readonly oneOf?: readonly string[];
  /** Of a number, an integer and a duration. Default 0 and no limit. */
  readonly min?: number;
  readonly max?: number;
}

/** What a module exports. */
export interface EngineModule<Options = Readonly<Record<string, unknown>>> {
  /** The options by name. Without it, `createEngine` gets what is written and checks it. */
  readonly options?: Readonly<Record<string, EngineOption>>;
  /** Makes the engine, in every thread. An error that it throws is a mistake in the configuration. */
  createEngine(options: Options, tools: EngineTools): Engine;
}

export interface ModuleSettings {
  /** The file, from the folder of the configuration file. */
  readonly path: string;
  readonly options?: Readonly<Record<string, unknown>>;
}

/** What is known of a module that has been checked. Plain data. */
export interface CheckedModule extends Omit<EngineAbout, 'ready'> {
  /** Absolute path of the file. */
  readonly path: string;
  /** Differs when the content of the file does. */
  readonly revision: string;
  /** As `createEngine` takes them. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Whether it has `request` and `parse`, not `search`. */
  readonly isHttp: boolean;
}

/** The result of a check, as its thread posts it. */
export type ModuleCheck = { readonly checked: CheckedModule } | { readonly mistake: string };

/** What the checking thread is started with. */
export interface ModuleCheckData {
  readonly path: string;
  readonly options: unknown;
  /** 1 once the result was posted. */
  readonly done: Int32Array;
  readonly port: import('node:worker_threads').MessagePort;
}

/** Far more than a module takes that does no work while it is loaded. */
const CHECK_TIMEOUT_MS = 5000;

/**
 * Loads a module in a thread of its own, checks its options and what it makes of them. Waits for it, at most 5 s. Throws an
 * `Error` that names the file and what is wrong.
 */
export function checkModule({ path, options }: ModuleSettings, timeoutMs = CHECK_TIMEOUT_MS): CheckedModule {
  const file = resolve(path);
  const { port1, port2 } = new MessageChannel();
  const done = new Int32Array(new SharedArrayBuffer(4));
  const data: ModuleCheckData = { path: file, options, done, port: port2 };
  const worker = new Worker(new URL('../../../workers/engine-module.js', import.meta.url), {
    name: 'engine-module',
    workerData: data,
    // Loaders and instrumentation may wait for this thread, which waits.
    execArgv: [],
    // What it prints is printed when an ingress thread loads it; this thread would hear of it too late.
    stdout: true,
    stderr: true,
    transferList: [port2],
  });
  worker.on('error', () => undefined);
  worker.unref();
  const isDone = Atomics.wait(done, 0, 0, timeoutMs) !== 'timed-out';
  const result = receiveMessageOnPort(port1)?.message as ModuleCheck | undefined;
  port1.close();
  void worker.terminate();
  if (result === undefined) {
    const what = isDone ? 'ended its thread' : `was not loaded within ${timeoutMs / 1000} s`;
    throw new Error(`path ${file} ${what}; a module must do nothing while it is loaded`);
  }
  if ('mistake' in result) throw new Error(result.mistake);
  return result.checked;
}

/** Marks the URLs of modules in stack traces. */
const MARK = '?headrace-engine=';

/** The file of a module engine that threw this in a callback of its own; undefined where none did, and where the stack does not say. */
export function moduleOf(error: unknown): string | undefined {
  const stack: unknown = error instanceof Error ? error.stack : undefined;
  if (typeof stack !== 'string') return undefined;
  // Above the module there may be functions of the language and of Node.js that it has called.
  const frame = stack.split(/\n\s+at /).find((text, at) => at > 0 && text.includes('file://')) ?? '';
  const end = frame.indexOf(MARK);
  return end < 0 ? undefined : frame.slice(frame.indexOf('file://'), end);
}

/** The engine of a module. It is loaded at the first search. `checked`: what is known of it already. */
export function moduleEngine(settings: ModuleSettings, checked: CheckedModule = checkModule(settings)): Engine {
  return checked.isHttp ? new HttpModule(checked) : new InProcessModule(checked);
}

/** What the engine says about itself, and the engine once it is loaded. */
class LoadedModule {
  readonly kind: string;
  readonly documentation: string;
  readonly types: readonly SearchType[];
  readonly concurrency?: number;
  readonly rates?: readonly RateLimit[];
  readonly filters?: EngineFilters;
  readonly #checked: CheckedModule;
  #engine: Engine | null = null;
  #loading: Promise<void> | null = null;

  constructor(checked: CheckedModule) {
    const { concurrency, documentation, filters, kind, rates, types } = checked;
    this.#checked = checked;
    this.kind = kind;
    this.documentation = documentation;
    this.types = types;
    if (concurrency !== undefined) this.concurrency = concurrency;
    if (rates !== undefined) this.rates = rates;
    if (filters !== undefined) this.filters = filters;
  }

  /** A load that fails is tried again by the next search. */
  get ready(): Promise<void> | undefined {
    if (this.#engine !== null) return undefined;
    this.#loading ??= this.#load().finally(() => (this.#loading = null));
    return this.#loading;
  }

  /** The engine of the other kind than expected, or none, is no answer. */
  protected loaded<Name extends 'request' | 'search'>(name: Name): Extract<Engine, Readonly<Record<Name, unknown>>> {
    if (this.#engine === null || !(name in this.#engine)) throw new EngineError('invalid');
    return this.#engine as Extract<Engine, Readonly<Record<Name, unknown>>>;
  }

  async #load(): Promise<void> {
    const { options, path, revision } = this.#checked;
    try {
      const module = (await import(`${pathToFileURL(path).href}${MARK}${revision}`)) as Readonly<
        Record<string, unknown>
      >;
      this.#engine = exportsOf(module).createEngine(options, { EngineError });
    } catch (error) {
      throw engineError(error);
    }
  }
}

class HttpModule extends LoadedModule {
  reaches(query: EngineQuery): boolean {
    try {
      return this.loaded('request').reaches?.(query) !== false;
    } catch (error) {
      throw engineError(error);
    }
  }

  request(query: EngineQuery, state: unknown, account?: string): EngineRequest {
    try {
      return checkedRequest(this.loaded('request').request(query, state, account));
    } catch (error) {
      throw engineError(error);
    }
  }

  parse(response: EngineResponse, context: ParseContext): EnginePage {
    try {
      const { hits: found, next, note, notApplied } = this.loaded('request').parse(response, context);
      const page = { hits: readHits(found, context.query, context.nowMs), next };
      return {
        ...page,
        ...(isNote(note) && { note }),
        ...(Array.isArray(notApplied) && { notApplied }),
      };
    } catch (error) {
      throw engineError(error);
    }
  }
}

/** Callers read notes: a long one is no short and stable text. */
function isNote(note: unknown): note is string {
  return typeof note === 'string' && note !== '' && note.length <= MAX_NOTE_CHARACTERS;
}

class InProcessModule extends LoadedModule {
  async search(query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]> {
    await this.ready;
    try {
      return readHits(await this.loaded('search').search(query, signal), query, systemEpochMs());
    } catch (error) {
      throw engineError(error);
    }
  }
}

/** The exports of a module; those of a CommonJS module are its default export. */
export function exportsOf(module: Readonly<Record<string, unknown>>): EngineModule {
  const whole = (typeof module['createEngine'] === 'function' ? module : module['default']) as EngineModule | undefined;
  if (typeof whole?.createEngine !== 'function') throw new Error('exports no function createEngine');
  return whole;
}

const MAX_NOTE_CHARACTERS = 200;

const FAILURES: ReadonlySet<unknown> = new Set<EngineFailure>([
  ...(['denied', 'challenge', 'rate limited', 'quota', 'rejected', 'http', 'invalid'] as const),
]);

/** What a module threw as an error of the engine: it may come from another copy of this package. Never its own words. */
function engineError(thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  const { failure, name, retryAfterMs, status } = (
    typeof thrown === 'object' && thrown !== null ? thrown : {}
  ) as Readonly<Record<string, unknown>>;
  if (name !== 'EngineError' || !FAILURES.has(failure)) return new EngineError('invalid', { cause: thrown });
  return new EngineError(failure as EngineFailure, {
    ...(typeof status === 'number' ? { status } : {}),
    ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}),
  });
}

/** The hits as plain data with clean text. Entries without an address are left out, and more than were asked for. */
function readHits(found: unknown, { maxResults }: EngineQuery, nowMs: number): EngineHit[] {
  if (!Array.isArray(found)) throw new EngineError('invalid');
  return hits(found.slice(0, maxResults), (entry) => ({
    ...entry,
    url: entry['url'],
    publishedAt: isoDate(entry['publishedAt'], nowMs),
  }));
}

const DECLARABLE: ReadonlySet<string> = new Set([...Object.keys(FILTER_NAMES), 'page']);

/** What an engine of somebody's own says of itself, as plain data; or what of it is wrong. */
export function readDeclared(
  engine: Readonly<Record<string, unknown>>,
): Pick<CheckedModule, 'concurrency' | 'filters' | 'rates' | 'types'> | string {
  const { concurrency, filters, rates, types } = engine;
  if (!areTypes(types)) return 'types are not a list of web, news, images and academic';
  if (concurrency !== undefined && !(Number.isSafeInteger(concurrency) && (concurrency as number) > 0))
    return 'concurrency is no whole number above 0';
  if (rates !== undefined && !areRates(rates)) return 'rates are not a list of at most 4 { requests, perMs }';
  const declared = readFilters(filters ?? {});
  if (declared === undefined) return 'filters are not a mapping of filter names to what it applies of them';
  return {
    types: [...types],
    ...(concurrency === undefined ? {} : { concurrency: concurrency as number }),
    ...(rates === undefined ? {} : { rates: rates.map(({ requests, perMs }) => ({ requests, perMs })) }),
    ...(filters === undefined ? {} : { filters: declared }),
  };
}

function areRates(rates: unknown): rates is RateLimit[] {
  const isRate = (rate: unknown): boolean => {
    const { perMs, requests } = (rate ?? {}) as Readonly<Record<string, unknown>>;
    return (
      isAboveZero(requests) && requests >= 1 && isAboveZero(perMs) && Number.isSafeInteger(Math.ceil(perMs * 1000))
    );
  };
  return Array.isArray(rates) && rates.length <= 4 && rates.every(isRate);
}

function isAboveZero(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) > 0;
}

/** What an engine declares of its filters, as plain data; undefined for anything else. */
function readFilters(filters: unknown): EngineFilters | undefined {
  if (typeof filters !== 'object' || filters === null || Array.isArray(filters)) return undefined;
  const read: Record<string, FilterSupport> = {};
  for (const [name, support] of Object.entries(filters)) {
    if (!DECLARABLE.has(name) || typeof support !== 'object' || support === null) return undefined;
    const { except, moot, most, needs, prefers, types, values } = support as Readonly<Record<string, unknown>>;
    const areKnown =
      (types === undefined || areTypes(types)) &&
      [values, except].every((list) => list === undefined || isListOfTexts(list)) &&
      (most === undefined || (Number.isSafeInteger(most) && (most as number) >= 0)) &&
      [moot, prefers].every((flag) => flag === undefined || typeof flag === 'boolean') &&
      (needs === undefined || needs === 'country' || needs === 'language');
    if (!areKnown) return undefined;
    const given = { except, moot, most, needs, prefers, types, values };
    read[name] = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  }
  return read;
}

function isListOfTexts(list: unknown): boolean {
  return Array.isArray(list) && list.every((text) => typeof text === 'string');
}

/** Whether every entry is a search type, and there is one. */
function areTypes(types: unknown): types is readonly SearchType[] {
  return Array.isArray(types) && types.length > 0 && types.every((type) => SEARCH_TYPES.includes(type as SearchType));
}
