// Repeat, frequency and presence penalties over the last N tokens of the context, prompt included. Applied after the bias and
// before all samplers.
import type { TokenContext } from '../model/token-context.ts';
import type { TokenCandidates } from './candidates.ts';
import type { SamplingOptions } from './sampling-options.ts';
/** Applies the penalties of one sequence to the logits of its next token. */
export type Penalties = (candidates: TokenCandidates) => void;

/**
 * Creates the penalties of a sequence, or null when the options switch them off. `newline` is the token that
 * `penalizeNl: false` spares.
 */
export function createPenalties(options: SamplingOptions, context: TokenContext, newline: number): Penalties | null {
  const { repeatPenalty, frequencyPenalty, presencePenalty, repeatLastN, penalizeNl } = options;
  if (repeatLastN === 0 || (repeatPenalty === 1 && frequencyPenalty === 0 && presencePenalty === 0)) return null;
  const last = repeatLastN < 0 ? Infinity : repeatLastN;

  const penalized = (logit: number, times: number): number =>
    (logit <= 0 ? logit * repeatPenalty : logit / repeatPenalty) - times * frequencyPenalty - presencePenalty;

  return (candidates) => {
    const { ids, logits, floor, counts, size } = candidates;
    const from = Math.max(0, context.length - last);
    for (let at = from; at < context.length; at++) counts[context.at(at)]!++;
    if (!penalizeNl) counts[newline] = 0;
    for (let at = 0; at < size; at++) {
      const id = ids[at]!;
      if (counts[id] === 0) continue;
      if (logits[at] !== -Infinity) logits[at] = penalized(logits[at]!, counts[id]!);
      counts[id] = 0;
    }
    const sink = (token: number): void => {
      const times = counts[token]!;
      counts[token] = 0;
      if (times === 0 || floor === -Infinity) return;
      const logit = penalized(floor, times);
      if (logit !== floor) candidates.add(token, logit);
    };
    // Unlisted tokens are seldom changed; then the counts only have to be reset.
    const isFlat = floor === -Infinity || penalized(floor, 1) === floor;
    if (isFlat && frequencyPenalty === 0) {
      for (let at = from; at < context.length; at++) counts[context.at(at)] = 0;
      return;
    }
    for (let at = from; at < context.length; at++) sink(context.at(at));
  };
}
