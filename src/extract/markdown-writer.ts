// Writes the content of a page as CommonMark with GitHub tables. A mark is written together with the first text inside it, so
// that no mark is empty, and closed at the end of its block, whatever the nesting of the page.

import type { UrlResolver } from './links.ts';
import { BLOCK, HEADING, TAG, traits } from './tags.ts';
import { isApart, onLine } from './text-writer.ts';
import { type Dropped, SPACE_BEFORE, type Tree, type Visitor, walk } from './tree.ts';

/** Lists and quotes nested deeper are not indented further, so that lines stay short. */
const MAX_INDENTED = 8;

/** Wider tables are cut. */
const MAX_COLUMNS = 50;

/** Blocks that a Markdown cell cannot hold. */
const NOT_IN_CELLS: ReadonlySet<number> = new Set([
  TAG.table,
  TAG.ul,
  TAG.ol,
  TAG.pre,
  TAG.blockquote,
  TAG.h1,
  TAG.h2,
  TAG.h3,
  TAG.article,
  TAG.section,
]);

/** How class names state the language of code. */
const LANGUAGE = /(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s?)([a-z0-9+#_.-]{1,30})/i;

// Separators between two texts. The greater one wins.
const SPACE = 1;
/** A line end within a paragraph. */
const BREAK = 2;
const LINE = 3;
const PARAGRAPH = 4;

/** An inline mark. */
interface Mark {
  readonly node: number;
  readonly open: string;
  readonly close: string;
  isWritten: boolean;
}

/** A list item or a quote. `indent` begins each of its lines. */
interface Container {
  readonly node: number;
  readonly indent: string;
}

export class MarkdownWriter implements Visitor {
  readonly #tree: Tree;
  readonly #dropped: Dropped;
  readonly #urls: UrlResolver;
  readonly #parts: string[] = [];
  readonly #marks: Mark[] = [];
  readonly #containers: Container[] = [];
  /** Next number of each open list; 0 for unordered lists. */
  readonly #counters: number[] = [];
  #gap = 0;
  /** Written before the next text: the markers of list items, quotes and headings. */
  #marker = '';
  #isHeading = false;

  constructor(tree: Tree, dropped: Dropped, urls: UrlResolver) {
    this.#tree = tree;
    this.#dropped = dropped;
    this.#urls = urls;
  }

  result(): string {
    this.#closeMarks();
    return this.#parts.join('');
  }

  text(node: number): void {
    if (((this.#tree.flags[node] as number) & SPACE_BEFORE) !== 0) this.#divide(SPACE);
    const line = onLine(this.#tree.textOf(node));
    if (line.startsWith(' ')) this.#divide(SPACE);
    if (line.trim() !== '') this.#write(escaped(line.trim()), true);
    if (line.endsWith(' ')) this.#divide(SPACE);
  }

  open(node: number, tag: number): boolean {
    const isTouching = tag === TAG.a && (this.#parts.at(-1)?.startsWith('](') ?? false);
    if (((this.#tree.flags[node] as number) & SPACE_BEFORE) !== 0 || isTouching || isApart(tag)) this.#divide(SPACE);
    if ((traits(tag) & BLOCK) !== 0) return this.#openBlock(node, tag);
    switch (tag) {
      case TAG.a: {
        const url = this.#urls.absolute(this.#tree.attribute(node, 'href'));
        if (url !== null && !this.#marks.some(({ open }) => open === '[')) this.#mark(node, '[', `](${inTarget(url)})`);
        return false;
      }
      case TAG.b:
      case TAG.strong:
        if (!this.#isHeading && !this.#isMarked('**')) this.#mark(node, '**', '**');
        return false;
      case TAG.i:
      case TAG.em:
        if (!this.#isMarked('*')) this.#mark(node, '*', '*');
        return false;
      case TAG.code:
      case TAG.kbd:
      case TAG.samp:
      case TAG.tt:
        this.#writeCode(node);
        return true;
      case TAG.img:
        this.#writeImage(node);
        return true;
      default:
        return false;
    }
  }

  close(node: number, tag: number): void {
    const mark = this.#marks.at(-1);
    if (mark?.node === node) {
      if (mark.isWritten) this.#parts.push(mark.close);
      this.#marks.pop();
    }
    if (isApart(tag)) this.#divide(SPACE);
    if ((traits(tag) & BLOCK) === 0 || tag === TAG.br) return;
    if (isList(tag)) this.#counters.pop();
    this.#divideAt(tag);
    if ((traits(tag) & HEADING) !== 0) this.#isHeading = false;
    if (this.#containers.at(-1)?.node === node) this.#containers.pop();
    if (tag === TAG.li || (traits(tag) & HEADING) !== 0) this.#marker = '';
  }

  #openBlock(node: number, tag: number): boolean {
    if (tag === TAG.br) {
      if (this.#gap === BREAK) this.#closeMarks();
      this.#divide(this.#isHeading ? SPACE : this.#gap === BREAK ? PARAGRAPH : BREAK);
      return false;
    }
    this.#divideAt(tag);
    switch (tag) {
      case TAG.ul:
      case TAG.ol:
        this.#counters.push(tag === TAG.ol ? firstNumber(this.#tree.attribute(node, 'start')) : 0);
        return false;
      case TAG.li:
        this.#openItem(node);
        return false;
      case TAG.blockquote:
        this.#contain(node, '> ', '> ');
        return false;
      case TAG.hr:
        this.#write('---', false);
        this.#divide(PARAGRAPH);
        return true;
      case TAG.pre:
      case TAG.listing:
        this.#writeSource(node);
        return true;
      case TAG.table:
        return this.#writeTable(node);
      default:
        if ((traits(tag) & HEADING) !== 0) {
          this.#isHeading = true;
          this.#marker += `${'#'.repeat(tag - TAG.h1 + 1)} `;
        }
        return false;
    }
  }

  #openItem(node: number): void {
    const number = this.#counters.at(-1) ?? 0;
    if (number > 0) this.#counters[this.#counters.length - 1] = number + 1;
    const sign = number > 0 ? `${number}. ` : '- ';
    this.#contain(node, sign, ' '.repeat(sign.length));
  }

  #contain(node: number, sign: string, indent: string): void {
    if (this.#containers.length >= MAX_INDENTED) return;
    this.#marker += sign;
    this.#containers.push({ node, indent });
  }

  #writeCode(node: number): void {
    const code = inlineCode(onLine(this.#sourceOf(node)).trim());
    if (code !== '') this.#write(code, false);
  }

  /** Writes a fenced block unless it would be empty. */
  #writeSource(node: number): void {
    const source = this.#sourceOf(node)
      .replace(/^\r?\n/, '')
      .trimEnd();
    if (source.trim() !== '') {
      const fence = '`'.repeat(Math.max(3, longestRun(source) + 1));
      this.#writeLines([fence + this.#languageOf(node), ...source.split(/\r\n?|\n/), fence]);
    }
    this.#divide(PARAGRAPH);
  }

  /** The characters of a subtree unchanged, with a line end for each break and block. */
  #sourceOf(node: number): string {
    const tree = this.#tree;
    const parts: string[] = [];
    const end = tree.end[node] as number;
    for (let inner = node + 1; inner < end; inner++) {
      const tag = tree.tag[inner] as number;
      if (this.#dropped[inner] === 1) inner = (tree.end[inner] as number) - 1;
      else if (tag === TAG['#text']) parts.push(tree.textOf(inner));
      else if ((traits(tag) & BLOCK) !== 0 && !(parts.at(-1)?.endsWith('\n') ?? true)) parts.push('\n');
    }
    return parts.join('');
  }

  #languageOf(node: number): string {
    const tree = this.#tree;
    const child = node + 1;
    const names = [
      tree.attribute(node, 'class'),
      tree.tag[child] === TAG.code ? tree.attribute(child, 'class') : undefined,
    ];
    for (const name of names) {
      const language = LANGUAGE.exec(name ?? '')?.[1];
      if (language !== undefined) return language.toLowerCase();
    }
    return '';
  }

  #writeImage(node: number): void {
    const attributes = this.#tree.attributesOf(node);
    const text = onLine(attributes.get('alt') ?? '').trim();
    const url = text === '' ? null : this.#urls.absolute(attributes.get('src'));
    if (url !== null) this.#write(`![${escaped(text)}](${inTarget(url)})`, false);
  }

  #writeTable(node: number): boolean {
    if (!this.#isDataTable(node)) return false;
    const lines = this.#tableLines(node);
    if (lines.length > 0) this.#writeLines(lines);
    this.#divide(PARAGRAPH);
    return true;
  }

  /** Whether a table has rows and columns of short content. Layout tables are not written as tables. */
  #isDataTable(table: number): boolean {
    const tree = this.#tree;
    let rows = 0;
    let cells = 0;
    const end = tree.end[table] as number;
    for (let node = table + 1; node < end; node++) {
      const tag = tree.tag[node] as number;
      if (this.#dropped[node] === 1) node = (tree.end[node] as number) - 1;
      else if (NOT_IN_CELLS.has(tag)) return false;
      else if (tag === TAG.tr) rows++;
      else if (tag === TAG.td || tag === TAG.th) cells++;
    }
    return rows > 1 && cells >= 2 * rows;
  }

  /** Lines of a table, with its caption as a paragraph before it. The first row is the header. */
  #tableLines(table: number): string[] {
    const tree = this.#tree;
    const lines: string[] = [];
    let row: string[] = [];
    let columns = 0;
    const endRow = (): void => {
      if (row.some((cell) => cell !== '')) {
        const isFirst = columns === 0;
        columns = isFirst ? Math.max(row.length, 2) : columns;
        const missing = Array.from({ length: Math.max(0, columns - row.length) }, () => '');
        lines.push(`| ${row.slice(0, columns).concat(missing).join(' | ')} |`);
        if (isFirst) lines.push(`|${' --- |'.repeat(columns)}`);
      }
      row = [];
    };
    const end = tree.end[table] as number;
    for (let node = table + 1; node < end; node++) {
      const tag = tree.tag[node] as number;
      if (tag === TAG.tr && this.#dropped[node] !== 1) {
        endRow();
        continue;
      }
      const isCaption = tag === TAG.caption;
      const isCell = tag === TAG.td || tag === TAG.th;
      if (this.#dropped[node] !== 1) {
        if (isCaption) lines.push(this.#cellText(node), '');
        else if (!isCell) continue;
        else if (row.length < MAX_COLUMNS) row.push(this.#cellText(node));
      }
      node = (tree.end[node] as number) - 1;
    }
    endRow();
    return lines;
  }

  /** The Markdown of a cell on one line. */
  #cellText(cell: number): string {
    const tree = this.#tree;
    const writer = new MarkdownWriter(tree, this.#dropped, this.#urls);
    const end = tree.end[cell] as number;
    for (let child = cell + 1; child < end; child = tree.end[child] as number) walk(tree, this.#dropped, child, writer);
    return writer.result().replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').trim();
  }

  #writeLines(lines: readonly string[]): void {
    const indent = this.#containers.map((container) => container.indent).join('');
    this.#write(lines.join(`\n${indent}`), false);
  }

  #isMarked(open: string): boolean {
    return this.#marks.some((mark) => mark.open === open);
  }

  #mark(node: number, open: string, close: string): void {
    if (this.#marks.length < MAX_INDENTED) this.#marks.push({ node, open, close, isWritten: false });
  }

  #divideAt(tag: number): void {
    this.#closeMarks();
    if (tag === TAG.dd) this.#divide(BREAK);
    // A nested list follows the line of its item.
    else if (tag === TAG.li || (isList(tag) && this.#counters.length > 0)) this.#divide(LINE);
    else this.#divide(PARAGRAPH);
  }

  /** Marks end with their line; the rest of their text stays unmarked. */
  #closeMarks(): void {
    for (const mark of this.#marks.toReversed()) if (mark.isWritten) this.#parts.push(mark.close);
    this.#marks.length = 0;
  }

  #divide(gap: number): void {
    if (gap > this.#gap) this.#gap = gap;
  }

  #write(text: string, isText: boolean): void {
    const isLineStart = this.#gap >= BREAK || this.#parts.length === 0;
    if (this.#parts.length > 0) this.#writeGap();
    this.#gap = 0;
    this.#parts.push(this.#marker);
    const isBare = isLineStart && isText && this.#marks.every(({ isWritten }) => isWritten);
    this.#marker = '';
    for (const mark of this.#marks) {
      if (!mark.isWritten) this.#parts.push(mark.open);
      mark.isWritten = true;
    }
    this.#parts.push(isBare ? escapedStart(text) : text);
  }

  #writeGap(): void {
    if (this.#gap === SPACE) this.#parts.push(' ');
    if (this.#gap < BREAK) return;
    if (this.#gap === BREAK) this.#parts.push('\\');
    // A container whose marker is pending begins on this line and is not indented.
    let indent = '';
    let pending = this.#marker.replace(/#+ $/, '');
    for (const container of this.#containers.toReversed()) {
      if (pending.length >= container.indent.length && pending !== '')
        pending = pending.slice(0, pending.length - container.indent.length);
      else indent = container.indent + indent;
    }
    if (this.#gap === PARAGRAPH) this.#parts.push('\n', indent.trimEnd());
    this.#parts.push('\n', indent);
  }
}

function isList(tag: number): boolean {
  return tag === TAG.ul || tag === TAG.ol;
}

function inTarget(url: string): string {
  return url.replaceAll('(', '%28').replaceAll(')', '%29');
}

function firstNumber(start: string | undefined): number {
  const number = Number.parseInt(start ?? '1', 10);
  return number > 0 && number < 1_000_000_000 ? number : 1;
}

function inlineCode(code: string): string {
  if (code === '') return '';
  const ticks = '`'.repeat(longestRun(code) + 1);
  const padding = code.startsWith('`') || code.endsWith('`') ? ' ' : '';
  return ticks + padding + code + padding + ticks;
}

function longestRun(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}

/** Escapes text within a line. Underscores inside words have no meaning in Markdown and stay. */
function escaped(text: string): string {
  if (!/[\\`*_[\]<&|~]/.test(text)) return text;
  return text
    .replaceAll(/[\\`*[\]]|<(?=[a-z/!?])|&(?=#?\w{1,31};)|~(?=~)/gi, '\\$&')
    .replaceAll(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_');
}

/** Escapes the start of a line whose text is escaped already. */
function escapedStart(text: string): string {
  if (/^(?:#{1,6}|[-+])(?:\s|$)|^>|^(?:-{3,}|={3,})$/.test(text)) return `\\${text}`;
  return text.replace(/^(\d{1,9})([.)])(?=\s|$)/, '$1\\$2');
}
