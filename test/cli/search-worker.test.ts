import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Cli, runCli, startCli } from '../support/cli.ts';
import { until } from '../support/system.ts';
import { ANSWER, finds, hangs, refusal, startService } from '../support/search-worker.ts';

const READY = /^search worker listening on (\S+)\n/;

/** Files of a test; returns the folder. */
const files = (t: Test, content: Readonly<Record<string, string>>): string => t.testdir({ ...content });

const search = (url: string, secret = ''): Promise<Response> =>
  fetch(`${url}/search`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(secret === '' ? {} : { authorization: `Bearer ${secret}` }) },
    body: JSON.stringify({ engine: 'engine_a', query: 'fish', max_results: 5, search_type: 'web' }),
  });

async function endsInOrder(t: Test, cli: Cli): Promise<void> {
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
}

t.test('serves an engine with the settings of a file, filled in from the environment', async (t) => {
  const service = await startService(t, finds);
  const folder = files(t, { 'engine.yaml': 'kind: searxng\nurl: ${SERVICE}\napiKey: ${SERVICE_KEY}\n' });
  const flags = ['--engine', 'searxng', '--port', '0', '--config', join(folder, 'engine.yaml')];
  const env = { SERVICE: service.url, SERVICE_KEY: 'k3y' };
  const cli = startCli(t, ['search-worker', ...flags, '--timeout', '5s', '--concurrency', '2'], { env });
  const [, url = ''] = await cli.shows(READY);
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  const answer = await search(url);
  t.equal(answer.status, 200);
  t.strictSame(await answer.json(), ANSWER);
  await endsInOrder(t, cli);
  t.equal(cli.stderr, '');
});

t.test('searches a folder that a file names along with the kind', async (t) => {
  const folder = files(t, { 'weir.md': '# The weir\n\nFish climb it.\n', '.engine.json': '' });
  writeFileSync(`${folder}/.engine.json`, JSON.stringify({ kind: 'local', path: '.' }));
  const cli = startCli(t, ['search-worker', '--port', '0', '--config', `${folder}/.engine.json`]);
  const [, url = ''] = await cli.shows(READY);
  await until('healthy', async () => (await fetch(`${url}/health`)).status === 200);
  t.match(await (await search(url)).json(), { results: [{ title: 'The weir' }] });
  await endsInOrder(t, cli);
});

t.test('asks for the secret of a file, or of the environment', async (t) => {
  const folder = files(t, { secret: 's3cret\n' });
  const own = ['search-worker', '--engine', 'duckduckgo', '--port', '0'];
  for (const [flags, env] of [
    [['--secret-file', join(folder, 'secret')], { HEADRACE_WORKER_SECRET: 'another' }],
    [[], { HEADRACE_WORKER_SECRET: 's3cret' }],
  ] as const) {
    const cli = startCli(t, [...own, ...flags], { env });
    const [, url = ''] = await cli.shows(READY);
    t.equal((await search(url)).status, 401);
    t.equal((await search(url, 'another')).status, 401);
    // Past the secret it is the body that is wrong.
    const headers = { authorization: 'Bearer s3cret', 'content-type': 'application/json' };
    t.equal((await fetch(`${url}/search`, { method: 'POST', headers, body: '{}' })).status, 422);
    await endsInOrder(t, cli);
    t.notMatch(cli.stdout + cli.stderr, /s3cret|another/);
  }
});

t.test('warns when others may reach it and no secret is named', async (t) => {
  const own = ['search-worker', '--engine', 'duckduckgo', '--listen', '0.0.0.0:0'];
  const open = startCli(t, own);
  await open.shows(READY);
  t.match(open.log, [{ level: 40, msg: /anyone who reaches the port can search/ }]);
  const guarded = startCli(t, own, { env: { HEADRACE_WORKER_SECRET: 's3cret' } });
  await guarded.shows(READY);
  t.same(guarded.log, []);
});

