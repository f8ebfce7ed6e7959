// Elements of a parsed page with all their attributes, for site adapters: selection by a subset of CSS selectors, text, and
// HTML. Adapters run on pages of known sites alone, so this is made for short code rather than for speed.

import { escapeAttribute, escapeText } from 'entities';
import { lineOf } from '../links.ts';
import { type Page, parse } from '../parse.ts';
import { TAG, type TagTable, traits, VOID } from '../tags.ts';
import { type Attributes, DISPLAYED, SPACE_BEFORE, type Tree } from '../tree.ts';

const MAX_LINE_CHARACTERS = 2000;

/** Attributes that are not written: they change what is shown, or are as long as the page. */
const UNWRITTEN = /^(?:style|hidden|on.*|srcset|data-(?!lang).*|aria-.*)$/;

interface Source {
  readonly tree: Tree;
  readonly tags: TagTable;
  readonly names: ReadonlyMap<number, string>;
}

/** One compound selector, such as `div.post[itemprop=text]`. */
interface Compound {
  readonly tag: string;
  readonly id: string;
  readonly classes: readonly string[];
  readonly attributes: readonly (readonly [string, string | undefined])[];
  /** By node that was asked for, the nearest element at it or around it that matches; -1 for none. */
  readonly nearest: Map<number, number>;
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
    return new PageElement({ tree, tags, names: tags.names() }, 0);
  }

  /** The value of an attribute; empty when it is missing. */
  attribute(name: string): string {
    return this.#source.tree.attribute(this.#node, name) ?? '';
  }

  get tagName(): string {
    return this.#source.names.get(this.#source.tree.tag[this.#node] as number) ?? '';
  }

  /** Text on one line. */
  get line(): string {
    return lineOf(this.#source.tree, this.#node, MAX_LINE_CHARACTERS);
  }

  /** Number of elements around this one that match a compound selector. */
  countAround(selector: string): number {
    const [compound] = parseSelector(selector).slice(-1);
    let count = 0;
    let { [this.#node]: outer = 0 } = this.#source.tree.parent;
    for (; outer > 0; outer = this.#source.tree.parent[outer] as number)
      if (this.#is(outer, compound as Compound)) count++;
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
    return this.#find(selector, Infinity, true);
  }

  #find(selector: string, limit: number, isOutermost = false): PageElement[] {
    const { tree } = this.#source;
    const alternatives = selector.split(',').map(parseSelector);
    const found: PageElement[] = [];
    const end = tree.end[this.#node] as number;
    for (let node = this.#node + 1; node < end && found.length < limit; node++) {
      if (
        tree.tag[node] !== TAG['#text'] &&
        tree.tag[node] !== TAG['#tex'] &&
        alternatives.some((compounds) => this.#matches(node, compounds))
      ) {
        found.push(new PageElement(this.#source, node));
        if (isOutermost) node = (tree.end[node] as number) - 1;
      }
    }
    return found;
  }

  /** Whether the last compound matches the node, and the others match ancestors within this element. */
  #matches(node: number, compounds: readonly Compound[]): boolean {
    let left = compounds.length - 1;
    if (!this.#is(node, compounds[left] as Compound)) return false;
    let outer = node;
    while (--left >= 0) {
      outer = this.#nearest(this.#source.tree.parent[outer] as number, compounds[left] as Compound);
      if (outer < 0) return false;
    }
    return true;
  }

  /** The nearest element that matches, at a node or around it and within this element; -1 for none. Each node is examined once. */
  #nearest(from: number, compound: Compound): number {
    const { nearest } = compound;
    const passed: number[] = [];
    let node = from;
    while (node > this.#node && !nearest.has(node) && !this.#is(node, compound)) {
      passed.push(node);
      node = this.#source.tree.parent[node] as number;
    }
    const found = node > this.#node ? (nearest.get(node) ?? node) : -1;
    for (const each of passed) nearest.set(each, found);
    return found;
  }

  #is(node: number, { tag, id, classes, attributes }: Compound): boolean {
    const { tags } = this.#source;
    if (tag !== '' && this.#source.tree.tag[node] !== tags.idOf(tag)) return false;
    if (id === '' && classes.length === 0 && attributes.length === 0) return true;
    const own = this.#source.tree.attributesOf(node);
    if (id !== '' && own.get('id') !== id) return false;
    const names = classes.length === 0 ? [] : (own.get('class') ?? '').split(/\s+/);
    return (
      classes.every((name) => names.includes(name)) &&
      attributes.every(([name, value]) => (value === undefined ? own.has(name) : own.get(name) === value))
    );
  }

  /** The content as HTML, without elements that match `without` and without scripts and styles. */
  html(without = ''): string {
    const { tree, names } = this.#source;
    const unwanted = without === '' ? [] : without.split(',').map(parseSelector);
    const parts: string[] = [];
    const open: number[] = [];
    const end = tree.end[this.#node] as number;
    for (let node = this.#node + 1; node < end;) {
      closeBefore(node, open, tree, names, parts);
      const tag = tree.tag[node] as number;
      if (tag === TAG['#text']) {
        parts.push(((tree.flags[node] as number) & SPACE_BEFORE) !== 0 ? ' ' : '', escapeText(tree.textOf(node)));
      } else if (tag === TAG['#tex']) {
        const mode = ((tree.flags[node] as number) & DISPLAYED) !== 0 ? '; mode=display' : '';
        const source = tree.html.slice(tree.from[node], tree.to[node]);
        parts.push(`<script type="math/tex${mode}">${source}</script>`);
      } else if (unwanted.some((compounds) => this.#matches(node, compounds))) {
        node = tree.end[node] as number;
        continue;
      } else {
        parts.push(
          ((tree.flags[node] as number) & SPACE_BEFORE) !== 0 ? ' ' : '',
          startTag(nameOf(tag, names), tree.attributesOf(node)),
        );
        if ((traits(tag) & VOID) === 0) open.push(node);
      }
      node++;
    }
    closeBefore(end, open, tree, names, parts);
    return parts.join('');
  }
}

/** Custom elements become plain ones, so that their names have no effect. */
function nameOf(tag: number, names: ReadonlyMap<number, string>): string {
  const name = names.get(tag) ?? 'span';
  return name.includes('-') ? 'div' : name;
}

function startTag(name: string, attributes: Attributes): string {
  let tag = `<${name}`;
  for (const [attribute, value] of attributes)
    if (!UNWRITTEN.test(attribute) && /^[a-z][\w:-]*$/.test(attribute))
      tag += ` ${attribute}="${escapeAttribute(value)}"`;
  return `${tag}>`;
}

function closeBefore(
  node: number,
  open: number[],
  { tag, end }: Tree,
  names: ReadonlyMap<number, string>,
  parts: string[],
): void {
  for (let last = open.at(-1); last !== undefined && node >= (end[last] as number); last = open.at(-1)) {
    parts.push(`</${nameOf(tag[last] as number, names)}>`);
    open.pop();
  }
}

const COMPOUND = /^(?<tag>[a-z][\w-]*)?(?<rest>(?:[.#][\w-]+|\[[\w-]+(?:=[^\]]*)?\])*)$/i;

/** Throws for a selector that is not of the subset: selectors are constants of adapters. */
function parseSelector(selector: string): readonly Compound[] {
  return selector
    .trim()
    .split(/\s+/)
    .map((part) => {
      const groups = COMPOUND.exec(part)?.groups;
      if (groups === undefined || part === '') throw new Error(`'${selector}' is no selector of the supported subset`);
      const pieces = [...(groups['rest'] ?? '').matchAll(/([.#])([\w-]+)|\[([\w-]+)(?:=([^\]]*))?\]/g)];
      return {
        tag: (groups['tag'] ?? '').toLowerCase(),
        id: pieces.find(([, mark]) => mark === '#')?.[2] ?? '',
        classes: pieces.filter(([, mark]) => mark === '.').map((piece) => piece[2] ?? ''),
        attributes: pieces.flatMap(([, , , name, value]) => (name === undefined ? [] : [[name, value] as const])),
        nearest: new Map<number, number>(),
      };
    });
}
