// What the section `trust` of a host's configuration comes to: keys from the gateway, and the host announced to it. Made by
// `headrace host` around one host.

import { hashKey, readTrustedKeys } from '../account/index.ts';
import { systemClock, systemRandom } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { HostTrust, Registration, snapshotFile, type TrustWorld } from '../host/index.ts';
import { WholeClient } from '../net/whole.ts';
import { createLog } from '../telemetry/log.ts';

/** At most this many requests to the gateway at once: a question for keys and an announcement. */
const CONNECTIONS = 2;

export interface HostBonds {
  /** Null where the configuration names no key of a gateway. */
  readonly guard: HostTrust | null;
  /** Asks for keys from now on. */
  start(): Promise<void>;
  /** The host listens there: announces it, if the configuration says so. */
  listening(host: { readonly name: string; readonly load: () => number }): void;
  /** Takes the host out of the gateway; to be awaited before it stops serving. */
  leave(): Promise<void>;
}

/** Reads the sections `trust` and `keys`. The settings have been checked. */
export function bondsOf({ keys, log: { level }, trust }: Settings, models: readonly string[]): HostBonds {
  const client = new WholeClient(CONNECTIONS);
  const log = createLog(level);
  const send: TrustWorld['send'] = (request, timeoutMs, maxBytes) =>
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
    listening({ load, name }) {
      if (announce === null || gateway === null || token === null) return;
      const settings = { gateway, token, name, url: announce, models };
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
