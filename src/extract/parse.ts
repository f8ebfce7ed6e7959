// Parses HTML to a tree in linear time, whatever the page. The tokenizer is htmlparser2's; the stack of open elements is our
// own, because that of the library is quadratic in depth. Follows the tree construction of the HTML standard where text
// depends on it: implied end tags, void elements, scopes, raw text.

import { decodeHTML } from 'entities';
import { Tokenizer, type TokenizerCallbacks } from 'htmlparser2';
import { HIDDEN, HintTable, hintsOfItemprop, hintsOfItemtype, hintsOfRole, isUndisplayed } from './hints.ts';
import { OpenElements } from './open-elements.ts';
import { DISPLAYED, PREFORMATTED, REFERENCES, SPACE_BEFORE, Tree } from './tree.ts';
import { ENDS_PARAGRAPH, TAG, TagTable, VOID, traits } from './tags.ts';

/** Most nodes of a page, so that those of the largest page fit in the memory of a cleaner; 50 times what large pages have. */
const MAX_NODES = 500_000;

/** Most scripts, and most `meta` elements. */
const MAX_KEPT = 1000;

/** Data from the head of a page and from its scripts. */
export interface Head {
  /** The first `title`. */
  title: string;
  /** Of `html`. */
  language: string;
  /** Of `base`. */
  base: string;
  canonical: string;
  /** `name`, `property` or `itemprop` in lower case, and `content`; in order. */
  readonly meta: (readonly [string, string])[];
  /** Texts of `application/ld+json`. */
  readonly linkedData: string[];
  /** Scripts in the page other than linked data, in order. */
  readonly scripts: Script[];
}

/** A script whose text is in the page. Its text is not read here. */
export interface Script {
  /** Lower case. */
  readonly type: string;
  readonly id: string;
  /** Value of `data-target`, which names the part of a page that the data belongs to. */
  readonly target: string;
  readonly text: string;
}

export interface Page {
  readonly tree: Tree;
  readonly head: Head;
  /** Numbers of the elements by name, unknown ones included. */
  readonly tags: TagTable;
}

/** `isXml`: elements may close themselves (XML, section 3.1), as in XHTML. */
export function parse(page: string, isXml = false): Page {
  const first = build(page, isXml, !isXml);
  // Few pages have such scripts, and to look for them in all takes a twentieth of the time of cleaning.
  return first.hasCutScript ? build(withWholeScripts(page), false, false) : first;
}

function build(page: string, isXml: boolean, checksScripts: boolean): Builder {
  // In HTML this opens a bogus comment that ends at the next `>`; the tokenizer would read an XML CDATA section.
  const html = page.includes('<![CDATA[') ? page.replaceAll('<![CDATA[', '<!-CDATA[') : page;
  const builder = new Builder(html, isXml, checksScripts);
  const tokenizer = new Tokenizer({ decodeEntities: false, recognizeSelfClosing: isXml }, builder);
  builder.stop = (): void => tokenizer.pause();
  tokenizer.write(html);
  tokenizer.end();
  builder.close();
  return builder;
}

/** Where a comment or a script begins. */
const OPENING = /<!--|<script(?=[\s/>])/gi;
/** What changes the state of a script that has comment marks. */
const IN_SCRIPT = /<!--|-->|<\/?script(?=[\s/>])/gi;

/**
 * The page without the end tags that do not end the script around them: those of scripts that it writes inside of comment marks (HTML,
 * "script data double escaped state"), which the tokenizer does not know. Nothing moves. A script without an end stays as it is.
 */
function withWholeScripts(page: string): string {
  const tags: number[] = [];
  OPENING.lastIndex = 0;
  for (let found = OPENING.exec(page); found !== null; found = OPENING.exec(page)) {
    const isComment = found[0] === '<!--';
    const end = isComment ? page.indexOf('-->', found.index + 2) : scriptEnd(page, OPENING.lastIndex, tags);
    if (end === -1) break;
    OPENING.lastIndex = end;
  }
  if (tags.length === 0) return page;
  const parts = tags.map((tag, at) => `${page.slice(at === 0 ? 0 : (tags[at - 1] as number) + 1, tag)} `);
  return parts.join('') + page.slice((tags.at(-1) as number) + 1);
}

