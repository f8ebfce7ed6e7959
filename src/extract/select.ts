// Chooses the content of a page from the probabilities of its blocks, and marks the nodes that are dropped. Tables, lists,
// rows and code stay whole.

import type { Blocks } from './blocks.ts';
import { HEADING, TAG, traits } from './tags.ts';
import type { Dropped, Tree } from './tree.ts';

/** Steps of probability between which the threshold is chosen. */
const STEPS = 100;

/** A heading is kept with this share of the threshold when it leads to kept text. */
const LIKELY_HEADING = 0.6;

/** From this probability on, a heading is content by itself. */
const CERTAIN_HEADING = 0.8;

/** A row or an item with this share of its table or list is no part of an enumeration. */
const DOMINANT = 0.6;

/** Blocks of this weight that a page has twice are copies; shorter ones recur, such as the steps of a manual. */
const COPIED = 100;

/** The blocks of a page as the model sees them. */
export interface Scored {
  readonly blocks: Blocks;
  /** Weight of each block in characters. */
  readonly weights: Float32Array;
  /** The same number for blocks of the same form. */
  readonly forms: Int32Array;
  /** Probability of each block to be content. */
  readonly probabilities: Float32Array;
  readonly isArticle: boolean;
}

/** What is kept, and by what. */
export interface Selection {
  /** The nodes to drop. */
  readonly dropped: Dropped;
  /** Probability of each block, averaged over blocks of its form, table or list, and the least that is kept. */
  readonly odds: Float32Array;
  readonly threshold: number;
}

/** Chooses the blocks to keep. */
export function select(tree: Tree, { blocks, weights, forms, probabilities, isArticle }: Scored): Selection {
  const odds = isArticle ? probabilities.slice() : averageForms(forms, weights, probabilities);
  averageGroups(tree, blocks, weights, odds);
  const threshold = thresholdOf(weights, odds);
  const kept = new Uint8Array(blocks.count);
  for (let block = 0; block < blocks.count; block++) kept[block] = Number((odds[block] as number) >= threshold);
  dropCopies(tree, blocks, weights, kept);
  keepAttached(tree, blocks, odds, threshold, kept);
  if (isArticle) dropEmptySections(tree, blocks, odds, kept);
  return { dropped: dropOthers(tree, blocks, kept), odds, threshold };
}

/**
 * The mean of the probability of each block and that of all blocks of its form, which mostly have the same role. Not on articles,
 * whose captions, notes and promotions look like their paragraphs.
 */
function averageForms(forms: Int32Array, weights: Float32Array, probabilities: Float32Array): Float32Array {
  const means = new Map<number, { sum: number; weight: number }>();
  for (const [block, form] of forms.entries()) {
    const weight = 1 + (weights[block] as number);
    const mean = means.get(form) ?? { sum: 0, weight: 0 };
    mean.sum += weight * (probabilities[block] as number);
    mean.weight += weight;
    means.set(form, mean);
  }
  return probabilities.map((probability, block) => {
    const { sum, weight } = means.get(forms[block] as number) as { sum: number; weight: number };
    return (probability + sum / weight) / 2;
  });
}

/** Gives the rows of a table and the items of a list their mean probability. */
function averageGroups(tree: Tree, blocks: Blocks, weights: Float32Array, odds: Float32Array): void {
  const group = new Int32Array(blocks.count);
  const sum = new Float32Array(tree.count);
  const weight = new Float32Array(tree.count);
  const most = new Float32Array(tree.count);
  for (let block = 0; block < blocks.count; block++) {
    const whole = groupOf(tree, blocks.element[block] as number);
    group[block] = whole;
    const own = weights[block] as number;
    sum[whole] = (sum[whole] as number) + own * (odds[block] as number);
    weight[whole] = (weight[whole] as number) + own;
    most[whole] = Math.max(most[whole] as number, own);
  }
  for (let block = 0; block < blocks.count; block++) {
    const whole = group[block] as number;
    const total = weight[whole] as number;
    const isWhole = tree.tag[whole] === TAG.dl || (most[whole] as number) < DOMINANT * total;
    if (whole !== 0 && isWhole) odds[block] = (sum[whole] as number) / total;
  }
}

/** The table of a row or the list of an item, also of definitions; 0 for other elements. */
function groupOf(tree: Tree, element: number): number {
  const tag = tree.tag[element] as number;
  if (tag === TAG.li || tag === TAG.dt || tag === TAG.dd) return tree.parent[element] as number;
  if (tag !== TAG.tr) return 0;
  const outer = tree.parent[element] as number;
  return tree.tag[outer] === TAG.table ? outer : (tree.parent[outer] as number);
}

/**
 * The threshold with the greatest expected F1. The blocks of a page are taken to be content together: one number from 0 to 1, each
 * as likely, divides them, and those with at least this probability are content.
 */
