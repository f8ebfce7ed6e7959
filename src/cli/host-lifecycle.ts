// What the section `trust` of a host's configuration comes to: keys from the gateway, and the host announced to it. Made by
// `headrace host` around one host, or around each host of a fleet.

import { hashKey, readTrustedKeys } from '../billing/index.ts';
import { systemClock, systemRandom } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { type Host, HostTrust, type Planned, Registration, snapshotFile, type TrustDeps } from '../host/index.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { createLog } from '../telemetry/log.ts';

/** At most this many requests to the gateway at once: a question for keys and an announcement. */
const CONNECTIONS = 2;

export interface HostLifecycle {
  /** Null where the configuration names no key of a gateway. */
  readonly guard: HostTrust | null;
  /** Asks for keys from now on. */
  start(): Promise<void>;
  /** The host listens there: announces it, if the configuration says so. `port` takes the place of the one in it. */
  listening(host: { readonly name: string; readonly load: () => number; readonly port?: number }): void;
  /** Takes the host out of the gateway; to be awaited before it stops serving. */
  leave(): Promise<void>;
}

/** Reads the sections `trust` and `keys`. The settings have been checked. */
export function hostLifecycle({ keys, log: { level }, trust }: Settings, models: readonly string[]): HostLifecycle {
  const client = new BufferedClient(CONNECTIONS);
  const log = createLog(level);
  const send: TrustDeps['send'] = (request, timeoutMs, maxBytes) =>
    client.send(request, AbortSignal.timeout(timeoutMs), maxBytes);
  const { announce, file, gateway, intervalMs, publicKey, token } = trust;
  const own = keys.static.map(({ account, key }) => ({ hash: hashKey(key), account }));
  const guard =
    publicKey === null
      ? null
      : new HostTrust(
          { trusted: readTrustedKeys(publicKey), gateway, token, intervalMs, own },
          {
            ...{ clock: systemClock, random: systemRandom, wallMs: () => performance.timeOrigin + performance.now() },
            ...{ send, store: file === null ? null : snapshotFile(file), log },
          },
        );
  let registration: Registration | null = null;
  return {
    guard,
    start: async () => guard?.start(),
    listening({ load, name, port }) {
      if (announce === null || gateway === null || token === null) return;
      const url = port === undefined ? announce : withPort(announce, port);
      const settings = { gateway, token, name, url, models };
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

function withPort(base: string, port: number): string {
  const url = new URL(base);
  url.port = String(port);
  return url.href.replace(/\/$/, '');
}

/** A fleet and its gateway: every host trusts, registers and leaves by itself, as hosts of their own would. */
export interface FleetLifecycle {
  /** The plan, with what each host judges keys by. */
  readonly planned: readonly Planned[];
  /** Asks for keys from now on. */
  start(): Promise<void>;
  /** The hosts of the plan listen: announces each under its own port, if the configuration says so. */
  listening(hosts: readonly Host[]): void;
  leave(): Promise<void>;
}

/** As `bondsOf` for every host of a plan; each keeps its keys in a file of its own, which has its name at the end. */
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
    start: async () => void (await Promise.all(lifecycle.map((bond) => bond.start()))),
    listening(hosts) {
      for (const [at, host] of hosts.entries()) {
        lifecycle[at]!.listening({ name: planned[at]!.settings.name!, load: () => host.live, port: host.port });
      }
    },
    leave: async () => void (await Promise.all(lifecycle.map((bond) => bond.leave()))),
  };
}
