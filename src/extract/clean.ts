// HTML to clean text. Called by the cleaning threads through read-page.ts, and by those who have the HTML already through
// `headrace/clean`. Takes any text and never throws; time is linear in the page.

import { decodeHTML } from 'entities';
import type { CleanOptions, CleanPage, PageFormat } from './page.ts';
import { pageOf, tidy } from './text.ts';
import { kindOf, type PageKind } from './kind.ts';
import { AddressBook, lineOf, linksOf } from './links.ts';
import { MarkdownWriter } from './markdown-writer.ts';
import { escaped } from './markdown-escape.ts';
import { type Measures, measure } from './measure.ts';
import { descriptionOf, metadataOf, titleOf } from './metadata.ts';
import { type Head, type Page, parse } from './parse.ts';
import { type Dropped, type Reach, select } from './select.ts';
import { type LinkedData, readLinkedData, readState } from './structured.ts';
import { TAG } from './tags.ts';
import { TextWriter } from './text-writer.ts';
import type { Tree } from './tree.ts';
import { walk } from './walk.ts';

/** Content with fewer characters is too little when something else offers more. */
const TOO_LITTLE = 300;
/** How much more of it something else must offer. */
const MUCH_MORE = 2;

/** Shorter descriptions of products are names. */
const MIN_DESCRIPTION = 100;

const MAX_HEADING_CHARACTERS = 300;

/** What was found, and which nodes were left out of it. */
interface Finding {
  readonly content: string;
  readonly dropped: Dropped;
}

/** Clean text of the page `html`. */
export function clean(html: string, options: CleanOptions = {}): CleanPage {
  const { url = '', format = 'text', include = [] } = options;
  const page = parse(html);
  const addresses = new AddressBook(url, page.head.base);
  const data = readLinkedData(page.head.linkedData);
  const { content, dropped } = new Search(page, data, addresses, format, kindOf(page.head, url)).find();
  const title = titleOf(page.head, data, headingOf(page.tree));
  const metadata = include.includes('metadata') ? metadataOf(page.head, data, addresses) : undefined;
  const answer = pageOf(
    content,
    [title, content.slice(0, MAX_HEADING_CHARACTERS).split('\n', 1)[0] ?? ''],
    url,
    metadata,
  );
  return include.includes('links') ? { ...answer, links: linksOf(page.tree, dropped, addresses) } : answer;
}

/** Looks for content in the places where pages have it, until there is enough. */
class Search {
  readonly #tree: Tree;
  readonly #head: Head;
  readonly #data: LinkedData;
  readonly #addresses: AddressBook;
  readonly #format: PageFormat;
  readonly #kind: PageKind;
  readonly #measures: Measures;

  constructor({ tree, head }: Page, data: LinkedData, addresses: AddressBook, format: PageFormat, kind: PageKind) {
    this.#tree = tree;
    this.#head = head;
    this.#data = data;
    this.#addresses = addresses;
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
      if (best.content.length >= TOO_LITTLE) return best;
      const found = other();
      if (found.content.length > MUCH_MORE * best.content.length) best = found;
    }
    return best;
  }

  /** The description of a product, where the page itself shows another or none. */
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

  /** The whole body, but for what cannot be read. */
  #everything(): Finding {
    const dropped = new Uint8Array(this.#tree.count);
    return { content: this.#write(this.#tree, dropped), dropped };
  }

  /** Texts from scripts; some are HTML themselves. */
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
    const writer =
      this.#format === 'markdown' ? new MarkdownWriter(tree, dropped, this.#addresses) : new TextWriter(tree);
    walk(tree, dropped, 0, writer);
    return tidy(writer.result());
  }
}

/** The first heading of the first rank, if it says something. */
function headingOf(tree: Tree): string {
  for (let node = 0; node < tree.count; node++) {
    if (tree.tag[node] !== TAG.h1) continue;
    const line = lineOf(tree, node, MAX_HEADING_CHARACTERS);
    if (line !== '') return line;
  }
  return '';
}

/** Letters alone, for telling whether two texts are one. */
function lettersOf(text: string): string {
  return text.replaceAll(/[^\p{L}]+/gu, '').toLowerCase();
}
