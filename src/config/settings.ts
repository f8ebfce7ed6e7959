// The shape of the settings: `Settings` is what the table of settings (`table.ts`) resolves to and every room reads,
// `SettingsInput` is what a file may say. Types only; a test keeps them equal to the table.

import type { Address } from './units.ts';

/** One model as configured. Every field but `servers` may be absent; prices are USD per million tokens. */
export interface ModelSettings {
  /** Base URLs without trailing slash, each once. */
  readonly servers: readonly string[];
  readonly contextLength?: number;
  readonly huggingFaceId?: string;
  readonly tee?: boolean;
  readonly capabilities?: readonly string[];
  /** Plain decimal strings, never with an exponent. */
  readonly pricing?: { readonly prompt: string; readonly completion: string; readonly cachedPrompt?: string };
  readonly name?: string;
  /** Unix time in seconds. */
  readonly created?: number;
  readonly maxOutputLength?: number;
  readonly quantization?: string;
  /** Credential of the gateway for the servers of this model; never to be logged. */
  readonly apiKey?: string;
}

/** What the table resolves to: complete, checked and frozen. Durations are in milliseconds, sizes in bytes. */
export interface Settings {
  readonly listen: Address;
  readonly admin: Address | null;
  /** Opens the accounts on the admin listener; never to be logged. */
  readonly adminToken: string | null;
  readonly threads: number | 'auto';
  readonly sharePort: boolean;
  readonly server: 'auto' | 'uws' | 'node';
  readonly servicePrefix: string;
  readonly listingPrefix: string;
  readonly publicScheme: 'http' | 'https';
  readonly errorBodies: 'contract' | 'dialect';
  readonly ownedBy: string;
  readonly serverTiming: boolean;
  readonly streamKeepAliveMs: number | null;
  readonly models: Readonly<Record<string, ModelSettings>>;
  readonly discovery: string | null;
  readonly discoveryIntervalMs: number;
  readonly health: {
    readonly intervalMs: number;
    readonly timeoutMs: number;
    readonly path: string;
    readonly rise: number;
    readonly fall: number;
  };
  readonly ejection: {
    readonly consecutive: number;
    readonly errorRate: number;
    readonly minRequests: number;
    readonly windowMs: number;
    readonly backoffMs: number;
    readonly backoffMaxMs: number;
    readonly slowStartMs: number;
    readonly maxShare: number;
  };
  readonly routing: {
    readonly affinity: boolean;
    readonly boundedLoad: number;
    readonly retryBudget: number;
    readonly retryBurst: number;
  };
  readonly timeouts: {
    readonly connectMs: number;
    readonly headersMs: number;
    readonly firstByteMs: number | null;
    readonly idleMs: number;
    readonly bodyMs: number;
    readonly clientIdleMs: number;
    readonly unreadyMs: number;
    readonly drainMs: number;
    readonly keepAliveMs: number;
  };
  readonly limits: {
    readonly bodyBytes: number;
    readonly headerBytes: number;
    readonly bufferedBytes: number;
    readonly jsonDepth: number;
    readonly connectionsPerServer: number;
    readonly heldEventBytes: number;
  };
  readonly cors: { readonly origins: readonly string[] };
  readonly keys: {
    readonly required: boolean;
    readonly static: readonly { readonly key: string; readonly account: string; readonly prepaid?: boolean }[];
  };
  readonly trust: {
    /** Of the gateway; PEM, base64 or `file:PATH`; never to be logged. */
    readonly signingKey: string | null;
    /** Of gateway and host; never to be logged. */
    readonly token: string | null;
    readonly intervalMs: number;
    readonly ttlMs: number;
    readonly maxHosts: number;
    readonly gateway: string | null;
    readonly publicKey: string | null;
    readonly announce: string | null;
    readonly file: string | null;
  };
  readonly search: {
    readonly timeoutMs: number;
    readonly ids: readonly string[];
    readonly default: readonly string[];
    /** Read by the search room: data, or an engine of the embedder's own. */
    readonly engines: Readonly<Record<string, unknown>>;
    readonly cacheTtlMs: number | null;
    readonly cacheBytes: number;
    /** USD per successful call, by engine id. */
    readonly pricing: Readonly<Record<string, string>>;
  };
  readonly fetch: {
    readonly timeoutMs: number;
    readonly connectTimeoutMs: number;
    readonly firstByteTimeoutMs: number;
    readonly maxBytes: number;
    /** Hosts and CIDR blocks. */
    readonly allow: readonly string[];
    readonly ports: readonly number[];
    readonly redirects: number;
    readonly userAgent: string;
    readonly robots: boolean;
    readonly concurrency: number;
    readonly perHost: number;
    readonly hostDelayMs: number;
    readonly cacheTtlMs: number | null;
    readonly cacheBytes: number;
    readonly cleaners: number | 'auto';
    readonly queue: number;
    readonly cleanTimeoutMs: number;
    readonly cleanMemoryBytes: number;
    /** USD for a page, as a decimal string. */
    readonly price: string;
    readonly pagesPerCleaner: number;
  };
  readonly log: {
    readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
    readonly requests: 'off' | 'errors' | 'all';
    readonly sample: number;
  };
  readonly telemetry: {
    readonly otlp: {
      readonly endpoint: string | null;
      /** May hold credentials; never to be logged. */
      readonly headers: Readonly<Record<string, string>>;
      readonly sample: number;
      readonly serviceName: string;
    };
  };
  /** URL of the ledger; may hold a password, never to be logged. */
  readonly store: string | null;
  readonly credit: {
    /** USD, as a decimal string. */
    readonly lease: string;
    readonly leaseTtlMs: number;
    readonly flushMs: number;
    readonly assumedTokens: number;
  };
  readonly payments: {
    readonly facilitator: string | null;
    /** May hold credentials; never to be logged. */
    readonly facilitatorHeaders: Readonly<Record<string, string>>;
    readonly payTo: string | null;
    readonly network: 'base' | 'base-sepolia' | 'eip155:8453' | 'eip155:84532';
    readonly asset: string | null;
    readonly assetName: string | null;
    readonly assetVersion: string;
    readonly assetDecimals: number;
    /** USD, as decimal strings. */
    readonly maxPurchase: string;
    readonly minimum: string;
    readonly assumedTokens: number;
  };
}

