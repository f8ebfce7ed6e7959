// Settings for the tests of host trust: a gateway that signs keys for its hosts, and hosts that accept keys signed by it.

import { createSigningKey } from '../../src/billing/main-thread.ts';

const TOKEN = 'sesame';
const SIGNING = createSigningKey();

/** Settings of a gateway whose hosts register at its admin listener and take these keys from it. */
export function trustedGateway(adminPort: number, keys: readonly string[]): object {
  return {
    listen: '127.0.0.1:0',
    admin: `127.0.0.1:${adminPort}`,
    threads: 1,
    models: { 'another-1b': { servers: ['http://127.0.0.1:9'] } },
    keys: { static: keys.map((key) => ({ key, account: 'tests' })) },
    trust: { signingKey: SIGNING.privateKey.export({ type: 'pkcs8', format: 'pem' }), token: TOKEN, interval: '1s' },
    health: { interval: '100ms' },
    log: { level: 'warn' },
  };
}

/** The section `trust` of a host that announces itself to that gateway as `announce`; without it, it only takes keys. */
export function hostTrust(adminPort: number, announce?: string): object {
  const gateway = `http://127.0.0.1:${adminPort}`;
  return { gateway, publicKey: SIGNING.publicKey, token: TOKEN, interval: '1s', announce };
}
