// Builds the content of a page from its tree. A mark is opened with the first text inside it, so that none is empty, and ends
// with its line, whatever the nesting of the page.

import type { Block, Inline, List, ListItem, MarkName, Source } from './content.ts';
import { tableOf } from './content-table.ts';
import { codeOfTable, Gutters, languageOf, linesOf, sourceOf } from './content-code.ts';
import { footnotesOf } from './content-footnotes.ts';
import { imageOf } from './content-image.ts';
import { formulasIn, texOf } from './content-math.ts';
import { HIDDEN, isUndisplayed } from './hints.ts';
import { isPermalink, type UrlResolver } from './links.ts';
import { onLine, withoutControls } from './page.ts';
import { BLOCK, FIRST_UNKNOWN, HEADING, TAG, traits } from './tags.ts';
import { DISPLAYED, type Dropped, PREFORMATTED, SPACE_BEFORE, type Tree, type Visitor, walk } from './tree.ts';

/** Deeper lists, quotes and marks are not nested further, so that output stays proportional to the page. */
const MAX_NESTED = 8;

/** Nodes of the copy of an image: a link or `picture` around it, and sources. */
const MAX_TWIN_NODES = 16;

/** Longer parts of lines that are not displayed are content that a reader may ask for. */
const MAX_HIDDEN_CHARACTERS = 100;
const MAX_HIDDEN_NODES = 32;

/** Greater numbers of items are errors; with all items of a page they stay within the nine digits that Markdown allows. */
const MAX_NUMBER = 99_999_999;

/** The content of a tree without the nodes that were dropped. */
export function contentOf(tree: Tree, dropped: Dropped, urls: UrlResolver): readonly Block[] {
  const builder = new ContentBuilder({
    tree,
    dropped,
    urls,
    footnotes: footnotesOf(tree, dropped),
    gutters: new Gutters(tree),
  });
  walk(tree, dropped, 0, builder);
  return builder.finish();
}

type FrameKind =
  | 'caption'
  | 'definitions'
  | 'description'
  | 'details'
  | 'figure'
  | 'footnote'
  | 'item'
  | 'list'
  | 'quote'
  | 'root';
type LineKind = 'heading' | 'summary' | 'term';

/** An open block with blocks inside. */
interface Frame {
  readonly node: number;
  readonly kind: FrameKind;
  readonly children: Block[];
  readonly label: string;
}

/** An open mark. `written` is null before the first text inside it. */
interface OpenMark {
  readonly node: number;
  readonly name: MarkName;
  readonly url: string;
  written: Inline[] | null;
}

// Separators before the next inline. The greater one wins.
const SPACE = 1;
const BREAK = 2;

const MARKS: ReadonlyMap<number, MarkName> = new Map([
  [TAG.b, 'strong'],
  [TAG.strong, 'strong'],
  [TAG.i, 'em'],
  [TAG.em, 'em'],
  [TAG.var, 'em'],
  [TAG.dfn, 'em'],
  [TAG.del, 'del'],
  [TAG.s, 'del'],
  [TAG.strike, 'del'],
  [TAG.ins, 'ins'],
  [TAG.mark, 'mark'],
  [TAG.q, 'q'],
  [TAG.cite, 'cite'],
  [TAG.sub, 'sub'],
  [TAG.sup, 'sup'],
  [TAG.ruby, 'ruby'],
  [TAG.rt, 'rt'],
]);

const FRAMES: ReadonlyMap<number, FrameKind> = new Map([
  [TAG.ul, 'list'],
  [TAG.ol, 'list'],
  [TAG.menu, 'list'],
  [TAG.dir, 'list'],
  [TAG.li, 'item'],
  [TAG.dl, 'definitions'],
  [TAG.dd, 'description'],
  [TAG.blockquote, 'quote'],
  [TAG.figure, 'figure'],
  [TAG.figcaption, 'caption'],
  [TAG.details, 'details'],
]);

/** Characters that a page draws. */
const EMOJI = /(?:^|\s)(?:emoji|wp-smiley)(?:\s|$)/;

