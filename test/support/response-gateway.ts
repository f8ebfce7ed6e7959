// Gateways and requests for the tests of stored responses.

import type { Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { ResponseCrn } from './response-crn.ts';
import { MODEL } from './system.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Record<string, unknown>;
}

const KEYS = [
  { key: 'hr_one', account: 'one' },
  { key: 'hr_two', account: 'two' },
];

/** Settings of a gateway in front of these CRNs, with a key for each of two accounts. */
export function settingsOf(crns: readonly ResponseCrn[], more: SettingsInput = {}): SettingsInput {
  return {
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: crns.map(({ url }) => url) } },
    keys: { static: KEYS },
    log: { level: 'silent' },
    health: { interval: '1h' },
    routing: { affinity: false },
    timeouts: { drain: '50ms' },
    ...more,
  };
}

export async function startGateway(
  t: Pick<Test, 'teardown'>,
  settings: SettingsInput,
): Promise<{ gateway: Gateway; url: string }> {
  const gateway = createGateway(settings);
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { gateway, url };
}

/** One request with the key of the first account. */
export async function call(url: string, path: string, init: RequestInit = {}, key = 'hr_one'): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(`${url}${path}`, { headers, ...init });
  const text = await response.text();
  const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {};
  return { status: response.status, headers: response.headers, text, json };
}

/** Creates a response. */
export function create(url: string, body: object, key?: string): Promise<Answer> {
  return call(url, '/v1/responses', { method: 'POST', body: JSON.stringify({ model: MODEL, ...body }) }, key);
}

/** The id of the response in an answer, whole or a stream. */
export function idOf({ text }: Answer): string {
  return /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? '';
}

/** Texts of the items that a CRN got with a request; by default with the last one. */
export function inputOf(crn: ResponseCrn, at = -1): string[] {
  const input = crn.requests.at(at)?.input;
  if (typeof input === 'string') return [input];
  const items = input as { readonly content: string | { readonly text: string }[] }[];
  return items.map(({ content }) => (typeof content === 'string' ? content : (content[0]?.text ?? '')));
}
