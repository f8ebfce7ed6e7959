// The thread that holds the indexes of folders, and the queue before it. Starts with the first query or folder, and again when it ends:
// a query that exhausts its memory or never ends fails alone with the queries beside it. Equal folders have one index.

import { Worker } from 'node:worker_threads';
import { type Clock, systemClock, type TimerHandle } from '../../../actor/index.ts';
import { EngineError, type EngineFailure, type EngineHit, type EngineQuery, ReasonedError } from '../../engine.ts';
import type { IndexedFolderSettings, LocalIndexes } from '../local.ts';

/** To the thread. */
export type IndexCommand =
  | {
      readonly type: 'Find';
      readonly id: number;
      readonly folder: IndexedFolderSettings;
      readonly query: EngineQuery;
    }
  /** Reads these folders and forgets all others. */
  | { readonly type: 'Keep'; readonly folders: readonly IndexedFolderSettings[] };

/** From the thread. */
export type IndexEvent =
  | { readonly type: 'Found'; readonly id: number; readonly hits: readonly EngineHit[] }
  | { readonly type: 'Failed'; readonly id: number; readonly failure: EngineFailure }
  /** A folder is read for the first time, which may take longer than any query. */
  | { readonly type: 'Building' }
  | { readonly type: 'Built' }
  /** For the operator. */
  | { readonly type: 'Notice'; readonly path: string; readonly sentence: string };

export interface IndexThreadOptions {
  readonly clock?: Clock;
  /** Called with a sentence for the operator. */
  readonly onNotice?: (sentence: string) => void;
  /** What the thread runs. */
  readonly script?: URL;
}

/** Queries that wait or run: more could not be answered in time. */
export const MAX_QUERIES = 256;

/** Queries of one folder in the thread: one runs, one is there when it ends. The others can still be cancelled. */
const IN_THREAD = 2;

/** A query of any length takes far less. */
const STUCK_MS = 10_000;

const FIRST_RESTART_MS = 100;
const MAX_RESTART_MS = 5000;

interface Pending {
  readonly id: number;
  readonly folder: Folder;
  readonly query: EngineQuery;
  readonly resolve: (hits: readonly EngineHit[]) => void;
  readonly reject: (error: unknown) => void;
}

interface Folder {
  readonly settings: IndexedFolderSettings;
  readonly waiting: Set<Pending>;
  /** In the thread. */
  running: number;
}

export class IndexThread implements LocalIndexes {
  readonly #clock: Clock;
  readonly #onNotice: (sentence: string) => void;
  readonly #script: URL;
  readonly #folders = new Map<string, Folder>();
  readonly #pending = new Map<number, Pending>();
  #kept: readonly IndexedFolderSettings[] = [];
  #worker: Worker | null = null;
  #restart: TimerHandle | null = null;
  /** Ends in a row, without an answer between. */
  #ends = 0;
  #building = 0;
  #lastEventMs = 0;
  #watch: TimerHandle | null = null;
  #lastId = 0;
  #closed = false;

  constructor({ clock = systemClock, onNotice = () => undefined, script }: IndexThreadOptions = {}) {
    this.#clock = clock;
    this.#onNotice = onNotice;
    this.#script = script ?? new URL('../../../../workers/search-index.js', import.meta.url);
  }

