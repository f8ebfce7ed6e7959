// Who runs where. The peer under test has core 0 for itself; the upstream and the load client share core 1.

import { availableParallelism } from 'node:os';

export const PROXY_CORE = 0;
export const LOAD_CORE = 1;

/** Cores of a gateway with `threads` ingress threads: core 0, and those beyond core 1 where the machine has them. */
export function proxyCores(threads) {
  const more = Math.min(threads - 1, Math.max(0, availableParallelism() - 2));
  return [PROXY_CORE, ...Array.from({ length: more }, (_, at) => 2 + at)].join(',');
}
