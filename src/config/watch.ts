// Watches a configuration file and reports its text when it has changed. It notices all ways in which files are replaced: by
// editors that rename and create, atomically, and by the symlink swap of mounted config maps. The directory is watched, and
// the text is compared at intervals in case no event arrives.

import { constants, readFileSync, statSync, watch, type FSWatcher } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { printBytes } from './units.ts';

/** Opening a pipe does not wait for its writer. Windows has no such flag. */
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

export interface ConfigWatchOptions {
  /** The file has new content, given as text, or can be read again. Not called for a rewrite of the same text. */
  readonly onChange: (text: string) => void;
  /** The file cannot be read, or is a device or pipe, which has no end; called once until it can be read again. */
  readonly onError: (error: Error) => void;
  /** Time without a further event before the file is read, in milliseconds. Default 200. */
  readonly debounceMs?: number;
  /** Interval of the comparisons that need no event, in milliseconds. Default 2000. */
  readonly pollMs?: number;
  /** A larger file cannot be read. Default: no limit. */
  readonly maxBytes?: number;
  /** Whether the present text is reported too, as the first change. Default false. */
  readonly reportFirst?: boolean;
}

export interface ConfigWatch {
  /** Stops watching; neither callback runs afterwards. */
  close(): void;
}

/** Starts to watch. The present text of the file is no change, unless `reportFirst` says so. The watch does not keep the process alive. */
export function watchConfig(path: string, options: ConfigWatchOptions): ConfigWatch {
  return new FileWatch(path, options);
}

class FileWatch implements ConfigWatch {
  readonly #path: string;
  readonly #options: ConfigWatchOptions;
  readonly #poll: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #pending: NodeJS.Timeout | undefined;
  /** Undefined while the file cannot be read and nothing was ever read. */
  #text: string | undefined;
  #unreadable = false;
  #closed = false;

  constructor(path: string, options: ConfigWatchOptions) {
    this.#path = path;
    this.#options = options;
    if (options.reportFirst === true) {
      void this.#settle();
    } else {
      try {
        // What a pipe has is for the one who reads the configuration.
        if (statSync(path).isFile()) this.#text = readFileSync(path, 'utf8');
      } catch {
        this.#schedule();
      }
    }
    this.#watchDirectory();
    this.#poll = setInterval(() => void this.#compare(), options.pollMs ?? 2000).unref();
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#poll);
    clearTimeout(this.#pending);
    this.#watcher?.close();
  }

  /**
   * Reacts to events of the file itself and of the `..data` links of mounted config maps. Events of other files are ignored:
   * a database or log in the same directory would delay the debounced read forever.
   */
  #watchDirectory(): void {
    const ownName = basename(this.#path);
    try {
      this.#watcher = watch(dirname(this.#path), { persistent: false }, (_event, name) => {
        if (name === null || name === ownName || name.startsWith('..')) this.#schedule();
      });
      // Without a watcher (directory removed, no handles left) changes are found by comparison alone.
      this.#watcher.on('error', () => this.#watcher?.close());
    } catch {
      this.#watcher = undefined;
    }
  }

  #schedule(): void {
    if (this.#closed) return;
    clearTimeout(this.#pending);
    this.#pending = setTimeout(() => void this.#settle(), this.#options.debounceMs ?? 200).unref();
  }

  /** A difference that is found without an event may be a file half written, so it is debounced like the others. */
  async #compare(): Promise<void> {
    const state = await this.#readState();
    const same = typeof state === 'string' ? state === this.#text && !this.#unreadable : this.#unreadable;
    if (!same) this.#schedule();
  }

  async #settle(): Promise<void> {
    const state = await this.#readState();
    if (this.#closed) return;
    if (typeof state !== 'string') {
      if (!this.#unreadable) this.#options.onError(state);
      this.#unreadable = true;
      return;
    }
    if (state === this.#text && !this.#unreadable) return;
    this.#unreadable = false;
    this.#text = state;
    this.#options.onChange(state);
  }

  async #readState(): Promise<string | Error> {
    const { maxBytes = Infinity } = this.#options;
    let file: FileHandle | undefined;
    try {
      file = await open(this.#path, READ);
      const stats = await file.stat();
      if (!stats.isFile()) return new Error('is no regular file');
      if (stats.size > maxBytes) return new Error(`is larger than ${printBytes(maxBytes)}`);
      return await file.readFile('utf8');
    } catch (error) {
      return error as Error;
    } finally {
      await file?.close();
    }
  }
}
