// Waiting that can be left: for work that does not heed a signal itself, or not at once.

/** Settles as the promise does, or rejects with the reason of the signal when that fires first. */
export function abortable<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
