// Samples the tokens of one sequence eight at a time. With thousands of sequences, a sampler that runs once per step finds
// its data cold in the processor's caches every time. The tokens are the same: a sampler depends on its own past alone.
import type { Sampler } from './sampler.ts';

/** Tokens sampled at a time. */
const TOKENS = 8;

export class LookAhead {
  readonly #sampler: Pick<Sampler, 'next'>;
  readonly #eos: number;
  readonly #tokens = new Int32Array(TOKENS);
  /** Tokens it may still ask the sampler for. */
  #left: number;
  #at = 0;
  #size = 0;
  /** Tokens of the next portion; the first is one token, so that it costs an answer no time to begin. */
  #portion = 1;
  #second = TOKENS;

  /** `maxTokens`: tokens of the sequence, its end not counted. */
  constructor(sampler: Pick<Sampler, 'next'>, eos: number, maxTokens: number) {
    this.#sampler = sampler;
    this.#eos = eos;
    this.#left = maxTokens;
  }

  /** Offsets the second portion by slot, so that sequences that start together sample in different steps. */
  shift(slotId: number): void {
    this.#second = 1 + (Math.abs(slotId) % TOKENS);
  }

  /** The next token of the sampler. */
  next(): number {
    if (this.#at === this.#size) this.#fill();
    return this.#tokens[this.#at++]!;
  }

  #fill(): void {
    const most = Math.max(1, Math.min(this.#portion, this.#left));
    this.#portion = this.#portion === 1 ? this.#second : TOKENS;
    this.#second = TOKENS;
    this.#left -= most;
    this.#at = 0;
    this.#size = 0;
    while (this.#size < most) {
      const token = this.#sampler.next();
      this.#tokens[this.#size++] = token;
      if (token === this.#eos) return;
    }
  }
}
