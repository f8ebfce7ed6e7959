// The samplers that truncate a distribution: top-k, tail-free, locally typical, top-p and min-p. Each takes a ranked list and
// leaves it ranked, with the probabilities of what the one before it kept, renormalised. At least one token stays.
import type { TokenCandidates } from './candidates.ts';

/** Keeps the `k` most likely; k <= 0 keeps all. */
export function topK(candidates: TokenCandidates, k: number): void {
  if (k <= 0) return;
  candidates.keep(0, Math.min(k, candidates.size));
}

/**
 * Tail-free sampling: the tail begins where the second differences of the sorted probabilities, normalised, have added
 * up to more than `z`. Off at z >= 1 and for two candidates or fewer.
 */
export function tailFree(candidates: TokenCandidates, z: number): void {
  const { size, p } = candidates;
  if (z >= 1 || size <= 2) return;
  candidates.softmax();
  const second = (at: number): number => Math.abs(p[at]! - p[at + 1]! - (p[at + 1]! - p[at + 2]!));
  let total = 0;
  for (let at = 0; at < size - 2; at++) total += second(at);
  const flat = total <= 1e-6;
  let sum = 0;
  for (let at = 0; at < size - 2; at++) {
    sum += flat ? 1 / (size - 2) : second(at) / total;
    if (sum > z && at > 0) {
      candidates.keep(0, at);
      return;
    }
  }
}

/**
 * Locally typical sampling: keeps the tokens whose surprise is nearest to the entropy, the fewest that hold more than the
 * mass `p`. In a ranked list they are neighbours, so the kept part grows from the entropy outwards. Off at p >= 1.
 */
export function typical(candidates: TokenCandidates, mass: number): void {
  if (mass >= 1) return;
  candidates.softmax();
  const { size, p } = candidates;
  let entropy = 0;
  for (let at = 0; at < size; at++) if (p[at]! > 0) entropy -= p[at]! * Math.log(p[at]!);
  const distance = (at: number): number => Math.abs(-Math.log(p[at]!) - entropy);
  let to = 0;
  while (to < size && -Math.log(p[to]!) <= entropy) to++;
  let from = to;
  let sum = 0;
  while (to - from < size) {
    const left = from > 0 && (to === size || distance(from - 1) <= distance(to));
    sum += left ? p[--from]! : p[to++]!;
    if (sum > mass) break;
  }
  candidates.keep(from, to);
}

/** Nucleus sampling: keeps the fewest most likely tokens that hold at least the mass `p`. Off at p >= 1. */
export function topP(candidates: TokenCandidates, mass: number): void {
  if (mass >= 1) return;
  candidates.softmax();
  const { size, p } = candidates;
  let sum = 0;
  for (let at = 0; at < size; at++) {
    sum += p[at]!;
    if (sum < mass) continue;
    candidates.keep(0, at + 1);
    return;
  }
}

/** Keeps the tokens at least `least` times as likely as the most likely one. Off at 0 and below. */
export function minP(candidates: TokenCandidates, least: number): void {
  if (least <= 0) return;
  candidates.softmax();
  const { size, p } = candidates;
  const bound = least * p[0]!;
  let kept = 1;
  while (kept < size && p[kept]! >= bound) kept++;
  candidates.keep(0, kept);
}
