// The language model of the simulated engine: an interpolated trigram model over the corpus. The probability of the end grows
// with the length of the answer; seeded noise from the prompt and the last tokens makes texts differ. The same seed and
// context always give the same logits.
import type { TokenCandidates } from '../sampling/candidates.ts';
import { type NgramCounts, countCode, countData, countProse } from './ngrams.ts';
import type { TokenContext } from './token-context.ts';
import { type Tokenizer, createTokenizer } from './tokenizer.ts';
import { type Vocabulary, createVocabulary, SPECIAL } from './vocabulary.ts';
/** A model over a vocabulary. */
export interface LanguageModel {
  readonly vocabulary: Vocabulary;
  readonly tokenizer: Tokenizer;
  /** Fills in the logits of the token after the context: at most 64 tokens listed, all others at the floor. */
  logits(context: TokenContext, out: TokenCandidates): void;
}

/** Tokens a context can list, the end of sequence not counted. */
const LISTED = 63;
/** Parts of the trigrams, bigrams and single tokens in the mixture; a missing part goes to the next. */
const TRIGRAM_PART = 0.6;
const BIGRAM_PART = 0.97;
/** Probability of a token that is not listed. Logits are logarithms relative to it, so the floor is 0. */
const FLOOR = 1e-6;
/** Logit of a probability of 1: what all tokens together weigh. */
const LOG_TOTAL = Math.log(1 / FLOOR);
/** Largest change by noise, in nats. */
const NOISE = 0.5;
/** Tokens the noise depends on, besides the prompt. */
const NOISE_WINDOW = 4;
/** After n tokens a sentence is the last one with probability n / (n + this). */
const HALF_LIFE_TOKENS = 256;
/** Beyond this the text may also end within a sentence, so that every text ends. */
const LONG_TOKENS = 768;

/** What is listed after some last tokens. */
interface Listing {
  readonly ids: Int32Array;
  readonly logits: Float64Array;
}

/** Creates the model of a seed. Building it takes some milliseconds; the vocabulary is the same for all seeds. */
export function createLanguageModel(seed: number): LanguageModel {
  const vocabulary = createVocabulary();
  const tokenizer = createTokenizer(vocabulary);
  const { size, eos } = vocabulary;
  const prose = new Listings(countProse(tokenizer, size), size);
  const code = new Listings(countCode(tokenizer, size), size);
  const data = new Listings(countData(tokenizer, size), size);

  /** The last token of the prompt says what kind of text is wanted. */
  function kindOf(context: TokenContext): Listings {
    const starter = context.promptLength > 0 ? context.at(context.promptLength - 1) : SPECIAL.bos;
    return starter === SPECIAL.middle ? code : starter === SPECIAL.call ? data : prose;
  }

  function logits(context: TokenContext, out: TokenCandidates): void {
    const { length } = context;
    const kind = kindOf(context);
    const last = length > 0 ? context.at(length - 1) : SPECIAL.bos;
    const { ids, logits } = kind.after(length > 1 ? context.at(length - 2) : SPECIAL.unknown, last);
    const noiseSeed = noiseSeedOf(context, seed);
    out.clear(0);
    for (let at = 0; at < ids.length; at++) out.add(ids[at]!, logits[at]! + noise(noiseSeed, ids[at]!));
    const odds = endOdds(length - context.promptLength, kind.counts.enders.has(last));
    if (odds > 0) out.add(eos, LOG_TOTAL + Math.log(odds));
  }

  return { vocabulary, tokenizer, logits };
}

/** The listings of one kind of text, made when they are first needed. */
class Listings {
  readonly counts: NgramCounts;
  readonly #vocabularySize: number;
  readonly #byContext = new Map<number, Listing>();

  constructor(counts: NgramCounts, vocabularySize: number) {
    this.counts = counts;
    this.#vocabularySize = vocabularySize;
  }

  after(before: number, last: number): Listing {
    const { trigrams, bigrams } = this.counts;
    const pair = before * this.#vocabularySize + last;
    // Contexts that were never counted share a listing, so there are no more listings than counts.
    const key = trigrams.has(pair) ? pair : bigrams.has(last) ? -2 - last : -1;
    let listing = this.#byContext.get(key);
    if (listing === undefined) {
      listing = createListing(this.counts, pair, last);
      this.#byContext.set(key, listing);
    }
    return listing;
  }
}

function createListing({ trigrams, bigrams, unigrams, total }: NgramCounts, pair: number, last: number): Listing {
  const weights = new Map<number, number>();
  const mix = (followers: ReadonlyMap<number, number> | undefined, part: number): number => {
    if (followers === undefined) return 0;
    let sum = 0;
    for (const count of followers.values()) sum += count;
    for (const [id, count] of followers) weights.set(id, (weights.get(id) ?? 0) + (part * count) / sum);
    return part;
  };
  let mixed = mix(trigrams.get(pair), TRIGRAM_PART);
  mixed += mix(bigrams.get(last), BIGRAM_PART - mixed);
  const rest = 1 - mixed;
  for (const [id, count] of unigrams) weights.set(id, (weights.get(id) ?? 0) + (rest * count) / total);
  const listed = [...weights].sort(([a, x], [b, y]) => y - x || a - b).slice(0, LISTED);
  return {
    ids: Int32Array.from(listed, ([id]) => id),
    logits: Float64Array.from(listed, ([, weight]) => Math.log(Math.max(weight, 2 * FLOOR) / FLOOR)),
  };
}

/** Odds of ending after `generated` tokens against going on. */
function endOdds(generated: number, afterSentence: boolean): number {
  if (generated > 0 && afterSentence) return generated / HALF_LIFE_TOKENS;
  return Math.max(0, generated - LONG_TOKENS) / (8 * LONG_TOKENS);
}

function noiseSeedOf(context: TokenContext, seed: number): number {
  let hash = Math.imul(context.promptHash ^ seed, 0x9e3779b1);
  for (let at = Math.max(0, context.length - NOISE_WINDOW); at < context.length; at++) {
    hash = Math.imul(hash ^ context.at(at), 0x85ebca6b);
    hash ^= hash >>> 13;
  }
  return hash;
}

/** Noise of a token in [-NOISE, NOISE]. */
function noise(noiseSeed: number, id: number): number {
  let hash = Math.imul(noiseSeed ^ Math.imul(id, 0xc2b2ae35), 0x27d4eb2f);
  hash ^= hash >>> 15;
  return ((Math.imul(hash, 0x165667b1) >>> 0) / 4_294_967_295 - 0.5) * 2 * NOISE;
}
