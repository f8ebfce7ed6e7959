// Runs `headrace` commands inside the test process: `main` with streams, environment and signals of its own. A command that still
// runs at the end of a test is stopped.

import { EventEmitter } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import type { Test } from 'tap';
import type { CliIo } from '../../src/cli/io.ts';
import { main } from '../../src/cli/main.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { Host } from '../../src/host/index.ts';
import { settingsFor, until, within } from './system.ts';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A running command and what it has printed. */
export abstract class Cli {
  stdout = '';
  stderr = '';
  abstract readonly exited: Promise<Exit>;
  abstract readonly running: boolean;
  readonly #printed = new EventEmitter();

  abstract signal(name: NodeJS.Signals): void;

  /** Waits until standard output matches; throws with both outputs if the command ends before. */
  async shows(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#awaits(pattern, () => this.stdout);
  }

  /** Waits until standard error matches. */
  async complains(pattern: RegExp): Promise<RegExpExecArray> {
    return this.#awaits(pattern, () => this.stderr);
  }

  /** Lines of the log, parsed; without one whose end has not come yet. */
  get log(): Record<string, unknown>[] {
    const lines = this.stderr
      .split('\n')
      .slice(0, -1)
      .filter((line) => line.startsWith('{'));
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** Resolves with how it ended; rejects when it does not end in time. */
  ends(): Promise<Exit> {
    return within(`the end of the command; it printed ${this.stdout}${this.stderr}`, this.exited, 15_000);
  }

  protected print(stream: 'stdout' | 'stderr', text: string): void {
    this[stream] += text;
    this.#printed.emit('text');
  }

  async #awaits(pattern: RegExp, text: () => string): Promise<RegExpExecArray> {
    const found = Promise.withResolvers<RegExpExecArray>();
    const look = (): void => {
      const match = pattern.exec(text());
      if (match !== null) found.resolve(match);
    };
    this.#printed.on('text', look);
    look();
    const ended = this.exited.then(() => {
      throw new Error(`ended without ${pattern}:\n${this.stdout}${this.stderr}`);
    });
    try {
      return await within(`${pattern} in the output`, Promise.race([found.promise, ended]));
    } finally {
      this.#printed.off('text', look);
    }
  }
}

export interface MainOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Makes standard output a terminal of this size. Default: not a terminal. */
  readonly terminal?: { readonly columns: number; readonly rows: number };
}

class MainCli extends Cli {
  readonly exited: Promise<Exit>;
  readonly #events = new EventEmitter();
  readonly #stdout: Writable;
  /** Key presses. */
  readonly stdin: PassThrough = new PassThrough();
  running = true;

  constructor(args: readonly string[], { env, terminal }: MainOptions) {
    super();
    const output = (stream: 'stdout' | 'stderr'): Writable =>
      new Writable({
        decodeStrings: false,
        write: (text: string, _encoding, done) => {
          this.print(stream, text);
          done();
        },
      });
    const isTTY = terminal !== undefined;
    this.#stdout = output('stdout');
    const io: CliIo = {
      stdin: Object.assign(this.stdin, { isTTY }),
      stdout: Object.assign(this.#stdout, { isTTY, ...terminal }),
      stderr: output('stderr'),
      env: { HEADRACE_STORE: 'sqlite::memory:', ...env },
      events: this.#events,
      log: { write: (line) => this.print('stderr', line) },
      exitCode: 0,
    };
    this.exited = main(args, io).then((code) => {
      this.running = false;
      return { code, signal: null };
    });
  }

  signal(name: NodeJS.Signals): void {
    this.#events.emit(name);
  }

  listensTo(event: string): boolean {
    return this.#events.listenerCount(event) > 0;
  }

  /** Standard output fails as a pipe does whose reader has gone. */
  unread(): void {
    this.#stdout.emit('error', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  }

  /** Number of signal handlers that are installed. */
  get handlers(): number {
    return this.#events.eventNames().length;
  }
}

/** Starts `headrace ARGS`. It is told to stop at the end of the test if it still runs. */
export function startCli(t: Test, args: readonly string[], options: MainOptions = {}): MainCli {
  const cli = new MainCli(args, options);
  t.teardown(async () => {
    if (cli.running) cli.signal('SIGTERM');
    await cli.exited;
    if (cli.handlers > 0) throw new Error(`${args.join(' ')} has left handlers of signals behind`);
  });
  return cli;
}

/** Runs a command to its end. */
export async function runCli(
  t: Test,
  args: readonly string[],
  options: MainOptions = {},
): Promise<Cli & { exit: Exit }> {
  const cli = startCli(t, args, options);
  const exit = await cli.ends();
  return Object.assign(cli, { exit });
}

/** A running `headrace serve`. */
export interface Served<C extends Cli = Cli> {
  readonly cli: C;
  readonly url: string;
  readonly adminUrl: string;
  /** Path of its configuration file. */
  readonly file: string;
  /** Replaces the configuration file, as a whole: nobody reads a part of it. */
  readonly rewrite: (settings: SettingsInput | string) => void;
}

/** Starts `headrace serve` by `start`, in front of these hosts and with an admin listener; waits until it is ready. */
export async function serveBy<C extends Cli>(
  start: (args: readonly string[]) => C,
  t: Test,
  hosts: readonly Host[],
  settings: SettingsInput,
): Promise<Served<C>> {
  const file = join(t.testdir({}), 'headrace.json');
  const rewrite = (content: SettingsInput | string): void => {
    writeFileSync(`${file}.new`, typeof content === 'string' ? content : JSON.stringify(content));
    renameSync(`${file}.new`, file);
  };
  rewrite(settingsFor(hosts, { admin: '127.0.0.1:0', log: { level: 'info' }, ...settings }));
  const cli = start(['serve', '--config', file]);
  const [, url = '', adminUrl = ''] = await cli.shows(/^headrace listening on (\S+)\nadmin on (\S+)\n/);
  await until('ready', async () => (await fetch(`${url}/health`)).status === 200);
  return { cli, url, adminUrl, file, rewrite };
}

/** `headrace serve` in the process of the test. Only what the command itself logs is in `cli.log`. */
export function startServe(
  t: Test,
  hosts: readonly Host[],
  settings: SettingsInput = {},
  options: MainOptions = {},
): Promise<Served> {
  return serveBy((args) => startCli(t, args, options), t, hosts, { log: { level: 'silent' }, ...settings });
}

/** What the admin listener says of the CRNs. */
export async function statusOf({
  adminUrl,
}: Served): Promise<{ stage: string; crns: { standing: string; inFlight: number }[] }> {
  const response = await fetch(`${adminUrl}/status`, { headers: { connection: 'close' } });
  return (await response.json()) as { stage: string; crns: { standing: string; inFlight: number }[] };
}
