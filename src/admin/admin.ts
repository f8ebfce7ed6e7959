// The admin listener: metrics, status, liveness and the routes of the other files on a port of their own, loopback by default.
// On node:http, because it must answer when the ingress threads do not.
//
// GET /metrics  Prometheus text      GET /status  CRNs and stage as JSON      GET /health  200 while the process lives
// With the token of hosts: GET /keys/snapshot, POST /hosts, DELETE /hosts/NAME (see host-routes.ts).
// Every path refuses what a page of another site sends: see page-guard.ts.
// The dashboard, its document and admin actions: see overview-routes.ts. With `adminToken`: accounts (account-routes.ts).

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { systemClock } from '../actor/index.ts';
import { prefersProtobuf, PROTOBUF_TYPE, protobufPieces, TEXT_TYPE, textPieces } from '../telemetry/exposition.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { refusesMethod, respondJson, takesGzip } from './admin-exchange.ts';
import { PageGuard, type PageGuardOptions } from './page-guard.ts';
import { type Address, ListenError } from '../ingress/server.ts';

/** Names of buckets repeat, so that a scrape shrinks to a tenth and less at the lowest level already. */
const ZIP = { level: 1, chunkSize: 64 * 1024 };

/** Metrics of thousands of models take seconds to write: after this time others have their turn, in milliseconds. */
const TURN_MS = 5;

/** Responses of `/metrics` at once, each of which holds all series. A further one ends the oldest: its reader does not read. */
const MOST_SCRAPES = 16;

/** A running admin listener. */
export interface Admin {
  readonly address: Address;
  close(): void;
}

/** Serves paths of its own. */
export interface AdminRoutes {
  /** Answers a request to one of its paths; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string, query: URLSearchParams): boolean;
}

/** What `/status` and `/metrics` show. */
export interface AdminDeps {
  status(): object;
  metrics(): Promise<MetricsSnapshot[]>;
  /** Default: no further names, no tokens. */
  readonly guard?: Omit<PageGuardOptions, 'listenHost'>;
}

const NO_EXEMPTIONS = { hosts: () => [], isTrusted: () => false };

/** Opens the admin listener. Rejects with a readable message when it cannot listen. */
export function openAdmin(address: Address, deps: AdminDeps, ...routes: readonly AdminRoutes[]): Promise<Admin> {
  const guard = new PageGuard({ ...(deps.guard ?? NO_EXEMPTIONS), listenHost: address.host });
  const scrapes = new Set<ServerResponse>();
  const server = createServer((req, res) => answer(req, res, deps, guard, scrapes, routes));
  return new Promise((resolve, reject) => {
    const refuse = (error: Error): void => reject(new ListenError(address, error));
    server.once('error', refuse);
    server.listen(address.port, address.host, () => {
      server.off('error', refuse);
      const { port } = server.address() as AddressInfo;
      resolve({ address: { host: address.host, port }, close: () => closeServer(server) });
    });
  });
}

function answer(
  req: IncomingMessage,
  res: ServerResponse,
  deps: AdminDeps,
  guard: PageGuard,
  scrapes: Set<ServerResponse>,
  routes: readonly AdminRoutes[],
): void {
  const url = req.url ?? '/';
  const cut = url.indexOf('?');
  const path = cut < 0 ? url : url.slice(0, cut);
  const refusal = guard.refusal(req, path);
  if (refusal !== null) {
    // The body of a refused request is not read.
    respondJson(res, 403, { detail: refusal }, { connection: 'close' });
    return;
  }
  const query = new URLSearchParams(cut < 0 ? '' : url.slice(cut));
  if (routes.some((routes) => routes.answer(req, res, path, query))) return;
  if (refusesMethod(req, res, 'GET', 'HEAD')) return;
  if (path === '/metrics') {
    void respondMetrics(req, res, deps, scrapes);
  } else if (path === '/status') {
    respondJson(res, 200, deps.status());
  } else if (path === '/health') {
    respondJson(res, 200, { status: 'ok' });
  } else {
    respondJson(res, 404, { detail: 'Not Found' });
  }
}

async function respondMetrics(
  req: IncomingMessage,
  res: ServerResponse,
  deps: AdminDeps,
  scrapes: Set<ServerResponse>,
): Promise<void> {
  scrapes.add(res);
  const [oldest] = scrapes;
  if (scrapes.size > MOST_SCRAPES && oldest !== undefined) {
    scrapes.delete(oldest);
    oldest.destroy();
  }
  try {
    const snapshots = await deps.metrics();
    const isProtobuf = prefersProtobuf(req.headers.accept);
    const isZipped = takesGzip(req);
    const body = Readable.from(inTurns(isProtobuf ? protobufPieces(snapshots) : textPieces(snapshots)));
    res.writeHead(200, {
      'content-type': isProtobuf ? PROTOBUF_TYPE : TEXT_TYPE,
      vary: 'accept, accept-encoding',
      ...(isZipped && { 'content-encoding': 'gzip' }),
    });
    await (isZipped ? pipeline(body, createGzip(ZIP), res) : pipeline(body, res));
  } catch (error) {
    // Of a response that has begun the pipeline has closed the connection.
    if (!res.headersSent) respondJson(res, 500, { detail: String(error) });
  } finally {
    scrapes.delete(res);
  }
}

/** What comes of the pieces in some milliseconds, in a turn of the event loop of its own. */
async function* inTurns(pieces: Iterable<string | Uint8Array>): AsyncGenerator<Buffer> {
  let made: Uint8Array[] = [];
  let beganMs = systemClock.now();
  for (const piece of pieces) {
    if (piece.length > 0) made.push(typeof piece === 'string' ? Buffer.from(piece) : piece);
    if (systemClock.now() - beganMs < TURN_MS) continue;
    if (made.length > 0) yield Buffer.concat(made);
    made = [];
    await nextTurn();
    beganMs = systemClock.now();
  }
  yield Buffer.concat(made);
}

function closeServer(server: Server): void {
  server.close();
  server.closeAllConnections();
}
