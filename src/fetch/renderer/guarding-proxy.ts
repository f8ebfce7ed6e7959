// The proxy that a browser sends all requests of its pages to. A page has credentials of its own, which are valid while it is rendered;
// what comes with none is refused. Every host passes the guard, and connections go to the addresses that were checked, so that the
// browser resolves nothing itself. Requests and bytes of a page are bounded. Listens only while there are pages.

import { randomBytes } from 'node:crypto';
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../actor/index.ts';
import type { Address } from '../../config/units.ts';
import { HeadraceError } from '../../errors.ts';
import type { Guard } from '../guard.ts';
import { GuardedConnector } from '../guarded-connector.ts';

export interface PageProxyOptions {
  readonly guard: Guard;
  readonly clock: Clock;
  /** Longest time for lookup and connection. */
  readonly connectTimeoutMs: number;
  /** Most requests and tunnels of the page. */
  readonly maxRequests: number;
  /** Most bytes in both directions; of answers with heads and framing. */
  readonly maxBytes: number;
}

/** What has come of a page. */
export interface ProxyCounts {
  /** Requests and tunnels that were asked for, allowed or not. */
  readonly requests: number;
  /** Refused by the guard or by a limit. */
  readonly refused: number;
  readonly bytes: number;
}

/** The proxy of one page. */
export interface PageProxy {
  readonly port: number;
  readonly username: string;
  readonly password: string;
  counts(): ProxyCounts;
  /** The credentials become invalid, and all connections of the page are closed. */
  close(): void;
}

/** Origin that the proxy answers itself, for the probe of a browser. `.invalid` is reserved (RFC 2606 §2). */
export const PROBE_ORIGIN = 'http://headrace-probe.invalid';
const PROBE_PAGE = '<!doctype html><title>probe</title>';

const MAX_HEAD_BYTES = 65_536;

/** Connections of all pages. A browser opens up to 32 to a proxy, and those of tunnels. */
const MAX_CONNECTIONS = 4096;

/** A connection that says nothing is closed after this time. */
const HEAD_TIMEOUT_MS = 10_000;

/** Connections to one origin for plain HTTP, as many as browsers open. */
const CONNECTIONS = 6;

/** Fields of one connection (RFC 9110 §7.6.1), and those that are between the browser and this proxy. */
const HOP_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const NO_BODY = 'content-length: 0\r\nconnection: close\r\n\r\n';

export class GuardingProxy {
  readonly #pages = new Map<string, Page>();
  readonly #sockets = new Set<Duplex>();
  #server: Promise<Server> | null = null;
  #opening = 0;

  /** Pages that have credentials. */
  get pages(): number {
    return this.#pages.size;
  }

  get isListening(): boolean {
    return this.#server !== null;
  }

  /** Credentials of a new page. Rejects where the address cannot be listened at. */
  async open(listen: Address, options: PageProxyOptions): Promise<PageProxy> {
    this.#opening++;
    try {
      this.#server ??= this.#listen(listen);
      const { port } = (await this.#server).address() as AddressInfo;
      const page = new Page(options);
      const username = randomBytes(16).toString('hex');
      const password = randomBytes(32).toString('hex');
      const field = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
      this.#pages.set(field, page);
      const close = (): void => {
        if (this.#pages.delete(field)) page.close();
        this.#closeIdle();
      };
      return { port, username, password, counts: () => page.counts(), close };
    } finally {
      this.#opening--;
      this.#closeIdle();
    }
  }

  async #listen({ host, port }: Address): Promise<Server> {
    const server = createServer({ maxHeaderSize: MAX_HEAD_BYTES, headersTimeout: HEAD_TIMEOUT_MS, noDelay: true });
    server.maxConnections = MAX_CONNECTIONS;
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      // Errors of a connection end it; whoever waits for it is told by `close`. Said for all, since Node.js takes its own listener away from
      // tunnels and upgrades.
      socket.on('close', () => this.#sockets.delete(socket)).on('error', () => undefined);
    });
    server.on('request', (incoming, response) => this.#request(incoming, response));
    server.on('connect', (incoming, socket, head) => this.#tunnel(incoming, socket, head));
    server.on('upgrade', (_incoming, socket) => refuse(socket, '501 Not Implemented'));
    server.on('clientError', (_error, socket) => socket.destroy());
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen(port, host, resolve);
    try {
      await promise;
    } catch (cause) {
      this.#server = null;
      const { code = 'no address' } = cause as NodeJS.ErrnoException;
      throw new HeadraceError('HR_FETCH_RENDERER', { subject: `its proxy cannot listen (${code})`, cause });
    }
    server.off('error', reject);
    return server;
  }

  #closeIdle(): void {
    if (this.#pages.size > 0 || this.#opening > 0 || this.#server === null) return;
    const server = this.#server;
    this.#server = null;
    for (const socket of this.#sockets) socket.destroy();
    // Nobody waits for it: its connections are closed.
    server.then((listening) => listening.close()).catch(() => undefined);
  }

  #pageOf({ headers }: IncomingMessage): Page | undefined {
    return this.#pages.get(headers['proxy-authorization'] ?? '');
  }

  #request(incoming: IncomingMessage, response: ServerResponse): void {
    const page = this.#pageOf(incoming);
    if (page === undefined) {
      incoming.resume();
      response.writeHead(407, { 'proxy-authenticate': 'Basic realm="page"', 'content-length': 0 }).end();
    } else {
      page.request(incoming, response);
    }
  }

  #tunnel(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
    const page = this.#pageOf(incoming);
    if (page !== undefined) page.tunnel(incoming, socket, head);
    else refuse(socket, '407 Proxy Authentication Required', 'proxy-authenticate: Basic realm="page"\r\n');
  }
}

