// How many connections of clients the file descriptors of the process allow. A request of a client needs a second connection, to a server:
// without this bound clients could take the last descriptor by connecting alone, and no request would reach a server.

import { readFileSync } from 'node:fs';

/** Descriptors for all else: listeners, stores, probes, files and event loops. */
const RESERVED = 64;
const RESERVED_PER_THREAD = 16;

/**
 * Most files that this process may have open, which Node.js raises to the hard limit when it starts (getrlimit(2)). Infinity where the system does not
 * tell, as it does on Linux.
 */
export function openFileLimit(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}

/** Connections of clients that each of `threads` threads may have: `wanted`, or as many as have a second descriptor; at least 1. */
export function clientConnections(wanted: number, openFiles: number, threads: number): number {
  const pairs = (openFiles - RESERVED - RESERVED_PER_THREAD * threads) / 2;
  return Math.max(1, Math.min(wanted, Math.floor(pairs / threads)));
}
