// Decides what of a page is its content. Called by clean.ts with the measured tree; marks what goes, and leaves the rest
// for the writers. Rules speak of shares of the page's text, never of single sites.

import * as hint from './hints.ts';
import type { PageKind } from './kind.ts';
import { announcesBoilerplate } from './phrases.ts';
import { type Measures, sums } from './measure.ts';
import { HEADING, OPAQUE, TAG, traits } from './tags.ts';
import type { Tree } from './tree.ts';

/** Which nodes are written: 1 for those that are not. What is inside of a dropped node has no mark of its own. */
export type Dropped = Uint8Array;

/** How hard to look. */
export interface Reach {
  readonly kind: PageKind;
  /** Texts for readers without scripts are read as well. */
  readonly noscript: boolean;
  /** Class names decide. */
  readonly byNames: boolean;
}

/** Kinds of boilerplate, by hint; what holds more of a page's prose than its limit is none on that page. */
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

/** Elements that say they are the content, and the share of the prose that bears them out. */
const ANCHORS: readonly (readonly [test: (tag: number, hints: number) => boolean, least: number])[] = [
  [(_tag, hints) => (hints & hint.BODY) !== 0, 0.5],
  [(tag) => tag === TAG.article, 0.5],
  [(tag, hints) => tag === TAG.main || (hints & hint.MAIN) !== 0, 0.4],
];

/** A child with this much of its parent's prose is where the content is. */
const DOMINANT = 0.8;

/** Elements that content may be looked for in; text does not stand beside these, it is within them. */
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

/** Headings are no longer than this. */
const MAX_HEADING = 60;

/** Nodes around a heading, and characters of it, that are looked at, so that headings cost the same on every page. */
const MAX_LOOKED_AT = 256;

/** Leaves out what is no content. `own` is what each node holds by itself. */
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
  /** Sums of what is not dropped; brought up to date after each step that needs it. */
  #measures: Measures;
  readonly #reach: Reach;
  /** Where the content is. */
  #root = 0;

  constructor(tree: Tree, own: Measures, reach: Reach) {
    this.#tree = tree;
    this.#own = own;
    this.#reach = reach;
    this.dropped = new Uint8Array(tree.count);
    this.#measures = own;
  }

  #density(node: number): number {
    return (this.#measures.linked[node] as number) / ((this.#measures.weight[node] as number) || 1);
  }

  /** Drops what says by its element, role or names that it is no content. */
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
    // A table of facts may be called anything.
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

  /** Goes down to where the prose is and drops what stands beside the way. */
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
      // One of several is not the whole.
      if (found !== 0 && others < 0.1 * (prose[found] as number)) return found;
    }
    return 0;
  }

  /** Drops everything around a node but the headings that lead to it. */
  #keepOnly(node: number): void {
    const tree = this.#tree;
    for (let inner = node; inner > 0; inner = tree.parent[inner] as number) {
      for (const child of childrenOf(tree, tree.parent[inner] as number)) {
        if (child === inner || this.dropped[child] === 1 || (child < inner && this.#leads(child))) continue;
        this.dropped[child] = 1;
      }
    }
  }

  /** Whether something before the body of an article opens it. */
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

  /** Whether what stands beside the way to the content is part of it. */
  #belongs(child: number, best: number): boolean {
    const tag = this.#tree.tag[child] as number;
    if (tag === TAG['#text'] || tag === TAG.br || (traits(tag) & HEADING) !== 0) return true;
    const weight = this.#measures.weight[child] as number;
    const prose = this.#measures.prose[child] as number;
    return (
      this.#density(child) < 0.4 && prose > 0.4 * weight && weight > 0.02 * (this.#measures.weight[best] as number)
    );
  }

  /** Drops what headings announce as other than content. */
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
    const end = Math.min(this.#tree.end[node] as number, node + MAX_LOOKED_AT);
    for (let inner = node; inner < end && line.length < MAX_HEADING; inner++) {
      if (this.#tree.tag[inner] === TAG['#text'])
        line += `${this.#tree.textOf(inner, MAX_LOOKED_AT).replaceAll(/\s+/g, ' ')} `;
    }
    return line;
  }

  /** Drops the heading at `node` with all that stands under it, up to a heading of its own rank. */
  #dropSection(node: number, tag: number): void {
    const tree = this.#tree;
    const { prose } = this.#measures;
    const limit = 0.3 * (prose[this.#root] as number);
    let top = node;
    // A box that opens with the heading is the section.
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

  /** Whether nothing to read stands before a child. */
  #opensWith(outer: number, child: number): boolean {
    if (child - outer > MAX_LOOKED_AT) return false;
    for (let node = outer + 1; node < child; node = this.#tree.end[node] as number) {
      const isText = this.#tree.tag[node] === TAG['#text'];
      if (this.dropped[node] === 0 && (isText || (this.#measures.weight[node] as number) > 0)) return false;
    }
    return true;
  }

  /** Drops lists of links and the like inside the content. */
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
