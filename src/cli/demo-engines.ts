// The five search engines of the demo, on loopback over the documents of `demo/`: one in the process, one behind a search
// worker, and a local site that answers in the formats of three services, one of them slow and one failing every third
// call. All but the first know only a part of the documents, so that engines differ in what they find.

import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { createEngine, type EngineHit, type InProcessEngine, type SearchType } from '../search/index.ts';
import { createSearchWorker } from '../search-worker/index.ts';

/** dist/src/cli lies three folders below the package. */
const FOLDER: string = fileURLToPath(new URL('../../../demo/documents/', import.meta.url));

/** Where the documents would be published: `.example` leads nowhere (RFC 2606). */
const BASE_URL = 'https://millrace.example/';

/** How long the slow engine takes. */
const SLOW_MS = 1500;

/** Of its calls, every third fails. */
const FAILS_EVERY = 3;

const MAX_HITS = 100;

/** What the demo has started and has to close. */
export interface DemoPart {
  close(): Promise<void>;
}

/** Starts the worker and the site, and adds them to `parts`. Returns what `search.engines` is to be. */
export async function startEngines(parts: DemoPart[]): Promise<Readonly<Record<string, unknown>>> {
  const library = createEngine('local', { path: FOLDER, baseUrl: BASE_URL }) as InProcessEngine;
  const worker = createSearchWorker({ kind: 'local', engine: { path: `${FOLDER}mill`, baseUrl: `${BASE_URL}mill/` } });
  const workerUrl = await worker.listen();
  parts.push(worker);
  const site = new Site(library);
  const siteUrl = await site.listen();
  parts.push(site);
  await site.index();
  return {
    engine_a: { kind: 'local', path: FOLDER, baseUrl: BASE_URL },
    engine_b: { kind: 'worker', url: workerUrl },
    engine_c: { kind: 'mojeek', apiKey: 'demo', url: `${siteUrl}/slow` },
    engine_d: { kind: 'marginalia', apiKey: 'demo', url: `${siteUrl}/failing`, concurrency: 4 },
    engine_e: { kind: 'searxng', url: `${siteUrl}/academic` },
  };
}

/** Answers as the services do whose engines ask it. */
class Site {
  readonly #library: InProcessEngine;
  readonly #server: Server;
  #calls = 0;

  constructor(library: InProcessEngine) {
    this.#library = library;
    this.#server = createServer((request, response) => {
      const url = new URL(request.url ?? '/', 'http://demo');
      this.#answer(url, response).catch(() => response.destroy());
    });
    this.#server.keepAliveTimeout = 65_000;
  }

  /** Reads the documents, which the first search would wait for, however long it takes. */
  async index(): Promise<void> {
    await this.#library.search({ query: 'headrace', type: 'web', maxResults: 1 }, new AbortController().signal);
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #answer({ pathname, searchParams }: URL, response: ServerResponse): Promise<void> {
    const query = searchParams.get('q') ?? searchParams.get('query') ?? '';
    switch (pathname) {
      case '/slow/search': {
        const results = await this.#find(query, 'web', 0);
        setTimeout(
          () => respond(response, { response: { status: 'OK', head: {}, results: results.map(asMojeek) } }),
          SLOW_MS,
        );
        return;
      }
      case '/failing/search':
        this.#calls++;
        if (this.#calls % FAILS_EVERY === 0) response.writeHead(500).end();
        else respond(response, { pages: 1, results: (await this.#find(query, 'web', 1)).map(asMarginalia) });
        return;
      case '/academic/search': {
        const isAcademic = searchParams.get('categories') === 'science';
        const found = await this.#find(query, isAcademic ? 'academic' : 'web', 2);
        respond(response, { results: found.map(asSearxng) });
        return;
      }
      default:
        response.writeHead(404).end();
    }
  }

  /** Two thirds of what the library finds, another third missing for each `part`; academic searches find papers only. */
  async #find(query: string, type: SearchType, part: number): Promise<EngineHit[]> {
    const hits = await this.#library.search({ query, type: 'web', maxResults: MAX_HITS }, AbortSignal.timeout(5000));
    const isPaper = ({ url }: EngineHit): boolean => url.startsWith('https://papers.');
    if (type === 'academic') return hits.filter(isPaper);
    return hits.filter((hit) => hit.url.length % 3 !== part);
  }
}

const asMojeek = ({ snippet, title, url }: EngineHit): object => ({ title, url, desc: snippet });
const asMarginalia = ({ snippet, title, url }: EngineHit): object => ({ title, url, description: snippet });
const asSearxng = ({ publishedAt, snippet, source, title, url }: EngineHit): object => ({
  ...{ title, url, content: snippet },
  ...(publishedAt === undefined ? {} : { publishedDate: publishedAt }),
  ...(source === undefined ? {} : { journal: source }),
});

function respond(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
