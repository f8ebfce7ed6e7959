// Every site adapter with pages in the shape of its site: what is read, what is left out, and that other pages are read as ever.
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { clean } from '../../../src/extract/clean.ts';
import type { CleanPage } from '../../../src/extract/page.ts';
import { parse } from '../../../src/extract/parse.ts';
import { readPage } from '../../../src/extract/read-page.ts';
import { readSite, readSiteJson, SITES } from '../../../src/extract/sites/sites.ts';

/** A page of a site. To add one, write the file, and a row with what must be read from it. */
interface Case {
  readonly adapter: string;
  /** In `fixtures/ADAPTER/`. */
  readonly fixture: string;
  readonly url: string;
  readonly title: string;
  /** Lines of the content as Markdown. */
  readonly content: readonly string[];
}

const CASES: readonly Case[] = [
  {
    adapter: 'arxiv',
    fixture: 'abs.html',
    url: 'https://arxiv.org/abs/2601.00001',
    title: 'Flow in Narrow Races',
    content: [
      '# Flow in Narrow Races',
      '',
      'Jane Miller, Ben Sluice',
      '',
      '\\[Submitted on 1 Jan 2026\\]',
      '',
      'We measure the flow in narrow races and find that it is steady.',
      '',
      '- Comments: 12 pages, 3 figures',
      '- Subjects: Fluid Dynamics (physics.flu-dyn); Geophysics (physics.geo-ph)',
      '- PDF: [https://arxiv.org/pdf/2601.00001](https://arxiv.org/pdf/2601.00001)',
      '- HTML: [https://arxiv.org/html/2601.00001](https://arxiv.org/html/2601.00001)',
    ],
  },
  {
    adapter: 'discourse',
    fixture: 'preloaded.html',
    url: 'https://mills.example/t/cleaning-a-sluice/77',
    title: 'Cleaning a sluice',
    content: [
      '# Cleaning a sluice',
      '',
      '**jane** · 2026-01-02',
      '',
      'How do you clean a **sluice**?',
      '',
      '```sh',
      'scrub --all',
      '```',
      '',
      '**ben** · 2026-01-03 · accepted',
      '',
      'With a broom & patience.',
    ],
  },
  {
    adapter: 'discourse',
    fixture: 'crawler.html',
    url: 'https://mills.example/t/cleaning-a-sluice/77',
    title: 'Cleaning a sluice',
    content: [
      '# Cleaning a sluice',
      '',
      '**jane** · 2026-01-02',
      '',
      'How do you clean a **sluice**?',
      '',
      'Ours has not been opened for two winters, and the gate is full of leaves, mud and the remains of a small boat.',
      '',
      '**ben** · 2026-01-03',
      '',
      'With a broom & patience. Start from above, so that the water carries away what comes loose, and keep your feet dry.',
    ],
  },
  {
    adapter: 'discourse',
    fixture: 'topic.json',
    url: 'https://mills.example/t/cleaning-a-sluice/77.json',
    title: 'Cleaning a sluice',
    content: [
      '# Cleaning a sluice',
      '',
      '**jane** · 2026-01-02',
      '',
      'How do you clean a **sluice**?',
      '',
      '```sh',
      'scrub --all',
      '```',
      '',
      '**ben** · 2026-01-03 · accepted',
      '',
      'With a broom & patience.',
    ],
  },
  {
    adapter: 'github',
    fixture: 'readme.html',
    url: 'https://github.com/mill/sluice',
    title: 'mill/sluice',
    content: [
      'Opens gates.',
      '',
      '# sluice',
      '',
      'Opens the gates of a mill.',
      '',
      '```shell',
      'npm install sluice',
      '```',
    ],
  },
  {
    adapter: 'github',
    fixture: 'blob.html',
    url: 'https://github.com/mill/sluice/blob/main/gate.ts',
    title: 'gate.ts',
    content: [
      '# gate.ts',
      '',
      '```typescript',
      'export function open(gate: Gate): void {',
      '  if (gate.level < 3) gate.raise();',
      '}',
      '```',
    ],
  },
  {
    adapter: 'github',
    fixture: 'issue.html',
    url: 'https://github.com/mill/sluice/issues/5',
    title: 'Gate sticks',
    content: [
      '# Gate sticks #5',
      '',
      'open',
      '',
      '**jane** · 2026-01-02',
      '',
      'The gate sticks at `level 3`.',
      '',
      '**ben** · 2026-01-03',
      '',
      'Oil it.',
    ],
  },
  {
    adapter: 'github',
    fixture: 'pull.html',
    url: 'https://github.com/mill/sluice/pull/6',
    title: 'Oil the gate',
    content: [
      '# Oil the gate',
      '',
      'Merged',
      '',
      '**ben** · 2026-01-04',
      '',
      'Adds oil to the gate.',
      '',
      '**jane** · 2026-01-05',
      '',
      'Thank you.',
    ],
  },
  {
    adapter: 'hacker-news',
    fixture: 'item.html',
    url: 'https://news.ycombinator.com/item?id=1',
    title: 'A sluice in 12 lines',
    content: [
      '# A sluice in 12 lines',
      '',
      '[https://mill.example/sluice](https://mill.example/sluice)',
      '',
      '**jane** · 2026-01-02 · 57 points',
      '',
      '- **ben** · 2026-01-02',
      '',
      '  A fine sluice.',
      '',
      '  Does it leak?',
      '',
      '  - **jane** · 2026-01-02',
      '',
      '    Only a little.',
      '',
      '- **ada** · 2026-01-02',
      '',
      '  I prefer weirs.',
    ],
  },
  {
    adapter: 'reddit',
    fixture: 'old.html',
    url: 'https://old.reddit.com/r/mills/comments/a/a_weir_or_a_sluice/',
    title: 'A weir or a sluice?',
    content: [
      '# A weir or a sluice?',
      '',
      '**jane** · 2026-01-02 · 12 points',
      '',
      'Which of the two is *better*?',
      '',
      '- **ben** · 2026-01-03 · 5 points',
      '',
      '  A weir.',
      '',
      '  - **ada** · 2 points',
      '',
      '    Agreed.',
    ],
  },
  {
    adapter: 'reddit',
    fixture: 'new.html',
    url: 'https://www.reddit.com/r/mills/comments/a/a_weir_or_a_sluice/',
    title: 'A weir or a sluice?',
    content: [
      '# A weir or a sluice?',
      '',
      '**jane** · 2026-01-02 · 12 points',
      '',
      'Which of the two is *better*?',
      '',
      '- **ben** · 2026-01-03 · 5 points',
      '',
      '  A weir.',
      '',
      '  - **ada** · 2 points',
      '',
      '    Agreed.',
    ],
  },
  {
    adapter: 'reddit',
    fixture: 'post.json',
    url: 'https://www.reddit.com/r/mills/comments/a/a_weir_or_a_sluice.json',
    title: 'A weir or a sluice?',
    content: [
      '# A weir or a sluice?',
      '',
      '**jane** · 2026-01-02 · 12 points',
      '',
      'Which of the two is *better*?',
      '',
      '- **ben** · 2026-01-03 · 5 points',
      '',
      '  A weir.',
      '',
      '  - **ada** · 2 points',
      '',
      '    Agreed.',
    ],
  },
  {
    adapter: 'stack-exchange',
    fixture: 'question.html',
    url: 'https://mill.stackexchange.com/questions/7/how-does-a-sluice-open',
    title: 'How does a sluice open?',
    content: [
      '# How does a sluice open?',
      '',
      'Tags: water, gates',
      '',
      '**jane** · 2026-01-02 · 9 votes',
      '',
      'I pull, and `nothing` happens.',
      '',
      '- **ada** · 2026-01-03 · 3',
      '',
      '  Pull harder?',
      '',
      '## 2 answers',
      '',
      '**ben** · 2026-01-04 · 8 votes · accepted',
      '',
      'Lift the **pin** first.',
      '',
      '**ada** · 2026-01-04 · 2 votes',
      '',
      'Use a lever.',
    ],
  },
  {
    adapter: 'youtube',
    fixture: 'watch.html',
    url: 'https://www.youtube.com/watch?v=abc',
    title: 'How a sluice works',
    content: [
      '# How a sluice works',
      '',
      '**Mill Channel** · 2026-01-02 · 1:02:05',
      '',
      'We open a sluice.',
      '',
      'Parts: gate, pin\\',
      'More: https://mill.example/',
      '',
      '## Chapters',
      '',
      '0:00 The gate',
      '',
      '1:30 The pin',
      '',
      '## Transcript',
      '',
      '0:00 welcome to the mill',
    ],
  },
];

