// Results of tools as models read them best: short Markdown, with what is needed to go on, instead of JSON.

import type { PageAnswer } from '../fetch/index.ts';
import type { SearchAnswer, SearchResult } from '../search/index.ts';

/** Fields that answers may have beyond those of this process' version of the types: all are optional. */
type Known<Answer> = Answer & Readonly<Record<string, unknown>>;

const NOTHING_FOUND =
  'Nothing found. Try fewer or other words, or leave out filters such as `time_range`, `language` or `include_domains`.';

/** A numbered list of results. `page`: the one that was asked for. */
export function searchText({ meta, results }: SearchAnswer, page: number): string {
  const parts = results.map((result, at) => resultText(result as Known<SearchResult>, at + 1));
  const failed = meta.engine_errors.map(({ engine, reason }) => `${engine}: ${reason}`).join('; ');
  if (results.length === 0) parts.push(page > 1 ? 'No more results.' : NOTHING_FOUND);
  if (failed !== '') parts.push(`Some engines gave nothing (${failed}); the results may be incomplete.`);
  return parts.join('\n\n');
}

function resultText(result: Known<SearchResult>, number: number): string {
  const { content, title, url, snippet, published_at: published } = result;
  const lines = [`${number}. **${oneLine(title)}**`, url];
  const facts = [
    ...(published === undefined ? [] : [published.slice(0, 10)]),
    ...['source', 'venue', 'year'].flatMap((name) => (isShown(result[name]) ? [oneLine(String(result[name]))] : [])),
    ...(Array.isArray(result['authors']) ? [oneLine(result['authors'].slice(0, 5).join(', '))] : []),
    ...(isShown(result['doi']) ? [`DOI ${result['doi']}`] : []),
    ...(isShown(result['citations']) ? [`${result['citations']} citations`] : []),
  ];
  if (facts.length > 0) lines.push(facts.join(' · '));
  for (const [name, label] of LINKS) if (isShown(result[name])) lines.push(`${label}: ${result[name]}`);
  if (snippet !== '' && content === undefined) lines.push(oneLine(snippet));
  if (content !== undefined) {
    lines.push('', content.trim());
    if (result.content_truncated === true) lines.push('', '(Cut here. `fetch` this URL to read on.)');
  }
  if (result.content_error !== undefined) lines.push(`(The page could not be read: ${result.content_error})`);
  return lines.join('\n');
}

const LINKS = [
  ['open_access_url', 'Open access'],
  ['image_url', 'Image'],
] as const;

function isShown(value: unknown): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}

/** The page with what it says of itself, and how to read on. */
export function pageText(answer: PageAnswer, start: number): string {
  const page = answer as Known<PageAnswer>;
  const facts = [
    ...(isShown(page['published_at']) ? [String(page['published_at']).slice(0, 10)] : []),
    ...(Array.isArray(page['authors']) ? [oneLine(page['authors'].slice(0, 5).join(', '))] : []),
    `${page.word_count} words`,
  ];
  const lines = [`# ${oneLine(page.title)}`, page.url, facts.join(' · '), '', page.content.trim()];
  const next = page['next_start'];
  if (typeof next === 'number') lines.push('', `(There is more: call \`fetch\` again with \`start\`: ${next}.)`);
  else if (page.incomplete === true)
    lines.push('', '(Text may be missing: the browser did not finish this page in time.)');
  else if (page.truncated === true) lines.push('', '(The page goes on, but no more of it is read.)');
  else if (start > 0) lines.push('', '(End of the page.)');
  const { links } = page;
  if (links !== undefined && links.length > 0) {
    lines.push('', 'Links:', ...links.map(({ text, url }) => `- [${oneLine(text)}](${url})`));
  }
  return lines.join('\n');
}

/** Why a call failed, and what to do about it. */
export function errorText(code: string, detail: string, advice: string): string {
  return `Error${code === '' ? '' : ` ${code}`}: ${detail}${/[.!?]$/.test(detail) ? '' : '.'}${advice === '' ? '' : ` ${advice}`}`;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}
