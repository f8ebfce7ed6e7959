// Errors that nothing handles, in a command that serves: what the module of a search engine throws on its own is logged, as in the
// threads of a gateway; any other ends the command.

import { moduleOf } from '../search/index.ts';
import type { Log } from '../telemetry/log.ts';
import type { CliIo } from './io.ts';

/** `what` serves, and ends by `fail`. Returns what ends the watch. */
export function watchExceptions(io: CliIo, log: Log, what: string, fail: () => void): () => void {
  const onException = (error: unknown): void => {
    const module = moduleOf(error);
    if (module !== undefined) {
      log.error({ err: error, module }, 'the module of a search engine threw outside of a search');
      return;
    }
    log.fatal({ err: error }, `the ${what} cannot go on`);
    fail();
  };
  io.events.on('uncaughtException', onException);
  return () => io.events.off('uncaughtException', onException);
}
