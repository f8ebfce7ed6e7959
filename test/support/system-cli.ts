// The command line as a child process: for what only shows there (exit codes, signals, ready lines, an abort of the
// process). What it prints is gathered and can be waited for.

import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { Host } from '../../src/host/index.ts';
import { settingsFor, until, within } from './system.ts';

/** The start file of the command, from dist/test/support. */
const BIN: string = fileURLToPath(new URL('../../../bin/headrace.js', import.meta.url));

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A running command. */
export class Cli {
  stdout = '';
  stderr = '';
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stdout?.on('data', (piece: Buffer) => (this.stdout += piece.toString()));
    child.stderr?.on('data', (piece: Buffer) => (this.stderr += piece.toString()));
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

  /** Waits until standard output shows it; throws with both outputs when the process ends before. */
  async shows(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#awaits(pattern, () => this.stdout);
  }

  /** Waits until standard error shows it. */
  async complains(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#awaits(pattern, () => this.stderr);
  }

  /** Lines of the log, parsed. */
  get log(): Record<string, unknown>[] {
    const lines = this.stderr.split('\n').filter((line) => line.startsWith('{'));
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** Resolves with how it ended; rejects when it does not end in time. */
  ends(): Promise<Exit> {
    return within(`the end of the process; it said ${this.stdout}${this.stderr}`, this.exited, 15_000);
  }

  async #awaits(pattern: RegExp, text: () => string): Promise<RegExpExecArray> {
    let found: RegExpExecArray | null = null;
    await until(`${pattern} in the output`, () => {
      found = pattern.exec(text());
      if (found === null && !this.running) throw new Error(`ended without ${pattern}:\n${this.stdout}${this.stderr}`);
      return found !== null;
    });
    return found as unknown as RegExpExecArray;
  }
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Flags for Node itself. */
  readonly execArgv?: readonly string[];
  /** Another start file than the command. */
  readonly script?: string;
}

/** Starts `headrace ARGS`. It is killed at the end of the test if it still runs. */
export function startCli(t: Test, args: readonly string[], options: CliOptions = {}): Cli {
  const { env, execArgv = [], script = BIN } = options;
  const child = spawn(process.execPath, [...execArgv, script, ...args], {
    env: { PATH: process.env['PATH'] ?? '', HEADRACE_STORE: 'sqlite::memory:', ...env },
    // With a channel the command would not start anew in its place, as it does for users.
    stdio: script === BIN ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const cli = new Cli(child);
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
): Promise<Cli & { exit: Exit }> {
  const cli = startCli(t, args, options);
  const exit = await cli.ends();
  return Object.assign(cli, { exit });
}

/** A running `headrace serve`. */
export interface Served {
  readonly cli: Cli;
  readonly url: string;
  readonly adminUrl: string;
  /** Path of its configuration file. */
  readonly file: string;
  /** Writes the configuration file anew. */
  readonly rewrite: (settings: SettingsInput | string) => void;
}

/** Starts `headrace serve` in front of these hosts, with an admin listener, and waits until it is ready. */
export async function startServe(
  t: Test,
  hosts: readonly Host[],
  settings: SettingsInput = {},
  options: CliOptions = {},
): Promise<Served> {
  const file = join(t.testdir({}), 'headrace.json');
  const rewrite = (content: SettingsInput | string): void =>
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  rewrite(settingsFor(hosts, { admin: '127.0.0.1:0', log: { level: 'info' }, ...settings }));
  const cli = startCli(t, ['serve', '--config', file], options);
  const [, url = '', adminUrl = ''] = await cli.shows(/^headrace listening on (\S+)\nadmin on (\S+)\n/);
  await until('ready', async () => (await fetch(`${url}/health`)).status === 200);
  return { cli, url, adminUrl, file, rewrite };
}

/** What the admin listener says of the CRNs. */
export async function statusOf({
  adminUrl,
}: Served): Promise<{ stage: string; crns: { standing: string; inFlight: number }[] }> {
  const response = await fetch(`${adminUrl}/status`, { headers: { connection: 'close' } });
  return (await response.json()) as { stage: string; crns: { standing: string; inFlight: number }[] };
}
