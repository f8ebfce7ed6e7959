// What is told of the cleaning of a page: the blocks that were kept are those of the content, and the page stays the same.
import t from 'tap';
import { clean } from '../../src/extract/index.ts';
import { readPage } from '../../src/extract/read-page.ts';
import type { CleanJob, CleanPage } from '../../src/extract/page.ts';

const PROSE =
  'The weir above the mill holds the water back, so that the race has its height in dry months too. '.repeat(4);
const ARTICLE = `<!doctype html><title>Weirs</title><body>
<nav class="menu"><ul><li><a href="/a">Home</a><li><a href="/b">News</a></ul></nav>
<main><article><h1>Weirs</h1><p>${PROSE}</p><p>${PROSE}&amp; more.</p></article></main>
<footer><p>© 2026 <a href="/imprint">Imprint</a></p></footer>`;

async function explain(html: string, fields: Partial<CleanJob> = {}): Promise<CleanPage> {
  const bytes = Uint8Array.from(Buffer.from(html));
  return await readPage({ bytes, mediaType: 'text/html', charset: 'utf-8', explain: true, ...fields });
}

t.test('changes nothing of the page', async (t) => {
  const { explanation, ...page } = await explain(ARTICLE, { url: 'https://x.org/weirs', format: 'markdown' });
  t.strictSame(page, clean(ARTICLE, { url: 'https://x.org/weirs', format: 'markdown' }));
  t.ok(explanation);
  t.notOk((await explain(ARTICLE, { explain: false })).explanation, 'nothing is collected unless it is asked for');
});

t.test('tells each block with its place, its score and why', async (t) => {
  const { content, explanation } = await explain(ARTICLE);
  t.match(explanation, { chosen: 'page', sourceLength: ARTICLE.length, source: ARTICLE, tried: [{ name: 'page' }] });
  const { blocks = [], threshold } = explanation ?? {};
  t.equal(explanation?.blockCount, blocks.length);
  const kept = blocks.filter((block) => block.kept);
  t.ok(kept.length >= 2);
  for (const { from, text, to } of kept) {
    t.ok(content.includes(text.slice(0, 40)), 'a kept block is in the content');
    t.ok(ARTICLE.slice(from, to).startsWith(text.slice(0, 20)), 'its place is that of its text');
  }
  for (const { kept: isKept, score, text } of blocks) {
    t.ok(score >= 0 && score <= 1);
    if (!isKept) t.notOk(content.includes(`\n${text}\n`), `${text} is dropped`);
  }
  t.match(
    blocks.find(({ text }) => text === 'Home'),
    { kept: false, marks: ['in nav', 'mostly links'] },
  );
  t.strictSame(kept.at(-1)?.path.slice(0, 3), ['p', 'article', 'main']);
  t.ok((threshold ?? 0) > 0);
});

t.test('names the source that was taken where the page has little text', async (t) => {
  const data = JSON.stringify({ '@type': 'Article', articleBody: PROSE });
  const html = `<script type="application/ld+json">${data}</script><p>Loading…</p>`;
  const { explanation } = await explain(html);
  t.equal(explanation?.chosen, 'article body of linked data');
  t.equal(explanation?.tried[0]?.name, 'page');
});

t.test('is bounded, and has none of the elements that are no text', async (t) => {
  const { explanation } = await explain(`<p>${'<b>word</b> '.repeat(60_000)}</p><script>alert(1)</script>`.repeat(2));
  t.equal(explanation?.source.length, 400_000);
  t.ok((explanation?.blocks.length ?? 0) <= 4000);
  t.ok(JSON.stringify(explanation).length < 2_500_000);
  const hostile = await explain('<p>'.repeat(20_000));
  t.same(hostile.explanation?.blocks, []);
});

t.test('other types than HTML have no blocks', async (t) => {
  t.equal((await explain('plain', { mediaType: 'text/plain' })).explanation, undefined);
});
