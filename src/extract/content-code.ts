// Source code in pages: its text without line numbers, and its language.

import type { Source } from './content.ts';
import { BLOCK, TAG, traits } from './tags.ts';
import { PREFORMATTED, SPACE_BEFORE, type Tree } from './tree.ts';

/** How class names state a language: of highlight.js, Prism, Shiki, Rouge, GitHub, Sphinx, SyntaxHighlighter, Pandoc and Org. */
const LANGUAGE =
  /(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s*|sourceCode\s+|src\s+src-)([a-z0-9+#_.-]{1,30})/i;
const SPHINX = /(?:^|\s)highlight-([a-z0-9+#_.-]{1,30})(?:\s|$)/i;
const HIGHLIGHT_JS = /(?:^|\s)hljs\s+([a-z0-9+#_.-]{1,30})(?:\s|$)|(?:^|\s)([a-z0-9+#_.-]{1,30})\s+hljs(?:\s|$)/i;

const HEXO = /^highlight ([a-z0-9+#_.-]{1,30})$/i;

/** Words in the place of a language that name none. */
const NO_LANGUAGE =
  /^(?:none|text|plain|plaintext|plain-text|txt|default|auto|nohighlight|no-highlight|highlight|source|code|line-numbers|copyable|numberlines|language-.*)$/i;

/** Natural languages: around code, `lang-en` speaks of the text. */
const NATURAL = /^(?:en|de|fr|es|it|pt|nl|ja|zh|ko|ru|pl|sv|tr|ar|he|cs|da|fi|no|uk)(?:-[a-z]+)?$/i;

/** Of a longer `class`, the rest is not searched: all blocks of code inside the element search it. */
const MAX_CLASS_CHARACTERS = 1000;

/** Elements around a block of code where the language may be. */
const MAX_CLIMBED = 4;
/** Elements between a line number and the element that is named. */
const MAX_NESTED = 12;

const GUTTER =
  /(?:^|[\s_-])(?:lines?-?n(?:o|os|r|um|ums|umber|umbers)|linenodiv|gutter|blob-num|ln-numbers?|lnt|ln|nums|rouge-gutter)(?:$|[\s_-])/i;

/** The language of a block of code; empty if the page does not state it. */
export function languageOf(tree: Tree, node: number): string {
  const inner = node + 1 < (tree.end[node] as number) && tree.tag[node + 1] === TAG.code ? node + 1 : node;
  for (const own of inner === node ? [node] : [inner, node]) {
    const attributes = tree.attributesOf(own);
    const className = attributes.get('class')?.slice(0, MAX_CLASS_CHARACTERS) ?? '';
    const found = [
      LANGUAGE.exec(className)?.[1],
      attributes.get('data-language'),
      attributes.get('data-lang'),
      HIGHLIGHT_JS.exec(className)
        ?.slice(1)
        .find((name) => name !== undefined),
      attributes.get('lang'),
    ].find((name) => isLanguage(name) && (name !== attributes.get('lang') || !NATURAL.test(name)));
    if (found !== undefined) return found.toLowerCase();
  }
  let outer = tree.parent[node] as number;
  for (let climbed = 0; climbed < MAX_CLIMBED && outer > 0; climbed++, outer = tree.parent[outer] as number) {
    const attributes = tree.attributesOf(outer);
    const className = attributes.get('class')?.slice(0, MAX_CLASS_CHARACTERS) ?? '';
    const found = [
      LANGUAGE.exec(className)?.[1],
      SPHINX.exec(className)?.[1],
      tree.tag[outer] === TAG.figure ? HEXO.exec(className)?.[1] : undefined,
      attributes.get('data-language'),
      attributes.get('data-lang'),
    ].find((name) => isLanguage(name) && !NATURAL.test(name));
    if (found !== undefined) return found.toLowerCase();
  }
  return '';
}

function isLanguage(name: string | undefined): name is string {
  return name !== undefined && /^[a-z0-9+#_.-]{1,30}$/i.test(name) && !NO_LANGUAGE.test(name);
}

/** Elements of highlighters that hold a line of code, with or without its line end. */
const LINE = /(?:^|\s)(?:line|code-line|token-line|view-line)(?:\s|$)/;

/** The characters of a subtree unchanged, without line numbers, with a line end for each break, block and element of a line. */
export function sourceOf({ tree, dropped, gutters }: Source, node: number): string {
  const parts: string[] = [];
  /** By number of the class, whether its elements hold a line. */
  const lines = new Map<number, boolean>();
  /** Number of parts before the line at hand; -1 before the first. */
  let lineStart = -1;
  /** White space before the next text of the line, which the tree leaves out outside of `pre`. */
  let space = '';
  const end = tree.end[node] as number;
  for (let inner = node + 1; inner < end; inner++) {
    const tag = tree.tag[inner] as number;
    const isText = tag === TAG['#text'];
    if (((tree.flags[inner] as number) & SPACE_BEFORE) !== 0) space = spaceBefore(tree, inner, parts.at(-1) ?? '\n');
    if ((tag === TAG.span || tag === TAG.div) && isLine(tree, inner, lines)) {
      const hasEnded = parts.length > lineStart && parts.at(-1)?.endsWith('\n') === true;
      if (lineStart !== -1 && !hasEnded) parts.push('\n');
      lineStart = parts.length;
      space = '';
    }
    if (!isText && (traits(tag) & BLOCK) !== 0) space = '';
    if (isText) {
      const isWhole = ((tree.flags[inner] as number) & PREFORMATTED) !== 0;
      parts.push((isWhole ? '' : space) + tree.textOf(inner));
      space = '';
    } else if (dropped[inner] === 1 || tag === TAG.button || isTooltip(tree, inner) || gutters.has(inner)) {
      inner = (tree.end[inner] as number) - 1;
    } else if ((traits(tag) & BLOCK) !== 0 && tag !== TAG.td && parts.at(-1)?.endsWith('\n') === false) {
      parts.push('\n');
    } else if (tag === TAG.br) {
      parts.push('\n');
    }
  }
  return parts.join('');
}

/** The lines of code with line breaks outside of `pre`, as they are displayed; null where it is one line. */
export function linesOf({ tree, dropped }: Source, node: number): string | null {
  const end = tree.end[node] as number;
  if (!tree.tag.subarray(node, end).includes(TAG.br)) return null;
  const lines: string[] = [];
  let line = '';
  const add = (text: string): void => {
    const isSpaced = line === '' || line.endsWith(' ');
    line += isSpaced && text.startsWith(' ') ? text.slice(1) : text;
  };
  const endLine = (): void => {
    lines.push(line.endsWith(' ') ? line.slice(0, -1) : line);
    line = '';
  };
  for (let inner = node + 1; inner < end; inner++) {
    if (((tree.flags[inner] as number) & SPACE_BEFORE) !== 0) add(' ');
    if (tree.tag[inner] === TAG['#text']) add(tree.textOf(inner).replaceAll(/[ \t\r\n\f]+/g, ' '));
    else if (tree.tag[inner] === TAG.br) endLine();
    else if (dropped[inner] === 1) inner = (tree.end[inner] as number) - 1;
  }
  endLine();
  return lines.filter((each) => each !== '').length > 1 ? lines.join('\n') : null;
}

function isLine(tree: Tree, node: number, known: Map<number, boolean>): boolean {
  const shape = tree.shape[node] as number;
  if (shape === 0) return false;
  let is = known.get(shape);
  if (is === undefined) known.set(shape, (is = LINE.test(tree.attribute(node, 'class') ?? '')));
  return is;
}

/**
 * The white space before a node: its indent, which is that of the markup where an element begins a line; else one space unless `before`
 * ends with some.
 */
function spaceBefore(tree: Tree, node: number, before: string): string {
  const last = before.at(-1);
  if (last === ' ' || last === '\t') return '';
  const isText = tree.tag[node] === TAG['#text'];
  const to = (tree.from[node] as number) - (isText ? 0 : '<'.length);
  let from = to;
  while (from > 0 && (tree.html[from - 1] === ' ' || tree.html[from - 1] === '\t')) from--;
  const indent = isText || tree.html[from - 1] !== '\n' ? tree.html.slice(from, to) : '';
  return indent || (last === '\n' ? '' : ' ');
}

/** What Doxygen shows beside the names in its code; its style sheet hides it. */
function isTooltip(tree: Tree, node: number): boolean {
  return tree.html.startsWith('div class="ttc"', tree.from[node]);
}

/** Attributes of line numbers: of GitHub, and what rustdoc keeps out of the snippets of search engines. */
const MARKS = ['data-line-number', 'data-nosnippet'];

/** Line numbers, and what divides them from code. */
const NUMBERS = /^[\d\s:.|]*$/;

/** Tells which elements hold line numbers beside code. */
export class Gutters {
  readonly #tree: Tree;
  /** The nodes from `from` to `word` have no text with words; the text `word` has. */
  #from = 0;
  #word = -1;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  /** Whether an element holds nothing but digits and what divides them from code, and has a name that says so. */
  has(node: number): boolean {
    const tree = this.#tree;
    const end = tree.end[node] as number;
    let first = node + 1;
    const nearest = Math.min(end, node + MAX_NESTED);
    while (first < nearest && tree.tag[first] !== TAG['#text']) first++;
    if (first < nearest && !/^\s*\d/.test(tree.textOf(first, 20))) return false;
    const attributes = tree.attributesOf(node);
    const isNamed = GUTTER.test(attributes.get('class') ?? '') || MARKS.some((name) => attributes.has(name));
    return isNamed && this.#nextWord(first) >= end;
  }

  /** The next text from `node` on with other characters. It is kept: elements inside of each other ask for the same one. */
  #nextWord(node: number): number {
    const { count, tag } = this.#tree;
    if (node >= this.#from && node <= this.#word) return this.#word;
    let word = node;
    while (word < count && (tag[word] !== TAG['#text'] || NUMBERS.test(this.#tree.textOf(word)))) word++;
    [this.#from, this.#word] = [node, word];
    return word;
  }
}

/** The code of a table that lays out line numbers beside it; null for other tables. */
export function codeOfTable(source: Source, table: number): { text: string; language: string } | null {
  const { tree, gutters } = source;
  const end = tree.end[table] as number;
  for (let node = table + 1; node < end; node++) {
    const tag = tree.tag[node];
    if (tag === TAG['#text'] || tag === TAG.th) return null;
    if (tag !== TAG.td) continue;
    if (!gutters.has(node)) return null;
    let code = node + 1;
    while (code < end && tree.tag[code] !== TAG.pre && tree.tag[code] !== TAG.code) code++;
    const text = sourceOf(source, table);
    return { text, language: languageOf(tree, table) || (code < end ? languageOf(tree, code) : '') };
  }
  return null;
}
