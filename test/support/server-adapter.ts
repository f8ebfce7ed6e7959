// The four ways in which a request reaches the gateway, behind one interface, so that one suite runs against all of them. Starts
// simulated hosts, a gateway and, where the adapter has a socket, its port; all end with their test.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import { createHost, type Host, type HostSettings } from '../../src/host/index.ts';
import type { InjectRequest } from '../../src/ingress/inject.ts';
import { type Answer, dial, encode, type Scope, type Wire } from './server-adapter-wire.ts';
import { loadable } from './uws.ts';

export const KEY = 'hr_contract';
export const MODEL = 'Atlas-27B';

/** Header of a good key. */
export const GOOD: Readonly<Record<string, string>> = { authorization: `Bearer ${KEY}` };

/** A chat that every host serves. */
export const CHAT: Readonly<Record<string, unknown>> = {
  model: MODEL,
  max_tokens: 4,
  messages: [{ role: 'user', content: 'hello' }],
};

/** A gateway behind one server adapter. */
export interface Opened {
  readonly gateway: Gateway;
  /** The first host. */
  readonly host: Host;
  /** One request on a connection of its own. */
  readonly ask: (request: InjectRequest) => Promise<Answer>;
  /** A raw connection. Throws for `inject`. */
  readonly dial: () => Wire;
  /** 0 for `inject`. */
  readonly port: number;
}

export type ServerAdapterName = 'uws' | 'node' | 'mounted' | 'inject';

/** `mounted` is `nodeListener` in another server. */
export const SERVER_ADAPTERS: readonly ServerAdapterName[] = loadable(['uws', 'node', 'mounted', 'inject']);

/** The adapters with a socket, for tests that read raw bytes. */
export const SOCKETS: readonly ServerAdapterName[] = loadable(['uws', 'node', 'mounted']);

/** Starts a host with `MODEL`, as fast as possible. */
export async function startHost(t: Scope, settings: Partial<HostSettings> = {}): Promise<Host> {
  const host = createHost({ models: [MODEL], timeToFirstTokenMs: 0, interTokenMs: 0, ...settings });
  t.teardown(() => host.kill());
  await host.listen();
  return host;
}

/** Settings in front of this host, with one key. */
export function settingsFor(host: Host, extra: SettingsInput = {}): SettingsInput {
  return {
    listen: '127.0.0.1:0',
    threads: 0,
    models: { [MODEL]: { servers: [host.url] } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    ...extra,
  };
}

/** Starts a gateway behind an adapter; it has probed its hosts. */
export async function open(
  t: Scope,
  adapter: ServerAdapterName,
  settings: SettingsInput = {},
  host?: Host,
): Promise<Opened> {
  const crn = host ?? (await startHost(t));
  const server = adapter === 'uws' ? 'uws' : 'node';
  const gateway = createGateway({ ...settingsFor(crn, settings), server });
  t.teardown(() => gateway.close());
  await gateway.ready();
  if (adapter === 'inject') {
    const refuse = (): never => {
      throw new Error('inject has no socket');
    };
    return { gateway, host: crn, ask: (request) => gateway.inject(request), dial: refuse, port: 0 };
  }
  const port = adapter === 'mounted' ? await mount(t, gateway) : Number(new URL((await gateway.listen()).url).port);
  const ask = async (request: InjectRequest): Promise<Answer> => {
    const wire = dial(t, port);
    wire.send(encode(request));
    const answer = await wire.answer(request.method);
    wire.leave();
    return answer;
  };
  return { gateway, host: crn, ask, dial: () => dial(t, port), port };
}

/** Runs a case against each adapter, as a test of its own with a gateway of its own. */
export function onEach(
  t: Test,
  adapters: readonly ServerAdapterName[],
  name: string,
  run: (t: Test, opened: Opened, adapter: ServerAdapterName) => Promise<void>,
  settings?: SettingsInput,
): void {
  for (const adapter of loadable(adapters)) {
    void t.test(`${adapter}: ${name}`, async (t) => run(t, await open(t, adapter, settings), adapter));
  }
}

async function mount(t: Scope, gateway: Gateway): Promise<number> {
  const server = createServer(gateway.nodeListener);
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
