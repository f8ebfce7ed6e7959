// Every folding rule of canonical-url.ts both ways: what it folds, and what it must keep apart.
import t, { type Test } from 'tap';
import { canonicalUrl, pageKey } from '../../src/search/canonical-url.ts';

/** All of `urls` are one page. */
function same(t: Test, ...urls: readonly string[]): void {
  const [first = '', ...others] = urls;
  for (const url of others) t.equal(pageKey(url), pageKey(first), `${url} is ${first}`);
}

/** No two of `urls` are one page. */
function apart(t: Test, ...urls: readonly string[]): void {
  t.equal(new Set(urls.map(pageKey)).size, urls.length, urls.join('  ≠  '));
}

const base64 = (text: string): string => Buffer.from(text).toString('base64url');

t.test('normalises scheme, default ports and the closing dot of the host', async (t) => {
  const page = 'https://example.com/a';
  same(
    t,
    page,
    'http://example.com/a',
    'HTTPS://EXAMPLE.com/a',
    'https://example.com:443/a',
    'http://example.com:80/a',
  );
  same(t, page, 'http://example.com:443/a', 'https://example.com./a', '  https://example.com/a\n');
  apart(t, page, 'https://example.com:8443/a', 'https://example.org/a', 'https://user:pw@example.com/a');
  apart(t, page, 'ftp://example.com/a');
});

t.test('normalises hosts of variants of a site', async (t) => {
  same(t, 'https://example.com/a', 'https://www.example.com/a', 'https://m.example.com/a');
  same(t, 'https://example.com/a', 'https://mobile.example.com/a', 'https://amp.example.com/a');
  same(t, 'https://example.com/a', 'https://www.m.example.com/a');
  same(t, 'https://en.wikipedia.org/wiki/A', 'https://en.m.wikipedia.org/wiki/A');
  apart(t, 'https://amp.dev/', 'https://m.dev/', 'https://mobile.dev/', 'https://www.dev/', 'https://dev/');
  apart(t, 'https://example.com/', 'https://en.example.com/', 'https://www2.example.com/', 'https://wwwexample.com/');
  apart(t, 'https://en.wikipedia.org/wiki/A', 'https://de.m.wikipedia.org/wiki/A', 'https://en.m.example.org/wiki/A');
});

t.test('removes closing slashes and index files, and keeps the case of a path', async (t) => {
  same(t, 'https://example.com', 'https://example.com/', 'https://example.com/index.html', 'https://example.com//');
  same(t, 'https://example.com/a', 'https://example.com/a/', 'https://example.com/a/index.php');
  same(t, 'https://example.com/a?x=1', 'https://example.com/a/?x=1', 'https://example.com/a/index.htm?x=1');
  apart(t, 'https://example.com/a', 'https://example.com/A', 'https://example.com/a.html', 'https://example.com/a/b');
  apart(t, 'https://example.com/', 'https://example.com/myindex.html', 'https://example.com/index.html/a');
  apart(t, 'https://example.com/a/b', 'https://example.com/a//b');
});

t.test('decodes escapes of characters that need none', async (t) => {
  same(t, 'https://example.com/~a-b', 'https://example.com/%7Ea%2Db', 'https://example.com/%7ea%2db');
  same(t, 'https://example.com/a%2Fb', 'https://example.com/a%2fb');
  same(t, 'https://example.com/caf%C3%A9', 'https://example.com/caf%c3%a9', 'https://example.com/café');
  same(t, 'https://example.com/wiki/Paris,_(Texas)', 'https://example.com/wiki/Paris%2C_%28Texas%29');
  same(t, 'https://example.com/?q=%7e', 'https://example.com/?%71=~');
  same(t, 'https://example.com/100%', 'https://example.com/100%25');
  apart(t, 'https://example.com/a%2Fb', 'https://example.com/a/b', 'https://example.com/a%252Fb');
  apart(
    t,
    'https://example.com/a%3Bb',
    'https://example.com/a;b',
    'https://example.com/a%3Fb',
    'https://example.com/a?b',
  );
  apart(t, 'https://example.com/%FF', 'https://example.com/%FE', 'https://example.com/%EF%BF%BD');
  apart(t, 'https://example.com/%%34%31', 'https://example.com/A', 'https://example.com/%41%41');
  apart(t, 'https://example.com/caf%C3%A9', 'https://example.com/cafe%CC%81');
});

