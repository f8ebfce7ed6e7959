// Networks for tests of several gateways. Each part of a system has an address, and the way to the engine can be cut (packets are
// dropped, nothing is refused) or made slow. With network namespaces every part has a host of its own on a bridge; without them all is
// on loopback and the gateways reach the engine through a relay of this process.

import { execFileSync, spawn } from 'node:child_process';
import { createServer, connect, type Server, type Socket } from 'node:net';
import { freePort } from './free-port.ts';

/** The parts that have an address. */
const PLACES: readonly string[] = [
  ...['gateway-1', 'gateway-2', 'gateway-3', 'host-1', 'host-2', 'host-3', 'engine', 'database'],
];

/** Where a program runs. */
export interface Place {
  readonly address: string;
  /** What runs a command there. */
  readonly prefix: readonly string[];
}

export interface ClusterNetwork {
  readonly kind: 'namespaces' | 'loopback';
  place(name: string): Place;
  /** A port that is free at a place. */
  port(): Promise<number>;
  /** Where gateways reach the engine that listens on this port; `delayed`: its way is going to be delayed. */
  engineAt(port: number, delayed: boolean): Promise<{ readonly address: string; readonly port: number }>;
  /** Drops every packet to and from the engine, or lets them pass again. */
  cut(isCut: boolean): void;
  /** Delays everything that comes from the engine. */
  delay(ms: number): void;
  close(): Promise<void>;
}

/** A TCP relay that can hold back what it carries. */
class Relay {
  #isCut = false;
  #delayMs = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #target: { readonly address: string; readonly port: number };

  constructor(target: { readonly address: string; readonly port: number }) {
    this.#target = target;
    this.#server = createServer((client) => this.#accept(client));
  }

  listen(address: string, port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, address, resolve);
    });
  }

  cut(isCut: boolean): void {
    this.#isCut = isCut;
    for (const socket of this.#sockets) {
      if (isCut) socket.pause();
      else socket.resume();
    }
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  #accept(client: Socket): void {
    const server = connect(this.#target.port, this.#target.address);
    this.#carry(client, server, () => 0);
    this.#carry(server, client, () => this.#delayMs);
  }

  #carry(from: Socket, to: Socket, delayMs: () => number): void {
    this.#sockets.add(from);
    from.setNoDelay(true);
    if (this.#isCut) from.pause();
    const later = (act: () => void): void => {
      const ms = delayMs();
      if (ms === 0) act();
      else setTimeout(act, ms);
    };
    from.on('data', (piece) => later(() => to.writable && to.write(piece)));
    from.on('error', () => {});
    from.on('close', () => {
      this.#sockets.delete(from);
      later(() => to.destroy());
    });
  }
}

/** Everything on 127.0.0.1. */
export function loopbackNetwork(): ClusterNetwork {
  let relay: Relay | undefined;
  return {
    kind: 'loopback',
    place: () => ({ address: '127.0.0.1', prefix: [] }),
    port: freePort,
    async engineAt(port) {
      const at = await freePort();
      await relay?.close();
      relay = new Relay({ address: '127.0.0.1', port });
      await relay.listen('127.0.0.1', at);
      return { address: '127.0.0.1', port: at };
    },
    cut: (isCut) => relay?.cut(isCut),
    delay: (ms) => relay?.delay(ms),
    close: async () => relay?.close(),
  };
}

/** Prefix of the names of namespaces; also the variable that tells a process which it is in. */
export const NAMESPACES_VARIABLE = 'HEADRACE_TEST_NAMESPACES';

const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });

/** Of the bridge; places have the following addresses. */
const SUBNET = '10.213.77';
const BRIDGE = 'br0';

const addressOf = (name: string): string => `${SUBNET}.${PLACES.indexOf(name) + 11}`;

/** Hardware address of a place, so that all can know it: address resolution would turn dropped packets into refusals. */
const hardwareOf = (name: string): string => `02:00:00:00:00:${(PLACES.indexOf(name) + 11).toString(16)}`;

