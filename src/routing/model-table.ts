// The routing table: which models there are and which cells of the board their CRNs have. Immutable snapshots; the
// control plane makes a new one at every change and hands it to the ingress threads, where old ones live on until
// their last request has ended.

/** A model on one CRN. */
export interface Member {
  /** Base URL without a trailing slash; also the CRN's id in logs and metrics. */
  readonly url: string;
  /** Cell of the CRN on the board. */
  readonly server: number;
  /** Cell of this model on this CRN. */
  readonly member: number;
  /** Hash of the URL, the CRN's half of the rendezvous score. */
  readonly hash: number;
  /** The gateway's own credential for this model's servers, when it has one. */
  readonly apiKey: string | undefined;
}

export interface Model {
  /** The configured spelling. */
  readonly id: string;
  readonly members: readonly Member[];
}

/** A snapshot as it is posted to other threads. */
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

  /** A text that belongs to a model on a CRN and to this table: made once, then kept. */
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

  /** Finds a model by its id in any case. */
  find(id: string): Model | undefined {
    return this.#byId.get(id) ?? this.#byId.get(id.toLowerCase());
  }
}

/** 32-bit FNV-1a with a final mix; the same on every gateway, so that all agree on who serves a conversation. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mix(hash);
}

/** Finaliser of MurmurHash3: every bit of the input reaches every bit of the output. */
export function mix(value: number): number {
  let hash = value;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Base URLs of servers by model id, as a discovery URL or registered hosts name them. */
export type ServersByModel = ReadonlyMap<string, readonly string[]>;
