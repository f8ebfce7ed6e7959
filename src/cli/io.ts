// What a command reads from and writes to instead of the global `process`: streams, environment, events and exit code.

import type { EventEmitter } from 'node:events';
import { environment } from '../config/env.ts';
import type { LogOutput } from '../telemetry/log.ts';

/** Surroundings of one command line. The defaults of `main` are those of the process. */
export interface CliIo {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean; setRawMode?(mode: boolean): unknown };
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Emits SIGINT, SIGTERM, SIGHUP and `uncaughtException` as `process` does. */
  readonly events: Pick<EventEmitter, 'on' | 'once' | 'off'>;
  /** Where log lines go. Default: standard error of the process, written synchronously. */
  readonly log?: LogOutput;
  /** Set by a command that a signal has ended, whose output may never be read: the process does not wait for it. */
  abandonsOutput?: boolean;
  /** Exit code of the command. 0 until a command sets it. */
  exitCode: number;
}

/** A text stream that may be a terminal. */
export type Terminal = NodeJS.WritableStream & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** Whether what is on this stream can be drawn anew: a terminal that obeys control sequences. */
export function redraws({ isTTY }: Terminal, { env }: CliIo): boolean {
  return isTTY === true && env['TERM'] !== 'dumb';
}

/** A command line that makes no sense; the message is a sentence for people. `main` prints it and answers 1. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** What keeps a command from starting; `main` prints it and answers 1. */
export class StartError extends Error {
  override readonly name = 'StartError';
  /** The configuration with the mistakes that the message lists, a line for each. */
  readonly file: string | undefined;

  constructor(message: string, file?: string) {
    super(message);
    this.file = file;
  }
}

export function processIo(): CliIo {
  const { stdin, stdout, stderr } = process;
  return { stdin, stdout, stderr, env: environment(), events: process, exitCode: 0 };
}
