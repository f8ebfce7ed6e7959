// The document tree as typed arrays, and a visitor walk over it. Nodes are numbered in document order: the subtree of a node
// is the range up to its `end`, so every pass is a plain loop. Forwards, parents come before children; backwards, after.

import { decodeHTML } from 'entities';
import { TAG } from './tags.ts';

/** Attributes that the writers use. Kept for the elements where they matter. */
export interface Attributes {
  readonly href?: string;
  readonly src?: string;
  readonly alt?: string;
  readonly className?: string;
  readonly start?: string;
}

/** White space precedes the node. */
export const SPACE_BEFORE = 1;
/** The text has character references. */
export const REFERENCES = 2;
/** Inside preformatted text. */
export const PREFORMATTED = 4;

/** 1 for each node that is not written. Nodes inside a dropped node are not marked themselves. */
export type Dropped = Uint8Array;

const FIRST_CAPACITY = 2048;

export class Tree {
  /** The source; text nodes are ranges of it. */
  readonly html: string;
  count: number = 0;
  tag: Uint16Array = new Uint16Array(FIRST_CAPACITY);
  parent: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** One past the last node of the subtree. */
  end: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** `SPACE_BEFORE`, `REFERENCES`, `PREFORMATTED`. */
  flags: Uint8Array = new Uint8Array(FIRST_CAPACITY);
  /** The constants of hints.ts, from class, id, role and microdata. */
  hints: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** Start and end of a text node in the source. */
  from: Int32Array = new Int32Array(FIRST_CAPACITY);
  to: Int32Array = new Int32Array(FIRST_CAPACITY);
  readonly attributes: Map<number, Attributes> = new Map();

  constructor(html: string) {
    this.html = html;
  }

  /** Adds a node and returns its number. The caller sets its `end`. */
  add(tag: number, parent: number, flags: number, hints: number): number {
    const node = this.count++;
    if (node === this.tag.length) this.#grow();
    this.tag[node] = tag;
    this.parent[node] = parent;
    this.flags[node] = flags;
    this.hints[node] = hints;
    this.end[node] = node + 1;
    return node;
  }

  addText(parent: number, flags: number, from: number, to: number): void {
    const node = this.add(TAG['#text'], parent, flags, 0);
    this.from[node] = from;
    this.to[node] = to;
  }

  /** The text of a text node, decoded, from at most `maxCharacters` of the source. */
  textOf(node: number, maxCharacters: number = Infinity): string {
    const from = this.from[node] as number;
    const text = this.html.slice(from, Math.min(this.to[node] as number, from + maxCharacters));
    return ((this.flags[node] as number) & REFERENCES) === 0 ? text : decodeHTML(text);
  }

  #grow(): void {
    const capacity = 4 * this.tag.length;
    this.tag = grown(this.tag, new Uint16Array(capacity));
    this.parent = grown(this.parent, new Int32Array(capacity));
    this.end = grown(this.end, new Int32Array(capacity));
    this.flags = grown(this.flags, new Uint8Array(capacity));
    this.hints = grown(this.hints, new Int32Array(capacity));
    this.from = grown(this.from, new Int32Array(capacity));
    this.to = grown(this.to, new Int32Array(capacity));
  }
}

function grown<T extends Uint8Array | Uint16Array | Int32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

export interface Visitor {
  /** Returns true when the visitor has handled the subtree; it is then neither visited nor closed. */
  open(node: number, tag: number): boolean;
  text(node: number): void;
  close(node: number, tag: number): void;
}

/** Visits the subtree of `root` in document order, without dropped nodes. Needs no recursion, whatever the depth. */
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