/** Runs a script of Node in the middle of namespaces that end with it; answers with its exit code, null where they cannot be made. */
export async function runInNamespaces(script: string, args: readonly string[]): Promise<number | null> {
  const prefix = `headrace-${process.pid}`;
  const home = `${prefix}-home`;
  const all = [home, ...PLACES.map((name) => `${prefix}-${name}`)];
  const made: string[] = [];
  const remove = (): void => {
    for (const name of made.splice(0)) {
      try {
        ip('netns', 'delete', name);
      } catch {
        // Already gone.
      }
    }
  };
  try {
    for (const name of all) {
      ip('netns', 'add', name);
      made.push(name);
      ip('-n', name, 'link', 'set', 'lo', 'up');
    }
    ip('-n', home, 'link', 'add', BRIDGE, 'type', 'bridge');
    ip('-n', home, 'address', 'add', `${SUBNET}.1/24`, 'dev', BRIDGE);
    ip('-n', home, 'link', 'set', BRIDGE, 'up');
    for (const name of PLACES) {
      const own = `${prefix}-${name}`;
      ip('-n', home, 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', own);
      ip('-n', home, 'link', 'set', name, 'master', BRIDGE, 'up');
      ip('-n', own, 'link', 'set', 'eth0', 'address', hardwareOf(name), 'up');
      ip('-n', own, 'address', 'add', `${addressOf(name)}/24`, 'dev', 'eth0');
    }
    for (const name of PLACES) {
      for (const [space, device] of [
        [home, BRIDGE],
        ...PLACES.filter((other) => other !== name).map((other) => [`${prefix}-${other}`, 'eth0']),
      ])
        ip('-n', space!, 'neigh', 'add', addressOf(name), 'lladdr', hardwareOf(name), 'dev', device!);
    }
  } catch {
    remove();
    return null;
  }
  try {
    const child = spawn('ip', ['netns', 'exec', home, process.execPath, script, ...args], {
      stdio: 'inherit',
      env: { ...process.env, [NAMESPACES_VARIABLE]: prefix },
    });
    // The terminal sends its signal to both; the child ends in order, and this process after it.
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.removeAllListeners(signal);
      process.on(signal, () => child.kill(signal));
    }
    return await new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)));
  } finally {
    remove();
  }
}

/** The namespaces that `runInNamespaces` has made, when this process is in the middle of them. */
export function namespaceNetwork(): ClusterNetwork | null {
  const prefix = process.env[NAMESPACES_VARIABLE];
  if (prefix === undefined) return null;
  const home = `${prefix}-home`;
  let port = 20_000;
  let relay: Relay | undefined;
  const netem = (...what: string[]): void =>
    void execFileSync(
      'ip',
      ['netns', 'exec', `${prefix}-engine`, 'tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', ...what],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
  // Not every kernel can delay packets.
  let hasNetem = true;
  try {
    netem('netem', 'delay', '0ms');
  } catch {
    hasNetem = false;
  }
  const setCut = (isCut: boolean): void => {
    if (isCut) ip('-n', home, 'link', 'set', 'engine', 'nomaster');
    else ip('-n', home, 'link', 'set', 'engine', 'master', BRIDGE);
  };
  return {
    kind: 'namespaces',
    place: (name) => ({ address: addressOf(name), prefix: ['ip', 'netns', 'exec', `${prefix}-${name}`] }),
    port: async () => port++,
    async engineAt(at, delayed) {
      const target = { address: addressOf('engine'), port: at };
      await relay?.close();
      relay = undefined;
      if (hasNetem || !delayed) return target;
      relay = new Relay(target);
      const own = port++;
      await relay.listen(`${SUBNET}.1`, own);
      return { address: `${SUBNET}.1`, port: own };
    },
    cut: setCut,
    delay: (ms) => (hasNetem ? netem('netem', 'delay', `${ms}ms`) : relay?.delay(ms)),
    async close() {
      setCut(false);
      if (hasNetem) netem('netem', 'delay', '0ms');
      await relay?.close();
    },
  };
}
