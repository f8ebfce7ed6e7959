// What commands that look at a gateway every second have in common: the wait between two looks, and the end.

import { systemClock } from '../actor/index.ts';
import type { CliIo } from './io.ts';

const EVERY_MS = 1000;

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

export interface Watch {
  readonly isOver: boolean;
  end(): void;
  /** Resolves after a second, or at the end. */
  pause(): Promise<void>;
  /** Listens for signals no more. */
  close(): void;
}

/** Ends at a signal. `onEnd` ends the request that is under way. */
export function startWatch({ events }: CliIo, onEnd: () => void): Watch {
  const ended = new AbortController();
  ended.signal.addEventListener('abort', onEnd);
  const end = (): void => ended.abort();
  for (const signal of SIGNALS) events.on(signal, end);
  return {
    get isOver() {
      return ended.signal.aborted;
    },
    end,
    pause: () =>
      new Promise((resolve) => {
        if (ended.signal.aborted) return resolve();
        const over = (): void => {
          systemClock.clearTimeout(timer);
          ended.signal.removeEventListener('abort', over);
          resolve();
        };
        const timer = systemClock.setTimeout(over, EVERY_MS);
        ended.signal.addEventListener('abort', over);
      }),
    close: () => {
      for (const signal of SIGNALS) events.off(signal, end);
    },
  };
}
