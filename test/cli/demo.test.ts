import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { runCli, startCli } from '../support/system-cli.ts';

const run = promisify(execFile);

t.test('the lines it prints run as printed', async (t) => {
  const cli = startCli(t, ['demo', '--port', '0', '--admin-port', '0']);
  await cli.shows(/Ctrl-C ends it/);
  const lines = cli.stdout.split('\n').filter((line) => line.startsWith('  curl '));
  t.equal(lines.length, 4);
  // The lines stay as they are: what to print besides is curl's own configuration.
  const home = t.testdir({ '.curlrc': 'silent\nshow-error\nmax-time = 20\nwrite-out = "\\nstatus %{http_code}"\n' });
  const answers = await Promise.all(
    lines.map((line) => run('bash', ['-c', line], { env: { PATH: process.env['PATH'], CURL_HOME: home, HOME: home } })),
  );
  for (const { stdout } of answers) t.match(stdout, /\nstatus 200$/);
  const [chat, stream, models, health] = answers.map(({ stdout }) => stdout);
  t.match(chat, /"object":"chat.completion"/);
  t.match(stream, /data: \[DONE\]/);
  t.match(models, /"id":"atlas-27b".*"id":"finch-3b"/);
  t.match(health, /"status":"ok"/);
  const [, metricsUrl = '', docsUrl = ''] = await cli.shows(/metrics at (\S+), docs at (\S+)/);
  t.match(await (await fetch(metricsUrl)).text(), /^headrace_requests_total\{/m);
  t.equal((await fetch(docsUrl)).status, 200);
  cli.signal('SIGINT');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.equal(cli.stderr, '', 'nothing to warn of');
});

t.test('a port that is taken: a sentence, what to do about it, and exit 1', async (t) => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  t.teardown(() => holder.close());
  const { port } = holder.address() as AddressInfo;
  for (const args of [
    ['--port', String(port), '--admin-port', '0'],
    ['--port', '0', '--admin-port', String(port)],
  ]) {
    const cli = await runCli(t, ['demo', ...args]);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.match(
      cli.stderr,
      new RegExp(`^headrace cannot start: cannot listen on 127\\.0\\.0\\.1:${port}: the port is taken\n.*--port N`),
    );
    t.equal(cli.stdout, '');
  }
});
