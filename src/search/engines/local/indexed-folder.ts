// A folder and its index, which is checked for changes when it is searched, at most once every `rescanMs`. Once the folder has been
// read, no query waits for a larger change: it is answered from the index as it is.

import { type Clock, systemClock } from '../../../actor/index.ts';
import { counted } from '../../../config/units.ts';
import { atMost } from '../../../net/abortable.ts';
import { EngineError, type EngineHit, type EngineQuery } from '../../engine.ts';
import type { IndexedFolderSettings } from '../local.ts';
import { Collection } from './collection.ts';

export interface IndexedFolderDeps {
  readonly clock?: Clock;
  /** Called with a sentence for the operator, once for each change of it. */
  readonly onNotice?: (sentence: string) => void;
}

/** How long the query that starts a check waits for it: enough for a few files. */
const PATIENCE_MS = 50;

export class IndexedFolder {
  /** Resolves when the folder was read for the first time, or could not be. */
  readonly built: Promise<void>;
  readonly #collection: Collection;
  readonly #clock: Clock;
  readonly #rescanMs: number;
  readonly #onNotice: (sentence: string) => void;
  #refreshing: Promise<void> | undefined;
  /** When the last successful check began; undefined until the folder could be read. */
  #checkedMs: number | undefined;
  #noticed = '';
  #isClosed = false;

  /** Starts reading. */
  constructor({ rescanMs, ...settings }: IndexedFolderSettings, deps: IndexedFolderDeps = {}) {
    this.#collection = new Collection(settings);
    this.#clock = deps.clock ?? systemClock;
    this.#rescanMs = rescanMs;
    this.#onNotice = deps.onNotice ?? (() => {});
    this.built = this.#refresh();
  }

  /** Stops reading. Searches that wait for the folder are not answered from the part that was read. */
  close(): void {
    this.#isClosed = true;
    this.#collection.close();
  }

  /** The best hits. Rejects with `EngineError` only when the folder could never be read, or is closed. */
  async find(query: EngineQuery): Promise<EngineHit[]> {
    await this.#upToDate();
    if (this.#checkedMs === undefined || this.#isClosed) throw new EngineError('invalid');
    return this.#collection.find(query);
  }

  async #upToDate(): Promise<void> {
    if (this.#checkedMs === undefined) await this.#refresh();
    else if (this.#refreshing === undefined && this.#clock.now() - this.#checkedMs >= this.#rescanMs)
      await atMost(this.#clock, PATIENCE_MS, this.#refresh());
  }

  /** Queries that come before the folder has been read wait for the same check. */
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
      this.#notice(
        leftOut === 0
          ? ''
          : `${counted(leftOut, 'file')} ${leftOut === 1 ? 'is' : 'are'} not searched: more than maxFiles or maxBytes, or above 256 MiB`,
      );
    } catch {
      this.#notice('the folder cannot be read');
    }
  }

  #notice(sentence: string): void {
    if (sentence !== this.#noticed && sentence !== '') this.#onNotice(sentence);
    this.#noticed = sentence;
  }
}
