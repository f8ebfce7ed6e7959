// Separates content from boilerplate: marks the nodes of a measured tree that are dropped. Rules compare shares of the text
// of the page and its link density; none is made for a single site.

import * as hint from './hints.ts';
import { type Measures, sums } from './measure.ts';
import type { PageKind } from './metadata.ts';
import { announcesBoilerplate } from './phrases.ts';
import { HEADING, OPAQUE, TAG, traits } from './tags.ts';
import type { Dropped, Tree } from './tree.ts';

/** What selection may use. */
export interface Reach {
  readonly kind: PageKind;
  /** Content of `noscript` is included. */
  readonly noscript: boolean;
  /** Class names and ids count as signs of boilerplate. */
  readonly byNames: boolean;
}

/** Kinds of boilerplate by hint. A kind with a larger share of the prose than its limit is not boilerplate on that page. */
const KINDS: readonly (readonly [hints: number, limit: number])[] = [
  [hint.CONSENT, 0.9],
  [hint.HIDDEN | hint.UNSEEN, 0.7],
  [hint.NAVIGATION, 0.3],
  [hint.ADVERT, 0.3],
  [hint.OVERLAY, 0.45],
  [hint.SHARE, 0.3],
  [hint.RELATED, 0.4],
  [hint.NEWSLETTER, 0.3],
  [hint.FOOTER, 0.4],
  [hint.SIDEBAR, 0.4],
  [hint.COMMENTS, 0.85],
  [hint.AUTHOR, 0.15],
  [hint.META, 0.3],
  [hint.CONTROL, 0.1],
  [hint.REVIEWS, 0.7],
];

/** Elements that are marked as content, and the share of the prose that confirms it. */
const ANCHORS: readonly (readonly [test: (tag: number, hints: number) => boolean, least: number])[] = [
  [(_tag, hints) => (hints & hint.BODY) !== 0, 0.5],
  [(tag) => tag === TAG.article, 0.5],
  [(tag, hints) => tag === TAG.main || (hints & hint.MAIN) !== 0, 0.4],
];

/** A child with this share of the prose of its parent holds the content. */
const DOMINANT = 0.8;

/** Elements that may contain the content. */
const CONTAINERS: ReadonlySet<number> = new Set([
  TAG.div,
  TAG.section,
  TAG.article,
  TAG.main,
  TAG.table,
  TAG.tbody,
  TAG.tr,
  TAG.td,
  TAG.center,
  TAG.form,
  TAG.span,
  TAG.noscript,
  TAG.font,
  TAG.ul,
  TAG.ol,
  TAG.li,
]);

/** Longer lines are no headings. */
const MAX_HEADING = 60;

/** Nodes and characters that are examined per heading, so that the cost of a heading is bounded. */
const MAX_EXAMINED = 256;

/** The nodes to drop. `own` holds the measures of each node without its descendants. */
export function select(tree: Tree, own: Measures, reach: Reach): Dropped {
  const selector = new Selector(tree, own, reach);
  selector.prune();
  selector.narrow();
  selector.dropSections();
  selector.tidy();
  return selector.dropped;
}

class Selector {
  readonly dropped: Dropped;
  readonly #tree: Tree;
  readonly #own: Measures;
  /** Sums over subtrees without dropped nodes; recomputed after each step that drops nodes. */
  #measures: Measures;
  readonly #reach: Reach;
  /** The node that holds the content. */
  #root = 0;

  constructor(tree: Tree, own: Measures, reach: Reach) {
    this.#tree = tree;
    this.#own = own;
    this.#reach = reach;
    this.dropped = new Uint8Array(tree.count);
    this.#measures = own;
  }

  /** Link density: the share of linked text. */
  #density(node: number): number {
    return (this.#measures.linked[node] as number) / ((this.#measures.weight[node] as number) || 1);
  }

