// Runs `headrace` commands as child processes, for what only shows there: the start file, exit codes, signals, an abort of the
// process, the log of the gateway. `cli.ts` runs commands without a process.

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { COMPILE_CACHE } from './compile-cache.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { Host } from '../../src/host/index.ts';
import { Cli, type Exit, type Served, serveBy } from './cli.ts';

export type { Cli, Served } from './cli.ts';
export { statusOf } from './cli.ts';

/** The start file of the command, from dist/test/support. */
export const BIN: string = fileURLToPath(new URL('../../../bin/headrace.js', import.meta.url));

/** A command in a process of its own. */
export class SpawnedCli extends Cli {
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    super();
    this.#child = child;
    child.stdout?.on('data', (piece: Buffer) => this.print('stdout', piece.toString()));
    child.stderr?.on('data', (piece: Buffer) => this.print('stderr', piece.toString()));
    // `close` comes after the last output.
    this.exited = new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  send(message: object): void {
    this.#child.send(message);
  }
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Flags for Node itself. */
  readonly execArgv?: readonly string[];
  /** Most files that it may have open. */
  readonly openFiles?: number;
  /** Another start file than the command. */
  readonly script?: string;
}

/** Starts `headrace ARGS`. It is killed at the end of the test if it still runs. */
export function startCli(t: Test, args: readonly string[], options: CliOptions = {}): SpawnedCli {
  const { env, execArgv = [], openFiles, script = BIN } = options;
  const command = [process.execPath, ...execArgv, script, ...args];
  // Node.js has no call that sets limits.
  const limit = openFiles === undefined ? [] : ['sh', '-c', `ulimit -n ${openFiles}; exec "$0" "$@"`];
  const [file = '', ...rest] = [...limit, ...command];
  const child = spawn(file, rest, {
    env: { ...COMPILE_CACHE, PATH: process.env['PATH'] ?? '', HEADRACE_STORE: 'sqlite::memory:', ...env },
    // With an IPC channel the command would not re-execute itself, as it does for users.
    stdio: script === BIN ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const cli = new SpawnedCli(child);
  t.teardown(async () => {
    if (cli.running) child.kill('SIGKILL');
    await cli.exited;
  });
  return cli;
}

/** Runs a command to its end. */
export async function runCli(
  t: Test,
  args: readonly string[],
  options: CliOptions = {},
): Promise<SpawnedCli & { exit: Exit }> {
  const cli = startCli(t, args, options);
  const exit = await cli.ends();
  return Object.assign(cli, { exit });
}

/** Starts `headrace serve` in front of these hosts, with an admin listener, and waits until it is ready. */
export function startServe(
  t: Test,
  hosts: readonly Host[],
  settings: SettingsInput = {},
  options: CliOptions = {},
): Promise<Served<SpawnedCli>> {
  return serveBy((args) => startCli(t, args, options), t, hosts, settings);
}
