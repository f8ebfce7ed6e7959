import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { runCli, startCli } from '../support/cli.ts';
import { until } from '../support/system.ts';

/** Why an engine is passed over that answers long after the others, as any may on a busy machine. */
const SLOW = 'slow';

t.test('its search shows partial failure within three calls, and papers for academic searches', async (t) => {
  const cli = startCli(t, ['demo', '--no-browser', '--port', '0', '--admin-port', '0']);
  await cli.shows(/Ctrl-C ends it/);
  const [, url = ''] = await cli.shows(/headrace demo: (\S+),/);
  const search = async (body: object): Promise<{ results: { url: string }[]; meta: Record<string, unknown> }> => {
    const headers = { authorization: 'Bearer hr_demo', 'content-type': 'application/json' };
    const response = await fetch(`${url}/search`, { method: 'POST', headers, body: JSON.stringify(body) });
    t.equal(response.status, 200);
    return (await response.json()) as { results: { url: string }[]; meta: Record<string, unknown> };
  };
  const engines = ['engine_a', 'engine_b', 'engine_c', 'engine_d', 'engine_e'];
  const errors: unknown[] = [];
  for (const query of ['weir', 'turbine', 'screen']) {
    const { meta, results } = await search({ query, engines });
    t.ok(results.length > 0);
    errors.push(...(meta['engine_errors'] as { reason: string }[]).filter(({ reason }) => reason !== SLOW));
  }
  t.same(errors, [{ engine: 'engine_d', reason: 'engine returned HTTP 500' }]);
  const academic = await search({ query: 'screen', engines: ['engine_a', 'engine_e'], search_type: 'academic' });
  t.match(academic.results[0], { url: 'https://papers.millrace.example/screen-losses' });
  t.match(academic.meta, { engine_errors: [{ engine: 'engine_a', reason: "unsupported search_type 'academic'" }] });
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
    const cli = await runCli(t, ['demo', '--no-browser', ...args]);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.match(
      cli.stderr,
      new RegExp(`^headrace cannot start: cannot listen on 127\\.0\\.0\\.1:${port}: the port is taken\n.*--port N`),
    );
    t.equal(cli.stdout, '');
  }
});

t.test('engines of a setting that have mistakes are refused', async (t) => {
  const engines = ['--search.engines', '{"a": {"kind": "nothing"}}'];
  const { exit, stderr } = await runCli(t, ['demo', '--no-browser', '--port', '0', '--admin-port', '0', ...engines]);
  t.equal(exit.code, 1);
  t.match(stderr, /^headrace: search\.engines\.a: is of an unknown kind/);
});

t.test('a signal before it is ready ends it with exit code 0', async (t) => {
  for (const signal of ['SIGINT', 'SIGHUP'] as const) {
    const cli = startCli(t, ['demo', '--no-browser', '--port', '0', '--admin-port', '0']);
    await until('handlers', () => cli.handlers > 0);
    cli.signal(signal);
    t.strictSame(await cli.ends(), { code: 0, signal: null });
    t.equal(cli.stdout + cli.stderr, '');
  }
});

t.test('where a part of it cannot start, what has started is closed', async (t) => {
  const { TMPDIR } = process.env;
  t.teardown(() => {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
  });
  // The browser has its profile there.
  process.env['TMPDIR'] = '/nonexistent/headrace';
  const cli = await runCli(t, ['demo', '--port', '0', '--admin-port', '0']);
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(cli.stderr, 'mkdtemp');
  t.notOk(process.getActiveResourcesInfo().includes('TCPServerWrap'));
});
