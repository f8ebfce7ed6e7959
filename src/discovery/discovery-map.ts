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

/** What a map says. */
export interface DiscoveryMap {
  readonly models: FoundModels;
  /** Sentences about what is left out; none quotes a server, whose URL may hold a password. */
  readonly notes: readonly string[];
}

/** Servers of all models in one map, as many as the board has cells for: further ones would get no requests. */
const MOST_SERVERS = 4096;
const MOST_NOTES = 16;

/**
 * Reads a discovery map. Throws when the value is not one. A server is a base URL, or a mapping with `url` and the fields of a server of
 * the settings. Servers without a usable URL are left out, and so is what else cannot be read, and models beyond `MOST_SERVERS`.
 */
export function readDiscoveryMap(value: unknown): DiscoveryMap {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('is not a discovery map: an object of model ids is expected');
  const models = new Map<string, FoundModel>();
  const notes = new Notes();
  let servers = 0;
  let beyond = 0;
  for (const [id, entry] of Object.entries(value)) {
    const model = readModel(id, entry, notes);
    if (model === null) continue;
    const together = servers + model.servers.length;
    if (together > MOST_SERVERS) {
      beyond++;
      continue;
    }
    servers = together;
    models.set(id, model);
  }
  const tooMany = `${beyond === 1 ? '1 model is' : `${grouped(beyond)} models are`} left out: models have at most ${grouped(MOST_SERVERS)} servers in all`;
  return { models, notes: [...(beyond > 0 ? [tooMany] : []), ...notes.all()] };
}

/** The first notes, and how many more there were. */
class Notes {
  readonly #first: string[] = [];
  #more = 0;

  add(note: string): void {
    if (this.#first.length < MOST_NOTES) this.#first.push(note);
    else this.#more++;
  }

  all(): readonly string[] {
    return this.#more === 0 ? this.#first : [...this.#first, `and ${grouped(this.#more)} more`];
  }
}

/** Null for a model without a server, and for one whose id no request can have. */
function readModel(id: string, entry: unknown, notes: Notes): FoundModel | null {
  const { aliases, dialects, servers } = (entry ?? {}) as Readonly<Record<string, unknown>>;
  const shownId = id.slice(0, 128);
  if (!Array.isArray(servers)) throw new Error(`has no list of servers for model ${shownId}`);
  if (!isModelName(id)) {
    notes.add(`model ${JSON.stringify(shownId)} is left out: an id has up to 256 visible ASCII characters`);
    return null;
  }
  const names = readAliases(aliases ?? []);
  if (names === null) notes.add(`aliases of model ${id} cannot be read`);
  const common = isDialectsSetting(dialects) ? { dialects } : {};
  if (dialects !== undefined && common.dialects === undefined) notes.add(`dialects of model ${id} cannot be read`);
  const read = new Map(
    servers.flatMap((server, at) => readServer(server, common, `server ${at + 1} of model ${id}`, notes)),
  );
  return read.size === 0 ? null : { servers: [...read.values()], aliases: names ?? [] };
}

function readServer(
  value: unknown,
  common: Pick<ServerDetails, 'dialects'>,
  name: string,
  notes: Notes,
): (readonly [url: string, server: ServerDetails])[] {
  const { url: written, ...members } = (typeof value === 'string' ? { url: value } : (value ?? {})) as Record<
    string,
    unknown
  >;
  const url = typeof written === 'string' ? baseUrlIn(written) : null;
  if (url === null) {
    notes.add(`${name} is left out: it has no base URL, or one with a password, a query or a fragment`);
    return [];
  }
  let details = readServerDetails(members);
  while (typeof details === 'string') {
    notes.add(`${details} of ${name} cannot be read`);
    members[details] = undefined;
    details = readServerDetails(members);
  }
  return [[url, { url, ...common, ...details }]];
}

function grouped(count: number): string {
  return count.toLocaleString('en-US');
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
