// The order of the samplers: top-k, tail-free, typical, top-p, min-p, temperature, draw; or Mirostat after the temperature;
// or the most likely token at temperature 0. Works on logits that are biased and penalised already.
import type { TokenCandidates } from './candidates.ts';
import { createMirostat } from './mirostat.ts';
import type { Random } from './random.ts';
import type { SamplingOptions } from './sampling-options.ts';
import { minP, tailFree, topK, topP, typical } from './truncation.ts';

/** A token with its probability after the whole chain; 0 when the chain cut it. */
export interface TokenProbability {
  readonly token: number;
  readonly probability: number;
}

/** The chain of one sequence. */
export interface SamplerChain {
  /** Chooses a token; null when none can be chosen. Changes the candidates. */
  choose(candidates: TokenCandidates): number | null;
  /** To be called when the last choice stands: Mirostat learns from it. */
  confirm(candidates: TokenCandidates): void;
  /**
   * The `nProbs` most likely tokens of the last choice: those the chain kept, then those it cut. Empty unless asked for,
   * and valid until the candidates are used again.
   */
  probabilities(candidates: TokenCandidates): TokenProbability[];
}

/** Creates the chain of a sequence. All its draws come from `random`. */
export function createChain(options: SamplingOptions, random: Random): SamplerChain {
  const { temperature, nProbs } = options;
  const mirostat = temperature > 0 ? createMirostat(options) : null;
  const need = neededPlaces(options);
  let ranked: Int32Array = new Int32Array(0);
  let place = 0;

  function pick(candidates: TokenCandidates): number {
    if (temperature <= 0) {
      if (nProbs > 0) candidates.softmax();
      return 0;
    }
    if (mirostat !== null) {
      applyTemperature(candidates, temperature);
      return mirostat.choose(candidates, random);
    }
    topK(candidates, options.topK);
    tailFree(candidates, options.tfsZ);
    typical(candidates, options.typicalP);
    topP(candidates, options.topP);
    minP(candidates, options.minP);
    applyTemperature(candidates, temperature);
    candidates.softmax();
    return candidates.draw(random());
  }

  return {
    choose(candidates) {
      candidates.rank(need);
      if (candidates.size === 0) return null;
      if (nProbs > 0) ranked = candidates.ids.slice(0, Math.min(nProbs, candidates.size));
      place = pick(candidates);
      return candidates.ids[place]!;
    },
    confirm: (candidates) => mirostat?.learn(candidates, place),
    probabilities: (candidates) => (nProbs > 0 ? report(candidates, ranked, nProbs) : []),
  };
}

/** Places of the ranked list that can affect the result under these options. */
function neededPlaces({ temperature, topK, mirostat, nProbs }: SamplingOptions): number {
  if (temperature <= 0) return nProbs > 0 ? Infinity : 1;
  if (mirostat !== 0 || topK <= 0) return Infinity;
  return Math.max(topK, nProbs);
}

function report({ ids, p, size }: TokenCandidates, ranked: Int32Array, nProbs: number): TokenProbability[] {
  const kept = ids.slice(0, size);
  const listed: TokenProbability[] = [];
  for (const [at, token] of kept.subarray(0, nProbs).entries()) listed.push({ token, probability: p[at]! });
  for (const token of ranked) {
    if (listed.length === nProbs) break;
    if (!kept.includes(token)) listed.push({ token, probability: 0 });
  }
  return listed;
}

/** Divides the logits by a temperature above 0. */
export function applyTemperature(candidates: TokenCandidates, temperature: number): void {
  if (temperature === 1) return;
  const { logits, size } = candidates;
  for (let at = 0; at < size; at++) logits[at]! /= temperature;
}
