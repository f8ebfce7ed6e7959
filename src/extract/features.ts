// Numeric features of the blocks of a page, for the model that selects content. `FEATURES` is the one list of them; the
// weights of the model refer to its order. Time is linear in the size of the page.

import type { Blocks } from './blocks.ts';
import * as hint from './hints.ts';
import type { PageKind } from './metadata.ts';
import { announcesBoilerplate } from './phrases.ts';
import { HEADING, TAG, traits } from './tags.ts';
import type { Tree } from './tree.ts';

/** Names of the features and what they measure. */
export const FEATURES = {
  weight: 'characters of the block, those of scripts without spaces count three times; logarithm',
  words: 'words by spaces; logarithm',
  linked: 'share of the weight in links and buttons',
  links: 'number of links',
  capitals: 'share of capitals among letters',
  digits: 'share of digits',
  sentences: 'marks that end sentences',
  commas: 'commas per 100 characters',
  wordLength: 'mean length of words',
  endsSentence: 'the last character: 2 ends a sentence, 1 is a colon, 0 otherwise',
  startsLower: 'begins with a small letter',
  symbols: 'share of symbols such as | © # » •',
  emphasis: 'share of the weight in em, i, b, strong, small',
  announces: 'is a heading that announces boilerplate',
  titleShare: 'share of its words that are in the title of the page',
  titleCover: 'share of the words of the title that are in it',
  description: 'share of its words that are in the description of the page',
  repeats: 'blocks with the same text',
  linkedData: '1 when it is in the article body of linked data, 0 when not, -1 without such a body',
  element: 'element of the block, as a group',
  rank: 'rank of the heading, 0 for others',
  parent: 'element around the block, as a group',
  grandparent: 'element around that, as a group',
  depth: 'depth of the block',
  siblings: 'elements beside the block',
  alike: 'elements beside the block with the same element and class',
  parentAlike: 'the same for the parent of the block',
  grandparentAlike: 'the same for the grandparent',
  listed: 'number of lists around it',
  inArticle: 'articles around it',
  inMain: 'in main or role main',
  inBody: 'in an element that is marked as the body of an article',
  inNav: 'in nav',
  inHeader: 'in header',
  inFooter: 'in footer',
  inAside: 'in aside',
  inForm: 'in form',
  inFigure: 'in figure or figcaption',
  inQuote: 'in blockquote',
  inTable: 'in a table',
  inDefinitions: 'in dl',
  inHeading: 'in a heading',
  inNoscript: 'in noscript',
  inLink: 'the block is inside a link',
  inCode: 'in pre or code',
  hintNear1: 'boilerplate hints of the block and its two parents: number',
  nearContent: 'hint CONTENT within two parents',
  nearControl: 'hint CONTROL within two parents',
  navigation: 'hint NAVIGATION above it',
  advert: 'hint ADVERT above it',
  consent: 'hint CONSENT or OVERLAY above it',
  share: 'hint SHARE above it',
  related: 'hint RELATED above it',
  comments: 'hint COMMENTS above it',
  newsletter: 'hint NEWSLETTER above it',
  footer: 'hint FOOTER above it',
  sidebar: 'hint SIDEBAR above it',
  meta: 'hint META above it',
  hidden: 'hint HIDDEN or UNSEEN above it',
  content: 'hint CONTENT above it',
  control: 'hint CONTROL above it',
  author: 'hint AUTHOR above it',
  reviews: 'hint REVIEWS above it',
  lead: 'hint LEAD above it',
  suspectShare: 'share of the prose of the page in the outermost element with a boilerplate hint or element above it',
  suspectInner: 'the same for the innermost such element',
  suspects: 'number of such elements above it',
  parentShare: 'share of the prose of the page in the parent',
  share2: 'the same two levels above the block',
  share3: 'three levels',
  share5: 'five levels',
  parentDensity: 'share of linked text in the parent',
  density2: 'two levels above the block',
  density3: 'three levels',
  density5: 'five levels',
  parentProse: 'share of prose in the text of the parent',
  prose2: 'two levels above the block',
  prose3: 'three levels',
  parentWeight: 'weight of the parent; logarithm',
  weight3: 'weight three levels above the block; logarithm',
  levels: 'levels between the block and the first element that also holds the densest container',
  inDensest: 'in the container with most paragraphs',
  inSpan: 'inside the smallest element with 80 % of the prose of the page',
  spanShare: 'share of the prose in the child of that element that holds the block',
  position: 'share of blocks before it',
  proseBefore: 'share of prose before it',
  toFirst: 'blocks since the first paragraph of prose; negative before it',
  toLast: 'blocks to the last paragraph of prose in the densest container; negative after it',
  sinceProse: 'blocks since the last paragraph of prose',
  untilProse: 'blocks until the next one',
  sinceTitle: 'blocks since the first h1; negative before it',
  sinceHeading: 'blocks since the last heading',
  headingRank: 'rank of the last heading',
  headingAnnounces: 'the last heading announces boilerplate',
  sinceAnnounced: 'blocks since the last line that announces boilerplate, 99 for none',
  kind: 'kind of the page: 0 other, 1 article, 2 discussion, 3 product',
  blocks: 'blocks of the page; logarithm',
  pageProse: 'weight of prose of the page; logarithm',
  pageDensity: 'share of linked text of the page',
  paragraphs: 'paragraphs of prose of the page; logarithm',
  pageLinks: 'links of the page; logarithm',
  paragraphShare: 'share of the weight of the page in paragraphs of prose',
  articles: 'number of article elements',
  wide: 'share of the weight in scripts without spaces',
  unitAlike: 'the innermost element above the block that has others like it beside it: number of these',
  unitLevel: 'levels between the block and that element',
  unitWeight: 'weight of that element; logarithm',
  unitDensity: 'share of linked text in that element',
  unitProse: 'share of prose in the text of that element',
  unitShare: 'share of the weight of the page in the parent of that element',
  formAlike: 'blocks whose three innermost elements have the same names and classes; logarithm',
  formShare: 'share of the weight of the page in these blocks',
  formLinked: 'share of linked text in these blocks',
  routeAlike: 'blocks for which all elements above have the same names and classes; logarithm',
  routeShare: 'share of the weight of the page in these blocks',
  routeLinked: 'share of linked text in these blocks',
  text3: 'share of the weight of the page three levels above the block',
  text5: 'five levels',
  textBefore: 'share of the weight of the page before the block',
  mainShare: 'share of the weight of the page in main or role main',
  prices: 'short blocks with a price; logarithm',
  pathDepth: 'parts of the path of the address, -1 when it is not known',
  slugWords: 'words in the last part of the path',
  section: 'group of the words in the address',
  declaresList: 'linked data declare a list',
  declaresQuestions: 'linked data declare questions with answers',
  invites: 'short and begins with a word that invites to act',
  innerHint: 'number of the first hint of the innermost element with a boilerplate hint, 0 for elements',
  caption: 'hint CAPTION above it',
  nearCaption: 'hint CAPTION within two parents',
  carousel: 'hint CAROUSEL above it',
  legal: 'hint LEGAL above it',
  items: 'hint ITEMS above it',
  tabs: 'hint TABS above it',
} as const;