function fixtureOf({ adapter, fixture }: Case): string {
  return readFileSync(
    new URL(`../../../../test/extract/sites/fixtures/${adapter}/${fixture}`, import.meta.url),
    'utf8',
  );
}

function read(given: Case, url = given.url): Promise<CleanPage> {
  const mediaType = given.fixture.endsWith('.json') ? 'application/json' : 'text/html';
  const bytes = new Uint8Array(Buffer.from(fixtureOf(given)));
  return readPage({ bytes, mediaType, charset: 'utf-8', url, format: 'markdown' });
}

const PAGES = CASES.filter(({ fixture }) => fixture.endsWith('.html'));

for (const given of CASES) {
  t.test(`${given.adapter} reads ${given.fixture}`, async (t) => {
    const { title, content } = await read(given);
    t.equal(title, given.title);
    t.same(content.split('\n'), given.content);
  });
}

t.test(
  'plain text has the posts and the mark of an accepted answer, without authors, dates, votes and remarks',
  async (t) => {
    const given = CASES.find(({ adapter }) => adapter === 'stack-exchange') as Case;
    const { content } = clean(fixtureOf(given), { url: given.url });
    t.equal(
      content,
      'How does a sluice open?\n\nI pull, and nothing happens.\n\n2 answers\n\naccepted\n\nLift the pin first.\n\nUse a lever.',
    );
  },
);