/** Where the end tag of a script stands; -1 for none. Adds the slashes of those that do not end it to `tags`. */
function scriptEnd(page: string, from: number, tags: number[]): number {
  let state: 'commented' | 'plain' | 'written' = 'plain';
  const inside: number[] = [];
  IN_SCRIPT.lastIndex = from;
  for (let found = IN_SCRIPT.exec(page); found !== null; found = IN_SCRIPT.exec(page)) {
    const mark = found[0];
    if (mark === '<!--') {
      if (state === 'plain') state = 'commented';
      // `<!-->` ends at once.
      IN_SCRIPT.lastIndex = found.index + 2;
    } else if (mark === '-->') {
      state = 'plain';
    } else if (mark.charAt(1) !== '/') {
      if (state === 'commented') state = 'written';
    } else if (state === 'written') {
      state = 'commented';
      inside.push(found.index + 1);
    } else {
      for (const slash of inside) tags.push(slash);
      return found.index;
    }
  }
  return -1;
}

const SPACE = 32;
const AMPERSAND = 38;

/** Attributes that parsing reads. The tree finds all others in the source. */
const ATTRIBUTES: ReadonlySet<string> = new Set(
  'aria-hidden class content data-target hidden href id itemprop itemtype lang name property rel role shadowrootmode src style type'.split(
    ' ',
  ),
);

/** What follows the start tag of a block of code in Doxygen's pages. */
const LINE_OF_DOXYGEN = '<div class="line">';

/** Scripts of MathJax that hold a formula. */
const TEX_TYPE = /^math\/(?:tex|latex)\b/;

class Builder implements TokenizerCallbacks {
  readonly tree: Tree;
  readonly head: Head = { title: '', language: '', base: '', canonical: '', meta: [], linkedData: [], scripts: [] };
  stop: () => void = () => undefined;
  readonly #html: string;
  readonly #isXml: boolean;
  #checksScripts: boolean;
  /** A script ends behind where the tokenizer ended it; the tree is not the page. */
  hasCutScript: boolean = false;
  readonly tags: TagTable = new TagTable();
  readonly #names = new HintTable();
  readonly #open: OpenElements;
  /** The element whose start tag is being read, and where that begins. */
  #tag = 0;
  #tagFrom = 0;
  readonly #attributes = new Map<string, string>();
  #attribute: string | null = null;
  #spaceBefore = 0;
  /** The element whose content is skipped (svg, template), and its nesting depth; 0 for none. */
  #hiding = 0;
  #hidingDepth = 0;
  /** Receives the next raw text. */
  #take: ((text: string, from: number, to: number) => void) | null = null;

  constructor(html: string, isXml: boolean, checksScripts: boolean) {
    this.#html = html;
    this.#isXml = isXml;
    this.#checksScripts = checksScripts;
    this.tree = new Tree(html);
    this.#open = new OpenElements(this.tree);
  }

  close(): void {
    this.#open.closeAll();
  }

