// Search engines for tests: an engine that reads its answers from JSON, a transport that answers by a function and records
// its requests, and an engine client on a manual clock with both.

import { getEventListeners } from 'node:events';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import {
  EngineError,
  type EngineFailure,
  type EngineHit,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
} from '../../src/search/engine.ts';
import { createEngineMemory, EngineBoard } from '../../src/search/engine-board.ts';
import {
  type EngineCall,
  EngineClient,
  type EngineSpec,
  type ReportListener,
  type Transport,
} from '../../src/search/engine-client.ts';
import type { SearchAnswer, SearchQuery } from '../../src/search/query.ts';
import type { SearchCaller, SearchOutcome } from '../../src/search/search-service.ts';

/** An answer of a fake engine. */
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

export function specOf(id: string, fields: Partial<EngineSpec> = {}): EngineSpec {
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

/** A caller with an account of its own. */
export function callerOf(account: string): SearchCaller {
  return { account, caller: account };
}

/** The answer of a search that found a place. */
export function answerOf(found: SearchOutcome): SearchAnswer {
  if ('refused' in found) throw new Error(`refused: ${found.refused}`);
  return found.answer;
}

/** A report without the name of its engine. */
export type Outcome = { readonly hits: readonly EngineHit[] } | { readonly reason: string };

export interface StartedSearch {
  readonly call: EngineCall;
  readonly reports: Outcome[];
}

/** Asks a client as a coordinator does. */
export function startSearch(
  client: EngineClient,
  deadlineMs: number,
  fields: Partial<SearchQuery> = {},
  account = 'me',
): StartedSearch {
  const { query, type, maxResults } = queryOf([], fields);
  const reports: Outcome[] = [];
  const listener: ReportListener = {
    onPage: () => undefined,
    onReport: (report) => {
      if (report.engine !== client.spec.id) throw new Error(`reported for ${report.engine}`);
      reports.push('hits' in report ? { hits: report.hits } : { reason: report.reason });
    },
  };
  const call = client.search({ query, type, maxResults }, deadlineMs, listener, account);
  return { call, reports };
}

/** An answer with one hit, and the report of it. */
export const FOUND: { readonly urls: readonly string[] } = { urls: ['http://x.org/1'] };
export const HITS: { readonly hits: readonly EngineHit[] } = { hits: [hitOf('http://x.org/1')] };

export interface ClientSetup extends Pick<TestSystem, 'clock' | 'settle' | 'advance'> {
  readonly client: EngineClient;
  readonly board: EngineBoard;
  readonly transport: FakeTransport;
  readonly outcomes: string[];
  /** What the code of the engine threw. */
  readonly thrown: unknown[];
}

/** A client of engine `a`; its clock begins at 1000. */
export function setUpClient(answer: Answer, fields: Partial<EngineSpec> = {}): ClientSetup {
  const { clock, settle, advance } = createTestSystem();
  const board = new EngineBoard(createEngineMemory(1));
  const transport = fakeTransport(answer);
  const outcomes: string[] = [];
  const thrown: unknown[] = [];
  clock.advance(1000);
  const client = new EngineClient(specOf('a', fields), {
    ...{ board, transport, clock, random: () => 0, epochMs: () => clock.now() },
    onThrown: (_, error) => void thrown.push(error),
    onOutcome: (engine, reason, elapsedMs) => void outcomes.push(`${engine} ${reason} ${Math.round(elapsedMs)}`),
  });
  return { clock, settle, advance, client, board, transport, outcomes, thrown };
}

let queries = 0;

/** Searches of different accounts and queries, one after another, all within 10 s each. */
export async function reasons(b: ClientSetup, count: number): Promise<string[]> {
  const said: string[] = [];
  for (let i = 0; i < count; i++) {
    const query = `query ${++queries}`;
    const { reports } = startSearch(b.client, b.clock.now() + 10_000, { query }, `account of ${query}`);
    await b.settle();
    said.push(reports.map((report) => ('reason' in report ? report.reason : 'ok')).join());
  }
  return said;
}