export type Feature = keyof typeof FEATURES;

/** Number of each feature. */
const F = Object.fromEntries(Object.keys(FEATURES).map((name, at) => [name, at])) as Readonly<Record<Feature, number>>;

/** Features that are repeated for the blocks before and after. */
const OF_NEIGHBOURS: readonly number[] = [
  F.weight, F.linked, F.sentences, F.endsSentence, F.element, F.suspectInner, F.titleShare,
]; // oxfmt-ignore

/** Distances of the neighbours. */
const DISTANCES: readonly number[] = [-2, -1, 1, 2];

const OWN = Object.keys(FEATURES).length;

/** Features of a block with those of its neighbours. */
export const WIDTH: number = OWN + OF_NEIGHBOURS.length * DISTANCES.length;

/** What the page says about itself. */
export interface About {
  readonly kind: PageKind;
  readonly title: string;
  readonly description: string;
  /** Article body of linked data. */
  readonly body: string;
  readonly url: string;
  /** Whether linked data declare a list of items, or questions with answers. */
  readonly declaresList: boolean;
  readonly declaresQuestions: boolean;
}

const KINDS: readonly PageKind[] = ['other', 'article', 'discussion', 'product'];

const SUSPECT: number =
  hint.NAVIGATION | hint.ADVERT | hint.CONSENT | hint.OVERLAY | hint.SHARE | hint.RELATED | hint.COMMENTS | hint.NEWSLETTER |
  hint.FOOTER | hint.SIDEBAR | hint.META | hint.HIDDEN | hint.UNSEEN | hint.CONTROL | hint.AUTHOR | hint.REVIEWS; // oxfmt-ignore

/** Groups of elements, in the order of their numbers. */
const GROUPS: readonly (readonly number[])[] = [
  [],
  [TAG.p],
  [TAG.li],
  [TAG.td, TAG.th],
  [TAG.h1],
  [TAG.h2],
  [TAG.h3],
  [TAG.h4, TAG.h5, TAG.h6],
  [TAG.figcaption, TAG.caption],
  [TAG.pre],
  [TAG.dt],
  [TAG.dd],
  [TAG.blockquote],
  [TAG.button],
  [TAG.div],
  [TAG.section],
  [TAG.article],
  [TAG.header],
  [TAG.footer],
  [TAG.aside],
  [TAG.nav],
  [TAG.main],
  [TAG.ul],
  [TAG.ol],
  [TAG.tr, TAG.tbody, TAG.table],
  [TAG.form, TAG.fieldset],
  [TAG.figure],
  [TAG.a],
  [TAG.span],
  [TAG.body],
];
const GROUP = new Uint8Array(0x10000);
for (const [group, tags] of GROUPS.entries()) for (const tag of tags) GROUP[tag] = group;

// Elements above a block, as bits.
const IN_NAV = 1 << 0;
const IN_HEADER = 1 << 1;
const IN_FOOTER = 1 << 2;
const IN_ASIDE = 1 << 3;
const IN_FORM = 1 << 4;
const IN_FIGURE = 1 << 5;
const IN_QUOTE = 1 << 6;
const IN_TABLE = 1 << 7;
const IN_DL = 1 << 8;
const IN_DETAILS = 1 << 9;
const IN_HEADING = 1 << 10;
const IN_LINK = 1 << 11;
const IN_CODE = 1 << 12;
const IN_MAIN = 1 << 13;
const IN_EMPHASIS = 1 << 14;
const IN_BUTTON = 1 << 15;
const IN_NOSCRIPT = 1 << 16;

const ABOVE = new Int32Array(0x10000);
const ABOVE_BITS: readonly (readonly [bit: number, tags: readonly number[]])[] = [
  [IN_NAV, [TAG.nav, TAG.menu]],
  [IN_HEADER, [TAG.header]],
  [IN_FOOTER, [TAG.footer]],
  [IN_ASIDE, [TAG.aside]],
  [IN_FORM, [TAG.form]],
  [IN_FIGURE, [TAG.figure, TAG.figcaption]],
  [IN_QUOTE, [TAG.blockquote]],
  [IN_TABLE, [TAG.table]],
  [IN_DL, [TAG.dl]],
  [IN_DETAILS, [TAG.details, TAG.dialog]],
  [IN_HEADING, [TAG.h1, TAG.h2, TAG.h3, TAG.h4, TAG.h5, TAG.h6]],
  [IN_LINK, [TAG.a]],
  [IN_BUTTON, [TAG.button, TAG.label]],
  [IN_CODE, [TAG.pre, TAG.code]],
  [IN_MAIN, [TAG.main]],
  [IN_EMPHASIS, [TAG.em, TAG.i, TAG.b, TAG.strong, TAG.small]],
  [IN_NOSCRIPT, [TAG.noscript]],
];
for (const [bit, tags] of ABOVE_BITS) for (const tag of tags) ABOVE[tag] = (ABOVE[tag] as number) | bit;

