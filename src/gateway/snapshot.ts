// What data planes get from the control plane: one immutable value, sent whole at every change, also across threads. It holds
// plain data only, and no secret but the credentials for CRNs.

import { type ConfiguredKey, hashKey, type KeyLimits, type KeyRecord, picoLimit } from '../billing/index.ts';
import type { Stage } from '../api/deps.ts';
import type { CatalogModel } from '../catalog/index.ts';
import type { Settings } from '../config/settings.ts';
import {
  type KvEventSource,
  type ModelSpec,
  type ModelTableData,
  type ServerDetails,
  serverDetails,
  type ServersByModel,
} from '../routing/index.ts';

export interface Snapshot {
  /** `keys.static` is empty here: data planes get hashes. */
  readonly settings: Settings;
  readonly table: ModelTableData;
  readonly catalog: readonly CatalogModel[];
  readonly keys: readonly KeyRecord[];
  readonly stage: Stage;
  /** Cells of search engines on their board, by engine id. */
  readonly engineCells: Readonly<Record<string, number>>;
  /** Unix time of the process start in seconds. */
  readonly createdS: number;
  /** Name of the gateway in `Via`, the same in all threads. */
  readonly via: string;
}

export function sameModels(a: ServersByModel, b: ServersByModel): boolean {
  return JSON.stringify([...a]) === JSON.stringify([...b]);
}

/** Configured and found models as one, in the form that each of their readers needs. */
export interface MergedModels {
  readonly specs: readonly ModelSpec[];
  readonly catalog: readonly CatalogModel[];
  /** Where servers publish their KV events, by base URL. */
  readonly events: ReadonlyMap<string, KvEventSource>;
}

/**
 * Merges configured models with found ones. Ids match in any case; the configured spelling wins, then the first found. What is said
 * first of a server holds.
 */
export function mergeModels(settings: Settings, ...found: readonly ServersByModel[]): MergedModels {
  const extra = new Map<string, { readonly id: string; readonly servers: readonly ServerDetails[] }>();
  for (const [id, servers] of found.flatMap((each) => [...each])) {
    const before = extra.get(id.toLowerCase());
    const merged = [...(before?.servers ?? []), ...servers.map(serverDetails)];
    extra.set(id.toLowerCase(), { id: before?.id ?? id, servers: merged });
  }
  const specs: ModelSpec[] = [];
  const catalog: CatalogModel[] = [];
  const events = new Map<string, KvEventSource>();
  const urlsOf = (servers: readonly ServerDetails[]): readonly string[] => {
    for (const server of servers) {
      if (server.events !== undefined && !events.has(server.url)) events.set(server.url, server.events);
    }
    return [...new Set(servers.map(({ url }) => url))];
  };
  for (const [id, { apiKey, servers: configured, ...listed }] of Object.entries(settings.models)) {
    const added = extra.get(id.toLowerCase());
    extra.delete(id.toLowerCase());
    const servers = urlsOf([...configured, ...(added?.servers ?? [])]);
    specs.push({ id, servers, apiKey });
    catalog.push({ id, ...listed, servers });
  }
  for (const { id, servers: details } of extra.values()) {
    const servers = urlsOf(details);
    specs.push({ id, servers, apiKey: undefined });
    catalog.push({ id, servers });
  }
  return { specs, catalog, events };
}

/** The keys of the configuration. */
export function configuredKeys(settings: Settings): ConfiguredKey[] {
  return settings.keys.static.map(({ account, key, prepaid = false, ...limits }) => {
    const hash = hashKey(key);
    return { record: { hash, account, prepaid, id: `static:${hash.slice(0, 8)}` }, limits: limitsOf(limits) };
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

/** Settings without the keys of clients, hosts and operators. */
export function withoutKeys(settings: Settings): Settings {
  const { keys, payments, trust, webhooks } = settings;
  return {
    ...settings,
    adminToken: null,
    adminTokens: [],
    keys: { ...keys, static: [] },
    payments: { ...payments, facilitatorHeaders: {}, rpc: null },
    trust: { ...trust, signingKey: null, token: null },
    webhooks: { ...webhooks, endpoints: {} },
  };
}
