// Reads the Markdown files of the repository: fenced code blocks, links, headings and their anchors.
// A fence is closed by a line with the same number of backticks. Paths are relative to the root of the repository.

import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Root of the repository, with a slash at the end. Compiled files lie in dist/test/docs. */
export const ROOT: string = fileURLToPath(new URL('../../../', import.meta.url));

/** The pages for users: the README and everything in docs/. */
export const PAGES: readonly string[] = ['README.md', ...globSync('docs/*.md', { cwd: ROOT }).sort()];

/** Every Markdown file that is written by hand or generated. */
export const DOCUMENTS: readonly string[] = [
  ...PAGES,
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'bench/README.md',
  'ops/README.md',
];

export interface CodeBlock {
  readonly page: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** The word after the opening fence; empty when there is none. */
  readonly language: string;
  readonly text: string;
  /** The HTML comment on the line above, without its marks; null when there is none. */
  readonly comment: string | null;
}

export function readDocument(page: string): string {
  return readFileSync(`${ROOT}${page}`, 'utf8');
}

/** The fenced code blocks of a page, in order. */
export function codeBlocks(page: string): CodeBlock[] {
  const lines = readDocument(page).split('\n');
  const blocks: CodeBlock[] = [];
  for (let at = 0; at < lines.length; at++) {
    const fence = /^(`{3,})(\S*)/.exec(lines[at] as string);
    if (fence === null) continue;
    const end = lines.indexOf(fence[1] as string, at + 1);
    if (end < 0) throw new Error(`${page}:${at + 1}: this code block has no end`);
    const above = lines.slice(0, at).findLast((line) => line !== '') ?? '';
    blocks.push({
      page,
      line: at + 1,
      language: fence[2] as string,
      text: lines.slice(at + 1, end).join('\n'),
      comment: /^<!-- (.*) -->$/.exec(above)?.[1] ?? null,
    });
    at = end;
  }
  return blocks;
}

/** The text of a page without code blocks, code spans and comments. */
function prose(page: string): string {
  return readDocument(page)
    .replace(/^(`{3,})[^]*?^\1$/gm, '')
    .replace(/`[^`\n]*`/g, (span) => span.replace(/[[\]()]/g, ' '))
    .replace(/<!--[^]*?-->/g, '');
}

/** Targets of all links and images of a page. */
export function links(page: string): string[] {
  return [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target as string);
}

/** Anchors of the headings of a page, as Git hosts make them, and of `<a id="…">`. */
export function anchors(page: string): Set<string> {
  const found = new Set<string>();
  for (const [, heading] of prose(page).matchAll(/^#{1,6} (.*)$/gm)) {
    const slug = (heading as string)
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');
    let anchor = slug;
    for (let n = 1; found.has(anchor); n++) anchor = `${slug}-${n}`;
    found.add(anchor);
  }
  for (const [, id] of prose(page).matchAll(/<a id="([^"]+)">/g)) found.add(id as string);
  return found;
}
