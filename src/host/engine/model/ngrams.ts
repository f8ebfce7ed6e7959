// N-gram counts of the corpus, one set for each kind of text. A text begins after each token that ends a prompt of its kind,
// so that an answer starts like a text.
import { CODE, DATA, PROSE } from './corpus.ts';
import type { Tokenizer } from './tokenizer.ts';
import { SPECIAL } from './vocabulary.ts';

/** Counts of one kind of text, by token id. */
export interface NgramCounts {
  /** Followers of two tokens, under `before * vocabulary size + last`. */
  readonly trigrams: ReadonlyMap<number, ReadonlyMap<number, number>>;
  /** Followers of a token. */
  readonly bigrams: ReadonlyMap<number, ReadonlyMap<number, number>>;
  /** The most frequent tokens with their counts. */
  readonly unigrams: readonly (readonly [id: number, count: number])[];
  /** Sum of the counts of all tokens, of the frequent ones and the others. */
  readonly total: number;
  /** Tokens after which a text may end. */
  readonly enders: ReadonlySet<number>;
}

/** Single tokens that are listed after any context. */
const FREQUENT = 56;
const { bos, endOfTurn, assistant, call, middle } = SPECIAL;
const SENTENCE_END = /[.!?]"?$/;

type Followers = Map<number, Map<number, number>>;

/** Counts the prose: answers, and all that has no better kind. */
export function countProse(tokenizer: Tokenizer, vocabularySize: number): NgramCounts {
  const counter = new Counter(tokenizer, vocabularySize);
  countParagraphs(counter);
  return counter.counts();
}

/** Counts the code, which fills the middle of an infill prompt. */
export function countCode(tokenizer: Tokenizer, vocabularySize: number): NgramCounts {
  const counter = new Counter(tokenizer, vocabularySize);
  for (const text of CODE) counter.read(text, [middle], /\n$/);
  return counter.counts();
}

/** Counts the JSON, which follows the start of a tool call; its strings read like prose. */
export function countData(tokenizer: Tokenizer, vocabularySize: number): NgramCounts {
  const counter = new Counter(tokenizer, vocabularySize);
  for (const text of DATA) counter.read(text, [call], /\}$/);
  countParagraphs(counter);
  return counter.counts();
}

function countParagraphs(counter: Counter): void {
  for (const [at, text] of PROSE.entries()) {
    // A paragraph is followed by the first word of the next, so that texts can go on after a break.
    const next = PROSE[(at + 1) % PROSE.length]!.split(' ')[0]!;
    counter.read(`${text}\n\n${next}`, [bos, assistant, endOfTurn], SENTENCE_END);
  }
}

class Counter {
  readonly #tokenizer: Tokenizer;
  readonly #vocabularySize: number;
  readonly #trigrams: Followers = new Map();
  readonly #bigrams: Followers = new Map();
  readonly #singles = new Map<number, number>();
  readonly #enders = new Set<number>();
  #total = 0;

  constructor(tokenizer: Tokenizer, vocabularySize: number) {
    this.#tokenizer = tokenizer;
    this.#vocabularySize = vocabularySize;
  }

  /** Counts a text after each starter. Tokens whose text fits `end` may end a text. */
  read(text: string, starters: readonly number[], end: RegExp): void {
    const tokens = [...this.#tokenizer.tokenize(text)];
    this.#total += tokens.length;
    for (const token of tokens) {
      this.#singles.set(token, (this.#singles.get(token) ?? 0) + 1);
      if (end.test(this.#tokenizer.detokenize([token]))) this.#enders.add(token);
    }
    for (const starter of starters) this.#follow([starter, ...tokens]);
  }

  counts(): NgramCounts {
    const unigrams = [...this.#singles].sort(([a, x], [b, y]) => y - x || a - b).slice(0, FREQUENT);
    return {
      trigrams: this.#trigrams,
      bigrams: this.#bigrams,
      unigrams,
      total: this.#total,
      enders: this.#enders,
    };
  }

  #follow(tokens: readonly number[]): void {
    for (let at = 1; at < tokens.length; at++) {
      count(this.#bigrams, tokens[at - 1]!, tokens[at]!);
      if (at > 1) count(this.#trigrams, tokens[at - 2]! * this.#vocabularySize + tokens[at - 1]!, tokens[at]!);
    }
  }
}

function count(followers: Followers, key: number, next: number): void {
  let counts = followers.get(key);
  if (counts === undefined) followers.set(key, (counts = new Map()));
  counts.set(next, (counts.get(next) ?? 0) + 1);
}
