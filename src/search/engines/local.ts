// Engine kind `local`: full-text search over a folder of Markdown, HTML, plain text and JSONL files. The index is in a thread that all
// others share: this thread only passes queries on.

import type { EngineFilters, EngineHit, EngineQuery, InProcessEngine } from '../engine.ts';
import { IndexThread } from './local/index-thread.ts';

export interface LocalSettings {
  /** The folder. Files with hidden names and links that lead out of it are not read. */
  readonly path: string;
  /**
   * URL of the folder, for the URLs of hits: `https://docs.example/` gives `https://docs.example/guide/start.md`. A record
   * or front matter may have a `url` of its own. Default `http://local.invalid/`, which cannot be opened.
   */
  readonly baseUrl?: string;
  /** Most files read, in order of their paths. Default 10,000. */
  readonly maxFiles?: number;
  /** Most bytes read, all files together; the index takes up to ten times as much memory. Default 32 MiB. */
  readonly maxBytes?: number;
  /** Shortest time between two checks for changes, in milliseconds. Default 2000. */
  readonly rescanMs?: number;
}

/** The settings of a folder with their defaults. Equal folders have one index. */
export interface IndexedFolderSettings {
  readonly path: string;
  /** Ends with a slash. */
  readonly baseUrl: string;
  readonly maxFiles: number;
  readonly maxBytes: number;
  readonly rescanMs: number;
}

/** The indexes of folders, wherever they are. */
export interface LocalIndexes {
  /** The best hits. Rejects with `EngineError`, or with the reason of `signal` when it fires first. Never blocks the caller's thread. */
  find(folder: IndexedFolderSettings, query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]>;
}

export interface LocalDeps {
  /** Default: a thread of the engine's own, which starts with its first search. */
  readonly indexes?: LocalIndexes;
}

/** The index answers one query of a folder after another: all others wait where accounts take turns. */
const CONCURRENCY = 2;

/** What is in the folder is its owner's choice. */
const FILTERS: EngineFilters = {
  includeDomains: {},
  excludeDomains: {},
  country: { moot: true },
  safeSearch: { moot: true },
  page: {},
};

export interface LocalEngine extends InProcessEngine {
  readonly folder: IndexedFolderSettings;
}

export function local(settings: LocalSettings, deps: LocalDeps = {}): LocalEngine {
  const { path, baseUrl = 'http://local.invalid/' } = settings;
  const folder: IndexedFolderSettings = {
    path,
    baseUrl: baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`,
    maxFiles: settings.maxFiles ?? 10_000,
    maxBytes: settings.maxBytes ?? 32 * 2 ** 20,
    rescanMs: settings.rescanMs ?? 2000,
  };
  let { indexes } = deps;
  return {
    kind: 'local',
    documentation: 'https://lucaong.github.io/minisearch/',
    types: ['web', 'news', 'images'],
    concurrency: CONCURRENCY,
    filters: FILTERS,
    folder,
    search(query, signal) {
      indexes ??= new IndexThread();
      return indexes.find(folder, query, signal);
    },
  };
}
