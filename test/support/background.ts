// Background responses for tests: requests about them, and their events.

import type { Test } from 'tap';
import { type ResponseCrn, startResponseCrn } from './response-crn.ts';
import { type Answer, call, create, idOf, settingsOf, startGateway } from './response-gateway.ts';
import { MODEL, until } from './system.ts';

export async function statusOf(url: string, id: string): Promise<unknown> {
  return (await call(url, `/v1/responses/${id}`)).json['status'];
}

export async function untilStatus(url: string, id: string, status: string): Promise<Answer> {
  await until(`${id} is ${status}`, async () => (await statusOf(url, id).catch(() => '')) === status);
  return call(url, `/v1/responses/${id}`);
}

export interface StreamedEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly response?: { readonly id: string; readonly status: string };
}

export function eventsIn(text: string): StreamedEvent[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json) as StreamedEvent);
}

/** Reads a stream until it has so many events; then leaves. */
export async function firstEvents(
  url: string,
  path: string,
  count: number,
  init: RequestInit = {},
): Promise<StreamedEvent[]> {
  const headers = { authorization: 'Bearer hr_one', 'content-type': 'application/json' };
  const leave = new AbortController();
  const response = await fetch(url + path, { headers, signal: leave.signal, ...init });
  let text = '';
  for await (const piece of response.body ?? []) {
    text += Buffer.from(piece as Uint8Array).toString();
    if (text.split('\n\n').length > count) break;
  }
  leave.abort();
  return eventsIn(text).slice(0, count);
}

/** A CRN that holds its answers, a gateway, and a background response that runs. */
export async function running(
  t: Pick<Test, 'teardown'>,
  more: Parameters<typeof settingsOf>[1] = {},
  stream = false,
): Promise<{
  crn: ResponseCrn;
  url: string;
  id: string;
  gateway: Awaited<ReturnType<typeof startGateway>>['gateway'];
}> {
  const crn = await startResponseCrn(t);
  const { gateway, url } = await startGateway(t, settingsOf([crn], more));
  crn.hold();
  const body = { model: MODEL, input: 'one', background: true, stream };
  const [created] = stream
    ? await firstEvents(url, '/v1/responses', 1, { method: 'POST', body: JSON.stringify(body) })
    : [{ response: { id: idOf(await create(url, body)) } }];
  const id = created?.response?.id ?? '';
  await crn.held(1);
  return { crn, url, id, gateway };
}
