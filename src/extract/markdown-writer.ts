// Writes the content of a page as CommonMark with GitHub's tables. Called by clean.ts. Marks are written when the first
// text inside them is, so that nothing empty is ever marked, and closed at the end of a block whatever the page does.

import type { AddressBook } from './links.ts';
import { fenced, inlineCode, sourceOf } from './markdown-code.ts';
import { escaped, escapedStart } from './markdown-escape.ts';
import { isDataTable, writeTable } from './markdown-table.ts';
import type { Dropped } from './select.ts';
import { BLOCK, HEADING, TAG, traits } from './tags.ts';
import { isApart, onLine } from './text-writer.ts';
import { SPACE_BEFORE, type Tree } from './tree.ts';
import type { Visitor } from './walk.ts';

/** Lists and quotes that are indented; deeper ones stay at this depth, so that lines stay short. */
const MAX_INDENTED = 8;

// What stands between two texts, the stronger the greater.
const SPACE = 1;
/** A line end within a paragraph. */
const BREAK = 2;
const LINE = 3;
const PARAGRAPH = 4;

/** A mark around text of one line. */
interface Mark {
  readonly node: number;
  readonly open: string;
  readonly close: string;
  isWritten: boolean;
}

/** A list item or a quote: how its lines begin. */
interface Container {
  readonly node: number;
  readonly indent: string;
}

export class MarkdownWriter implements Visitor {
  readonly #tree: Tree;
  readonly #dropped: Dropped;
  readonly #addresses: AddressBook;
  readonly #parts: string[] = [];
  readonly #marks: Mark[] = [];
  readonly #containers: Container[] = [];
  /** Number of the last item of each open list; 0 and below for lists without numbers. */
  readonly #counters: number[] = [];
  #gap = 0;
  /** Stands before the next text of a block: the sign of an item or a heading. */
  #marker = '';
  #isHeading = false;

  constructor(tree: Tree, dropped: Dropped, addresses: AddressBook) {
    this.#tree = tree;
    this.#dropped = dropped;
    this.#addresses = addresses;
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
        const url = this.#addresses.absolute(this.#tree.attributes.get(node)?.href);
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
        this.#counters.push(tag === TAG.ol ? firstNumber(this.#tree.attributes.get(node)?.start) : 0);
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
    const code = inlineCode(onLine(sourceOf(this.#tree, this.#dropped, node)).trim());
    if (code !== '') this.#write(code, false);
  }

  #writeSource(node: number): void {
    const block = fenced(this.#tree, this.#dropped, node);
    if (block !== null) this.#writeLines(block);
    this.#divide(PARAGRAPH);
  }

  #writeImage(node: number): void {
    const { src, alt = '' } = this.#tree.attributes.get(node) ?? {};
    const text = onLine(alt).trim();
    const url = text === '' ? null : this.#addresses.absolute(src);
    if (url !== null) this.#write(`![${escaped(text)}](${inTarget(url)})`, false);
  }

  #writeTable(node: number): boolean {
    if (!isDataTable(this.#tree, this.#dropped, node)) return false;
    const lines = writeTable(
      this.#tree,
      this.#dropped,
      node,
      () => new MarkdownWriter(this.#tree, this.#dropped, this.#addresses),
    );
    if (lines.length > 0) this.#writeLines(lines);
    this.#divide(PARAGRAPH);
    return true;
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
    // A list within an item follows the item's own line.
    else if (tag === TAG.li || (isList(tag) && this.#counters.length > 0)) this.#divide(LINE);
    else this.#divide(PARAGRAPH);
  }

  /** Marks do not reach over the end of a line of text; what follows inside of them stays unmarked. */
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
    // A container whose sign is still to be written begins on this line.
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
