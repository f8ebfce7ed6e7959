// Starts a search worker in front of a simulated SearXNG instance whose responses a test decides, both on real ports.
// Everything started here ends with its test.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { createSearchWorker, type SearchWorker, type SearchWorkerSettings } from '../../src/search-worker/index.ts';

export type Handle = (request: IncomingMessage, response: ServerResponse) => void;

/** A service that can be waited for. */
export interface Service {
  readonly url: string;
  /** Requests so far. */
  readonly asked: string[];
  /** Resolves with the next request that has not been waited for. */
  readonly next: () => Promise<ServerResponse>;
}

/** Starts a service. */
export async function startService(t: Test, handle: Handle): Promise<Service> {
  const asked: string[] = [];
  const arrived: ServerResponse[] = [];
  const waiting: ((response: ServerResponse) => void)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const waiter = waiting.shift();
    if (waiter === undefined) arrived.push(response);
    else waiter(response);
    handle(request, response);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    next: async () => arrived.shift() ?? new Promise((resolve) => waiting.push(resolve)),
  };
}

const RESULTS: readonly object[] = [
  { title: 'Fish ladder', url: 'https://a.example/1', content: 'Water <b>falls</b>.', publishedDate: '2026-11-20' },
  { title: 'Weir', url: 'https://b.example/2', content: '', source: 'The Daily' },
];

/** What a worker makes of `RESULTS`. */
export const ANSWER: object = {
  results: [
    { title: 'Fish ladder', url: 'https://a.example/1', snippet: 'Water falls.', published_at: '2026-11-20' },
    { title: 'Weir', url: 'https://b.example/2', snippet: '', source: 'The Daily' },
  ],
};

/** Answers the first page with `RESULTS`, later ones with nothing. */
export const finds: Handle = (request, response) => {
  const first = new URL(request.url ?? '', 'http://x').searchParams.get('pageno') === '1';
  response.end(JSON.stringify({ results: first ? RESULTS : [] }));
};

/** Never answers. */
export const hangs: Handle = () => undefined;

export interface StartedWorker {
  readonly url: string;
  readonly worker: SearchWorker;
  readonly service: Service;
  /** `POST /search` with a JSON body, one query unless it says otherwise. */
  readonly ask: (init?: RequestInit & { readonly json?: unknown }) => Promise<Response>;
  readonly health: () => Promise<{ readonly status: number; readonly body: Record<string, unknown> }>;
  /** Value of a sample of `/metrics`; undefined when there is none. */
  readonly sample: (name: string) => Promise<number | undefined>;
}

export async function startWorker(
  t: Test,
  handle: Handle,
  settings: Partial<SearchWorkerSettings> = {},
): Promise<StartedWorker> {
  const service = await startService(t, handle);
  const worker = createSearchWorker({ kind: 'searxng', engine: { url: service.url }, ...settings });
  t.teardown(() => worker.abort());
  const url = await worker.listen();
  return {
    url,
    worker,
    service,
    ask: ({ json = { engine: 'engine_a', query: 'fish', max_results: 5, search_type: 'web' }, ...init } = {}) =>
      fetch(`${url}/search`, {
        method: 'POST',
        body: JSON.stringify(json),
        ...init,
        headers: { 'content-type': 'application/json', ...init.headers },
      }),
    async health() {
      const response = await fetch(`${url}/health`);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    },
    async sample(name) {
      const text = await (await fetch(`${url}/metrics`)).text();
      const line = text.split('\n').find((one) => one.startsWith(`${name} `));
      return line === undefined ? undefined : Number(line.slice(name.length + 1));
    },
  };
}

/** Status, detail and time to come back of an answer. */
export async function refusal(response: Response): Promise<readonly [number, unknown, string | null]> {
  const { detail } = (await response.json()) as { detail?: unknown };
  return [response.status, detail, response.headers.get('retry-after')];
}
