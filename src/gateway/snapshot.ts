// What data planes get from the control plane: one immutable value, sent whole at every change, also across threads. It holds
// plain data only, and no secret but the credentials for CRNs.

import { accountId, type ConfiguredKey, hashKey, type KeyLimits, type KeyRecord, picoLimit } from '../billing/index.ts';
import type { ClusterStatus, Stage } from '../api/deps.ts';
import type { CatalogModel } from '../catalog/index.ts';
import type { ModelSettings, Settings } from '../config/settings.ts';
import type {
  FoundModel,
  FoundModels,
  KvEventSource,
  ModelSpec,
  ModelTableData,
  ServerDetails,
} from '../routing/index.ts';

export interface Snapshot {
  /** `keys.static` is empty here: data planes get hashes. `limits` are within those of the process. */
  readonly settings: Settings;
  readonly table: ModelTableData;
  readonly catalog: readonly CatalogModel[];
  readonly keys: readonly KeyRecord[];
  readonly stage: Stage;
  /** Why the last probe of a CRN failed, in plain words, by base URL; CRNs whose probe was good are left out. */
  readonly probeReasons: ReadonlyMap<string, string>;
  readonly cluster: ClusterStatus;
  /** Cells of search engines on their board, by engine id. */
  readonly engineCells: Readonly<Record<string, number>>;
  /** Unix time of the process start in seconds. */
  readonly createdS: number;
  /** Name of the gateway in `Via`, the same in all threads. */
  readonly via: string;
}

/** Configured and found models as one, in the form that each of their readers needs. */
export interface MergedModels {
  readonly specs: readonly ModelSpec[];
  readonly catalog: readonly CatalogModel[];
  /** Where servers publish their KV events, by base URL. */
  readonly events: ReadonlyMap<string, KvEventSource>;
  /** Sentences about found models and aliases that are left out, since their name is taken: about the first 100, and their count. */
  readonly conflicts: readonly string[];
}

const MAX_CONFLICTS = 100;

/**
 * Merges configured models with found ones. Ids and aliases match in any case; the configured spelling wins, then the first found. What
 * is said first of a server holds, and of a configured one what its model says. A found model whose id is a configured alias is left out,
 * and so are found aliases that are taken.
 */
export function mergeModels(settings: Settings, ...found: readonly FoundModels[]): MergedModels {
  const conflicts: string[] = [];
  let further = 0;
  const leaveOut = (what: string, why: string): void => {
    if (conflicts.length < MAX_CONFLICTS) conflicts.push(`${what} is left out: it is ${why}`);
    else further++;
  };
  const taken = new Map<string, string>();
  for (const [id, { aliases = [] }] of Object.entries(settings.models)) {
    for (const alias of aliases) taken.set(alias.toLowerCase(), id);
  }
  const extra = new Map<string, FoundModel & { readonly id: string }>();
  for (const [id, { aliases, servers }] of found.flatMap((each) => [...each])) {
    const name = id.toLowerCase();
    const aliased = taken.get(name);
    if (aliased !== undefined) {
      leaveOut(`model ${id}`, `an alias of ${aliased}`);
      continue;
    }
    const before = extra.get(name);
    extra.set(name, {
      id: before?.id ?? id,
      servers: [...(before?.servers ?? []), ...servers],
      aliases: [...(before?.aliases ?? []), ...aliases],
    });
  }
  for (const { id } of extra.values()) taken.set(id.toLowerCase(), id);
  for (const id of Object.keys(settings.models)) taken.set(id.toLowerCase(), id);
  const specs: ModelSpec[] = [];
  const catalog: CatalogModel[] = [];
  const events = new Map<string, KvEventSource>();
  const add = (
    id: string,
    { aliases: configured = [], apiKey, dialects, servers: own, ...fields }: ModelSettings,
    also: FoundModel | undefined,
  ): void => {
    const { webSearchTool: _, ...listed } = fields;
    const ofModel = { ...(apiKey !== undefined && { apiKey }), ...(dialects !== undefined && { dialects }) };
    const withDefaults = (servers: readonly ServerDetails[]) => servers.map((server) => ({ ...ofModel, ...server }));
    const servers = withDefaults(joined([...withDefaults(own), ...(also?.servers ?? [])]));
    for (const server of servers) {
      if (server.events !== undefined && !events.has(server.url)) events.set(server.url, server.events);
    }
    const aliases = [...configured];
    for (const alias of also?.aliases ?? []) {
      const owner = taken.get(alias.toLowerCase());
      if (owner === undefined) aliases.push(alias);
      else if (owner.toLowerCase() !== id.toLowerCase())
        leaveOut(`alias ${alias} of model ${id}`, `a name of ${owner}`);
      taken.set(alias.toLowerCase(), owner ?? id);
    }
    specs.push({ id, aliases, servers });
    catalog.push({ id, ...listed, servers: servers.map(({ url }) => url) });
  };
  for (const [id, model] of Object.entries(settings.models)) {
    add(id, model, extra.get(id.toLowerCase()));
    extra.delete(id.toLowerCase());
  }
  for (const { id, ...model } of extra.values()) add(id, { servers: [] }, model);
  if (further > 0) conflicts.push(`${further} further names of found models are left out: they are taken`);
  return { specs, catalog, events, conflicts };
}

/** Each server once, with what is said of it; of two that say different things the first holds. */
function joined(servers: readonly ServerDetails[]): ServerDetails[] {
  const byUrl = new Map<string, ServerDetails>();
  for (const server of servers) byUrl.set(server.url, { ...server, ...byUrl.get(server.url) });
  return [...byUrl.values()];
}

/** The keys of the configuration. */
export function configuredKeys(settings: Settings): ConfiguredKey[] {
  return settings.keys.static.map(({ account, key, prepaid = false, ...limits }) => {
    const hash = hashKey(key);
    return {
      record: { hash, account: accountId(account), prepaid, id: `static:${hash.slice(0, 8)}` },
      limits: limitsOf(limits),
    };
  });
}

function limitsOf({ monthly, rpm, running, tpm }: Partial<Settings['keys']['static'][number]>): KeyLimits {
  return {
    ...(running !== undefined && { runningRequests: running }),
    ...(rpm !== undefined && { requestsPerMinute: rpm }),
    ...(tpm !== undefined && { tokensPerMinute: tpm }),
    ...(monthly !== undefined && { monthlySpend: String(picoLimit(monthly)) }),
  };
}

/** Settings without the keys of clients, hosts, operators and found servers. */
export function withoutKeys(settings: Settings): Settings {
  const { cluster, keys, payments, trust, webhooks } = settings;
  return {
    ...settings,
    adminToken: null,
    adminTokens: [],
    cluster: { ...cluster, url: null },
    discovery: null,
    keys: { ...keys, static: [] },
    payments: { ...payments, facilitatorHeaders: {}, rpc: null },
    trust: { ...trust, signingKey: null, token: null, server: { ...trust.server, apiKey: null } },
    webhooks: { ...webhooks, endpoints: {} },
  };
}
