// Extracts clean text from HTML: the published function of `headrace/clean`. Accepts any text and never throws; time is linear
// in the size of the page.

import { decodeHTML } from 'entities';
import { lineOf, linksOf, UrlResolver } from './links.ts';
import { escaped, MarkdownWriter } from './markdown-writer.ts';
import { type Measures, measure } from './measure.ts';
import { descriptionOf, kindOf, metadataOf, type PageKind, titleOf } from './metadata.ts';
import { type CleanOptions, type CleanPage, type PageFormat, pageOf, tidy } from './page.ts';
import { type Head, type Page, parse } from './parse.ts';
import { type Reach, select } from './select.ts';
import { type LinkedData, readLinkedData, readState } from './structured.ts';
import { TAG } from './tags.ts';
import { TextWriter } from './text-writer.ts';
import { type Dropped, type Tree, walk } from './tree.ts';

/** Shorter content is replaced when another source has much more. */
const MIN_CONTENT = 300;
/** The factor by which the other source must be longer. */
const MUCH_MORE = 2;

/** Shorter product descriptions are names. */
const MIN_DESCRIPTION = 100;

const MAX_HEADING_CHARACTERS = 300;

/** Content and the nodes that were left out of it. */
interface Finding {
  readonly content: string;
  readonly dropped: Dropped;
}

/** Extracts the content of the page `html`. */
export function clean(html: string, options: CleanOptions = {}): CleanPage {
  const { url = '', format = 'text', include = [] } = options;
  const page = parse(html);
  const urls = new UrlResolver(url, page.head.base);
  const data = readLinkedData(page.head.linkedData);
  const { content, dropped } = new ContentSearch(page, data, urls, format, kindOf(page.head, url)).find();
  const title = titleOf(page.head, data, headingOf(page.tree));
  const metadata = include.includes('metadata') ? metadataOf(page.head, data, urls) : undefined;
  const answer = pageOf(
    content,
    [title, content.slice(0, MAX_HEADING_CHARACTERS).split('\n', 1)[0] ?? ''],
    url,
    metadata,
  );
  return include.includes('links') ? { ...answer, links: linksOf(page.tree, dropped, urls) } : answer;
}

/** Tries the sources of content in order until one has enough. */
class ContentSearch {
  readonly #tree: Tree;
  readonly #head: Head;
  readonly #data: LinkedData;
  readonly #urls: UrlResolver;
  readonly #format: PageFormat;
  readonly #kind: PageKind;
  readonly #measures: Measures;

  constructor({ tree, head }: Page, data: LinkedData, urls: UrlResolver, format: PageFormat, kind: PageKind) {
    this.#tree = tree;
    this.#head = head;
    this.#data = data;
    this.#urls = urls;
    this.#format = format;
    this.#kind = kind;
    this.#measures = measure(tree);
  }

  find(): Finding {
    let best = this.#select({ noscript: false, byNames: true });
    const others: readonly (() => Finding)[] = [
      () => this.#ofTexts([this.#data.body ?? ''], best.dropped),
      () => this.#ofTexts(readState(this.#head.state), best.dropped),
      () => this.#select({ noscript: true, byNames: true }),
      () => this.#select({ noscript: false, byNames: false }),
      () => this.#ofTexts([this.#data.posts ?? ''], best.dropped),
      () => this.#ofTexts([this.#data.description ?? '', descriptionOf(this.#head)], best.dropped),
      () => this.#everything(),
    ];
    if (this.#kind === 'product') best = this.#withDescription(best);
    for (const other of others) {
      if (best.content.length >= MIN_CONTENT) return best;
      const found = other();
      if (found.content.length > MUCH_MORE * best.content.length) best = found;
    }
    return best;
  }

  /** Adds the description of a product from linked data unless the page shows it. */
  #withDescription(found: Finding): Finding {
    const described = this.#ofTexts([this.#data.product ?? ''], found.dropped);
    const isShown = lettersOf(found.content).includes(lettersOf(described.content).slice(0, 40));
    if (isShown || described.content.length < MIN_DESCRIPTION) return found;
    if (found.content.length < MUCH_MORE * described.content.length) return described;
    return { ...found, content: `${described.content}\n\n${found.content}` };
  }

  #select(reach: Omit<Reach, 'kind'>): Finding {
    const dropped = select(this.#tree, this.#measures, { ...reach, kind: this.#kind });
    return { content: this.#write(this.#tree, dropped), dropped };
  }

  /** The whole body. */
  #everything(): Finding {
    const dropped = new Uint8Array(this.#tree.count);
    return { content: this.#write(this.#tree, dropped), dropped };
  }

  /** Texts from scripts, which may be HTML. */
  #ofTexts(texts: readonly string[], dropped: Dropped): Finding {
    const plain = texts.map((text) => {
      if (/<\/?[a-z]/i.test(text)) {
        const { tree } = parse(text);
        return this.#write(tree, new Uint8Array(tree.count));
      }
      const decoded = decodeHTML(text);
      return this.#format === 'markdown' ? escaped(decoded) : decoded;
    });
    return { content: tidy(plain.join('\n\n')), dropped };
  }

  #write(tree: Tree, dropped: Dropped): string {
    const writer = this.#format === 'markdown' ? new MarkdownWriter(tree, dropped, this.#urls) : new TextWriter(tree);
    walk(tree, dropped, 0, writer);
    return tidy(writer.result());
  }
}

/** The first `h1` that is not empty. */
function headingOf(tree: Tree): string {
  for (let node = 0; node < tree.count; node++) {
    if (tree.tag[node] !== TAG.h1) continue;
    const line = lineOf(tree, node, MAX_HEADING_CHARACTERS);
    if (line !== '') return line;
  }
  return '';
}

/** Letters only, to compare texts. */
function lettersOf(text: string): string {
  return text.replaceAll(/[^\p{L}]+/gu, '').toLowerCase();
}
