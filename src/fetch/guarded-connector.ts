// Opens sockets to addresses that the guard has checked. A host is resolved once, the connection is made to the checked
// addresses only (no DNS rebinding), and the address of the peer is compared before TLS starts. Proxies are never used.

import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Clock } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import { abortable } from '../net/abortable.ts';
import { type Guard, isSameAddress, portOf } from './guard.ts';

/** What undici passes. `hostname` without brackets, `port` empty for the default of the protocol. */
export interface Target {
  readonly hostname: string;
  readonly protocol: string;
  readonly port: string;
}

export interface ConnectorOptions {
  readonly guard: Guard;
  readonly clock: Clock;
  /** Longest time for lookup, connection and TLS together, in milliseconds. */
  readonly timeoutMs: number;
  /** Certificate authorities to trust in place of the system's, PEM. For tests. */
  readonly ca?: string;
}

export class GuardedConnector {
  readonly #options: ConnectorOptions;
  /** Aborts connection attempts. */
  readonly #closing = new AbortController();

  constructor(options: ConnectorOptions) {
    this.#options = options;
  }

  /**
   * A connected socket, TLS included. Rejects with `HR_FETCH_BLOCKED`, `HR_FETCH_TIMEOUT` (subject `connect`) or
   * `HR_FETCH_FAILED`, and with the reason of `signal`, which ends the lookup and the connection attempt.
   */
  async connect(target: Target, signal?: AbortSignal): Promise<Socket | TLSSocket> {
    const { clock, guard, timeoutMs } = this.#options;
    const ended = new AbortController();
    const end = (): void => ended.abort(new HeadraceError('HR_DRAINING'));
    const left = (): void => ended.abort(signal?.reason);
    const late = (): void => ended.abort(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'connect' }));
    const timer = clock.setTimeout(late, timeoutMs);
    this.#closing.signal.addEventListener('abort', end, { once: true });
    signal?.addEventListener('abort', left, { once: true });
    if (this.#closing.signal.aborted) end();
    else if (signal?.aborted === true) left();
    try {
      const addresses = await abortable(ended.signal, guard.resolve(target.hostname, ended.signal));
      const plain = await open(target, addresses, ended.signal);
      return target.protocol === 'https:' ? await this.#secure(plain, target, ended.signal) : plain;
    } finally {
      clock.clearTimeout(timer);
      this.#closing.signal.removeEventListener('abort', end);
      signal?.removeEventListener('abort', left);
    }
  }

  /** Fails all connection attempts. */
  close(): void {
    this.#closing.abort();
  }

  #secure(plain: Socket, { hostname }: Target, signal: AbortSignal): Promise<TLSSocket> {
    const { ca } = this.#options;
    // The TLS socket emits its errors from here on.
    plain.on('error', () => undefined);
    const socket = connectTls({
      socket: plain,
      ALPNProtocols: ['http/1.1'],
      // SNI takes names only; the certificate is checked for names and addresses.
      ...(isIP(hostname) === 0 ? { servername: hostname } : { host: hostname }),
      ...(ca === undefined ? {} : { ca }),
    });
    return ready(socket, 'secureConnect', signal, 'TLS failed');
  }
}

async function open(target: Target, addresses: readonly string[], signal: AbortSignal): Promise<Socket> {
  const socket = connect({
    host: target.hostname,
    port: portOf(target),
    lookup: pinned(addresses),
    autoSelectFamily: true,
    noDelay: true,
  });
  await ready(socket, 'connect', signal, 'no connection');
  const { remoteAddress = '' } = socket;
  if (addresses.some((address) => isSameAddress(address, remoteAddress))) return socket;
  socket.destroy();
  throw new HeadraceError('HR_FETCH_BLOCKED', { subject: 'private address' });
}

/** A lookup that returns the checked addresses. */
function pinned(addresses: readonly string[]): LookupFunction {
  const answers = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_hostname, { all }, callback) => {
    if (all === true) callback(null, answers);
    else callback(null, answers[0]?.address ?? '', answers[0]?.family);
  };
}

/** Resolves with the socket at `event`. Destroys it when an error or the signal comes first. */
function ready<S extends Socket>(socket: S, event: string, signal: AbortSignal, subject: string): Promise<S> {
  return new Promise((resolve, reject) => {
    const abort = (): void => fail(signal.reason as Error);
    const settle = (): void => {
      signal.removeEventListener('abort', abort);
      socket.off(event, succeed).off('error', failed).off('close', failed);
    };
    const succeed = (): void => {
      settle();
      resolve(socket);
    };
    const fail = (error: Error): void => {
      settle();
      // The failure has been reported; later errors of the destroyed socket have no effect.
      socket.on('error', () => undefined).destroy();
      reject(error);
    };
    const failed = (cause: unknown): void => fail(new HeadraceError('HR_FETCH_FAILED', { subject, cause }));
    socket.once(event, succeed).once('error', failed).once('close', failed);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
  });
}