  #cut(): void {
    this.tree.isCut = true;
    this.stop();
  }

  ontext(from: number, to: number): void {
    if (this.#take !== null) {
      this.#take(this.#html.slice(from, to), from, to);
      return;
    }
    if (this.#hiding !== 0 || this.#open.isOpaque) return;
    this.#addText(from, to);
  }

  #addText(from: number, to: number): void {
    const html = this.#html;
    let first = from;
    if (!this.#open.isPreformatted) while (first < to && isSpace(html.charCodeAt(first))) first++;
    let flags = this.#spaceBefore;
    if (first > from) flags = SPACE_BEFORE;
    this.#spaceBefore = 0;
    if (first === to) {
      this.#spaceBefore = flags;
      return;
    }
    if (this.#open.isPreformatted) flags |= PREFORMATTED;
    for (let at = first; at < to; at++) {
      if (html.charCodeAt(at) === AMPERSAND) {
        flags |= REFERENCES;
        break;
      }
    }
    this.tree.addText(this.#open.current, flags, first, to);
    if (isSpace(html.charCodeAt(to - 1))) this.#spaceBefore = SPACE_BEFORE;
    if (this.tree.count > MAX_NODES) this.#cut();
  }

  onopentagname(from: number, to: number): void {
    this.#tag = this.tags.idOf(this.#html.slice(from, to));
    this.#tagFrom = from;
    this.#attributes.clear();
  }

  onattribname(from: number, to: number): void {
    const name = to - from > 14 ? '' : this.#html.slice(from, to).toLowerCase();
    this.#attribute = ATTRIBUTES.has(name) && !this.#attributes.has(name) ? name : null;
    if (this.#attribute !== null) this.#attributes.set(name, '');
  }

  onattribdata(from: number, to: number): void {
    if (this.#attribute === null) return;
    const value = this.#html.slice(from, to);
    this.#attributes.set(this.#attribute, value.includes('&') ? decodeHTML(value) : value);
  }

  onattribend(): void {
    this.#attribute = null;
  }

  onattribentity(): void {}
  onselfclosingtag(end: number): void {
    this.#start(!this.#isXml, end);
    // Elements of MathML close themselves in HTML too.
    const isClosed = this.#isXml || (this.#hiding === 0 && this.#open.has(TAG.math));
    if (isClosed && (traits(this.#tag) & VOID) === 0) this.#end(this.#tag);
  }

  onopentagend(end: number): void {
    this.#start(false, end);
  }

  #start(isSelfClosing: boolean, end: number): void {
    const tag = this.#tag;
    if (this.#hiding !== 0 && !this.#leavesHiding(tag)) {
      if (tag === this.#hiding && !isSelfClosing) this.#hidingDepth++;
      this.#take = null;
      return;
    }
    if (tag === TAG.svg || (tag === TAG.template && !this.#attributes.has('shadowrootmode'))) {
      if (isSelfClosing && tag !== TAG.template) return;
      this.#hiding = tag;
      this.#hidingDepth = 1;
      return;
    }
    if (this.#readMetadata(tag)) return;
    this.#open.endImplied(tag);
    this.#addElement(tag, this.#tagFrom, end);
  }

  #addElement(tag: number, from: number, to: number): void {
    const node = this.tree.add(tag, this.#open.current, this.#spaceBefore, this.#hints());
    this.tree.setRange(node, from, to);
    const className = this.#attributes.get('class');
    if (className !== undefined) this.tree.shape[node] = this.#names.shapeOf(className);
    // The text is that of a `pre`, whose white space `sourceOf` finds in the page.
    if (className === 'fragment' && this.#html.startsWith(LINE_OF_DOXYGEN, to + 1)) this.tree.tag[node] = TAG.pre;
    this.#spaceBefore = 0;
    if ((traits(tag) & VOID) === 0) this.#open.push(node, tag);
    if (this.tree.count > MAX_NODES) this.#cut();
  }

  #hints(): number {
    const attributes = this.#attributes;
    if (attributes.size === 0) return 0;
    let hints = 0;
    const className = attributes.get('class');
    if (className !== undefined) hints |= this.#names.ofNames(className);
    const id = attributes.get('id');
    if (id !== undefined) hints |= this.#names.ofNames(id);
    const role = attributes.get('role');
    if (role !== undefined) hints |= hintsOfRole(role);
    const itemprop = attributes.get('itemprop');
    if (itemprop !== undefined) hints |= hintsOfItemprop(itemprop);
    const itemtype = attributes.get('itemtype');
    if (itemtype !== undefined) hints |= hintsOfItemtype(itemtype);
    if (attributes.get('aria-hidden') === 'true' || isUndisplayed(attributes)) hints |= HIDDEN;
    return hints;
  }

  /** Whether the element is metadata rather than part of the text; stores it in `head`. */
  #readMetadata(tag: number): boolean {
    const { head } = this;
    const attributes = this.#attributes;
    switch (tag) {
      case TAG.html:
        head.language ||= attributes.get('lang') ?? '';
        return true;
      case TAG.head:
      case TAG.body:
        return true;
      case TAG.meta: {
        const name = attributes.get('property') ?? attributes.get('name') ?? attributes.get('itemprop');
        const content = attributes.get('content');
        if (name && content && head.meta.length < MAX_KEPT) head.meta.push([name.toLowerCase(), content]);
        return true;
      }
      case TAG.base:
        head.base ||= attributes.get('href') ?? '';
        return true;
      case TAG.link:
        if (attributes.get('rel')?.toLowerCase() === 'canonical') head.canonical ||= attributes.get('href') ?? '';
        return true;
      case TAG.title:
        this.#take = (text): void => void (head.title ||= text.trim() === '' ? '' : decodeHTML(text));
        return true;
      case TAG.script: {
        const take = this.#scriptTaker();
        this.#take = (text, from, to): void => {
          this.#checkEnd(text, from, to);
          take(text, from, to);
        };
        return true;
      }
      default:
        return false;
    }
  }

  /** Stops where the script whose text is at hand ends later. Behind one without an end there is nothing to be changed. */
  #checkEnd(text: string, from: number, to: number): void {
    if (!this.#checksScripts || !text.includes('<!--')) return;
    const end = scriptEnd(this.#html, from, []);
    this.#checksScripts = end !== -1;
    this.hasCutScript = end > to;
    if (this.hasCutScript) this.stop();
  }

  #scriptTaker(): (text: string, from: number, to: number) => void {
    const type = this.#attributes.get('type')?.toLowerCase() ?? '';
    const { linkedData, scripts } = this.head;
    if (type.startsWith('application/ld+json'))
      return (text) => void (linkedData.length < MAX_KEPT && linkedData.push(text));
    if (TEX_TYPE.test(type)) return this.#addFormula.bind(this, type.includes('display') ? DISPLAYED : 0);
    if (this.#attributes.has('src') || scripts.length >= MAX_KEPT) return () => undefined;
    const id = this.#attributes.get('id') ?? '';
    const target = this.#attributes.get('data-target') ?? '';
    return (text) => void scripts.push({ type, id, target, text });
  }

  #addFormula(flags: number, _text: string, from: number, to: number): void {
    if (this.#hiding !== 0 || this.#open.isOpaque) return;
    const node = this.tree.add(TAG['#tex'], this.#open.current, flags | this.#spaceBefore, 0);
    this.tree.setRange(node, from, to);
    this.#spaceBefore = 0;
    if (this.tree.count > MAX_NODES) this.#cut();
  }

  /** HTML elements end an `svg` that was left open. */
  #leavesHiding(tag: number): boolean {
    if (this.#hiding === TAG.template) return false;
    const leaves = (traits(tag) & ENDS_PARAGRAPH) !== 0 && tag !== TAG.p && tag !== TAG.div;
    if (leaves) this.#hiding = 0;
    return leaves;
  }

  onclosetag(from: number, to: number): void {
    this.#end(this.tags.idOf(this.#html.slice(from, to)), from);
  }

  /** `at`: where the end tag stands. */
  #end(tag: number, at = this.#tagFrom): void {
    this.#take = null;
    if (this.#hiding !== 0) {
      if (tag === this.#hiding && --this.#hidingDepth === 0) this.#hiding = 0;
      return;
    }
    if (tag === TAG.br || (tag === TAG.p && !this.#open.has(TAG.p))) {
      this.#attributes.clear();
      this.#addElement(tag, at, at);
      if (tag === TAG.p) this.#open.close(tag);
      return;
    }
    this.#open.close(tag);
  }

  isInForeignContext(): boolean {
    return this.#hiding === TAG.svg;
  }

  oncdata(): void {}
  oncomment(): void {}
  ondeclaration(): void {}
  onend(): void {}
  onprocessinginstruction(): void {}
  ontextentity(): void {}
}

function isSpace(code: number): boolean {
  return code <= SPACE && (code === SPACE || (code >= 9 && code <= 13));
}
