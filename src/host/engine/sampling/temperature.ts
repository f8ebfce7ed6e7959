// Temperature: above 1 flattens a distribution, below 1 sharpens it. It comes after the truncations, which therefore work
// at temperature 1. Zero and below mean greedy choice, which chain.ts handles.
import type { Candidates } from './candidates.ts';

/** Divides the logits by a temperature above 0. */
export function applyTemperature(candidates: Candidates, temperature: number): void {
  if (temperature === 1) return;
  const { logits, size } = candidates;
  for (let at = 0; at < size; at++) logits[at]! /= temperature;
}
