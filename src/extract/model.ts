// Evaluates the gradient-boosted trees that score blocks. Their weights are data, which bench/extract/train.py writes.

import { type Table, WIDTH } from './features.ts';
import { FEATURE, FEATURE_COUNT, RIGHT, TREES, VALUE } from './weights.ts';

/** In place of a feature, in leaves. */
const LEAF = 255;
/** The least first number of a leaf. */
const LEAVES: number = LEAF * 65_536;

/** A block whose sum is lower after this many trees is boilerplate; the other trees lead to `BOILERPLATE` on average. */
const CHECKPOINT = 40;
const CERTAIN = -3;
const BOILERPLATE = -6;

/** The nodes of all trees. The left child of a node follows it. */
interface Model {
  /** Place of the first node of each tree in `nodes`. */
  readonly trees: Uint32Array;
  /**
   * Two numbers for each node, side by side for the cache: the feature that it compares, or `LEAF`, times 65536, plus its right child;
   * then, as a float, the greatest value that goes left, or the value of a leaf.
   */
  readonly nodes: Uint32Array;
  /** The same memory as floats. */
  readonly values: Float32Array;
}

let loaded: Model | undefined;

/** The probability of each block to be content. */
export function score({ rows }: Table): Float32Array {
  loaded ??= load();
  const model = loaded;
  const scores = new Float32Array(rows.length / WIDTH);
  for (let block = 0; block < scores.length; block++)
    scores[block] = 1 / (1 + Math.exp(-sumOf(model, rows, block * WIDTH)));
  return scores;
}

/** The sum of all trees for the block whose features begin at `row`. */
function sumOf({ trees, nodes, values }: Model, rows: Float32Array, row: number): number {
  let sum = 0;
  for (let tree = 0; tree < trees.length; tree++) {
    if (tree === CHECKPOINT && sum < CERTAIN) return BOILERPLATE;
    let node = trees[tree] as number;
    let packed = nodes[node] as number;
    while (packed < LEAVES) {
      node = (rows[row + (packed >>> 16)] as number) <= (values[node + 1] as number) ? node + 2 : 2 * (packed & 0xffff);
      packed = nodes[node] as number;
    }
    sum += values[node + 1] as number;
  }
  return sum;
}

function load(): Model {
  if (FEATURE_COUNT !== WIDTH)
    throw new Error(`The weights are for ${FEATURE_COUNT} features per block, not ${WIDTH}.`);
  const right = new Uint16Array(bufferOf(RIGHT));
  const value = new Float32Array(bufferOf(VALUE));
  const nodes = new Uint32Array(2 * value.length);
  const values = new Float32Array(nodes.buffer);
  for (const [node, feature] of new Uint8Array(bufferOf(FEATURE)).entries()) {
    nodes[2 * node] = feature * 65_536 + (right[node] as number);
    values[2 * node + 1] = value[node] as number;
  }
  return { trees: Uint32Array.from(new Uint16Array(bufferOf(TREES)), (first) => 2 * first), nodes, values };
}

/** Decoded base64, at the start of a buffer of its own. */
function bufferOf(text: string): ArrayBuffer {
  return Uint8Array.from(Buffer.from(text, 'base64')).buffer;
}