t.test('removes tracking parameters and keeps the others', async (t) => {
  const page = 'https://example.com/a?id=7';
  const tracking = ['utm_source=x', 'UTM_Campaign=x', 'utm%5Fterm=x', 'gclid=1', 'fbclid=1', 'msclkid=1', 'mc_eid=1'];
  tracking.push(
    '_ga=1',
    'srsltid=1',
    'yclid=1',
    'mtm_kwd=x',
    '_hsenc=1',
    '__hstc=1',
    'ref_src=twsrc%5Etfw',
    'mkt_tok=1',
  );
  for (const parameter of tracking) same(t, page, `${page}&${parameter}`, `https://example.com/a?${parameter}&id=7`);
  same(t, 'https://example.com/a', 'https://example.com/a?', 'https://example.com/a?&', 'https://example.com/a?utm_id');
  const meaningful = ['id=8', 'p=8', 'v=8', 'page=8', 'q=8', 'ref=8', 'source=8', 'lang=8', 'tag=8', 'si=8', 'utm=8'];
  meaningful.push('gclid2=8', 'xutm_source=8', 'story_fbid=8', 'from=8', 'token=8', 'sid=8');
  apart(t, 'https://example.com/a', ...meaningful.map((parameter) => `https://example.com/a?${parameter}`));
  apart(t, 'https://example.com/a?v=a', 'https://example.com/a?v=A', 'https://example.com/a?V=a');
});

t.test('sorts parameters, and keeps the order of a repeated one', async (t) => {
  same(t, 'https://example.com/?a=1&b=2&c=3', 'https://example.com/?c=3&a=1&b=2', 'https://example.com/?b=2&&c=3&a=1');
  same(t, 'https://example.com/?q=a+b', 'https://example.com/?q=a%20b');
  apart(t, 'https://example.com/?a=1&a=2', 'https://example.com/?a=2&a=1', 'https://example.com/?a=1');
  apart(t, 'https://example.com/?q=c++', 'https://example.com/?q=c%2B%2B', 'https://example.com/?q=c');
  apart(t, 'https://example.com/?a=1%26b=2', 'https://example.com/?a=1&b=2');
});

t.test('removes fragments that are not routes', async (t) => {
  same(t, 'https://example.com/a', 'https://example.com/a#part', 'https://example.com/a#', 'https://example.com/a#/');
  same(t, 'https://example.com/a', 'https://example.com/a#:~:text=found', 'https://example.com/a#part:~:text=found');
  same(t, 'https://example.com/a', 'https://example.com/a#!', 'https://example.com/a#!/');
  same(t, 'https://example.com/#/a', 'https://example.com/#/a:~:text=found', 'http://www.example.com#/a');
  same(t, 'https://example.com/#!a', 'https://example.com/#!a:~:text=found');
  apart(t, 'https://example.com/', 'https://example.com/#/a', 'https://example.com/#/b', 'https://example.com/#!a');
});

t.test('removes session ids', async (t) => {
  same(t, 'https://example.com/a', 'https://example.com/a;jsessionid=0F', 'https://example.com/a;JSESSIONID=0F');
  same(
    t,
    'https://example.com/a?b=1',
    'https://example.com/a;jsessionid=0F?b=1',
    'https://example.com/a?b=1&PHPSESSID=9',
  );
  same(
    t,
    'https://example.com/a/b',
    'https://example.com/a;jsessionid=0F/b',
    'https://example.com/a;jsessionid=0/c/../b',
  );
  same(t, 'https://example.com/a;x=1', 'https://example.com/a;jsessionid=0F;x=1');
  apart(t, 'https://example.com/a', 'https://example.com/a;x=1', 'https://example.com/ajsessionid=0F');
});

