// Writes content as CommonMark with the tables, task lists, strikethrough and footnotes of GitHub, such that a parser gives
// back the same structure. What Markdown has no syntax for is written as inline HTML, or without its mark.

import type { Block, Inline, List, ListItem, Mark, MarkName, Table } from './content.ts';

export function markdownOf(blocks: readonly Block[]): string {
  return new MarkdownWriter(blocks).result();
}

/** Delimiters of marks, outside and inside of emphasis, where other characters keep runs apart. */
const DELIMITERS: Readonly<Partial<Record<MarkName, readonly [outside: string, inside: string]>>> = {
  strong: ['**', '__'],
  em: ['*', '_'],
  del: ['~~', '~~'],
};

/** Marks that are written as inline HTML. */
const ELEMENTS: ReadonlySet<MarkName> = new Set<MarkName>(['sup', 'sub', 'ins', 'mark']);

/** A mark whose delimiters must be next to the right characters. Positions are those of its delimiters in the parts. */
interface Delimited {
  readonly name: MarkName;
  readonly open: number;
  readonly close: number;
}

class MarkdownWriter {
  readonly #blocks: readonly Block[];
  /** With formulas in the page, dollar signs in its text are escaped. */
  #hasMath = false;

  constructor(blocks: readonly Block[]) {
    this.#blocks = blocks;
  }

  result(): string {
    this.#hasMath = hasMath(this.#blocks);
    return this.#joined(this.#blocks, '\n\n');
  }

  #joined(blocks: readonly Block[], separator: string): string {
    const parts: string[] = [];
    /** Lists next to each other have different markers: the same one would continue the list. */
    let isAlternate = false;
    let previous: Block | undefined;
    for (const block of blocks) {
      const isNextList = block.kind === 'list' && previous?.kind === 'list' && previous.isOrdered === block.isOrdered;
      isAlternate = isNextList && !isAlternate;
      const text = block.kind === 'list' ? this.#list(block, isAlternate) : this.#block(block);
      if (text === '') continue;
      parts.push(text);
      previous = block;
    }
    return parts.join(separator);
  }

  #block(block: Block): string {
    switch (block.kind) {
      case 'paragraph':
        return this.#line(block.children, 'paragraph');
      case 'heading': {
        const text = this.#line(block.children, 'heading');
        return text === '' ? '' : `${'#'.repeat(block.level)} ${text.replace(/(^|\s)(#+)$/, '$1\\$2')}`;
      }
      case 'term':
      case 'summary': {
        const text = this.#line([{ kind: 'mark', name: 'strong', url: '', children: [...block.children] }], 'heading');
        return text;
      }
      case 'table':
        return this.#table(block);
      case 'code':
        return fenced(block.text, block.language);
      case 'math':
        return `$$\n${inMath(block.tex)}\n$$`;
      case 'rule':
        return '---';
      case 'quote':
        return prefixed(this.#joined(block.children, '\n\n'), '> ', '> ');
      case 'definitions':
        return this.#definitions(block.children);
      case 'footnote':
        return prefixed(this.#joined(block.children, '\n\n'), `[^${block.label}]: `, '    ');
      case 'list':
        return this.#list(block, false);
      default:
        return this.#joined(block.children, '\n\n');
    }
  }

  /** A list, or several where a number does not follow from the one before: a change of the marker begins a list. */
  #list({ isOrdered, isTight, items }: List, isAlternate: boolean): string {
    let alternate = isAlternate;
    let before = items[0]?.number ?? 1;
    const parts: string[] = [];
    items.forEach((item, at) => {
      if (isOrdered && at > 0 && item.number !== before + 1) alternate = !alternate;
      before = item.number;
      const marker = isOrdered ? `${Math.max(0, item.number)}${alternate ? ')' : '.'}` : alternate ? '*' : '-';
      parts.push(this.#item(item, marker, isTight));
    });
    return parts.join(isTight ? '\n' : '\n\n');
  }

  #item({ isDone, children }: ListItem, marker: string, isTight: boolean): string {
    const [first] = children;
    const isTask = isDone !== null && first?.kind === 'paragraph';
    const box = isTask ? (isDone ? '[x] ' : '[ ] ') : '';
    const isRule = first?.kind === 'rule';
    const separator = isTight && !hasListInParagraph(children) ? '\n' : '\n\n';
    const text = box + (isRule ? '___' : '') + this.#joined(children, separator).slice(isRule ? 3 : 0);
    return text === '' ? marker : prefixed(text, `${marker} `, ' '.repeat(marker.length + 1));
  }

  /** Terms in bold as items, with what they mean. */
  #definitions(children: readonly Block[]): string {
    const items: string[] = [];
    for (let at = 0; at < children.length;) {
      const terms: string[] = [];
      for (; children[at]?.kind === 'term'; at++) terms.push(this.#block(children[at] as Block));
      const blocks: Block[] = [];
      for (let child = children[at]; child?.kind === 'description'; child = children[++at])
        for (const block of child.children) blocks.push(block);
      const term = terms.filter((text) => text !== '').join(', ');
      const [only] = blocks;
      const isLine = term !== '' && blocks.length === 1 && only?.kind === 'paragraph';
      const parts = isLine
        ? [`${term}: ${this.#line(only.children, 'heading')}`]
        : [term, this.#joined(blocks, '\n\n')].filter((text) => text !== '');
      if (parts.length > 0) items.push(prefixed(parts.join('\n\n'), '- ', '  '));
    }
    return items.join('\n\n');
  }

  /** A table with its caption as a paragraph before it. The first row is the header. */
  #table({ caption, rows, columns }: Table): string {
    const width = Math.max(columns, 1);
    const lines = rows.map((row) => {
      const cells = Array.from({ length: width }, () => '');
      for (const { column, children } of row) cells[column] = this.#cell(children);
      return `| ${cells.join(' | ')} |`;
    });
    lines.splice(1, 0, `|${' --- |'.repeat(width)}`);
    const title = this.#line(caption, 'heading');
    return (title === '' ? '' : `${title}\n\n`) + lines.join('\n');
  }

  /** Blocks on one line. */
  #cell(blocks: readonly Block[]): string {
    return this.#cellLines(blocks).join('<br>').replaceAll('|', '\\|');
  }

  #cellLines(blocks: readonly Block[]): string[] {
    return blocks.flatMap((block): string[] => {
      switch (block.kind) {
        case 'paragraph':
        case 'heading':
        case 'term':
        case 'summary':
          return [this.#line(block.children, 'cell')];
        case 'code':
          return block.text.split('\n').map((line) => cellCode(line.trim()));
        case 'math':
          return [inlineMath(block.tex)];
        case 'rule':
        case 'table':
          return [];
        case 'list':
          return block.items.flatMap(({ number, children }) => {
            const marker = block.isOrdered ? `${number}. ` : '• ';
            return this.#cellLines(children).map((line, at) => (at === 0 ? marker + line : line));
          });
        default:
          return this.#cellLines(block.children);
      }
    });
  }

  #line(inlines: readonly Inline[], place: 'cell' | 'heading' | 'paragraph'): string {
    const line = new LineWriter(place, this.#hasMath);
    line.write(inlines, []);
    return line.result();
  }
}

