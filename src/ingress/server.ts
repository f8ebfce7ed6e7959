// What a carrier of requests is, and which one serves: uWebSockets.js, or node:http where its binary does not load.
// The contract suite runs against every implementation.

import type { Clock } from '../actor/index.ts';
import type { BodyBudget, BodyLimits } from './body.ts';
import type { ExchangeHandler } from './exchange.ts';

/** Where a server listens. Port 0 picks a free one. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface ServerOptions {
  readonly handler: ExchangeHandler;
  readonly clock: Clock;
  readonly limits: BodyLimits & { readonly headerBytes: number };
  readonly budget: BodyBudget;
}

export interface Server {
  /** Name for logs. */
  readonly name: 'uws' | 'node';
  /** Resolves with the address that was bound; rejects with the system's reason. */
  listen(address: Address): Promise<Address>;
  /** Accepts no more connections and closes each one after its present answer. */
  drain(): void;
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

/** The URL a person on this machine can open. */
export function addressUrl(address: Address): string {
  const host = address.host === '0.0.0.0' ? '127.0.0.1' : address.host === '::' ? '::1' : address.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
}