/** Output of MathJax, beside which the page has its TeX. */
const RENDERED = 1;
/** A formula of KaTeX or MathJax. */
const MATH = 2;

class ContentBuilder implements Visitor {
  readonly #source: Source;
  readonly #tree: Tree;
  readonly #frames: Frame[] = [{ node: -1, kind: 'root', children: [], label: '' }];
  readonly #marks: OpenMark[] = [];
  /** The open line, and the element whose blocks are all on this line. */
  #line: Inline[] | null = null;
  #lineNode = -1;
  #lineKind: LineKind | null = null;
  #level = 0;
  #gap = 0;
  #afterLink = false;
  /** The `noscript` that holds a copy of the image before it; -1 for none. */
  #twin = -1;
  /** One past the last text that has been read. */
  #textEnd = 0;
  /** `RENDERED` and `MATH` by the number of the class. */
  readonly #math = new Map<number, number>();

  constructor(source: Source) {
    this.#source = source;
    this.#tree = source.tree;
  }

  finish(): Block[] {
    this.#endLine();
    while (this.#frames.length > 1) this.#endFrame();
    return asBlocks((this.#frames[0] as Frame).children);
  }

  text(node: number): void {
    if (node < this.#textEnd) return;
    const flags = this.#tree.flags[node] as number;
    if ((flags & SPACE_BEFORE) !== 0) this.#divide(SPACE);
    const text = this.#textFrom(node);
    if (/\\[([]|\$\$/.test(text)) {
      for (const part of formulasIn(text)) {
        if (typeof part === 'string') this.#addText(part);
        else this.#add({ kind: 'math', ...part });
      }
    } else {
      this.#addText(text);
    }
    if ((flags & PREFORMATTED) !== 0 && text.endsWith('\n')) this.#divide(SPACE);
  }

  /** The text of a node with those that follow it at once: the parser begins one at each `<` that begins no tag. */
  #textFrom(node: number): string {
    const tree = this.#tree;
    let text = tree.textOf(node);
    this.#textEnd = node + 1;
    while (tree.tag[this.#textEnd] === TAG['#text'] && tree.from[this.#textEnd] === tree.to[this.#textEnd - 1])
      text += tree.textOf(this.#textEnd++);
    return text;
  }

  #addText(text: string): void {
    const line = onLine(text);
    if (line === '') return;
    this.#afterLink = false;
    if (line.startsWith(' ')) this.#divide(SPACE);
    const words = line.trim();
    if (words !== '') this.#add({ kind: 'text', text: words });
    if (line.endsWith(' ')) this.#divide(SPACE);
  }

  open(node: number, tag: number): boolean {
    if (node === this.#twin || this.#source.footnotes.unwanted.has(node)) return true;
    const isTouching = tag === TAG.a && this.#afterLink;
    if (((this.#tree.flags[node] as number) & SPACE_BEFORE) !== 0 || isTouching || isApart(this.#tree, node))
      this.#divide(SPACE);
    if ((traits(tag) & BLOCK) !== 0) return this.#openBlock(node, tag);
    return isHiddenPart(this.#tree, node) || this.#openInline(node, tag);
  }

  close(node: number, tag: number): void {
    if (this.#marks.at(-1)?.node === node) {
      this.#marks.pop();
      this.#afterLink = tag === TAG.a;
    }
    if (isApart(this.#tree, node)) this.#divide(SPACE);
    if (this.#lineNode === node) this.#endNamedLine();
    if ((traits(tag) & BLOCK) !== 0 && tag !== TAG.br) this.#endLine();
    while (this.#frames.length > 1 && (this.#frames.at(-1) as Frame).node === node) this.#endFrame();
  }

  #openInline(node: number, tag: number): boolean {
    const tree = this.#tree;
    const { footnotes, urls } = this.#source;
    const note = footnotes.notes.get(node);
    if (note !== undefined) this.#openFrame(node, 'footnote', note);
    switch (tag) {
      case TAG.a: {
        const label = footnotes.references.get(node);
        if (label !== undefined) {
          this.#add({ kind: 'reference', label });
          return true;
        }
        if (this.#lineKind !== null && isPermalink(tree, node)) return true;
        const url = urls.absolute(tree.attribute(node, 'href'));
        if (url !== null) this.#mark(node, 'a', url);
        return false;
      }
      case TAG.code:
      case TAG.kbd:
      case TAG.samp:
      case TAG.tt:
        this.#addCode(node, tag === TAG.kbd ? 'kbd' : tag === TAG.samp ? 'samp' : 'code');
        return true;
      case TAG.img:
        this.#addImage(node);
        return true;
      case TAG.math:
      case TAG['#tex']:
        this.#addMath(node);
        return true;
      case TAG.wbr:
        return true;
      case TAG.sup:
        // References of footnotes are raised by the writers.
        if (footnotes.references.has(node + 1)) return false;
        break;
      default:
    }
    if (tag === TAG.span || tag >= FIRST_UNKNOWN) {
      const math = this.#mathOf(node);
      if ((math & RENDERED) !== 0 && footnotes.hasTex) return true;
      if ((math & MATH) !== 0) return this.#addMath(node);
    }
    const name = MARKS.get(tag);
    if (name !== undefined && !(name === 'strong' && this.#lineKind !== null)) this.#mark(node, name, '');
    return false;
  }

  /** `RENDERED` and `MATH`, by the class of an element; elements of one class are examined once. */
  #mathOf(node: number): number {
    const { tree } = this.#source;
    const shape = tree.shape[node] as number;
    if (shape === 0) return 0;
    let math = this.#math.get(shape);
    if (math === undefined) {
      const className = tree.attribute(node, 'class') ?? '';
      const isMath = /(?:^|\s)(?:katex|MathJax)(?:$|\s)/.test(className);
      math = (/^MathJax(?:_|$|\s)/.test(className) ? RENDERED : 0) | (isMath ? MATH : 0);
      this.#math.set(shape, math);
    }
    return math;
  }

  #openBlock(node: number, tag: number): boolean {
    if (tag === TAG.br) {
      if (this.#lineKind !== null) this.#divide(SPACE);
      else if (this.#gap === BREAK) this.#endLine();
      else if (this.#line !== null) this.#gap = BREAK;
      return true;
    }
    this.#endLine();
    if (this.#lineKind !== null) return false;
    const note = this.#source.footnotes.notes.get(node);
    if (note !== undefined) {
      this.#openFrame(node, 'footnote', note);
      return false;
    }
    const frame = FRAMES.get(tag);
    if (frame !== undefined) {
      if (frame !== 'caption' || this.#frames.at(-1)?.kind === 'figure') this.#openFrame(node, frame, '');
      return false;
    }
    switch (tag) {
      case TAG.dt:
        this.#openLine(node, 'term');
        return false;
      case TAG.summary:
        if (this.#frames.at(-1)?.kind === 'details') this.#openLine(node, 'summary');
        return false;
      case TAG.hr:
        this.#push({ kind: 'rule' });
        return true;
      case TAG.pre:
      case TAG.listing:
      case TAG.xmp:
      case TAG.plaintext:
        this.#pushCode(sourceOf(this.#source, node), languageOf(this.#tree, node));
        return true;
      case TAG.table:
        return this.#pushTable(node);
      default:
        if ((traits(tag) & HEADING) !== 0) {
          this.#level = tag - TAG.h1 + 1;
          this.#openLine(node, 'heading');
        }
        return false;
    }
  }

  #pushTable(node: number): boolean {
    const code = codeOfTable(this.#source, node);
    if (code !== null) {
      this.#pushCode(code.text, code.language);
      return true;
    }
    const table = tableOf(this.#source, node, cellContent);
    if (table === null) return false;
    if (table.rows.length > 0) this.#push(table);
    return true;
  }

  #pushCode(source: string, language: string): void {
    // Pages write indents as no-break spaces, which compilers refuse.
    const text = source.replaceAll(/\r\n?/g, '\n').replaceAll('\u00a0', ' ').replace(/^\n+/, '').trimEnd();
    if (text.trim() !== '') this.#push({ kind: 'code', language, text: withoutControls(text) });
  }

  #addCode(node: number, name: 'code' | 'kbd' | 'samp'): void {
    const lines = this.#lineKind === null ? linesOf(this.#source, node) : null;
    if (lines !== null) {
      this.#endLine();
      this.#pushCode(lines, languageOf(this.#tree, node));
      return;
    }
    const source = onLine(sourceOf(this.#source, node));
    const text = source.trim();
    if (text === '') return;
    // White space at its edges stands outside of it.
    const isSpaced = source.startsWith(' ') || ((this.#tree.flags[node + 1] as number) & SPACE_BEFORE) !== 0;
    if (isSpaced) this.#divide(SPACE);
    this.#add({ kind: 'code', name, text });
    if (source.endsWith(' ')) this.#divide(SPACE);
  }

  #addImage(node: number): void {
    this.#skipTwin(node);
    const attributes = this.#tree.attributesOf(node);
    const alt = onLine(attributes.get('alt') ?? '').trim();
    if (alt !== '' && EMOJI.test(attributes.get('class') ?? '')) {
      this.#add({ kind: 'text', text: alt });
      return;
    }
    const image = imageOf(
      this.#source,
      node,
      this.#frames.some(({ kind }) => kind === 'figure'),
    );
    if (image === null) return;
    if (image.kind === 'image') image.alt = alt;
    this.#add(image);
  }

  /** The copy of an image for readers without scripts; what has text is more than that. */
  #skipTwin(image: number): void {
    const tree = this.#tree;
    const parent = tree.parent[image] as number;
    const next = tree.end[tree.tag[parent] === TAG.picture ? parent : image] as number;
    if (next >= tree.count || tree.tag[next] !== TAG.noscript) return;
    const end = tree.end[next] as number;
    if (end - next <= MAX_TWIN_NODES && !tree.tag.subarray(next, end).includes(TAG['#text'])) this.#twin = next;
  }

  #addMath(node: number): boolean {
    const tex = texOf(this.#tree, node);
    if (tex === '') return false;
    const isDisplayed =
      ((this.#tree.flags[node] as number) & DISPLAYED) !== 0 || this.#tree.attribute(node, 'display') === 'block';
    this.#add({ kind: 'math', tex, isDisplayed });
    return true;
  }

  #mark(node: number, name: MarkName, url: string): void {
    if (this.#marks.length < MAX_NESTED && !this.#marks.some((mark) => mark.name === name))
      this.#marks.push({ node, name, url, written: null });
  }

  /** Adds an inline to the innermost mark. A separator stands outside of marks that begin or have ended there. */
  #add(inline: Inline): void {
    this.#afterLink = false;
    const line = (this.#line ??= []);
    let into = line;
    let at = 0;
    for (; at < this.#marks.length; at++) {
      const { written } = this.#marks[at] as OpenMark;
      if (written === null) break;
      into = written;
    }
    if (line.length > 0 && this.#gap === SPACE) addText(into, ' ');
    else if (line.length > 0 && this.#gap === BREAK) into.push({ kind: 'break' });
    this.#gap = 0;
    for (; at < this.#marks.length; at++) {
      const mark = this.#marks[at] as OpenMark;
      mark.written = [];
      into.push({ kind: 'mark', name: mark.name, url: mark.url, children: mark.written });
      into = mark.written;
    }
    const last = into.at(-1);
    if (inline.kind === 'text') addText(into, inline.text);
    else if (inline.kind === 'code' && last?.kind === 'code' && last.name === inline.name) last.text += inline.text;
    else into.push(inline);
  }

  #divide(gap: number): void {
    if (gap > this.#gap) this.#gap = gap;
  }

  #openLine(node: number, kind: LineKind): void {
    this.#lineNode = node;
    this.#lineKind = kind;
  }

  /** Ends the line at the edge of a block. Within a heading, blocks only separate words. */
  #endLine(): void {
    if (this.#lineKind !== null) {
      this.#divide(SPACE);
      return;
    }
    const line = this.#takeLine();
    if (line === null) return;
    const [first] = line;
    if (line.length === 1 && first?.kind === 'math' && first.isDisplayed) this.#push({ kind: 'math', tex: first.tex });
    else this.#push({ kind: 'paragraph', children: line });
  }

  #endNamedLine(): void {
    const kind = this.#lineKind;
    const line = this.#takeLine();
    this.#lineKind = null;
    this.#lineNode = -1;
    if (line === null || kind === null) return;
    if (kind !== 'heading') this.#push({ kind, children: line });
    else this.#push({ kind, level: this.#level, children: line });
  }

  #takeLine(): Inline[] | null {
    const line = this.#line;
    this.#line = null;
    this.#gap = 0;
    for (const mark of this.#marks) mark.written = null;
    return line;
  }

  #openFrame(node: number, kind: FrameKind, label: string): void {
    if (this.#frames.length <= 2 * MAX_NESTED) this.#frames.push({ node, kind, children: [], label });
  }

  #endFrame(): void {
    const { node, kind, children, label } = this.#frames.pop() as Frame;
    const tree = this.#tree;
    const attribute = (name: string): string | undefined => tree.attribute(node, name);
    switch (kind) {
      case 'item': {
        const value = numberOf(attribute('value'));
        const item: ListItem = {
          kind,
          number: value,
          isDone: taskOf(tree, node),
          children: asBlocks(children),
        };
        if (children.length > 0) this.#push(item);
        return;
      }
      case 'list':
        for (const block of listOf(children, {
          isOrdered: tree.tag[node] === TAG.ol,
          start: attribute('start'),
          style: attribute('type'),
          isReversed: tree.tag[node] === TAG.ol && attribute('reversed') !== undefined,
        }))
          this.#push(block);
        return;
      case 'quote':
        if (children.length > 0)
          this.#push({ kind, cite: this.#source.urls.absolute(attribute('cite')) ?? '', children: asBlocks(children) });
        return;
      case 'footnote':
        if (children.length > 0) this.#push({ kind, label, children: asBlocks(children) });
        return;
      case 'definitions':
        if (children.length === 0) return;
        if (children.every((child) => child.kind === 'term' || child.kind === 'description'))
          this.#push({ kind, children });
        else for (const child of asBlocks(children)) this.#push(child);
        return;
      case 'description':
      case 'caption':
        if (children.length > 0) this.#push({ kind, children: asBlocks(children) });
        return;
      case 'figure':
      case 'details':
        if (children.length > 0) this.#push({ kind, children: asBlocks(children, kind) });
        return;
      default:
        throw new RangeError(`Frame ${kind} never ends.`);
    }
  }

  #push(block: Block): void {
    (this.#frames.at(-1) as Frame).children.push(block);
  }
}

/** The blocks of a cell. */
function cellContent(source: Source, cell: number): Block[] {
  const { tree, dropped } = source;
  const builder = new ContentBuilder(source);
  const end = tree.end[cell] as number;
  for (let child = cell + 1; child < end; child = tree.end[child] as number) walk(tree, dropped, child, builder);
  return builder.finish();
}

/** Parts that were found outside of their lists, with lists around them. */
function asBlocks(children: readonly Block[], within: 'details' | 'figure' | null = null): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  const takeWhile = (test: (block: Block) => boolean): Block[] => {
    const first = at;
    while (at < children.length && test(children[at] as Block)) at++;
    return children.slice(first, at);
  };
  while (at < children.length) {
    const child = children[at] as Block;
    if (child.kind === 'item') {
      const items = takeWhile(({ kind }) => kind === 'item');
      blocks.push(...listOf(items, { isOrdered: false, start: undefined, style: undefined, isReversed: false }));
    } else if (child.kind === 'term' || child.kind === 'description') {
      blocks.push({
        kind: 'definitions',
        children: takeWhile(({ kind }) => kind === 'term' || kind === 'description'),
      });
    } else {
      at++;
      if (child.kind === 'caption' && within !== 'figure') blocks.push(...child.children);
      else if (child.kind === 'summary' && (within !== 'details' || blocks.length > 0))
        blocks.push({ kind: 'paragraph', children: child.children });
      else if (child.kind !== 'rule' || blocks.at(-1)?.kind !== 'rule') blocks.push(child);
    }
  }
  return blocks;
}

/** The number of an item; NaN where the attribute has none. */
function numberOf(value: string | undefined): number {
  const number = Number.parseInt(value ?? '', 10);
  return Math.abs(number) <= MAX_NUMBER ? number : Number.NaN;
}

interface ListAttributes {
  readonly isOrdered: boolean;
  readonly start: string | undefined;
  readonly style: string | undefined;
  readonly isReversed: boolean;
}

/** A list with numbered items, and the footnotes that were items. Other blocks between items belong to the item before. */
function listOf(children: readonly Block[], { isOrdered, start, style = '1', isReversed }: ListAttributes): Block[] {
  const items: { number: number; isDone: boolean | null; children: Block[] }[] = [];
  const footnotes: Block[] = [];
  for (const child of children) {
    if (child.kind === 'item')
      items.push({ number: child.number, isDone: child.isDone, children: [...child.children] });
    else if (child.kind === 'footnote') footnotes.push(child);
    else if (items.length > 0) items.at(-1)?.children.push(...asBlocks([child]));
    else items.push({ number: Number.NaN, isDone: null, children: asBlocks([child]) });
  }
  if (items.length === 0) return footnotes;
  const first = numberOf(start);
  let next = Number.isNaN(first) ? (isReversed ? items.length : 1) : first;
  const numbered = items.map((item): ListItem => {
    if (!Number.isNaN(item.number)) next = item.number;
    const number = isOrdered ? next : 0;
    next += isReversed ? -1 : 1;
    return { kind: 'item', number, isDone: item.isDone, children: item.children };
  });
  const isTight = numbered.every((item) => item.children.every(({ kind }, at) => at === 0 || kind === 'list'));
  const list: List = {
    kind: 'list',
    isOrdered,
    style: /^[aAiI]$/.test(style) ? style : '1',
    isReversed,
    isTight,
    items: numbered,
  };
  return [list, ...footnotes];
}

/** Whether the box of a task is checked; null when the item is no task. Boxes may have been dropped as form controls. */
function taskOf(tree: Tree, item: number): boolean | null {
  const end = Math.min(tree.end[item] as number, item + 5);
  for (let node = item + 1; node < end && tree.tag[node] !== TAG['#text']; node++) {
    if (tree.tag[node] !== TAG.input) continue;
    const attributes = tree.attributesOf(node);
    const isTask = attributes.has('disabled') || /task/i.test(tree.attribute(item, 'class') ?? '');
    return isTask && attributes.get('type')?.toLowerCase() === 'checkbox' ? attributes.has('checked') : null;
  }
  return null;
}

/**
 * Whether text within a line is not displayed, such as a key to sort by. Long text and links may be shown on demand; a formula may be the
 * source of an image.
 */
function isHiddenPart(tree: Tree, node: number): boolean {
  const isHinted = ((tree.hints[node] as number) & HIDDEN) !== 0;
  const end = tree.end[node] as number;
  if (!isHinted || end - node > MAX_HIDDEN_NODES || !isUndisplayed(tree.attributesOf(node))) return false;
  let characters = 0;
  for (let inner = node; inner < end; inner++) {
    const tag = tree.tag[inner];
    if (tag === TAG.a || tag === TAG.math || tag === TAG['#tex']) return false;
    if (tag === TAG['#text']) characters += (tree.to[inner] as number) - (tree.from[inner] as number);
  }
  return characters > 0 && characters <= MAX_HIDDEN_CHARACTERS;
}

function addText(into: Inline[], text: string): void {
  const last = into.at(-1);
  if (last?.kind === 'text') last.text += text;
  else into.push({ kind: 'text', text });
}

/** The name of a custom element has a hyphen (HTML, "valid custom element name"). */
const CUSTOM_NAME = /[^\s/>-]*-/y;

/** Whether the element separates words, as buttons and custom elements do. */
export function isApart(tree: Tree, node: number): boolean {
  const tag = tree.tag[node] as number;
  if (tag < FIRST_UNKNOWN) return tag === TAG.button;
  CUSTOM_NAME.lastIndex = tree.from[node] as number;
  return CUSTOM_NAME.test(tree.html);
}
