// The sampler of a generation whose text is given: its tokens in order, then the end of sequence. It has no probabilities.
import type { Sampler } from './sampler.ts';

export class FixedTokens implements Pick<Sampler, 'next' | 'probabilities' | 'logProbabilities'> {
  readonly probabilities: readonly never[] = [];
  readonly logProbabilities: null = null;
  readonly #tokens: Int32Array;
  readonly #eos: number;
  #at = 0;

  constructor(tokens: Int32Array, eos: number) {
    this.#tokens = tokens;
    this.#eos = eos;
  }

  next(): number {
    return this.#tokens[this.#at++] ?? this.#eos;
  }
}
