// The interface of the server adapters, and the addresses that they listen on.

import { type AddressInfo, createServer } from 'node:net';
import type { Clock } from '../actor/index.ts';
import type { BodyBudget, BodyLimits } from './body.ts';
import type { Exchange, ExchangeHandler } from './exchange.ts';
import type { ErrorDecorator } from './respond.ts';

/** Where a server listens. Port 0 picks a free one. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Limits of a server. They are read whenever they are needed, so that they may change. */
export interface ServerLimits extends BodyLimits {
  /** Largest head of a request in bytes. Read once. */
  readonly headerBytes: number;
  /** Longest time in milliseconds in which a client takes nothing of a response that waits for it. */
  readonly clientIdleMs: number;
  /** Longest time in milliseconds that a connection waits for its first or next request. */
  readonly keepAliveMs: number;
  /** Most open connections of one server. Behind it an unused one makes room for a new one, or the new one is closed. */
  readonly connections: number;
}

/** What a server has counted. */
export interface ConnectionCounts {
  /** Open connections. */
  open: number;
  /** Connections that were closed because there were too many. */
  refused: number;
}

export interface ServerOptions {
  readonly handler: ExchangeHandler;
  /** Gets an exchange whose request is refused before it is routed, before its error is sent. */
  readonly onRefused?: (exchange: Exchange) => void;
  /** Members beside `detail` in the errors that the server answers itself. */
  readonly decorate?: ErrorDecorator;
  /** Gets what was thrown where nothing may throw. One connection has been closed for it. */
  readonly onError?: (error: unknown) => void;
  readonly clock: Clock;
  readonly limits: ServerLimits;
  readonly budget: BodyBudget;
  /** Default: counters of its own. */
  readonly counts?: ConnectionCounts;
}

export interface Server {
  /** Name for logs: `node` is the gateway's own server on node:net. */
  readonly name: 'uws' | 'node';
  /** Resolves with the address that was bound; rejects with the system's reason. */
  listen(address: Address): Promise<Address>;
  /** Closes each connection after its current response. Resolves when those that waited are accepted, and no more will be. */
  drain(): Promise<void>;
  /** Ends every connection at once. Safe to call twice and from an exit handler. */
  close(): void;
}

/** Splits `HOST:PORT`, with IPv6 hosts in brackets; a bare port listens on all interfaces. */
export function parseAddress(text: string): Address {
  const match = /^(?:(?:\[([^\]]+)\]|([^:]*)):)?(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new Error(`not an address of the form HOST:PORT: ${text}`);
  return { host: match[1] ?? (match[2] || '0.0.0.0'), port };
}

/** A URL that a person on this machine can open. */
export function addressUrl(address: Address): string {
  const host = address.host === '0.0.0.0' ? '127.0.0.1' : address.host === '::' ? '::1' : address.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
}

/** An address that can be listened on. */
export interface SettledPort {
  readonly address: Address;
  /** Gives up a port that was picked. To be called once those who share it listen. */
  readonly release: () => void;
}

/**
 * Checks that an address can be listened on, and picks the port if it is 0. Ingress threads share one port (SO_REUSEPORT), and a
 * second gateway would share it too without notice: half of the requests would go to each. Sharing needs a port other than 0. A port that
 * was picked is kept until it is released, so that nothing else can take it in between.
 * @param shared whether another gateway may serve the port already
 * @returns the address with its port; rejects with a sentence when it cannot be listened on
 */
export function settlePort({ host, port }: Address, shared = false): Promise<SettledPort> {
  const release = (): void => undefined;
  if (shared && port !== 0) return Promise.resolve({ address: { host, port }, release });
  return new Promise((resolve, reject) => {
    const probe = createServer((socket) => socket.destroy());
    probe.once('error', (error) => reject(new ListenError({ host, port }, error)));
    // The kernel picks no port that is listened on, whether it is shared or not.
    const isPicked = port === 0;
    probe.listen({ host, port, exclusive: true, reusePort: isPicked }, () => {
      const address = { host, port: (probe.address() as AddressInfo).port };
      if (isPicked) resolve({ address, release: () => probe.close() });
      else probe.close(() => resolve({ address, release }));
    });
  });
}

/** An address cannot be listened on. Its message is a sentence for whoever starts the program. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
  /** The system's, such as `EADDRINUSE`. */
  readonly code: string | undefined;
  readonly address: Address;

  constructor(address: Address, { code, message }: NodeJS.ErrnoException) {
    const { host, port } = address;
    super(`cannot listen on ${host}:${port}: ${REASONS[code ?? ''] ?? message}`);
    this.code = code;
    this.address = address;
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EACCES: 'not permitted',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'no such host',
};