/** Writes inlines as parts, then looks at the characters next to each delimiter, which decide whether it is one. */
class LineWriter {
  readonly #place: 'cell' | 'heading' | 'paragraph';
  readonly #hasMath: boolean;
  readonly #parts: string[] = [];
  readonly #delimited: Delimited[] = [];

  constructor(place: 'cell' | 'heading' | 'paragraph', hasMathInPage: boolean) {
    this.#place = place;
    this.#hasMath = hasMathInPage;
  }

  result(): string {
    const parts = this.#parts;
    for (const { name, open, close } of this.#delimited) {
      const delimiter = parts[open] as string;
      const before = lastOf(parts, open - 1);
      const after = firstOf(parts, close + 1);
      const isOne =
        opens(delimiter, before, firstOf(parts, open + 1)) && closes(delimiter, lastOf(parts, close - 1), after);
      if (isOne) continue;
      parts[open] = `<${name}>`;
      parts[close] = `</${name}>`;
    }
    return parts.join('');
  }

  write(inlines: readonly Inline[], around: readonly MarkName[]): void {
    for (const inline of inlines) this.#inline(inline, around);
  }

  #inline(inline: Inline, around: readonly MarkName[]): void {
    switch (inline.kind) {
      case 'text':
        this.#text(inline.text, around);
        return;
      case 'break':
        this.#parts.push(this.#place === 'paragraph' ? '\\\n' : this.#place === 'cell' ? '<br>' : ' ');
        return;
      case 'code':
        this.#code(inline.text, around);
        return;
      case 'image':
        this.#parts.push(`![${escaped(inline.alt)}](${inTarget(inline.url)})`);
        return;
      case 'math':
        this.#parts.push(inlineMath(inline.tex));
        return;
      case 'reference':
        this.#bracket(`[^${inline.label}]`);
        return;
      default:
        this.#mark(inline, around);
    }
  }

  #text(text: string, around: readonly MarkName[]): void {
    const parts = this.#parts;
    const written = this.#withoutMath(around.includes('a') ? escaped(text) : escapedBesideUrls(text));
    const isStart = this.#place === 'paragraph' && isLineStart(parts.at(-1));
    // A reference at the start of a line would define a footnote.
    const isBehindFirst = parts.at(-1)?.startsWith('[^') === true && isLineStart(parts.at(-2));
    parts.push(isStart ? escapedStart(written) : isBehindFirst && written.startsWith(':') ? `\\${written}` : written);
  }

  /** Code behind other code would have a longer run of backticks, and `]:` in a link may define its text. */
  #code(text: string, around: readonly MarkName[]): void {
    const isApart = this.#parts.at(-1)?.endsWith('`') !== true && !(around.includes('a') && text.includes(']:'));
    if (!isApart) this.#parts.push(`<code>${this.#withoutMath(escaped(text))}</code>`);
    else this.#parts.push(this.#place === 'cell' ? cellCode(text) : inlineCode(text));
  }

  #withoutMath(text: string): string {
    return this.#hasMath ? text.replaceAll('$', '\\$') : text;
  }

  /** Begins a link or a reference. A `!` before it would make it an image. */
  #bracket(opening: string): void {
    const before = this.#parts.pop() ?? '';
    this.#parts.push(before.endsWith('!') ? `${before.slice(0, -1)}\\!` : before, opening);
  }

  #mark({ name, url, children }: Mark, around: readonly MarkName[]): void {
    const inside = [...around, name];
    const parts = this.#parts;
    const delimiters = DELIMITERS[name];
    if (name === 'a') {
      this.#bracket('[');
      this.write(children, inside);
      parts.push(`](${inTarget(url)})`);
    } else if (delimiters !== undefined) {
      const delimiter = delimiters[around.includes('em') || around.includes('strong') ? 1 : 0] as string;
      const open = parts.push(delimiter) - 1;
      this.write(children, inside);
      this.#delimited.push({ name, open, close: parts.push(delimiter) - 1 });
    } else if (ELEMENTS.has(name)) {
      parts.push(`<${name}>`);
      this.write(children, inside);
      parts.push(`</${name}>`);
    } else {
      const [before, after] = name === 'q' ? ['“', '”'] : name === 'rt' ? ['(', ')'] : ['', ''];
      if (before !== '') parts.push(before);
      this.write(children, inside);
      if (after !== '') parts.push(after);
    }
  }
}

