// Site adapter `arxiv`: the abstract page of a paper with authors, subjects and links to its text.

import type { SiteAdapter } from './site.ts';
import { facts, heading, link, paragraph } from './thread.ts';

export const arxiv: SiteAdapter = {
  name: 'arxiv',
  reads: 'abstract pages: authors, abstract, subjects, links to the text',
  hosts: ['arxiv.org', '.arxiv.org'],
  paths: /^\/abs\//,
  read({ url, root }) {
    const without = '.descriptor';
    const title = root.first('h1.title');
    const abstract = root.first('blockquote.abstract');
    if (title === null || abstract === null) return null;
    const name = title.line.replace(/^Title:\s*/, '');
    const id = url.pathname.slice('/abs/'.length);
    const cell = (selector: string): string => root.first(selector)?.html(without) ?? '';
    return {
      title: name,
      html: [
        heading(1, name),
        paragraph(root.all('.authors a').map((author) => author.line).join(', ')),
        paragraph(root.first('.dateline')?.line ?? ''),
        `<p>${abstract.html(without)}</p>`,
        facts([
          ['Comments', cell('td.comments')],
          ['Subjects', cell('td.subjects')],
          ['Journal reference', cell('td.jref')],
          ['DOI', cell('td.doi')],
          ['PDF', link(`https://arxiv.org/pdf/${id}`, `https://arxiv.org/pdf/${id}`)],
          ['HTML', root.first('#latexml-download-link') === null ? '' : link(`https://arxiv.org/html/${id}`, `https://arxiv.org/html/${id}`)],
        ]),
      ].join(''),
    }; // oxfmt-ignore
  },
};
