// Two gateways on one port (`sharePort`): a new one starts, the old one stops accepting and drains. Under a load of new connections
// no request is refused or broken.

import t, { type Test } from 'tap';
import { chat, readStream, SERVERS, settingsFor, startHosts, until } from '../support/system.ts';
import { startCli, type Cli } from '../support/system-cli.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../support/free-port.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** With it Linux hands connections that wait for a listener which closes to the other listeners of the port. */
const MIGRATION = '/proc/sys/net/ipv4/tcp_migrate_req';

/** Turns the migration on for the test where that is allowed. */
function migrates(t: Test): boolean {
  try {
    const before = readFileSync(MIGRATION, 'utf8').trim();
    if (before === '1') return true;
    writeFileSync(MIGRATION, '1');
    t.teardown(() => writeFileSync(MIGRATION, before));
    return true;
  } catch {
    return false;
  }
}

for (const server of SERVERS) {
  t.test(`${server}: a gateway takes over a port without a refused or broken request`, async (t) => {
    const isMigrating = migrates(t);
    const hosts = await startHosts(t);
    const [port, adminPort] = [await freePort(), await freePort()];
    const file = join(temporaryFolder(t), 'headrace.json');
    const settings = settingsFor(hosts, {
      ...{ listen: `127.0.0.1:${port}`, admin: `127.0.0.1:${adminPort}`, sharePort: true, threads: 2, server },
      log: { level: 'info' },
      timeouts: { unready: '300ms', drain: '10s' },
    });
    writeFileSync(file, JSON.stringify(settings));
    const url = `http://127.0.0.1:${port}`;
    const start = async (): Promise<Cli> => {
      const cli = startCli(t, ['serve', '--config', file]);
      await cli.shows(/^headrace listening on/m);
      return cli;
    };
    const ready = (): Promise<boolean> =>
      fetch(`${url}/health`, { headers: { connection: 'close' } }).then(
        ({ status }) => status === 200,
        () => false,
      );
    const old = await start();
    await until('the first is ready', ready);

    let isOver = false;
    let answered = 0;
    const wrong: unknown[] = [];
    const client = async (): Promise<void> => {
      while (!isOver) {
        const response = await chat(url, { headers: { connection: 'close' } }).catch((error: Error) => error.cause);
        if (response instanceof Response && response.status === 200) {
          await response.text();
          answered++;
        } else wrong.push(response instanceof Response ? response.status : response);
      }
    };
    const clients = Array.from({ length: 4 }, client);
    const held = chat(url, { stream: true, tokens: 300, headers: { 'x-headrace-sim': 'itl=5' } });
    await until('some answers', () => answered > 20);
    const next = await start();
    old.signal('SIGTERM');
    t.match(await old.ends(), { code: 0 });
    const before = answered;
    await until('more answers', () => answered > before + 20);
    isOver = true;
    await Promise.all(clients);
    // Without the migration, connections that nobody had accepted yet are reset: some, and never a wrong answer.
    if (isMigrating) t.same(wrong, []);
    else t.ok(wrong.length < 5 && wrong.every((reason) => reason instanceof Error), `${wrong.length} were reset`);
    t.match(await readStream(await held), { status: 200, complete: true }, 'a stream of the old one came to its end');
    await until('the new one has the admin port', () =>
      fetch(`http://127.0.0.1:${adminPort}/health`).then(
        (response) => response.ok,
        () => false,
      ),
    );
    next.signal('SIGTERM');
    t.match(await next.ends(), { code: 0 });
  });
}

t.test('the log tells once that the admin port is waited for, and that it was got', async (t) => {
  const holder = createServer();
  const port = await freePort();
  await new Promise<void>((resolve) => holder.listen(port, '127.0.0.1', resolve));
  const file = join(temporaryFolder(t), 'headrace.json');
  const admin = `127.0.0.1:${port}`;
  const listen = `127.0.0.1:${await freePort()}`;
  writeFileSync(
    file,
    JSON.stringify(settingsFor([], { listen, admin, sharePort: true, threads: 1, models: {}, log: { level: 'info' } })),
  );
  const cli = startCli(t, ['serve', '--config', file]);
  const lines = (text: string): number => cli.log.filter(({ msg }) => msg === text).length;
  await cli.shows(/^headrace listening on/m);
  const sinceMs = performance.now();
  await until('it has tried again', () => performance.now() - sinceMs > 1000);
  t.equal(lines('waiting for the admin port'), 1);
  t.equal(lines('admin listener started'), 0);
  await new Promise((resolve) => holder.close(resolve));
  await cli.complains(/admin listener started/);
  t.equal(lines('waiting for the admin port'), 1);
  t.equal((await fetch(`http://${admin}/health`)).status, 200);
  cli.signal('SIGTERM');
  t.match(await cli.ends(), { code: 0 });
  t.equal(lines('admin listener started'), 1);
});
