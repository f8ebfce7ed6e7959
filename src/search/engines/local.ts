// Engine kind `local`: full-text search over a folder of Markdown, HTML, plain text and JSONL files, in this process. The
// folder is read when the engine is made; a query checks it for changes first, at most once every `rescanMs`.

import { systemClock, type Clock } from '../../actor/index.ts';
import { EngineError, type EngineHit, type EngineQuery, type InProcessEngine } from '../engine.ts';
import { Collection } from './local/collection.ts';

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

export interface LocalDeps {
  readonly clock?: Clock;
  /** Called with a sentence for the operator, once for each change of it. */
  readonly onNotice?: (sentence: string) => void;
}

/** Makes the engine and starts reading. Throws without `path` and for a `baseUrl` that is none. */
export function local(settings: LocalSettings, deps: LocalDeps = {}): InProcessEngine {
  if (!settings.path) throw new Error('needs path');
  const folder = new IndexedFolder(settings, deps);
  return {
    kind: 'local',
    documentation: 'https://lucaong.github.io/minisearch/',
    types: ['web', 'news', 'images'],
    async search(query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]> {
      const collection = await folder.current();
      signal.throwIfAborted();
      return collection.find(query);
    },
  };
}

/** Keeps a collection no older than `rescanMs`. */
class IndexedFolder {
  readonly #collection: Collection;
  readonly #clock: Clock;
  readonly #rescanMs: number;
  readonly #onNotice: (sentence: string) => void;
  #refreshing: Promise<void> | undefined;
  /** When the last successful check began; undefined until the folder could be read. */
  #checkedMs: number | undefined;
  #noticed = '';

  constructor(settings: LocalSettings, deps: LocalDeps) {
    this.#collection = new Collection({
      path: settings.path,
      baseUrl: folderUrl(settings.baseUrl ?? 'http://local.invalid/'),
      maxFiles: settings.maxFiles ?? 10_000,
      maxBytes: settings.maxBytes ?? 32 * 2 ** 20,
    });
    this.#clock = deps.clock ?? systemClock;
    this.#rescanMs = settings.rescanMs ?? 2000;
    this.#onNotice = deps.onNotice ?? (() => {});
    void this.#refresh();
  }

  /** The collection, checked at most `rescanMs` ago. Rejects only when the folder could never be read. */
  async current(): Promise<Collection> {
    const now = this.#clock.now();
    const fresh = this.#checkedMs !== undefined && now - this.#checkedMs < this.#rescanMs;
    if (this.#refreshing !== undefined || !fresh) await this.#refresh();
    if (this.#checkedMs === undefined) throw new EngineError('invalid');
    return this.#collection;
  }

  /** Queries that come while the folder is being read wait for the same check. */
  #refresh(): Promise<void> {
    this.#refreshing ??= this.#check().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #check(): Promise<void> {
    const startedMs = this.#clock.now();
    try {
      await this.#collection.refresh();
      this.#checkedMs = startedMs;
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
