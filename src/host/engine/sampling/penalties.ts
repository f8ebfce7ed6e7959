// Penalties for tokens that were seen lately: repeat, frequency and presence, over the last N tokens of the context.
// They come after the bias and before everything else. Prompt and answer count alike.
import type { Context } from '../model/context.ts';
import type { Candidates } from './candidates.ts';
import type { SamplingOptions } from './options.ts';

/** Applies the penalties of one sequence to the logits of its next token. */
export type Penalties = (candidates: Candidates) => void;

/**
 * Creates the penalties of a sequence, or null when the options switch them off. `newline` is the token that
 * `penalizeNl: false` spares.
 */
export function createPenalties(options: SamplingOptions, context: Context, newline: number): Penalties | null {
  const { repeatPenalty, frequencyPenalty, presencePenalty, repeatLastN, penalizeNl, penaltyPrompt } = options;
  if (repeatLastN === 0 || (repeatPenalty === 1 && frequencyPenalty === 0 && presencePenalty === 0)) return null;
  const last = repeatLastN < 0 ? Infinity : repeatLastN;

  const penalized = (logit: number, times: number): number =>
    (logit <= 0 ? logit * repeatPenalty : logit / repeatPenalty) - times * frequencyPenalty - presencePenalty;

  return (candidates) => {
    const { ids, logits, floor, counts, size } = candidates;
    const seen = countLast(context, penaltyPrompt, last, counts);
    if (!penalizeNl) counts[newline] = 0;
    for (let at = 0; at < size; at++) {
      const id = ids[at]!;
      if (counts[id] === 0) continue;
      if (logits[at] !== -Infinity) logits[at] = penalized(logits[at]!, counts[id]!);
      counts[id] = 0;
    }
    for (const token of seen) {
      const times = counts[token]!;
      counts[token] = 0;
      if (times === 0 || floor === -Infinity) continue;
      const logit = penalized(floor, times);
      if (logit !== floor) candidates.add(token, logit);
    }
  };
}

/** Counts the last tokens into `counts`, the penalty prompt standing for the prompt; returns the tokens that occur. */
function countLast(
  context: Context,
  penaltyPrompt: Int32Array | null,
  last: number,
  counts: Uint32Array,
): readonly number[] {
  const seen: number[] = [];
  const count = (token: number): void => {
    if (counts[token]!++ === 0) seen.push(token);
  };
  const first = penaltyPrompt === null ? 0 : context.promptLength;
  for (let at = Math.max(first, context.length - last); at < context.length; at++) count(context.at(at));
  if (penaltyPrompt === null) return seen;
  const left = last - (context.length - first);
  if (left > 0) for (const token of left === Infinity ? penaltyPrompt : penaltyPrompt.slice(-left)) count(token);
  return seen;
}