t.test('answers the searches in flight when it is told to end', async (t) => {
  const service = await startService(t, hangs);
  const folder = files(t, { 'engine.json': JSON.stringify({ url: service.url }) });
  const config = join(folder, 'engine.json');
  const cli = startCli(t, ['search-worker', '--engine', 'searxng', '--port', '0', '--config', config]);
  const [, url = ''] = await cli.shows(READY);
  const answer = search(url);
  const upstream = await service.next();
  cli.signal('SIGTERM');
  await until('closed', () =>
    fetch(`${url}/health`, { headers: { connection: 'close' } }).then(
      () => false,
      () => true,
    ),
  );
  t.ok(cli.running);
  upstream.end('{"results":[]}');
  t.strictSame(await (await answer).json(), { results: [] });
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('ends at once at a second signal', async (t) => {
  const service = await startService(t, hangs);
  const folder = files(t, { 'engine.json': JSON.stringify({ url: service.url }) });
  const config = join(folder, 'engine.json');
  const cli = startCli(t, ['search-worker', '--engine', 'searxng', '--port', '0', '--config', config]);
  const [, url = ''] = await cli.shows(READY);
  const answer = search(url);
  const left = once(await service.next(), 'close');
  cli.signal('SIGTERM');
  await until('closed', () =>
    fetch(`${url}/health`).then(
      () => false,
      () => true,
    ),
  );
  cli.signal('SIGTERM');
  await t.rejects(answer);
  await left;
  t.strictSame(await cli.ends(), { code: 130, signal: null });
});

t.test('a missing folder makes it unhealthy and is logged', async (t) => {
  const folder = files(t, { 'engine.yaml': 'path: ./nowhere\n' });
  const cli = startCli(t, ['search-worker', '--engine', 'local', '--port', '0', '--config', `${folder}/engine.yaml`]);
  const [, url = ''] = await cli.shows(READY);
  const health = await fetch(`${url}/health`);
  t.equal(health.status, 503);
  t.match(await health.json(), { status: 'starting', engine: 'local' });
  t.strictSame(await refusal(await search(url)), [502, 'invalid response', null]);
  await cli.complains(/the engine local cannot answer/);
  await endsInOrder(t, cli);
});

t.test('a port that is taken is a sentence and exit code 1', async (t) => {
  const service = await startService(t, finds);
  const port = new URL(service.url).port;
  const cli = await runCli(t, ['search-worker', '--engine', 'duckduckgo', '--port', port]);
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(cli.stderr, /^headrace cannot start: cannot listen on .*: the port is taken\n$/);
});

t.test('reports mistakes of options and files without their values', async (t) => {
  const folder = files(t, {
    'wrong.yaml': 'apiKey: "se cret"\n',
    'unset.yaml': 'apiKey: ${HEADRACE_NO_SUCH_KEY}\n',
    'broken.yaml': 'apiKey: "secret\n',
    'other.yaml': 'kind: exa\napiKey: secret\n',
    'list.yaml': '- secret\n',
    spaced: 'se cret',
    empty: '\n',
  });
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /required option '--engine <kind>' not specified/],
    [['--engine', 'nothing'], /engine nothing: is of an unknown kind; the kinds are worker, local, brave/],
    [['--engine', 'brave'], /engine brave: brave needs apiKey/],
    [['--engine', 'brave', '--config', `${folder}/wrong.yaml`], /apiKey must be visible ASCII/],
    [
      ['--engine', 'brave', '--config', `${folder}/unset.yaml`],
      /unset\.yaml: apiKey: .*HEADRACE_NO_SUCH_KEY, which is not set/,
    ],
    [['--engine', 'brave', '--config', `${folder}/broken.yaml`], /broken\.yaml:\d+:\d+: /],
    [['--engine', 'brave', '--config', `${folder}/other.yaml`], /other\.yaml is of another kind than brave/],
    [['--engine', 'brave', '--config', `${folder}/list.yaml`], /list\.yaml must be a mapping/],
    [['--engine', 'brave', '--config', `${folder}/none.yaml`], /none\.yaml cannot be read \(ENOENT\)/],
    [['--engine', 'duckduckgo', '--secret-file', `${folder}/spaced`], /the secret of .*spaced must be visible ASCII/],
    [['--engine', 'duckduckgo', '--secret-file', `${folder}/empty`], /the secret of .*empty must be/],
    [['--engine', 'duckduckgo', '--port', 'x'], /'x' is invalid\. It must be a port number/],
    [['--engine', 'duckduckgo', '--port', '70000'], /'70000' is invalid\. It must be a port number/],
    [['--engine', 'duckduckgo', '--listen', 'x'], /'x' is invalid\. It must be HOST:PORT/],
    [['--engine', 'duckduckgo', '--timeout', 'soon'], /'soon' is invalid\. It must be a duration/],
    [['--engine', 'duckduckgo', '--concurrency', '0'], /'0' is invalid\. It must be a whole number of 1 or more/],
    [['--engine', 'duckduckgo', '--secret', 's3cret'], /unknown option '--secret'/],
  ];
  for (const [words, complaint] of cases) {
    const { exit, stdout, stderr } = await runCli(t, ['search-worker', ...words]);
    t.strictSame([exit.code, stdout], [1, ''], words.join(' '));
    t.match(stderr, complaint);
    t.notMatch(stderr, /se cret|: secret|s3cret/);
  }
});

t.test('a wrong option is a sentence and exit code 1', async (t) => {
  const cli = await runCli(t, ['search-worker', '--engine', 'brave', '--port', '0']);
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(
    cli.stderr,
    /^headrace: engine brave: brave needs apiKey\nRun "headrace search-worker --help" for usage\.\n$/,
  );
});

t.test('-c names the settings of the engine', async (t) => {
  const cli = await runCli(t, ['search-worker', '-c', '/none.yaml']);
  t.equal(cli.exit.code, 1);
  t.match(cli.stderr, '/none.yaml cannot be read');
});
