// Watches the configuration file and hands out its text when it has changed; the running program reloads with it. Robust against the ways files get replaced: editors that rename and create, atomic replacement, the symlink swap
// of mounted config maps. The directory is watched, and the text is compared at intervals in case no event arrives.

import { readFileSync, watch, type FSWatcher } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

export interface ConfigWatchOptions {
  /** The file has new content, given as text. Not called for a rewrite of the same text. */
  readonly onChange: (text: string) => void;
  /** The file cannot be read; called once until it can be read again. */
  readonly onError: (error: Error) => void;
  /** Quiet time after the last sign of a change before the file is read, in milliseconds. Default 200. */
  readonly debounceMs?: number;
  /** Time between two comparisons without an event, in milliseconds. Default 2000. */
  readonly pollMs?: number;
}

export interface ConfigWatch {
  /** Stops watching; neither callback runs afterwards. */
  close(): void;
}

/** Starts to watch. What the file holds now is the state that changes are measured against. Keeps no process alive. */
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
    try {
      this.#text = readFileSync(path, 'utf8');
    } catch {
      this.#schedule();
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
   * Events of the file itself and of the `..data` links of mounted config maps count. Others must not: a database or
   * log beside the file would put off the debounced read forever.
   */
  #watchDirectory(): void {
    const ownName = basename(this.#path);
    try {
      this.#watcher = watch(dirname(this.#path), { persistent: false }, (_event, name) => {
        if (name === null || name === ownName || name.startsWith('..')) this.#schedule();
      });
      // Without a watcher (directory gone, no handles left) the comparison at intervals carries on alone.
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

  /** A difference found between events may be a file half written, so it waits like any other. */
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
    this.#unreadable = false;
    if (state === this.#text) return;
    this.#text = state;
    this.#options.onChange(state);
  }

  async #readState(): Promise<string | Error> {
    try {
      return await readFile(this.#path, 'utf8');
    } catch (error) {
      return error as Error;
    }
  }
}
