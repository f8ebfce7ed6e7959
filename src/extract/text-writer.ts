// Writes the content of a page as plain text: blank lines between blocks, line ends between list items and rows, tabs between
// cells. Words of different blocks are always separated.

import { BLOCK, FIRST_UNKNOWN, TAG, traits } from './tags.ts';
import { PREFORMATTED, SPACE_BEFORE, type Tree, type Visitor } from './tree.ts';

// Separators between two texts. The greater one wins.
const SPACE = 1;
const CELL = 2;
const LINE = 3;
const PARAGRAPH = 4;
const GAPS: readonly string[] = ['', ' ', '\t', '\n', '\n\n'];

export class TextWriter implements Visitor {
  readonly #tree: Tree;
  readonly #parts: string[] = [];
  #gap = 0;
  /** Written before the first text of a list item. */
  #marker = '';
  /** The previous node was a link. */
  #afterLink = false;
  /** Number of open lists. */
  #lists = 0;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  result(): string {
    return this.#parts.join('');
  }

  text(node: number): void {
    this.#afterLink = false;
    const flags = this.#tree.flags[node] as number;
    const text = this.#tree.textOf(node);
    if ((flags & SPACE_BEFORE) !== 0) this.#divide(SPACE);
    if ((flags & PREFORMATTED) !== 0) {
      this.#write(text);
      return;
    }
    const line = onLine(text);
    if (line.startsWith(' ')) this.#divide(SPACE);
    if (line.trim() !== '') this.#write(line.trim());
    if (line.endsWith(' ')) this.#divide(SPACE);
  }

  open(node: number, tag: number): boolean {
    if (((this.#tree.flags[node] as number) & SPACE_BEFORE) !== 0 || (this.#afterLink && tag === TAG.a) || isApart(tag))
      this.#divide(SPACE);
    this.#afterLink = false;
    if (tag === TAG.br) this.#divide(this.#gap === LINE ? PARAGRAPH : LINE);
    else this.#divideAt(tag);
    if (tag === TAG.li) this.#marker = '- ';
    if (isList(tag)) this.#lists++;
    return false;
  }

  close(_node: number, tag: number): void {
    if (isList(tag)) this.#lists--;
    if (tag !== TAG.br) this.#divideAt(tag);
    if (tag === TAG.li) this.#marker = '';
    if (isApart(tag)) this.#divide(SPACE);
    this.#afterLink = tag === TAG.a;
  }

  #divideAt(tag: number): void {
    if ((traits(tag) & BLOCK) === 0) return;
    if (tag === TAG.td || tag === TAG.th) this.#divide(CELL);
    else if (tag === TAG.li || tag === TAG.tr || tag === TAG.dt || tag === TAG.dd) this.#divide(LINE);
    else if (isList(tag) && this.#lists > 0) this.#divide(LINE);
    else this.#divide(PARAGRAPH);
  }

  #divide(gap: number): void {
    if (gap > this.#gap) this.#gap = gap;
  }

  #write(text: string): void {
    if (this.#parts.length > 0) this.#parts.push(GAPS[this.#gap] as string);
    this.#gap = 0;
    this.#parts.push(this.#marker, text);
    this.#marker = '';
  }
}

/** Whether the element separates words, as buttons and custom elements do. */
export function isApart(tag: number): boolean {
  return tag === TAG.button || tag >= FIRST_UNKNOWN;
}

function isList(tag: number): boolean {
  return tag === TAG.ul || tag === TAG.ol;
}

/** Text with white space collapsed, as displayed, without soft hyphens and zero-width characters. */
export function onLine(text: string): string {
  const shown = /[\u00ad\u200b\u2060\ufeff]/.test(text) ? text.replaceAll(/[\u00ad\u200b\u2060\ufeff]/g, '') : text;
  return shown.replaceAll(/\s+/g, ' ');
}