  /** Drops boilerplate by element, role, class and id. */
  prune(): void {
    this.#dropWhere((tag) => {
      if (tag === TAG.noscript) return !this.#reach.noscript;
      return (traits(tag) & OPAQUE) !== 0 || tag === TAG.input;
    });
    const unwanted = this.#unwantedHints();
    this.#dropWhere((_tag, node) => this.#isBoilerplate(node, unwanted));
  }

  #dropWhere(test: (tag: number, node: number) => boolean): void {
    const tree = this.#tree;
    for (let node = 1; node < tree.count; node++) {
      const tag = tree.tag[node] as number;
      if (tag === TAG['#text']) continue;
      if (this.dropped[node] === 0 && test(tag, node)) this.dropped[node] = 1;
      if (this.dropped[node] === 1) node = (tree.end[node] as number) - 1;
    }
    this.#measures = sums(tree, this.#own, this.dropped);
  }

  /** Hints that mean boilerplate on this page. */
  #unwantedHints(): number {
    const tree = this.#tree;
    const { prose } = this.#measures;
    const total = (prose[0] as number) || 1;
    let unwanted = 0;
    for (const [hints, limit] of KINDS) {
      if (!this.#reach.byNames && (hints & (hint.HIDDEN | hint.UNSEEN | hint.CONSENT)) === 0) continue;
      if (this.#reach.kind === 'discussion' && (hints & (hint.COMMENTS | hint.AUTHOR)) !== 0) continue;
      if (this.#reach.kind !== 'product' && hints === hint.REVIEWS) continue;
      let held = 0;
      for (let node = 1; node < tree.count; node++) {
        if (((tree.hints[node] as number) & hints) === 0) continue;
        held += prose[node] as number;
        node = (tree.end[node] as number) - 1;
      }
      if (held <= limit * total) unwanted |= hints;
    }
    return unwanted;
  }

  #isBoilerplate(node: number, unwanted: number): boolean {
    const tag = this.#tree.tag[node] as number;
    // Fact tables are often called infobox; they are content.
    const hints = (this.#tree.hints[node] as number) & (tag === TAG.table ? ~hint.RELATED : ~0);
    if ((hints & unwanted & ~hint.SIDEBAR) !== 0) return true;
    const share = (this.#measures.prose[node] as number) / ((this.#measures.prose[0] as number) || 1);
    switch (tag) {
      case TAG.nav:
      case TAG.footer:
      case TAG.dialog:
      case TAG.menu:
      case TAG.aside:
        return share < 0.4;
      case TAG.button:
        return (this.#measures.weight[node] as number) < 40;
      case TAG.header:
        return share < 0.3 && this.#density(node) > 0.3;
      case TAG.form:
        return share < 0.4;
      default:
    }
    return (hints & unwanted & hint.SIDEBAR) !== 0 && (hints & (hint.CONTENT | hint.MAIN)) === 0;
  }

  /** Descends to the node with most of the prose and drops the siblings on the way. */
  narrow(): void {
    let node = this.#anchor();
    this.#keepOnly(node);
    for (;;) {
      const best = this.#dominantChild(node);
      if (best === -1) break;
      for (const child of childrenOf(this.#tree, node)) {
        if (child !== best && this.dropped[child] === 0 && !this.#belongs(child, best)) this.dropped[child] = 1;
      }
      node = best;
    }
    this.#root = node;
  }

  #anchor(): number {
    const tree = this.#tree;
    const { prose } = this.#measures;
    for (const [test, least] of ANCHORS) {
      let found = 0;
      let others = 0;
      for (let node = 1; node < tree.count; node++) {
        if (this.dropped[node] === 1) {
          node = (tree.end[node] as number) - 1;
          continue;
        }
        if (!test(tree.tag[node] as number, tree.hints[node] as number)) continue;
        if ((prose[node] as number) >= least * (prose[0] as number)) found = node;
        else others += prose[node] as number;
        node = (tree.end[node] as number) - 1;
      }
      // One of several such elements is not the whole content.
      if (found !== 0 && others < 0.1 * (prose[found] as number)) return found;
    }
    return 0;
  }

  /** Drops everything around a node except headings and leads before it. */
  #keepOnly(node: number): void {
    const tree = this.#tree;
    for (let inner = node; inner > 0; inner = tree.parent[inner] as number) {
      for (const child of childrenOf(tree, tree.parent[inner] as number)) {
        if (child === inner || this.dropped[child] === 1 || (child < inner && this.#leads(child))) continue;
        this.dropped[child] = 1;
      }
    }
  }

  /** Whether a node before the body of an article is its heading or lead. */
  #leads(node: number): boolean {
    const tag = this.#tree.tag[node] as number;
    if (tag === TAG.h1 || tag === TAG.h2) return true;
    const { weight, prose } = this.#measures;
    const isLead =
      tag === TAG.p ||
      tag === TAG.header ||
      tag === TAG.hgroup ||
      ((this.#tree.hints[node] as number) & hint.LEAD) !== 0;
    return isLead && this.#density(node) < 0.3 && (prose[node] as number) > 0.5 * (weight[node] as number);
  }

  #dominantChild(node: number): number {
    const prose = this.#measures.prose[node] as number;
    if (prose === 0) return -1;
    for (const child of childrenOf(this.#tree, node)) {
      const isElement = this.dropped[child] === 0 && CONTAINERS.has(this.#tree.tag[child] as number);
      if (isElement && (this.#measures.prose[child] as number) >= prose * DOMINANT) return child;
    }
    return -1;
  }

  /** Whether a sibling on the way to the content is part of it. */
  #belongs(child: number, best: number): boolean {
    const tag = this.#tree.tag[child] as number;
    if (tag === TAG['#text'] || tag === TAG.br || (traits(tag) & HEADING) !== 0) return true;
    const weight = this.#measures.weight[child] as number;
    const prose = this.#measures.prose[child] as number;
    return (
      this.#density(child) < 0.4 && prose > 0.4 * weight && weight > 0.02 * (this.#measures.weight[best] as number)
    );
  }

  /** Drops sections whose headings announce boilerplate. */
  dropSections(): void {
    const tree = this.#tree;
    const { weight } = this.#measures;
    for (let node = 1; node < tree.count; node++) {
      if (this.dropped[node] === 1) {
        node = (tree.end[node] as number) - 1;
        continue;
      }
      const tag = tree.tag[node] as number;
      if ((weight[node] as number) > MAX_HEADING || (weight[node] as number) === 0 || !isHeadingLike(tag)) continue;
      if (!announcesBoilerplate(this.#lineOf(node))) continue;
      this.#dropSection(node, tag);
      node = (tree.end[node] as number) - 1;
    }
    this.#measures = sums(tree, this.#own, this.dropped);
  }

  #lineOf(node: number): string {
    let line = '';
    const end = Math.min(this.#tree.end[node] as number, node + MAX_EXAMINED);
    for (let inner = node; inner < end && line.length < MAX_HEADING; inner++) {
      if (this.#tree.tag[inner] === TAG['#text'])
        line += `${this.#tree.textOf(inner, MAX_EXAMINED).replaceAll(/\s+/g, ' ')} `;
    }
    return line;
  }

  /** Drops the heading at `node` and what follows it, up to a heading of the same rank. */
  #dropSection(node: number, tag: number): void {
    const tree = this.#tree;
    const { prose } = this.#measures;
    const limit = 0.3 * (prose[this.#root] as number);
    let top = node;
    // An element that begins with the heading is the section.
    for (let climbed = 0; climbed < 6; climbed++) {
      const outer = tree.parent[top] as number;
      if (outer <= this.#root || !this.#opensWith(outer, top) || (prose[outer] as number) > limit) break;
      top = outer;
    }
    const isBoxed = top !== node && (tree.end[top] as number) > (tree.end[node] as number);
    this.dropped[top] = 1;
    if (isBoxed || (traits(tag) & HEADING) === 0) return;
    const end = tree.end[tree.parent[top] as number] as number;
    for (let next = tree.end[top] as number; next < end; next = tree.end[next] as number) {
      const rank = tree.tag[next] as number;
      if (((traits(rank) & HEADING) !== 0 && rank <= tag) || (prose[next] as number) > limit) return;
      this.dropped[next] = 1;
    }
  }

  /** Whether no text precedes a child. */
  #opensWith(outer: number, child: number): boolean {
    if (child - outer > MAX_EXAMINED) return false;
    for (let node = outer + 1; node < child; node = this.#tree.end[node] as number) {
      const isText = this.#tree.tag[node] === TAG['#text'];
      if (this.dropped[node] === 0 && (isText || (this.#measures.weight[node] as number) > 0)) return false;
    }
    return true;
  }

  /** Drops blocks of high link density inside the content. */
  tidy(): void {
    const tree = this.#tree;
    const { weight, links, prose, linked } = this.#measures;
    const total = prose[this.#root] as number;
    const isListing = this.#reach.kind === 'other' && (linked[this.#root] as number) > 0.7 * total;
    if (isListing) return;
    for (let node = 1; node < tree.count; node++) {
      if (this.dropped[node] === 1) {
        node = (tree.end[node] as number) - 1;
        continue;
      }
      const tag = tree.tag[node] as number;
      if (tag === TAG.p && this.#density(node) > 0.9 && (linked[this.#root] as number) < 0.3 * total) {
        this.dropped[node] = 1;
        continue;
      }
      if (tag !== TAG.div && tag !== TAG.ul && tag !== TAG.section && tag !== TAG.ol) continue;
      const isLinks = this.#density(node) > 0.6 && (links[node] as number) > 2 && (prose[node] as number) < total * 0.2;
      if (isLinks && (weight[node] as number) > 0) {
        this.dropped[node] = 1;
        node = (tree.end[node] as number) - 1;
      }
    }
  }
}

function* childrenOf(tree: Tree, node: number): Generator<number> {
  const end = tree.end[node] as number;
  for (let child = node + 1; child < end; child = tree.end[child] as number) yield child;
}

function isHeadingLike(tag: number): boolean {
  return (
    (traits(tag) & HEADING) !== 0 ||
    tag === TAG.p ||
    tag === TAG.div ||
    tag === TAG.strong ||
    tag === TAG.b ||
    tag === TAG.span ||
    tag === TAG.dt
  );
}