t.test('gives AMP pages the key of the page', async (t) => {
  const page = 'https://example.com/story';
  same(
    t,
    page,
    `${page}/amp`,
    `${page}/amp/`,
    `${page}?amp=1`,
    `${page}?amp`,
    `${page}?outputType=amp`,
    `${page}?amp=true`,
  );
  same(
    t,
    page,
    'https://example-com.cdn.ampproject.org/c/s/example.com/story',
    `${page}/amp?usqp=mq331AQ&amp_js_v=0.1`,
  );
  same(
    t,
    page,
    'https://cdn.ampproject.org/v/s/example.com/story/amp/?amp_js_v=0.1',
    'https://cdn.ampproject.org/c/example.com/story',
  );
  same(t, page, 'https://www.google.com/amp/s/www.example.com/story', 'https://google.de/amp/example.com/story/amp');
  apart(t, page, `${page}?amp=16`, `${page}?output=amp`, `${page}/amplifier`, 'https://example.com/amp/story');
  apart(t, 'https://example.com/', 'https://example.com/amp', 'https://example.com/lamp');
  apart(t, 'https://cdn.ampproject.org/v0.js', 'https://cdn.ampproject.org/', 'https://google.com/amp');
  same(t, `${page}?id=1`, 'https://cdn.ampproject.org/c/s/example.com/story?id=1');
});

t.test('gives the forms of an address at some sites one key', async (t) => {
  const video = 'https://www.youtube.com/watch?v=dQw4w9WgXcQ';
  same(
    t,
    video,
    ...['https://youtu.be/dQw4w9WgXcQ?t=42', 'https://m.youtube.com/watch?list=PL1&v=dQw4w9WgXcQ&index=2'],
    ...['https://www.youtube.com/shorts/dQw4w9WgXcQ', 'https://www.youtube-nocookie.com/embed/dQw4w9WgXcQ'],
    'https://www.google.com/url?q=https%3A%2F%2Fyoutu.be%2FdQw4w9WgXcQ',
  );
  apart(
    t,
    video,
    ...['https://www.youtube.com/watch?v=dqw4w9wgxcq', 'https://www.youtube.com/watch?v=short', 'https://youtu.be/'],
    ...['https://www.youtube.com/embed/videoseries?list=PL1', 'https://www.youtube.com/@dQw4w9WgXcQ'],
    ...['https://youtu.be:8080/dQw4w9WgXcQ', 'https://music.youtube.com/watch?v=dQw4w9WgXcQ'],
  );
  same(
    t,
    'https://www.reddit.com/r/a/comments/1b',
    'https://old.reddit.com/r/a/comments/1b/',
    'https://np.reddit.com/r/a/comments/1b',
  );
  apart(
    t,
    'https://www.reddit.com/r/a',
    'https://www.reddit.com/r/A',
    'https://de.reddit.com/r/a',
    'https://old.reddit.org/r/a',
  );
  same(t, 'https://x.com/a/status/1', 'https://twitter.com/a/status/1', 'https://mobile.twitter.com/a/status/1');
  apart(t, 'https://x.com/a', 'https://x.org/a', 'https://api.twitter.com/a', 'https://api.x.com/a');
});

t.test('unwraps redirects', async (t) => {
  const page = 'https://example.com/a?id=1&x=2';
  const escaped = encodeURIComponent(page);
  const wrappers = [`https://www.google.com/url?sa=t&q=${escaped}&ved=0`, `https://google.co.uk/url?url=${escaped}`];
  wrappers.push(`https://duckduckgo.com/l/?uddg=${escaped}&rut=0`, `https://html.duckduckgo.com/l/?uddg=${escaped}`);
  wrappers.push(
    `https://l.facebook.com/l.php?u=${escaped}&h=0`,
    `https://www.youtube.com/redirect?event=x&q=${escaped}`,
  );
  wrappers.push(`https://www.bing.com/ck/a?!&&p=0&u=a1${base64(page)}&ntb=1`);
  same(t, page, ...wrappers);
  const twice = `https://www.google.com/url?q=${encodeURIComponent(`https://duckduckgo.com/l/?uddg=${escaped}`)}`;
  t.equal(pageKey(twice), pageKey(page));
  t.equal(canonicalUrl(wrappers[0] ?? ''), page);
});

