// Readers for plain text, Markdown, JSON and XML with feeds. They take linear time and must not grow a page by more than a
// small factor.

import { decodeHTML } from 'entities';
import { type CleanPage, pageOf, tidy } from './page.ts';

/** Deeper JSON is not indented further: hostile documents nest without end. */
const MAX_INDENT = 8;

/** Lines that are searched for the title. */
const MAX_TITLE_LINES = 2000;
const MAX_FRONT_MATTER = 10_000;

/** The text unchanged, in both formats. The title is that of front matter or the first Markdown heading, else the first line. */
export function readText(text: string, url: string): CleanPage {
  const content = tidy(text);
  const matter = /^---\n([^]*?)\n---(?:\n|$)/.exec(content.slice(0, MAX_FRONT_MATTER))?.[1] ?? '';
  const title = /^title:[ \t]*(["']?)(\S.*)\1$/m.exec(matter)?.[2] ?? '';
  return pageOf(content, [title, headingOf(content), content.slice(0, 1000).split('\n', 1)[0] ?? ''], url);
}

/** The first heading of Markdown outside of fenced code (CommonMark 0.31.2, sections 4.2, 4.3 and 4.5); empty without one. */
function headingOf(content: string): string {
  let fence = '';
  let before = '';
  for (const line of content.split('\n', MAX_TITLE_LINES)) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? '';
    if (fence !== '') {
      if (mark.startsWith(fence)) fence = '';
    } else if (mark !== '') {
      fence = mark;
    } else {
      const heading = /^#{1,6}[ \t](.*)$/.exec(line)?.[1] ?? (/^=+$/.test(line) ? before : '');
      if (heading !== '') return heading;
    }
    before = line;
  }
  return '';
}

/** The document as written, indented when it is on one line. Values stay unchanged, invalid ones too. */
export function readJson(text: string, url: string): CleanPage {
  const content = tidy(text);
  return pageOf(/^[[{][^\n]*$/.test(content) ? indented(content) : content, [], url);
}

/** Elements within a line, of XHTML, JATS and DocBook, as the inside of a tag begins with them. */
const INLINE =
  /^\/?(?:\w+:)?(?:abbr|a|bold|b|cite|code|del|emphasis|em|ext-link|ins|italic|i|literal|mark|small|span|strong|sub|sup|tt|u|xref)(?![\w:.-])/i;

/** The type that Atom gives a text that is HTML (RFC 4287, section 3.1.1). */
const HTML_TYPE = /\stype\s*=\s*["'](?:text\/)?html["']/i;

/**
 * The text of the elements, one line each, with a blank line after each group. Text with inline elements is one line. The title is the
 * first `title`.
 */
export function readXml(text: string, url: string): CleanPage {
  const lines: string[] = [];
  let title = '';
  let closed = false;
  let name = '';
  let isHtml = false;
  /** Whether the next text is on the line of the last one, and whether white space is between them. */
  let continues = false;
  let isSpaced = false;
  for (const { text: piece, tag, isData } of pieces(text)) {
    const line = plain(piece, isData, isHtml);
    isSpaced ||= /^\s/.test(piece);
    if (line !== '') {
      if (continues) lines.push(`${lines.pop()}${isSpaced ? ' ' : ''}${line}`);
      else lines.push(line);
      if (title === '' && /^(?:\w+:)?title$/i.test(name)) title = line;
      isSpaced = /\s$/.test(piece);
    }
    continues = line === '' ? continues && tag === null : tag === null || INLINE.test(tag);
    if (tag === null) continue;
    const closes = tag.startsWith('/');
    if (closes && closed && !continues) lines.push('');
    closed = closes;
    name = /^[^\s/>]*/.exec(tag)?.[0] ?? '';
    isHtml = HTML_TYPE.test(tag);
  }
  return pageOf(tidy(lines.join('\n')), [title], url);
}

/** Decoded text without markup; descriptions in feeds contain markup. In CDATA, references are those of the markup alone. */
function plain(piece: string, isData: boolean, isHtml: boolean): string {
  const text = isData ? piece : decodeHTML(piece);
  if (!/<[a-z/!]/i.test(text)) return oneSpaced(isData || isHtml ? decodeHTML(text) : text);
  let line = '';
  for (const { text: part, tag } of pieces(text))
    line += decodeHTML(part) + (tag !== null && INLINE.test(tag) ? '' : ' ');
  return oneSpaced(line);
}

function oneSpaced(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

/** A run of text with the inside of the tag that follows; null where none does. */
interface Piece {
  readonly text: string;
  readonly tag: string | null;
  /** A CDATA section, whose text is as it is displayed. */
  readonly isData: boolean;
}

/** Splits markup into runs of text. */
function* pieces(markup: string): Generator<Piece> {
  let at = 0;
  while (at < markup.length) {
    const open = markup.indexOf('<', at);
    if (open === -1) break;
    const text = markup.slice(at, open);
    const [kind, end, after] = tagEnd(markup, open);
    if (kind === 'data') {
      if (text !== '') yield { text, tag: null, isData: false };
      yield { text: markup.slice(open + '<![CDATA['.length, end), tag: null, isData: true };
    } else {
      yield { text, tag: kind === 'tag' ? markup.slice(open + 1, end) : null, isData: false };
    }
    at = after;
  }
  if (at < markup.length) yield { text: markup.slice(at), tag: null, isData: false };
}

/** The kind of markup at `open`, the end of its inside, and the start of what follows. Unclosed markup takes the rest. */
function tagEnd(markup: string, open: number): ['data' | 'other' | 'tag', number, number] {
  const until = (mark: string): [number, number] => {
    const end = markup.indexOf(mark, open + 1);
    return end === -1 ? [markup.length, markup.length] : [end, end + mark.length];
  };
  if (markup.startsWith('<![CDATA[', open)) return ['data', ...until(']]>')];
  if (markup.startsWith('<!--', open)) return ['other', ...until('-->')];
  if (markup.startsWith('<?', open)) return ['other', ...until('?>')];
  const [end, after] = until('>');
  if (markup[open + 1] !== '!') return ['tag', end, after];
  // A document type may have declarations in brackets.
  const isOpen = /^<!doctype\s/i.test(markup.slice(open, open + 10)) && markup.slice(open, end).includes('[');
  return ['other', ...(isOpen ? until(']>') : ([end, after] as const))];
}

function indented(json: string): string {
  const output: string[] = [];
  let depth = 0;
  let at = 0;
  const newLine = (): void => void output.push('\n', '  '.repeat(Math.min(depth, MAX_INDENT)));
  while (at < json.length) {
    const character = json.charAt(at);
    const end = character === '"' ? stringEnd(json, at) : at + 1;
    const isEmpty = '[{'.includes(character) && ']}'.includes(json[end] ?? ' ');
    if (isEmpty) {
      output.push(json.slice(at, end + 1));
    } else if (']}'.includes(character)) {
      depth = Math.max(0, depth - 1);
      newLine();
      output.push(character);
    } else {
      output.push(character === ':' ? ': ' : json.slice(at, end).trim());
      if ('[{'.includes(character)) depth++;
      if ('[{,'.includes(character)) newLine();
    }
    at = isEmpty ? end + 1 : end;
  }
  return output.join('');
}

/** One past the closing quote of the string at `start`. */
function stringEnd(json: string, start: number): number {
  let end = start;
  for (;;) {
    end = json.indexOf('"', end + 1);
    if (end === -1) return json.length;
    let slashes = 0;
    while (json[end - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}
