// The start file `bin/headrace.js`, and every command once as the process that users start.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { serveBy } from '../support/cli.ts';
import { site } from '../support/site.ts';
import { settingsFor, startHosts, within } from '../support/system.ts';
import { BIN, runCli, type SpawnedCli, startCli, startServe } from '../support/system-cli.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const run = promisify(execFile);

const ENDED = { code: 0, signal: null };

/** Preloaded code that makes Node claim another version. */
function claiming(node: string): string[] {
  const code = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${node}' } });`;
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
}

for (const version of ['20.20.0', '22.12.0', '22.18.0', '23.11.1']) {
  t.test(`Node.js ${version} gets a message of one sentence`, async (t) => {
    const sentence = `headrace needs Node.js 22.19 or newer, except 23; this is ${version}.`;
    const cli = await runCli(t, ['demo'], { execArgv: claiming(version) });
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.equal(cli.stderr, `${sentence}\n`);
    t.equal(cli.stdout, '');
  });
}

for (const version of ['22.19.0', '24.0.0', '26.0.0']) {
  t.test(`Node.js ${version} starts`, async (t) => {
    const cli = await runCli(t, ['--version'], { execArgv: claiming(version) });
    t.strictSame(cli.exit, ENDED);
    t.match(cli.stdout, /^headrace \d+\.\d+\.\d+\n$/);
  });
}

/** Prints the version with nothing but `env` in the environment, where tests have a folder for compiled code. */
const printVersion = (env: Readonly<Record<string, string>>): ReturnType<typeof run> =>
  run('env', [
    '-i',
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    process.execPath,
    BIN,
    '--version',
  ]);

t.test('compiled code is kept in a folder of the user alone', async (t) => {
  const home = t.testdir({ caches: {}, own: {} });
  for (const [env, folder] of [
    [{ HOME: home }, join(home, '.cache', 'headrace')],
    [{ HOME: '/nonexistent', XDG_CACHE_HOME: join(home, 'caches') }, join(home, 'caches', 'headrace')],
  ] as const) {
    await printVersion(env);
    t.equal(statSync(folder).mode & 0o777, 0o700);
    t.ok(readdirSync(folder).length > 0, 'something is kept');
  }
  const own = join(home, 'own');
  await printVersion({ HOME: own, NODE_COMPILE_CACHE: join(own, 'here') });
  t.same(readdirSync(own), ['here'], 'in the one that is named');
});

for (const HOME of ['/nonexistent', '/dev/null', '/proc']) {
  t.test(`no compiled code is kept with ${HOME} as home`, async (t) => {
    const temporary = temporaryFolder(t);
    t.match(await printVersion({ HOME, TMPDIR: temporary }), { stdout: /^headrace /, stderr: '' });
    t.same(readdirSync(temporary), [], 'nor where others may write');
  });
}

t.test('a store that cannot be opened is named in the log', async (t) => {
  const hosts = await startHosts(t);
  const extra = { threads: 0, store: 'sqlite:./notes.txt' };
  const folder = t.testdir({
    'headrace.json': JSON.stringify(settingsFor(hosts, { ...extra, log: { level: 'error' } })),
    'notes.txt': 'no database\n'.repeat(99),
  });
  const cli = startCli(t, ['serve', '--config', `${folder}/headrace.json`], { env: { HEADRACE_STORE: '' } });
  await cli.complains(/the store could not be opened.*\n/);
  t.match(cli.log[0], { store: `sqlite:${folder}/notes.txt`, problem: 'file is not a database' });
});

t.test('a mistake of the command line is one sentence and exit code 1', async (t) => {
  const cli = await runCli(t, ['serve']);
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.equal(
    cli.stderr,
    'headrace: required option \'-c, --config <file>\' not specified\nRun "headrace serve --help" for usage.\n',
  );
});

