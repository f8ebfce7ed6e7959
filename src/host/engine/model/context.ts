// What the model has read: the prompt, shared and never copied, and the tokens generated after it.
// The sampler owns one per sequence and appends what it chose; the language model and the penalties read it.

/** Tokens of one sequence, oldest first. */
export interface Context {
  readonly length: number;
  readonly promptLength: number;
  /** 32-bit hash of the whole prompt: what an answer is about. */
  readonly gist: number;
  /** The token at an index below `length`. */
  at(index: number): number;
  push(token: number): void;
}

/** Starts a context. The prompt must not change afterwards. */
export function createContext(prompt: Int32Array): Context {
  return new GrowingContext(prompt);
}

/** Room for generated tokens at first; more is added by doubling. */
const FIRST_ROOM_TOKENS = 64;

class GrowingContext implements Context {
  readonly #prompt: Int32Array;
  #generated = new Int32Array(FIRST_ROOM_TOKENS);
  #count = 0;
  readonly promptLength: number;
  readonly gist: number;

  constructor(prompt: Int32Array) {
    this.#prompt = prompt;
    this.promptLength = prompt.length;
    let hash = 0x811c9dc5;
    for (const token of prompt) hash = Math.imul(hash ^ token, 0x01000193);
    this.gist = hash >>> 0;
  }

  get length(): number {
    return this.promptLength + this.#count;
  }

  at(index: number): number {
    return (index < this.promptLength ? this.#prompt[index] : this.#generated[index - this.promptLength])!;
  }

  push(token: number): void {
    if (this.#count === this.#generated.length) {
      // Outside the heap that is collected: thousands of growing texts would be copied and marked again and again.
      const wider = new Int32Array(this.#count * 2);
      wider.set(this.#generated);
      this.#generated = wider;
    }
    this.#generated[this.#count++] = token;
  }
}
