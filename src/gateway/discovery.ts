// Polls the discovery URL for the map of models to servers (`GET /svc/models` of another gateway has this form). A failed
// poll keeps the last answer: an unreachable directory must not cost the servers.

import type { Behavior } from '../actor/index.ts';
import { messageOf } from '../errors.ts';
import { isDialectsSetting } from '../config/dialect-bits.ts';
import {
  type FoundModel,
  type FoundModels,
  readAliases,
  readServerDetails,
  type ServerDetails,
} from '../routing/index.ts';

export interface DiscoverySettings {
  readonly url: string;
  readonly intervalMs: number;
}

export interface DiscoveryDeps {
  readonly get: (url: string, timeoutMs: number, maxBytes: number) => Promise<{ status: number; body: Buffer }>;
  /** A poll is over; `models` is null when it failed. */
  readonly onPolled: (models: FoundModels | null, problem: string | null) => void;
}

export type DiscoveryCommand =
  | { readonly type: 'Poll' }
  | { readonly type: 'Polled'; readonly models: FoundModels }
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
 * Reads a discovery map. Throws when the value is not one. A server is a base URL, or a mapping with `url` and the fields of a server of
 * the settings. Servers without a usable URL are left out, and so is what else cannot be read.
 */
export function readDiscoveryMap(value: unknown): FoundModels {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('is not a discovery map: an object of model ids is expected');
  const models = new Map<string, FoundModel>();
  for (const [id, entry] of Object.entries(value)) {
    const { aliases, dialects, servers } = (entry ?? {}) as Readonly<Record<string, unknown>>;
    if (!Array.isArray(servers)) throw new Error(`has no list of servers for model ${id}`);
    const common = isDialectsSetting(dialects) ? { dialects } : {};
    const read = new Map(servers.flatMap((server) => readServer(server, common)));
    if (read.size > 0) models.set(id, { servers: [...read.values()], aliases: readAliases(aliases) ?? [] });
  }
  return models;
}

function readServer(
  value: unknown,
  common: Pick<ServerDetails, 'dialects'>,
): (readonly [url: string, server: ServerDetails])[] {
  const { url: written, ...members } = (typeof value === 'string' ? { url: value } : (value ?? {})) as Record<
    string,
    unknown
  >;
  if (typeof written !== 'string' || !isHttp(written)) return [];
  const url = written.replace(/\/+$/, '');
  let details = readServerDetails(members);
  while (typeof details === 'string') {
    members[details] = undefined;
    details = readServerDetails(members);
  }
  return [[url, { url, ...common, ...details }]];
}

function isHttp(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}
