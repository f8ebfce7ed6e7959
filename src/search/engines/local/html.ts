// Title and text of an HTML file. Reading stops at a depth that no browser supports, because the parser's cost grows with
// its square.

import { Parser } from 'htmlparser2';

export interface HtmlText {
  /** Of `<title>`, else of the first `<h1>`; empty without either. */
  readonly title: string;
  /** Without scripts, styles and navigation; whitespace folded. */
  readonly text: string;
}

const SILENT: ReadonlySet<string> = new Set(['script', 'style', 'noscript', 'template', 'svg', 'nav', 'title']);
/** Tags that do not end a word. */
const INLINE: ReadonlySet<string> = new Set([
  'a',
  'abbr',
  'b',
  'code',
  'em',
  'i',
  'kbd',
  'mark',
  's',
  'small',
  'span',
  'strong',
  'sub',
  'sup',
  'u',
  'wbr',
]);
/** The limit of browsers. */
const MAX_DEPTH = 512;

class TooDeep extends Error {}

/** Reads as much as possible; malformed markup is no error. */
export function htmlText(html: string): HtmlText {
  const reading = new Reading();
  const parser = new Parser(reading);
  try {
    parser.end(html);
  } catch (error) {
    if (!(error instanceof TooDeep)) throw error;
  }
  const [title, heading, text] = [reading.title, reading.heading, reading.text].map((part) =>
    part.replace(/[\s\p{Cc}]+/gu, ' ').trim(),
  ) as [string, string, string];
  return { title: title === '' ? heading : title, text };
}

class Reading {
  title = '';
  heading = '';
  text = '';
  #depth = 0;
  #silent = 0;
  /** Which text of the page is open: only the first title and the first heading are read. */
  #inTitle = false;
  #inHeading = false;

  onopentag(name: string): void {
    this.#depth++;
    if (this.#depth > MAX_DEPTH) throw new TooDeep();
    if (name === 'title' && this.#silent === 0) this.#inTitle = this.title === '';
    if (name === 'h1') this.#inHeading = this.heading === '';
    if (SILENT.has(name)) this.#silent++;
    if (!INLINE.has(name)) this.text += ' ';
  }

  onclosetag(name: string): void {
    this.#depth--;
    if (name === 'title') this.#inTitle = false;
    if (name === 'h1') this.#inHeading = false;
    if (SILENT.has(name)) this.#silent--;
    if (!INLINE.has(name)) this.text += ' ';
  }

  ontext(data: string): void {
    if (this.#inTitle) this.title += data;
    if (this.#silent > 0) return;
    if (this.#inHeading) this.heading += data;
    this.text += data;
  }
}
