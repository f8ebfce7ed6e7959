// Formulas as TeX: from annotations, attributes and MathML of a page, and from delimiters in its text.

import { decodeHTML } from 'entities';
import { TAG } from './tags.ts';
import type { Tree } from './tree.ts';

const MAX_TEX_CHARACTERS = 10_000;
const MAX_NODES = 2000;

/** The TeX of a formula element: of a script, an annotation or `alttext`, else written from its MathML. Empty if none. */
export function texOf(tree: Tree, node: number): string {
  if (tree.tag[node] === TAG['#tex']) return bare(tree.html.slice(tree.from[node], tree.to[node]));
  const end = Math.min(tree.end[node] as number, node + MAX_NODES);
  let math = -1;
  for (let inner = node; inner < end; inner++) {
    const tag = tree.tag[inner];
    if (tag === TAG.math && math === -1) math = inner;
    if (tag === TAG.annotation && /tex/i.test(tree.attribute(inner, 'encoding') ?? ''))
      return bare(annotation(tree, inner));
  }
  if (math === -1) return '';
  const alternative = tree.attribute(math, 'alttext') ?? '';
  return bare(alternative === '' ? fromMathMl(tree, math, { left: MAX_NODES }) : alternative);
}

/** TeX without the braces and style that generators put around it. */
export function bare(tex: string): string {
  const line = tex.slice(0, MAX_TEX_CHARACTERS).replaceAll(/\s+/g, ' ').trim();
  const styled = /^\{\\(?:display|text)style (.*)\}$/.exec(line)?.[1] ?? line;
  return styled.replace(/^\\(?:display|text)style /, '').trim();
}

/** The source after the start tag: the content is not part of the tree. */
function annotation(tree: Tree, node: number): string {
  const from = (tree.to[node] as number) + 1;
  const source = tree.html.slice(from, from + MAX_TEX_CHARACTERS);
  const end = source.search(/<\/annotation/i);
  return end === -1 ? '' : decodeHTML(source.slice(0, end));
}

function fromMathMl(tree: Tree, node: number, budget: { left: number }): string {
  if (budget.left-- <= 0) return '';
  const tag = tree.tag[node] as number;
  if (tag === TAG['#text']) return tree.textOf(node).trim();
  const parts: string[] = [];
  const end = tree.end[node] as number;
  for (let child = node + 1; child < end; child = tree.end[child] as number) {
    const kind = tree.tag[child];
    if (kind === TAG.annotation || kind === TAG['annotation-xml'] || kind === TAG.mphantom) continue;
    parts.push(fromMathMl(tree, child, budget));
  }
  const [first = '', second = '', third = ''] = parts;
  switch (tag) {
    case TAG.msup:
    case TAG.mover:
      return `${first}^${group(second)}`;
    case TAG.msub:
    case TAG.munder:
      return `${first}_${group(second)}`;
    case TAG.msubsup:
    case TAG.munderover:
      return `${first}_${group(second)}^${group(third)}`;
    case TAG.mfrac:
      return `\\frac{${first}}{${second}}`;
    case TAG.msqrt:
      return `\\sqrt{${parts.join('')}}`;
    case TAG.mroot:
      return `\\sqrt[${second}]{${first}}`;
    case TAG.mtr:
      return parts.join(' & ');
    case TAG.mtable:
      return `\\begin{matrix}${parts.join(' \\\\ ')}\\end{matrix}`;
    case TAG.mtext:
      return `\\text{${parts.join('')}}`;
    case TAG.mo:
      return /^[=<>+\-−×·≤≥≠→∈]$/.test(first) ? ` ${first} ` : parts.join('');
    default:
      return parts.join('');
  }
}

function group(tex: string): string {
  return /^\w$/.test(tex.trim()) ? tex.trim() : `{${tex}}`;
}

export interface Formula {
  readonly tex: string;
  readonly isDisplayed: boolean;
}

const CLOSERS: Readonly<Record<string, string>> = { '\\(': '\\)', '\\[': '\\]', $$: '$$' };

/** The text, and the formulas between the delimiters of MathJax and KaTeX in it. Linear. */
export function formulasIn(text: string): (Formula | string)[] {
  const parts: (Formula | string)[] = [];
  let written = 0;
  let opener = '';
  let start = 0;
  for (const { 0: delimiter, index } of text.matchAll(/\\[()[\]]|\$\$/g)) {
    if (opener !== '' && delimiter === CLOSERS[opener]) {
      const tex = bare(text.slice(start + 2, index));
      if (tex !== '') {
        parts.push(text.slice(written, start), { tex, isDisplayed: opener !== '\\(' });
        written = index + 2;
      }
      opener = '';
    } else if (delimiter in CLOSERS) {
      opener = delimiter;
      start = index;
    }
  }
  parts.push(text.slice(written));
  return parts;
}
