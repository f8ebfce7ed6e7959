// What extraction keeps and drops, on small pages of every kind.
import t from 'tap';
import { clean } from '../../src/extract/index.ts';

const PROSE =
  'The river rose by four metres in one night, and the people of the valley moved their cattle to the hills. ';
const page = (body: string, head = ''): string => `<html><head>${head}</head><body>${body}</body></html>`;
const article = (extra = ''): string =>
  `<article><h1>The flood</h1><p>${PROSE.repeat(3)}</p><p>${PROSE.repeat(3)}</p>${extra}</article>`;
const contentOf = (html: string, url = 'https://news.example/a'): string => clean(html, { url }).content;

t.test('boilerplate around an article is dropped', async (t) => {
  const around = {
    navigation: '<nav><a href=/>MARK</a></nav>',
    'navigation by class': '<div class="main-menu"><a href=/>MARK</a> <a href=/b>b</a></div>',
    'a role': '<div role="navigation">MARK</div>',
    'a footer': '<footer><p>MARK</p></footer>',
    'a sidebar': '<div id="sidebar"><p>MARK is a word of a sentence that nobody came for.</p></div>',
    'a cookie banner':
      '<div class="cookie-consent"><p>MARK. We use cookies, as everybody does, to know you better.</p></div>',
    'share buttons': '<ul class="social-share"><li>MARK</li></ul>',
    'related pages': '<section class="related-posts"><h3>More</h3><p>MARK</p></section>',
    'related pages by heading':
      '<div><h3>You may also like</h3><p>MARK is a teaser for another article of ours.</p></div>',
    'related pages by heading in German': '<div><h3>Das könnte Sie auch interessieren</h3><p>MARK</p></div>',
    'related pages by heading in Japanese': '<div><h3>関連記事</h3><p>MARK</p></div>',
    comments: '<div id="comments"><p>MARK, I was there, and it was nothing like this.</p></div>',
    'an advertisement': '<div class="ad-slot">MARK</div>',
    'a newsletter': '<div class="newsletter-signup">MARK</div>',
    'hidden elements': '<p hidden>MARK</p><p style="display: none">MARK</p><p aria-hidden="true">MARK</p>',
    'a form': '<form><label>MARK</label><input></form>',
    'a list of links':
      '<ul><li><a href=/1>MARK one</a></li><li><a href=/2>two</a></li><li><a href=/3>three</a></li></ul>',
  };
  for (const [name, html] of Object.entries(around)) {
    const content = contentOf(page(`${html}${article()}${html}`));
    t.notMatch(content, 'MARK', name);
    t.match(content, PROSE.trim(), name);
  }
});

t.test('the parts of an article are kept', async (t) => {
  const within = {
    'a list': '<ul><li>MARK is the first thing that they saved.</li><li>The cattle came second.</li></ul>',
    'a table': '<table><tr><th>MARK</th><td>Level</td></tr><tr><td>Monday</td><td>4.1 m</td></tr></table>',
    code: '<pre><code>MARK = level(4);\nprint(MARK)</code></pre>',
    'a quote': '<blockquote>MARK has never seen such a flood in his life.</blockquote>',
    'a definition': '<dl><dt>MARK</dt><dd>The place where people cross the river on foot.</dd></dl>',
    'a heading': `<h2>MARK of the flood</h2><p>${PROSE}</p>`,
    'a link in a sentence': '<p>Whoever reads <a href=/x>MARK</a> will understand, and nobody else.</p>',
  };
  for (const [name, html] of Object.entries(within))
    t.match(contentOf(page(article(`${html}<p>${PROSE.repeat(2)}</p>`))), 'MARK', name);
});

t.test('an article in several sections is complete', async (t) => {
  const sections = Array.from(
    { length: 4 },
    (_, at) => `<div class="part"><p>Part ${at}. ${PROSE.repeat(2)}</p></div>`,
  );
  const content = contentOf(page(`<div id="wrap"><div class="nav"><a href=/>x</a></div>${sections.join('')}</div>`));
  for (const at of [0, 1, 2, 3]) t.match(content, `Part ${at}.`);
});

t.test('an element with most of the text is kept whatever its class', async (t) => {
  t.match(contentOf(page(`<div class="related-wrapper modal">${article()}</div>`)), PROSE.trim());
  t.match(contentOf(page(`<form id="aspnetForm">${article()}</form>`)), PROSE.trim());
});

t.test('replies are content in a discussion and boilerplate elsewhere', async (t) => {
  const replies = Array.from({ length: 3 }, (_, at) => `<div class="comment"><p>Reply ${at}: ${PROSE}</p></div>`).join(
    '',
  );
  const html = page(`<div class="post"><p>${PROSE}</p></div><div class="comments">${replies}</div>`);
  t.match(contentOf(html, 'https://forum.example/t/flood/17'), 'Reply 2');
  t.notMatch(
    contentOf(
      page(
        `${article()}<div class="comments"><h3>Comments</h3>${replies}</div>`,
        '<meta property="og:type" content="article">',
      ),
    ),
    'Reply 2',
  );
});

