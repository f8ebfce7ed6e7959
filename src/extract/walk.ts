// Visits what was kept of a page in document order. Used by the writers. The stack is not the machine's.

import type { Dropped } from './select.ts';
import { TAG } from './tags.ts';
import type { Tree } from './tree.ts';

/** What a walk calls. */
export interface Visitor {
  /** True when the visitor has read the subtree by itself; then it is neither visited nor closed. */
  open(node: number, tag: number): boolean;
  text(node: number): void;
  close(node: number, tag: number): void;
}

/** Visits the subtree of `root`, itself included, without what was dropped. */
export function walk(tree: Tree, dropped: Dropped, root: number, visitor: Visitor): void {
  const open: number[] = [];
  const end = tree.end[root] as number;
  const closeBefore = (node: number): void => {
    for (let last = open.at(-1); last !== undefined && node >= (tree.end[last] as number); last = open.at(-1)) {
      visitor.close(last, tree.tag[last] as number);
      open.pop();
    }
  };
  let node = root;
  while (node < end) {
    closeBefore(node);
    const next = tree.end[node] as number;
    if (dropped[node] === 1) {
      node = next;
    } else if (tree.tag[node] === TAG['#text']) {
      visitor.text(node++);
    } else if (visitor.open(node, tree.tag[node] as number)) {
      node = next;
    } else {
      open.push(node++);
    }
  }
  closeBefore(end);
}
