// Reads discovery maps: models and the servers behind them, as `GET /svc/models` of a gateway has them.

import { isDialectsSetting } from '../config/dialect-bits.ts';
import {
  type FoundModel,
  type FoundModels,
  isModelName,
  readAliases,
  readServerDetails,
  type ServerDetails,
} from '../routing/index.ts';

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
    if (!Array.isArray(servers)) throw new Error(`has no list of servers for model ${id.slice(0, 128)}`);
    const common = isDialectsSetting(dialects) ? { dialects } : {};
    const read = new Map(servers.flatMap((server) => readServer(server, common)));
    if (read.size > 0 && isModelName(id))
      models.set(id, { servers: [...read.values()], aliases: readAliases(aliases) ?? [] });
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
  const url = typeof written === 'string' ? baseUrlIn(written) : null;
  if (url === null) return [];
  let details = readServerDetails(members);
  while (typeof details === 'string') {
    members[details] = undefined;
    details = readServerDetails(members);
  }
  return [[url, { url, ...common, ...details }]];
}

/** The models with a credential for the servers that have none of their own. */
export function withKey(models: FoundModels, apiKey: string | undefined): FoundModels {
  if (apiKey === undefined) return models;
  const keyed = [...models].map(([id, model]) => {
    const servers = model.servers.map((server) => ({ apiKey, ...server }));
    return [id, { ...model, servers }] as const;
  });
  return new Map(keyed);
}

/** A base URL in the form of the settings; null for what they refuse. A user name or password would be shown with the URL. */
function baseUrlIn(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return null;
  return /[?#]/.test(url.href) ? null : url.href.replace(/\/+$/, '');
}
