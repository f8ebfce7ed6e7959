// The local engine over folders made for each test: what is read, found, shown and refused, and how changes arrive.
import { mkdirSync, renameSync, rmSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import MiniSearch from 'minisearch';
import t from 'tap';
import { createManualClock, type ManualClock } from '../../../src/actor/index.ts';
import type { EngineHit, SearchType } from '../../../src/search/engine.ts';
import { configureEngines } from '../../../src/search/configure.ts';
import { local, type LocalIndexes, type LocalSettings } from '../../../src/search/engines/local.ts';
import { Collection } from '../../../src/search/engines/local/collection.ts';
import { type FolderFile, listFolder, readText } from '../../../src/search/engines/local/folder.ts';
import { IndexedFolder } from '../../../src/search/engines/local/indexed-folder.ts';
import { receivedCalls } from '../../support/received-calls.ts';
import { FOUND, setUpClient, startSearch } from '../../support/search.ts';

const SIGNAL = new AbortController().signal;

interface Library {
  readonly folder: string;
  readonly clock: ManualClock;
  readonly notices: readonly string[];
  readonly find: (query: string, type?: SearchType, maxResults?: number) => Promise<readonly EngineHit[]>;
  readonly titles: (query: string) => Promise<string[]>;
  readonly write: (path: string, content: string) => void;
  /** Lets the engine look for changes at the next query. */
  readonly later: () => void;
}

function library(folder: string, settings: Partial<LocalSettings> = {}): Library {
  const clock = createManualClock();
  const notices: string[] = [];
  const engine = local({ path: folder, baseUrl: 'https://docs.example/base', ...settings });
  const indexed = new IndexedFolder(engine.folder, { clock, onNotice: (sentence) => notices.push(sentence) });
  const find: Library['find'] = (query, type = 'web', maxResults = 10) => indexed.find({ query, type, maxResults });
  return {
    folder,
    clock,
    notices,
    find,
    titles: async (query) => (await find(query)).map(({ title }) => title),
    write: (path, content) => writeFileSync(join(folder, path), content),
    later: () => clock.advance(2000),
  };
}

t.test('files of each format are found under the base URL', async (t) => {
  const { find } = library(
    t.testdir({
      guide: { 'first steps.md': '# First *steps*\n\nTurn the headgate with [both hands](other.md).\n' },
      'page.html':
        '<html><head><title>A page</title><style>x{}</style></head><body><nav>Menu</nav><p>The sluice</p></body>',
      'heading.htm': '<body><h1>Only a <b>heading</b></h1><script>var penstock</script><p>penstock</p>',
      'notes.txt': 'The weir\nneeds paint.',
      'UPPER.MD': 'no heading, the tailrace',
      'picture.png': 'headgate sluice weir',
    }),
  );
  t.same(await find('headgate'), [
    {
      title: 'First steps',
      url: 'https://docs.example/base/guide/first%20steps.md',
      snippet: 'First steps Turn the headgate with both hands.',
    },
  ]);
  t.same(await find('sluice'), [
    { title: 'A page', url: 'https://docs.example/base/page.html', snippet: 'The sluice' },
  ]);
  t.same(await find('menu'), []);
  t.same(await find('penstock'), [
    {
      title: 'Only a heading',
      url: 'https://docs.example/base/heading.htm',
      snippet: 'Only a heading penstock',
    },
  ]);
  t.same(await find('weir'), [
    { title: 'notes.txt', url: 'https://docs.example/base/notes.txt', snippet: 'The weir needs paint.' },
  ]);
  t.equal((await find('tailrace'))[0]?.title, 'UPPER.MD');
});

t.test('front matter names title, date, source, URL and image', async (t) => {
  const { find } = library(
    t.testdir({
      'post.md':
        '---\ntitle: Named above\ndate: 2026-11-02\nsource: Daily\nurl: https://blog.example/post\nimage: https://blog.example/i.png\n---\n# Heading\ntext of the flume\n',
      'broken.md': '---\ntitle: [unclosed\n---\n# Still read\nflume\n',
      'rule.md': '---\nno front matter, a line of the flume',
    }),
  );
  const hits = await find('flume');
  t.same(hits.map(({ title }) => title).toSorted(), ['Named above', 'Still read', 'rule.md']);
  t.same(
    hits.find(({ title }) => title === 'Named above'),
    {
      title: 'Named above',
      url: 'https://blog.example/post',
      snippet: 'Heading text of the flume',
      publishedAt: '2026-11-02',
      source: 'Daily',
      imageUrl: 'https://blog.example/i.png',
    },
  );
});

t.test('records of JSONL are documents of their own, for news and images too', async (t) => {
  const lines = [
    { url: 'https://a.example/1', title: 'One', text: 'turbine', published_at: '2026-11-01T10:00:00Z', source: 'A' },
    { url: 'https://a.example/2', title: 'Two', content: 'turbine', image_url: 'https://a.example/2.png', width: 800 },
    { title: 'Three', snippet: 'turbine' },
    { url: 'ftp://a.example/4', title: 'Four', text: 'turbine' },
    { url: 7, title: null, text: ['turbine'] },
  ].map((record) => JSON.stringify(record));
  const { find } = library(t.testdir({ 'r.jsonl': [lines[0], '{broken', '', '[1]', ...lines.slice(1)].join('\n') }));
  t.same((await find('turbine')).map(({ url }) => url).toSorted(), [
    'https://a.example/1',
    'https://a.example/2',
    'https://docs.example/base/r.jsonl#L6',
  ]);
  t.same(await find('turbine', 'news'), [
    { title: 'One', url: 'https://a.example/1', snippet: 'turbine', publishedAt: '2026-11-01T10:00:00Z', source: 'A' },
  ]);
  t.same(await find('turbine', 'images'), [
    { title: 'Two', url: 'https://a.example/2', snippet: 'turbine', imageUrl: 'https://a.example/2.png', width: 800 },
  ]);
});

t.test('documents with every word come before documents with some', async (t) => {
  const { find, titles } = library(
    t.testdir({
      'a.txt': 'canal canal canal canal',
      'b.txt': 'a lock in a canal, described at length with many other words around it',
      'c.txt': 'lock',
      'd.txt': 'nothing of it',
    }),
  );
  const found = await titles('lock canal');
  t.equal(found[0], 'b.txt');
  t.same(found.toSorted(), ['a.txt', 'b.txt', 'c.txt']);
  t.equal((await find('lock canal', 'web', 1)).length, 1);
  t.same(await titles(''), []);
  t.same(await titles('?!'), []);
});

t.test('words are found by their beginning, with a slip, without accents, and in scripts without spaces', async (t) => {
  const { find, titles } = library(
    t.testdir({
      'a.txt': 'Hydroelectricity of the Größe in Besançon',
      'b.txt': '多瑙河是欧洲第二长河',
      'c.txt': 'set snake_case_name',
      'd.txt': `${'วันนี้อากาศดีมาก'.repeat(5)}สวัสดีชาวโลก`,
      'e.txt': 'ພາສາລາວແມ່ນພາສາທີ່',
    }),
  );
  t.same(await titles('ชาวโลก'), ['d.txt']);
  t.same(await titles('ລາວ'), ['e.txt']);
  t.match((await find('ชาวโลก'))[0]?.snippet, 'ชาวโลก');
  t.same(await titles('hydroel'), ['a.txt']);
  t.same(await titles('hydroelektricity'), ['a.txt']);
  t.same(await titles('BESANCON grosse größe'), ['a.txt']);
  t.same(await titles('欧洲'), ['b.txt']);
  t.same(await titles('case_name'), ['c.txt']);
  t.same(await titles('set'), ['c.txt']);
});

t.test('titles weigh more than text', async (t) => {
  const { titles } = library(
    t.testdir({ 'a.md': '# Other\nspillway spillway', 'b.md': '# The spillway\nspillway and more' }),
  );
  t.same(await titles('spillway'), ['The spillway', 'Other']);
});

t.test('the snippet is the passage where most words of the query stand', async (t) => {
  const filler = 'lorem ipsum dolor sit amet '.repeat(40);
  const { find } = library(t.testdir({ 'a.txt': `pump here ${filler} the pump and the motor work ${filler} motor` }));
  const [hit] = await find('pump motor');
  const snippet = hit?.snippet ?? '';
  t.match(snippet, /^….*the pump and the motor work.*…$/);
  t.ok(snippet.length <= 302, `${snippet.length} characters`);
});

t.test('the snippet of text without spaces is well formed', async (t) => {
  const { find } = library(t.testdir({ 'a.txt': `${'😀'.repeat(400)}河${'😀'.repeat(400)}` }));
  const [hit] = await find('河');
  t.ok(hit?.snippet.includes('河'));
  t.ok(hit?.snippet.isWellFormed());
});

t.test('changes are seen at the next query after the pause', async (t) => {
  const { titles, write, later, folder } = library(t.testdir({ 'a.txt': 'alpha', sub: { 'b.txt': 'alpha' } }));
  t.same((await titles('alpha')).toSorted(), ['a.txt', 'b.txt']);
  write('c.txt', 'alpha');
  t.equal((await titles('alpha')).length, 2, 'too soon to look');
  later();
  t.equal((await titles('alpha')).length, 3);
  write('a.txt', 'changed to omega');
  renameSync(join(folder, 'sub/b.txt'), join(folder, 'sub/moved.txt'));
  unlinkSync(join(folder, 'c.txt'));
  later();
  t.same(await titles('alpha'), ['moved.txt']);
  t.same(await titles('omega'), ['a.txt']);
});

t.test('queries at the same time share one look', async (t) => {
  const { titles } = library(t.testdir({ 'a.txt': 'alpha' }));
  const found = await Promise.all(Array.from({ length: 20 }, () => titles('alpha')));
  t.ok(found.every((list) => list.length === 1));
});

t.test('hidden names and links that lead out are not read', async (t) => {
  const outside = t.testdir({
    'secret.txt': 'treasure',
    folder: {
      '.hidden.txt': 'treasure',
      '.git': { 'x.txt': 'treasure' },
      real: { 'inside.txt': 'treasure' },
      'plain.txt': 'treasure',
    },
  });
  const folder = join(outside, 'folder');
  symlinkSync('../secret.txt', join(folder, 'out.txt'));
  symlinkSync(outside, join(folder, 'up'));
  symlinkSync(folder, join(folder, 'loop'));
  symlinkSync('nowhere.txt', join(folder, 'dangling.txt'));
  symlinkSync('.git/x.txt', join(folder, 'mounted.txt'));
  mkdirSync(join(folder, 'directory.txt'));
  const { titles, later } = library(folder);
  t.same((await titles('treasure')).toSorted(), ['inside.txt', 'mounted.txt', 'plain.txt']);
  unlinkSync(join(folder, 'plain.txt'));
  symlinkSync('../secret.txt', join(folder, 'plain.txt'));
  later();
  t.same((await titles('treasure')).toSorted(), ['inside.txt', 'mounted.txt'], 'a link in the place of a file');
});

t.test('a folder that merely begins with the same name is outside', async (t) => {
  const parent = t.testdir({ docs: {}, 'docs-private': { 'x.txt': 'treasure' } });
  symlinkSync('../docs-private/x.txt', join(parent, 'docs/x.txt'));
  t.same(await library(join(parent, 'docs')).titles('treasure'), []);
});

t.test('limits leave out the same files every time, and the operator is told once', async (t) => {
  const folder = t.testdir({ 'a.txt': 'alpha', 'b.txt': 'alpha', 'c.txt': 'alpha' });
  const few = library(folder, { maxFiles: 2 });
  t.same((await few.titles('alpha')).toSorted(), ['a.txt', 'b.txt']);
  few.later();
  t.same((await few.titles('alpha')).toSorted(), ['a.txt', 'b.txt']);
  t.same(few.notices, ['1 file is not searched: more than maxFiles or maxBytes, or above 256 MiB']);
  const small = library(folder, { maxBytes: 10 });
  t.same((await small.titles('alpha')).toSorted(), ['a.txt', 'b.txt']);
});

t.test(
  'a folder that is missing fails the query until it is there, and keeps what was read when it goes',
  async (t) => {
    const folder = join(t.testdir({}), 'late');
    const { find, titles, notices, later, write } = library(folder);
    await t.rejects(find('alpha'), { name: 'EngineError', failure: 'invalid' });
    t.same(notices, ['the folder cannot be read']);
    mkdirSync(folder);
    write('a.txt', 'alpha');
    t.same(await titles('alpha'), ['a.txt']);
    rmSync(folder, { recursive: true });
    later();
    t.same(await titles('alpha'), ['a.txt']);
    t.equal(notices.length, 2);
  },
);

t.test('nobody is answered who waits no more', async (t) => {
  const engine = local({ path: t.testdir({ 'a.txt': 'alpha' }) });
  const query = { query: 'alpha', type: 'web', maxResults: 1 } as const;
  await t.rejects(engine.search(query, AbortSignal.abort()), { name: 'AbortError' });
  t.equal((await engine.search(query, SIGNAL))[0]?.url, 'http://local.invalid/a.txt');
});

t.test('hostile files cost little and break nothing', async (t) => {
  const marks = ['[', '![', '](', '*', '`', '|', '#', '-', '> ', '<', '&', '\t', '_', '~~', '[a]: '];
  const files = Object.fromEntries(marks.map((mark, index) => [`m${index}.md`, `flume\n${mark.repeat(50_000)}x`]));
  const folder = t.testdir({
    ...files,
    'deep.html': `flume${'<svg>'.repeat(200_000)}`,
    'blob.txt': `flume ${'x'.repeat(200_000)}`,
    'bytes.txt': Buffer.from([0xff, 0xfe, 0x00, 0x20, 0x66, 0x6c, 0x75, 0x6d, 0x65, 0x0b]).toString('latin1'),
  });
  writeFileSync(join(folder, 'invalid.txt'), Buffer.from([0xff, 0xc0, 0x20, 0x66, 0x6c, 0x75, 0x6d, 0x65]));
  const { find } = library(folder);
  const started = process.cpuUsage();
  const hits = await find('flume', 'web', 100);
  t.equal(hits.length, marks.length + 4);
  t.ok(hits.every(({ title, snippet }) => !/\p{Cc}/u.test(title + snippet)));
  t.same(await find('x'.repeat(1000)), []);
  t.equal((await find('flume '.repeat(10_000), 'web', 100)).length, marks.length + 4);
  t.ok(process.cpuUsage(started).user < 5_000_000, `${process.cpuUsage(started).user / 1e6} s`);
});

t.test('files of any size leave the thread to searches', async (t) => {
  const turnsOf = async (content: string): Promise<{ readonly turns: number; readonly documents: number }> => {
    const collection = new Collection(local({ path: t.testdir({ 'a.jsonl': content }) }).folder);
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      if (isOver) return;
      turns++;
      setImmediate(turn);
    };
    turn();
    await collection.refresh();
    isOver = true;
    return { turns, documents: collection.find({ query: 'weir jsonl', type: 'web', maxResults: 1e6 }).length };
  };
  for (const [line, expected] of [['x', 0], ['{}', 0], ['{"title":"weir"}', 20_000]] as const) {
    const { documents, turns } = await turnsOf(`${line}\n`.repeat(20_000));
    t.equal(documents, expected, line);
    t.ok(turns >= 40, `${turns} turns for ${line}`);
  }
  const { find, titles } = library(t.testdir({ 'a.md': `# Weir\n${'[](x)\n'.repeat(700_000)}flume` }));
  t.same(await titles('weir'), ['Weir']);
  t.same(await find('flume'), [], 'only the beginning of a longer file is read');
}); // oxfmt-ignore

