import { readdirSync } from 'node:fs';
import t from 'tap';
import { site } from '../support/site.ts';
import { runCli, startCli } from '../support/cli.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const PAGE = `<!doctype html><title>On weirs</title><main><h1>On weirs</h1>${'<p>A weir holds the <b>river</b> back in a dry month, and spills it in a wet one.</p>'.repeat(6)}</main>`;

t.test('prints title and text of a page and exits 0', async (t) => {
  const { origin, port } = await site(t, {
    '/': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
  });
  const may = ['--fetch.allow', '127.0.0.1', '--fetch.ports', String(port)];
  const before = process.cwd();
  const folder = temporaryFolder(t);
  process.chdir(folder);
  t.teardown(() => process.chdir(before));
  const text = await runCli(t, ['fetch', `${origin}/`, ...may]);
  t.strictSame(text.exit, { code: 0, signal: null });
  t.match(text.stdout, /^On weirs\n\n(?:.*\n)*A weir holds the river back/);
  t.equal(text.stderr, '');
  const markdown = await runCli(t, ['fetch', `${origin}/`, '--format', 'markdown', ...may]);
  t.match(markdown.stdout, 'A weir holds the **river** back');
  const json = await runCli(t, ['fetch', `${origin}/`, '--json', 'true', ...may]);
  t.match(JSON.parse(json.stdout), { url: `${origin}/`, title: 'On weirs', word_count: Number });
  const links = await runCli(t, ['fetch', `${origin}/`, '--include', 'links', ...may]);
  t.match(JSON.parse(links.stdout), { links: Array });
  const piece = await runCli(t, ['fetch', `${origin}/`, '--max-chars', '100', '--images', 'true', ...may]);
  const { content, images, next_start: next } = JSON.parse(piece.stdout) as Record<string, any>;
  t.same(images, []);
  const rest = await runCli(t, ['fetch', `${origin}/`, '--start', String(next), ...may]);
  const body = (output: string): string => output.slice('On weirs\n\n'.length);
  t.equal(`${content}${body(rest.stdout)}`, body(text.stdout), 'pieces are the whole content');
  t.same(readdirSync(folder), [], 'no ledger is made, and none is opened that is there');
});

t.test('says in a sentence why there is no text, and exits 1', async (t) => {
  const { origin } = await site(t, {});
  for (const [args, sentence] of [
    [[`${origin}/`], /may not be fetched: .*; --fetch\.allow HOST permits it/],
    [['no-url'], /valid URL/],
    [[`${origin}/`, '--format', 'pdf'], /'text', 'markdown' or 'html'/],
    [[`${origin}/`, '--fetch.tiemout', '1s'], /did you mean --fetch\.timeout/],
    [[], /missing required argument 'url'/],
    [['http://one.example/', 'http://two.example/'], /too many arguments: http:\/\/two\.example\//],
  ] as const) {
    const { exit, stderr, stdout } = await runCli(t, ['fetch', ...args]);
    t.equal(exit.code, 1, args.join(' '));
    t.match(stderr, sentence);
    t.equal(stdout, '');
  }
});

t.test('the first SIGINT cancels the fetch; a second one is left to the process', async (t) => {
  const asked = Promise.withResolvers<void>();
  const { origin, port } = await site(t, { '/': () => asked.resolve() });
  const cli = startCli(t, ['fetch', `${origin}/`, '--fetch.allow', '127.0.0.1', '--fetch.ports', String(port)]);
  await asked.promise;
  cli.signal('SIGINT');
  t.equal(cli.handlers, 0);
  t.equal((await cli.ends()).code, 1);
});
