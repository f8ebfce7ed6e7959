// Measures the text, links and prose of each block. One forward pass measures the lines of the page, one backward pass sums
// over subtrees.

import { BLOCK, TAG, traits } from './tags.ts';
import type { Tree } from './tree.ts';

/** A line of at least this weight is prose. */
const PROSE_WEIGHT = 80;
/** A line of at least this weight is prose if it has sentence punctuation. */
const SENTENCE_WEIGHT = 25;
/** The share by which other text counts as prose. */
const LABEL_SHARE = 0.2;

/** By node. Weights are characters; those of scripts without spaces count three times. */
export interface Measures {
  readonly weight: Float32Array;
  /** Weight of text in links and buttons. */
  readonly linked: Float32Array;
  /** Weight of prose, plus `LABEL_SHARE` of other text. */
  readonly prose: Float32Array;
  /** Number of links. */
  readonly links: Int32Array;
}

/** Measures of each node without its descendants. */
export function measure(tree: Tree): Measures {
  const own: Measures = {
    weight: new Float32Array(tree.count),
    linked: new Float32Array(tree.count),
    prose: new Float32Array(tree.count),
    links: new Int32Array(tree.count),
  };
  new LineReader(tree, own).read();
  return own;
}

/** Sums of `own` over subtrees, without those of dropped nodes. */
export function sums(tree: Tree, own: Measures, dropped: Uint8Array): Measures {
  const weight = own.weight.slice();
  const linked = own.linked.slice();
  const prose = own.prose.slice();
  const links = own.links.slice();
  for (let node = tree.count - 1; node > 0; node--) {
    if (dropped[node] === 1) continue;
    const parent = tree.parent[node] as number;
    weight[parent] = (weight[parent] as number) + (weight[node] as number);
    linked[parent] = (linked[parent] as number) + (linked[node] as number);
    prose[parent] = (prose[parent] as number) + (prose[node] as number);
    links[parent] = (links[parent] as number) + (links[node] as number);
  }
  return { weight, linked, prose, links };
}

class LineReader {
  readonly #tree: Tree;
  readonly #measures: Measures;
  /** Nearest block of each node, itself included. */
  readonly #blockOf: Int32Array;
  /** 1 within links and buttons. */
  readonly #inLink: Uint8Array;
  #block = 0;
  #weight = 0;
  #linked = 0;
  #marks = 0;

  constructor(tree: Tree, measures: Measures) {
    this.#tree = tree;
    this.#measures = measures;
    this.#blockOf = new Int32Array(tree.count);
    this.#inLink = new Uint8Array(tree.count);
  }

  read(): void {
    const { tag, parent, count } = this.#tree;
    const { links } = this.#measures;
    const [blockOf, inLink] = [this.#blockOf, this.#inLink];
    for (let node = 1; node < count; node++) {
      const kind = tag[node] as number;
      const outer = parent[node] as number;
      blockOf[node] = blockOf[outer] as number;
      inLink[node] = inLink[outer] as number;
      if (kind === TAG['#text']) {
        const block = blockOf[node] as number;
        if (block !== this.#block) this.#endLine(block);
        this.#readText(node);
      } else if ((traits(kind) & BLOCK) !== 0) {
        blockOf[node] = node;
        if (kind !== TAG.br) this.#endLine(node);
      } else if (kind === TAG.a) {
        inLink[node] = 1;
        links[node] = 1;
      } else if (kind === TAG.button) {
        inLink[node] = 1;
      }
    }
    this.#endLine(0);
  }

  #endLine(next: number): void {
    const { weight, linked, prose } = this.#measures;
    const own = this.#weight;
    if (own > 0) {
      const block = this.#block;
      weight[block] = (weight[block] as number) + own;
      linked[block] = (linked[block] as number) + this.#linked;
      prose[block] = (prose[block] as number) + proseOf(own, this.#linked, this.#marks);
    }
    this.#block = next;
    this.#weight = 0;
    this.#linked = 0;
    this.#marks = 0;
  }

  #readText(node: number): void {
    const { html } = this.#tree;
    const to = this.#tree.to[node] as number;
    let weight = 0;
    let marks = 0;
    for (let at = this.#tree.from[node] as number; at < to; at++) {
      const code = html.charCodeAt(at);
      if (code <= 32) continue;
      weight += code < 0x2e80 ? 1 : 3;
      if (isMark(code)) marks++;
    }
    this.#weight += weight;
    this.#marks += marks;
    if (this.#inLink[node] === 1) this.#linked += weight;
  }
}

/** The weight of prose in a line. */
function proseOf(weight: number, linked: number, marks: number): number {
  const isProse = weight >= PROSE_WEIGHT || (weight >= SENTENCE_WEIGHT && marks > 0);
  if (linked > weight / 2 || !isProse) return (weight - linked) * LABEL_SHARE;
  return weight - linked / 2;
}

/** Sentence punctuation. */
function isMark(code: number): boolean {
  switch (code) {
    case 0x21: // !
    case 0x2c: // ,
    case 0x2e: // .
    case 0x3b: // ;
    case 0x3f: // ?
    case 0x60c: // Arabic comma
    case 0x61b: // Arabic semicolon
    case 0x61f: // Arabic question mark
    case 0x6d4: // Urdu full stop
    case 0x964: // Devanagari danda
    case 0x3001: // ideographic comma
    case 0x3002: // ideographic full stop
    case 0xff01: // full-width !
    case 0xff0c: // full-width ,
    case 0xff1f: // full-width ?
      return true;
    default:
      return false;
  }
}
