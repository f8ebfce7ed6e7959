// Renders discussions of all sites alike: posts with author, date and score, answers, and nested comments.

import { escapeAttribute, escapeText } from 'entities';

/** Deeper comments are written at this depth. */
const MAX_DEPTH = 10;

/** A post, an answer or a comment. All texts are plain but `body`, which is HTML. */
export interface Post {
  readonly author?: string;
  /** As the site writes it; ISO 8601 where it has that. */
  readonly date?: string;
  /** Votes, or what the site counts, such as `12 points`. */
  readonly score?: string;
  /** Such as `accepted`. */
  readonly mark?: string;
  /** Stands for itself rather than in a conversation: plain text leaves its author out. */
  readonly isAnswer?: boolean;
  readonly body: string;
  readonly comments?: readonly Comment[];
}

/** A comment with its depth, from 0, in the order of the page. */
export interface Comment extends Post {
  readonly depth?: number;
}

export function heading(level: 1 | 2 | 3, text: string): string {
  return text === '' ? '' : `<h${level}>${escapeText(text)}</h${level}>`;
}

export function paragraph(text: string): string {
  return text === '' ? '' : `<p>${escapeText(text)}</p>`;
}

/** Plain text with its line ends and blank lines. */
export function paragraphs(text: string): string {
  return text
    .split(/\n\s*\n/)
    .filter((part) => part.trim() !== '')
    .map((part) => `<p>${part.trim().split('\n').map(escapeText).join('<br>')}</p>`)
    .join('');
}

export function link(url: string, text: string): string {
  return url === '' ? escapeText(text) : `<a href="${escapeAttribute(url)}">${escapeText(text)}</a>`;
}

/** Label and content of each fact that is known; contents are HTML. */
export function facts(entries: readonly (readonly [string, string])[]): string {
  const known = entries.filter(([, html]) => html !== '');
  return known.length === 0 ? '' : `<ul>${known.map(([label, html]) => `<li>${label}: ${html}</li>`).join('')}</ul>`;
}

/** Marks what plain text leaves out: who wrote when, votes, and remarks beside the posts. */
export const DETAIL = 'data-detail';

/** Author, date, score and mark in one paragraph. Plain text has the mark, and the author of a post in a conversation. */
export function byline({
  author = '',
  date = '',
  score = '',
  mark = '',
  isAnswer = false,
}: Omit<Post, 'body'>): string {
  const name = author === '' ? '' : `<b>${escapeText(author)}</b>`;
  const parts = [
    { html: name, isDetail: isAnswer },
    { html: escapeText(dayOf(date)), isDetail: true },
    { html: escapeText(score), isDetail: true },
    { html: escapeText(mark), isDetail: false },
  ].filter(({ html }) => html !== '');
  const written = parts.map(({ html, isDetail }, index) => {
    const before = index === 0 ? '' : isDetail ? ' · ' : `<span ${DETAIL}> · </span>`;
    return isDetail ? `<span ${DETAIL}>${before}${html}</span>` : `${before} ${html}`;
  });
  return parts.length === 0 ? '' : `<p>${written.join('')}</p>`;
}

/** HTML that plain text leaves out. */
export function detail(html: string): string {
  return html === '' ? '' : `<div ${DETAIL}>${html}</div>`;
}

/** The day of an ISO 8601 time, which is what a reader needs; other texts stay. */
function dayOf(date: string): string {
  return /^\d{4}-\d\d-\d\d(?=[T ])/.exec(date)?.[0] ?? date;
}

export function post(given: Post): string {
  return `${byline(given)}<div>${given.body}</div>${comments(given.comments ?? [])}`;
}

/** Comments as lists, nested by their depth. A comment is at most one level deeper than the one before it. */
export function comments(given: readonly Comment[]): string {
  const parts: string[] = [];
  let open = 0;
  for (const { depth = 0, ...rest } of given) {
    const level = Math.min(Math.max(depth, 0), MAX_DEPTH - 1) + 1;
    if (level > open) {
      open++;
      parts.push('<ul><li>');
    } else {
      for (; open > level; open--) parts.push('</li></ul>');
      parts.push('</li><li>');
    }
    parts.push(post(rest));
  }
  return parts.join('') + '</li></ul>'.repeat(open);
}
