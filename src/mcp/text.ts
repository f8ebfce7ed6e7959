// Results of tools as models read them best: short Markdown, with what is needed to go on, instead of JSON.

import type { PageAnswer } from '../fetch/index.ts';
import type { SearchAnswer, SearchResult } from '../search/index.ts';

const NOTHING_FOUND =
  'Nothing found. Try fewer or other words, or leave out filters such as `time_range`, `language` or `include_domains`.';

/** A numbered list of results. `page`: the one that was asked for. */
export function searchText({ meta, results }: SearchAnswer, page: number): string {
  const parts = results.map((result, at) => resultText(result, at + 1));
  const failed = meta.engine_errors.map(({ engine, reason }) => `${engine}: ${reason}`).join('; ');
  if (results.length === 0) parts.push(page > 1 ? 'No more results.' : NOTHING_FOUND);
  if (failed !== '') parts.push(`Some engines gave nothing (${failed}); the results may be incomplete.`);
  return parts.join('\n\n');
}

function resultText(result: SearchResult, number: number): string {
  const { authors = [], citations, content, doi, published_at, snippet, source, title, url, venue, year } = result;
  const lines = [`${number}. **${oneLine(title)}**`, url];
  const facts = [published_at?.slice(0, 10), source, venue, year, listed(authors)];
  if (doi !== undefined) facts.push(`DOI ${doi}`);
  if (citations !== undefined) facts.push(`${citations} citations`);
  lines.push(...factsLine(facts));
  if (result.open_access_url !== undefined) lines.push(`Open access: ${result.open_access_url}`);
  if (result.image_url !== undefined) lines.push(`Image: ${result.image_url}`);
  if (snippet !== '' && content === undefined) lines.push(oneLine(snippet));
  if (content !== undefined) {
    lines.push('', content.trim());
    if (result.content_truncated === true) lines.push('', '(Cut here. `fetch` this URL to read on.)');
  }
  if (result.content_error !== undefined) lines.push(`(The page could not be read: ${result.content_error})`);
  return lines.join('\n');
}

/** A line of what is known, or none. */
function factsLine(facts: readonly (string | number | undefined)[]): string[] {
  const known = facts.filter((fact) => fact !== undefined && fact !== '').map((fact) => oneLine(String(fact)));
  return known.length === 0 ? [] : [known.join(' · ')];
}

function listed(authors: readonly string[]): string {
  return authors.slice(0, MOST_AUTHORS).join(', ');
}

const MOST_AUTHORS = 5;

const CUT_INSIDE = { code: 'a code block', table: 'a table', element: 'an element' } as const;

/** The page with what it says of itself, and how to read on. */
export function pageText(page: PageAnswer, start: number): string {
  const { authors = [], images = [], links = [], next_start: next, published_at, word_count } = page;
  const facts = factsLine([published_at?.slice(0, 10), listed(authors), `${word_count} words`]);
  // Not trimmed at its beginning: a part may begin with the indentation of code.
  const lines = [`# ${oneLine(page.title)}`, page.url, ...facts, '', page.content.trimEnd()];
  const inside = page.cut_inside === undefined ? '' : ` This part ends inside of ${CUT_INSIDE[page.cut_inside]}.`;
  if (next !== undefined) lines.push('', `(There is more: call \`fetch\` again with \`start\`: ${next}.${inside})`);
  else if (page.truncated === true) lines.push('', '(The page goes on, but no more of it is read.)');
  else if (start > 0) lines.push('', '(End of the page.)');
  if (page.incomplete === true) lines.push('', '(Text may be missing: the browser did not finish this page in time.)');
  if (links.length > 0) lines.push('', 'Links:', ...links.map(({ text, url }) => `- [${oneLine(text)}](${url})`));
  if (images.length > 0) lines.push('', 'Images:', ...images.map(({ alt, url }) => `- ![${oneLine(alt)}](${url})`));
  return lines.join('\n');
}

/** Why a call failed, and what to do about it. */
export function errorText(code: string, detail: string, advice: string): string {
  return `Error${code === '' ? '' : ` ${code}`}: ${detail}${/[.!?]$/.test(detail) ? '' : '.'}${advice === '' ? '' : ` ${advice}`}`;
}

/** White space other than one space between two words: most texts have none, and replacing every space takes time. */
const LONG_SPACE = /[^\S ]\s*| \s+/g;

function oneLine(text: string): string {
  return text.replaceAll(LONG_SPACE, ' ').trim();
}
