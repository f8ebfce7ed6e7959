// What the readers of a page share when they write an answer: tidy text, a title where the page has none, the count.

import type { CleanPage, PageMetadata } from './page.ts';
import { countWords } from './word-count.ts';

/** A first line longer than this is text, not a title. */
const MAX_TITLE_CHARACTERS = 200;

/**
 * Line ends become `\n`, at most one blank line stays between two others, control characters and white space at the end
 * of lines go, and so do blank lines around the whole. Indents stay. Linear.
 */
export function tidy(text: string): string {
  return text
    .replaceAll(/\r\n?|[\f\v\u0085\u2028\u2029]/g, '\n')
    .replaceAll(/[^\P{Cc}\t\n]|\ufeff/gu, '')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .replace(/^\n+/, '')
    .trimEnd();
}

/** On one line, single spaces. */
export function oneLine(text: string): string {
  return tidy(text).split(/\s+/).join(' ').trim();
}

/** The answer: the first of `titles` that says something names the page, or else its address does. */
export function pageOf(content: string, titles: readonly string[], url: string, metadata?: PageMetadata): CleanPage {
  const title = titles.map(oneLine).find((line) => line !== '' && line.length <= MAX_TITLE_CHARACTERS);
  const page = { title: (title ?? titleOfUrl(url)).toWellFormed(), content: content.toWellFormed() };
  const wordCount = countWords(page.content);
  return metadata === undefined ? { ...page, wordCount } : { ...page, wordCount, metadata };
}

/** The last part of the path, or the host. */
function titleOfUrl(url: string): string {
  const { pathname = '', hostname = url } = URL.parse(url) ?? {};
  const name = pathname.split('/').findLast((part) => part !== '') ?? hostname;
  try {
    return oneLine(decodeURIComponent(name));
  } catch {
    return name;
  }
}
