// Text of the `paced` profile: a bigram chain over one paragraph, walked by a seeded generator. One word is one token. The
// same seed always gives the same words, and nothing of a prompt can appear in an answer.
import { createSeededRandom } from '../../../actor/index.ts';
import { fnv1a } from '../../../routing/index.ts';

const PARAGRAPH = `The headrace leads the water from the river to the wheel, and the wheel turns the mill. When the water
is high the miller opens the second gate, so that no wheel carries more than its share. A gate that sticks is closed and
looked at before the water may pass again. The rivière above the weir is calm, yet the channel below it is never silent.
Every bucket of the wheel takes what it can hold and gives it back to the tailrace. The Mühle by the bridge grinds rye in
the morning and oats when the wind is cold. No grain waits long, because the miller knows which stone is warm and which
stone was dressed last. If the first wheel stops, the water finds the next one, and the mill hardly notices the change.
In a dry summer the pond is kept for the night, and the flour is milled while the village sleeps. The old 水車 by the
temple turned for a hundred years before its axle was changed. A good channel is straight, short and clean, and whoever
keeps it walks its length every day.`;

const WORDS: readonly string[] = PARAGRAPH.split(/\s+/);
const SPACED: readonly string[] = WORDS.map((word) => ` ${word}`);
const SENTENCE_STARTS: readonly number[] = WORDS.flatMap((_, at) =>
  at === 0 || WORDS[at - 1]!.endsWith('.') ? [at] : [],
);
const FOLLOWERS: readonly (readonly number[])[] = WORDS.map((word) =>
  WORDS.flatMap((other, at) => (other === word ? [(at + 1) % WORDS.length] : [])),
);

/** Past this many characters only the two ends of a prompt are hashed, so that a long prompt costs no more. */
const HASHED_CHARACTERS = 4096;

/** Hash of the seed, the model and the prompt (its length and its two ends when it is long). */
export function seedOf(seed: number, model: string, prompt: string): number {
  const half = HASHED_CHARACTERS / 2;
  const ends = prompt.length > HASHED_CHARACTERS ? prompt.slice(0, half) + prompt.slice(-half) : prompt;
  return fnv1a(`${seed} ${model} ${prompt.length} ${ends}`) >>> 0;
}

/** The words as tokens: `at` is the word without, `at + WORDS.length` the word with a space before it. */
export const WORD_VOCABULARY: { readonly eos: number; text(token: number): string; bytes(token: number): Uint8Array } =
  {
    eos: 2 * WORDS.length,
    text: (token) => (token < WORDS.length ? WORDS[token]! : SPACED[token - WORDS.length]!),
    bytes: (token) => Buffer.from(WORD_VOCABULARY.text(token)),
  };

/** A walk of `count` words; then every token is the end of sequence. Some words are not ASCII. */
export class WordChain {
  readonly probabilities: readonly never[] = [];
  readonly logProbabilities: null = null;
  readonly #random: () => number;
  #at: number;
  #left: number;
  #offset = 0;

  constructor(seed: number, count: number) {
    this.#random = createSeededRandom(seed);
    this.#at = SENTENCE_STARTS[Math.floor(this.#random() * SENTENCE_STARTS.length)]!;
    this.#left = count;
  }

  next(): number {
    if (this.#left-- <= 0) return WORD_VOCABULARY.eos;
    const token = this.#at + this.#offset;
    this.#offset = WORDS.length;
    const followers = FOLLOWERS[this.#at]!;
    this.#at = followers.length === 1 ? followers[0]! : followers[Math.floor(this.#random() * followers.length)]!;
    return token;
  }
}

/** Tokens of a prompt, estimated as a quarter of its characters, at least 1: counting words would cost a scan. */
export function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / 4));
}