const SUSPECT_ELEMENTS: number = IN_NAV | IN_FOOTER | IN_ASIDE | IN_FORM | IN_DETAILS;

/** A block of at least this weight, mostly not linked, is a paragraph of prose. */
const PROSE_WEIGHT = 80;
/** With sentence punctuation, this is enough. */
const SENTENCE_WEIGHT = 30;
/** Blocks up to this weight are examined as lines: headings, prices, invitations. */
const LINE_WEIGHT = 110;
/** Of longer blocks, only the beginning is read. */
const LINE_CHARACTERS = 120;

/** Characters of linked data that all blocks together are compared with, so that time stays linear. */
const MAX_COMPARED = 200_000_000;

/** Alike elements from which one of them is a unit of a list. */
const UNITS = 3;

/** Places of a hash table where an element may be: a page can choose its names so that all of them have the same one. */
const MAX_PROBES = 100;

/** Levels above a block in which its unit is looked for. */
const UNIT_LEVELS = 8;

/** Words in addresses that tell what a page is, in groups. */
const SECTIONS: ReadonlyMap<string, number> = new Map(
  [
    'blog blogs news article articles story stories post posts press magazine journal insights',
    'category categories collection collections shop store catalog browse c tag tags topics search list archive archives',
    'product products p item items dp sku pd',
    'docs doc documentation help guide guides manual reference api wiki tutorial tutorials learn support kb faq',
    'forum forums thread threads community questions discussion discussions topic viewtopic showthread r t',
    'service services solutions solution features feature platform pricing about industries company contact',
    'courses course programs program jobs job careers events event reviews review best top',
  ].flatMap((words, at) => words.split(' ').map((word) => [word, at + 1] as const)),
);

/** First words of lines that invite the reader to do something. */
const INVITATIONS: ReadonlySet<string> = new Set(
  'read get shop looking more add all want explore join find click share subscribe follow become ready skip rate view see watch discover start try buy download sign learn check contact book browse search show load lesen mehr jetzt hier les lees lire voir leer ver más leggi czytaj läs læs'.split(
    ' ',
  ),
);
const PRICE = /[$€£¥₹]\s?\d|\d\s?(?:[$€£₽]|kr\b|zł|USD\b|EUR\b|GBP\b)/u;

/** Measures of one node with its subtree. */
interface Sums {
  readonly weight: Float32Array;
  readonly linked: Float32Array;
  readonly prose: Float32Array;
  readonly paragraphs: Int32Array;
}

/** Blocks with the same names and classes above them. */
interface Alike {
  size: number;
  weight: number;
  linked: number;
}

/** Features of all blocks, one row of `WIDTH` each. */
export interface Table {
  readonly rows: Float32Array;
  /** Weight of each block. */
  readonly weight: Float32Array;
  /** Of each block, a hash of the names and classes of its element and two above it. */
  readonly forms: Int32Array;
}

export function featuresOf(tree: Tree, blocks: Blocks, about: About): Table {
  return new Reader(tree, blocks, about).read();
}

class Reader {
  readonly #tree: Tree;
  readonly #blocks: Blocks;
  readonly #about: About;
  readonly #rows: Float32Array;
  /** By node. */
  readonly #above: Int32Array;
  readonly #hints: Int32Array;
  readonly #near: Int32Array;
  readonly #suspectOuter: Int32Array;
  readonly #suspectInner: Int32Array;
  readonly #suspects: Uint16Array;
  readonly #depth: Uint16Array;
  readonly #lists: Uint16Array;
  readonly #articles: Uint16Array;
  readonly #children: Int32Array;
  readonly #alike: Int32Array;
  /** By node, a hash of names and classes of it and two elements above it. */
  readonly #form: Int32Array;
  /** By node, a hash of names and classes of it and all elements above it. */
  readonly #route: Int32Array;
  #prices = 0;
  readonly #sums: Sums;
  /** By block. */
  readonly #weight: Float32Array;
  readonly #linked: Float32Array;
  readonly #isProse: Uint8Array;
  #wide = 0;
  #links = 0;
  #articleCount = 0;