// Each took a minute, or had no end.
t.test('front matter of any kind costs no more than its length', async (t) => {
  const { titles } = library(
    t.testdir({
      'keys.md': `---\ntitle: Keys\n${Array.from({ length: 6000 }, (_, at) => `k${at}: v`).join('\n')}\n---\nflume`,
      'nested.md': `---\ntitle: Nested\n${'? '.repeat(5000)}x\n---\nflume`,
      'long.md': `---\ntitle: Long\n${'k: v\n'.repeat(50_000)}---\n# Flume`,
    }),
  );
  t.same((await titles('flume')).toSorted(), ['Flume', 'Keys', 'Nested']);
});

t.test('a word of a query has at most two slips, and one search finds every document', async (t) => {
  const { titles } = library(t.testdir({ 'a.txt': 'electroencephalographically of the weir', 'b.txt': 'weir' }));
  const search = receivedCalls(t, MiniSearch.prototype, 'search');
  t.same(await titles('elektroenzephalographically weir'), ['a.txt', 'b.txt']);
  t.equal(search().length, 1);
  t.same(await titles('elektroenzefalografically'), []);
  t.same(await titles('½ WEIR weir'), ['b.txt', 'a.txt']);
});

t.test('a folder that is forgotten is read no further, and answers nobody', async (t) => {
  const path = t.testdir({ 'a.jsonl': '{"title":"weir"}\n'.repeat(20_000) });
  const { folder } = local({ path });
  const collection = new Collection(folder);
  const refreshed = collection.refresh();
  setImmediate(() => collection.close());
  await refreshed;
  t.same(collection.find({ query: 'weir', type: 'web', maxResults: 1 }), []);
  const indexed = new IndexedFolder(folder, { clock: createManualClock() });
  const found = indexed.find({ query: 'weir', type: 'web', maxResults: 1 });
  indexed.close();
  await t.rejects(found, { name: 'EngineError', failure: 'invalid' });
});

