// The section `trust` of a host's configuration at work: fetches keys from the gateway, registers the host there, and takes
// it out again before it stops.

import { hashKey } from '../billing/index.ts';
import { readTrustedKeys } from '../billing/main-thread.ts';
import { systemClock, systemEpochMs, systemRandom } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { type Host, HostTrust, type Planned, Registration, snapshotFile, type TrustDeps } from '../host/index.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { createLog } from '../telemetry/log.ts';

/** Requests to the gateway at once: one for keys and one for the registration. */
const CONNECTIONS = 2;

/** Of the name of a host at its gateway. */
const MAX_NAME_CHARS = 64;

export interface HostLifecycle {
  /** Null where the configuration names no key of a gateway. */
  readonly guard: HostTrust | null;
  /** Begins to fetch keys. */
  start(): Promise<void>;
  /**
   * Registers the listening host if `trust.announce` is set. `port` replaces the port of that URL. `kvEvents`: the address
   * that its KV events are bound to.
   */
  listening(host: {
    /** Unique among the hosts of the gateway. Default: made of the URL. */
    readonly name?: string | undefined;
    readonly load: () => number;
    readonly port?: number;
    readonly kvEvents?: string | undefined;
  }): void;
  /** Unregisters the host and stops fetching keys. Await it before the host stops serving. */
  leave(): Promise<void>;
}

/** Reads the sections `trust` and `keys` of resolved settings. */
export function hostLifecycle({ keys, log: { level }, trust }: Settings, models: readonly string[]): HostLifecycle {
  const client = new BufferedClient(CONNECTIONS);
  const log = createLog(level);
  const send: TrustDeps['send'] = (request, timeoutMs, maxBytes) =>
    client.send(request, AbortSignal.timeout(timeoutMs), maxBytes);
  const { announce, file, gateway, intervalMs, publicKey, server, token } = trust;
  const own = keys.static.map(({ account, key }) => ({ hash: hashKey(key), account }));
  const guard =
    publicKey === null
      ? null
      : new HostTrust(
          { trusted: readTrustedKeys(publicKey), gateway, token, intervalMs, own },
          {
            ...{ clock: systemClock, random: systemRandom, wallMs: systemEpochMs },
            ...{ send, store: file === null ? null : snapshotFile(file), log },
          },
        );
  let registration: Registration | null = null;
  return {
    guard,
    start: async () => guard?.start(),
    listening({ kvEvents, load, name: given, port }) {
      if (announce === null || gateway === null || token === null) return;
      const url = port === undefined ? announce : withPort(announce, port);
      const name = given ?? nameOf(url);
      const events = kvEvents === undefined ? undefined : reachedAt(kvEvents, announce);
      const settings = { gateway, token, name, url, models, events, server };
      registration = new Registration(settings, { clock: systemClock, random: systemRandom, send, load, log });
      registration.start();
    },
    async leave() {
      await registration?.leave();
      await guard?.close();
      client.close();
    },
  };
}

/** The endpoint as others reach it, who reach the host at `base`. */
function reachedAt(endpoint: string, base: string): string {
  return endpoint.replace(/^tcp:\/\/(?:\*|0\.0\.0\.0|\[::\])(?=:)/, () => `tcp://${new URL(base).hostname}`);
}

/** The URL without its scheme, as far as a name may hold it: `10.0.0.7-9001`. */
function nameOf(url: string): string {
  const name = url.replace(/^https?:\/\//i, '').replaceAll(/[^A-Za-z0-9._-]+/g, '-');
  return name.length <= MAX_NAME_CHARS ? name : `${name.slice(0, MAX_NAME_CHARS - 17)}-${hashKey(url).slice(0, 16)}`;
}

function withPort(base: string, port: number): string {
  const url = new URL(base);
  url.port = String(port);
  return url.href.replace(/\/$/, '');
}

/** A fleet and its gateway: every host registers, fetches keys and leaves independently of the others. */
export interface FleetLifecycle {
  /** The plan, with the key guard of each host. */
  readonly planned: readonly Planned[];
  /** Begins to fetch keys. */
  start(): Promise<void>;
  /** Registers each host of the plan under its own port if `trust.announce` is set. */
  listening(hosts: readonly Host[]): void;
  leave(): Promise<void>;
}

/** `hostLifecycle` for every host of a plan. Each keeps its keys in its own file: the configured path and `.NAME`. */
export function fleetLifecycle(settings: Settings | undefined, planned: readonly Planned[]): FleetLifecycle {
  if (settings === undefined) return { planned, start: async () => {}, listening: () => {}, leave: async () => {} };
  const { servicePrefix, trust } = settings;
  const lifecycle = planned.map(({ settings: { models, name } }) => {
    const file = trust.file === null ? null : `${trust.file}.${name}`;
    return hostLifecycle({ ...settings, trust: { ...trust, file } }, models);
  });
  return {
    planned: planned.map((each, at) => {
      const guard = lifecycle[at]!.guard;
      if (guard === null) return each;
      return { ...each, settings: { ...each.settings, guard, guardPath: `/${servicePrefix}/keys` } };
    }),
    start: async () => void (await Promise.all(lifecycle.map((each) => each.start()))),
    listening(hosts) {
      for (const [at, host] of hosts.entries()) {
        lifecycle[at]!.listening({ name: planned[at]!.settings.name!, load: () => host.live, port: host.port });
      }
    },
    leave: async () => void (await Promise.all(lifecycle.map((each) => each.leave()))),
  };
}
