// Kind `local`: full-text search over a folder of Markdown, HTML, plain text and JSONL files, without a service. The
// folder is read when the engine is made; a query looks for changes first, at most once every `rescanMs`.

import { systemClock, type Clock } from '../../actor/index.ts';
import { EngineError, type EngineHit, type EngineQuery, type InProcessEngine } from '../engine.ts';
import { Collection } from './local/collection.ts';

export interface LocalSettings {
  /** The folder. Files with hidden names and links that lead out of it are not read. */
  readonly path: string;
  /**
   * URL of the folder for the URLs of hits: `https://docs.example/` makes `https://docs.example/guide/start.md`. A record
   * or front matter may carry its own `url`. Default `http://local.invalid/`, which leads nowhere.
   */
  readonly baseUrl?: string;
  /** Most files read, in order of their paths. Default 10,000. */
  readonly maxFiles?: number;
  /** Most bytes read, all files together; the index takes up to ten times as much memory. Default 32 MiB. */
  readonly maxBytes?: number;
  /** Shortest time between two looks for changes, in milliseconds. Default 2000. */
  readonly rescanMs?: number;
}

/** What surrounds the engine; not part of the configuration. */
export interface LocalSurroundings {
  readonly clock?: Clock;
  /** Told in a sentence what the operator should know, once for each change of it. */
  readonly onNotice?: (sentence: string) => void;
}

/** Makes the engine and starts reading. Throws without `path` and for a `baseUrl` that is none. */
export function local(settings: LocalSettings, surroundings: LocalSurroundings = {}): InProcessEngine {
  if (!settings.path) throw new Error('needs path');
  const shelf = new Shelf(settings, surroundings);
  return {
    kind: 'local',
    documentation: 'https://lucaong.github.io/minisearch/',
    types: ['web', 'news', 'images'],
    async search(query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]> {
      const collection = await shelf.current();
      signal.throwIfAborted();
      return collection.find(query);
    },
  };
}

/** Keeps a collection no older than `rescanMs`. */
class Shelf {
  readonly #collection: Collection;
  readonly #clock: Clock;
  readonly #rescanMs: number;
  readonly #onNotice: (sentence: string) => void;
  #refreshing: Promise<void> | undefined;
  /** When the last look began; undefined until the folder could be read. */
  #lookedMs: number | undefined;
  #noticed = '';

  constructor(settings: LocalSettings, surroundings: LocalSurroundings) {
    this.#collection = new Collection({
      path: settings.path,
      baseUrl: folderUrl(settings.baseUrl ?? 'http://local.invalid/'),
      maxFiles: settings.maxFiles ?? 10_000,
      maxBytes: settings.maxBytes ?? 32 * 2 ** 20,
    });
    this.#clock = surroundings.clock ?? systemClock;
    this.#rescanMs = settings.rescanMs ?? 2000;
    this.#onNotice = surroundings.onNotice ?? (() => {});
    void this.#refresh();
  }

  /** The collection after a look that is new enough. Rejects only when the folder could never be read. */
  async current(): Promise<Collection> {
    const now = this.#clock.now();
    const fresh = this.#lookedMs !== undefined && now - this.#lookedMs < this.#rescanMs;
    if (this.#refreshing !== undefined || !fresh) await this.#refresh();
    if (this.#lookedMs === undefined) throw new EngineError('invalid');
    return this.#collection;
  }

  /** Queries that come while the folder is being read wait for the same reading. */
  #refresh(): Promise<void> {
    this.#refreshing ??= this.#look().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #look(): Promise<void> {
    const startedMs = this.#clock.now();
    try {
      await this.#collection.refresh();
      this.#lookedMs = startedMs;
      const { leftOut } = this.#collection;
      this.#notice(leftOut === 0 ? '' : `${leftOut} files are not searched: more than maxFiles or maxBytes`);
    } catch {
      this.#notice('the folder cannot be read');
    }
  }

  #notice(sentence: string): void {
    if (sentence !== this.#noticed && sentence !== '') this.#onNotice(sentence);
    this.#noticed = sentence;
  }
}

function folderUrl(written: string): string {
  const url = URL.parse(written.endsWith('/') ? written : `${written}/`);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new Error('needs an http or https URL as baseUrl');
  return url.href;
}
