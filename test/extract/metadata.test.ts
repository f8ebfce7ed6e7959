// Titles, metadata and links of a page.
import t from 'tap';
import { clean } from '../../src/extract/index.ts';
import { kindOf } from '../../src/extract/metadata.ts';
import { parse } from '../../src/extract/parse.ts';

const URL_OF_PAGE = 'https://news.example/2026/flood';
const titleOf = (head: string, body = ''): string =>
  clean(`<head>${head}</head><body>${body}<p>Text.</p>`, { url: URL_OF_PAGE }).title;

t.test('a title has no site name', async (t) => {
  const cases = [
    [
      '<title>The flood of the century | News</title><meta property="og:site_name" content="News">',
      '',
      'The flood of the century',
    ],
    ['<title>News: a view - The Daily</title><meta property="og:site_name" content="The Daily">', '', 'News: a view'],
    ['<title>The Daily » The flood</title><meta property="og:site_name" content="the daily">', '', 'The flood'],
    ['<title>The flood - Valley - News</title>', '<h1>The flood</h1>', 'The flood'],
    ['<title>The flood of the whole century – News</title>', '', 'The flood of the whole century'],
    ['<title>Salt - Pepper</title>', '<h1>Salt - Pepper</h1>', 'Salt - Pepper'],
    ['<title>Floods and how they rise | News</title>', '<h1>How a flood rises</h1>', 'How a flood rises'],
    ['<title>The flood | News</title>', '<h1>News</h1><h1>The flood ¶</h1>', 'The flood'],
    ['<title>Subscribe | News</title>', '<h1>The flood</h1><h1>Subscribe</h1>', 'The flood'],
    [
      '<title>The flood: a view | News</title><meta property="og:title" content="The flood: a view">',
      '',
      'The flood: a view',
    ],
    [
      '<meta property="og:title" content="Rain &amp;#8211; News">',
      '<h1>Rain <i>and</i><br>sun<sup>s</sup></h1>',
      'Rain and suns',
    ],
    ['<title>A well-known flood</title>', '', 'A well-known flood'],
    ['<title>News</title><meta property="og:title" content="The flood">', '', 'The flood'],
    ['<meta name="twitter:title" content="The &quot;flood&quot;">', '', 'The "flood"'],
    ['', '<h1>The <b>flood</b></h1>', 'The flood'],
    ['', '<h1>The flood <button>Copy link</button></h1>', 'The flood'],
    ['', '<h1><button>The flood</button></h1>', 'The flood'],
    ['<title>Floods in C# | News</title>', '<h1>Floods in C#</h1>', 'Floods in C#'],
    ['<title>Floods in F#</title>', '<h1>Floods in F#<a href="#f">#</a></h1>', 'Floods in F#'],
    ['<title>The flood – News</title>', '<h1>The flood<a href="#flood">#</a></h1>', 'The flood'],
    [
      '<meta property="og:site_name" content="News"><meta property="og:title" content="News"><title>The flood</title>',
      '',
      'The flood',
    ],
  ] as const;
  for (const [head, body, title] of cases) t.equal(titleOf(head, body), title, head + body);
});

t.test('what follows a colon in the title of a page is its title where Open Graph states the same', async (t) => {
  const titled = (shared: string): string => {
    const html = `<title>Valley: Manual: 18: Sluice 3. Gates</title>${shared}<p>Text.</p>`;
    return clean(html, { url: 'https://valley.example/manual/18/gates.html' }).title;
  };
  t.equal(titled('<meta property="og:title" content="Sluice 3. Gates">'), 'Sluice 3. Gates');
  t.equal(titled(''), 'Valley: Manual: 18: Sluice 3. Gates');
});

t.test('a title has up to 300 characters, else it is the first line or the last part of the address', async (t) => {
  const long = 'flood '.repeat(50).trim();
  t.equal(titleOf(`<title>${long}</title>`), long);
  t.equal(titleOf(`<title>${long} again</title>`), 'Text.');
  t.equal(clean(`<p>${long} again</p>`, { url: URL_OF_PAGE }).title, 'flood');
});

t.test('questions with answers and posts of a blog are no discussion', async (t) => {
  const linked = (data: object): string => `<script type="application/ld+json">${JSON.stringify(data)}</script>`;
  const questions = linked({ '@type': 'FAQPage', mainEntity: [{ '@type': 'Question', name: 'Why?' }] });
  const article = '<meta property="og:type" content="article">';
  const cases = [
    [article + questions, 'https://news.example/flood', 'article'],
    [questions, 'https://shop.example/boots', 'other'],
    [article, 'https://blog.example/post/flood', 'article'],
    ['', 'https://blog.example/topics/floods', 'other'],
    [linked({ '@type': 'QAPage' }), 'https://help.example/why', 'discussion'],
    ['', 'https://people.example/post/17', 'discussion'],
    [article, 'https://people.example/threads/flood.17/', 'discussion'],
  ] as const;
  for (const [head, url, kind] of cases) t.equal(kindOf(parse(`<head>${head}</head>`).head, url), kind, url);
});

t.test('metadata and links are included on request', async (t) => {
  const data = {
    '@type': 'NewsArticle',
    headline: 'Flood',
    description: 'What &quot;happened&quot;',
    author: [{ name: 'A&#039;B' }, { name: 'B' }],
    datePublished: '2026-01-02T03:04:05Z',
    image: ['/i.png?a=1&amp;b=2'],
    publisher: { name: 'News &amp; Co' },
  };
  const html = `<html lang="en-GB"><head><base href="/base/"><link rel="canonical" href="/flood">
    <meta property="article:modified_time" content="yesterday"><script type="application/ld+json">${JSON.stringify(data)}</script></head>
    <body><article><p>Some text with <a href="one#x">one</a>, <a href="one#x">one again</a>, <a href="javascript:x()">two</a>,
    <a href="mailto:a@b">three</a>, <a href="//other.example/">four</a> and <a href="/five"><img></a> in it.</p></article>`;
  const plain = clean(html, { url: URL_OF_PAGE });
  t.same(Object.keys(plain).sort(), ['content', 'title', 'wordCount']);
  const { authors, metadata, links } = clean(html, { url: URL_OF_PAGE, include: ['links', 'metadata'] });
  t.same(authors, ["A'B", 'B']);
  t.same(metadata, {
    description: 'What "happened"',
    author: "A'B, B",
    site_name: 'News & Co',
    published: '2026-01-02T03:04:05Z',
    language: 'en-GB',
    image: 'https://news.example/i.png?a=1&b=2',
    canonical: 'https://news.example/flood',
  });
  t.same(links, [
    { text: 'one', url: 'https://news.example/base/one#x' },
    { text: 'four', url: 'https://other.example/' },
  ]);
});

t.test('a date that there is not is none', async (t) => {
  for (const [date, published] of [
    ['0000-00-00 00:00:00', '2026-01-02'],
    ['2026-13-01', '2026-01-02'],
    ['2026-02-03', '2026-02-03'],
  ] as const) {
    const data = JSON.stringify({ '@type': 'Article', headline: 'x', datePublished: '2026-01-02' });
    const html = `<meta property="article:published_time" content="${date}"><script type="application/ld+json">${data}</script>`;
    t.equal(clean(html, { include: ['metadata'] }).metadata?.published, published, date);
  }
});

t.test('links are bounded in number', async (t) => {
  const html = `<p>${Array.from({ length: 3000 }, (_, at) => `Some words before <a href="/${at}">link</a> and after.`).join(' ')}</p>`;
  t.equal(clean(html, { url: URL_OF_PAGE, include: ['links'] }).links?.length, 1000);
});