t.test('a page of links is kept as a list', async (t) => {
  const items = Array.from(
    { length: 20 },
    (_, at) => `<li><h3><a href="/${at}">Headline number ${at} of the day</a></h3></li>`,
  ).join('');
  t.match(
    contentOf(page(`<nav><a href=/>Home</a></nav><main><h1>News</h1><ul>${items}</ul></main>`)),
    'Headline number 19 of the day',
  );
});

t.test('words are never joined, and blocks are separated', async (t) => {
  const content = contentOf(
    page(`<article><h1>One</h1><p>two <b>three</b>four<br>five</p><div>six. ${PROSE}</div><div>seven. ${PROSE}</div>
    <table><tr><td>eight</td><td>nine</td></tr><tr><td>ten</td></tr></table><ul><li>eleven<li>twelve</ul>
    <p>${PROSE}</p></article>`),
  );
  t.equal(
    content,
    `two threefour\nfive\n\nsix. ${PROSE}\n\nseven. ${PROSE}\n\neight\tnine\nten\n\n- eleven\n- twelve\n\n${PROSE}`
      .replaceAll(' \n', '\n')
      .trim(),
  );
});

t.test('white space of code is kept', async (t) => {
  t.match(contentOf(page(article('<pre>if x:\n    y = 1\n\n    z</pre>'))), 'if x:\n    y = 1\n\n    z');
});

t.test('a page without text gives the text of its scripts', async (t) => {
  const body = PROSE.repeat(5).trim();
  const data = JSON.stringify({ '@graph': [{ '@type': ['NewsArticle'], headline: 'The flood', articleBody: body }] });
  const linked = `<script type="application/ld+json">${data}</script>`;
  t.match(clean(page('<div id="app"></div>', linked)), { content: body, title: 'The flood' });
  const state = JSON.stringify({ props: { pageProps: { post: { html: `<p>${PROSE}</p><p>${PROSE}</p>`, id: 'x' } } } });
  const next = `<div id="__next"></div><script id="__NEXT_DATA__" type="application/json">${state}</script>`;
  t.equal(contentOf(page(next)), `${PROSE.trim()}\n\n${PROSE.trim()}`);
  t.equal(contentOf(page(`<noscript><p>${body}</p></noscript>`)), body);
  t.match(contentOf(page(`<nav><p>${body}</p></nav>`)), body, 'the whole body is the last resort');
  t.match(contentOf(page(article(), linked)), 'moved their cattle', 'and the page itself comes first');
});

t.test('the article of linked data replaces its beginning, and no other text', async (t) => {
  const parts = Array.from(
    { length: 9 },
    (_, at) => `Part ${at} of the report says what happened at the mill on day ${at}, <i>and</i> why.`,
  );
  const linked = (body: string): string =>
    `<script type="application/ld+json">${JSON.stringify({ '@type': 'NewsArticle', articleBody: body })}</script>`;
  const shown = page(
    `<article><h1>At the mill</h1>${parts
      .slice(0, 4)
      .map((part) => `<p>${part}</p>`)
      .join('')}</article>`,
    linked(parts.join('\n\n')),
  );
  t.equal(contentOf(shown), parts.join('\n\n').replaceAll(/<\/?i>/g, ''));
  t.match(contentOf(page(article(), linked(parts.join('\n\n').repeat(9)))), 'moved their cattle');
});

t.test('every script is read', async (t) => {
  const texts = {
    Chinese: '河水一夜之间上涨了四米，山谷里的人们把牛群赶到了山上。第二天早上，水退了，桥也不见了。',
    Japanese: '川は一晩で四メートル上昇し、谷の人々は牛を丘へ移した。翌朝、水は引き、橋はなくなっていた。',
    Arabic: 'ارتفع النهر أربعة أمتار في ليلة واحدة، ونقل أهل الوادي ماشيتهم إلى التلال. وفي الصباح، اختفى الجسر.',
    Russian: 'Река за одну ночь поднялась на четыре метра, и жители долины увели скот на холмы. Утром моста не стало.',
    Hindi: 'नदी एक रात में चार मीटर बढ़ गई, और घाटी के लोग अपने मवेशियों को पहाड़ियों पर ले गए। सुबह पुल नहीं था।',
  };
  for (const [name, text] of Object.entries(texts)) {
    const { content, wordCount } = clean(
      page(`<nav><a href=/>MARK</a></nav><div><p>${text}</p><p>2. ${text}</p></div>`),
    );
    t.equal(content, `${text}\n\n2. ${text}`, name);
    t.ok(wordCount > 20, name);
  }
});

t.test('an empty page gives empty content', async (t) => {
  t.same(clean(''), { title: '', content: '', wordCount: 0 });
});

t.test('a cell beyond the widest row may have any number of paragraphs', async (t) => {
  const cells = '<td>a'.repeat(50);
  const html = `<table><tr><th>a<td>b<tr>${cells}<td>${'<p>x'.repeat(130_000)}</table>`;
  t.match(contentOf(page(html)), /x; x; x/);
});
