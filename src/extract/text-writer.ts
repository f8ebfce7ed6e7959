// Writes content as plain text: blank lines between blocks, line ends between list items and rows, tabs between cells. Words
// of different blocks are always separated. Images are left out, with what is empty without them.

import type { Block, Inline, List, Table } from './content.ts';

export function textOf(blocks: readonly Block[]): string {
  return joinedText(blocks, '\n\n');
}

function joinedText(blocks: readonly Block[], separator: string): string {
  return blocks
    .map(blockText)
    .filter((text) => text !== '')
    .join(separator);
}

function blockText(block: Block): string {
  switch (block.kind) {
    case 'paragraph':
    case 'heading':
    case 'term':
    case 'summary':
      return lineText(block.children);
    case 'list':
      return listText(block);
    case 'table':
      return tableText(block);
    case 'code':
      return block.text;
    case 'math':
      return plainTex(block.tex);
    case 'rule':
      return '';
    case 'definitions':
      return joinedText(block.children, '\n');
    case 'footnote':
      return `[${block.label}] ${joinedText(block.children, '\n\n')}`;
    default:
      return joinedText(block.children, '\n\n');
  }
}

function listText({ isOrdered, style, isTight, items }: List): string {
  const lines: string[] = [];
  for (const { number, isDone, children } of items) {
    const text = joinedText(children, isTight ? '\n' : '\n\n');
    if (text === '') continue;
    const marker = isOrdered ? `${numeral(number, style)}. ` : '- ';
    const box = isDone === null ? '' : isDone ? '[x] ' : '[ ] ';
    lines.push(marker + box + text.replaceAll(/\n(?!\n)/g, `\n${' '.repeat(marker.length)}`));
  }
  return lines.join('\n');
}

function tableText({ caption, rows, columns }: Table): string {
  const lines = rows.map((row) => {
    const cells = Array.from({ length: columns }, () => '');
    for (const { column, children } of row) cells[column] = cellText(joinedText(children, '\n'));
    return cells.join('\t').trimEnd();
  });
  const table = lines.filter((line) => line !== '').join('\n');
  return [lineText(caption), table].filter((text) => text !== '').join('\n\n');
}

/** Not by an expression for white space around line ends: its time is quadratic in long white space without one. */
function cellText(text: string): string {
  if (!text.includes('\n')) return text;
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '').join('; ');
}

function lineText(inlines: readonly Inline[]): string {
  // Spaces and breaks on both sides of an image meet.
  return inlinesText(inlines)
    .replaceAll(/[ \n]{2,}/g, (gap) => (gap.includes('\n') ? '\n' : ' '))
    .trim();
}

function inlinesText(inlines: readonly Inline[]): string {
  return inlines.map(inlineText).join('');
}

function inlineText(inline: Inline): string {
  switch (inline.kind) {
    case 'text':
    case 'code':
      return inline.text;
    case 'break':
      return '\n';
    case 'image':
      return '';
    case 'math':
      return plainTex(inline.tex);
    case 'reference':
      return `[${inline.label}]`;
    default: {
      const text = inlinesText(inline.children);
      if (text.trim() === '') return text;
      switch (inline.name) {
        case 'sup':
          return raised(text, SUPERSCRIPTS, '^');
        case 'sub':
          return raised(text, SUBSCRIPTS, '_');
        case 'rt':
          return `(${text})`;
        case 'q':
          return /^["'«„“‘「『]/.test(text) ? text : `“${text}”`;
        default:
          return text;
      }
    }
  }
}

const DIGITS = '0123456789+-−=()';
const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾';
const SUBSCRIPTS = '₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎';

/** Ordinals and signs that are raised by convention only. */
const UNRAISED = /^(?:st|nd|rd|th|er|e|è?re|ème|eme|nd?e|o|a|os|as|º|ª|tm|sm|™|®|©|[*†‡§¶]+|\[.*\])$/i;

const MAX_RAISED = 20;

function raised(text: string, characters: string, sign: string): string {
  if (/^[\d+\-−=()]+$/.test(text)) return text.replaceAll(/./g, (digit) => characters.charAt(DIGITS.indexOf(digit)));
  if (UNRAISED.test(text) || text.length > MAX_RAISED || /\s/.test(text)) return text;
  return text.length === 1 ? sign + text : `${sign}(${text})`;
}

/** TeX with the braces left out that a reader does not need. */
function plainTex(tex: string): string {
  return tex.replaceAll(/([\^_])\{(\w)\}/g, '$1$2');
}

/** A number as the marker of an item. */
function numeral(number: number, style: string): string {
  if (number < 1 || style === '1') return String(number);
  const text = style === 'i' || style === 'I' ? roman(number) : letters(number);
  return style === 'A' || style === 'I' ? text.toUpperCase() : text;
}

function letters(number: number): string {
  let text = '';
  for (let left = number; left > 0; left = Math.floor((left - 1) / 26))
    text = String.fromCodePoint(0x61 + ((left - 1) % 26)) + text;
  return text;
}

const ROMAN = [
  [1000, 'm'],
  [900, 'cm'],
  [500, 'd'],
  [400, 'cd'],
  [100, 'c'],
  [90, 'xc'],
  [50, 'l'],
  [40, 'xl'],
  [10, 'x'],
  [9, 'ix'],
  [5, 'v'],
  [4, 'iv'],
  [1, 'i'],
] as const;

function roman(number: number): string {
  if (number >= 4000) return String(number);
  let text = '';
  let left = number;
  for (const [value, sign] of ROMAN) {
    text += sign.repeat(Math.floor(left / value));
    left %= value;
  }
  return text;
}
