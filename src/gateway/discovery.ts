// Polls the discovery URL for the map of models to servers (`GET /svc/models` of another gateway has this form). A failed
// poll keeps the last answer: an unreachable directory must not cost the servers.

import type { Behavior } from '../actor/index.ts';
import { messageOf } from '../errors.ts';
import { readKvEventSource, type ServerDetails, type ServersByModel } from '../routing/index.ts';

export interface DiscoverySettings {
  readonly url: string;
  readonly intervalMs: number;
}

export interface DiscoveryDeps {
  readonly get: (url: string, timeoutMs: number, maxBytes: number) => Promise<{ status: number; body: Buffer }>;
  /** A poll is over; `models` is null when it failed. */
  readonly onPolled: (models: ServersByModel | null, problem: string | null) => void;
}

export type DiscoveryCommand =
  | { readonly type: 'Poll' }
  | { readonly type: 'Polled'; readonly models: ServersByModel }
  | { readonly type: 'Failed'; readonly problem: string };

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 16 * 1024 * 1024;

/** Makes the behaviour of the discovery actor. */
export function discovery(settings: DiscoverySettings, deps: DiscoveryDeps): Behavior<DiscoveryCommand> {
  return (context) => {
    const poll = (): void =>
      context.pipe(
        deps.get(settings.url, TIMEOUT_MS, MAX_BYTES).then(({ status, body }) => {
          if (status !== 200) throw new Error(`answered ${status}`);
          return readDiscoveryMap(JSON.parse(body.toString()));
        }),
        (models) => ({ type: 'Polled', models }),
        (error) => ({ type: 'Failed', problem: messageOf(error) }),
      );
    poll();
    return (command) => {
      if (command.type === 'Poll') {
        poll();
        return;
      }
      context.timers.once('poll', settings.intervalMs * (0.9 + 0.2 * context.random()), { type: 'Poll' });
      if (command.type === 'Polled') deps.onPolled(command.models, null);
      else deps.onPolled(null, command.problem);
    };
  };
}

/**
 * Reads a discovery map. Throws when the value is not one. A server is a base URL, or a mapping with `url` and `events`. Servers
 * without a usable URL are left out, and so are events without a usable endpoint.
 */
export function readDiscoveryMap(value: unknown): ServersByModel {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('is not a discovery map: an object of model ids is expected');
  const models = new Map<string, readonly (string | ServerDetails)[]>();
  for (const [id, entry] of Object.entries(value)) {
    const { servers } = (entry ?? {}) as { servers?: unknown };
    if (!Array.isArray(servers)) throw new Error(`has no list of servers for model ${id}`);
    const read = new Map(servers.flatMap(readServer));
    if (read.size > 0) models.set(id, [...read.values()]);
  }
  return models;
}

function readServer(value: unknown): (readonly [url: string, server: string | ServerDetails])[] {
  const { url, events: source } = (typeof value === 'string' ? { url: value } : (value ?? {})) as Record<
    string,
    unknown
  >;
  if (typeof url !== 'string' || !isHttp(url)) return [];
  const base = url.replace(/\/+$/, '');
  const events = readKvEventSource(source);
  return [[base, events === null ? base : { url: base, events }]];
}

function isHttp(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}
