// Site adapter `reddit`: posts with their comments, from the old and the new markup and from `.json`.

import { decodeHTML } from 'entities';
import type { PageElement } from './element.ts';
import { at, listAt, textAt } from './json.ts';
import type { SiteAdapter, SiteContent, SitePage } from './site.ts';
import { byline, type Comment, comments, heading, link, paragraphs } from './thread.ts';

const MAX_COMMENTS = 2000;

export const reddit: SiteAdapter = {
  name: 'reddit',
  reads: 'posts with nested comments, old and new markup, also as `.json`',
  hosts: ['reddit.com', '.reddit.com'],
  paths: /^\/(?:r|u|user)\/[^/]+\/comments\/|^\/comments\//,
  read: (page) => newMarkup(page) ?? oldMarkup(page),
  readJson(value) {
    const data = at(value, 0, 'data', 'children', 0, 'data');
    const title = textAt(data, 'title');
    if (title === '') return null;
    const found: Comment[] = [];
    collect(at(value, 1), 0, found);
    return thread({
      title,
      address: at(data, 'is_self') === true ? '' : textAt(data, 'url'),
      author: textAt(data, 'author'),
      date: dateOf(at(data, 'created_utc')),
      score: textAt(data, 'score'),
      body: bodyOf(data, 'selftext'),
      found,
    });
  },
};

interface Thread {
  readonly title: string;
  /** Of the page that the post links to. */
  readonly address: string;
  readonly author: string;
  readonly date: string;
  readonly score: string;
  readonly body: string;
  readonly found: readonly Comment[];
}

function thread({ title, address, author, date, score, body, found }: Thread): SiteContent {
  const points = score === '' ? '' : `${score} points`;
  return {
    title,
    html: [
      heading(1, title),
      /^https?:/.test(address) ? `<p>${link(address, address)}</p>` : '',
      byline({ author, date, score: points }),
      `<div>${body}</div>`,
      comments(found),
    ].join(''),
  };
}

function newMarkup({ root }: SitePage): SiteContent | null {
  const post = root.first('shreddit-post');
  if (post === null) return null;
  const address = post.attribute('content-href');
  return thread({
    title: post.attribute('post-title') || (root.first('h1')?.line ?? ''),
    address: post.attribute('post-type') === 'link' ? address : '',
    author: post.attribute('author'),
    date: post.attribute('created-timestamp'),
    score: post.attribute('score'),
    body: post.first('[slot=text-body]')?.html('button, faceplate-tracker') ?? '',
    found: root.all('shreddit-comment').map((comment) => ({
      author: comment.attribute('author'),
      date: comment.attribute('created'),
      score: pointsOf(comment.attribute('score')),
      depth: Number(comment.attribute('depth')) || 0,
      body: ownPart(comment, 'shreddit-comment', '[slot=comment]')?.html() ?? '',
    })),
  });
}

function oldMarkup({ root }: SitePage): SiteContent | null {
  const post = root.first('#siteTable .link');
  const title = post?.first('a.title');
  if (post === null || title === null || title === undefined) return null;
  const found = root.all('.commentarea .comment').flatMap((comment) => {
    const entry = ownPart(comment, '.comment', '.entry');
    const body = entry?.first('.usertext-body')?.html() ?? '';
    if (entry === null || body === '') return [];
    return [
      {
        author: entry.first('.author')?.line ?? '',
        date: entry.first('time')?.attribute('datetime') ?? '',
        score: entry.first('.score.unvoted')?.line ?? '',
        depth: comment.countAround('.comment'),
        body,
      },
    ];
  });
  return thread({
    title: title.line,
    address: title.attribute('href'),
    author: post.attribute('data-author') || (post.first('.author')?.line ?? ''),
    date: post.first('time')?.attribute('datetime') ?? '',
    score: post.attribute('data-score'),
    body: post.first('.usertext-body')?.html() ?? '',
    found,
  });
}

/** The part of a comment, which is not that of an answer inside. */
function ownPart(comment: PageElement, selector: string, part: string): PageElement | null {
  const found = comment.first(part);
  return found?.countAround(selector) === comment.countAround(selector) + 1 ? found : null;
}

/** Adds the comments of a listing and their replies in order. */
function collect(listing: unknown, depth: number, found: Comment[]): void {
  for (const child of listAt(listing, 'data', 'children')) {
    const data = at(child, 'data');
    if (at(child, 'kind') !== 't1' || found.length >= MAX_COMMENTS || depth > 100) continue;
    found.push({
      author: textAt(data, 'author'),
      date: dateOf(at(data, 'created_utc')),
      score: pointsOf(textAt(data, 'score')),
      depth,
      body: bodyOf(data, 'body'),
    });
    collect(at(data, 'replies'), depth + 1, found);
  }
}

/** HTML of a text, which Reddit sends with its markup escaped, else its Markdown as text. */
function bodyOf(data: unknown, name: 'body' | 'selftext'): string {
  const html = textAt(data, `${name}_html`);
  return html === '' ? paragraphs(textAt(data, name)) : decodeHTML(html);
}

function pointsOf(score: string): string {
  return score === '' ? '' : `${score} points`;
}

function dateOf(seconds: unknown): string {
  const isTime = typeof seconds === 'number' && Math.abs(seconds) < 8.64e12;
  return isTime ? new Date(seconds * 1000).toISOString() : '';
}
