// What the system allows the process, and what that leaves for clients: without these bounds they could take the last file descriptor by
// connecting alone, so that no request reaches a server, or all memory of a container by uploads, so that the system ends the gateway.

import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import type { Settings } from '../config/settings.ts';

/** Descriptors for all but clients and servers: listeners, stores, probes, files and event loops. */
const OWN_FILES = 64;
const OWN_FILES_PER_THREAD = 32;

/** Memory of an idle gateway and its code. */
const OWN_BYTES = 256 * 1024 * 1024;
const LEAST_BUFFERED_BYTES = 32 * 1024 * 1024;

/** What a process may use at most; Infinity where the system does not tell. */
export interface ProcessLimits {
  /** Open files: the hard limit of getrlimit(2), to which Node.js raises the soft one when it starts. */
  readonly files: number;
  /** Bytes of memory: of its control group, or of the machine. */
  readonly memoryBytes: number;
}

export function processLimits(): ProcessLimits {
  // 0, or more than there is, where nothing limits it.
  const constrainedBytes = process.constrainedMemory();
  return { files: openFileLimit(), memoryBytes: Math.min(totalmem(), constrainedBytes || Infinity) };
}

function openFileLimit(): number {
  try {
    return Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1] ?? Infinity);
  } catch {
    return Infinity;
  }
}

/**
 * The limits that `threads` threads apply: `limits.connections` so that each connection of a client leaves a descriptor for one to a server, and
 * `limits.bufferedBytes` so that it is half of the memory at most, as bodies are also in the buffers of sockets. No body may be longer than that.
 */
export function withinProcess(
  limits: Settings['limits'],
  { files, memoryBytes }: ProcessLimits,
  threads: number,
): Settings['limits'] {
  const pairs = (files - OWN_FILES - OWN_FILES_PER_THREAD * threads) / 2;
  const connections = Math.max(1, Math.min(limits.connections, Math.floor(pairs / threads)));
  const freeBytes = Math.max(LEAST_BUFFERED_BYTES, Math.floor((memoryBytes - OWN_BYTES) / 2));
  const bufferedBytes = Math.min(limits.bufferedBytes, freeBytes);
  return { ...limits, connections, bufferedBytes, bodyBytes: Math.min(limits.bodyBytes, bufferedBytes) };
}
