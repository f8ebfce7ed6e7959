// What all threads know of search engines, and the place of every engine in it. Owned by the control plane.

import { MAX_ENGINES } from './configure.ts';
import { createEngineMemory } from './engine-board.ts';

export class EngineCells {
  readonly memory: SharedArrayBuffer = createEngineMemory(MAX_ENGINES);
  readonly #cells = new Map<string, number>();

  /**
   * Places by engine id, of these and of those asked for before: an engine keeps its place for as long as the process
   * lives, so that what is known of it stays its own.
   */
  of(ids: readonly string[]): Record<string, number> {
    for (const id of ids) if (!this.#cells.has(id)) this.#cells.set(id, this.#cells.size % MAX_ENGINES);
    return Object.fromEntries(this.#cells);
  }
}
