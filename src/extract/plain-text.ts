// Readers for pages that are text already: plain text and Markdown, JSON, XML with its feeds. Called by read-page.ts with
// decoded text. Nothing here may take more than linear time or grow a page by more than a small factor.

import { decodeHTML } from 'entities';
import type { CleanPage } from './page.ts';
import { pageOf, tidy } from './text.ts';

/** Compact JSON is indented to this depth and no further: real documents are flat, hostile ones are all brackets. */
const MAX_INDENT = 8;

/** The text as it is, for both formats. Titled by its first Markdown heading, or its first line. */
export function readText(text: string, url: string): CleanPage {
  const content = tidy(text);
  const heading = /^#{1,6}[ \t](.*)$/m.exec(content)?.[1] ?? '';
  return pageOf(content, [heading, content.slice(0, 1000).split('\n', 1)[0] ?? ''], url);
}

/** The document as it is written, indented when it is all on one line; values are never touched, broken ones neither. */
export function readJson(text: string, url: string): CleanPage {
  const content = tidy(text);
  return pageOf(/^[[{][^\n]*$/.test(content) ? indented(content) : content, [], url);
}

/** The text of the elements, a line each, with a blank line after every group; titled by the first `title`. */
export function readXml(text: string, url: string): CleanPage {
  const lines: string[] = [];
  let title = '';
  let closed = false;
  let name = '';
  for (const { text: piece, tag } of pieces(text)) {
    const line = plain(piece);
    if (line !== '') {
      lines.push(line);
      if (title === '' && /^(?:\w+:)?title$/i.test(name)) title = line;
    }
    if (tag === null) continue;
    const closes = tag.startsWith('/');
    if (closes && closed) lines.push('');
    closed = closes;
    name = /^[^\s/>]*/.exec(tag)?.[0] ?? '';
  }
  return pageOf(tidy(lines.join('\n')), [title], url);
}

/** Text with the references read, and without markup where it holds markup: descriptions of feeds do. */
function plain(piece: string): string {
  const text = decodeHTML(piece);
  if (!/<[a-z/!]/i.test(text)) return text.replaceAll(/\s+/g, ' ').trim();
  const parts = Array.from(pieces(text), ({ text: part }) => decodeHTML(part));
  return parts.join(' ').replaceAll(/\s+/g, ' ').trim();
}

/** Splits markup into stretches of text, each with the inside of the tag after it; null where there is none. */
function* pieces(markup: string): Generator<{ text: string; tag: string | null }> {
  let at = 0;
  while (at < markup.length) {
    const open = markup.indexOf('<', at);
    if (open === -1) break;
    const text = markup.slice(at, open);
    const [kind, end, after] = tagEnd(markup, open);
    if (kind === 'data') {
      if (text !== '') yield { text, tag: null };
      yield { text: markup.slice(open + '<![CDATA['.length, end), tag: null };
    } else {
      yield { text, tag: kind === 'tag' ? markup.slice(open + 1, end) : null };
    }
    at = after;
  }
  if (at < markup.length) yield { text: markup.slice(at), tag: null };
}

/** What opens at `open`, where its inside ends and what comes after begins. Markup that never ends takes all the rest. */
function tagEnd(markup: string, open: number): ['data' | 'other' | 'tag', number, number] {
  const until = (mark: string): [number, number] => {
    const end = markup.indexOf(mark, open + 1);
    return end === -1 ? [markup.length, markup.length] : [end, end + mark.length];
  };
  if (markup.startsWith('<![CDATA[', open)) return ['data', ...until(']]>')];
  if (markup.startsWith('<!--', open)) return ['other', ...until('-->')];
  if (markup.startsWith('<?', open)) return ['other', ...until('?>')];
  return [markup[open + 1] === '!' ? 'other' : 'tag', ...until('>')];
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

/** Behind the quote that closes the string at `start`. */
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
