// Logit bias: a number added to the raw logit of a token before any sampler, or a ban. Requests write it as pairs or as an
// object, with tokens as ids or as text.
import type { TokenCandidates } from './candidates.ts';

/** Bias by token; -Infinity forbids it. */
export type LogitBias = ReadonlyMap<number, number>;

/**
 * Reads `logit_bias`: an array of `[token, bias]` pairs or an object of biases by token. A token is an id, or text (in an
 * object, text that is no whole number), each token of which gets the bias. A bias is a number, or false to forbid. The
 * last entry for a token wins. As llama.cpp does, entries of other types or outside of the vocabulary are skipped.
 */
export function readLogitBias(
  value: unknown,
  vocabularySize: number,
  tokenize: (text: string) => Iterable<number>,
): Map<number, number> {
  const biases = new Map<number, number>();
  if (typeof value !== 'object' || value === null) return biases;
  const entries: unknown[] = Array.isArray(value)
    ? value
    : Object.entries(value).map(([token, bias]) => [/^\d+$/.test(token) ? Number(token) : token, bias]);
  for (const entry of entries) {
    if (!Array.isArray(entry) || entry.length !== 2) continue;
    const [token, given] = entry as [unknown, unknown];
    const bias = given === false ? -Infinity : given;
    if (typeof bias !== 'number' || Number.isNaN(bias)) continue;
    const tokens = typeof token === 'string' ? tokenize(token) : [token];
    for (const id of tokens) if (isToken(id, vocabularySize)) biases.set(id, bias);
  }
  return biases;
}

function isToken(id: unknown, vocabularySize: number): id is number {
  return typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < vocabularySize;
}

/** Biases up to this many are looked for in the list one by one. */
const FEW_BIASES = 8;

/** Adds the biases to the logits; biased tokens at the floor become listed. */
export function applyLogitBias(candidates: TokenCandidates, biases: LogitBias): void {
  if (biases.size === 0) return;
  const { ids, logits, floor, size } = candidates;
  // Few biases, such as that of `ignore_eos`, are faster to find in the list than a lookup per listed token.
  const places = biases.size <= FEW_BIASES ? null : placesOf(ids, size);
  for (const [id, bias] of biases) {
    const at = places === null ? placeOf(ids, size, id) : (places.get(id) ?? -1);
    if (at >= 0) logits[at]! += bias;
    else candidates.add(id, floor + bias);
  }
}

function placeOf(ids: Int32Array, size: number, id: number): number {
  for (let at = 0; at < size; at++) if (ids[at] === id) return at;
  return -1;
}

function placesOf(ids: Int32Array, size: number): Map<number, number> {
  const places = new Map<number, number>();
  for (let at = 0; at < size; at++) places.set(ids[at]!, at);
  return places;
}
