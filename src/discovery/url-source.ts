// Source of servers: a discovery map at a URL, polled.

import { parseJson } from '../config/json-text.ts';
import type { Behavior } from '../actor/index.ts';
import { messageOf } from '../errors.ts';
import { errorReason } from '../routing/index.ts';
import { type DiscoveryMap, readDiscoveryMap, withKey } from './discovery-map.ts';
import type { SourceDeps } from './source.ts';

export interface UrlSourceSettings {
  readonly url: string;
  readonly intervalMs: number;
  readonly apiKey?: string;
}

export interface UrlSourceDeps extends SourceDeps {
  readonly get: (url: string, timeoutMs: number, maxBytes: number) => Promise<{ status: number; body: Buffer }>;
}

type Command =
  | { readonly type: 'Poll' }
  | { readonly type: 'Polled'; readonly map: DiscoveryMap }
  | { readonly type: 'Failed'; readonly problem: string };

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 16 * 1024 * 1024;

/** Makes the behaviour of the source. It polls after the interval, also after a failure. */
export function urlSource(settings: UrlSourceSettings, deps: UrlSourceDeps): Behavior<Command> {
  return (context) => {
    const poll = (): void =>
      context.pipe(
        deps.get(settings.url, TIMEOUT_MS, MAX_BYTES).then(
          ({ status, body }) => {
            if (status !== 200) throw new Error(`answered ${status}`);
            return readDiscoveryMap(jsonOf(body));
          },
          (error: unknown) => {
            throw new Error(errorReason(error, TIMEOUT_MS), { cause: error });
          },
        ),
        (map) => ({ type: 'Polled', map }),
        (error) => ({ type: 'Failed', problem: messageOf(error) }),
      );
    poll();
    return (command) => {
      if (command.type === 'Poll') {
        poll();
        return;
      }
      context.timers.once('poll', settings.intervalMs * (0.9 + 0.2 * context.random()), { type: 'Poll' });
      if (command.type === 'Failed') {
        deps.onFailure(command.problem);
        return;
      }
      const { models, notes } = command.map;
      deps.onAnswer(withKey(models, settings.apiKey), notes);
    };
  };
}

function jsonOf(body: Buffer): unknown {
  try {
    return parseJson(body.toString());
  } catch {
    // The message of the parser quotes the text, which may hold a credential.
    throw new Error('is not valid JSON');
  }
}