function thresholdOf(weights: Float32Array, odds: Float32Array): number {
  /** Weight of the blocks with at least each step of probability. */
  const reached = new Float64Array(STEPS + 2);
  for (const [block, odd] of odds.entries()) {
    const step = Math.floor(odd * STEPS);
    reached[step] = (reached[step] as number) + (weights[block] as number);
  }
  for (let step = STEPS; step >= 0; step--) reached[step] = (reached[step] as number) + (reached[step + 1] as number);
  let best = 0;
  let threshold = 0;
  for (let step = STEPS; step >= 0; step--) {
    const kept = reached[step] as number;
    let f1 = 0;
    for (let least = 1; least <= STEPS; least++) {
      const content = reached[least] as number;
      f1 += Math.min(kept, content) / (kept + content || 1);
    }
    if (f1 > best) {
      best = f1;
      threshold = step / STEPS;
    }
  }
  return threshold;
}

/** Drops blocks whose text is kept before: a version for other screens or without scripts, a post that a reply quotes. */
function dropCopies(tree: Tree, blocks: Blocks, weights: Float32Array, kept: Uint8Array): void {
  const texts = new Set<string>();
  for (let block = 0; block < blocks.count; block++) {
    const tag = tree.tag[blocks.element[block] as number];
    const isWhole = tag === TAG.pre || tag === TAG.tr;
    if (kept[block] === 0 || isWhole || (weights[block] as number) < COPIED) continue;
    const text = spacelessTextOf(tree, blocks, block);
    if (texts.has(text)) kept[block] = 0;
    texts.add(text);
  }
}

function spacelessTextOf(tree: Tree, blocks: Blocks, block: number): string {
  let text = '';
  for (let node = blocks.first[block] as number; node < (blocks.end[block] as number); node++)
    if (blocks.of[node] === block) text += tree.html.slice(tree.from[node], tree.to[node]);
  return text.replaceAll(/\s+/g, '');
}

/** Keeps likely headings of kept text, and code beside kept text. */
function keepAttached(tree: Tree, blocks: Blocks, odds: Float32Array, threshold: number, kept: Uint8Array): void {
  let follows = 0;
  for (let block = blocks.count - 1; block >= 0; block--) {
    const tag = tree.tag[blocks.element[block] as number] as number;
    if (tag === TAG.pre && (kept[block - 1] === 1 || kept[block + 1] === 1)) kept[block] = 1;
    if ((traits(tag) & HEADING) === 0) follows = kept[block] as number;
    else if (follows === 1 && (odds[block] as number) >= LIKELY_HEADING * threshold) kept[block] = 1;
  }
}

/** Drops headings without kept text before the next heading of their rank or a higher one. */
function dropEmptySections(tree: Tree, blocks: Blocks, odds: Float32Array, kept: Uint8Array): void {
  /** By rank, whether text is kept since the last heading of it, from the end of the page. */
  const leads = new Uint8Array(7);
  for (let block = blocks.count - 1; block >= 0; block--) {
    const tag = tree.tag[blocks.element[block] as number] as number;
    if ((traits(tag) & HEADING) === 0) {
      if (kept[block] === 1) leads.fill(1);
      continue;
    }
    const rank = tag - TAG.h1 + 1;
    if (leads[rank] === 0 && (odds[block] as number) < CERTAIN_HEADING) kept[block] = 0;
    leads.fill(0, rank);
  }
}

/** Drops the text of other blocks, elements without kept text, and images among dropped text. */
function dropOthers(tree: Tree, blocks: Blocks, kept: Uint8Array): Dropped {
  const { tag, parent, count } = tree;
  const dropped = new Uint8Array(count);
  const hasText = new Uint8Array(count);
  const hasKept = new Uint8Array(count);
  for (let node = count - 1; node > 0; node--) {
    const outer = parent[node] as number;
    if (tag[node] === TAG['#text']) {
      const keeps = kept[blocks.of[node] as number] as number;
      hasText[outer] = 1;
      if (keeps === 1) hasKept[outer] = 1;
      else dropped[node] = 1;
    } else if (hasText[node] === 1) {
      hasText[outer] = 1;
      if (hasKept[node] === 1) hasKept[outer] = 1;
      else dropped[node] = 1;
    }
  }
  for (let node = 1; node < count; node++) {
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
    } else if (tag[node] !== TAG['#text'] && hasText[node] === 0 && tag[node] !== TAG.br && tag[node] !== TAG.hr) {
      const before = (blocks.before[node] as number) - 1;
      const isAmong = kept[before] === 1 || kept[before + 1] === 1;
      if (!isAmong) dropped[node] = 1;
      node = (tree.end[node] as number) - 1;
    }
  }
  return dropped;
}
