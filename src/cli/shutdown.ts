// Signals of the process: the first asks for an orderly end, the second ends at once.

/** Runs `close` at SIGTERM or SIGINT, then exits with 0; with 1 when it fails. */
export function closeOnSignal(close: () => Promise<void>): void {
  let closing = false;
  const onSignal = (): void => {
    if (closing) process.exit(130);
    closing = true;
    close().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`headrace could not close in order: ${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}
