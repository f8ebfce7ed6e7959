// Routes of model hosts on the admin listener, by the section `trust` of the settings: distributes keys
// (`key-distribution.ts`) and registers hosts (`host-registry.ts`). Without a signing key or a token in the settings it does
// nothing.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SigningKey, SnapshotKey } from '../billing/index.ts';
import { createSigningKey, SNAPSHOT_TYPE } from '../billing/main-thread.ts';
import type { Clock } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import type { BufferedClient } from '../net/buffered-client.ts';
import type { Log } from '../telemetry/log.ts';
import { bearerGuard, readJson, refusesMethod, respondJson } from './admin-exchange.ts';
import { type DistributionStatus, KeyDistribution } from './key-distribution.ts';
import { readAnnouncement, type RegisteredHost, HostRegistry, type HostRegistrySettings } from './host-registry.ts';
import type { FoundModels } from '../routing/index.ts';
import { readConfiguredKey } from './trust-settings.ts';

export interface HostRoutesOptions {
  readonly settings: Settings;
  readonly client: BufferedClient;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly random: () => number;
  readonly log: Log;
  /** `registered` answers something else than before. */
  readonly onChange: () => void;
}

/** Hosts in `/status`. */
export interface HostRoutesStatus {
  /** The public key that hosts are to trust; null when no keys are distributed. */
  readonly publicKey: string | null;
  readonly keys: readonly DistributionStatus[];
  readonly registered: readonly RegisteredHost[];
}

const PROBE_BYTES = 64 * 1024;

/** An announcement with the most models of the longest names. */
const MAX_ANNOUNCEMENT_BYTES = 64 * 1024;

export class HostRoutes {
  readonly #options: HostRoutesOptions;
  #signingKey: SigningKey | null = null;
  #distribution: KeyDistribution | null = null;
  readonly #registry: HostRegistry;
  #isGood: ((authorization: string | undefined) => boolean) | null;

  /** Throws a sentence when the signing key cannot be read. */
  constructor(options: HostRoutesOptions) {
    const { settings, client, clock, log, onChange } = options;
    this.#options = options;
    this.#isGood = bearerGuard(settings.trust.token);
    this.#sign(settings);
    this.#registry = new HostRegistry(registrySettings(settings), {
      clock,
      log,
      onChange,
      probe: async (url, timeoutMs) => (await client.get(url, timeoutMs, PROBE_BYTES)).status,
    });
  }

  /** Models of registered hosts that have answered a probe. */
  get registered(): FoundModels {
    return this.#registry.found;
  }

  /** Takes over settings, every good key (null: not known yet), and the base URLs of every host in use. */
  configure(settings: Settings, keys: readonly SnapshotKey[] | null, urls: Iterable<string>): void {
    this.#isGood = bearerGuard(settings.trust.token);
    this.#registry.configure(registrySettings(settings));
    this.#sign(settings);
    this.#distribution?.configure(keys, urls);
  }

  status(): HostRoutesStatus {
    return {
      publicKey: this.#signingKey?.publicKey ?? null,
      keys: this.#distribution?.status() ?? [],
      registered: this.#registry.status(),
    };
  }

  /** Whether a value of `Authorization` has the token of hosts. */
  isTrusted(authorization: string | undefined): boolean {
    return this.#isGood?.(authorization) === true;
  }

  /** Begins to sign keys where the settings say so for the first time. */
  #sign(settings: Settings): void {
    if (this.#distribution !== null) return;
    const { client, clock, epochMs, log, random } = this.#options;
    const signingKey = signingKeyOf(settings, log);
    if (signingKey === null) return;
    this.#signingKey = signingKey;
    this.#distribution = new KeyDistribution(
      { signingKey, path: `/${settings.servicePrefix}/keys`, intervalMs: settings.trust.intervalMs },
      {
        clock,
        random,
        wallMs: epochMs,
        log,
        send: (request, timeoutMs, maxBytes) => client.send(request, AbortSignal.timeout(timeoutMs), maxBytes),
      },
    );
  }

  close(): void {
    this.#distribution?.close();
    this.#registry.close();
  }

  /** Answers a request to one of its paths on the admin listener; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean {
    const isHosts = path === '/hosts' || path.startsWith('/hosts/');
    if (!isHosts && path !== '/keys/snapshot') return false;
    const wanted = isHosts ? (path === '/hosts' ? 'POST' : 'DELETE') : 'GET';
    if (refusesMethod(req, res, wanted)) return true;
    if (this.#isGood === null) {
      respondJson(res, 403, { detail: 'hosts are not served here: trust.token is not set' });
    } else if (!this.#isGood(req.headers.authorization)) {
      respondJson(res, 401, { detail: 'the token of this gateway is required' }, { 'www-authenticate': 'Bearer' });
    } else if (wanted === 'GET') {
      this.#answerSnapshot(res);
    } else if (wanted === 'DELETE') {
      this.#answerLeave(res, path.slice('/hosts/'.length), query.get('url') ?? undefined);
    } else {
      void this.#answerAnnouncement(req, res);
    }
    return true;
  }

  #answerSnapshot(res: ServerResponse): void {
    const body = this.#distribution?.snapshot() ?? null;
    if (body === null) {
      respondJson(res, 503, { detail: 'no key snapshot could be signed' });
      return;
    }
    res.writeHead(200, { 'content-type': SNAPSHOT_TYPE, 'content-length': body.length, 'cache-control': 'no-store' });
    res.end(body);
  }

  #answerLeave(res: ServerResponse, name: string, url: string | undefined): void {
    if (this.#registry.remove(name, url)) respondJson(res, 200, { status: 'removed' });
    else respondJson(res, 404, { detail: 'no such host is registered' });
  }

  async #answerAnnouncement(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const body = await readJson(req, MAX_ANNOUNCEMENT_BYTES);
    if (body === 'gone') return;
    if (body === 'too long') {
      respondJson(res, 413, { detail: 'the announcement is too long' }, { connection: 'close' });
      return;
    }
    const announcement = body === 'not JSON' ? 'the body must be a JSON object' : readAnnouncement(body.value);
    if (typeof announcement === 'string') {
      respondJson(res, 422, { detail: announcement });
      return;
    }
    const { ttlMs } = this.#registry;
    const registered = this.#registry.announce(announcement);
    const later = { 'retry-after': String(Math.ceil(ttlMs / 1000)) };
    if (registered === 'taken') {
      respondJson(res, 409, { detail: 'the name or the URL belongs to another host that is alive' }, later);
    } else if (registered === 'full') {
      this.#options.log.warn({ host: announcement.name }, 'host not registered: too many');
      respondJson(res, 429, { detail: 'too many hosts are registered' }, later);
    } else {
      respondJson(res, registered === 'new' ? 201 : 200, { status: registered, ttl_ms: ttlMs });
    }
  }
}

function registrySettings({ trust, health }: Settings): HostRegistrySettings {
  return {
    ttlMs: trust.ttlMs,
    maxHosts: trust.maxHosts,
    probeIntervalMs: health.intervalMs,
    probeTimeoutMs: health.timeoutMs,
    probePath: health.path,
  };
}

/** The key of the settings, or one for the life of this process when hosts are served without. */
function signingKeyOf({ trust }: Settings, log: Log): SigningKey | null {
  if (trust.signingKey === null && trust.token === null) return null;
  const key = trust.signingKey === null ? createSigningKey() : readConfiguredKey(trust.signingKey);
  const note = trust.signingKey === null ? 'keys are signed by a key of this process only' : 'keys are signed';
  log.info({ publicKey: key.publicKey, issuer: key.id }, note);
  return key;
}
