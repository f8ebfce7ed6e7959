// Extracts clean text from HTML: the published function of `headrace/clean`. Accepts any text and never throws; time is linear
// in the size of the page.

import { Blocks } from './blocks.ts';
import type { CleanTrace } from './clean-trace.ts';
import { type About, featuresOf, type Table } from './features.ts';
import { CONSENT_DIALOG } from './hints.ts';
import { imagesOf, isPermalink, lineOf, linksOf, UrlResolver } from './links.ts';
import { documentsOf, htmlOfText, lettersOf, linkedContentOf } from './linked-content.ts';
import { contentOf } from './content-builder.ts';
import { htmlOf } from './html-writer.ts';
import { markdownOf } from './markdown-writer.ts';
import { authorsOf, declaredBy, descriptionOf, kindOf, metadataOf, titleOfPage } from './metadata.ts';
import { score } from './model.ts';
import { type CleanOptions, type CleanPage, type PageFormat, pageOf } from './page.ts';
import { type Head, type Page, parse } from './parse.ts';
import { select } from './select.ts';
import { type SiteReading, readSite } from './sites/sites.ts';
import { DETAIL } from './sites/thread.ts';
import { flightOf, stateOf } from './state/page-state.ts';
import { type LinkedData, readLinkedData } from './structured.ts';
import { TAG } from './tags.ts';
import { textOf } from './text-writer.ts';
import type { Dropped, Tree } from './tree.ts';

/** Shorter content is replaced when another source has much more. */
const MIN_CONTENT = 300;
/** The factor by which the other source must be longer. */
const MUCH_MORE = 2;

/** Shorter product descriptions are names. */
const MIN_DESCRIPTION = 100;

/** Pages of more blocks are kept whole: the features of a block take 650 bytes. */
const MAX_BLOCKS = 100_000;

const MAX_HEADING_CHARACTERS = 300;
const MAX_HEADINGS = 6;

/** Letters at the start of a line that tell whether a page shows it. */
const COMPARED_LETTERS = 40;
/** Lines of a text that are looked for in a page, and those of all texts: a page that shows a text needs one. */
const COMPARED_LINES = 100;
const MAX_COMPARED = 2000;

/** Content, and the nodes that were left out of the tree that it is from. */
interface Finding {
  /** Plain text, which tells how much a source has, whatever the format. */
  readonly text: string;
  /** In the format asked for. */
  readonly content: string;
  readonly tree: Tree;
  readonly dropped: Dropped;
}

/** Extracts the content of the page `html`. */
export function clean(html: string, options: CleanOptions = {}): CleanPage {
  return cleanScored(html, options, score);
}

/** As `clean`, with a scorer of blocks. `trace` hears how the content was found. */
export function cleanScored(html: string, options: CleanOptions, scorer: Scorer, trace?: CleanTrace): CleanPage {
  const { url = '', format = 'text', include = [], isXml = false } = options;
  const page = parse(html, isXml);
  const urls = new UrlResolver(url, page.head.base);
  const data = readLinkedData(page.head.linkedData);
  const site = readSite(html, page.head, url);
  const title = site?.title || titleOfPage(page.head, data, headingsOf(page.tree), url);
  const about = {
    kind: kindOf(page.head, url),
    title,
    description: descriptionOf(page.head),
    body: data.body ?? '',
    url,
    ...declaredBy(data),
  };
  trace?.began(html, about.kind);
  const found = new ContentSearch(page, data, urls, format, about, scorer, trace).find(site);
  trace?.chose(found);
  const said = include.includes('metadata') ? saidOf(page.head, data, urls) : {};
  return resultOf(found, title, options, urls, said);
}

/** Renders HTML that is content as a whole, such as that of a site adapter. */
export function render(html: string, title: string, options: CleanOptions = {}): CleanPage {
  const { url = '', format = 'text' } = options;
  const urls = new UrlResolver(url, '');
  return resultOf(siteFinding(html, urls, format), title, options, urls, {});
}

/** HTML that is content as a whole. Plain text leaves out what a site adapter marked as a detail. */
function siteFinding(html: string, urls: UrlResolver, format: PageFormat): Finding {
  const { tree } = parse(html);
  const dropped = new Uint8Array(tree.count);
  for (let node = 1; format === 'text' && node < tree.count; node++) {
    const isMarked =
      (tree.tag[node] === TAG.div || tree.tag[node] === TAG.span) && tree.attribute(node, DETAIL) !== undefined;
    if (isMarked) dropped[node] = 1;
  }
  return findingOf(tree, dropped, urls, format);
}

