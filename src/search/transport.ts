// Requests to search engines, with failures in the words that clients of a search read. The only part of the room that
// touches the network.

import { DispatchError } from '../net/client.ts';
import { TooLongError, BufferedClient } from '../net/buffered-client.ts';
import type { EngineRequest, EngineResponse } from './engine.ts';

/** A request that got no usable answer. */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly trouble: 'connection' | 'invalid';
  /** For `meta.engine_errors`. */
  readonly reason: string;

  constructor(trouble: 'connection' | 'invalid', reason: string, cause: unknown) {
    super(reason, { cause });
    this.trouble = trouble;
    this.reason = reason;
  }
}

export interface Transport {
  /** Rejects with `TransportError`, or with the reason of `signal`. */
  send(request: EngineRequest, signal: AbortSignal): Promise<EngineResponse>;
  close(): void;
}

/** Far above any page of results. */
const MAX_BYTES = 8 * 1024 * 1024;

/** Connections to one engine, from one thread. */
const CONNECTIONS = 64;

export function createTransport(): Transport {
  const client = new BufferedClient(CONNECTIONS);
  return {
    send: async (request, signal) => {
      try {
        return await client.send(request, signal, MAX_BYTES);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (error instanceof TooLongError || isUnreadable(error))
          throw new TransportError('invalid', 'invalid response', error);
        throw new TransportError('connection', 'connection failed', error);
      }
    },
    close: () => client.close(),
  };
}

/** What came is no HTTP, or compressed bytes that are none or swell past the limit. */
function isUnreadable(error: unknown): boolean {
  if (error instanceof DispatchError) return error.fault === 'malformed';
  return /^(?:Z_|ERR__ERROR_|ERR_BUFFER_TOO_LARGE$)/.test((error as NodeJS.ErrnoException).code ?? '');
}