t.test('previews of other pages in posts of Discourse keep their title alone', async (t) => {
  const cooked =
    '<p>See:</p><aside class="onebox"><article class="onebox-body"><h3><a href="https://mill.example/">Mills</a></h3><p>All about them.</p></article></aside>';
  const topic = { title: 'Mills', post_stream: { posts: [{ username: 'jane', cooked }] } };
  const content = readSiteJson(JSON.stringify(topic), 'https://mills.example/t/x/1.json')?.html ?? '';
  t.match(content, '>Mills</a>');
  t.notMatch(content, 'All about them');
});

t.test('adapters describe themselves, and each has a page', async (t) => {
  const names = SITES.map(({ name }) => name);
  t.same(names, names.toSorted(), 'in order');
  for (const { name, hosts, generator, reads } of SITES) {
    t.match(name, /^[a-z]+(?:-[a-z]+)*$/);
    t.ok(hosts.length > 0 !== (generator !== undefined), `${name} has hosts or a generator`);
    t.match(reads, /^[A-Za-z]/);
    t.ok(
      CASES.some(({ adapter }) => adapter === name),
      `${name} has a fixture`,
    );
  }
  t.same(
    CASES.filter(({ adapter }) => !names.includes(adapter)),
    [],
  );
});

t.test('a page of another host is read like any page', async (t) => {
  for (const given of PAGES.filter(({ adapter }) => adapter !== 'discourse')) {
    const { pathname, search, hostname } = new URL(given.url);
    for (const host of ['site.test', `${hostname}.site.test`, `not-${hostname.split('.').slice(-2).join('-')}.test`])
      t.equal(
        readSite(fixtureOf(given), parse(fixtureOf(given)).head, `https://${host}${pathname}${search}`),
        null,
        host,
      );
  }
  const json = CASES.find(({ fixture }) => fixture === 'post.json') as Case;
  t.equal(readSiteJson(fixtureOf(json), 'https://site.test/r/mills/comments/a/b.json'), null);
  t.equal(readSiteJson(fixtureOf(json), json.url.replace('.json', '')), null, 'another path');
});

t.test('owners on GitHub may have names that begin as its own pages do', async (t) => {
  const html = '<h1>Other</h1><article class="markdown-body"><p>A mill that scans its flour.</p></article>';
  for (const [path, title] of [
    ['aboutcode-org/scancode', 'aboutcode-org/scancode'],
    ['searchmill/wheel', 'searchmill/wheel'],
    ['about/careers', 'Other'],
    ['search/advanced', 'Other'],
  ] as const)
    t.equal(clean(html, { url: `https://github.com/${path}` }).title, title, path);
});

