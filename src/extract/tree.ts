// The document tree as typed arrays, and a visitor walk over it. Nodes are numbered in document order: the subtree of a node
// is the range up to its `end`, so every pass is a plain loop. Forwards, parents come before children; backwards, after.

import { decodeHTML } from 'entities';
import { TAG } from './tags.ts';

/** Attributes of an element by name in lower case, decoded; the first of each name. */
export type Attributes = ReadonlyMap<string, string>;

/** One attribute of a start tag. */
const ATTRIBUTE = /[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]*))?/y;
const BETWEEN_ATTRIBUTES = /[\s/]*/y;

/** White space precedes the node. */
export const SPACE_BEFORE = 1;
/** The text has character references. */
export const REFERENCES = 2;
/** Inside preformatted text. */
export const PREFORMATTED = 4;
/** The formula stands on lines of its own. */
export const DISPLAYED = 8;

/** 1 for each node that is not written. Nodes inside a dropped node are not marked themselves. */
export type Dropped = Uint8Array;

/** Nodes for which there is room at first: fewer for a text that is shorter than this. */
const FIRST_CAPACITY = 2048;
const LEAST_CAPACITY = 16;

/** Attributes of longer start tags are kept: elements inside may ask for them any number of times. */
const LONG_TAG = 1000;

export class Tree {
  /** The source; text nodes are ranges of it. */
  readonly html: string;
  count: number = 0;
  /** The page has more nodes than are read. */
  isCut: boolean = false;
  tag: Uint16Array = new Uint16Array(0);
  parent: Int32Array = new Int32Array(0);
  /** One past the last node of the subtree. */
  end: Int32Array = new Int32Array(0);
  /** `SPACE_BEFORE`, `REFERENCES`, `PREFORMATTED`, `DISPLAYED`. */
  flags: Uint8Array = new Uint8Array(0);
  /** The constants of hints.ts, from class, id, role and microdata. */
  hints: Int32Array = new Int32Array(0);
  /** Number of the value of `class` on this page; 0 for none. */
  shape: Int32Array = new Int32Array(0);
  /** Start and end in the source of a text or formula, and of the start tag of an element. */
  from: Int32Array = new Int32Array(0);
  to: Int32Array = new Int32Array(0);

  /** Attributes of elements with a long start tag. */
  readonly #attributes = new Map<number, Attributes>();

  constructor(html: string) {
    this.html = html;
    this.#grow(Math.min(Math.max(html.length >> 2, LEAST_CAPACITY), FIRST_CAPACITY));
  }

  /** Adds a node and returns its number. The caller sets its `end`. */
  add(tag: number, parent: number, flags: number, hints: number): number {
    const node = this.count++;
    if (node === this.tag.length) this.#grow(4 * this.tag.length);
    this.tag[node] = tag;
    this.parent[node] = parent;
    this.flags[node] = flags;
    this.hints[node] = hints;
    this.end[node] = node + 1;
    return node;
  }

  addText(parent: number, flags: number, from: number, to: number): void {
    this.setRange(this.add(TAG['#text'], parent, flags, 0), from, to);
  }

  setRange(node: number, from: number, to: number): void {
    this.from[node] = from;
    this.to[node] = to;
  }

  /** The text of a text node, decoded, from at most `maxCharacters` of the source. */
  textOf(node: number, maxCharacters: number = Infinity): string {
    const from = this.from[node] as number;
    const text = this.html.slice(from, Math.min(this.to[node] as number, from + maxCharacters));
    return ((this.flags[node] as number) & REFERENCES) === 0 ? text : decodeHTML(text);
  }

  /** The value of an attribute of an element, decoded; undefined when the element has none of this name. */
  attribute(node: number, name: string): string | undefined {
    return this.attributesOf(node).get(name);
  }

  /** All attributes of an element. Those of short start tags are read from the source on each call. */
  attributesOf(node: number): Attributes {
    const isLong = (this.to[node] as number) - (this.from[node] as number) > LONG_TAG;
    if (!isLong) return this.#readAttributes(node);
    let attributes = this.#attributes.get(node);
    if (attributes === undefined) this.#attributes.set(node, (attributes = this.#readAttributes(node)));
    return attributes;
  }

  #readAttributes(node: number): Attributes {
    const tag = this.html.slice(this.from[node], this.to[node]);
    const attributes = new Map<string, string>();
    let at = tag.search(/[\s/]|$/);
    while (at < tag.length) {
      BETWEEN_ATTRIBUTES.lastIndex = at;
      at += BETWEEN_ATTRIBUTES.exec(tag)?.[0].length ?? 0;
      ATTRIBUTE.lastIndex = at;
      const [written] = ATTRIBUTE.exec(tag) ?? [];
      if (written === undefined) break;
      at += written.length;
      const equals = written.indexOf('=', 1);
      const name = (equals === -1 ? written : written.slice(0, equals)).trimEnd().toLowerCase();
      if (!attributes.has(name)) attributes.set(name, equals === -1 ? '' : valueOf(written.slice(equals + 1)));
    }
    return attributes;
  }

  #grow(capacity: number): void {
    this.tag = grown(this.tag, new Uint16Array(capacity));
    this.parent = grown(this.parent, new Int32Array(capacity));
    this.end = grown(this.end, new Int32Array(capacity));
    this.flags = grown(this.flags, new Uint8Array(capacity));
    this.hints = grown(this.hints, new Int32Array(capacity));
    this.shape = grown(this.shape, new Int32Array(capacity));
    this.from = grown(this.from, new Int32Array(capacity));
    this.to = grown(this.to, new Int32Array(capacity));
  }
}

function grown<T extends Uint8Array | Uint16Array | Int32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

/** The value of an attribute as written, with or without quotes. */
function valueOf(written: string): string {
  const value = written.trimStart();
  const isQuoted =
    value.length > 1 && (value.startsWith('"') || value.startsWith("'")) && value.endsWith(value.charAt(0));
  const bare = isQuoted ? value.slice(1, -1) : value;
  return bare.includes('&') ? decodeHTML(bare) : bare;
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