t.test('keeps what only looks like a redirect', async (t) => {
  const page = 'https://example.com/a';
  const escaped = encodeURIComponent(page);
  apart(t, page, `https://www.google.com/search?q=${escaped}`, `https://google.example.com/url?q=${escaped}`);
  apart(t, page, `https://example.com/url?q=${escaped}`, `https://www.youtube.com/watch?v=1&q=${escaped}`);
  apart(
    t,
    page,
    'https://www.google.com/url?q=/a',
    'https://www.google.com/url?q=javascript:1',
    'https://www.google.com/url',
  );
  apart(
    t,
    page,
    `https://www.bing.com/ck/a?u=${escaped}`,
    'https://www.bing.com/ck/a?u=a1x',
    `https://duckduckgo.com/?uddg=${escaped}`,
  );
  apart(t, 'https://google.com/url?q=http://x.org/%FF', 'https://google.com/url?q=http://x.org/%FE');
});

t.test('keeps an endless chain of redirects', async (t) => {
  let chain = 'https://example.com/a';
  const chains = Array.from({ length: 12 }, () => (chain = `https://google.com/url?q=${encodeURIComponent(chain)}`));
  t.equal(canonicalUrl(chains[3] ?? ''), 'https://example.com/a');
  t.match(canonicalUrl(chains[4] ?? ''), /^https:\/\/google\.com\/url/);
  t.match(canonicalUrl(chain), /^https:\/\/google\.com\/url/);
  const long = `https://google.com/url?q=`.repeat(10_000);
  const start = process.hrtime.bigint();
  t.equal(canonicalUrl(canonicalUrl(long)), canonicalUrl(long));
  t.ok(Number(process.hrtime.bigint() - start) < 1e9, '250 kB take less than a second');
});

t.test('recognises a DOI at resolvers and publishers, escaped or not', async (t) => {
  const key = 'doi:10.1002/anie.202012345';
  t.equal(pageKey('https://doi.org/10.1002/anie.202012345'), key);
  t.equal(pageKey('http://dx.doi.org/10.1002/ANIE.202012345'), key);
  t.equal(pageKey('https://www.doi.org/doi:10.1002%2Fanie.202012345'), key);
  for (const path of ['doi/', 'doi/abs/', 'doi/full/', 'doi/pdf/', 'doi/epdf/', 'article/', 'journals/x/articles/'])
    t.equal(pageKey(`https://onlinelibrary.wiley.com/${path}10.1002/anie.202012345?casa_token=1#sec-1`), key, path);
  for (const view of ['/full', '/abstract', '/pdf', '/meta', '.pdf', '/full/html', '/'])
    t.equal(pageKey(`https://publisher.example/content/10.1002/anie.202012345${view}`), key, view);
  t.equal(pageKey('https://journals.plos.org/plosone/article?id=10.1371/journal.pone.1'), 'doi:10.1371/journal.pone.1');
  t.equal(
    pageKey('https://www.biorxiv.org/content/10.1101/2020.01.02.345678v2.full.pdf'),
    'doi:10.1101/2020.01.02.345678',
  );
  t.equal(
    pageKey('https://doi.org/10.1002/(SICI)1097-0258%3C1::AID%3E3.0.CO;2-A'),
    'doi:10.1002/(sici)1097-0258<1::aid>3.0.co;2-a',
  );
});

