// Routing table: the models, their CRNs, and the cells of those on the board. A table is an immutable snapshot; every change makes
// a new one, and requests that have begun keep the old one.

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
  /** The gateway's credential for the CRNs of this model. */
  readonly apiKey: string | undefined;
  /** Dialects that it is declared to speak: bits of `DIALECT_BITS`. 0: nothing is declared, and what it lacks is learned. */
  readonly dialects: number;
}

export interface Model {
  /** As configured. */
  readonly id: string;
  readonly members: readonly Member[];
  /** Cell of its retry budget, and of what else is kept by model; kept while the model stays. */
  readonly budget: number;
}

/** A table as it is posted to other threads. */
export interface ModelTableData {
  readonly version: number;
  readonly models: readonly Model[];
}

export class ModelTable {
  readonly version: number;
  readonly models: readonly Model[];
  readonly #byId = new Map<string, Model>();
  readonly #texts = new Map<string, Map<string, string>>();

  constructor(data: ModelTableData) {
    this.version = data.version;
    this.models = data.models;
    for (const model of data.models) this.#byId.set(model.id.toLowerCase(), model);
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

  /** Finds a model by its id; case does not matter. */
  find(id: string): Model | undefined {
    return this.#byId.get(id) ?? this.#byId.get(id.toLowerCase());
  }
}

/** 32-bit FNV-1a with a final mix. The same on every gateway, so that all choose the same CRN for a conversation. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
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

/** A server with more than its base URL. */
export interface ServerDetails {
  readonly url: string;
  readonly events?: KvEventSource;
}

/** Servers by model id, from discovery or registration; a string is a base URL. */
export type ServersByModel = ReadonlyMap<string, readonly (string | ServerDetails)[]>;

export function serverDetails(server: string | ServerDetails): ServerDetails {
  return typeof server === 'string' ? { url: server } : server;
}

const MAX_ENDPOINT_CHARS = 300;
const MAX_TOPIC_CHARS = 256;

/** Reads a source of KV events from JSON: an endpoint or a mapping. Null when it is neither. */
export function readKvEventSource(value: unknown): KvEventSource | null {
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