function resultOf(
  { text, content, tree, dropped }: Finding,
  title: string,
  { url = '', include = [] }: CleanOptions,
  urls: UrlResolver,
  said: Said,
): CleanPage {
  const firstLine = text.slice(0, MAX_HEADING_CHARACTERS + 1).split('\n', 1)[0] ?? '';
  const page = {
    ...pageOf(text, [title, firstLine], url, said),
    content: content.toWellFormed(),
    ...(tree.isCut ? { truncated: true } : {}),
  };
  return {
    ...page,
    ...(include.includes('links') && { links: linksOf(tree, dropped, urls) }),
    ...(include.includes('images') && { images: imagesOf(tree, dropped, urls) }),
  };
}

/** What a page says of itself. */
type Said = Pick<CleanPage, 'authors' | 'metadata'>;

function saidOf(head: Head, data: LinkedData, urls: UrlResolver): Said {
  const authors = authorsOf(head, data);
  return { metadata: metadataOf(head, data, urls), ...(authors.length > 0 && { authors }) };
}

/** Probabilities of the blocks of a page to be content. */
export type Scorer = (table: Table, tree: Tree, blocks: Blocks) => Float32Array;

/** Name of this source in traces. */
const BODY = 'article body of linked data';

/** Tries the sources of content in order until one has enough. */
class ContentSearch {
  readonly #tree: Tree;
  readonly #head: Head;
  readonly #data: LinkedData;
  readonly #urls: UrlResolver;
  readonly #format: PageFormat;
  readonly #about: About;
  readonly #scorer: Scorer;
  readonly #trace: CleanTrace | undefined;

  constructor(
    { tree, head }: Page,
    data: LinkedData,
    urls: UrlResolver,
    format: PageFormat,
    about: About,
    scorer: Scorer,
    trace: CleanTrace | undefined,
  ) {
    this.#tree = tree;
    this.#head = head;
    this.#data = data;
    this.#urls = urls;
    this.#format = format;
    this.#about = about;
    this.#scorer = scorer;
    this.#trace = trace;
  }

