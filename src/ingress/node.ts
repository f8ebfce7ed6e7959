// Carrier on node:http: serves where the uWebSockets.js binary does not load, and is what `nodeListener` mounts in
// other people's servers. Same contract as the other carriers, at about three times the cost per request.

import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../actor/index.ts';
import { Body, declaredLength } from './body.ts';
import { type BodyCallback, Exchange, type RequestHead } from './exchange.ts';
import { requestId } from './request-id.ts';
import { respondError } from './respond.ts';
import type { Address, Server, ServerOptions } from './server.ts';

/** How long the headers of a request may take, in milliseconds. */
const HEADERS_MS = 30_000;

/** How long the rest of a refused body is read at most, so that the client gets to read the refusal. */
const LINGER_MS = 30_000;

/** Idle time of a kept-alive connection between two requests, in milliseconds; the other carrier's is the same. */
const KEEP_ALIVE_MS = 12_000;

/** Scheme and authority of a request target in absolute form. */
const ABSOLUTE = /^https?:\/\/[^/?]*/i;

class NodeExchange extends Exchange {
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #clock: Clock;
  readonly #body: Body | null;
  readonly #draining: () => boolean;
  #headers: readonly string[] = [];
  #contentLength = -1;

  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    head: RequestHead,
    body: Body | null,
    clock: Clock,
    draining: () => boolean,
  ) {
    super(head, clock.now());
    this.#req = req;
    this.#res = res;
    this.#body = body;
    this.#clock = clock;
    this.#draining = draining;
    res.on('close', () => {
      if (!res.writableFinished) this.abort();
    });
    res.on('error', () => this.abort());
    res.on('drain', () => this.onWritable?.());
  }

  override readBody(done: BodyCallback): void {
    if (this.#body === null) done(null, Buffer.alloc(0));
    else this.#body.wait(done);
  }

  protected override begin(_status: number, headers: readonly string[], contentLength: number): void {
    this.#headers = headers;
    this.#contentLength = contentLength;
  }

  override write(chunk: Uint8Array): boolean {
    if (this.finished) return true;
    this.#writeHead();
    return this.#res.write(chunk);
  }

  override end(chunk?: Uint8Array): void {
    if (this.finished) return;
    const lingers = this.#body?.abandoned === true;
    this.#writeHead();
    const bodiless = this.method === 'HEAD' || this.status === 204 || this.status === 304;
    const last = bodiless ? undefined : chunk;
    if (lingers) this.#endAfterRequest(last);
    else this.#res.end(last);
    this.finish();
  }

  override destroy(): void {
    if (this.finished) return;
    this.finish();
    this.#res.destroy();
  }

  protected override close(): void {
    this.#body?.release();
    super.close();
  }

  #writeHead(): void {
    if (this.committed) return;
    this.committed = true;
    const headers = [...this.standing, ...this.#headers];
    if (this.#contentLength >= 0 && this.status !== 204) headers.push('content-length', String(this.#contentLength));
    const { abandoned = false, stalled = false } = this.#body ?? {};
    if (this.#draining() || abandoned || stalled) headers.push('connection', 'close');
    this.#res.writeHead(this.status, headers);
  }

  /** Sends the whole answer but has node:http close the connection only when the client has said everything. */
  #endAfterRequest(last: Uint8Array | undefined): void {
    const res = this.#res;
    if (last === undefined) res.flushHeaders();
    else res.write(last);
    const end = (): void => {
      this.#clock.clearTimeout(timer);
      res.end();
    };
    const timer = this.#clock.setTimeout(end, LINGER_MS);
    this.#req.once('end', end);
    res.once('close', end);
  }
}

/** Turns node:http requests into exchanges; the body of `createServer(listener)` and of `gateway.nodeListener`. */
export function createNodeListener(
  options: ServerOptions,
  draining: () => boolean = () => false,
): (req: IncomingMessage, res: ServerResponse) => void {
  return (req, res) => {
    // Relative to the mount point where a framework mounted us. Origin servers take absolute URLs too (RFC 9112 §3.2.2).
    const url = (req.url ?? '/').replace(ABSOLUTE, '');
    const cut = url.indexOf('?');
    const headers = lowerCased(req.rawHeaders);
    const head: RequestHead = {
      method: req.method ?? 'GET',
      path: cut < 0 ? url : url.slice(0, cut),
      query: cut < 0 ? '' : url.slice(cut + 1),
      headers,
      requestId: requestId(headers),
    };
    let body: Body | null = null;
    let refused: unknown = null;
    try {
      if (head.method !== 'GET' && head.method !== 'HEAD') {
        body = new Body(options.budget, options.limits, declaredLength(headers), options.clock.now());
      }
    } catch (error) {
      refused = error;
    }
    const exchange = new NodeExchange(req, res, head, body, options.clock, draining);
    try {
      if (refused !== null) throw refused;
      options.handler(exchange);
    } catch (error) {
      respondError(exchange, error);
    }
    if (body !== null) collect(req, body, exchange, options);
  };
}

function collect(req: IncomingMessage, body: Body, exchange: Exchange, options: ServerOptions): void {
  const parsed: unknown = (req as { body?: unknown }).body;
  // A body parser mounted before us has read the stream: rebuild what it read rather than wait for ever.
  if (req.readableEnded || (parsed !== undefined && req.complete && req.readableLength === 0)) {
    body.append(bytesOf(parsed), true, options.clock.now());
    return;
  }
  const idle = (): void => body.stall();
  let timer = options.clock.setTimeout(idle, options.limits.bodyIdleMs);
  const stop = (): void => options.clock.clearTimeout(timer);
  req.on('data', (piece: Buffer) => {
    stop();
    if (exchange.finished || body.settled) return;
    body.append(piece, false, options.clock.now());
    if (!body.settled) timer = options.clock.setTimeout(idle, options.limits.bodyIdleMs);
  });
  req.on('end', () => {
    stop();
    body.append(new Uint8Array(0), true, options.clock.now());
  });
  req.on('close', stop);
}

function bytesOf(parsed: unknown): Uint8Array {
  if (parsed instanceof Uint8Array) return parsed;
  return Buffer.from(typeof parsed === 'string' ? parsed : (JSON.stringify(parsed) ?? ''));
}

function lowerCased(raw: readonly string[]): string[] {
  return raw.map((word, index) => (index % 2 === 0 ? word.toLowerCase() : word));
}

class NodeServer implements Server {
  readonly name = 'node';
  readonly #http: HttpServer;
  #draining = false;

  constructor(options: ServerOptions) {
    this.#http = createServer(
      {
        maxHeaderSize: options.limits.headerBytes,
        headersTimeout: HEADERS_MS,
        keepAliveTimeout: KEEP_ALIVE_MS,
        requestTimeout: 0,
        noDelay: true,
      },
      createNodeListener(options, () => this.#draining),
    );
  }

  listen(address: Address): Promise<Address> {
    return new Promise((resolve, reject) => {
      this.#http.once('error', reject);
      this.#http.listen({ ...address, reusePort: true }, () => {
        this.#http.off('error', reject);
        resolve({ host: address.host, port: (this.#http.address() as AddressInfo).port });
      });
    });
  }

  drain(): void {
    this.#draining = true;
    this.#http.close();
    this.#http.closeIdleConnections();
  }

  close(): void {
    this.drain();
    this.#http.closeAllConnections();
  }
}

/** Makes a server on node:http. */
export function createNodeServer(options: ServerOptions): Server {
  return new NodeServer(options);
}
