// Renders rich text documents as HTML, as editors and content systems store them in JSON: Contentful, ProseMirror and Tiptap,
// Slate, Portable Text. A document is a tree of typed nodes with text leaves.

import { escapeAttribute, escapeText } from 'entities';

const MAX_DEPTH = 60;
/** Of all documents of a page, because any number of them may refer to the same nodes and texts. */
const MAX_NODES = 200_000;
const MAX_CHARACTERS = 2_000_000;

/** Longer types are of no element. */
const MAX_TYPE_CHARACTERS = 40;

type Node = Readonly<Record<string, unknown>>;

/** Elements by the type of a node, in lower case without separators. */
const ELEMENTS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    p: 'paragraph p block normal text-block',
    h1: 'heading1 h1 headingone',
    h2: 'heading2 h2 headingtwo heading header',
    h3: 'heading3 h3 headingthree',
    h4: 'heading4 h4 headingfour',
    h5: 'heading5 h5 headingfive',
    h6: 'heading6 h6 headingsix',
    ul: 'unorderedlist ul bulletlist bulletedlist list',
    ol: 'orderedlist ol numberedlist',
    li: 'listitem li',
    blockquote: 'blockquote quote',
    pre: 'codeblock pre code',
    table: 'table',
    tr: 'tablerow tr',
    td: 'tablecell td',
    th: 'tableheadercell tableheader th',
  }).flatMap(([element, types]) => types.split(' ').map((type) => [type.replaceAll('-', ''), element] as const)),
);

const ROOTS: ReadonlySet<string> = new Set(['doc', 'document', 'root']);

function typeOf(node: Node): string {
  const type = node['nodeType'] ?? node['type'] ?? node['_type'];
  if (typeof type !== 'string' || type.length > MAX_TYPE_CHARACTERS) return '';
  return type.toLowerCase().replaceAll(/[^a-z\d]/g, '');
}

function childrenOf(node: Node): readonly unknown[] | null {
  for (const name of ['content', 'children', 'nodes']) {
    const children = Object.hasOwn(node, name) ? node[name] : undefined;
    if (Array.isArray(children)) return children;
  }
  return null;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Reads the documents of one page. */
export class RichTextReader {
  #nodes = 0;
  #characters = 0;
  #parts: string[] = [];
  #hasText = false;

  /** The document as HTML; null when `value` is not the root of one, or has no text. */
  read(value: object): string | null {
    if (!(Array.isArray(value) ? this.#areBlocks(value) : this.#isRoot(value as Node))) return null;
    this.#parts = [];
    this.#hasText = false;
    this.#render(Array.isArray(value) ? value : [value], 0);
    return this.#hasText ? this.#parts.join('') : null;
  }

  /** Whether one more node may be read. */
  #count(): boolean {
    return ++this.#nodes <= MAX_NODES && this.#characters < MAX_CHARACTERS;
  }

  #isRoot(value: Node): boolean {
    const children = ROOTS.has(typeOf(value)) ? childrenOf(value) : null;
    return children !== null && !children.every((child) => this.#count() && !isNode(child));
  }

  #areBlocks(values: readonly unknown[]): boolean {
    return values.length > 0 && values.every((value) => this.#isBlock(value));
  }

  #isBlock(value: unknown): boolean {
    const children = isNode(value) && ELEMENTS.has(typeOf(value)) ? childrenOf(value) : null;
    return children?.every((child) => this.#count() && isNode(child)) ?? false;
  }

  #render(values: readonly unknown[], depth: number): void {
    if (depth > MAX_DEPTH) return;
    for (const value of values) {
      if (!this.#count()) return;
      if (isNode(value)) this.#node(value, depth);
    }
  }

  #node(node: Node, depth: number): void {
    const text = node['text'] ?? node['value'];
    const children = childrenOf(node);
    if (typeof text === 'string' && children === null) {
      this.#hasText ||= text.trim() !== '';
      this.#write(escapeText(text));
      return;
    }
    const type = typeOf(node);
    if (type === 'hardbreak' || type === 'break') this.#write('<br>');
    if (children === null) return;
    const element = this.#elementOf(node, type);
    this.#write(element === 'a' ? `<a href="${escapeAttribute(hrefOf(node))}">` : element && `<${element}>`);
    this.#render(children, depth + 1);
    this.#write(element && `</${element}>`);
  }

  #write(html: string): void {
    this.#parts.push(html);
    this.#characters += html.length;
  }

  #elementOf(node: Node, type: string): string {
    if (hrefOf(node) !== '') return 'a';
    // Portable Text marks list items and headings by members of the block.
    if (typeof node['listItem'] === 'string') return 'li';
    const style = node['style'];
    if (typeof style === 'string' && /^h[1-6]$|^blockquote$/.test(style)) return style;
    const attributes = node['attrs'];
    const level = isNode(attributes) ? attributes['level'] : node['level'];
    if (type === 'heading' && typeof level === 'number' && level >= 1 && level <= 6) return `h${Math.trunc(level)}`;
    return ELEMENTS.get(type) ?? '';
  }
}

function hrefOf(node: Node): string {
  const data = node['data'] ?? node['attrs'];
  const href = (isNode(data) ? (data['uri'] ?? data['href']) : undefined) ?? node['href'] ?? node['url'];
  return typeof href === 'string' ? href : '';
}
