// Registers a host at its gateway, renews the registration, and removes it on drain. While the gateway is unreachable,
// registration is retried with backoff.
import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';
import type { TrustDeps } from './host-trust.ts';

export interface RegistrationSettings {
  /** Base URL of the gateway's admin listener. */
  readonly gateway: string;
  readonly token: string;
  /** Unique among the hosts of a gateway: 1 to 64 letters, digits, `.`, `_` or `-`. */
  readonly name: string;
  /** Base URL under which the gateway reaches this host. */
  readonly url: string;
  readonly models: readonly string[];
  /** `tcp://HOST:PORT` at which the gateway reaches the KV events of this host. */
  readonly events?: string | undefined;
  /** What the gateway is told of this host as a server. */
  readonly server?: Settings['trust']['server'];
}

export interface RegistrationDeps {
  readonly clock: Clock;
  readonly random: () => number;
  readonly send: TrustDeps['send'];
  /** Requests in flight. */
  readonly load: () => number;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

const TIMEOUT_MS = 5000;
const ANSWER_BYTES = 64 * 1024;
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 15_000;

/** When a gateway does not say how long an announcement holds. */
const TTL_MS = 30_000;

/** Bounds of what a gateway may ask for. */
const MIN_PERIOD_MS = 100;

export class Registration {
  readonly #settings: RegistrationSettings;
  readonly #deps: RegistrationDeps;
  #timer: TimerHandle | null = null;
  #failures = 0;
  #registered = false;
  #left = false;
  #announcing: Promise<void> = Promise.resolve();

  constructor(settings: RegistrationSettings, deps: RegistrationDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** True while the gateway counts on this host. */
  get registered(): boolean {
    return this.#registered;
  }

  /** Announces the host from now on. Call it once the host answers its health path. */
  start(): void {
    this.#announcing = this.#announce();
  }

  /** Tells the gateway to send nothing more; never rejects, since a gateway that is away forgets the host by itself. */
  async leave(): Promise<void> {
    if (this.#left) return;
    this.#left = true;
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    // An announcement that arrives after the leave would bring the host back.
    await this.#announcing;
    this.#registered = false;
    const { name, url } = this.#settings;
    try {
      await this.#send('DELETE', `/hosts/${name}?url=${encodeURIComponent(url)}`);
    } catch (error) {
      this.#deps.log.warn({ problem: messageOf(error) }, 'this host could not be deregistered at the gateway');
    }
  }

  async #announce(): Promise<void> {
    const { name, url, models, events, server } = this.#settings;
    const { log, load } = this.#deps;
    const details = server === undefined ? {} : serverMembers(server, models);
    try {
      const { status, body } = await this.#send('POST', '/hosts', {
        name,
        url,
        models,
        load: load(),
        events,
        ...details,
      });
      const { ttl_ms: ttlMs, detail } = membersOf(parsedJson(body.toString()));
      if (status !== 200 && status !== 201) throw new Error(`it answered ${status}: ${String(detail)}`);
      if (!this.#registered && !this.#left) log.info({ gateway: this.#settings.gateway, name }, 'registered');
      this.#registered = true;
      this.#failures = 0;
      this.#next(Math.max(MIN_PERIOD_MS, (typeof ttlMs === 'number' ? ttlMs : TTL_MS) / 3));
    } catch (error) {
      if (this.#failures++ === 0) log.warn({ problem: messageOf(error) }, 'the gateway does not register this host');
      this.#registered = false;
      this.#next(Math.min(FIRST_RETRY_MS * 2 ** (this.#failures - 1), MAX_RETRY_MS));
    }
  }

  #next(delayMs: number): void {
    if (this.#left) return;
    const { clock, random } = this.#deps;
    this.#timer = clock.setTimeout(() => this.start(), delayMs * (0.8 + 0.4 * random()));
  }

  #send(method: 'POST' | 'DELETE', path: string, body?: object): Promise<{ status: number; body: Buffer }> {
    const { gateway, token } = this.#settings;
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'user-agent': 'headrace' };
    const request = { method, url: gateway + path, headers };
    const whole = body === undefined ? request : { ...request, body: JSON.stringify(body) };
    return this.#deps.send(whole, TIMEOUT_MS, ANSWER_BYTES);
  }
}

/** Members of an announcement; what has its default is left out, for gateways that do not know it. */
function serverMembers(
  { aliases, apiKey, dialects, weight }: Settings['trust']['server'],
  models: readonly string[],
): Record<string, unknown> {
  // A fleet has one configuration for hosts of several models.
  const own = Object.entries(aliases).filter(([model]) => models.includes(model));
  return {
    ...(dialects !== 'auto' && { dialects }),
    ...(apiKey !== null && { apiKey }),
    ...(weight !== 1 && { weight }),
    ...(own.length > 0 && { aliases: Object.fromEntries(own) }),
  };
}