/** Whether what follows a part begins a line. */
function isLineStart(before = ''): boolean {
  return before === '' || before.endsWith('\n');
}

/** The last character before a position; a space at the start of the line. */
function lastOf(parts: readonly string[], from: number): string {
  for (let at = from; at >= 0; at--) {
    const part = parts[at] as string;
    if (part !== '') return /.$/su.exec(part.slice(-2))?.[0] ?? ' ';
  }
  return ' ';
}

function firstOf(parts: readonly string[], from: number): string {
  for (let at = from; at < parts.length; at++) {
    const part = parts[at] as string;
    if (part !== '') return String.fromCodePoint(part.codePointAt(0) as number);
  }
  return ' ';
}

/** Whether a delimiter run opens emphasis (CommonMark, section 6.2). Runs that would touch another run do not. */
function opens(delimiter: string, before: string, after: string): boolean {
  const sign = delimiter.charAt(0);
  if (before === sign || after === sign || isSpace(after)) return false;
  if (sign === '_') return isSpace(before) || isPunctuation(before);
  return !isPunctuation(after) || isSpace(before) || isPunctuation(before);
}

function closes(delimiter: string, before: string, after: string): boolean {
  return opens(delimiter, after, before);
}

function isSpace(character: string): boolean {
  return /\s/.test(character);
}

function isPunctuation(character: string): boolean {
  return /[\p{P}\p{S}]/u.test(character);
}

/** The text with `first` before its first line and `indent` before the others that are not empty. */
function prefixed(text: string, first: string, indent: string): string {
  const blank = indent.trimEnd();
  return (
    first + text.replaceAll(/\n(?=(\n)?)/g, (_end, isBlank?: string) => `\n${isBlank === undefined ? indent : blank}`)
  );
}

function hasMath(blocks: readonly (Block | Inline)[]): boolean {
  return blocks.some((block) => {
    if (block.kind === 'math') return true;
    if (block.kind === 'list') return hasMath(block.items);
    if (block.kind === 'table') return block.rows.some((row) => row.some(({ children }) => hasMath(children)));
    return 'children' in block && hasMath(block.children);
  });
}