/** An agent whose connections go through the guard. */
class GuardedAgent extends Agent {
  readonly #connect: (hostname: string, port: number) => Promise<Socket>;

  constructor(connect: (hostname: string, port: number) => Promise<Socket>) {
    super({ keepAlive: true, maxSockets: CONNECTIONS });
    this.#connect = connect;
  }

  override createConnection(
    { host, port }: { host?: string | null; port?: number | string | null },
    callback?: (error: Error | null, socket: Duplex) => void,
  ): undefined {
    this.#connect(host ?? '', Number(port)).then(
      (socket) => callback?.(null, socket),
      (error: Error) => callback?.(error, undefined as never),
    );
  }
}

/** What one page may do, and has done. */
class Page {
  readonly #options: PageProxyOptions;
  readonly #connector: GuardedConnector;
  readonly #agent: Agent;
  readonly #closing = new AbortController();
  readonly #sockets = new Set<Duplex>();
  readonly #count: (piece: Buffer) => void;
  #requests = 0;
  #refused = 0;
  #bytes = 0;

  constructor(options: PageProxyOptions) {
    const { clock, connectTimeoutMs, guard } = options;
    this.#options = options;
    this.#connector = new GuardedConnector({ guard, clock, timeoutMs: connectTimeoutMs });
    this.#agent = new GuardedAgent(this.#connect.bind(this));
    this.#count = this.#add.bind(this);
  }