  constructor(tree: Tree, blocks: Blocks, about: About) {
    this.#tree = tree;
    this.#blocks = blocks;
    this.#about = about;
    const { count } = tree;
    this.#rows = new Float32Array(blocks.count * WIDTH);
    this.#above = new Int32Array(count);
    this.#hints = new Int32Array(count);
    this.#near = new Int32Array(count);
    this.#suspectOuter = new Int32Array(count);
    this.#suspectInner = new Int32Array(count);
    this.#suspects = new Uint16Array(count);
    this.#depth = new Uint16Array(count);
    this.#lists = new Uint16Array(count);
    this.#articles = new Uint16Array(count);
    this.#children = new Int32Array(count);
    this.#alike = new Int32Array(count);
    this.#form = new Int32Array(count);
    this.#route = new Int32Array(count);
    this.#sums = {
      weight: new Float32Array(count),
      linked: new Float32Array(count),
      prose: new Float32Array(count),
      paragraphs: new Int32Array(count),
    };
    this.#weight = new Float32Array(blocks.count);
    this.#linked = new Float32Array(blocks.count);
    this.#isProse = new Uint8Array(blocks.count);
  }

  read(): Table {
    const { count, element } = this.#blocks;
    this.#descend();
    this.#countAlike();
    for (let block = 0; block < count; block++) this.#readText(block);
    this.#sumUp();
    this.#readLines();
    this.#readContainers();
    this.#readUnits();
    this.#readAlike(this.#form, F.formAlike);
    this.#readAlike(this.#route, F.routeAlike);
    this.#readPositions();
    this.#readPage();
    this.#readNeighbours();
    const forms = Int32Array.from({ length: count }, (_, block) => this.#form[element[block] as number] as number);
    return { rows: this.#rows, weight: this.#weight, forms };
  }

  /** Passes elements and hints down the tree. */
  #descend(): void {
    const { tag, parent, count, hints, shape } = this.#tree;
    const own = new Int32Array(count);
    const single = new Int32Array(count);
    const pair = new Int32Array(count);
    for (let node = 0; node < count; node++) {
      const kind = tag[node] as number;
      const mine = hints[node] as number;
      own[node] = mine;
      const bits = ABOVE[kind] as number;
      if (node === 0) continue;
      const outer = parent[node] as number;
      single[node] = Math.imul(31 * kind + (shape[node] as number), 0x9e3779b1);
      pair[node] = (single[node] as number) ^ Math.imul(single[outer] as number, 0x85ebca6b);
      this.#form[node] = (single[node] as number) ^ Math.imul(pair[outer] as number, 0x85ebca6b);
      this.#route[node] = Math.imul((this.#route[outer] as number) ^ (single[node] as number), 0xc2b2ae35) + 1;
      this.#above[node] = (this.#above[outer] as number) | bits | ((mine & hint.MAIN) === 0 ? 0 : IN_MAIN);
      this.#hints[node] = (this.#hints[outer] as number) | mine;
      this.#near[node] = mine | (own[outer] as number) | (outer > 0 ? (own[parent[outer] as number] as number) : 0);
      this.#depth[node] = (this.#depth[outer] as number) + 1;
      this.#lists[node] = (this.#lists[outer] as number) + Number(kind === TAG.ul || kind === TAG.ol);
      this.#articles[node] = (this.#articles[outer] as number) + Number(kind === TAG.article);
      if (kind === TAG.article) this.#articleCount++;
      if (kind === TAG.a) this.#links++;
      const isSuspect = (mine & SUSPECT) !== 0 || (bits & SUSPECT_ELEMENTS) !== 0;
      this.#suspects[node] = (this.#suspects[outer] as number) + Number(isSuspect);
      this.#suspectInner[node] = isSuspect ? node : (this.#suspectInner[outer] as number);
      const before = this.#suspectOuter[outer] as number;
      this.#suspectOuter[node] = before !== 0 ? before : isSuspect ? node : 0;
      if (kind !== TAG['#text']) this.#children[outer] = (this.#children[outer] as number) + 1;
    }
  }

  /** Counts siblings of the same element and class, in a hash table with open addressing. */
  #countAlike(): void {
    const { tag, parent, count, shape } = this.#tree;
    const mask = 2 ** Math.ceil(Math.log2(2 * count + 2)) - 1;
    /** A node of each group. */
    const table = new Int32Array(mask + 1);
    const first = new Int32Array(count);
    const size = new Int32Array(count);
    for (let node = 1; node < count; node++) {
      const kind = tag[node] as number;
      if (kind === TAG['#text']) continue;
      const outer = parent[node] as number;
      const form = shape[node] as number;
      first[node] = node;
      const slot = (Math.imul(Math.imul(outer, 31) + kind, 0x9e3779b1) + Math.imul(form, 0x85ebca6b)) >>> 7;
      for (let probe = slot; probe < slot + MAX_PROBES; probe++) {
        const other = table[probe & mask] as number;
        if (other === 0) {
          table[probe & mask] = node;
          break;
        }
        if (parent[other] === outer && tag[other] === kind && shape[other] === form) {
          first[node] = other;
          break;
        }
      }
      const group = first[node] as number;
      size[group] = (size[group] as number) + 1;
    }
    for (let node = 1; node < count; node++) this.#alike[node] = size[first[node] as number] as number;
  }

  #readText(block: number): void {
    const { html, from, to, tag } = this.#tree;
    let weight = 0;
    let linked = 0;
    let emphasis = 0;
    let words = 0;
    let capitals = 0;
    let letters = 0;
    let digits = 0;
    let sentences = 0;
    let commas = 0;
    let symbols = 0;
    let links = 0;
    let last = 0;
    let first = 0;
    const end = this.#blocks.end[block] as number;
    for (let node = this.#blocks.first[block] as number; node < end; node++) {
      const kind = tag[node] as number;
      if (kind !== TAG['#text']) {
        if (kind === TAG.a) links++;
        continue;
      }
      const stop = to[node] as number;
      let own = 0;
      let isWord = false;
      for (let at = from[node] as number; at < stop; at++) {
        let code = html.charCodeAt(at);
        if (code <= 32 || code === 0xa0) {
          isWord = false;
          continue;
        }
        if (code === 0x26) {
          // A character reference counts as one character.
          let semicolon = at + 1;
          const limit = Math.min(stop, at + 10);
          while (semicolon < limit && html.charCodeAt(semicolon) !== 0x3b) semicolon++;
          if (semicolon < limit) {
            const isSpace = html.startsWith('nbsp', at + 1);
            at = semicolon;
            if (isSpace) {
              isWord = false;
              continue;
            }
            code = 0x60;
          }
        }
        if (first === 0) first = code;
        last = code;
        if (code < 0x2e80) {
          own++;
          if (!isWord) words++;
          isWord = true;
          if (code >= 0x61 && code <= 0x7a) letters++;
          else if (code >= 0x41 && code <= 0x5a) {
            letters++;
            capitals++;
          } else if (code >= 0x30 && code <= 0x39) digits++;
          else if (code >= 0xc0) letters++;
          else if (code === 0x2e || code === 0x21 || code === 0x3f) sentences++;
          else if (code === 0x2c || code === 0x3b) commas++;
          else if (code !== 0x27 && code !== 0x22 && code !== 0x2d) symbols++;
          if (isSentenceEnd(code) && code > 0x7f) sentences++;
        } else {
          own += 3;
          letters++;
          words += 0.6;
          this.#wide += 3;
          if (isSentenceEnd(code)) sentences++;
          else if (code === 0x3001 || code === 0xff0c) commas++;
        }
      }
      weight += own;
      const above = this.#above[node] as number;
      if ((above & (IN_LINK | IN_BUTTON)) !== 0) linked += own;
      if ((above & IN_EMPHASIS) !== 0) emphasis += own;
    }
    const share = 1 / (weight || 1);
    const row = block * WIDTH;
    const rows = this.#rows;
    rows[row + F.weight] = Math.log2(1 + weight);
    rows[row + F.words] = Math.log2(1 + words);
    rows[row + F.linked] = linked * share;
    rows[row + F.links] = Math.min(links, 50);
    rows[row + F.capitals] = capitals / (letters || 1);
    rows[row + F.digits] = digits * share;
    rows[row + F.sentences] = Math.min(sentences, 50);
    rows[row + F.commas] = commas * 100 * share;
    rows[row + F.wordLength] = Math.min(30, weight / (words || 1));
    rows[row + F.endsSentence] = isSentenceEnd(last) || last === 0x22 || last === 0x201d ? 2 : last === 0x3a ? 1 : 0;
    rows[row + F.startsLower] = Number(first >= 0x61 && first <= 0x7a);
    rows[row + F.symbols] = symbols * share;
    rows[row + F.emphasis] = emphasis * share;
    this.#weight[block] = weight;
    this.#linked[block] = linked;
    const isLong = weight >= PROSE_WEIGHT || (weight >= SENTENCE_WEIGHT && sentences > 0);
    this.#isProse[block] = Number(isLong && linked <= weight / 2);
  }

  /** Sums text over subtrees. */
  #sumUp(): void {
    const { weight, linked, prose, paragraphs } = this.#sums;
    const { element, count } = this.#blocks;
    for (let block = 0; block < count; block++) {
      const node = element[block] as number;
      const own = this.#weight[block] as number;
      weight[node] = (weight[node] as number) + own;
      linked[node] = (linked[node] as number) + (this.#linked[block] as number);
      if (this.#isProse[block] === 1) {
        prose[node] = (prose[node] as number) + own;
        paragraphs[node] = (paragraphs[node] as number) + 1;
      }
    }
    const { parent } = this.#tree;
    for (let node = this.#tree.count - 1; node > 0; node--) {
      if (weight[node] === 0) continue;
      const outer = parent[node] as number;
      weight[outer] = (weight[outer] as number) + (weight[node] as number);
      linked[outer] = (linked[outer] as number) + (linked[node] as number);
      prose[outer] = (prose[outer] as number) + (prose[node] as number);
      paragraphs[outer] = (paragraphs[outer] as number) + (paragraphs[node] as number);
    }
  }

  /** Reads short blocks as lines, and all blocks by how they begin. */
  #readLines(): void {
    const rows = this.#rows;
    const title = new WordSet(this.#about.title);
    const description = new WordSet(this.#about.description);
    const body = lettersOf(this.#about.body);
    let left = MAX_COMPARED;
    const texts = new Map<string, number>();
    const lines: string[] = [];
    const words: number[] = [];
    for (let block = 0; block < this.#blocks.count; block++) {
      const row = block * WIDTH;
      const line = this.#lineOf(block);
      const weight = this.#weight[block] as number;
      lines.push(line);
      texts.set(line, (texts.get(line) ?? 0) + 1);
      if (weight > 8) left -= body.length;
      rows[row + F.linkedData] = body === '' || left < 0 ? -1 : Number(weight > 8 && body.includes(lettersOf(line)));
      if (weight > LINE_WEIGHT) continue;
      if ((rows[row + F.digits] as number) > 0 && PRICE.test(line)) this.#prices++;
      rows[row + F.invites] = Number(INVITATIONS.has(firstWord(line)));
      rows[row + F.announces] = Number(announcesBoilerplate(line));
      const all = wordsOf(line, words).length || 1;
      const inTitle = title.count(words);
      rows[row + F.titleShare] = inTitle / all;
      rows[row + F.titleCover] = inTitle / (title.size || 1);
      rows[row + F.description] = description.count(words) / all;
    }
    for (let block = 0; block < this.#blocks.count; block++)
      rows[block * WIDTH + F.repeats] = Math.min(20, texts.get(lines[block] as string) as number);
  }

  /** The beginning of a block. */
  #lineOf(block: number): string {
    const tree = this.#tree;
    const end = this.#blocks.end[block] as number;
    let line = '';
    for (let node = this.#blocks.first[block] as number; node < end && line.length < LINE_CHARACTERS; node++) {
      if (tree.tag[node] !== TAG['#text']) continue;
      const text = tree.textOf(node, LINE_CHARACTERS).trim();
      line = line === '' ? text : `${line} ${text}`;
    }
    return line;
  }

  #readContainers(): void {
    const tree = this.#tree;
    const { tag, parent } = tree;
    const { weight, linked, prose } = this.#sums;
    const total = (prose[0] as number) || 1;
    const density = (node: number): number => (linked[node] as number) / ((weight[node] as number) || 1);
    const densest = this.#densest();
    const isAbove = new Uint8Array(tree.count);
    for (let node = densest; node !== -1; node = parent[node] as number) isAbove[node] = 1;
    const span = this.#span();
    const spanEnd = tree.end[span] as number;
    const rows = this.#rows;
    for (let block = 0; block < this.#blocks.count; block++) {
      const row = block * WIDTH;
      const node = this.#blocks.element[block] as number;
      const kind = tag[node] as number;
      const up1 = node === 0 ? 0 : (parent[node] as number);
      const up2 = up1 === 0 ? 0 : (parent[up1] as number);
      const up3 = up2 === 0 ? 0 : (parent[up2] as number);
      const up4 = up3 === 0 ? 0 : (parent[up3] as number);
      const up5 = up4 === 0 ? 0 : (parent[up4] as number);
      const text = this.#blocks.first[block] as number;
      const above = this.#above[text] as number;
      const hints = this.#hints[node] as number;
      const near = this.#near[node] as number;
      const has = (set: number, bits: number): number => Number((set & bits) !== 0);
      rows[row + F.element] = GROUP[kind] as number;
      rows[row + F.rank] = (traits(kind) & HEADING) === 0 ? 0 : kind - TAG.h1 + 1;
      rows[row + F.parent] = GROUP[tag[up1] as number] as number;
      rows[row + F.grandparent] = GROUP[tag[up2] as number] as number;
      rows[row + F.depth] = this.#depth[node] as number;
      rows[row + F.siblings] = Math.min(200, this.#children[up1] as number);
      rows[row + F.alike] = Math.min(200, this.#alike[node] as number);
      rows[row + F.parentAlike] = Math.min(200, this.#alike[up1] as number);
      rows[row + F.grandparentAlike] = Math.min(200, this.#alike[up2] as number);
      rows[row + F.listed] = this.#lists[node] as number;
      rows[row + F.inArticle] = this.#articles[node] as number;
      rows[row + F.inMain] = has(above, IN_MAIN);
      rows[row + F.inBody] = has(hints, hint.BODY);
      rows[row + F.inNav] = has(above, IN_NAV);
      rows[row + F.inHeader] = has(above, IN_HEADER);
      rows[row + F.inFooter] = has(above, IN_FOOTER);
      rows[row + F.inAside] = has(above, IN_ASIDE);
      rows[row + F.inForm] = has(above, IN_FORM);
      rows[row + F.inFigure] = has(above, IN_FIGURE);
      rows[row + F.inQuote] = has(above, IN_QUOTE);
      rows[row + F.inTable] = has(above, IN_TABLE);
      rows[row + F.inDefinitions] = has(above, IN_DL);
      rows[row + F.inHeading] = has(above, IN_HEADING);
      rows[row + F.inNoscript] = has(above, IN_NOSCRIPT);
      rows[row + F.inLink] = has(above, IN_LINK);
      rows[row + F.inCode] = has(above, IN_CODE);
      rows[row + F.hintNear1] = has(near, SUSPECT);
      rows[row + F.nearContent] = has(near, hint.CONTENT);
      rows[row + F.nearControl] = has(near, hint.CONTROL);
      rows[row + F.navigation] = has(hints, hint.NAVIGATION);
      rows[row + F.advert] = has(hints, hint.ADVERT);
      rows[row + F.consent] = has(hints, hint.CONSENT | hint.OVERLAY);
      rows[row + F.share] = has(hints, hint.SHARE);
      rows[row + F.related] = has(hints, hint.RELATED);
      rows[row + F.comments] = has(hints, hint.COMMENTS);
      rows[row + F.newsletter] = has(hints, hint.NEWSLETTER);
      rows[row + F.footer] = has(hints, hint.FOOTER);
      rows[row + F.sidebar] = has(hints, hint.SIDEBAR);
      rows[row + F.meta] = has(hints, hint.META);
      rows[row + F.hidden] = has(hints, hint.HIDDEN | hint.UNSEEN);
      rows[row + F.content] = has(hints, hint.CONTENT);
      rows[row + F.control] = has(hints, hint.CONTROL);
      rows[row + F.author] = has(hints, hint.AUTHOR);
      rows[row + F.reviews] = has(hints, hint.REVIEWS);
      rows[row + F.lead] = has(hints, hint.LEAD);
      rows[row + F.caption] = has(hints, hint.CAPTION);
      rows[row + F.nearCaption] = has(near, hint.CAPTION);
      rows[row + F.carousel] = has(hints, hint.CAROUSEL);
      rows[row + F.legal] = has(hints, hint.LEGAL);
      rows[row + F.items] = has(hints, hint.ITEMS);
      rows[row + F.tabs] = has(hints, hint.TABS);
      const outer = this.#suspectOuter[node] as number;
      const inner = this.#suspectInner[node] as number;
      rows[row + F.suspectShare] = outer === 0 ? -1 : (prose[outer] as number) / total;
      rows[row + F.suspectInner] = inner === 0 ? -1 : (prose[inner] as number) / total;
      const first = inner === 0 ? 0 : (this.#tree.hints[inner] as number) & SUSPECT;
      rows[row + F.innerHint] = first === 0 ? 0 : 32 - Math.clz32(first & -first);
      rows[row + F.suspects] = this.#suspects[node] as number;
      rows[row + F.parentShare] = (prose[up1] as number) / total;
      rows[row + F.share2] = (prose[up2] as number) / total;
      rows[row + F.share3] = (prose[up3] as number) / total;
      rows[row + F.share5] = (prose[up5] as number) / total;
      rows[row + F.parentDensity] = density(up1);
      rows[row + F.density2] = density(up2);
      rows[row + F.density3] = density(up3);
      rows[row + F.density5] = density(up5);
      rows[row + F.parentProse] = (prose[up1] as number) / ((weight[up1] as number) || 1);
      rows[row + F.prose2] = (prose[up2] as number) / ((weight[up2] as number) || 1);
      rows[row + F.prose3] = (prose[up3] as number) / ((weight[up3] as number) || 1);
      rows[row + F.parentWeight] = Math.log2(1 + (weight[up1] as number));
      const all = (weight[0] as number) || 1;
      rows[row + F.text3] = (weight[up3] as number) / all;
      rows[row + F.text5] = (weight[up5] as number) / all;
      rows[row + F.weight3] = Math.log2(1 + (weight[up3] as number));
      let levels = 0;
      for (let up = node; isAbove[up] === 0 && levels < 30; up = parent[up] as number) levels++;
      rows[row + F.levels] = levels;
      rows[row + F.inDensest] = Number(node >= densest && node < (tree.end[densest] as number));
      const isInSpan = node >= span && node < spanEnd;
      rows[row + F.inSpan] = Number(isInSpan);
    }
    this.#readSpan(span);
  }

  /** Measures the element of a list that holds each block. */
  #readUnits(): void {
    const { parent } = this.#tree;
    const { weight, linked, prose } = this.#sums;
    const all = (weight[0] as number) || 1;
    const rows = this.#rows;
    for (let block = 0; block < this.#blocks.count; block++) {
      const row = block * WIDTH;
      let unit = this.#blocks.element[block] as number;
      let level = 0;
      do {
        unit = unit === 0 ? 0 : (parent[unit] as number);
        level++;
      } while (unit !== 0 && level < UNIT_LEVELS && (this.#alike[unit] as number) < UNITS);
      const isUnit = unit !== 0 && (this.#alike[unit] as number) >= UNITS;
      const own = (weight[unit] as number) || 1;
      rows[row + F.unitAlike] = isUnit ? Math.min(200, this.#alike[unit] as number) : 0;
      rows[row + F.unitLevel] = isUnit ? level : 0;
      rows[row + F.unitWeight] = isUnit ? Math.log2(1 + (weight[unit] as number)) : 0;
      rows[row + F.unitDensity] = isUnit ? (linked[unit] as number) / own : -1;
      rows[row + F.unitProse] = isUnit ? (prose[unit] as number) / own : -1;
      rows[row + F.unitShare] = isUnit ? (weight[parent[unit] as number] as number) / all : -1;
    }
  }

  /** Sums up the blocks of the same form or route, and writes three features of them from `column` on. */
  #readAlike(kindOf: Int32Array, column: number): void {
    const all = (this.#sums.weight[0] as number) || 1;
    const { element, count } = this.#blocks;
    const groups = new Map<number, Alike>();
    const groupOf = new Array<Alike>(count);
    for (let block = 0; block < count; block++) {
      const kind = kindOf[element[block] as number] as number;
      let group = groups.get(kind);
      if (group === undefined) groups.set(kind, (group = { size: 0, weight: 0, linked: 0 }));
      group.size++;
      group.weight += this.#weight[block] as number;
      group.linked += this.#linked[block] as number;
      groupOf[block] = group;
    }
    for (let block = 0; block < count; block++) {
      const { size, weight, linked } = groupOf[block] as Alike;
      const at = block * WIDTH + column;
      this.#rows[at] = Math.log2(1 + size);
      this.#rows[at + 1] = weight / all;
      this.#rows[at + 2] = linked / (weight || 1);
    }
  }

  /** The element with most prose directly inside: its own paragraphs count whole, those one level further by half. */
  #densest(): number {
    const { parent } = this.#tree;
    const score = new Float32Array(this.#tree.count);
    let best = 0;
    for (let block = 0; block < this.#blocks.count; block++) {
      if (this.#isProse[block] === 0) continue;
      const node = this.#blocks.element[block] as number;
      const own = (this.#weight[block] as number) - (this.#linked[block] as number);
      const up1 = node === 0 ? 0 : (parent[node] as number);
      const up2 = up1 === 0 ? 0 : (parent[up1] as number);
      score[up1] = (score[up1] as number) + own;
      if (up2 !== up1) score[up2] = (score[up2] as number) + own / 2;
      if ((score[up1] as number) > (score[best] as number)) best = up1;
      if ((score[up2] as number) > (score[best] as number)) best = up2;
    }
    return best;
  }

  /** The smallest element with 80 % of the prose. */
  #span(): number {
    const { end, tag } = this.#tree;
    const { prose } = this.#sums;
    const least = 0.8 * (prose[0] as number);
    let node = 0;
    if (least === 0) return 0;
    for (;;) {
      let next = -1;
      const stop = end[node] as number;
      for (let child = node + 1; child < stop; child = end[child] as number) {
        if (tag[child] !== TAG['#text'] && (prose[child] as number) >= least) {
          next = child;
          break;
        }
      }
      if (next === -1) return node;
      node = next;
    }
  }

  #readSpan(span: number): void {
    const { end } = this.#tree;
    const { prose } = this.#sums;
    const total = (prose[0] as number) || 1;
    const stop = end[span] as number;
    for (let child = span + 1; child < stop; child = end[child] as number) {
      const share = (prose[child] as number) / total;
      const to = this.#blocks.before[end[child] as number] as number;
      for (let block = this.#blocks.before[child] as number; block < to; block++)
        this.#rows[block * WIDTH + F.spanShare] = share;
    }
  }

  #readPositions(): void {
    const rows = this.#rows;
    const { count } = this.#blocks;
    const { tag } = this.#tree;
    const total = (this.#sums.prose[0] as number) || 1;
    let firstProse = count;
    let lastProse = -1;
    let title = -1;
    for (let block = 0; block < count; block++) {
      const row = block * WIDTH;
      const isHeading = tag[this.#blocks.element[block] as number] === TAG.h1 || rows[row + F.titleCover] === 1;
      if (title === -1 && isHeading && (rows[row + F.rank] as number) > 0) title = block;
      if (this.#isProse[block] === 0 || rows[row + F.inDensest] === 0) continue;
      if (firstProse === count) firstProse = block;
      lastProse = block;
    }
    let before = 0;
    let textBefore = 0;
    const all = (this.#sums.weight[0] as number) || 1;
    let sinceProse = 99;
    let heading = -1;
    let announced = -1;
    for (let block = 0; block < count; block++) {
      const row = block * WIDTH;
      rows[row + F.position] = block / count;
      rows[row + F.proseBefore] = before / total;
      rows[row + F.textBefore] = textBefore / all;
      textBefore += this.#weight[block] as number;
      rows[row + F.toFirst] = limited(block - firstProse);
      rows[row + F.toLast] = limited(lastProse - block);
      rows[row + F.sinceProse] = sinceProse;
      rows[row + F.sinceTitle] = title === -1 ? 99 : limited(block - title);
      rows[row + F.sinceHeading] = heading === -1 ? 99 : limited(block - heading);
      rows[row + F.headingRank] = heading === -1 ? 0 : (rows[heading * WIDTH + F.rank] as number);
      rows[row + F.headingAnnounces] = heading === -1 ? 0 : (rows[heading * WIDTH + F.announces] as number);
      rows[row + F.sinceAnnounced] = announced === -1 ? 99 : limited(block - announced);
      if (rows[row + F.announces] === 1) announced = block;
      if ((rows[row + F.rank] as number) > 0) heading = block;
      if (this.#isProse[block] === 1) {
        before += this.#weight[block] as number;
        sinceProse = 0;
      }
      if (sinceProse < 99) sinceProse++;
    }
    let until = 99;
    for (let block = count - 1; block >= 0; block--) {
      rows[block * WIDTH + F.untilProse] = until;
      if (this.#isProse[block] === 1) until = 0;
      if (until < 99) until++;
    }
  }

  #readPage(): void {
    const rows = this.#rows;
    const { count } = this.#blocks;
    const { weight, linked, prose, paragraphs } = this.#sums;
    const all = (weight[0] as number) || 1;
    let main = 0;
    for (let block = 0; block < count; block++)
      if (rows[block * WIDTH + F.inMain] === 1) main += this.#weight[block] as number;
    const { depth, words, section } = addressOf(this.#about.url);
    for (let row = 0; row < count * WIDTH; row += WIDTH) {
      rows[row + F.mainShare] = main / all;
      rows[row + F.prices] = Math.log2(1 + this.#prices);
      rows[row + F.pathDepth] = depth;
      rows[row + F.slugWords] = words;
      rows[row + F.section] = section;
      rows[row + F.declaresList] = Number(this.#about.declaresList);
      rows[row + F.declaresQuestions] = Number(this.#about.declaresQuestions);
      rows[row + F.kind] = KINDS.indexOf(this.#about.kind);
      rows[row + F.blocks] = Math.log2(1 + count);
      rows[row + F.pageProse] = Math.log2(1 + (prose[0] as number));
      rows[row + F.pageDensity] = (linked[0] as number) / all;
      rows[row + F.paragraphs] = Math.log2(1 + (paragraphs[0] as number));
      rows[row + F.pageLinks] = Math.log2(1 + this.#links);
      rows[row + F.paragraphShare] = (prose[0] as number) / all;
      rows[row + F.articles] = Math.min(50, this.#articleCount);
      rows[row + F.wide] = this.#wide / all;
    }
  }

  #readNeighbours(): void {
    const rows = this.#rows;
    const { count } = this.#blocks;
    let column = OWN;
    for (const distance of DISTANCES) {
      for (const feature of OF_NEIGHBOURS) {
        for (let block = 0; block < count; block++) {
          const other = block + distance;
          rows[block * WIDTH + column] = other < 0 || other >= count ? -1 : (rows[other * WIDTH + feature] as number);
        }
        column++;
      }
    }
  }
}

/** Parts of a path, words of the last one, and the group of the last part or label of the host that has one. */
function addressOf(url: string): { depth: number; words: number; section: number } {
  const parsed = URL.parse(url);
  if (parsed === null) return { depth: -1, words: 0, section: 0 };
  const parts = parsed.pathname.split('/').filter((part) => part !== '');
  const words = (parts.at(-1) ?? '').split(/[-_+]|%20/).length;
  const names = [...parsed.hostname.split('.').slice(0, -2), ...parts];
  const section = names.map((name) => SECTIONS.get(name.toLowerCase()) ?? 0).findLast((group) => group > 0) ?? 0;
  return { depth: Math.min(20, parts.length), words: Math.min(20, words), section };
}

function limited(distance: number): number {
  return Math.max(-99, Math.min(99, distance));
}

/** The first word, in lower case, or the first character where that is no letter. */
function firstWord(line: string): string {
  return /^(?:\p{L}+|.)/u.exec(line)?.[0].toLowerCase() ?? '';
}

/** The words of a text by hash, to count those that another text shares. */
class WordSet {
  /** By word, the last line that had it. */
  readonly #seen = new Map<number, number>();
  #lines = 0;

  constructor(text: string) {
    for (const word of wordsOf(text, [])) this.#seen.set(word, 0);
  }

  get size(): number {
    return this.#seen.size;
  }

  /** The number of different words of the set that a line has. */
  count(words: readonly number[]): number {
    if (this.size === 0) return 0;
    this.#lines++;
    let shared = 0;
    for (const word of words) {
      const seen = this.#seen.get(word);
      if (seen === undefined || seen === this.#lines) continue;
      this.#seen.set(word, this.#lines);
      shared++;
    }
    return shared;
  }
}

/** Hashes of the words of a text, in place of what `into` had. */
function wordsOf(text: string, into: number[]): readonly number[] {
  into.length = 0;
  let hash = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = at === text.length ? 0 : text.charCodeAt(at);
    const isLetter = isWordCharacter(code);
    if (isLetter) hash = (Math.imul(hash, 31) + lowerCase(code) + 1) | 0;
    // In scripts without spaces each character is a word.
    if (hash === 0 || (isLetter && code < 0x2e80)) continue;
    into.push(hash);
    hash = 0;
  }
  return into;
}

function isWordCharacter(code: number): boolean {
  if (code < 0x80)
    return (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a) || (code >= 0x30 && code <= 0x39);
  return code >= 0xc0 && (code < 0x2000 || code > 0x206f) && (code < 0x3000 || code > 0x303f) && code < 0xff00;
}

/** Lower case of Latin and Cyrillic capitals. */
function lowerCase(code: number): number {
  const isCapital =
    (code >= 0x41 && code <= 0x5a) || (code >= 0xc0 && code <= 0xde) || (code >= 0x410 && code <= 0x42f);
  return isCapital ? code + 0x20 : code;
}

function lettersOf(text: string): string {
  return text.replaceAll(/[^\p{L}\p{N}]+/gu, '').toLowerCase();
}

function isSentenceEnd(code: number): boolean {
  switch (code) {
    case 0x21: // !
    case 0x2e: // .
    case 0x3f: // ?
    case 0x2026: // ellipsis
    case 0x61f: // Arabic question mark
    case 0x6d4: // Urdu full stop
    case 0x964: // Devanagari danda
    case 0x3002: // ideographic full stop
    case 0xff01: // full-width !
    case 0xff1f: // full-width ?
      return true;
    default:
      return false;
  }
}
