// A TCP relay on loopback in front of a port: passes bytes on, later or not at all, while its connections stay open.

import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

export interface TcpRelay {
  readonly port: number;
  /** Where new connections go. */
  target: number;
  /** Time that bytes take more, in each direction. Default 0. */
  lagMs: number;
  /** Bytes that come while it is set are dropped, as by a firewall that drops packets; new connections are not passed on. */
  isCut: boolean;
}

/** Relays to a port of this machine until the test ends. */
export async function startTcpRelay(t: Pick<Test, 'teardown'>, target: number): Promise<TcpRelay> {
  const sockets = new Set<Socket>();
  const pass = (from: Socket, to: Socket): void => {
    from.on('data', (bytes) => {
      if (relay.isCut) return;
      setTimeout(() => {
        if (!relay.isCut && to.writable) to.write(bytes);
      }, relay.lagMs);
    });
    from.on('close', () => to.destroy());
    from.on('error', () => to.destroy());
  };
  const server = createServer((client) => {
    sockets.add(client);
    client.on('close', () => sockets.delete(client));
    if (relay.isCut) {
      client.on('error', () => undefined);
      return;
    }
    const upstream = connect(relay.target, '127.0.0.1');
    sockets.add(upstream);
    upstream.on('close', () => sockets.delete(upstream));
    pass(client, upstream);
    pass(upstream, client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const relay: TcpRelay = { port: (server.address() as AddressInfo).port, target, lagMs: 0, isCut: false };
  return relay;
}
