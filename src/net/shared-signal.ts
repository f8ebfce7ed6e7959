// Wakes one thread when another one has written something into memory that they share, so that nobody has to look there again and again.
// A word of that memory says whether the thread waits: threads that write read it, and change it only when it does.

const AWAKE = 0;
const WAITS = 1;

export class SharedSignal {
  readonly #words: Int32Array;
  readonly #at: number;
  #wake: (() => void) | null = null;

  /** `at`: a word that nothing else uses; 0 at first. */
  constructor(words: Int32Array, at: number) {
    this.#words = words;
    this.#at = at;
  }

  /** For every thread: wakes the one that waits, if any. To be called after what was written. */
  raise(): void {
    if (Atomics.load(this.#words, this.#at) === AWAKE) return;
    if (Atomics.exchange(this.#words, this.#at, AWAKE) === WAITS) Atomics.notify(this.#words, this.#at);
  }

  /**
   * For the one thread that waits: calls `wake` once, in a later turn of the loop, after the next `raise`. The waiting thread must look at what may
   * have been written between its last look and this call. A second call replaces the first one.
   */
  wait(wake: () => void): void {
    const isWaiting = this.#wake !== null;
    this.#wake = wake;
    if (isWaiting) return;
    Atomics.store(this.#words, this.#at, WAITS);
    const { async: isAsync, value } = Atomics.waitAsync(this.#words, this.#at, WAITS);
    void (isAsync ? value : Promise.resolve()).then(() => {
      const woken = this.#wake;
      this.#wake = null;
      woken?.();
    });
  }

  /** For the thread that waits: it does not wait any more, and is not called. */
  stop(): void {
    if (this.#wake === null) return;
    this.#wake = ignore;
    this.raise();
  }
}

function ignore(): void {}
