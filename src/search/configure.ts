// Reads the section `search.engines` of the configuration: here the options that every engine has, in `engines/` those of
// its kind. An embedder may put an engine of its own in the place of settings.

import { durationProblem, parseDuration } from '../config/units.ts';
import type { Engine, RateLimit, SearchType } from './engine.ts';
import { MAX_ENGINES } from './engine-board.ts';
import type { EngineSpec } from './engine-client.ts';
import { createEngine, type EngineDeps } from './engines/kinds.ts';
import type { IndexedFolderSettings, LocalEngine } from './engines/local.ts';
import { checkModule, type CheckedModule, type ModuleSettings, readDeclared } from './engines/module.ts';

/** What is wrong with an entry. */
export interface EngineMistake {
  readonly path: string;
  readonly message: string;
}

export interface Configured {
  readonly engines: readonly EngineSpec[];
  readonly mistakes: readonly EngineMistake[];
}

const DEFAULT_CONCURRENCY = 32;

/** Default types of search workers under the ids that the public interface names. */
const TYPES_BY_ID: ReadonlyMap<string, readonly SearchType[]> = new Map([
  ['engine_a', ['web', 'news', 'images']],
  ['engine_b', ['web', 'news', 'images']],
  ['engine_c', ['web']],
  ['engine_d', ['web']],
  ['engine_e', ['web', 'academic']],
]);

/** The name under which `checkModules` adds what is known of a module to the entry of its engine. */
const CHECKED = 'checked';

/**
 * The entries with the modules of kind `module` loaded and checked, each in a thread of its own, so that `configureEngines`
 * need not do so in every thread. Entries with mistakes are left out.
 */
export function checkModules(entries: Readonly<Record<string, unknown>>): {
  readonly entries: Readonly<Record<string, unknown>>;
  readonly mistakes: readonly EngineMistake[];
} {
  const checked: Record<string, unknown> = {};
  const mistakes: EngineMistake[] = [];
  for (const [id, entry] of Object.entries(entries)) {
    if (!isModule(entry)) {
      checked[id] = entry;
      continue;
    }
    try {
      if (CHECKED in entry) throw new Error(`${CHECKED} is no setting of module; it takes path, options`);
      checked[id] = { ...entry, [CHECKED]: checkModule(entry) };
    } catch (error) {
      mistakes.push({ path: `search.engines.${id}`, message: error instanceof Error ? error.message : 'is wrong' });
    }
  }
  return { entries: checked, mistakes };
}

function isModule(entry: unknown): entry is ModuleSettings {
  if (typeof entry !== 'object' || entry === null || isPlugIn(entry)) return false;
  return 'kind' in entry && entry.kind === 'module' && 'path' in entry && typeof entry.path === 'string';
}

/** Reads all entries, and leaves out those with mistakes. `cellOf` gives an engine's place on the board; `deps` are for all engines. */
export function configureEngines(
  entries: Readonly<Record<string, unknown>>,
  cellOf: (id: string) => number,
  deps: EngineDeps = {},
): Configured {
  const engines: EngineSpec[] = [];
  const mistakes: EngineMistake[] = [];
  for (const [index, [id, entry]] of Object.entries(entries).entries()) {
    try {
      if (index >= MAX_ENGINES) throw new Error(`exceeds the maximum of ${MAX_ENGINES} engines`);
      engines.push(configureEngine(id, entry, cellOf(id), deps));
    } catch (error) {
      mistakes.push({ path: `search.engines.${id}`, message: error instanceof Error ? error.message : 'is wrong' });
    }
  }
  return { engines, mistakes };
}

/** The folders that engines of kind `local` search. */
export function foldersOf(engines: readonly Pick<EngineSpec, 'workers'>[]): IndexedFolderSettings[] {
  return engines.flatMap(({ workers }) => workers.flatMap((engine) => (isLocal(engine) ? [engine.folder] : [])));
}

function isLocal(engine: Engine): engine is LocalEngine {
  return engine.kind === 'local' && 'folder' in engine;
}

/** Whether an entry is an engine of the embedder's own. */
export function isPlugIn(entry: unknown): entry is Engine {
  if (typeof entry !== 'object' || entry === null || !('types' in entry) || !('kind' in entry)) return false;
  return 'search' in entry ? typeof entry.search === 'function' : 'parse' in entry && typeof entry.parse === 'function';
}

