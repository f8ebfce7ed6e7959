// Routing table: the models, their CRNs, and the cells of those on the board. A table is an immutable snapshot; every change makes
// a new one, and requests that have begun keep the old one.

import { type DialectsSetting, isDialectsSetting } from '../config/dialect-bits.ts';
import { LEAST_WEIGHT, MOST_WEIGHT } from '../config/settings.ts';
import { ZMQ_ADDRESS } from '../config/units.ts';

/** One model on one CRN. */
export interface Member {
  /** Base URL without a trailing slash; also the CRN's id in logs and metrics. */
  readonly url: string;
  /** Server cell of the CRN on the board. */
  readonly server: number;
  /** Member cell of this model on this CRN. */
  readonly member: number;
  /** Hash of the URL, for rendezvous scores. */
  readonly hash: number;
  /** The gateway's credential for this CRN. */
  readonly apiKey: string | undefined;
  /** Share of the load of the model relative to its other CRNs: more than 0. */
  readonly weight: number;
  /** Name in the Host field and in TLS, where it is not that of `url`. */
  readonly host?: string;
  /** Dialects that it is declared to speak: bits of `DIALECT_BITS`. 0: nothing is declared, and what it lacks is learned. */
  readonly dialects: number;
}

export interface Model {
  /** As configured. */
  readonly id: string;
  /** Further names that requests may use. CRNs know the id only. */
  readonly aliases?: readonly string[];
  readonly members: readonly Member[];
  /** Cell of its retry budget, and of what else is kept by model; kept while the model stays. */
  readonly budget: number;
}

/** A table as it is posted to other threads. */
export interface ModelTableData {
  readonly version: number;
  readonly models: readonly Model[];
  /** Hosts that were registered before the start, or sources of discovery that have not answered, may bring further models. Default false. */
  readonly isPartial?: boolean;
}

export class ModelTable {
  readonly version: number;
  readonly models: readonly Model[];
  /** False while a model that is not found may still come. */
  readonly isComplete: boolean;
  readonly #byName = new Map<string, Model>();
  readonly #texts = new Map<string, Map<string, string>>();