  find(settings: IndexedFolderSettings, query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#closed) throw new ReasonedError('rejected', 'cancelled');
      if (this.#pending.size >= MAX_QUERIES) throw new ReasonedError('rejected', 'index busy');
      const folder = this.#folder(settings);
      const pending: Pending = {
        id: ++this.#lastId,
        folder,
        query,
        resolve: (hits) => {
          signal.removeEventListener('abort', leave);
          resolve(hits);
        },
        reject: (error) => {
          signal.removeEventListener('abort', leave);
          reject(error as Error);
        },
      };
      const leave = (): void => this.#leave(pending, signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      this.#pending.set(pending.id, pending);
      folder.waiting.add(pending);
      this.#start();
      this.#send(folder);
      this.#watchOver();
    });
  }

  /** Reads these folders, so that no search waits for it, and forgets all others. */
  keep(folders: readonly IndexedFolderSettings[]): void {
    if (JSON.stringify(folders) === JSON.stringify(this.#kept)) return;
    this.#kept = folders;
    if (folders.length > 0) this.#start();
    this.#post({ type: 'Keep', folders });
  }

  /** Fails the queries there are. Resolves when the thread has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of [this.#restart, this.#watch]) if (timer !== null) this.#clock.clearTimeout(timer);
    this.#fail(new ReasonedError('rejected', 'cancelled'));
    await this.#worker?.terminate();
  }

  #folder(settings: IndexedFolderSettings): Folder {
    const key = JSON.stringify(settings);
    let folder = this.#folders.get(key);
    if (folder === undefined) {
      folder = { settings, waiting: new Set(), running: 0 };
      this.#folders.set(key, folder);
    }
    return folder;
  }

  #start(): void {
    if (this.#worker !== null || this.#restart !== null || this.#closed) return;
    const worker = new Worker(this.#script, { name: 'search-index' });
    this.#worker = worker;
    this.#building = 0;
    this.#lastEventMs = this.#clock.now();
    let problem: unknown;
    worker.on('message', (event: IndexEvent) => this.#receive(event));
    worker.on('error', (error) => (problem = error));
    worker.on('exit', () => this.#ended(worker, reasonOf(problem)));
    // Only queries keep the process alive.
    if (this.#pending.size === 0) worker.unref();
    if (this.#kept.length > 0) this.#post({ type: 'Keep', folders: this.#kept });
  }

  #post(command: IndexCommand): void {
    this.#worker?.postMessage(command);
  }

  #send(folder: Folder): void {
    if (this.#worker === null) return;
    for (const pending of folder.waiting) {
      if (folder.running >= IN_THREAD) return;
      folder.waiting.delete(pending);
      folder.running++;
      this.#worker.ref();
      this.#post({ type: 'Find', id: pending.id, folder: folder.settings, query: pending.query });
    }
  }

  #receive(event: IndexEvent): void {
    this.#lastEventMs = this.#clock.now();
    switch (event.type) {
      case 'Building':
        this.#building++;
        break;
      case 'Built':
        this.#building--;
        break;
      case 'Notice':
        this.#onNotice(`${event.path}: ${event.sentence}`);
        break;
      case 'Found':
        this.#ends = 0;
        this.#settle(event.id)?.resolve(event.hits);
        break;
      case 'Failed':
        this.#ends = 0;
        this.#settle(event.id)?.reject(new EngineError(event.failure));
        break;
    }
  }

  /** A query has left the thread. Its client may have left before. */
  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    pending.folder.running--;
    this.#send(pending.folder);
    this.#rest();
    return pending;
  }

  /** Without a query, neither the thread nor a timer keeps the process alive. */
  #rest(): void {
    if (this.#pending.size > 0) return;
    this.#worker?.unref();
    if (this.#watch !== null) this.#clock.clearTimeout(this.#watch);
    this.#watch = null;
  }

  /** The client of a query has left. One that is in the thread keeps its place until it is answered. */
  #leave(pending: Pending, reason: unknown): void {
    if (pending.folder.waiting.delete(pending)) this.#pending.delete(pending.id);
    pending.reject(reason);
    this.#rest();
  }

  #ended(worker: Worker, reason: string): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    if (this.#closed) return;
    this.#onNotice(`the search index has ended and is read again: ${reason}`);
    for (const pending of this.#pending.values()) {
      if (pending.folder.waiting.has(pending)) continue;
      this.#pending.delete(pending.id);
      pending.folder.running--;
      pending.reject(new ReasonedError('http', `index ended: ${reason}`));
    }
    this.#rest();
    const waitMs = Math.min(FIRST_RESTART_MS * 2 ** this.#ends++, MAX_RESTART_MS);
    this.#restart = this.#clock.setTimeout(() => {
      this.#restart = null;
      if (this.#kept.length === 0 && this.#pending.size === 0) return;
      this.#start();
      for (const folder of this.#folders.values()) this.#send(folder);
    }, waitMs);
  }

  /** Ends a thread that is silent while it has queries and reads no folder: one query blocks it. */
  #watchOver(): void {
    if (this.#watch !== null) return;
    this.#watch = this.#clock.setTimeout(() => {
      this.#watch = null;
      if (this.#pending.size === 0) return;
      const isStuck = this.#building === 0 && this.#clock.now() - this.#lastEventMs >= STUCK_MS;
      const worker = this.#worker;
      if (isStuck && worker !== null) {
        this.#ended(worker, 'query took too long');
        void worker.terminate();
      }
      this.#watchOver();
    }, STUCK_MS);
  }

  #fail(error: unknown): void {
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
    this.#folders.clear();
  }
}

/** In fixed words: clients read it. */
function reasonOf(problem: unknown): string {
  const { code } = (problem ?? {}) as NodeJS.ErrnoException;
  return code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out of memory' : 'unexpected error';
}
