// Site adapter `github`: the README of a repository, files, issues, pull requests and discussions. GitHub serves some of them as
// HTML and some as data of a React application.

import { escapeText } from 'entities';
import { at, jsonIn, listAt, membersNamed, textAt } from './json.ts';
import type { SiteAdapter, SiteContent, SitePage } from './site.ts';
import { heading, paragraph, post } from './thread.ts';

const EMBEDDED: ReadonlySet<string> = new Set(['react-app.embeddedData', 'react-partial.embeddedData']);

export const github: SiteAdapter = {
  name: 'github',
  reads: 'README, files, issues, pull requests and discussions',
  hosts: ['github.com'],
  paths:
    /^\/(?!(?:topics|orgs|search|trending|marketplace|features|settings|sponsors|collections|about)\/)[\w.-]+\/[\w.-]+(?:\/(?:tree|blob|issues|pull|discussions)\/.*)?\/?$/,
  read(page) {
    if (/^\/[^/]+\/[^/]+\/(?:issues|pull|discussions)\/\d+/.test(page.url.pathname)) return issueData(page) ?? thread(page);
    return file(page) ?? readme(page);
  }, // oxfmt-ignore
};

/** Data of the React applications of the page. */
function dataOf({ head }: SitePage): unknown[] {
  const scripts = head.scripts.filter(({ target }) => EMBEDDED.has(target));
  return scripts.map((script) => jsonIn([script], () => true));
}

/** A file: rendered where GitHub renders it, else its lines as code. */
function file(page: SitePage): SiteContent | null {
  if (!page.url.pathname.includes('/blob/')) return null;
  for (const data of dataOf(page)) {
    const blob = at(data, 'payload', 'blob') ?? membersNamed(data, 'blob').find((each) => at(each, 'displayName') !== undefined);
    const name = textAt(blob, 'displayName') || (page.url.pathname.split('/').at(-1) ?? '');
    const rendered = textAt(blob, 'richText');
    const lines = listAt(blob, 'rawLines');
    if (rendered !== '') return { title: name, html: rendered };
    if (lines.length === 0) continue;
    const language = textAt(blob, 'language').toLowerCase();
    const code = lines.filter((line) => typeof line === 'string').join('\n');
    return {
      title: name,
      html: `${heading(1, name)}<pre><code class="language-${escapeText(language)}">${escapeText(code)}</code></pre>`,
    };
  } // oxfmt-ignore
  return null;
}

function readme(page: SitePage): SiteContent | null {
  const shown = page.root.first('article.markdown-body, #readme .markdown-body');
  const rendered =
    shown?.html('.anchor') ??
    dataOf(page)
      .flatMap((data) => membersNamed(data, 'richText'))
      .find((text) => typeof text === 'string' && text !== '');
  if (typeof rendered !== 'string' || rendered === '') return null;
  const [owner = '', repository = ''] = page.url.pathname.split('/').filter((part) => part !== '');
  const about = page.head.meta.find(([name]) => name === 'og:description')?.[1] ?? '';
  // The description that GitHub writes itself, for a repository without one.
  const own = about.includes('Contribute to') || about === '' ? '' : about.replace(` - ${owner}/${repository}`, '');
  return { title: `${owner}/${repository}`, html: paragraph(own) + rendered };
}

/** An issue whose page is a React application. */
function issueData(page: SitePage): SiteContent | null {
  const issue = dataOf(page)
    .flatMap((data) => [...membersNamed(data, 'issue'), ...membersNamed(data, 'issueOrPullRequest')])
    .find((each) => textAt(each, 'bodyHTML') !== '' || textAt(each, 'title') !== '');
  const title = textAt(issue, 'title');
  if (title === '') return null;
  const items = ['frontTimelineItems', 'backTimelineItems', 'timelineItems'].flatMap((name) =>
    listAt(issue, name, 'edges').map((edge) => at(edge, 'node')),
  );
  const comments = items.filter((item) => textAt(item, 'bodyHTML') !== '');
  const number = textAt(issue, 'number');
  return {
    title,
    html: [
      heading(1, `${title}${number === '' ? '' : ` #${number}`}`),
      paragraph(textAt(issue, 'state').toLowerCase()),
      ...[issue, ...comments].map((each) =>
        post({
          author: textAt(each, 'author', 'login'),
          date: textAt(each, 'createdAt'),
          body: textAt(each, 'bodyHTML'),
        }),
      ),
    ].join(''),
  };
}

/** A thread whose page is HTML. */
function thread({ root }: SitePage): SiteContent | null {
  const title = (root.first('.js-issue-title') ?? root.first('[data-testid=issue-title], .gh-header-title'))?.line ?? '';
  const bodies = root.all('.js-comment-body, .comment-body, [data-testid=markdown-body]');
  const containers = root.all('.js-comment-container, .timeline-comment, .react-issue-comment, .js-comment');
  const posts = containers.filter((each) => each.countAround('.timeline-comment') === 0 && each.countAround('.js-comment-container') === 0);
  if (title === '' || bodies.length === 0) return null;
  const written = posts.map((each) => {
    const body = each.first('.js-comment-body, .comment-body, [data-testid=markdown-body]')?.html() ?? '';
    const author = each.first('a.author, [data-testid=avatar-link]')?.line ?? '';
    return body === '' ? '' : post({ author, date: each.first('relative-time')?.attribute('datetime') ?? '', body });
  });
  const state = root.first('.State')?.line ?? '';
  const text = written.join('') || bodies.map((body) => post({ body: body.html() })).join('');
  return { title, html: heading(1, title) + paragraph(state) + text };
} // oxfmt-ignore
