// The tokens that the model has read: the prompt, shared and never copied, and the tokens generated after it.
/** Room for generated tokens at first; more is added by doubling. */
const FIRST_ROOM_TOKENS = 64;

/** Tokens of one sequence, oldest first. The prompt must not change. */
export class TokenContext {
  readonly #prompt: Int32Array;
  #generated = new Int32Array(FIRST_ROOM_TOKENS);
  #count = 0;
  readonly promptLength: number;
  /** 32-bit hash of the whole prompt: other prompts get other answers. */
  readonly promptHash: number;

  constructor(prompt: Int32Array) {
    this.#prompt = prompt;
    this.promptLength = prompt.length;
    let hash = 0x811c9dc5;
    for (const token of prompt) hash = Math.imul(hash ^ token, 0x01000193);
    this.promptHash = hash >>> 0;
  }

  get length(): number {
    return this.promptLength + this.#count;
  }

  /** The token at an index below `length`. */
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
