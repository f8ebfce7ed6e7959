// Elements of a parsed page with all their attributes, for site adapters: selection by a subset of CSS selectors, text, and
// HTML.

import { escapeAttribute, escapeText } from 'entities';
import { lineOf } from '../links.ts';
import { type Page, parse } from '../parse.ts';
import { TAG, type TagTable, traits, VOID } from '../tags.ts';
import { type Attributes, DISPLAYED, SPACE_BEFORE, type Tree } from '../tree.ts';
import { ElementIndex } from './element-index.ts';

const MAX_LINE_CHARACTERS = 2000;

/** Attributes that are not written: they change what is shown, or are as long as the page. */
const UNWRITTEN = /^(?:style|hidden|on.*|srcset|data-(?!lang).*|aria-.*)$/;

interface Source {
  readonly tree: Tree;
  readonly tags: TagTable;
  readonly index: ElementIndex;
  /** 1 for each node that has been written. */
  readonly written: Uint8Array;
}

export class PageElement {
  readonly #source: Source;
  readonly #node: number;

  constructor(source: Source, node: number) {
    this.#source = source;
    this.#node = node;
  }

  /** The root of a page. */
  static of(html: string): PageElement {
    const { tree, tags }: Page = parse(html);
    const index = new ElementIndex(tree, tags);
    return new PageElement({ tree, tags, index, written: new Uint8Array(tree.count) }, 0);
  }

  /** The value of an attribute; empty when it is missing. */
  attribute(name: string): string {
    return this.#source.tree.attribute(this.#node, name) ?? '';
  }

  get tagName(): string {
    return this.#source.tags.nameOf(this.#source.tree.tag[this.#node] as number) ?? '';
  }

  /** Text on one line. */
  get line(): string {
    return lineOf(this.#source.tree, this.#node, MAX_LINE_CHARACTERS);
  }

  /** Number of elements around this one that match a compound selector. */
  countAround(selector: string): number {
    const { index } = this.#source;
    let count = -1;
    for (let node = this.#node; node >= 0; node = index.around(node, selector)) count++;
    return count;
  }

  /** The first element inside that matches; see `all`. */
  first(selector: string): PageElement | null {
    return this.#find(selector, 1)[0] ?? null;
  }

  /**
   * The elements inside that match, in document order. `selector` is one or several, separated by commas, of compound
   * selectors with blanks between them for descendants: `tag`, `.class`, `#id`, `[name]` and `[name=value]`.
   */
  all(selector: string): readonly PageElement[] {
    return this.#find(selector, Infinity);
  }

  /** As `all`, without those that are inside of others. */
  outermost(selector: string): readonly PageElement[] {
    const { tree } = this.#source;
    let end = 0;
    return this.all(selector).filter((element) => {
      const isOutermost = element.#node >= end;
      if (isOutermost) end = tree.end[element.#node] as number;
      return isOutermost;
    });
  }

  #find(selector: string, limit: number): PageElement[] {
    return this.#source.index.find(selector, this.#node, limit).map((node) => new PageElement(this.#source, node));
  }

  /**
   * The content as HTML, without elements that match `without` and without scripts and styles. Each part of a page is written once: what
   * an earlier call has written is left out.
   */
  html(without = ''): string {
    const { index, tags, tree, written } = this.#source;
    const unwanted = new Set(without === '' ? [] : index.find(without, this.#node, Infinity));
    const parts: string[] = [];
    const open: number[] = [];
    const end = tree.end[this.#node] as number;
    /** One past the last node of the last `pre`, whose texts have all of its white space. */
    let preEnd = 0;
    for (let node = this.#node + 1; node < end;) {
      closeBefore(node, open, tree, tags, parts);
      const tag = tree.tag[node] as number;
      if (node >= preEnd && ((tree.flags[node] as number) & SPACE_BEFORE) !== 0) parts.push(' ');
      if (written[node] === 1 || unwanted.has(node)) {
        node = tree.end[node] as number;
        continue;
      }
      written[node] = 1;
      if (tag === TAG['#text']) {
        parts.push(escapeText(tree.textOf(node)));
      } else if (tag === TAG['#tex']) {
        const mode = ((tree.flags[node] as number) & DISPLAYED) !== 0 ? '; mode=display' : '';
        const source = tree.html.slice(tree.from[node], tree.to[node]);
        parts.push(`<script type="math/tex${mode}">${source}</script>`);
      } else {
        parts.push(startTag(nameOf(tag, tags), tree.attributesOf(node)));
        if (tag === TAG.pre || tag === TAG.listing) preEnd = Math.max(preEnd, tree.end[node] as number);
        if ((traits(tag) & VOID) === 0) open.push(node);
      }
      node++;
    }
    closeBefore(end, open, tree, tags, parts);
    return parts.join('');
  }
}

/** Custom elements become plain ones, so that their names have no effect. */
function nameOf(tag: number, tags: TagTable): string {
  const name = tags.nameOf(tag) ?? 'span';
  return name.includes('-') ? 'div' : name;
}

function startTag(name: string, attributes: Attributes): string {
  let tag = `<${name}`;
  for (const [attribute, value] of attributes)
    if (!UNWRITTEN.test(attribute) && /^[a-z][\w:-]*$/.test(attribute))
      tag += ` ${attribute}="${escapeAttribute(value)}"`;
  return `${tag}>`;
}

function closeBefore(node: number, open: number[], { tag, end }: Tree, tags: TagTable, parts: string[]): void {
  for (let last = open.at(-1); last !== undefined && node >= (end[last] as number); last = open.at(-1)) {
    parts.push(`</${nameOf(tag[last] as number, tags)}>`);
    open.pop();
  }
}
