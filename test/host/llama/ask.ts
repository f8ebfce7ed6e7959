// What the tests of hosts with an engine share: a host whose time is that of the work alone, and requests to it.
import type { Test } from 'tap';
import { type Host, type HostSettings, createHost } from '../../../src/host/index.ts';

/** A parsed answer; tests look into it without types. */
// oxlint-disable-next-line typescript/no-explicit-any -- answers are read by name
export type Answer = any;

export type Body = Readonly<Record<string, unknown>>;

/** Starts a host of the model `m`; it ends with the test. */
export async function startHost(t: Test, settings: Partial<HostSettings> = {}): Promise<Host> {
  const host = createHost({ models: ['m'], engine: { speed: 'virtual' }, ...settings });
  await host.listen();
  t.teardown(() => host.kill());
  return host;
}

export function send(host: Host, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(host.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** The parsed answer of a request that succeeds. */
export async function ask(host: Host, path: string, body: unknown): Promise<Answer> {
  const response = await send(host, path, body);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${path} answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

export async function get(host: Host, path: string): Promise<Answer> {
  return (await fetch(host.url + path)).json();
}

/** The parsed data of a stream's events, `[DONE]` left out. */
export async function events(host: Host, path: string, body: Body): Promise<Answer[]> {
  const response = await send(host, path, { ...body, stream: true });
  return dataOf(await response.text());
}

export function dataOf(text: string): Answer[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => JSON.parse(line.slice('data: '.length)));
}
