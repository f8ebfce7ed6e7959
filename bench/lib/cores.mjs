// Assigns processes to CPU cores: the peer under test runs alone on core 0; the upstream and the load client share core 1.

import { availableParallelism } from 'node:os';

export const PROXY_CORE = 0;
export const LOAD_CORE = 1;

/** Cores for a gateway with `threads` ingress threads: core 0, then core 2 and up where the machine has them. */
export function proxyCores(threads) {
  const more = Math.min(threads - 1, Math.max(0, availableParallelism() - 2));
  return [PROXY_CORE, ...Array.from({ length: more }, (_, at) => 2 + at)].join(',');
}
