// A page as arrays of numbers. Filled by parse.ts, read by everything after it. Nodes stand in document order, so that the
// subtree of a node is the stretch up to its `end` and every pass over a page is a plain loop: forwards parents come
// before their children, backwards children before their parents.

import { decodeHTML } from 'entities';
import { TAG } from './tags.ts';

/** Attributes that writers of the text need, of the elements where they need them. */
export interface Attributes {
  readonly href?: string;
  readonly src?: string;
  readonly alt?: string;
  readonly className?: string;
  readonly start?: string;
}

/** White space stood before the node. */
export const SPACE_BEFORE = 1;
/** Text that holds character references. */
export const REFERENCES = 2;
/** Inside preformatted text. */
export const PREFORMATTED = 4;

const FIRST_CAPACITY = 2048;

export class Tree {
  /** The page; texts are stretches of it. */
  readonly html: string;
  count: number = 0;
  tag: Uint16Array = new Uint16Array(FIRST_CAPACITY);
  parent: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** Behind the last node of the subtree. */
  end: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** `SPACE_BEFORE` and its like. */
  flags: Uint8Array = new Uint8Array(FIRST_CAPACITY);
  /** What class, id, role and so on say: the constants of hints.ts. */
  hints: Int32Array = new Int32Array(FIRST_CAPACITY);
  /** Where a text begins and ends in the page. */
  from: Int32Array = new Int32Array(FIRST_CAPACITY);
  to: Int32Array = new Int32Array(FIRST_CAPACITY);
  readonly attributes: Map<number, Attributes> = new Map();

  constructor(html: string) {
    this.html = html;
  }

  /** Adds a node and returns its number; its `end` is for the caller to set. */
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

  /** The characters of a text node, no more than the first `maxCharacters` as they are written. */
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
