// Code as Markdown: white space kept, fences longer than any run of backticks inside. Used by the Markdown writer.

import type { Dropped } from './select.ts';
import { BLOCK, TAG, traits } from './tags.ts';
import type { Tree } from './tree.ts';

/** How pages name the language of code in a class. */
const LANGUAGE = /(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s?)([a-z0-9+#_.-]{1,30})/i;

/** The characters of a subtree as they stand, with a line end for each break and block. */
export function sourceOf(tree: Tree, dropped: Dropped, node: number): string {
  const parts: string[] = [];
  const end = tree.end[node] as number;
  for (let inner = node + 1; inner < end; inner++) {
    const tag = tree.tag[inner] as number;
    if (dropped[inner] === 1) inner = (tree.end[inner] as number) - 1;
    else if (tag === TAG['#text']) parts.push(tree.textOf(inner));
    else if ((traits(tag) & BLOCK) !== 0 && !(parts.at(-1)?.endsWith('\n') ?? true)) parts.push('\n');
  }
  return parts.join('');
}

/** Lines of a fenced block; null when it would be empty. */
export function fenced(tree: Tree, dropped: Dropped, node: number): readonly string[] | null {
  const source = sourceOf(tree, dropped, node)
    .replace(/^\r?\n/, '')
    .trimEnd();
  if (source.trim() === '') return null;
  const fence = '`'.repeat(Math.max(3, longestRun(source) + 1));
  return [fence + languageOf(tree, node), ...source.split(/\r\n?|\n/), fence];
}

export function inlineCode(code: string): string {
  if (code === '') return '';
  const ticks = '`'.repeat(longestRun(code) + 1);
  const room = code.startsWith('`') || code.endsWith('`') ? ' ' : '';
  return ticks + room + code + room + ticks;
}

function languageOf(tree: Tree, node: number): string {
  const child = node + 1;
  const names = [
    tree.attributes.get(node)?.className,
    tree.tag[child] === TAG.code ? tree.attributes.get(child)?.className : undefined,
  ];
  for (const name of names) {
    const language = LANGUAGE.exec(name ?? '')?.[1];
    if (language !== undefined) return language.toLowerCase();
  }
  return '';
}

function longestRun(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}