  counts(): ProxyCounts {
    return { requests: this.#requests, refused: this.#refused, bytes: this.#bytes };
  }

  close(): void {
    this.#closing.abort(new HeadraceError('HR_FETCH_FAILED', { subject: 'connection closed' }));
    this.#connector.close();
    this.#agent.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** A request of plain HTTP, in absolute form (RFC 9112 §3.2.2). */
  request(incoming: IncomingMessage, response: ServerResponse): void {
    this.#hold(incoming.socket);
    const url = incoming.url ?? '';
    if (url.startsWith(`${PROBE_ORIGIN}/`)) {
      this.#requests++;
      incoming.resume();
      response.writeHead(200, { 'content-type': 'text/html', 'cache-control': 'no-store' }).end(PROBE_PAGE);
      return;
    }
    const target = this.#admit(url.startsWith('http://') ? url : '');
    if (target === null) {
      answer(incoming, response, 403);
      return;
    }
    const sent = request({
      agent: this.#agent,
      host: bare(target.hostname),
      port: target.port === '' ? 80 : Number(target.port),
      method: incoming.method,
      path: target.pathname + target.search,
      headers: [...endToEnd(incoming), ...framingOf(incoming), 'Host', target.host],
      setHost: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      signal: this.#closing.signal,
    });
    sent.on('response', (answered) => {
      const status = answered.statusCode ?? 502;
      // 407 is this proxy's to say: the browser would send its credentials again.
      if (status === 407 || status < 200) {
        answered.destroy();
        answer(incoming, response, 502);
        return;
      }
      answered.on('error', () => response.destroy());
      response.writeHead(status, endToEnd(answered));
      answered.pipe(response);
    });
    sent.on('error', () => {
      if (response.headersSent) response.destroy();
      else answer(incoming, response, 502);
    });
    // A server that changes the protocol: nothing asks for it.
    sent.on('upgrade', (_response, socket) => {
      socket.destroy();
      answer(incoming, response, 502);
    });
    response.on('close', () => sent.destroy());
    incoming.on('data', this.#count).pipe(sent);
  }

  /** A tunnel (RFC 9110 §9.3.6), for TLS and web sockets. `head`: what was sent ahead of the answer. */
  tunnel(incoming: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#hold(socket);
    const authority = incoming.url ?? '';
    const target = /^[^/?#@\s]+:\d+$/.test(authority) ? this.#admit(`https://${authority}/`) : null;
    if (target === null) {
      refuse(socket, '403 Forbidden');
      return;
    }
    const connected = (upstream: Socket): void => {
      if (socket.destroyed) {
        upstream.destroy();
        return;
      }
      socket.on('close', () => upstream.destroy()).on('data', this.#count);
      upstream.on('close', () => socket.destroy());
      this.#count(head);
      upstream.write(head);
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(upstream).pipe(socket);
    };
    const failed = (): void => refuse(socket, '502 Bad Gateway');
    this.#connect(target.hostname, target.port === '' ? 443 : Number(target.port)).then(connected, failed);
  }

  /** Null for what is refused: an address, or one request too many. */
  #admit(url: string): URL | null {
    const { guard, maxBytes, maxRequests } = this.#options;
    this.#requests++;
    if (this.#requests <= maxRequests && this.#bytes <= maxBytes) {
      try {
        return guard.admit(url);
      } catch (error) {
        if (!(error instanceof HeadraceError)) throw error;
      }
    }
    this.#refused++;
    return null;
  }

  async #connect(hostname: string, port: number): Promise<Socket> {
    // TLS is the browser's; to the connector this is a plain connection.
    const target = { hostname: bare(hostname), protocol: 'http:', port: String(port) };
    try {
      const socket = await this.#connector.connect(target, this.#closing.signal);
      // As on the wire: heads that go on without end count too.
      socket.on('error', () => undefined).on('data', this.#count);
      this.#hold(socket);
      return socket;
    } catch (error) {
      if (error instanceof HeadraceError && error.code === 'HR_FETCH_BLOCKED') this.#refused++;
      throw error;
    }
  }

  /** Closes a connection with the page. */
  #hold(socket: Duplex): void {
    if (this.#closing.signal.aborted) socket.destroy();
    if (socket.destroyed || this.#sockets.has(socket)) return;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
  }

  #add(piece: Buffer): void {
    this.#bytes += piece.byteLength;
    if (this.#bytes > this.#options.maxBytes) for (const socket of this.#sockets) socket.destroy();
  }
}

/** The header lines of a message that are for its other end, flat. */
function endToEnd({ headers, rawHeaders }: IncomingMessage): string[] {
  const named = (headers.connection ?? '').toLowerCase().split(',');
  const dropped = new Set([...named.map((name) => name.trim()), ...HOP_FIELDS, 'host']);
  // It frames the message, whatever the sender names (RFC 9110 §7.6.1).
  dropped.delete('content-length');
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (!dropped.has(name.toLowerCase())) kept.push(name, rawHeaders[at + 1] ?? '');
  }
  return kept;
}

/**
 * How the body of a request ends (RFC 9112 §6.3), where that is not told by fields that are passed on. Node.js would send the body of a
 * GET without it, and the server would take it for the next request.
 */
function framingOf({ headers }: IncomingMessage): readonly string[] {
  return headers['transfer-encoding'] === undefined ? [] : ['Transfer-Encoding', 'chunked'];
}

/** An error without a word: pages cannot tell what exists inside. */
function answer(incoming: IncomingMessage, response: ServerResponse, status: 403 | 502): void {
  incoming.resume();
  if (!response.headersSent) response.writeHead(status, { 'content-length': 0 });
  response.end();
}

function refuse(socket: Duplex, status: string, fields = ''): void {
  socket.end(`HTTP/1.1 ${status}\r\n${fields}${NO_BODY}`, () => socket.destroy());
}

function bare(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}
