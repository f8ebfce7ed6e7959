// Ports for servers that cannot take one of the system's choice, or that are started again where they were.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below what systems give to outgoing connections, which would take a port before a server does or while it is stopped. */
const LOWEST = 15_000;
const HIGHEST = 32_000;

const TRIES = 100;

/**
 * A TCP port of 127.0.0.1 that nothing listens on, and that no other call gets, of this process or another, until this one ends. Ports of
 * UDP are not used by what the tests start: to hold the one of the same number says that a port is given.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if ((await claims(port)) && (await isFree(port))) return port;
  }
  throw new Error(`no free port after ${TRIES} tries`);
}

async function claims(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref();
  try {
    socket.bind({ port, address: '127.0.0.1', exclusive: true });
    await once(socket, 'listening');
    return true;
  } catch {
    socket.close();
    return false;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
