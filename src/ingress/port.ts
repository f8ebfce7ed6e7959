// Settles the public port before anything serves it. Called by the control plane. Ingress threads share one port
// (SO_REUSEPORT), and so would a second gateway without either of them noticing: half of the requests would get lost
// between the two. Sharing also needs a number from the start, which port 0 is not.

import { createServer, type AddressInfo } from 'node:net';
import type { Address } from './server.ts';

/**
 * Resolves with the address, its port chosen if it was 0. Rejects with a sentence when it cannot be listened on.
 * @param shared another gateway may serve the port, so that its being taken is no mistake
 */
export function settlePort({ host, port }: Address, shared = false): Promise<Address> {
  if (shared && port !== 0) return Promise.resolve({ host, port });
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (error) => reject(listenError({ host, port }, error)));
    probe.listen({ host, port, exclusive: true }, () => {
      const settled = { host, port: (probe.address() as AddressInfo).port };
      probe.close(() => resolve(settled));
    });
  });
}

/** The system's reason for not listening as a sentence. */
export function listenError({ host, port }: Address, { code, message }: NodeJS.ErrnoException): Error {
  return new Error(`cannot listen on ${host}:${port}: ${REASONS[code ?? ''] ?? message}`);
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EACCES: 'not permitted',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'no such host',
};
