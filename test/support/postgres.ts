// A PostgreSQL of one's own for tests and benches: a cluster in a temporary folder on a free loopback port, started at
// the first call of a process and stopped at its end, or the server that HEADRACE_TEST_POSTGRES names. Each caller gets
// a database of its own. Without a server the tests fail; they are never left out quietly.

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

/** Where Debian keeps the servers of each version. */
const DEBIAN_HOME = '/usr/lib/postgresql';

function serverFolder(): string {
  const versions = existsSync(DEBIAN_HOME) ? readdirSync(DEBIAN_HOME).sort((a, b) => Number(b) - Number(a)) : [];
  const folder = versions
    .map((version) => join(DEBIAN_HOME, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'initdb')));
  if (folder !== undefined) return folder;
  throw new Error(
    'These tests need PostgreSQL: install the Debian package postgresql, or set HEADRACE_TEST_POSTGRES to the URL of a server where databases may be made.',
  );
}

/** Runs a program of the server; it refuses to run as root, so root hands it to the user postgres. */
function run(program: string, args: readonly string[]): void {
  const root = process.getuid?.() === 0;
  const [command, all] = root ? ['runuser', ['-u', 'postgres', '--', program, ...args]] : [program, [...args]];
  // A clean environment: the test runner's loader is for Node alone.
  execFileSync(command, all, {
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: tmpdir(),
    env: { PATH: process.env['PATH'] },
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('No free port');
  return address.port;
}

async function startCluster(): Promise<string> {
  const bin = serverFolder();
  const home = mkdtempSync(join(tmpdir(), 'headrace-postgres-'));
  if (process.getuid?.() === 0) execFileSync('chown', ['postgres', home]);
  chmodSync(home, 0o700);
  const data = join(home, 'data');
  const log = join(home, 'log');
  const port = await freePort();
  run(join(bin, 'initdb'), ['-D', data, '-U', 'headrace', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync']);
  // The machine does not fail in a test, only processes do: nothing has to reach the disk.
  const settings = `-p ${port} -c fsync=off -c listen_addresses=127.0.0.1 -c unix_socket_directories=${home}`;
  process.on('exit', () => {
    try {
      run(join(bin, 'pg_ctl'), ['-D', data, '-m', 'immediate', '-w', 'stop']);
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });
  try {
    run(join(bin, 'pg_ctl'), ['-D', data, '-l', log, '-w', '-o', settings, 'start']);
  } catch (cause) {
    throw new Error(`PostgreSQL does not start: ${existsSync(log) ? readFileSync(log, 'utf8') : 'no log'}`, { cause });
  }
  return `postgres://headrace@127.0.0.1:${port}/postgres`;
}

let server: Promise<string> | undefined;

/** The URL of a new, empty database. */
export async function postgresDatabase(): Promise<string> {
  server ??= Promise.resolve(process.env['HEADRACE_TEST_POSTGRES'] ?? startCluster());
  const url = new URL(await server);
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const name = `headrace_${randomBytes(6).toString('hex')}`;
  await client.query(`create database ${name}`);
  await client.end();
  url.pathname = `/${name}`;
  return url.href;
}