t.test('no file is read that takes the place of a listed one', async (t) => {
  const parent = t.testdir({ outside: { 'a.txt': 'treasure' }, folder: { sub: { 'a.txt': 'weir' } } });
  const root = join(parent, 'folder');
  const { files } = await listFolder(root, { maxFiles: 10, maxBytes: 2 ** 30 });
  t.equal(await readText(files[0] as FolderFile), 'weir');
  renameSync(join(root, 'sub'), join(root, '.sub'));
  symlinkSync('../outside', join(root, 'sub'));
  t.equal(await readText(files[0] as FolderFile), undefined);
});

t.test('a file that makes no string is not read again and again', async (t) => {
  const folder = t.testdir({ 'a.txt': 'weir', 'b.txt': '' });
  truncateSync(join(folder, 'b.txt'), 2 ** 28 + 1);
  const { files, leftOut } = await listFolder(folder, { maxFiles: 10, maxBytes: 2 ** 40 });
  t.same([files.map(({ path }) => path), leftOut], [['a.txt'], 1]);
});

t.test('a title may be underlined in files of any system', async (t) => {
  const { titles } = library(t.testdir({ 'a.md': 'The weir\r\n========\r\ntext\r\n' }));
  t.same(await titles('weir'), ['The weir']);
});

t.test('slow queries of one account do not keep those of another waiting', async (t) => {
  const running: { readonly query: string; readonly end: (hits: readonly EngineHit[]) => void }[] = [];
  const indexes: LocalIndexes = {
    find: (_folder, { query }) => new Promise((resolve) => void running.push({ query, end: resolve })),
  };
  const { engines } = configureEngines({ docs: { kind: 'local', path: '/nowhere' } }, () => 0, { indexes });
  const b = setUpClient(() => FOUND, engines[0]);
  const deadlineMs = b.clock.now() + 10_000;
  for (let at = 0; at < 8; at++) startSearch(b.client, deadlineMs, { query: `slow ${at}` }, 'one');
  startSearch(b.client, deadlineMs, { query: 'quick' }, 'other');
  await b.settle();
  for (const { end } of [...running]) end([]);
  await b.settle();
  t.same(
    running.map(({ query }) => query),
    ['slow 0', 'slow 1', 'slow 2', 'quick'],
  );
});