/** The order in which engines of the embedder came: nothing else tells two of a kind apart. */
const plugIns = new WeakMap<Engine, number>();
let plugInCount = 0;

function numberOf(plugIn: Engine): number {
  const number = plugIns.get(plugIn) ?? ++plugInCount;
  plugIns.set(plugIn, number);
  return number;
}

function configureEngine(id: string, entry: unknown, cell: number, common: EngineDeps): EngineSpec {
  if (isPlugIn(entry)) {
    const declared = readDeclared(entry as unknown as Readonly<Record<string, unknown>>);
    if (typeof declared === 'string') throw new Error(declared);
    return specOf(id, cell, [entry], { generation: numberOf(entry) }, `plug-in ${entry.kind}`);
  }
  if (typeof entry !== 'object' || entry === null) throw new Error('must be a mapping with a kind');
  const { kind, weight, concurrency, rates, hedge, urls, ...written } = entry as Readonly<Record<string, unknown>>;
  if (typeof kind !== 'string') throw new Error('needs a kind');
  const { [CHECKED]: checked, ...withoutChecked } = written;
  const isChecked = kind === 'module' && checked !== undefined;
  const rest = isChecked ? withoutChecked : written;
  const deps: EngineDeps = isChecked ? { ...common, checkedModule: checked as CheckedModule } : common;
  const own = kind === 'worker' ? { engine: id, types: TYPES_BY_ID.get(id) ?? ['web'], ...rest } : rest;
  const workers = addressesOf(urls).map((url) => createEngine(kind, url === null ? own : { ...own, url }, deps));
  const limits = {
    ...(weight === undefined ? {} : { weight: positive('weight', weight) }),
    ...(concurrency === undefined ? {} : { concurrency: Math.ceil(positive('concurrency', concurrency)) }),
    ...(rates === undefined ? {} : { rates: readRates(rates) }),
    ...(hedge === undefined ? {} : { hedgeMs: readDuration('hedge', hedge) }),
  };
  return specOf(id, cell, workers, limits, JSON.stringify(entry));
}

function specOf(
  id: string,
  cell: number,
  workers: readonly Engine[],
  common: Partial<Pick<EngineSpec, 'weight' | 'concurrency' | 'rates' | 'hedgeMs' | 'generation'>>,
  fingerprint: string,
): EngineSpec {
  const [first] = workers;
  return {
    id,
    cell,
    workers,
    fingerprint,
    weight: 1,
    concurrency: first?.concurrency ?? DEFAULT_CONCURRENCY,
    rates: first?.rates ?? [],
    hedgeMs: null,
    ...common,
  };
}

/** The addresses of `urls`; a single null where the engine has one address or none. */
function addressesOf(urls: unknown): readonly (string | null)[] {
  if (urls === undefined) return [null];
  if (!Array.isArray(urls) || urls.length === 0) throw new Error('urls must be a list of base URLs');
  return urls.map((url: unknown) => {
    if (typeof url !== 'string') throw new Error('urls must be a list of base URLs');
    return url;
  });
}

function readRates(rates: unknown): RateLimit[] {
  if (!Array.isArray(rates) || rates.length > 4) throw new Error('rates must be a list of at most 4 limits');
  return rates.map((rate: unknown) => {
    const { requests, per } = (rate ?? {}) as { requests?: unknown; per?: unknown };
    const whole = Math.floor(positive('rates.requests', requests));
    if (whole === 0) throw new Error('rates.requests must be at least 1: write a longer per');
    return { requests: whole, perMs: readDuration('rates.per', per) };
  });
}

function positive(name: string, value: unknown): number {
  if (typeof value !== 'number' || !(value > 0) || !Number.isFinite(value)) throw new Error(`${name} must be above 0`);
  return value;
}

function readDuration(name: string, value: unknown): number {
  const ms = parseDuration(value);
  if (ms === undefined) throw new Error(`${name} ${durationProblem(value)}`);
  if (ms <= 0) throw new Error(`${name} must be longer than 0`);
  return ms;
}
