// Complete systems for tests: simulated hosts and a gateway on a real port, requests to it, and helpers that wait for a condition
// instead of for a time. Everything started here ends with its test.

import type { Test } from 'tap';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createHost, type Host, type HostSettings } from '../../src/host/index.ts';
import { loadable } from './uws.ts';

export const KEY = 'hr_system';
export const MODEL = 'atlas-27b';

/** Both server adapters: a client must see the same from each. */
export const SERVERS: readonly ('uws' | 'node')[] = loadable(['uws', 'node']);

/** How long a test waits for something that is going to happen, in milliseconds. */
const DEADLINE_MS = 30_000;

/** A gateway with its hosts. */
export interface System {
  readonly url: string;
  readonly gateway: Gateway;
  readonly hosts: readonly Host[];
  /** The first host. */
  readonly host: Host;
}

export interface SystemOptions {
  /** Settings of each host; default one host, as fast as possible. */
  readonly hosts?: readonly Partial<HostSettings>[];
  readonly settings?: SettingsInput;
}

/** Starts hosts, each with `MODEL` unless it says otherwise. */
export async function startHosts(t: Test, settings: readonly Partial<HostSettings>[] = [{}]): Promise<Host[]> {
  const hosts = settings.map((own, index) =>
    createHost({ models: [MODEL], name: `host-${index + 1}`, timeToFirstTokenMs: 0, interTokenMs: 1, ...own }),
  );
  t.teardown(() => Promise.all(hosts.map((host) => host.kill())));
  await Promise.all(hosts.map((host) => host.listen()));
  return hosts;
}

/** Settings of a gateway on a free port in front of these hosts, with one key. */
export function settingsFor(hosts: readonly Host[], extra: SettingsInput = {}): SettingsInput {
  return {
    listen: '127.0.0.1:0',
    admin: null,
    models: { [MODEL]: { servers: hosts.map((host) => host.url) } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    health: { interval: '50ms', timeout: '1s' },
    ...extra,
  };
}

/** Starts hosts and a gateway, and waits until the gateway is ready. */
export async function startSystem(t: Test, options: SystemOptions = {}): Promise<System> {
  const hosts = await startHosts(t, options.hosts);
  const gateway = createGateway(settingsFor(hosts, options.settings));
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { url, gateway, hosts, host: hosts[0] as Host };
}

/** Polls a condition until it holds; throws if it does not within `ms`, by default 30 s. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  ms: number = DEADLINE_MS,
): Promise<void> {
  const deadlineMs = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) throw new Error(`timed out waiting for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Resolves like `promise`; rejects if that takes longer than `ms`. */
export async function within<T>(what: string, promise: Promise<T>, ms: number = DEADLINE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out: ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export interface Ask {
  readonly model?: string;
  readonly stream?: boolean;
  readonly tokens?: number;
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** One chat request with the test key. */
export function chat(url: string, ask: Ask = {}): Promise<Response> {
  const { model = MODEL, stream = false, tokens = 8, text = 'Where does the water go?', headers, signal } = ask;
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model, stream, max_tokens: tokens, messages: [{ role: 'user', content: text }] }),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** A streamed chat, read to its end. */
export interface StreamRead {
  readonly status: number;
  /** Ended with `[DONE]`. */
  readonly complete: boolean;
  /** The `error` member of an error event. */
  readonly error: { readonly code: string; readonly message: string } | undefined;
  readonly text: string;
}

/** Reads a stream to its end. Rejects when the connection breaks. */
export async function readStream(response: Response): Promise<StreamRead> {
  const text = await response.text();
  const found = /^data: (\{"error".*)$/m.exec(text)?.[1];
  const error = found === undefined ? undefined : (JSON.parse(found) as { error: StreamRead['error'] }).error;
  return { status: response.status, complete: text.trimEnd().endsWith('data: [DONE]'), error, text };
}
