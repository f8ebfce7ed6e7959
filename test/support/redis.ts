// An engine of one's own for tests: redis-server or valkey-server on a free loopback port, without persistence, which ends with the
// process at the latest. Without a server the tests fail; they are never left out quietly.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { freePort } from './free-port.ts';

const SERVERS = ['valkey-server', 'redis-server'];

export interface RedisOptions {
  /** Arguments of the server, such as `['--requirepass', 'secret']`. */
  readonly args?: readonly string[];
  /** PEM of a certificate and its key: the server speaks TLS only. */
  readonly tls?: { readonly certificate: string; readonly key: string };
}

export interface RedisServer {
  /** Without a password; stays the same over stops and starts. */
  readonly url: string;
  readonly port: number;
  /** Ends it at once, as a crash does; everything in it is lost. */
  stop(): Promise<void>;
  /** Starts it again on the same port. */
  start(): Promise<void>;
  /** It answers nothing until `resume`, and its connections stay open. */
  pause(): void;
  resume(): void;
  /** Runs a command in the server's own client; answers with what that prints. */
  cli(...args: string[]): string;
}

/** What servers of this process leave to do. */
const atExit = new Set<() => void>();
process.on('exit', () => {
  for (const end of atExit) end();
});

function program(names: readonly string[]): string {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  for (const name of names) {
    const found = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
    if (found !== undefined) return found;
  }
  throw new Error(`These tests need one of ${names.join(', ')}: install the Debian package redis-server or valkey.`);
}

/** Path of the server that is installed. */
export function engineProgram(): string {
  return program(SERVERS);
}

/** Starts a server. Call `stop` at the end of the test. */
export async function startRedis({ args = [], tls }: RedisOptions = {}): Promise<RedisServer> {
  const server = engineProgram();
  const client = server.replace(/-server$/, '-cli');
  const home = mkdtempSync(join(tmpdir(), 'headrace-redis-'));
  const port = await freePort();
  let child: ChildProcess | null = null;
  const files = { certificate: join(home, 'certificate.pem'), key: join(home, 'key.pem') };
  const listen = tls === undefined ? ['--port', String(port)] : ['--port', '0', '--tls-port', String(port)];
  const secure = ['--tls-cert-file', files.certificate, '--tls-key-file', files.key, '--tls-auth-clients', 'no'];
  if (tls !== undefined) {
    writeFileSync(files.certificate, tls.certificate);
    writeFileSync(files.key, tls.key);
  }
  const kill = (): void => {
    child?.kill('SIGKILL');
  };
  atExit.add(() => {
    kill();
    rmSync(home, { recursive: true, force: true });
  });

  const start = async (): Promise<void> => {
    const started = spawn(
      server,
      [
        ...listen,
        ...(tls === undefined ? [] : secure),
        ...['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', home, ...args],
      ],
      // A clean environment: the test runner's loader is for Node alone.
      { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env['PATH'] } },
    );
    child = started;
    await new Promise<void>((resolve, reject) => {
      let output = '';
      started.stdout.on('data', (chunk) => {
        output += String(chunk);
        if (output.includes('Ready to accept connections')) resolve();
      });
      started.stderr.on('data', (chunk) => (output += String(chunk)));
      started.once('error', reject);
      started.once('exit', () => reject(new Error(`the engine does not start: ${output}`)));
    });
  };
  await start();

  return {
    url: `${tls === undefined ? 'redis' : 'rediss'}://127.0.0.1:${port}`,
    port,
    start,
    async stop() {
      const ending = child;
      child = null;
      if (ending === null || ending.exitCode !== null) return;
      const ended = new Promise((resolve) => ending.once('exit', resolve));
      ending.kill('SIGKILL');
      await ended;
    },
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    cli: (...command) =>
      execFileSync(client, ['-p', String(port), ...(tls === undefined ? [] : ['--tls', '--insecure']), ...command], {
        encoding: 'utf8',
        env: { PATH: process.env['PATH'] },
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim(),
  };
}