t.test('a page whose structure has changed is read like any page', async (t) => {
  const words =
    'The gate of the sluice was raised before dawn, and the water came down the race to the wheel of the mill. ';
  const html = `<title>Changed</title><main><article><h2>Gate</h2><p>${words.repeat(6)}</p></article></main>`;
  const changed = `<meta name="generator" content="Discourse 9.0">${html}`;
  const expected = clean(html, { url: 'https://site.test/' }).content;
  for (const { url } of PAGES) {
    t.equal(readSite(changed, parse(changed).head, url), null, url);
    t.equal(clean(changed, { url }).content, expected, url);
  }
  t.equal(readSiteJson('{"title":"x","post_stream":{"posts":[]}}', 'https://mills.example/t/x/1.json'), null);
  t.equal(readSiteJson('[1', 'https://www.reddit.com/r/a/comments/b.json'), null);
});

t.test('a page that claims to be of a forum software cannot hide its text', async (t) => {
  const posts = '<div class="crawler-post"><div class="post"><p>Nothing to see.</p></div></div>';
  const words =
    'The gate of the sluice was raised before dawn, and the water came down the race to the wheel of the mill. ';
  const html = `<title>x</title><meta name="generator" content="Discourse 3"><h1>x</h1>${posts}<article><p>${words.repeat(6)}</p></article>`;
  t.match(clean(html, { url: 'https://site.test/t/x/1' }).content, /before dawn/);
});

t.test('cut and changed pages of sites are read without an error', async () => {
  const property = fc.property(
    fc.constantFrom(...PAGES),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.constantFrom('', '<p>', '</div>', '"', 'null', '[]', '{}', '">', '\u0000', '&quot;'),
    fc.double({ min: 0, max: 0.2, noNaN: true }),
    (given, at, inserted, removed) => {
      const html = fixtureOf(given);
      const from = Math.floor(at * html.length);
      const changed = html.slice(0, from) + inserted + html.slice(from + Math.floor(removed * html.length));
      return clean(changed, { url: given.url }).content.isWellFormed();
    },
  );
  fc.assert(property, { numRuns: 400 });
});

t.test('any JSON in the place of the data of a site is read without an error', async () => {
  const hosts = ['https://www.reddit.com/r/a/comments/b.json', 'https://mills.example/t/x/1.json'];
  fc.assert(
    fc.property(fc.constantFrom(...hosts), fc.json(), (url, json) => {
      const content = readSiteJson(json, url);
      return content === null || typeof content.html === 'string';
    }),
    { numRuns: 300 },
  );
});

t.test('posts of a forum within posts are written once', (t) => {
  const nested = `<div class="crawler-post"><div class="post"><p>A post.</p>`.repeat(20) + '</div></div>'.repeat(20);
  const page = `<meta name="generator" content="Discourse 3.5.0"><h1>Topic</h1>${nested}`;
  const { content } = clean(page, { url: 'https://mills.example/t/topic/1', format: 'text' });
  t.equal(content.split('A post.').length - 1, 20);
  t.end();
});

t.test('white space of code and between elements is that of the page', async (t) => {
  const code =
    '<pre><b>import</b> <i>os</i>\n\n<b>def</b> <i>f</i>():\n    <b>return</b> os\n<span>f()\n</span><i>g</i>()</pre>';
  const html = `<article class="markdown-body">${code}<p><b>a</b> <a class="anchor">#</a>b <script type="math/tex">x</script></p></article>`;
  const { content } = clean(html, { url: 'https://github.com/mill/wheel', format: 'markdown' });
  t.equal(content, '```\nimport os\n\ndef f():\n    return os\nf()\ng()\n```\n\n**a** b $x$');
});

t.test('a comment without a text of its own has not that of its answer', async (t) => {
  const newer =
    '<shreddit-post post-title=Mills></shreddit-post><shreddit-comment author=gone depth=0>' +
    '<shreddit-comment author=miller depth=1><div slot=comment><p>Grind on.</p></div></shreddit-comment></shreddit-comment>';
  const older =
    '<div id=siteTable><div class=link><a class=title>Mills</a></div></div><div class=commentarea><div class=comment>' +
    '<div class=comment><div class=entry><a class=author>miller</a><div class=usertext-body><p>Grind on.</p></div></div></div></div></div>';
  for (const html of [newer, older]) {
    const url = 'https://www.reddit.com/r/mills/comments/a/b/';
    const { content } = clean(html, { url, format: 'markdown' });
    t.equal(content.split('Grind on.').length, 2, content);
    t.match(content, /miller[^]*Grind on\./);
  }
});
