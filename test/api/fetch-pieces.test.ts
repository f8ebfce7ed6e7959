// The fields of `POST /search/fetch` that agents use, over a real site: pieces of a page, its age, its links and images, what it says of
// itself, and whose pages the cache gives to whom.

import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway, type PageAnswer } from '../../src/index.ts';
import { type Pages, type Scope, site } from '../support/site.ts';

const ARTICLE = `<!doctype html><html lang="en-GB"><head><title>On weirs</title><link rel="canonical" href="/weirs">
<meta name="citation_author" content="Ada Miller"><meta name="citation_author" content="Ben Wright">
<meta property="article:published_time" content="2024-05-01T08:00:00+02:00"></head><body><nav><a href="/">Home</a><img src="/logo.png" alt="Logo"></nav>
<article><h1>On weirs</h1>${'<p>A weir holds the <a href="/river">river</a> back so that the <a href="/race">headrace</a> is full in a dry month 🚣‍♀️.</p>'.repeat(12)}
<figure><img src="data:image/gif;base64,R0" data-src="/weir.jpg" alt="A weir"></figure><img srcset="/s.jpg 400w, /l.jpg 800w" src="blank.gif">
<img src="/weir.jpg" alt="The same"><img src="javascript:alert(1)" alt="None"><pre><code>let a = 1;\n\nlet b = 2;</code></pre>
<p>The last paragraph of this page is not cut.</p></article></body></html>`;

interface Opened {
  readonly gateway: Gateway;
  readonly origin: string;
  readonly asked: string[];
  readonly state: { html: string; etag: string; status: number };
  readonly fetch: (body: object, key?: string) => Promise<{ answer: PageAnswer; status: number; isCached: boolean }>;
}

async function open(t: Scope, more: SettingsInput['fetch'] = {}): Promise<Opened> {
  const state = { html: ARTICLE, etag: '"1"', status: 200 };
  const pages: Pages = {
    '/article': (request, response) => {
      if (request.headers['if-none-match'] === state.etag) response.writeHead(304).end();
      else response.writeHead(state.status, { 'content-type': 'text/html', etag: state.etag }).end(state.html);
    },
  };
  const { asked, origin, port } = await site(t, pages);
  const gateway = createGateway({
    keys: { static: ['one', 'two'].map((account) => ({ key: `hr_${account}`, account })) },
    log: { level: 'silent' },
    fetch: { allow: ['127.0.0.1'], ports: [port], cleaners: 1, timeout: '1m', cleanTimeout: '1m', ...more },
  });
  t.teardown(() => gateway.close());
  return {
    ...{ gateway, origin, asked, state },
    async fetch(body, key = 'hr_one') {
      const headers = { authorization: `Bearer ${key}` };
      const response = await gateway.inject({ path: '/search/fetch', headers, body });
      const isCached = response.headers['x-headrace-cache'] === 'hit';
      return { answer: response.json<PageAnswer>(), status: response.status, isCached };
    },
  };
}

t.test('a page is read in pieces, which are its content, whatever the format', async (t) => {
  const { asked, fetch, origin } = await open(t);
  for (const format of ['text', 'markdown', 'html']) {
    const ask = { url: `${origin}/article`, format };
    const whole = (await fetch(ask)).answer;
    t.notOk('truncated' in whole || 'next_start' in whole || 'version' in whole);
    let content = '';
    const versions = new Set<string | undefined>();
    for (let start: number | undefined = 0; start !== undefined;) {
      const { answer, isCached } = await fetch({ ...ask, max_chars: 300, start });
      content += answer.content;
      versions.add(answer.version);
      t.ok(isCached);
      t.equal(answer.truncated ?? false, answer.next_start !== undefined);
      t.equal(answer.word_count, whole.word_count, 'the words of the whole page');
      start = answer.next_start;
    }
    t.equal(content, whole.content);
    t.equal(versions.size, 1);
    const beyond = (await fetch({ ...ask, start: whole.content.length + 10 })).answer;
    t.match(beyond, { content: '', version: [...versions][0] });
    t.notOk('truncated' in beyond);
  }
  t.equal(asked.length, 3, 'one download for each format');
});