  /** `site` is what the adapter of the site read, which replaces all other sources. */
  find(site: SiteReading | null): Finding {
    const read = site === null ? null : siteFinding(site.html, this.#urls, this.#format);
    if (read !== null) this.#trace?.tried('adapter of the site', read);
    if (read !== null && site?.isOwnHost === true && read.text !== '') return read;
    const best = this.#search();
    // A page that only claims to be of a software must not hide its text.
    if (read !== null && MUCH_MORE * read.text.length >= best.text.length) return read;
    return this.#withDocument(best);
  }

  #search(): Finding {
    let best = this.#select(this.#tree);
    this.#trace?.tried('page', best);
    if (best.text.length >= MIN_CONTENT && this.#about.kind !== 'product') return this.#withBody(best);
    const { scripts } = this.#head;
    const others: readonly (readonly [name: string, find: () => Finding])[] = [
      [BODY, () => this.#ofBody()],
      ['scripts of React', () => this.#ofPage(flightOf(scripts, false))],
      ['all scripts of React', () => this.#ofPage(flightOf(scripts, true))],
      ['state in scripts', () => this.#ofHtml(stateOf(scripts))],
      ['linked data', () => this.#ofHtml(linkedContentOf(this.#data.items))],
      [
        'description',
        () => this.#ofHtml([this.#data.description ?? '', descriptionOf(this.#head)].map(htmlOfText).join('')),
      ],
      ['whole body', () => this.#everything()],
    ];
    if (this.#about.kind === 'product') best = this.#withDescription(best);
    for (const [name, find] of others) {
      if (best.text.length >= MIN_CONTENT) return best;
      const found = find();
      this.#trace?.tried(name, found);
      if (found.text.length > MUCH_MORE * best.text.length) best = found;
    }
    return best;
  }

  /** The article of linked data in place of its beginning, which is all that a page may show to those who have not subscribed. */
  #withBody(found: Finding): Finding {
    if ((this.#data.body ?? '').length <= MUCH_MORE * found.text.length) return found;
    const whole = this.#ofBody();
    this.#trace?.tried(BODY, whole);
    const isLonger = whole.text.length > MUCH_MORE * found.text.length;
    return isLonger && new Letters(whole.text).show(found.text) ? whole : found;
  }

  #ofBody(): Finding {
    return this.#ofHtml(htmlOfText(this.#data.body ?? ''));
  }

  /** Adds the description of a product from linked data unless the page shows it. */
  #withDescription(found: Finding): Finding {
    const described = this.#ofHtml(htmlOfText(this.#data.product ?? ''));
    const isShown = lettersOf(found.text).includes(lettersOf(described.text).slice(0, 40));
    if (isShown || described.text.length < MIN_DESCRIPTION) return found;
    if (found.text.length < MUCH_MORE * described.text.length) return described;
    return { ...found, ...joined([described, found]) };
  }

  /** Adds the parts of the document that linked data holds and that the page does not show. */
  #withDocument(found: Finding): Finding {
    const parts = documentsOf(this.#data.items, this.#head.title);
    if (parts.length === 0) return found;
    const shown = new Letters(found.text);
    const missing = parts.map((part) => this.#ofHtml(part)).filter(({ text }) => !shown.show(text));
    return missing.length === 0 ? found : { ...found, ...joined([found, ...missing]) };
  }

  #select(tree: Tree): Finding {
    const blocks = new Blocks(tree);
    if (blocks.count > MAX_BLOCKS) return this.#finding(tree, new Uint8Array(tree.count));
    const table = featuresOf(tree, blocks, this.#about);
    const probabilities = this.#scorer(table, tree, blocks);
    const isArticle = this.#about.kind === 'article';
    const { forms, weight: weights } = table;
    const { dropped, odds, threshold } = select(tree, { blocks, weights, forms, probabilities, isArticle });
    if (tree === this.#tree) this.#trace?.selected({ tree, blocks, table, odds, threshold }, dropped);
    return this.#finding(tree, dropped);
  }

  /** The whole body without consent dialogs. */
  #everything(): Finding {
    const tree = this.#tree;
    const dropped = new Uint8Array(tree.count);
    for (let node = 1; node < tree.count; node++)
      if (((tree.hints[node] as number) & CONSENT_DIALOG) !== 0) dropped[node] = 1;
    return this.#finding(tree, dropped);
  }

  /** HTML that is content as a whole. */
  #ofHtml(html: string): Finding {
    const { tree } = parse(html);
    return this.#finding(tree, new Uint8Array(tree.count));
  }

  /** HTML of a whole page, with its menus. */
  #ofPage(html: string): Finding {
    return this.#select(parse(html).tree);
  }

  #finding(tree: Tree, dropped: Dropped): Finding {
    return findingOf(tree, dropped, this.#urls, this.#format);
  }
}

const WRITERS = { text: textOf, markdown: markdownOf, html: htmlOf };

function findingOf(tree: Tree, dropped: Dropped, urls: UrlResolver, format: PageFormat): Finding {
  const blocks = contentOf(tree, dropped, urls);
  const text = textOf(blocks);
  return { text, content: format === 'text' ? text : WRITERS[format](blocks), tree, dropped };
}

function joined(findings: readonly Finding[]): { text: string; content: string } {
  const join = (parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n\n');
  return { text: join(findings.map(({ text }) => text)), content: join(findings.map(({ content }) => content)) };
}

/** The letters of a text, in which others are looked for. */
class Letters {
  readonly #letters: string;
  #left = MAX_COMPARED;

  constructor(text: string) {
    this.#letters = lettersOf(text);
  }

  /** Whether they contain a long line of `content`, or all of it when it is one line. */
  show(content: string): boolean {
    return content
      .split('\n', COMPARED_LINES)
      .map((line) => lettersOf(line).slice(0, COMPARED_LETTERS))
      .filter((letters, _, all) => letters.length >= COMPARED_LETTERS || all.length === 1)
      .some((letters) => this.#left-- > 0 && this.#letters.includes(letters));
  }
}

/** The texts of the `h1` elements that are not empty, without buttons such as "Copy" beside others and links to the heading itself. */
function headingsOf(tree: Tree): string[] {
  const headings: string[] = [];
  const isControl = (node: number): boolean =>
    tree.tag[node] === TAG.button || (tree.tag[node] === TAG.a && isPermalink(tree, node));
  for (let node = 0; node < tree.count && headings.length < MAX_HEADINGS; node++) {
    if (tree.tag[node] !== TAG.h1) continue;
    const line = lineOf(tree, node, MAX_HEADING_CHARACTERS, isControl) || lineOf(tree, node, MAX_HEADING_CHARACTERS);
    if (line !== '') headings.push(line);
    // Headings inside of one without text have none either.
    else node = (tree.end[node] as number) - 1;
  }
  return headings;
}
