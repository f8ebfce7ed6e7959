// What models read of a search and of a page.

import t from 'tap';
import type { PageAnswer } from '../../src/fetch/index.ts';
import { pageText, searchText } from '../../src/mcp/text.ts';
import type { SearchAnswer, SearchResult } from '../../src/search/index.ts';

const PAGE: PageAnswer = { url: 'https://example.com/', title: 'A\nweir', content: 'Text.\n', word_count: 1 };

const META: SearchAnswer['meta'] = { duration_ms: 1, engines_used: [], engines_failed: [], engine_errors: [] };

t.test('a page is its title, its address, what is known of it, and its text', async (t) => {
  t.equal(pageText(PAGE, 0), '# A weir\nhttps://example.com/\n1 words\n\nText.');
  const authors = ['A', 'B', 'C', 'D', 'E', 'F'];
  const known = pageText({ ...PAGE, published_at: '2026-02-03T04:05:06Z', authors }, 0);
  t.match(known, '2026-02-03 · A, B, C, D, E · 1 words');
});

t.test('any white space of a title is one space', async (t) => {
  const title = ' A\t\tweir \n of\u00a0stone  and \u3000wood\r\n';
  t.match(pageText({ ...PAGE, title }, 0), /^# A weir of stone and wood\n/);
});

t.test('a page says how to read on, or that it cannot be', async (t) => {
  t.match(pageText({ ...PAGE, truncated: true, next_start: 20 }, 0), /call `fetch` again with `start`: 20\.\)$/);
  const cut = { ...PAGE, content: '  if (x)', truncated: true, next_start: 20, cut_inside: 'code' } as const;
  t.match(pageText(cut, 0), /\n\n {2}if \(x\)\n\n.* This part ends inside of a code block\.\)$/);
  t.match(pageText({ ...PAGE, truncated: true }, 0), /no more of it is read\.\)$/);
  t.match(pageText(PAGE, 20), /\(End of the page\.\)$/);
  t.match(pageText({ ...PAGE, incomplete: true }, 0), /\(Text may be missing: .*\)$/);
});

t.test('links and images that were asked for are lists', async (t) => {
  const links = [{ text: 'a\nlink', url: 'https://example.com/a' }];
  const images = [{ alt: 'a dam', url: 'https://example.com/b.png' }];
  t.match(
    pageText({ ...PAGE, links, images }, 0),
    /\n\nLinks:\n- \[a link\]\(https:\/\/example\.com\/a\)\n\nImages:\n- !\[a dam\]\(https:\/\/example\.com\/b\.png\)$/,
  );
});

t.test('a result is what tells whether to read it', async (t) => {
  const paper: SearchResult = {
    ...{ title: 'Weirs', url: 'https://example.com/p', snippet: 'About\nweirs', engine: 'a', rank: 1, found_in: ['a'] },
    ...{ search_type: 'academic' as const, authors: ['A'], year: 2024, venue: 'J', citations: 0, doi: '10.1/x' },
    open_access_url: 'https://example.com/p.pdf',
  };
  t.equal(
    searchText({ results: [paper], meta: META }, 1),
    '1. **Weirs**\nhttps://example.com/p\nJ · 2024 · A · DOI 10.1/x · 0 citations\nOpen access: https://example.com/p.pdf\nAbout weirs',
  );
  const text = searchText({ results: [{ ...paper, content: 'Text.', content_truncated: true }], meta: META }, 1);
  t.match(text, /\n\nText\.\n\n\(Cut here\./);
  t.notMatch(text, 'About weirs', 'the text says more than the snippet');
  t.match(searchText({ results: [], meta: META }, 2), 'No more results.');
});