t.test('keeps pages about a work apart from the work', async (t) => {
  const work = 'https://doi.org/10.1007/s1';
  apart(t, work, 'https://www.altmetric.com/details/doi/10.1007/s1', 'https://scite.ai/reports/10.1007/s1');
  apart(
    t,
    work,
    'https://example.com/10.1007/s1',
    'https://example.com/doi/10.1007',
    'https://example.com/blog/article/10.1007/s1',
  );
  apart(
    t,
    work,
    'https://link.springer.com/article/10.1007/s1/figures/2',
    'https://link.springer.com/article/10.1007/s12',
  );
  apart(t, work, 'https://example.com/search?id=10.1007/s1', 'https://example.com/article?id=10.1007/s1&page=2');
  apart(t, 'https://doi.org/the-identifier', 'https://doi.org/', 'https://doi.org/10.1007');
  apart(t, 'https://example.com/article/10.5/x', 'https://example.com/article/10.5/X');
});

t.test('recognises an arXiv paper in every version and form', async (t) => {
  for (const path of [
    'abs/2101.00001',
    'abs/2101.00001v3',
    'pdf/2101.00001',
    'pdf/2101.00001v2.pdf',
    'html/2101.00001v1',
  ])
    for (const host of ['https://arxiv.org', 'http://arxiv.org', 'https://www.arxiv.org', 'http://export.arxiv.org'])
      t.equal(pageKey(`${host}/${path}`), 'arxiv:2101.00001', host + path);
  t.equal(pageKey('https://arxiv.org/abs/2101.00001?context=cs.LG'), 'arxiv:2101.00001');
  t.equal(pageKey('https://doi.org/10.48550/arXiv.2101.00001'), 'arxiv:2101.00001');
  same(
    t,
    'https://arxiv.org/abs/math.GT/0309136v1',
    'https://arxiv.org/pdf/math/0309136',
    'https://doi.org/10.48550/arXiv.math/0309136',
  );
  apart(t, 'https://arxiv.org/abs/2101.00001', 'https://arxiv.org/abs/2101.00002', 'https://arxiv.org/abs/2101.0000');
  apart(
    t,
    'https://arxiv.org/abs/2101.00001',
    'https://arxiv.org/list/cs/2101.00001',
    'https://example.org/abs/2101.00001',
  );
  apart(t, 'https://arxiv.org/abs/math/0309136', 'https://arxiv.org/abs/hep-th/0309136', 'https://arxiv.org/');
});

t.test('recognises a PubMed record', async (t) => {
  const key = 'pmid:31452104';
  t.equal(pageKey('https://pubmed.ncbi.nlm.nih.gov/31452104/'), key);
  t.equal(pageKey('https://pubmed.ncbi.nlm.nih.gov/31452104?dopt=Abstract'), key);
  t.equal(pageKey('http://www.ncbi.nlm.nih.gov/pubmed/31452104'), key);
  apart(
    t,
    'https://pubmed.ncbi.nlm.nih.gov/31452104',
    'https://www.ncbi.nlm.nih.gov/31452104',
    'https://pubmed.ncbi.nlm.nih.gov/31452105',
  );
  apart(
    t,
    'https://pubmed.ncbi.nlm.nih.gov/?term=a',
    'https://pubmed.ncbi.nlm.nih.gov/?term=b',
    'https://example.com/pubmed/31452104',
  );
});

t.test('gives a canonical URL that is a URL, scholarly or not', async (t) => {
  t.equal(
    canonicalUrl('http://www.Example.com:80/a/index.html?utm_source=x&b=2&a=1#top'),
    'https://example.com/a?a=1&b=2',
  );
  t.equal(canonicalUrl('http://arxiv.org/abs/2101.00001v2'), 'https://arxiv.org/abs/2101.00001v2');
});

t.test('returns text that is no web address, trimmed', async (t) => {
  for (const text of [
    '',
    'not a url',
    'https://',
    'http://[::1',
    'http://1.2.3.4.5/',
    'mailto:a@b.c',
    '//example.com/',
    '/a',
    'doi:10.1/X',
  ]) {
    t.equal(canonicalUrl(` ${text}\n`), text);
    t.equal(pageKey(` ${text}\n`), text.replace('https://', ''));
  }
});