  constructor(data: ModelTableData) {
    this.version = data.version;
    this.models = data.models;
    this.isComplete = data.version > 0 && data.isPartial !== true;
    for (const model of data.models) this.#byName.set(model.id.toLowerCase(), model);
    for (const model of data.models) {
      for (const alias of model.aliases ?? []) {
        if (!this.#byName.has(alias.toLowerCase())) this.#byName.set(alias.toLowerCase(), model);
      }
    }
  }

  /** Caches a text per model and CRN for the life of this table. */
  remember(url: string, modelId: string, make: () => string): string {
    let texts = this.#texts.get(url);
    if (texts === undefined) {
      texts = new Map();
      this.#texts.set(url, texts);
    }
    let text = texts.get(modelId);
    if (text === undefined) {
      text = make();
      texts.set(modelId, text);
    }
    return text;
  }

  /** Finds a model by its id or an alias; case does not matter. */
  find(name: string): Model | undefined {
    return this.#byName.get(name) ?? this.#byName.get(name.toLowerCase());
  }
}

/** The names in the Host field and in TLS that are not those of their URLs, by origin; where models differ, that of the first one. */
export function hostnamesOf({ models }: Pick<ModelTableData, 'models'>): ReadonlyMap<string, string> {
  const named = new Map<string, string | undefined>();
  for (const { members } of models) {
    for (const { host, url } of members) {
      const { origin } = new URL(url);
      if (!named.has(origin)) named.set(origin, host);
    }
  }
  return new Map([...named].filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/** FNV-1a of 32 bits, with a sign. */
export function fnv1a(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}

/** The same with a final mix. The same on every gateway, so that all choose the same CRN for a conversation. */
export function hashText(text: string): number {
  return mix(fnv1a(text));
}

/** Finaliser of MurmurHash3: every bit of the input affects every bit of the output. */
export function mix(value: number): number {
  let hash = value;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Where a server publishes its KV events over ZeroMQ. */
export interface KvEventSource {
  /** `tcp://HOST:PORT` of the PUB socket. */
  readonly endpoint: string;
  /** `tcp://HOST:PORT` of the ROUTER socket that sends missed batches again. */
  readonly replay?: string;
  /** Topic to subscribe to. Default: all. */
  readonly topic?: string;
}

/** A server of a model. What is not said of it holds for all servers of the model, or has its default. */
export interface ServerDetails {
  /** Base URL without a trailing slash. */
  readonly url: string;
  /** Dialects that it speaks; `auto`, the default: they are found out. */
  readonly dialects?: DialectsSetting;
  /** The gateway's credential for it. */
  readonly apiKey?: string;
  /** As in `Member`. Default 1. */
  readonly weight?: number;
  readonly events?: KvEventSource;
  /** Name in the Host field and in TLS, where it is not that of `url`. */
  readonly host?: string;
  /** Identity of its process, where who has found it knows one: another one at the same URL is another server. */
  readonly instance?: string;
}

/** A model that discovery or registration has found. */
export interface FoundModel {
  readonly servers: readonly ServerDetails[];
  readonly aliases: readonly string[];
}

/** By model id. */
export type FoundModels = ReadonlyMap<string, FoundModel>;

const MAX_MODEL_CHARS = 256;
const MAX_ALIASES = 64;
const MAX_KEY_CHARS = 4096;
const VISIBLE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const TOKEN = /^[\x21-\x7e]+$/;

/** Whether a value is a model id or an alias: 1 to 256 visible ASCII characters, with blanks inside only. */
export function isModelName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_MODEL_CHARS && VISIBLE.test(value);
}

/** Reads up to 64 aliases from JSON; null when the value is no list of model names. */
export function readAliases(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.length <= MAX_ALIASES && value.every(isModelName) ? value : null;
}

/** What a map or an announcement may say of a server. */
export type SaidOfServer = Exclude<keyof ServerDetails, 'host' | 'instance'>;

/** Reads what JSON says of a server besides its URL: the details, or the name of the member that cannot be read. */
export function readServerDetails({
  apiKey,
  dialects,
  events,
  weight,
}: Readonly<Record<string, unknown>>): Omit<ServerDetails, 'url'> | SaidOfServer {
  const source = events === undefined ? undefined : readKvEventSource(events);
  if (source === null) return 'events';
  if (dialects !== undefined && !isDialectsSetting(dialects)) return 'dialects';
  if (apiKey !== undefined && !(typeof apiKey === 'string' && apiKey.length <= MAX_KEY_CHARS && TOKEN.test(apiKey))) {
    return 'apiKey';
  }
  if (weight !== undefined && !(typeof weight === 'number' && weight >= LEAST_WEIGHT && weight <= MOST_WEIGHT)) {
    return 'weight';
  }
  return {
    ...(dialects !== undefined && { dialects }),
    ...(apiKey !== undefined && { apiKey }),
    ...(weight !== undefined && { weight }),
    ...(source !== undefined && { events: source }),
  };
}

const MAX_ENDPOINT_CHARS = 300;
const MAX_TOPIC_CHARS = 256;

/** Reads a source of KV events from JSON: an endpoint or a mapping. Null when it is neither. */
function readKvEventSource(value: unknown): KvEventSource | null {
  if (typeof value === 'string') return readKvEventSource({ endpoint: value });
  if (typeof value !== 'object' || value === null) return null;
  const { endpoint, replay, topic } = value as Record<string, unknown>;
  if (!isEndpoint(endpoint) || (replay !== undefined && !isEndpoint(replay))) return null;
  if (topic !== undefined && (typeof topic !== 'string' || topic.length > MAX_TOPIC_CHARS)) return null;
  return { endpoint, ...(replay !== undefined && { replay }), ...(topic !== undefined && { topic }) };
}

function isEndpoint(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_ENDPOINT_CHARS && ZMQ_ADDRESS.test(value);
}
