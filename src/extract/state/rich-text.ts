// Renders rich text documents as HTML, as editors and content systems store them in JSON: Contentful, ProseMirror and Tiptap,
// Slate, Portable Text. A document is a tree of typed nodes with text leaves.

import { escapeAttribute, escapeText } from 'entities';

const MAX_DEPTH = 60;
const MAX_NODES = 20_000;

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

/** The document as HTML; null when `value` is not the root of one, or has no text. */
export function richTextOf(value: object): string | null {
  const nodes = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  const isDocument = Array.isArray(value) ? nodes.length > 0 && nodes.every(isBlock) : isRoot(value as Node);
  if (!isDocument) return null;
  const writer = new RichTextWriter();
  writer.nodes(nodes, 0);
  return writer.characters === 0 ? null : writer.html();
}

function typeOf(node: Node): string {
  const type = node['nodeType'] ?? node['type'] ?? node['_type'];
  return typeof type === 'string' ? type.toLowerCase().replaceAll(/[^a-z\d]/g, '') : '';
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

function isRoot(value: Node): boolean {
  return ROOTS.has(typeOf(value)) && (childrenOf(value)?.some(isNode) ?? false);
}

function isBlock(value: unknown): boolean {
  return isNode(value) && ELEMENTS.has(typeOf(value)) && (childrenOf(value)?.every(isNode) ?? false);
}

class RichTextWriter {
  readonly #parts: string[] = [];
  #nodes = 0;
  /** Characters of text. */
  characters = 0;

  html(): string {
    return this.#parts.join('');
  }

  nodes(values: readonly unknown[], depth: number): void {
    if (depth > MAX_DEPTH) return;
    for (const value of values) if (isNode(value) && ++this.#nodes <= MAX_NODES) this.#node(value, depth);
  }

  #node(node: Node, depth: number): void {
    const text = node['text'] ?? node['value'];
    const children = childrenOf(node);
    if (typeof text === 'string' && children === null) {
      this.characters += text.trim().length;
      this.#parts.push(escapeText(text));
      return;
    }
    const type = typeOf(node);
    if (type === 'hardbreak' || type === 'break') this.#parts.push('<br>');
    if (children === null) return;
    const element = this.#elementOf(node, type);
    this.#parts.push(element === 'a' ? `<a href="${escapeAttribute(hrefOf(node))}">` : element && `<${element}>`);
    this.nodes(children, depth + 1);
    this.#parts.push(element && `</${element}>`);
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
