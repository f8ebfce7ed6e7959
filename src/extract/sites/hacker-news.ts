// Site adapter `hacker-news`: items with their nested comments.

import type { SiteAdapter } from './site.ts';
import { byline, comments, heading, link } from './thread.ts';

export const hackerNews: SiteAdapter = {
  name: 'hacker-news',
  reads: 'items with nested comments',
  hosts: ['news.ycombinator.com'],
  paths: /^\/item$/,
  read({ root }) {
    const story = root.first('.titleline a');
    const rows = root.all('.comtr');
    const text = root.first('.toptext');
    if (story === null && rows.length === 0 && text === null) return null;
    const title = story?.line ?? root.first('.onstory a')?.line ?? '';
    const thread = rows.map((row) => ({
      author: row.first('.hnuser')?.line ?? '',
      date: dateOf(row.first('.age')?.attribute('title') ?? ''),
      depth: Number(row.first('.ind')?.attribute('indent') ?? 0) || 0,
      body: row.first('.commtext')?.html('.reply') ?? row.first('.comment')?.html('.reply') ?? '',
    }));
    const top = {
      author: root.first('.fatitem .hnuser')?.line ?? '',
      date: dateOf(root.first('.fatitem .age')?.attribute('title') ?? ''),
      score: root.first('.fatitem .score')?.line ?? '',
    };
    const address = story?.attribute('href') ?? '';
    return {
      title,
      html: [
        heading(1, title),
        /^https?:/.test(address) ? `<p>${link(address, address)}</p>` : '',
        byline(top),
        text === null ? '' : `<div>${text.html()}</div>`,
        comments(thread),
      ].join(''),
    };
  },
};

/** `2026-01-02T03:04:05 1767323045`: the time in ISO 8601, and in seconds. */
function dateOf(title: string): string {
  return title.split(' ', 1)[0] ?? '';
}
