// The parser's stack of open elements (HTML standard, section 13.2.4.2) with bounded depth. Operations take constant time,
// except closing, which is constant per element that was opened.

import type { Tree } from './tree.ts';
import { BLOCK, ENDS_PARAGRAPH, FORMATTING, LIST, OPAQUE, SCOPE, TAG, traits } from './tags.ts';

/** As in Blink and WebKit: deeper elements become siblings. */
const MAX_DEPTH = 512;

export class OpenElements {
  readonly #tree: Tree;
  /** Node and element at each depth; depth 0 is the body. */
  readonly #nodes = new Int32Array(MAX_DEPTH);
  readonly #tags = new Uint16Array(MAX_DEPTH);
  /** For each depth, the depth of the next outer element of the same kind; -1 for none. */
  readonly #outer = new Int32Array(MAX_DEPTH);
  /** For each depth, the depth of the innermost scope, list and block at or outside it. */
  readonly #scope = new Int32Array(MAX_DEPTH);
  readonly #list = new Int32Array(MAX_DEPTH);
  readonly #block = new Int32Array(MAX_DEPTH);
  /** Depth of the innermost open element of each kind. */
  readonly #innermost = new Map<number, number>();
  #depth = 0;
  /** Open elements beyond the greatest depth. */
  #beyond = 0;
  #opaque = 0;
  #preformatted = 0;

  constructor(tree: Tree) {
    this.#tree = tree;
    this.#nodes[0] = tree.add(TAG.body, -1, 0, 0);
    this.#tags[0] = TAG.body;
  }

  /** The parent of the next node. */
  get current(): number {
    return this.#nodes[this.#depth] as number;
  }

  /** Whether text here is not text of the page. */
  get isOpaque(): boolean {
    return this.#opaque > 0;
  }

  get isPreformatted(): boolean {
    return this.#preformatted > 0;
  }

  /** Whether an element of this kind is open in the innermost scope. */
  has(tag: number): boolean {
    return this.#depthOf(tag) > (this.#scope[this.#depth] as number);
  }

  push(node: number, tag: number): void {
    if (this.#depth === MAX_DEPTH - 1) {
      this.#beyond++;
      return;
    }
    const depth = ++this.#depth;
    const trait = traits(tag);
    this.#nodes[depth] = node;
    this.#tags[depth] = tag;
    this.#outer[depth] = this.#depthOf(tag);
    this.#innermost.set(tag, depth);
    this.#scope[depth] = (trait & SCOPE) !== 0 ? depth : (this.#scope[depth - 1] as number);
    this.#list[depth] = (trait & (SCOPE | LIST)) !== 0 ? depth : (this.#list[depth - 1] as number);
    this.#block[depth] = (trait & BLOCK) !== 0 ? depth : (this.#block[depth - 1] as number);
    if ((trait & OPAQUE) !== 0) this.#opaque++;
    if (tag === TAG.pre || tag === TAG.listing) this.#preformatted++;
  }

  /** Closes elements whose end tag a start tag of this kind implies. */
  endImplied(tag: number): void {
    if ((traits(tag) & ENDS_PARAGRAPH) !== 0 && this.has(TAG.p)) this.#closeTo(this.#depthOf(TAG.p));
    switch (tag) {
      case TAG.li:
        this.#endWithin(this.#list, TAG.li);
        break;
      case TAG.dt:
      case TAG.dd:
        this.#endWithin(this.#list, TAG.dt, TAG.dd);
        break;
      case TAG.a:
        if (this.has(TAG.a)) this.#closeFormatting(this.#depthOf(TAG.a));
        break;
      case TAG.option:
      case TAG.optgroup:
        this.#endWithin(this.#scope, TAG.option);
        break;
      case TAG.td:
      case TAG.th:
        this.#endWithinTable(TAG.td, TAG.th, TAG.caption);
        break;
      case TAG.tr:
        this.#endWithinTable(TAG.tr, TAG.caption);
        break;
      case TAG.tbody:
      case TAG.thead:
      case TAG.tfoot:
        this.#endWithinTable(TAG.tbody, TAG.thead, TAG.tfoot, TAG.caption);
        break;
      default:
    }
  }

  /** Handles an end tag. Ignored when no matching element is open in its scope. */
  close(tag: number): void {
    if (this.#beyond > 0) {
      this.#beyond--;
      return;
    }
    const depth = this.#depthOf(tag);
    if (depth <= 0) return;
    const scope = this.#scope[this.#depth] as number;
    const reaches = tag === TAG.table || tag === TAG.tr || isRowGroup(tag) ? this.#depthOf(TAG.table) : scope;
    if (depth < reaches) return;
    if ((traits(tag) & FORMATTING) !== 0) this.#closeFormatting(depth);
    else this.#closeTo(depth);
  }

  /** Closes a formatting element. With blocks open inside it, it becomes a `span` and they stay open. */
  #closeFormatting(depth: number): void {
    if ((this.#block[this.#depth] as number) < depth) this.#closeTo(depth);
    else this.#tree.tag[this.#nodes[depth] as number] = TAG.span;
  }

  closeAll(): void {
    this.#closeTo(1);
    this.#tree.end[0] = this.#tree.count;
  }

  #depthOf(tag: number): number {
    return this.#innermost.get(tag) ?? -1;
  }

  #endWithin(bounds: Int32Array, ...tags: number[]): void {
    const bound = bounds[this.#depth] as number;
    for (const tag of tags) if (this.#depthOf(tag) > bound) this.#closeTo(this.#depthOf(tag));
  }

  #endWithinTable(...tags: number[]): void {
    const table = this.#depthOf(TAG.table);
    for (const tag of tags) if (table !== -1 && this.#depthOf(tag) > table) this.#closeTo(this.#depthOf(tag));
  }

  /** Closes all elements from `depth` inwards. */
  #closeTo(depth: number): void {
    const end = this.#tree.count;
    this.#beyond = 0;
    while (this.#depth >= depth) {
      const tag = this.#tags[this.#depth] as number;
      this.#tree.end[this.#nodes[this.#depth] as number] = end;
      const outer = this.#outer[this.#depth] as number;
      if (outer === -1) this.#innermost.delete(tag);
      else this.#innermost.set(tag, outer);
      if ((traits(tag) & OPAQUE) !== 0) this.#opaque--;
      if (tag === TAG.pre || tag === TAG.listing) this.#preformatted--;
      this.#depth--;
    }
  }
}

function isRowGroup(tag: number): boolean {
  return tag === TAG.tbody || tag === TAG.thead || tag === TAG.tfoot;
}
