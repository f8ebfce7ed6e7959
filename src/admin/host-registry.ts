// Registry of model hosts that announce themselves. A host stays for as long as it repeats its announcement, and is removed when it
// deregisters or stops announcing. Its servers join the configured and the discovered ones after its first good probe. The state
// belongs to this process: every live host announces itself again within a third of `ttlMs`.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Log } from '../telemetry/log.ts';
import { DIALECT_WORDS } from '../config/dialect-bits.ts';
import { LEAST_WEIGHT, MOST_WEIGHT } from '../config/settings.ts';
import { httpUrl } from '../config/units.ts';
import {
  type FoundModels,
  isModelName,
  type KvEventSource,
  readAliases,
  readServerDetails,
  type SaidOfServer,
  type ServerDetails,
} from '../routing/index.ts';

export interface HostRegistrySettings {
  /** Time after its last announcement when a host is taken out. */
  readonly ttlMs: number;
  readonly maxHosts: number;
  /** Time between two probes of a host that has not answered well yet, and the longest wait for one. */
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
  /** Path to probe; `{model}` is replaced by the host's first model. */
  readonly probePath: string;
}

export interface HostRegistryDeps {
  readonly clock: Clock;
  /** Resolves with the status of a GET. */
  readonly probe: (url: string, timeoutMs: number) => Promise<number>;
  /** `found` answers something else than before. */
  readonly onChange: () => void;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

/** A host's announcement. */
export interface Announcement {
  /** 1 to 64 letters, digits, `.`, `_` or `-`. */
  readonly name: string;
  /** Base URL: http or https, without credentials, query or trailing slash. */
  readonly url: string;
  /** 1 to 64 ids, each once. */
  readonly models: readonly string[];
  /** Requests in flight. */
  readonly load: number;
  /** What it says of itself as a server of each of its models. */
  readonly details?: Omit<ServerDetails, 'url'>;
  /** Aliases by model id. */
  readonly aliases?: ReadonlyMap<string, readonly string[]>;
}

/** A registered host, as the status shows it: without its credential. */
export interface RegisteredHost extends Omit<Announcement, 'details' | 'aliases'> {
  readonly dialects?: ServerDetails['dialects'];
  readonly weight?: number;
  readonly events?: KvEventSource;
  readonly aliases?: Readonly<Record<string, readonly string[]>>;
  readonly listed: boolean;
  readonly silentMs: number;
}

/**
 * How an announcement ended. `taken`: the name, or the URL, belongs to another host until that one leaves or falls
 * silent. `full`: there are `maxHosts` already.
 */
export type Registered = 'new' | 'renewed' | 'taken' | 'full';

const MAX_MODELS = 64;
const MAX_URL_CHARS = 2048;
const NAME = /^[A-Za-z0-9._-]{1,64}$/;

interface Entry {
  announced: Announcement;
  heardMs: number;
  listed: boolean;
  expiry: TimerHandle;
  probe: TimerHandle | null;
}

/** A timer that is later says that this process stood still, and hosts on the same machine with it: they get the time to announce themselves. */
const STALL_MS = 1000;

export class HostRegistry {
  #settings: HostRegistrySettings;
  readonly #deps: HostRegistryDeps;
  readonly #entries = new Map<string, Entry>();
  #found: FoundModels = new Map();

  constructor(settings: HostRegistrySettings, deps: HostRegistryDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** Models of hosts that have answered a probe. */
  get found(): FoundModels {
    return this.#found;
  }

  get ttlMs(): number {
    return this.#settings.ttlMs;
  }

  configure(settings: HostRegistrySettings): void {
    this.#settings = settings;
  }

  /** Takes an announcement, the first or one of many. */
  announce(announced: Announcement): Registered {
    const held = this.#entries.get(announced.name);
    if (held !== undefined && held.announced.url !== announced.url) return 'taken';
    if (held === undefined) {
      for (const other of this.#entries.values()) if (other.announced.url === announced.url) return 'taken';
      if (this.#entries.size >= this.#settings.maxHosts) return 'full';
      this.#enter(announced);
      return 'new';
    }
    const moved = listing(held.announced) !== listing(announced);
    held.announced = announced;
    held.heardMs = this.#deps.clock.now();
    this.#deps.clock.clearTimeout(held.expiry);
    held.expiry = this.#expiryOf(announced.name);
    if (moved && held.listed) this.#changed();
    return 'renewed';
  }

  /** Takes a host out; false when there is none of this name, or it has another URL. */
  remove(name: string, url?: string): boolean {
    const entry = this.#entries.get(name);
    if (entry === undefined || (url !== undefined && url !== entry.announced.url)) return false;
    this.#drop(name, entry);
    this.#deps.log.info({ host: name, url: entry.announced.url }, 'host has left');
    return true;
  }

  status(): RegisteredHost[] {
    const nowMs = this.#deps.clock.now();
    return [...this.#entries.values()].map(({ announced, listed, heardMs }) => {
      const { aliases, details: { apiKey: _, ...details } = {}, load, models, name, url } = announced;
      return {
        ...{ name, url, models, load, ...details },
        ...(aliases !== undefined && { aliases: Object.fromEntries(aliases) }),
        ...{ listed, silentMs: Math.round(nowMs - heardMs) },
      };
    });
  }

  close(): void {
    for (const entry of this.#entries.values()) this.#stop(entry);
    this.#entries.clear();
    // The admin listener closes later.
    this.#settings = { ...this.#settings, maxHosts: 0 };
  }

  #enter(announced: Announcement): void {
    const heardMs = this.#deps.clock.now();
    const entry: Entry = { announced, heardMs, listed: false, expiry: this.#expiryOf(announced.name), probe: null };
    this.#entries.set(announced.name, entry);
    this.#deps.log.info(
      { host: announced.name, url: announced.url, models: announced.models },
      'host announces itself',
    );
    this.#probe(entry);
  }

  #expiryOf(name: string): TimerHandle {
    const { ttlMs } = this.#settings;
    const { clock } = this.#deps;
    const dueMs = clock.now() + ttlMs;
    return clock.setTimeout(() => {
      const entry = this.#entries.get(name);
      if (entry === undefined) return;
      if (clock.now() - dueMs > STALL_MS) {
        entry.expiry = this.#expiryOf(name);
        return;
      }
      this.#drop(name, entry);
      this.#deps.log.warn({ host: name, url: entry.announced.url, silentMs: ttlMs }, 'host has fallen silent');
    }, ttlMs);
  }

  #drop(name: string, entry: Entry): void {
    this.#stop(entry);
    this.#entries.delete(name);
    if (entry.listed) this.#changed();
  }

