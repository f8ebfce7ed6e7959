// Reads anew what has changed in the store. One read is under way at a time, and what changes meanwhile is read after it, so
// that an older read never overwrites a newer one.

export interface StoreReaderDeps {
  readonly onProblem: (error: unknown, name: string) => void;
  /** Runs after a pause. */
  readonly later: (run: () => void) => void;
}

export class StoreReader {
  readonly #deps: StoreReaderDeps;
  /** What is to be read, by its name, in order of the first request. */
  readonly #pending = new Map<string, () => Promise<void>>();
  #reading = false;

  constructor(deps: StoreReaderDeps) {
    this.#deps = deps;
  }

  /** `read` reads and applies the thing of this name. It runs once for all requests that come before it begins. */
  request(name: string, read: () => Promise<void>): void {
    this.#pending.set(name, read);
    void this.#run();
  }

  async #run(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    for (const [name, read] of this.#pending) {
      this.#pending.delete(name);
      try {
        await read();
      } catch (error) {
        if (!this.#pending.has(name)) this.#pending.set(name, read);
        this.#deps.onProblem(error, name);
        this.#deps.later(() => void this.#run());
        break;
      }
    }
    this.#reading = false;
  }
}
