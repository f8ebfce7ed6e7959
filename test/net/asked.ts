// A request through a pool of the client, told in words.

import type { ConnectionPool, DispatchHandler } from '../../src/net/client.ts';

/** Resolves with the status of the response, or with the fault and the code of its cause. */
export function asked(pool: ConnectionPool | undefined): Promise<string> {
  return new Promise((resolve) => {
    let outcome = '';
    const handler: DispatchHandler = {
      onRequestSent: () => undefined,
      onResponseStart: (status) => void (outcome = String(status)),
      onResponseData: () => undefined,
      onResponseEnd: () => resolve(outcome),
      onResponseError: ({ cause, fault }) => resolve(`${fault}: ${(cause as NodeJS.ErrnoException).code}`),
    };
    pool?.dispatch({ method: 'GET', path: '/', headers: [], body: Buffer.alloc(0) }, handler);
  });
}
