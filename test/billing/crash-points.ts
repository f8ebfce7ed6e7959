// Points at which a gateway is killed in the crash matrix, and the work that it does until then.

/** Calls of the ledger: each is a point before and one after it. */
export const CALLS = ['account', 'lease', 'extend', 'giveBack', 'charge', 'release', 'renew', 'expire'] as const;

export const POINTS: readonly string[] = [
  ...CALLS.flatMap((name) => [`before ${name}`, `after ${name}`]),
  ...['begun', 'loaded', 'written', 'committed'].map((step) => `commit ${step}`),
  ...['credit drawn', 'answer delivered', 'request settled', 'charges reported', 'all given back'],
];

export const GRANT = 200_000n;
export const LEASE = 2000;
export const REQUESTS = 30;

/** Short, so that leases of killed gateways expire soon. */
export const TTL_MS = 300;
