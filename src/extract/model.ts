// Evaluates the gradient-boosted trees that score blocks. Their weights are data, which bench/extract/train.py writes.

import { type Table, WIDTH } from './features.ts';
import { FEATURE, FEATURE_COUNT, RIGHT, TREES, VALUE } from './weights.ts';

/** In place of a feature, in leaves. */
const LEAF = 255;

/** A block whose sum is lower after this many trees is boilerplate; the other trees would not change that. */
const CHECKPOINT = 40;
const CERTAIN = -3;

/** The nodes of all trees. The left child of a node follows it. */
interface Model {
  /** First node of each tree. */
  readonly trees: Uint16Array;
  /** Of each node, the feature that it compares, or `LEAF`, times 65536, plus its right child. */
  readonly nodes: Uint32Array;
  /** The greatest value that goes left, or the value of a leaf. */
  readonly value: Float32Array;
}

let loaded: Model | undefined;

/** The probability of each block to be content. */
export function score({ rows }: Table): Float32Array {
  loaded ??= load();
  const { trees, nodes, value } = loaded;
  const scores = new Float32Array(rows.length / WIDTH);
  for (let block = 0; block < scores.length; block++) {
    const row = block * WIDTH;
    let sum = 0;
    for (let tree = 0; tree < trees.length; tree++) {
      if (tree === CHECKPOINT && sum < CERTAIN) break;
      let node = trees[tree] as number;
      for (;;) {
        const packed = nodes[node] as number;
        const feature = packed >>> 16;
        if (feature === LEAF) break;
        node = (rows[row + feature] as number) <= (value[node] as number) ? node + 1 : packed & 0xffff;
      }
      sum += value[node] as number;
    }
    scores[block] = 1 / (1 + Math.exp(-sum));
  }
  return scores;
}

function load(): Model {
  if (FEATURE_COUNT !== WIDTH)
    throw new Error(`The weights are for ${FEATURE_COUNT} features per block, not ${WIDTH}.`);
  const right = new Uint16Array(bufferOf(RIGHT));
  return {
    trees: new Uint16Array(bufferOf(TREES)),
    nodes: new Uint32Array(
      Array.from(new Uint8Array(bufferOf(FEATURE)), (feature, node) => feature * 65_536 + (right[node] as number)),
    ),
    value: new Float32Array(bufferOf(VALUE)),
  };
}

/** Decoded base64, at the start of a buffer of its own. */
function bufferOf(text: string): ArrayBuffer {
  return Uint8Array.from(Buffer.from(text, 'base64')).buffer;
}