  #stop(entry: Entry): void {
    this.#deps.clock.clearTimeout(entry.expiry);
    if (entry.probe !== null) this.#deps.clock.clearTimeout(entry.probe);
  }

  /** Probes until the first good answer; from then on the CRN registry does. */
  #probe(entry: Entry): void {
    const { probePath, probeTimeoutMs, probeIntervalMs } = this.#settings;
    const { url, name, models } = entry.announced;
    entry.probe = null;
    const path = probePath.replaceAll('{model}', encodeURIComponent(models[0] ?? ''));
    const judge = (good: boolean): void => {
      if (this.#entries.get(name) !== entry) return;
      if (good) {
        entry.listed = true;
        this.#deps.log.info({ host: name, url }, 'host is listed');
        this.#changed();
      } else {
        entry.probe = this.#deps.clock.setTimeout(() => this.#probe(entry), probeIntervalMs);
      }
    };
    this.#deps.probe(url + path, probeTimeoutMs).then(
      (status) => judge(status === 200),
      () => judge(false),
    );
  }

  #changed(): void {
    const found = new Map<string, { readonly servers: ServerDetails[]; readonly aliases: string[] }>();
    const spelling = new Map<string, string>();
    for (const { announced, listed } of this.#entries.values()) {
      if (!listed) continue;
      for (const model of announced.models) {
        // The first host's spelling is the model's, as everywhere ids match in any case.
        const id = spelling.get(model.toLowerCase()) ?? model;
        spelling.set(model.toLowerCase(), id);
        const { aliases, details, url } = announced;
        const { aliases: names, servers } = found.get(id) ?? { servers: [], aliases: [] };
        servers.push({ url, ...details });
        names.push(...(aliases?.get(model) ?? []));
        found.set(id, { servers, aliases: names });
      }
    }
    this.#found = found;
    this.#deps.onChange();
  }
}

/** What the routing table takes over of an announcement. */
function listing({ aliases, details, models }: Announcement): string {
  return JSON.stringify([models, details, [...(aliases ?? [])]]);
}

/** Parses an announcement: the value, or a message about what is wrong with it. */
export function readAnnouncement(value: unknown): Announcement | string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'the body must be a JSON object';
  const { aliases, load = 0, models, name, url, ...members } = value as Record<string, unknown>;
  if (typeof name !== 'string' || !NAME.test(name)) return 'name must be 1 to 64 letters, digits, ".", "_" or "-"';
  const base = typeof url === 'string' ? baseUrl(url) : null;
  if (base === null) return 'url must be an http or https base URL without credentials, query or fragment';
  if (!Array.isArray(models) || models.length < 1 || models.length > MAX_MODELS || !models.every(isModelName)) {
    return `models must be 1 to ${MAX_MODELS} model ids`;
  }
  if (new Set(models.map((id) => id.toLowerCase())).size < models.length) return 'models must each be named once';
  if (typeof load !== 'number' || !Number.isFinite(load) || load < 0) return 'load must be a number of 0 or more';
  const details = readServerDetails(members);
  if (typeof details === 'string') return `${details} must be ${EXPECTED[details]}`;
  const names = readModelAliases(aliases, models);
  if (names === null) return 'aliases must be a mapping of ids in models to lists of up to 64 further names';
  return {
    ...{ name, url: base, models, load },
    ...(Object.keys(details).length > 0 && { details }),
    ...(names.size > 0 && { aliases: names }),
  };
}

/** What the members of an announcement must be; see `ServerDetails`. */
const EXPECTED: Readonly<Record<SaidOfServer, string>> = {
  url: 'a base URL',
  dialects: `auto or a list of ${DIALECT_WORDS.join(', ')}`,
  apiKey: 'a credential of visible ASCII characters without spaces',
  weight: `a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}`,
  events: 'a ZeroMQ endpoint, such as "tcp://10.0.0.1:5557"',
};

/** Reads the aliases of an announcement by model id; null when they cannot be read, or are of other models. */
function readModelAliases(value: unknown, models: readonly string[]): ReadonlyMap<string, readonly string[]> | null {
  if (value === undefined) return new Map();
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const aliases = new Map<string, readonly string[]>();
  for (const [id, names] of Object.entries(value)) {
    const read = models.includes(id) ? readAliases(names) : null;
    if (read === null) return null;
    aliases.set(id, read);
  }
  return aliases;
}

function baseUrl(text: string): string | null {
  const url = text.length > MAX_URL_CHARS ? null : httpUrl(text);
  if (url === null) return null;
  if (url.username !== '' || url.password !== '' || /[?#\s]/.test(text)) return null;
  return url.href.replace(/\/+$/, '');
}