function fenced(source: string, language: string): string {
  const fence = '`'.repeat(Math.max(3, longestRun(source) + 1));
  return `${fence}${language}\n${source}\n${fence}`;
}

function inTarget(url: string): string {
  return url
    .replaceAll('\\', '%5C')
    .replaceAll('(', '%28')
    .replaceAll(')', '%29')
    .replaceAll(/&(?=#?\w{1,31};)/g, '\\&');
}

function inlineCode(code: string): string {
  if (code === '') return '';
  const ticks = '`'.repeat(longestRun(code) + 1);
  const padding = code.startsWith('`') || code.endsWith('`') ? ' ' : '';
  return ticks + padding + code + padding + ticks;
}

/** Whether a list follows a line of text that it cannot interrupt (CommonMark 0.31.2, section 5.3). */
function hasListInParagraph(children: readonly Block[]): boolean {
  return children.some((block, at) => {
    if (block.kind !== 'list' || children[at - 1]?.kind !== 'paragraph') return false;
    const [first] = block.items;
    return first === undefined || first.children.length === 0 || (block.isOrdered && first.number !== 1);
  });
}

/** Code in a cell. A backslash before a pipe cannot be written between backticks there (GFM, section 4.10). */
function cellCode(code: string): string {
  return code.includes('\\|') ? `<code>${escaped(code)}</code>` : inlineCode(code);
}

function inlineMath(tex: string): string {
  return `$${inMath(tex).replaceAll(/(?<!\\)\$/g, '\\$')}$`;
}

/** TeX that sets the same and has no tags, links or code for a reader that does not know formulas. */
function inMath(tex: string): string {
  return tex
    .replaceAll(/<(?=[a-z/!?])/gi, '\\lt ')
    .replaceAll(/\](?=[([])/g, '] ')
    .replaceAll('`', '\u2018');
}

function longestRun(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}

/** Escapes text within a line. Underscores inside words have no meaning in Markdown and stay. */
function escaped(text: string): string {
  if (!/[\\`*_[\]<&~]/.test(text)) return text;
  return text
    .replaceAll(/[\\`*[\]~]|<(?=[a-z/!?])|&(?=#?\w{1,31};)/gi, '\\$&')
    .replaceAll(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_');
}

/** A URL in text, which readers with GitHub's extensions make a link of, backslashes included. `$` would be escaped beside formulas. */
const BARE_URL = /(?:https?:\/\/|(?<![a-z\d])www\.)[\w\-.~:/?#@!&'()*+,;=%]+/gi;

/** Signs behind a URL that belong to its sentence. */
const BEHIND_URL = "?!.,:;*_~'";

/** What such readers take for a URL at first. */
const UP_TO_SPACE = /[^\s<]*/y;

/**
 * Escapes text within a line, but not what is in a URL: one with escapes in it or behind it stands between angle brackets, where there are
 * none. One that cannot, without a scheme or with a character reference, is no link.
 */
function escapedBesideUrls(text: string): string {
  let safe = '';
  let from = 0;
  let spaceAt = 0;
  let hasEscapes = false;
  for (const { 0: found, index } of /:\/\/|www\./i.test(text) ? text.matchAll(BARE_URL) : []) {
    if (index >= spaceAt) {
      UP_TO_SPACE.lastIndex = index;
      spaceAt = index + (UP_TO_SPACE.exec(text)?.[0].length ?? 0);
      const word = text.slice(index, text[spaceAt] === '<' ? spaceAt + 2 : spaceAt);
      hasEscapes = escaped(word) !== word;
    }
    if (!hasEscapes) continue;
    const isOpen = found.includes('(');
    let end = found.length;
    while (BEHIND_URL.includes(found.charAt(end - 1)) || (!isOpen && found.charAt(end - 1) === ')')) end--;
    const url = found.slice(0, end);
    const isBracketed = /^http/i.test(url) && !/&#?\w{1,31};/.test(url);
    if (!isBracketed) end = found.length;
    safe += escaped(text.slice(from, index));
    safe += isBracketed ? `<${url}>` : escaped(found).replaceAll(/(?<=www)\.|:(?=\/\/)/gi, '\\$&');
    from = index + end;
  }
  return safe + escaped(text.slice(from));
}

/** Escapes the start of a line whose text is escaped already. */
function escapedStart(text: string): string {
  if (/^(?:#{1,6}|[-+])(?:\s|$)|^>|^(?:-+|=+)\s*$|^[-:|][-:|\s]*$/.test(text)) return `\\${text}`;
  return text.replace(/^(\d{1,9})([.)])(?=\s|$)/, '$1\\$2');
}
