// Ends of the process: the first signal asks for an orderly end, the second one and a failure end it at once.

/** What a command takes down. */
export interface Closing {
  /** Ends in order: may take as long as the requests in flight. */
  readonly close: () => Promise<void>;
  /** Ends at once. Default: nothing has to be done before the process ends. */
  readonly abort?: () => Promise<void>;
}

/** How long an end at once may take before the process is left to its fate, in milliseconds. */
const ABORT_MS = 2000;

/** Exit code after a second signal: that of a process ended from the keyboard. */
const INTERRUPTED = 130;

/** Runs `close` at SIGTERM or SIGINT, then exits with 0; with 1 when it fails. */
export function closeOnSignal({ close, abort }: Closing): void {
  let signals = 0;
  const onSignal = (): void => {
    signals++;
    if (signals === 2) exitNow(INTERRUPTED, abort);
    if (signals > 1) return;
    close().then(
      () => {
        if (signals === 1) process.exit(0);
      },
      (error: unknown) => {
        process.stderr.write(`headrace could not close in order: ${String(error)}\n`);
        exitNow(1, abort);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** Exits as soon as `abort` is done. */
export function exitNow(code: number, abort: () => Promise<void> = () => Promise.resolve()): void {
  const exit = (): void => process.exit(code);
  setTimeout(exit, ABORT_MS);
  abort().then(exit, exit);
}
