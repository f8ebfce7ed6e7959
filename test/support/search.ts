// Engines and a transport of the search room's tests: an engine whose answers are said in JSON, a transport whose answers
// are a function of the request and which remembers what it was asked and by whom it was left, and specs around them.

import { getEventListeners } from 'node:events';
import {
  EngineError,
  type EngineFailure,
  type EngineHit,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
} from '../../src/search/engine.ts';
import type { EngineCommand, EngineReport, EngineSpec } from '../../src/search/engine-actor.ts';
import type { Ref } from '../../src/actor/index.ts';
import type { SearchQuery } from '../../src/search/query.ts';
import type { Transport } from '../../src/search/transport.ts';

/** What a fake engine's answer says. */
export interface Said {
  readonly urls?: readonly string[];
  readonly next?: unknown;
  readonly failure?: EngineFailure;
  readonly status?: number;
  readonly retryAfterMs?: number;
}

/** An engine at `http://NAME/` that takes `Said` for an answer. */
export function fakeEngine(name: string, about: Partial<HttpEngine> = {}): HttpEngine {
  return {
    kind: 'fake',
    documentation: 'README.md',
    types: ['web', 'news'],
    request: ({ query }, state) => ({
      method: 'GET',
      url: `http://${name}/?q=${encodeURIComponent(query)}&s=${JSON.stringify(state) ?? ''}`,
      headers: {},
    }),
    parse(response) {
      const said = JSON.parse(response.body.toString()) as Said;
      if (said.failure !== undefined) throw new EngineError(said.failure, said);
      return { hits: (said.urls ?? []).map(hitOf), ...(said.next === undefined ? {} : { next: said.next }) };
    },
    ...about,
  };
}

export function hitOf(url: string): EngineHit {
  return { title: url, url, snippet: '' };
}

export function specOf(id: string, fields: Partial<EngineSpec> = {}): EngineSpec & { readonly weight: number } {
  return {
    id,
    workers: [fakeEngine(id)],
    concurrency: 32,
    rates: [],
    hedgeMs: null,
    cell: 0,
    fingerprint: id,
    weight: 1,
    ...fields,
  };
}

export function queryOf(engines: readonly string[], fields: Partial<SearchQuery> = {}): SearchQuery {
  return { query: 'rivers', engines, maxResults: 10, type: 'web', ...fields };
}

function respond(said: Said): EngineResponse {
  return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(said)) };
}

/** Never answers; rejects when it is left. */
export function hang(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

export type Answer = (request: EngineRequest, signal: AbortSignal) => Said | Promise<Said>;

export interface FakeTransport extends Transport {
  /** URLs in the order they were asked for. */
  readonly asked: string[];
  /** Requests under way now, and the most that ever were. */
  readonly load: { now: number; most: number };
  /** Requests whose signal has fired. */
  readonly left: string[];
  /** Listeners on the signals of requests that still exist. */
  readonly listeners: () => number;
}

export function fakeTransport(answer: Answer): FakeTransport {
  const asked: string[] = [];
  const left: string[] = [];
  const load = { now: 0, most: 0 };
  let signals: WeakRef<AbortSignal>[] = [];
  return {
    asked,
    left,
    load,
    listeners() {
      signals = signals.filter((ref) => ref.deref() !== undefined);
      return signals.flatMap((ref) => getEventListeners(ref.deref() ?? new EventTarget(), 'abort')).length;
    },
    async send(request, signal) {
      asked.push(request.url);
      signals.push(new WeakRef(signal));
      load.most = Math.max(load.most, ++load.now);
      try {
        return respond(await answer(request, signal));
      } catch (error) {
        if (signal.aborted) left.push(request.url);
        throw error;
      } finally {
        load.now--;
      }
    },
    close: async () => undefined,
  };
}

/** The host a request goes to. */
export function hostOf({ url }: EngineRequest): string {
  return new URL(url).hostname;
}

let askers = 0;

/** Asks an engine actor as a coordinator does. */
export function tellSearch(
  ref: Ref<EngineCommand>,
  deadlineMs: number,
  fields: Partial<SearchQuery> = {},
): { readonly asker: string; readonly reports: EngineReport[] } {
  const { query, type, maxResults } = queryOf([], fields);
  const reports: EngineReport[] = [];
  const asker = `asker ${++askers}`;
  ref.tell({
    type: 'Search',
    asker,
    query: { query, type, maxResults },
    deadlineMs,
    report: (report) => void reports.push(report),
  });
  return { asker, reports };
}
