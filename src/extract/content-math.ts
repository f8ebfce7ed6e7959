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
  if (tag === TAG['#text']) return escaped(tree.textOf(node).trim());
  const parts: string[] = [];
  const tags: number[] = [];
  const end = tree.end[node] as number;
  for (let child = node + 1; child < end; child = tree.end[child] as number) {
    const kind = tree.tag[child] as number;
    if (kind === TAG.annotation || kind === TAG['annotation-xml']) continue;
    parts.push(kind === TAG.mphantom ? '' : fromMathMl(tree, child, budget));
    tags.push(kind);
  }
  const [first = '', second = '', third = ''] = parts;
  // A second script of the same kind is no TeX.
  const base = SCRIPTED.has(tags[0] ?? 0) ? `{${first}}` : first;
  const whole = parts.join('');
  switch (tag) {
    case TAG.msup:
      return `${base}^${group(second)}`;
    case TAG.msub:
      return `${base}_${group(second)}`;
    case TAG.msubsup:
      return `${base}_${group(second)}^${group(third)}`;
    case TAG.mover:
      return over(first, second);
    case TAG.munder:
      return under(first, second);
    case TAG.munderover:
      return hasLimits(first)
        ? `${first}_${group(second)}^${group(third)}`
        : `\\overset{${third}}{\\underset{${second}}{${first}}}`;
    case TAG.mmultiscripts:
      return multiscripts(parts, tags.indexOf(TAG.mprescripts));
    case TAG.mfrac:
      // Without a line: a binomial coefficient, whose parentheses are around it.
      return Number.parseFloat(tree.attribute(node, 'linethickness') ?? '') === 0
        ? `{${first} \\atop ${second}}`
        : `\\frac{${first}}{${second}}`;
    case TAG.mfenced: {
      const fence = (name: string, usual: string): string => escaped((tree.attribute(node, name) ?? usual).trim());
      const separators = Array.from((tree.attribute(node, 'separators') ?? ',').replaceAll(/\s/g, ''));
      const inside = parts.map(
        (part, at) => (at === 0 ? '' : escaped(separators[at - 1] ?? separators.at(-1) ?? '')) + part,
      );
      return fence('open', '(') + inside.join('') + fence('close', ')');
    }
    case TAG.msqrt:
      return `\\sqrt{${whole}}`;
    case TAG.mroot:
      return `\\sqrt[${second}]{${first}}`;
    case TAG.mtr:
      return parts.join(' & ');
    case TAG.mtable:
      return `\\begin{matrix}${parts.join(' \\\\ ')}\\end{matrix}`;
    case TAG.mtext:
      return `\\text{${whole}}`;
    case TAG.mi:
      return FUNCTION.test(whole) ? `\\${whole} ` : whole;
    case TAG.mo:
      return /^[=<>+\-−×·≤≥≠→∈]$/.test(first) ? ` ${first} ` : FUNCTION.test(whole) ? `\\${whole} ` : whole;
    default:
      return whole;
  }
}

const SCRIPTED: ReadonlySet<number> = new Set([TAG.msup, TAG.msub, TAG.msubsup, TAG.mmultiscripts]);

/** Functions that TeX knows by name: their letters are no variables. */
const FUNCTION =
  /^(?:arccos|arcsin|arctan|arg|cosh?|cot|coth|csc|deg|det|dim|exp|gcd|hom|inf|ker|lg|lim|liminf|limsup|ln|log|max|min|Pr|sec|sinh?|sup|tanh?)$/;

/** Commands of the signs that stand over a letter. */
const ACCENTS: ReadonlyMap<string, string> = new Map([
  ['˙', 'dot'],
  ['.', 'dot'],
  ['¨', 'ddot'],
  ['^', 'hat'],
  ['ˆ', 'hat'],
  ['~', 'tilde'],
  ['˜', 'tilde'],
  ['¯', 'overline'],
  ['‾', 'overline'],
  ['→', 'vec'],
  ['⃗', 'vec'],
  ['⏞', 'overbrace'],
]);

/** What is over and under these are their limits, as beside a sum. */
function hasLimits(base: string): boolean {
  return /^(?:[∏-∑∫-∳⋀-⋃⨀-⨌]|\\(?:lim|liminf|limsup|max|min|sup|inf|det|gcd|Pr) |\\overbrace)/.test(base);
}

function over(base: string, sign: string): string {
  if (hasLimits(base)) return `${base}^${group(sign)}`;
  const accent = ACCENTS.get(sign.trim());
  return accent === undefined ? `\\overset{${sign}}{${base}}` : `\\${accent}{${base}}`;
}

function under(base: string, sign: string): string {
  if (hasLimits(base) || base.startsWith('\\underbrace')) return `${base}_${group(sign)}`;
  if (/^\s*(?:\\_|[̲‾_])\s*$/.test(sign)) return `\\underline{${base}}`;
  return sign.trim() === '⏟' ? `\\underbrace{${base}}` : `\\underset{${sign}}{${base}}`;
}

/** Scripts behind the base, then, from `before` on, those before it, in pairs of a lower and an upper one. */
function multiscripts([base = '', ...scripts]: readonly string[], before: number): string {
  const pairs = (from: number, to: number): string => {
    const lower = scripts.slice(from, to).filter((_, at) => at % 2 === 0);
    const upper = scripts.slice(from, to).filter((_, at) => at % 2 === 1);
    return [lower, upper]
      .map((each, at) => (each.join('') === '' ? '' : `${'_^'[at]}${group(each.join(''))}`))
      .join('');
  };
  const behind = before === -1 ? scripts.length : before - 1;
  const leading = pairs(behind + 1, scripts.length);
  return (leading === '' ? '' : `{}${leading}`) + base + pairs(0, behind);
}

/** Characters of a formula, without those that only say how their neighbours belong together. */
function escaped(text: string): string {
  return text
    .replaceAll(/[\u2061-\u2064]/g, '')
    .replaceAll(/[\\{}%#&$_]/g, (sign) => (sign === '\\' ? '\\backslash ' : `\\${sign}`));
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
