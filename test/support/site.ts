// Web sites on loopback for the tests of page fetching, honest and hostile, and downloaders that may reach them.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer, Server as SecureServer } from 'node:https';
import { type AddressInfo, createServer as createRawServer, type Socket } from 'node:net';
import { type Clock, systemClock } from '../../src/actor/clock.ts';
import type { Settings } from '../../src/config/settings.ts';
import { HeadraceError } from '../../src/errors.ts';
import { createDownloader, type Download, type Downloader, type DownloaderDeps } from '../../src/fetch/download.ts';
import type { Renderer } from '../../src/fetch/renderer/renderer.ts';
import { CERTIFICATE, KEY } from './certificate.ts';

export interface Scope {
  teardown(end: () => unknown): void;
}

export interface Site {
  readonly port: number;
  /** Such as `http://127.0.0.1:PORT`. */
  readonly origin: string;
  /** Paths asked, in order. */
  readonly asked: string[];
  /** Open and closed connections so far. */
  readonly connections: () => number;
}

export type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export type Pages = Readonly<Record<string, Answer>>;

/** A site of pages by path; other paths are 404. */
export function site(t: Scope, pages: Pages, host = '127.0.0.1', port = 0): Promise<Site> {
  return serve(t, createServer(), pages, host, port);
}

/** The same with TLS, under the certificate of `certificate.ts`. */
export function secureSite(t: Scope, pages: Pages): Promise<Site> {
  return serve(t, createSecureServer({ cert: CERTIFICATE, key: KEY }), pages, '127.0.0.1', 0);
}

async function serve(t: Scope, server: Server | SecureServer, pages: Pages, host: string, port: number): Promise<Site> {
  const asked: string[] = [];
  let connections = 0;
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? '';
    asked.push(path);
    const page = pages[path.split('?', 1)[0] ?? ''];
    if (page !== undefined) page(request, response);
    else response.writeHead(404, { 'content-type': 'text/html' }).end('<p>nothing here');
  });
  server.on('connection', () => connections++);
  server.listen(port, host);
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port: bound } = server.address() as AddressInfo;
  const scheme = server instanceof SecureServer ? 'https' : 'http';
  return { port: bound, origin: `${scheme}://${host}:${bound}`, asked, connections: () => connections };
}

/** A server that says whatever the test writes to the socket, once a whole request has come. */
export async function rawSite(t: Scope, answer: (socket: Socket, path: string) => void): Promise<Site> {
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createRawServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.on('data', (bytes) => {
      const path = /^GET (\S+)/.exec(bytes.toString('latin1'))?.[1] ?? '';
      asked.push(path);
      answer(socket, path);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port } = server.address() as AddressInfo;
  return { port, origin: `http://127.0.0.1:${port}`, asked, connections: () => connections };
}

/** An answer with a body; strings are sent as UTF-8. */
export function page(body: string | Uint8Array, headers: Record<string, string> = {}, status = 200): Answer {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'text/html', ...headers }).end(body);
  };
}

export function redirect(location: string, status = 302): Answer {
  return (_request, response) => {
    response.writeHead(status, { location }).end();
  };
}

export type FetchSettings = Settings['fetch'];

/** No browser. */
const RENDERER: FetchSettings['renderer'] = {
  ...{ url: null, when: 'auto', timeoutMs: 10_000, pages: 4, queue: 64, requests: 500 },
  ...{ maxBytes: 50_000_000, memory: 268_435_456, proxyListen: { host: '127.0.0.1', port: 0 }, proxyHost: null },
};

/** A renderer that nobody asks. */
export function noRenderer(): Renderer {
  const stats = { running: 0, queued: 0, isConnected: false, connects: 0, requests: 0, refused: 0 };
  return {
    render: () => Promise.reject(new HeadraceError('HR_FETCH_RENDERER', { subject: 'no browser' })),
    ...{ configure: () => {}, stats: () => stats, close: () => {} },
  };
}

/** Settings that reach one site on 127.0.0.1. */
export function fetchSettings(fields: Partial<FetchSettings> = {}): FetchSettings {
  return {
    ...{ timeoutMs: 10_000, connectTimeoutMs: 5000, firstByteTimeoutMs: 5000, maxBytes: 10_000_000 },
    ...{ deny: [], perAccount: 8 },
    ...{ allow: ['127.0.0.1'], ports: [80, 443], redirects: 5, userAgent: 'Headrace/0.1 (test)', robots: false },
    ...{ concurrency: 256, perHost: 8, hostDelayMs: 0, cacheTtlMs: null, cacheBytes: 0, cleaners: 1, queue: 256 },
    ...{ cleanTimeoutMs: 5000, cleanMemoryBytes: 268_435_456, pagesPerCleaner: 1000, price: '0' },
    renderer: RENDERER,
    ...fields,
  };
}

export function downloader(t: Scope, fields: Partial<FetchSettings>, deps: Partial<DownloaderDeps> = {}): Downloader {
  const made = createDownloader(fetchSettings(fields), { clock: systemClock, ...deps });
  t.teardown(() => made.close());
  return made;
}

/** Downloads under a total timeout where one is given. */
export function get(
  from: Downloader,
  url: string,
  timeoutMs = Infinity,
  clock: Clock = systemClock,
): Promise<Download> {
  const controller = new AbortController();
  if (timeoutMs === Infinity) return from.download(url, '', controller.signal);
  const expire = (): void => controller.abort(new HeadraceError('HR_FETCH_TIMEOUT', { subject: 'total' }));
  const timer = clock.setTimeout(expire, timeoutMs);
  return from.download(url, '', controller.signal).finally(() => clock.clearTimeout(timer));
}

/** How a download ended: its text, or code and subject of its error. */
export async function outcome(download: Promise<Download>): Promise<string> {
  try {
    return Buffer.from((await download).bytes).toString();
  } catch (error) {
    return said(error);
  }
}

/** Code and subject of an error. */
export function said(error: unknown): string {
  if (!(error instanceof HeadraceError)) return String(error);
  return `${error.code} ${error.subject}`.trim();
}
