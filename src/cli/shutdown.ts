// Ends of a command that serves: the first signal closes in order, a second signal or a failure ends at once.

import type { CliIo } from './io.ts';

/** What a command takes down. */
export interface Closing {
  /** Ends in order: may take as long as the requests in flight. */
  readonly close: () => Promise<void>;
  /** Ends at once. Default: nothing has to be done before the process ends. */
  readonly abort?: () => Promise<void>;
  /** Default: SIGTERM and SIGINT. */
  readonly signals?: readonly NodeJS.Signals[];
}

/** A command that serves. */
export interface Serving {
  /** Settles when everything is closed: `exitCode` is set, and no signal is listened for any more. Rejects as `fail` says. */
  readonly ended: Promise<void>;
  /** Whether a signal or a failure has come: what still starts must not report any more. */
  readonly isEnding: boolean;
  /** Ends at once with exit code 1; with an error, `ended` rejects with it. */
  fail(error?: Error): void;
}

/** How long `abort` may take before the process ends without it, in milliseconds. */
const ABORT_MS = 2000;

/** Exit code after a second signal: that of a process ended from the keyboard. */
const INTERRUPTED = 130;

/** That nobody reads the ready line any more, or a disk is too full for it, is no reason to end. */
const onUnread = (): void => undefined;

/** Closes at a signal with exit code 0; with 1 when closing fails. */
export function closeOnSignal(io: CliIo, { close, abort, signals = ['SIGTERM', 'SIGINT'] }: Closing): Serving {
  const { promise: ended, reject, resolve } = Promise.withResolvers<void>();
  let received = 0;
  let isOver = false;
  const end = (exitCode: number, error?: Error): void => {
    if (isOver) return;
    isOver = true;
    io.exitCode = exitCode;
    for (const signal of signals) io.events.off(signal, onSignal);
    io.stdout.off('error', onUnread);
    if (error === undefined) resolve();
    else reject(error);
  };
  const endNow = (exitCode: number, error?: Error): void => {
    received = Infinity;
    const timer = setTimeout(() => end(exitCode, error), ABORT_MS);
    const over = (): void => {
      clearTimeout(timer);
      end(exitCode, error);
    };
    if (abort === undefined) over();
    else abort().then(over, over);
  };
  const onSignal = (): void => {
    received++;
    if (received === 2) endNow(INTERRUPTED);
    if (received > 1) return;
    close().then(
      () => {
        if (received === 1) end(0);
      },
      (error: unknown) => {
        io.stderr.write(`headrace could not close in order: ${String(error)}\n`);
        endNow(1);
      },
    );
  };
  for (const signal of signals) io.events.on(signal, onSignal);
  io.stdout.on('error', onUnread);
  return {
    ended,
    get isEnding() {
      return received > 0;
    },
    fail: (error) => endNow(1, error),
  };
}
