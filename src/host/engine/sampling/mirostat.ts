// Mirostat 1 and 2 (Basu et al., "Mirostat: a neural text decoding algorithm that directly controls perplexity"): truncates
// the distribution so that the surprise of the chosen tokens approaches a target. The state mu, in bits, starts at twice the
// target.
import type { TokenCandidates } from './candidates.ts';
import type { Random } from './random.ts';
import type { SamplingOptions } from './sampling-options.ts';
/** Tokens that the estimate of the exponent of version 1 looks at. */
const ESTIMATE_OVER = 100;

/** One sequence under Mirostat. */
export interface Mirostat {
  /** Cuts a ranked list, to which the temperature was applied, and draws a place in it. */
  choose(candidates: TokenCandidates, random: Random): number;
  /** Learns from the place that was chosen last. */
  learn(candidates: TokenCandidates, place: number): void;
  /** Bound on surprise in bits. */
  readonly mu: number;
}

/** Creates the state of a sequence, or null when the options switch Mirostat off. */
export function createMirostat(options: SamplingOptions): Mirostat | null {
  const { mirostat: version, mirostatTau: tau, mirostatEta: eta } = options;
  if (version === 0) return null;
  let mu = 2 * tau;
  return {
    choose(candidates, random) {
      candidates.softmax();
      candidates.keep(0, version === 1 ? keptByRank(candidates, mu) : keptBySurprise(candidates, mu));
      candidates.softmax();
      return candidates.draw(random());
    },
    learn(candidates, place) {
      mu -= eta * (-Math.log2(candidates.p[place]!) - tau);
    },
    get mu() {
      return mu;
    },
  };
}

/** Version 1: assumes a Zipf law, estimates its exponent from the top tokens, and solves for the number to keep. */
function keptByRank({ p, size, vocabularySize }: TokenCandidates, mu: number): number {
  if (size === 1) return 1;
  let products = 0;
  let squares = 0;
  for (let at = 0; at < Math.min(ESTIMATE_OVER, size) - 1; at++) {
    const t = Math.log((at + 2) / (at + 1));
    products += t * Math.log(p[at]! / p[at + 1]!);
    squares += t * t;
  }
  const exponent = products / squares;
  const epsilon = exponent - 1;
  // The limit where both parts of the fraction vanish.
  const scale = epsilon === 0 ? 1 / Math.log(vocabularySize) : epsilon / (1 - vocabularySize ** -epsilon);
  const kept = Math.trunc((scale * 2 ** mu) ** (1 / exponent));
  return Number.isNaN(kept) ? size : Math.min(Math.max(kept, 1), size);
}

/** Version 2: drops every token with more surprise than mu, but never the first. */
function keptBySurprise({ p, size }: TokenCandidates, mu: number): number {
  let kept = 1;
  while (kept < size && -Math.log2(p[kept]!) <= mu) kept++;
  return kept;
}
