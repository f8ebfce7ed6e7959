// Source of servers: a discovery map in a file, watched. A file that is broken or gone keeps what was read last.

import type { Behavior } from '../actor/index.ts';
import { parseConfigText } from '../config/load.ts';
import { type ConfigWatch, type ConfigWatchOptions, watchConfig } from '../config/watch.ts';
import { messageOf } from '../errors.ts';
import { type DiscoveryMap, readDiscoveryMap, withKey } from './discovery-map.ts';
import type { SourceDeps } from './source.ts';

export interface FileSourceSettings {
  readonly path: string;
  readonly apiKey?: string;
}

type Command =
  | { readonly type: 'Changed'; readonly text: string }
  | { readonly type: 'Unreadable'; readonly problem: string };

/** A map of 1,024 servers, as many as the board has cells for, has a tenth of it. */
const MAX_BYTES = 1024 * 1024;

/** Makes the behaviour of the source. `times`: of the watch, for tests. */
export function fileSource(
  { apiKey, path }: FileSourceSettings,
  deps: SourceDeps,
  times: Pick<ConfigWatchOptions, 'debounceMs' | 'pollMs'> = {},
): Behavior<Command> {
  return (context) => {
    const watch: ConfigWatch = watchConfig(path, {
      ...times,
      maxBytes: MAX_BYTES,
      reportFirst: true,
      onChange: (text) => context.self.tell({ type: 'Changed', text }),
      onError: (error) => context.self.tell({ type: 'Unreadable', problem: messageOf(error) }),
    });
    return {
      receive(command) {
        if (command.type === 'Unreadable') {
          deps.onFailure(command.problem);
          return;
        }
        try {
          const { models, notes } = readFileMap(command.text, path);
          deps.onAnswer(withKey(models, apiKey), notes);
        } catch (error) {
          deps.onFailure(messageOf(error));
        }
      },
      signal({ type }) {
        if (type === 'PostStop' || type === 'PreRestart') watch.close();
      },
    };
  };
}

/** Reads the text of a discovery file. Throws when it is none; what is said never quotes the text, which may hold a credential. */
function readFileMap(content: string, path: string): DiscoveryMap {
  if (content.trim() === '') throw new Error('is empty; write {} for no servers');
  const parsed = parseConfigText(content, path);
  if ('input' in parsed) return readDiscoveryMap(parsed.input);
  throw new Error(parsed.mistakes.map((mistake) => `${mistake.path} ${mistake.message}`)[0]);
}
