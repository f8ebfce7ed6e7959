// A machine without uWebSockets.js, or for which it has no binary: the gateway's own server needs none, and with `server: uws` the
// gateway refuses to start.

import { fileURLToPath } from 'node:url';
import t from 'tap';
import { chat, readStream, startHosts } from '../support/system.ts';
import { runCli, startServe } from '../support/system-cli.ts';

const preloaded = (file: string): { execArgv: string[] } => ({
  execArgv: ['--import', fileURLToPath(new URL(`fixtures/${file}`, import.meta.url))],
});
const WITHOUT = preloaded('without-uws.js');
const UNINSTALLED = preloaded('uninstalled-uws.js');

const SERVER_UWS = '{"listen":"127.0.0.1:0","admin":null,"server":"uws","models":{}}';

for (const command of ['check', 'serve']) {
  t.test(`${command} names the package that server: uws needs`, async (t) => {
    const file = `${t.testdir({ 'headrace.json': SERVER_UWS })}/headrace.json`;
    const cli = await runCli(t, [command, '--config', file], UNINSTALLED);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.match(
      cli.stdout + cli.stderr,
      /^ {2}server: is uws, but the optional package uWebSockets\.js is not installed: run "npm install \S+"/m,
    );
  });
}

t.test('serves without the package', async (t) => {
  const hosts = await startHosts(t);
  const { cli, url } = await startServe(t, hosts, { threads: 1 }, UNINSTALLED);
  t.ok((await readStream(await chat(url, { stream: true }))).complete);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

for (const threads of [0, 1, 2]) {
  t.test(`serves with its own server, with ${threads} threads`, async (t) => {
    const hosts = await startHosts(t);
    const { cli, url } = await startServe(t, hosts, { threads }, WITHOUT);
    for (let round = 0; round < 8; round++) {
      t.ok((await readStream(await chat(url, { stream: true, headers: { connection: 'close' } }))).complete);
    }
    cli.signal('SIGTERM');
    t.strictSame(await cli.ends(), { code: 0, signal: null });
  });

  t.test(`refuses to start with server: uws and ${threads} threads`, async (t) => {
    const file = t.testdir({ 'headrace.json': SERVER_UWS });
    const cli = await runCli(t, ['serve', '--config', `${file}/headrace.json`, '--threads', String(threads)], WITHOUT);
    t.strictSame(cli.exit, { code: 1, signal: null });
    t.match(cli.stderr, /^headrace cannot start: .*no binary for this platform/m);
    t.equal(cli.stdout, '');
  });
}
