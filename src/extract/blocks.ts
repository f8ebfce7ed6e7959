// Splits a page into blocks: runs of text between the boundaries of block elements, in document order. A row of a table and
// preformatted text are one block each. The selection keeps or drops whole blocks. The text of consent dialogs is in none.

import { CONSENT_DIALOG } from './hints.ts';
import { BLOCK, TAG, traits } from './tags.ts';
import type { Tree } from './tree.ts';

/** Blocks by number, and the nodes that they consist of. */
export class Blocks {
  count: number = 0;
  /** Block of each text node; -1 for elements and text of consent dialogs. */
  readonly of: Int32Array;
  /** Number of blocks that begin before each node. */
  readonly before: Int32Array;
  /** Block element of each block. */
  readonly element: Int32Array;
  /** First text node of each block. */
  readonly first: Int32Array;
  /** One past the last text node of each block. */
  readonly end: Int32Array;

  constructor(tree: Tree) {
    this.of = new Int32Array(tree.count).fill(-1);
    this.before = new Int32Array(tree.count + 1);
    const texts = textNodes(tree);
    this.element = new Int32Array(texts);
    this.first = new Int32Array(texts);
    this.end = new Int32Array(texts);
    this.#split(tree, wholeRows(tree));
  }

  #split(tree: Tree, rows: Uint8Array): void {
    const { tag, parent, count } = tree;
    const blockOf = new Int32Array(count);
    /** End of the element whose text is one block. */
    let wholeEnd = 0;
    let isOpen = false;
    let current = -1;
    let breaks = 0;
    for (let node = 1; node < count; node++) {
      this.before[node] = this.count;
      const kind = tag[node] as number;
      if (kind === TAG['#text']) {
        const element = blockOf[parent[node] as number] as number;
        if (!isOpen || element !== current || breaks > 1) {
          this.element[this.count] = element;
          this.first[this.count] = node;
          this.count++;
          isOpen = true;
          current = element;
        }
        breaks = 0;
        this.of[node] = this.count - 1;
        this.end[this.count - 1] = node + 1;
        continue;
      }
      blockOf[node] = blockOf[parent[node] as number] as number;
      if (((tree.hints[node] as number) & CONSENT_DIALOG) !== 0) {
        const end = tree.end[node] as number;
        this.before.fill(this.count, node, end);
        isOpen = false;
        node = end - 1;
        continue;
      }
      if (node < wholeEnd) continue;
      if (kind === TAG.br) {
        breaks++;
      } else if ((traits(kind) & BLOCK) !== 0 || kind === TAG.button) {
        blockOf[node] = node;
        isOpen = false;
        breaks = 0;
        if (kind === TAG.pre || rows[node] === 1) wholeEnd = tree.end[node] as number;
      }
    }
    this.before[count] = this.count;
  }
}

function textNodes({ tag, count }: Tree): number {
  let texts = 0;
  for (let node = 1; node < count; node++) if (tag[node] === TAG['#text']) texts++;
  return texts;
}

/** 1 for rows whose cells hold no other blocks. */
function wholeRows({ tag, parent, count }: Tree): Uint8Array {
  const rows = new Uint8Array(count);
  const hasBlocks = new Uint8Array(count);
  for (let node = count - 1; node > 0; node--) {
    const kind = tag[node] as number;
    const isCell = kind === TAG.td || kind === TAG.th;
    const isBlock = (traits(kind) & BLOCK) !== 0 && kind !== TAG.br;
    if (kind === TAG.tr && hasBlocks[node] === 0) rows[node] = 1;
    if (hasBlocks[node] === 1 || (isBlock && !isCell)) hasBlocks[parent[node] as number] = 1;
  }
  return rows;
}
