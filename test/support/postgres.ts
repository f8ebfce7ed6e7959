// A PostgreSQL of one's own for tests and benches: a cluster in a temporary folder on a free loopback port, started at
// the first call of a process and stopped at its end, or the server that HEADRACE_TEST_POSTGRES names. Each caller gets
// a database of its own. Without a server the tests fail; they are never left out quietly.

import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.ts';

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
function run(program: string, args: readonly string[], prefix: readonly string[] = []): void {
  const root = process.getuid?.() === 0;
  const [command = program, ...all] = [
    ...prefix,
    ...(root ? ['runuser', '-u', 'postgres', '--'] : []),
    ...[program, ...args],
  ];
  // A clean environment: the test runner's loader is for Node alone.
  execFileSync(command, all, {
    stdio: ['ignore', 'ignore', 'pipe'],
    cwd: tmpdir(),
    env: { PATH: process.env['PATH'] },
  });
}

/** A server of one's own, for tests that stop it. */
export interface PostgresServer {
  /** Of its database `postgres`. It stays the same over stops and starts. */
  readonly url: string;
  /** Stops it at once, as a crash does. */
  stop(): void;
  /** Starts it again on the same port, on its own data or on those of a backup. */
  start(backup?: string): void;
  /** Copies its data as they are now; answers with the folder. */
  backUp(): string;
}

/** Where a server runs, when not on loopback beside the test. */
export interface PostgresPlace {
  readonly address: string;
  readonly port: number;
  /** What runs a command there. */
  readonly prefix: readonly string[];
}

/** Starts a server, which ends with this process at the latest. */
export async function startPostgres(place?: PostgresPlace): Promise<PostgresServer> {
  const bin = serverFolder();
  const home = mkdtempSync(join(tmpdir(), 'headrace-postgres-'));
  if (process.getuid?.() === 0) execFileSync('chown', ['postgres', home]);
  chmodSync(home, 0o700);
  const data = join(home, 'data');
  const log = join(home, 'log');
  const { address, prefix } = place ?? { address: '127.0.0.1', prefix: [] };
  const port = place?.port ?? (await freePort());
  run(join(bin, 'initdb'), ['-D', data, '-U', 'headrace', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync']);
  if (place !== undefined) appendFileSync(join(data, 'pg_hba.conf'), 'host all all samenet trust\n');
  // The machine does not fail in a test, only processes do: nothing has to reach the disk.
  let running: string | undefined;
  let backups = 0;
  const stop = (): void => {
    if (running !== undefined) run(join(bin, 'pg_ctl'), ['-D', running, '-m', 'immediate', '-w', 'stop']);
    running = undefined;
  };
  const start = (folder: string = data): void => {
    const settings = `-p ${port} -c fsync=off -c listen_addresses=${address} -c unix_socket_directories=${home}`;
    try {
      run(join(bin, 'pg_ctl'), ['-D', folder, '-l', log, '-w', '-o', settings, 'start'], prefix);
    } catch (cause) {
      throw new Error(`PostgreSQL does not start: ${existsSync(log) ? readFileSync(log, 'utf8') : 'no log'}`, {
        cause,
      });
    }
    running = folder;
  };
  process.on('exit', () => {
    try {
      stop();
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });
  start();
  return {
    url: `postgres://headrace@${address}:${port}/postgres`,
    stop,
    start,
    backUp() {
      const folder = join(home, `backup-${++backups}`);
      const source = ['-h', '127.0.0.1', '-p', `${port}`, '-U', 'headrace'];
      run(join(bin, 'pg_basebackup'), [...source, '-D', folder, '-X', 'fetch', '-c', 'fast', '--no-sync']);
      return folder;
    },
  };
}

/** Where Debian installs PgBouncer. */
const PGBOUNCER = '/usr/sbin/pgbouncer';

/** Starts PgBouncer in transaction mode before the server of a database; answers with the URL through it, and an end. */
export async function startPgBouncer(database: string): Promise<{ readonly url: string; stop(): Promise<void> }> {
  if (!existsSync(PGBOUNCER)) throw new Error('This test needs PgBouncer: install the Debian package pgbouncer.');
  const url = new URL(database);
  const home = mkdtempSync(join(tmpdir(), 'headrace-pgbouncer-'));
  const port = await freePort();
  const name = url.pathname.slice(1);
  const config = join(home, 'pgbouncer.ini');
  writeFileSync(join(home, 'users.txt'), `"${url.username}" ""\n`);
  writeFileSync(
    config,
    `[databases]
${name} = host=${url.hostname} port=${url.port} dbname=${name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(home, 'users.txt')}
pool_mode = transaction
default_pool_size = 4
`,
  );
  const root = process.getuid?.() === 0;
  if (root) execFileSync('chown', ['-R', 'postgres', home]);
  const [command, args] = root ? ['runuser', ['-u', 'postgres', '--', PGBOUNCER, config]] : [PGBOUNCER, [config]];
  const child = spawn(command, args, {
    cwd: home,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'] },
  });
  const exited = once(child, 'exit');
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text;
      if (/process up/.test(log)) resolve();
    });
    child.on('exit', () => reject(new Error(`PgBouncer does not start: ${log}`)));
  });
  url.port = `${port}`;
  return {
    url: url.href,
    async stop() {
      child.kill('SIGTERM');
      await exited;
      rmSync(home, { recursive: true, force: true });
    },
  };
}

let server: Promise<string> | undefined;

/**
 * The URL of a new database on the server at `at`; default: the server of this process. It is empty, or a copy of the database
 * `template`, to which nobody may be connected.
 */
export async function postgresDatabase(at?: string, template?: string): Promise<string> {
  if (at === undefined)
    server ??= Promise.resolve(process.env['HEADRACE_TEST_POSTGRES'] ?? startPostgres().then(({ url }) => url));
  const url = new URL(at ?? ((await server) as string));
  // Processes that are started again and again load this file for SQLite alone.
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const name = `headrace_${randomBytes(6).toString('hex')}`;
  await client.query(`create database ${name}${template === undefined ? '' : ` template ${template}`}`);
  await client.end();
  url.pathname = `/${name}`;
  return url.href;
}
