import { truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { settingsFor, startHosts, until } from '../support/system.ts';
import { runCli, startCli } from '../support/cli.ts';

t.test('without an admin listener there is one line; SIGINT ends it too', async (t) => {
  const hosts = await startHosts(t);
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settingsFor(hosts, { admin: null, threads: 0 })) });
  const cli = startCli(t, ['serve', '--config', `${folder}/headrace.json`]);
  await cli.shows(/\n/);
  cli.signal('SIGINT');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.match(cli.stdout, /^headrace listening on \S+\n$/);
  t.equal(cli.stderr, '', 'log.level silent is silent');
});

t.test('flags win over the environment, the environment over the file', async (t) => {
  const hosts = await startHosts(t);
  const folder = t.testdir({
    'headrace.json': JSON.stringify(settingsFor(hosts, { servicePrefix: 'file', threads: 0 })),
  });
  const args = ['serve', '--config', `${folder}/headrace.json`, '--listingPrefix', 'flag', '--admin', 'null'];
  const env = { HEADRACE_SERVICE_PREFIX: 'environment', HEADRACE_LISTING_PREFIX: 'environment' };
  const cli = startCli(t, args, { env });
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  t.equal((await fetch(`${url}/environment/models`)).status, 200);
  t.equal((await fetch(`${url}/file/models`)).status, 404);
  t.not((await fetch(`${url}/flag/models`)).status, 404);
});

t.test('a wrong file: every mistake on standard error, exit 1', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': 'thread: 2\nlisten: nowhere\n' });
  const cli = await runCli(t, ['serve', '--config', `${folder}/headrace.yaml`]);
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(cli.stderr, /^headrace cannot start with .*headrace\.yaml:\n {2}\S+: .*\n {2}\S+: .*\n$/);
  t.equal(cli.stdout, '');
});

t.test('a store that cannot be made: its path and exit 1', async (t) => {
  const folder = t.testdir({ 'headrace.yaml': 'store: sqlite:./none/own.db\n' });
  const cli = await runCli(t, ['serve', '--config', `${folder}/headrace.yaml`], { env: { HEADRACE_STORE: '' } });
  t.strictSame(cli.exit, { code: 1, signal: null });
  t.match(
    cli.stderr,
    `  store: sqlite:${folder}/none/own.db cannot be made: ${folder}/none does not exist or is not writable`,
  );
});

for (const threads of [0, 1, 2]) {
  for (const listener of ['public', 'admin'] as const) {
    t.test(`a ${listener} port that is taken: a sentence and exit 1, with ${threads} threads`, async (t) => {
      const holder = createServer();
      await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
      t.teardown(() => holder.close());
      const taken = `127.0.0.1:${(holder.address() as AddressInfo).port}`;
      const own = listener === 'public' ? { listen: taken, admin: null } : { admin: taken };
      const folder = t.testdir({
        'headrace.json': JSON.stringify(settingsFor(await startHosts(t), { threads, ...own })),
      });
      const cli = await runCli(t, ['serve', '--config', `${folder}/headrace.json`]);
      t.strictSame(cli.exit, { code: 1, signal: null });
      const hint = listener === 'admin' ? ' (setting admin)' : '';
      t.equal(cli.stderr, `headrace cannot start: cannot listen on ${taken}: the port is taken${hint}\n`);
      t.equal(cli.stdout, '');
    });
  }
}

t.test('answers /health with 503 until every CRN has been judged', async (t) => {
  const hosts = await startHosts(t);
  await hosts[0]?.setFault([{ match: { path: '/health' }, fault: { hang: true } }]);
  const settings = settingsFor(hosts, { admin: null, threads: 1, health: { timeout: '60s', interval: '60s' } });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  const cli = startCli(t, ['serve', '--config', `${folder}/headrace.json`]);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  const early = await fetch(`${url}/health`);
  t.equal(early.status, 503);
  t.ok(early.headers.has('retry-after'));
  t.strictSame(await early.json(), { status: 'starting' });
  await hosts[0]?.kill();
  await until('ready', async () => (await fetch(`${url}/health`)).status === 200);
});

t.test('a signal before it is ready ends it with exit code 0', async (t) => {
  const settings = settingsFor(await startHosts(t), { admin: null, threads: 1 });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  const cli = startCli(t, ['serve', '--config', `${folder}/headrace.json`]);
  await until('handlers', () => cli.listensTo('SIGTERM'));
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.equal(cli.stdout + cli.stderr, '');
});

t.test('SIGHUP and a changed file before it is ready reload what was read', async (t) => {
  const hosts = await startHosts(t);
  for (const how of ['SIGHUP', 'change'] as const) {
    const file = `${t.testdir({ [how]: {} })}/${how}/headrace.json`;
    const write = (model: string): void => {
      const models = { [model]: { servers: hosts.map((host) => host.url) } };
      writeFileSync(file, JSON.stringify(settingsFor(hosts, { admin: null, threads: 1, models })));
    };
    write('before');
    const cli = startCli(t, ['serve', '--config', file]);
    await until('handlers', () => cli.listensTo('SIGTERM'));
    write('behind');
    if (how === 'SIGHUP') cli.signal('SIGHUP');
    const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
    await until('reloaded', async () => (await (await fetch(`${url}/v1/models`)).text()).includes('behind'));
    cli.signal('SIGTERM');
    t.strictSame(await cli.ends(), { code: 0, signal: null });
  }
});

t.test('a log or a disk image in the place of the configuration keeps the running one', async (t) => {
  const settings = settingsFor(await startHosts(t), { admin: null, threads: 0, log: { level: 'error' } });
  const folder = t.testdir({ 'headrace.yaml': JSON.stringify(settings) });
  const cli = startCli(t, ['serve', '--config', `${folder}/headrace.yaml`]);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  writeFileSync(`${folder}/headrace.yaml`, 'Nov 29 22:10:01 host app[12]: GET / {"a":1}\n'.repeat(200_000));
  await cli.complains(/the configuration is wrong: the running one stays/);
  const [{ mistakes = [] } = {}] = cli.log as { mistakes?: unknown[] }[];
  t.equal(mistakes.length, 100);
  truncateSync(`${folder}/headrace.yaml`, 2 ** 32);
  await cli.complains(/is larger than 16MiB/);
  cli.signal('SIGHUP');
  await until('the answer to SIGHUP', () => cli.log.length === 3);
  t.match(cli.log[2], { mistakes: [{ message: 'is larger than 16MiB' }] });
  t.equal((await fetch(`${url}/health`)).status, 200);
});

t.test('a reader of the ready line who leaves does not end it', async (t) => {
  const settings = settingsFor(await startHosts(t), { admin: null, threads: 0 });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  const cli = startCli(t, ['serve', '--config', `${folder}/headrace.json`]);
  const [, url = ''] = await cli.shows(/listening on (\S+)\n/);
  cli.unread();
  await until('ready', async () => (await fetch(`${url}/health`)).status === 200);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('a start that fails does not wait for timeouts.unready', async (t) => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  t.teardown(() => holder.close());
  const listen = `127.0.0.1:${(holder.address() as AddressInfo).port}`;
  const settings = settingsFor(await startHosts(t), { listen, admin: null, threads: 1, timeouts: { unready: '10m' } });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  t.strictSame((await runCli(t, ['serve', '-c', `${folder}/headrace.json`])).exit, { code: 1, signal: null });
});