t.test('output that cannot be written is a failure, output that nobody reads any more is none', async (t) => {
  const headrace = `"${process.execPath}" "${BIN}"`;
  const full = 'headrace: standard output is incomplete: it cannot be written (ENOSPC)\n';
  const { adminUrl, url } = await startServe(t, await startHosts(t), { threads: 0 });
  await (await fetch(`${url}/v1/models`)).text();
  for (const [command, code, stderr] of [
    ['serve --help > /dev/full', 1, full],
    [`tail --once --admin ${adminUrl} > /dev/full`, 1, full],
    [`top --once --admin ${adminUrl} > /dev/full`, 1, full],
    [`top --admin ${adminUrl} | head -1 > /dev/null; exit \${PIPESTATUS[0]}`, 0, ''],
    // The reader has left before anything is written.
    ['serve --help | true; exit ${PIPESTATUS[0]}', 0, ''],
  ] as const) {
    const ended = await run('bash', ['-c', `${headrace} ${command}`]).catch(
      (error: { code: number; stderr: string }) => error,
    );
    t.match({ code: 0, ...ended }, { code, stderr });
  }
});

t.test('SIGTERM ends mcp though its client reads nothing', async (t) => {
  // A store in the folder where it is started, which it does not use.
  const folder = t.testdir({ 'headrace.db': '', conf: { 'headrace.yaml': 'search: {}\n' } });
  const child = spawn(process.execPath, [BIN, 'mcp', '--config', 'conf/headrace.yaml'], {
    ...{ cwd: folder, stdio: ['pipe', 'pipe', 'ignore'], env: { PATH: process.env['PATH'] } },
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  // Lists of tools for more than the pipe takes; the first shows that the command listens.
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'.repeat(2000));
  await once(child.stdout, 'readable');
  child.kill('SIGTERM');
  t.same(await within('the end of the command', ended, 10_000), [0, null]);
});

t.test(
  'serve prints the ready lines to standard output and nothing else; logs are JSON on standard error',
  async (t) => {
    const hosts = await startHosts(t);
    const { cli, url, adminUrl } = await startServe(t, hosts, { threads: 1 });
    t.equal((await fetch(`${url}/health`)).status, 200);
    t.equal((await fetch(`${adminUrl}/health`)).status, 200);
    cli.signal('SIGTERM');
    t.strictSame(await cli.ends(), { code: 0, signal: null });
    t.match(
      cli.stdout,
      /^headrace listening on http:\/\/127\.0\.0\.1:[1-9]\d*\nadmin on http:\/\/127\.0\.0\.1:[1-9]\d*\n$/,
    );
    t.not(new URL(url).port, new URL(adminUrl).port);
    const lines = cli.stderr.trimEnd().split('\n');
    t.equal(cli.log.length, lines.length, 'every line of the log is JSON');
    for (const line of cli.log) t.match(line, { name: 'headrace', level: Number, msg: String });
  },
);

/** Preloaded code that sends SIGHUP as soon as the start file has seen to it. */
const HANGUP = `import { syncBuiltinESMExports } from 'node:module';
const v8 = process.getBuiltinModule('node:v8');
v8.setFlagsFromString = () => process.kill(process.pid, 'SIGHUP');
syncBuiltinESMExports();`;

t.test('SIGHUP before the configuration is read ends no command that reloads at it', async (t) => {
  const execArgv = ['--import', `data:text/javascript,${encodeURIComponent(HANGUP)}`];
  const cli = await runCli(t, ['--config', '/nowhere.yaml', 'picker'], { execArgv });
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(cli.stderr, /nowhere\.yaml: does not exist/);
});

t.test('the gateway runs without helper threads for the collector, in the process that was started', async (t) => {
  const hosts = await startHosts(t);
  // Options may stand before the command.
  const start = ([name = '', ...options]: readonly string[]): SpawnedCli => startCli(t, [...options, name]);
  const { cli } = await serveBy(start, t, hosts, { threads: 1 });
  const command = readFileSync(`/proc/${cli.pid}/cmdline`, 'utf8').split('\0');
  t.equal(command[1], '--single-threaded-gc');
  const environment = readFileSync(`/proc/${cli.pid}/environ`, 'utf8').split('\0');
  t.ok(environment.includes('UV_THREADPOOL_SIZE=32'), 'silent name servers do not fill the pool');
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('top ends after one screen', async (t) => {
  const { adminUrl } = await startServe(t, await startHosts(t), { threads: 0 });
  const cli = await runCli(t, ['top', '--admin', adminUrl, '--once']);
  t.strictSame(cli.exit, ENDED, cli.stderr);
  t.match(cli.stdout, /^headrace \d\S+, ready, up /);
});

t.test('demo prints commands that run as printed', async (t) => {
  const cli = startCli(t, ['demo', '--no-browser', '--port', '0', '--admin-port', '0']);
  await cli.shows(/Ctrl-C ends it/);
  const lines = cli.stdout.split('\n').filter((line) => line.startsWith('  curl '));
  t.equal(lines.length, 6);
  // The lines stay as they are: what to print besides is curl's own configuration.
  const home = t.testdir({ '.curlrc': 'silent\nshow-error\nmax-time = 20\nwrite-out = "\\nstatus %{http_code}"\n' });
  const answers: string[] = [];
  // One after the other, as a person would: together they would hold up the slow engine beyond the soft deadline.
  for (const line of lines) {
    const env = { PATH: process.env['PATH'], CURL_HOME: home, HOME: home };
    answers.push((await run('bash', ['-c', line], { env })).stdout);
  }
  for (const answer of answers) t.match(answer, /\nstatus 200$/);
  const [chat, stream, search, page, models, health] = answers;
  t.match(chat, /"object":"chat.completion"/);
  t.match(stream, /data: \[DONE\]/);
  t.match(search, /"found_in":\["engine_a","engine_b"/, 'engines agree');
  t.match(search, /"engines_used":\[[^\]]*"engine_c"/, 'the slow engine is waited for');
  t.match(page, /"title":"Water levels"/);
  t.match(models, /"id":"atlas-27b".*"id":"finch-3b"/);
  t.match(health, /"status":"ok"/);
  const [, metricsUrl = '', docsUrl = ''] = await cli.shows(/metrics at (\S+), docs at (\S+)/);
  t.match(await (await fetch(metricsUrl)).text(), /^headrace_requests_total\{/m);
  t.equal((await fetch(docsUrl)).status, 200);
  cli.signal('SIGINT');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.equal(cli.stderr, '', 'nothing to warn of');
});

t.test('check, host, search-worker, bench and fetch work as processes', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': 'models: {}\n', 'weir.md': '# The weir\n' });
  const check = await runCli(t, ['check', '--config', join(folder, 'headrace.yaml')]);
  t.strictSame(check.exit, ENDED);
  t.match(check.stdout, /0 models on 0 servers/);

  const host = startCli(t, ['host', '--model', 'm', '--port', '0', '--ttft', '0', '--itl', '0']);
  const [, hostUrl = ''] = await host.shows(/^host of m listening on (\S+)\n/);
  const bench = await runCli(t, ['bench', hostUrl, '--model', 'm', '--requests', '4', '--json', '-']);
  t.strictSame(bench.exit, ENDED, bench.stderr);
  t.match(JSON.parse(bench.stdout), { counts: { ok: 4 } });
  host.signal('SIGTERM');
  t.strictSame(await host.ends(), ENDED);

  writeFileSync(join(folder, 'engine.json'), JSON.stringify({ path: folder }));
  const engine = ['--engine', 'local', '--config', join(folder, 'engine.json')];
  const worker = startCli(t, ['search-worker', ...engine, '--port', '0']);
  await worker.shows(/^search worker listening on http:\S+\n/);
  worker.signal('SIGTERM');
  t.strictSame(await worker.ends(), ENDED);

  const { origin, port } = await site(t, {
    '/': (_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<title>T</title><p>Some words.</p>'),
  });
  const may = ['--fetch.allow', '127.0.0.1', '--fetch.ports', String(port)];
  const fetched = await runCli(t, ['fetch', `${origin}/`, ...may]);
  t.match(fetched, { exit: ENDED, stdout: /^T\n\nSome words\./ });
});

t.test('keys, credits, usage and audit share a store from process to process', async (t) => {
  const where = ['--store', `sqlite:${temporaryFolder(t)}/accounts.db`];
  const headrace = async (...args: readonly string[]): Promise<string> => {
    const cli = await runCli(t, [...args, ...where]);
    t.strictSame(cli.exit, ENDED, cli.stderr);
    return cli.stdout;
  };
  t.match(await headrace('keys', 'create', '--create', '--account', 'acme', '--quiet'), /^hr_[\w-]{43}\n$/);
  t.match(await headrace('credits', 'grant', 'acme', '2.5'), /^granted 2\.50 USD /);
  t.match(await headrace('usage', '--by='), /^requests /);
  t.match(await headrace('audit'), /^sound: /);
});
