// Log probabilities of the language model alone, before bias, penalties, samplers and grammar.
import type { TokenCandidates } from './candidates.ts';

/** A token with the natural logarithm of its probability. */
export interface TokenLogProbability {
  readonly token: number;
  readonly logProbability: number;
}

/** The distribution of the last token of one sequence. */
export class LogProbabilities {
  readonly #most: number;
  #ids: Int32Array = new Int32Array(0);
  #logits: Float64Array = new Float64Array(0);
  #floor = -Infinity;
  #vocabularySize = 0;
  /** Logarithm of what all tokens weigh together. */
  #total = 0;

  /** `most` is how many tokens `most()` lists. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Takes a distribution that nothing has changed yet. */
  observe({ ids, logits, size, floor, vocabularySize }: TokenCandidates): void {
    this.#ids = ids.slice(0, size);
    this.#logits = logits.slice(0, size);
    this.#floor = floor;
    this.#vocabularySize = vocabularySize;
    const highest = this.#logits.reduce((most, logit) => Math.max(most, logit), floor);
    let sum = (vocabularySize - size) * Math.exp(floor - highest);
    for (const logit of this.#logits) sum += Math.exp(logit - highest);
    this.#total = highest + Math.log(sum);
  }

  of(token: number): number {
    const place = this.#ids.indexOf(token);
    return (place < 0 ? this.#floor : this.#logits[place]!) - this.#total;
  }

  /** The most likely tokens, falling; among equals the lower id first. */
  most(): TokenLogProbability[] {
    const listed = Array.from(this.#ids, (token, at) => ({ token, logit: this.#logits[at]! }));
    // Of the tokens that share the floor no more can be among the most likely ones.
    for (let token = 0; token < this.#vocabularySize && listed.length < this.#ids.length + this.#most; token++) {
      if (!this.#ids.includes(token)) listed.push({ token, logit: this.#floor });
    }
    listed.sort((a, b) => b.logit - a.logit || a.token - b.token);
    return listed.slice(0, this.#most).map(({ token, logit }) => ({ token, logProbability: logit - this.#total }));
  }
}
