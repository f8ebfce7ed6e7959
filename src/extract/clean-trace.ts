// What the cleaner made of a page, for operators: where each block stands in the source, its score, whether it was kept, and which
// source of content was taken. Collected while the cleaner runs; without a trace nothing is collected. Bounded in size.

import type { Blocks } from './blocks.ts';
import { type Feature, FEATURES, type Table, WIDTH } from './features.ts';
import type { PageKind } from './metadata.ts';
import { onLine } from './page.ts';
import { FIRST_UNKNOWN, TAG } from './tags.ts';
import type { Dropped, Tree } from './tree.ts';

/** A block: a run of text between the boundaries of block elements. */
export interface ExplainedBlock {
  /** Range in the source, in characters. */
  readonly from: number;
  readonly to: number;
  /** Names of the block element and of those around it, the innermost first. */
  readonly path: readonly string[];
  readonly text: string;
  /** Probability to be content, 0 to 1; rows of a table and items of a list share theirs. */
  readonly score: number;
  readonly kept: boolean;
  /** What speaks for or against it, in words. */
  readonly marks: readonly string[];
}

/** A source of content that was tried, and how much text it gave. */
export interface TriedSource {
  readonly name: string;
  readonly characters: number;
}

export interface CleanExplanation {
  /** The page, decoded; cut where it is long. */
  readonly source: string;
  /** Characters of the page. */
  readonly sourceLength: number;
  readonly kind: PageKind;
  /** Least score of what is kept; null where no blocks were scored. */
  readonly threshold: number | null;
  /** In the order of the page. */
  readonly blocks: readonly ExplainedBlock[];
  /** Blocks of the page. */
  readonly blockCount: number;
  /** In the order in which they were tried. */
  readonly tried: readonly TriedSource[];
  /** The source whose content was taken. */
  readonly chosen: string;
}

/** Characters of the source, of all blocks together and of one, and blocks that are told. */
const MAX_SOURCE = 400_000;
const MAX_TEXTS = 400_000;
const MAX_TEXT = 2000;
const MAX_TOLD = 4000;

/** Elements around a block that are named. */
const MAX_PATH = 6;

const NAMES: readonly string[] = Object.keys(TAG);

/** Features that say something to people, from this value on. */
const MARKS: readonly (readonly [feature: Feature, from: number, words: string])[] = [
  ['inArticle', 1, 'in article'],
  ['inMain', 1, 'in main'],
  ['inBody', 1, 'in an article body'],
  ['content', 1, 'named as content'],
  ['inNav', 1, 'in nav'],
  ['inHeader', 1, 'in header'],
  ['inFooter', 1, 'in footer'],
  ['inAside', 1, 'in aside'],
  ['inForm', 1, 'in form'],
  ['linked', 0.5, 'mostly links'],
  ['announces', 1, 'announces boilerplate'],
  ['headingAnnounces', 1, 'under a heading of boilerplate'],
  ['navigation', 1, 'named as navigation'],
  ['advert', 1, 'named as advert'],
  ['consent', 1, 'named as consent'],
  ['share', 1, 'named as share'],
  ['related', 1, 'named as related'],
  ['comments', 1, 'named as comments'],
  ['newsletter', 1, 'named as newsletter'],
  ['footer', 1, 'named as footer'],
  ['sidebar', 1, 'named as sidebar'],
  ['meta', 1, 'named as metadata'],
  ['hidden', 1, 'hidden'],
  ['control', 1, 'named as control'],
  ['author', 1, 'named as author'],
  ['reviews', 1, 'named as reviews'],
];
const COLUMNS = Object.keys(FEATURES);

/** The blocks of the page as they were scored. */
interface Selected {
  readonly tree: Tree;
  readonly blocks: Blocks;
  readonly table: Table;
  readonly odds: Float32Array;
  readonly threshold: number;
}

export class CleanTrace {
  readonly #tried: (TriedSource & { readonly found: object })[] = [];
  #html = '';
  #kind: PageKind = 'other';
  #selected: Selected | null = null;
  #dropped: Dropped | null = null;
  #chosen = '';

  /** The page is read. */
  began(html: string, kind: PageKind): void {
    this.#html = html;
    this.#kind = kind;
  }

  /** The blocks of the page were scored; `dropped` are the nodes that are left out. */
  selected(selected: Selected, dropped: Dropped): void {
    this.#selected = selected;
    this.#dropped = dropped;
  }

  /** A source gave `found`. */
  tried(name: string, found: { readonly text: string }): void {
    this.#tried.push({ name, characters: found.text.length, found });
  }

  /** `found` is taken: what a source gave, or that with something added. */
  chose(found: object): void {
    this.#chosen = this.#tried.findLast((each) => each.found === found)?.name ?? `${this.#tried.at(-1)?.name} and more`;
  }

  explanation(): CleanExplanation {
    return {
      source: this.#html.slice(0, MAX_SOURCE).toWellFormed(),
      sourceLength: this.#html.length,
      kind: this.#kind,
      threshold: this.#selected === null ? null : this.#selected.threshold,
      blocks: this.#blocks(),
      blockCount: this.#selected?.blocks.count ?? 0,
      tried: this.#tried.map(({ characters, name }) => ({ name, characters })),
      chosen: this.#chosen,
    };
  }

  #blocks(): ExplainedBlock[] {
    if (this.#selected === null || this.#dropped === null) return [];
    const { blocks, odds, table, tree } = this.#selected;
    const gone = inherited(tree, this.#dropped);
    const told: ExplainedBlock[] = [];
    let characters = 0;
    for (let block = 0; block < Math.min(blocks.count, MAX_TOLD) && characters < MAX_TEXTS; block++) {
      const first = blocks.first[block] as number;
      const text = textOf(tree, blocks, block);
      characters += text.length;
      told.push({
        from: tree.from[first] as number,
        to: tree.to[(blocks.end[block] as number) - 1] as number,
        path: pathOf(tree, blocks.element[block] as number),
        text,
        score: Math.round((odds[block] as number) * 1000) / 1000,
        kept: gone[first] === 0,
        marks: marksOf(table, block),
      });
    }
    return told;
  }
}

/** 1 for each node that is not written, those inside dropped ones included. */
function inherited(tree: Tree, dropped: Dropped): Uint8Array {
  const gone = dropped.slice();
  for (let node = 1; node < tree.count; node++) if (gone[tree.parent[node] as number] === 1) gone[node] = 1;
  return gone;
}

function textOf(tree: Tree, blocks: Blocks, block: number): string {
  let text = '';
  for (let node = blocks.first[block] as number; node < (blocks.end[block] as number); node++) {
    if (blocks.of[node] !== block) continue;
    text += `${text === '' ? '' : ' '}${tree.textOf(node, MAX_TEXT)}`;
    if (text.length >= MAX_TEXT) break;
  }
  return onLine(text.slice(0, MAX_TEXT)).trim().toWellFormed();
}

function pathOf(tree: Tree, element: number): string[] {
  const path: string[] = [];
  for (let node = element; node > 0 && path.length < MAX_PATH; node = tree.parent[node] as number) {
    const tag = tree.tag[node] as number;
    path.push(tag < FIRST_UNKNOWN ? (NAMES[tag] as string) : 'custom');
  }
  return path;
}

function marksOf({ rows }: Table, block: number): string[] {
  const row = block * WIDTH;
  return MARKS.filter(([feature, from]) => (rows[row + COLUMNS.indexOf(feature)] as number) >= from).map(
    ([, , words]) => words,
  );
}
