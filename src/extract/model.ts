// Evaluates the gradient-boosted trees that score blocks. Their weights are data, which bench/extract/train.py writes.

import { type Table, WIDTH } from './features.ts';
import { FEATURE, FEATURE_COUNT, RIGHT, TREES, VALUE } from './weights.ts';

/** In place of a feature, in leaves. */
const LEAF = 255;

/** The nodes of all trees. The left child of a node follows it. */
interface Model {
  /** First node of each tree. */
  readonly trees: Uint16Array;
  /** The feature that each node compares, or `LEAF`. */
  readonly feature: Uint8Array;
  /** Right child of each node. */
  readonly right: Uint16Array;
  /** The greatest value that goes left, or the value of a leaf. */
  readonly value: Float32Array;
}

let loaded: Model | undefined;

/** The probability of each block to be content. */
export function score({ rows }: Table): Float32Array {
  loaded ??= load();
  const { trees, feature, right, value } = loaded;
  const scores = new Float32Array(rows.length / WIDTH);
  for (let block = 0; block < scores.length; block++) {
    const row = block * WIDTH;
    let sum = 0;
    for (let tree = 0; tree < trees.length; tree++) {
      let node = trees[tree] as number;
      for (let at = feature[node] as number; at !== LEAF; at = feature[node] as number)
        node = (rows[row + at] as number) <= (value[node] as number) ? node + 1 : (right[node] as number);
      sum += value[node] as number;
    }
    scores[block] = 1 / (1 + Math.exp(-sum));
  }
  return scores;
}

function load(): Model {
  if (FEATURE_COUNT !== WIDTH)
    throw new Error(`The weights are for ${FEATURE_COUNT} features per block, not ${WIDTH}.`);
  return {
    trees: new Uint16Array(bufferOf(TREES)),
    feature: new Uint8Array(bufferOf(FEATURE)),
    right: new Uint16Array(bufferOf(RIGHT)),
    value: new Float32Array(bufferOf(VALUE)),
  };
}

/** Decoded base64, at the start of a buffer of its own. */
function bufferOf(text: string): ArrayBuffer {
  return Uint8Array.from(Buffer.from(text, 'base64')).buffer;
}
