// `headrace tail`: the last requests and those that end, filters, JSON, and what it refuses.

import t, { type Test } from 'tap';
import { lineOf } from '../../src/cli/tail.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { LoggedRequest } from '../../src/telemetry/request-log.ts';
import { runCli, startCli } from '../support/cli.ts';
import { site } from '../support/site.ts';
import { chat, settingsFor, startHosts, until } from '../support/system.ts';

const TOKEN = 'sesame';

async function open(t: Test): Promise<{ admin: string; ask: (id: string, model?: string) => Promise<void> }> {
  const hosts = await startHosts(t);
  const gateway = createGateway(settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: TOKEN }));
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  const ask = async (id: string, model?: string): Promise<void> => {
    const more = model === undefined ? {} : { model };
    await (await chat(url, { ...more, headers: { 'x-request-id': id } })).text();
  };
  return { admin: adminUrl ?? '', ask };
}

t.test('the last requests, and then each as it ends', async (t) => {
  const { admin, ask } = await open(t);
  for (const id of ['one', 'two', 'three']) await ask(id);
  const cli = startCli(t, ['tail', '--admin', admin, '--lines', '2'], { env: { HEADRACE_ADMIN_TOKEN: TOKEN } });
  const ids = (): string[] =>
    cli.stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split('  ').at(-1) ?? '');
  await until('two', () => ids().join() === 'two,three');
  await ask('four');
  await ask('five', 'unknown\u001b[2J');
  await until('all', () => ids().join() === 'two,three,four,five');
  t.match(cli.stdout, /^\S+Z {2}200 {2}.*\/v1\/chat\/completions {2}atlas-27b {2}tests {2}http:\S+ {2}four$/m);
  t.match(
    cli.stdout,
    /404 .*unknown model unknown\?\[2J .*HR_ROUTE_UNKNOWN_MODEL {2}five$/m,
    'nothing that a terminal obeys',
  );
  cli.signal('SIGINT');
  t.same([(await cli.exited).code, cli.stderr], [0, '']);
});

t.test('filters and JSON', async (t) => {
  const { admin, ask } = await open(t);
  await ask('good');
  await ask('bad', 'none');
  const run = async (...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> => {
    const cli = await runCli(t, ['tail', '--once', '--admin', admin, '--token', TOKEN, ...args]);
    return { code: cli.exit.code, stdout: cli.stdout, stderr: cli.stderr };
  };
  t.match(JSON.parse((await run('--json', '--errors')).stdout), { requestId: 'bad', status: 404, alias: 'none' });
  t.match((await run('--status', '2xx')).stdout, /^[^\n]*good\n$/);
  t.match((await run('--search', 'GOOD', '--model', 'atlas-27b', '--account', 'tests')).stdout, /^[^\n]*good\n$/);
  t.equal((await run('--slower-than', '1h')).stdout, '');
  t.equal((await run('--lines', '0')).stdout, '');
  t.match(await run('--slower-than', '2'), { code: 1, stderr: /slowerThan must be a duration with its unit/ });
  t.match(await run('--lines', '501'), { code: 1, stderr: /--lines takes a number from 0 to 500/ });
  t.match(await run('--errors', '--status', '404'), { code: 1, stderr: /exclude each other/ });
  t.match(await run('--token', 'wrong'), { code: 1, stderr: /401: the admin token is wrong/ });
  t.match(await runCli(t, ['tail', '--admin', 'http://127.0.0.1:1']), { exit: { code: 1 }, stderr: /127\.0\.0\.1:1/ });
});

t.test('a line names attempts with their reasons', async (t) => {
  const row = {
    ...{ dateMs: 0, status: 200, aborted: true, durationMs: 1234, firstByteMs: 56, inputTokens: 3, outputTokens: 4 },
    ...{
      tokensPerSecond: 12,
      method: 'GET',
      endpoint: '/v1/models',
      path: null,
      model: null,
      alias: null,
      account: null,
    },
    ...{
      crn: null,
      attempts: 2,
      failures: [{ failure: 'connect', reason: 'connection refused' }],
      code: null,
      requestId: 'id',
    },
  } as unknown as LoggedRequest;
  t.equal(
    lineOf(row),
    '1970-01-01T00:00:00.000Z  200 client left  1.2 s  first byte 56 ms  3→4 tokens  12/s  GET /v1/models  –  –  –  ' +
      '2 attempts (connection refused)  id',
  );
});

t.test('what is no admin listener is a sentence', async (t) => {
  const { origin } = await site(t, { '/requests/log': (_, response) => response.end('{}') });
  const other = await runCli(t, ['tail', '--admin', origin, '--once']);
  t.match(other.stderr, /answers 200: is it the admin listener of a gateway\?\n$/);
  const none = await runCli(t, ['tail', '--admin', 'http://127.0.0.1:1', '--once']);
  t.match(none.stderr, /does not answer \(connection refused\)\n$/);
  t.same([other.exit?.code, none.exit?.code], [1, 1]);
});

t.test('the end does not wait for a gateway that does not answer', async (t) => {
  const asked = Promise.withResolvers<void>();
  const { origin } = await site(t, { '/requests/log': () => asked.resolve() });
  const cli = startCli(t, ['tail', '--admin', origin]);
  await asked.promise;
  cli.signal('SIGINT');
  t.same([await cli.ends(), cli.stderr], [{ code: 0, signal: null }, '']);
  t.equal(cli.handlers, 0);
});