/** A number of the setting's base unit (milliseconds, bytes) or text with a unit, such as `5s` or `100MiB`. */
type Quantity = number | string;

/** The value of a setting as a file holds it, from its resolved name and type. */
type Written<Name, Value> = Name extends `${string}Ms`
  ? Quantity | Extract<Value, null>
  : Name extends `${string}Bytes`
    ? Quantity
    : Value extends Address
      ? Quantity
      : Value extends readonly unknown[]
        ? Value
        : Value extends object
          ? WrittenSection<Value>
          : Value;

type WrittenSection<Section> = {
  readonly [Name in keyof Section as Name extends `${infer Bare}Ms` ? Bare : Name]?: Written<Name, Section[Name]>;
};

/** One model in the file, with the field names of the interface. */
export interface ModelInput {
  readonly servers?: readonly string[];
  readonly context_length?: number;
  readonly hugging_face_id?: string;
  readonly tee?: boolean;
  readonly capabilities?: readonly string[];
  readonly pricing?: { readonly prompt: string; readonly completion: string; readonly cached_prompt?: string };
  readonly name?: string;
  readonly created?: number;
  readonly max_output_length?: number;
  readonly quantization?: string;
  readonly apiKey?: string;
}

/** The shape of the configuration file, and what `createGateway` takes. Everything may be left out. */
export interface SettingsInput extends WrittenSection<Omit<Settings, 'models' | 'payments'>> {
  readonly models?: Readonly<Record<string, ModelInput>>;
  /** Null: none are taken. */
  readonly payments?: WrittenSection<Settings['payments']> | null;
}