t.test('wrong bounds are refused by name', async (t) => {
  const { fetch, origin } = await open(t);
  const wrong = { max_chars: 0, start: -1, max_age: 1.5, links: 'perhaps', images: [] };
  const { answer, status } = await fetch({ url: `${origin}/article`, ...wrong });
  t.equal(status, 422);
  const { detail } = answer as unknown as { detail: { loc: unknown[] }[] };
  t.same(
    detail.map(({ loc }) => loc[1]),
    Object.keys(wrong),
  );
  t.equal((await fetch({ url: `${origin}/article`, max_age: 31_536_001 })).status, 422);
});

t.test('links, images and what a page says of itself come in fields of their own', async (t) => {
  const { fetch, gateway, origin } = await open(t);
  const { answer } = await fetch({ url: `${origin}/article`, links: true, images: true });
  t.same(answer.links, [
    { text: 'river', url: `${origin}/river` },
    { text: 'headrace', url: `${origin}/race` },
  ]);
  t.same(answer.images, [
    { url: `${origin}/weir.jpg`, alt: 'A weir' },
    { url: `${origin}/l.jpg`, alt: '' },
  ]);
  t.match(answer, {
    ...{ language: 'en-GB', published_at: '2024-05-01T08:00:00+02:00', authors: ['Ada Miller', 'Ben Wright'] },
    canonical_url: `${origin}/weirs`,
  });
  t.equal(Number.isNaN(Date.parse(answer.fetched_at ?? '')), false);
  t.notOk('metadata' in answer);
  const old = (await fetch({ url: `${origin}/article`, include: ['metadata'] })).answer;
  t.same(Object.keys(old).sort(), ['content', 'metadata', 'title', 'url', 'word_count'], 'include answers as before');
  const library = await gateway.fetchPage(`${origin}/article`, { max_chars: 100, links: true, images: true });
  t.ok(library.content.length <= 100 && library.truncated);
  t.same([library.links, library.images], [answer.links, answer.images]);
});

t.test('max_age: 0 asks the server, which says whether the page has changed', async (t) => {
  const { asked, fetch, origin, state } = await open(t);
  const url = `${origin}/article`;
  const first = (await fetch({ url, start: 0 })).answer;
  const again = await fetch({ url, max_age: 0 });
  t.equal(asked.length, 2);
  t.equal(again.isCached, false);
  t.equal(again.answer.version, first.version);
  t.ok(Date.parse(again.answer.fetched_at ?? '') >= Date.parse(first.fetched_at ?? ''));
  t.ok((await fetch({ url, max_age: 3600 })).isCached);
  Object.assign(state, { html: ARTICLE.replace('dry', 'wet'), etag: '"2"' });
  t.equal((await fetch({ url, start: 10 })).answer.version, first.version, 'a kept page is read on as it was');
  const changed = await fetch({ url, max_age: 0 });
  t.match(changed.answer.content, /wet month/);
  t.not(changed.answer.version, first.version);
  state.status = 500;
  state.etag = '"3"';
  t.equal((await fetch({ url, max_age: 0 })).status, 502);
  t.match((await fetch({ url })).answer.content, /wet month/, 'what is kept stays');
});

t.test(
  'pages of an address with a query are kept for the account that asked, as such addresses may hold secrets',
  async (t) => {
    const { asked, fetch, origin } = await open(t);
    const signed = `${origin}/article?signature=s3cret`;
    t.equal((await fetch({ url: signed }, 'hr_one')).isCached, false);
    t.equal((await fetch({ url: signed }, 'hr_one')).isCached, true);
    t.equal((await fetch({ url: signed }, 'hr_two')).isCached, false, 'nor does another learn that it was fetched');
    t.equal(asked.length, 2);
    await fetch({ url: `${origin}/article` }, 'hr_one');
    t.equal((await fetch({ url: `${origin}/article` }, 'hr_two')).isCached, true, 'other pages are common');
  },
);
