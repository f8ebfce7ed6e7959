// The grammars of one vocabulary that were used last, within bounds on their number and their memory: they grow with use.
import type { Vocabulary } from '../model/vocabulary.ts';
import { type TokenGrammar, createTokenGrammar } from './grammar-mask.ts';

const MAX_GRAMMARS = 64;
/** Of all of them, by `TokenGrammar.size`: some 250 MB. */
const MAX_SIZE = 1_000_000;

export class GrammarCache {
  readonly #vocabulary: Vocabulary;
  /** By their text, the one used last at the end. */
  readonly #kept = new Map<string, TokenGrammar>();

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** Throws a GrammarError for text that is no usable grammar. */
  get(text: string): TokenGrammar {
    const grammar = this.#kept.get(text) ?? createTokenGrammar(text, this.#vocabulary);
    this.#kept.delete(text);
    let size = grammar.size;
    for (const kept of this.#kept.values()) size += kept.size;
    for (const [oldest, kept] of this.#kept) {
      if (size <= MAX_SIZE && this.#kept.size < MAX_GRAMMARS) break;
      this.#kept.delete(oldest);
      size -= kept.size;
    }
    this.#kept.set(text, grammar);
    return grammar;
  }
}