t.test('finds documents of the domains only, and page after page', async (t) => {
  const record = (at: number, host: string): string =>
    JSON.stringify({ title: `T${at}`, text: 'weir', url: `https://${host}/${at}` });
  const lines = Array.from({ length: 9 }, (_, at) => record(at, at % 3 === 0 ? 'a.example' : 'b.example'));
  const folder = t.testdir({ 'all.jsonl': lines.join('\n') });
  const indexed = new IndexedFolder(local({ path: folder }).folder, { clock: createManualClock() });
  const urls = async (more: object): Promise<string[]> => {
    const found = await indexed.find({ query: 'weir', type: 'web', maxResults: 2, ...more });
    return found.map(({ url }) => url);
  };
  const all = await urls({ maxResults: 100 });
  t.equal(all.length, 9);
  t.same(await urls({ page: 2 }), all.slice(2, 4));
  t.same(await urls({ page: 5 }), all.slice(8));
  t.same(await urls({ page: 6 }), []);
  const filters = { includeDomains: ['a.example'] };
  t.same(
    (await urls({ filters, maxResults: 10 })).toSorted(),
    [0, 3, 6].map((at) => `https://a.example/${at}`),
  );
  t.equal((await urls({ filters: { excludeDomains: ['a.example'] }, maxResults: 10 })).length, 6);
});
