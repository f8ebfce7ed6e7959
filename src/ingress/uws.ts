// Server adapter on uWebSockets.js, the only file that imports it; a choice beside the gateway's own server. What it cannot do:
// - Framing is the addon's. Trailers of a chunked request can be read as another request, chunk extensions and line breaks are not
//   checked, of two equal names the first counts. It must not stand behind a proxy that frames requests in another way.
// - HTTP/1.0, absolute targets, long or malformed heads get the addon's own responses, without `detail` and request id.
// - A client that closes its side behind the request counts as gone, and pipelined requests close the connection.
// - A streamed response is chunked even where its length is known. The addon keeps what a client has not read of the last piece,
//   and closes after ten seconds in which nothing of it was read.
// - WebSockets of clients: handshakes are answered 426.
// It works around: a handler that throws ends the process; uncorked writes cost ten times as much; the header limit is read from
// the environment when the addon loads; `end` on HEAD sends the body; the idle timer cuts uploads below 16 KiB/s; `end` that closes
// resets a client that still sends; `endWithoutBody` with a length waits for a body; heads are read and written as UTF-8 and not as
// bytes; a thread that exits with an open app aborts the process.

import { STATUS_CODES } from 'node:http';
import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import type { TimerHandle } from '../actor/index.ts';
import { IntrusiveSet } from '../net/intrusive-set.ts';
import { Body } from './body.ts';
import { type EndCause, Exchange, type RequestHead } from './exchange.ts';
import { respondError } from './respond.ts';
import type { Address, Server, ServerLimits, ServerOptions } from './server.ts';

/** Interval of the sweep over unfinished bodies; well under the addon's idle timeout of 10 s. */
const SWEEP_MS = 1000;

/** Status lines by status. */
const STATUS_LINES: ReadonlyMap<number, string> = new Map(
  Object.entries(STATUS_CODES).map(([status, text]) => [Number(status), `${status} ${text}`]),
);

class UwsExchange extends Exchange {
  /** @internal Index in the set of watched exchanges. */
  watchSlot = -1;
  readonly #res: HttpResponse;
  readonly #server: UwsServer;
  /** The client must read before more can be sent. */
  #waiting = false;
  /** Since when it has read nothing. */
  #waitingMs = 0;

  constructor(server: UwsServer, res: HttpResponse, head: RequestHead, nowMs: number) {
    super(head, nowMs);
    this.#server = server;
    this.#res = res;
    res.onAborted(() => this.#run(() => this.ended('gone')));
  }

  /** Collects the body within the limits. */
  receive({ budget, clock, limits }: ServerOptions): void {
    const body = new Body(budget, limits, this.declaredBytes, this.receivedMs);
    this.requestBody = body;
    this.#res.onData((piece, isLast) => {
      this.#run(() => {
        body.append(new Uint8Array(piece), isLast, clock.now());
        if (isLast) this.#server.unwatch(this);
      });
    });
    this.#server.watch(this);
  }

  override write(chunk: Uint8Array): boolean {
    if (this.handedOver) return true;
    let taken = true;
    this.#res.cork(() => {
      if (!this.committed) this.#writeHead();
      if (!this.#bodiless) taken = this.#res.write(chunk);
    });
    if (!taken) this.#awaitWritable();
    return taken;
  }

  override end(chunk?: Uint8Array): void {
    if (this.handedOver) return;
    const first = !this.committed;
    this.#res.cork(() => {
      if (first) this.#writeHead();
      if (this.#bodiless) this.#endWithoutBody();
      else this.#res.end(chunk, first && this.#last);
    });
    this.ended('delivered');
  }

  override destroy(): void {
    if (this.handedOver) return;
    this.ended('broken');
    this.#res.close();
  }

  protected override ended(cause: EndCause): void {
    if (this.watchSlot >= 0) this.#server.unwatch(this);
    super.ended(cause);
  }

  /** Keeps a slow upload or a slow reader alive in spite of the addon's idle timer; ends an upload by our own limit. */
  sweep(nowMs: number, { bodyIdleMs, clientIdleMs }: ServerLimits): void {
    if (this.handedOver) return;
    const body = this.requestBody?.complete === false ? this.requestBody : null;
    if (body === null && !this.#waiting) return;
    if (body !== null && nowMs - body.lastPieceMs >= bodyIdleMs) {
      body.stall();
      return;
    }
    if (this.#waiting && nowMs - this.#waitingMs >= clientIdleMs) {
      this.ended('gone');
      this.#res.close();
      return;
    }
    // `resume` restarts the addon's idle timer; no other function does.
    this.#res.pause();
    this.#res.resume();
  }

  /** Whether the connection is closed with the response. */
  get #last(): boolean {
    if (this.framingError !== null || this.requestBody?.stalled === true) return true;
    // A client that still sends is told to close the connection: closing it here would reset it.
    return this.#server.draining && this.requestBody?.abandoned !== true;
  }

  #endWithoutBody(): void {
    if (this.method === 'HEAD' && this.contentLength >= 0) {
      this.#res.writeHeader('content-length', String(this.contentLength));
    }
    if (this.#last) this.#res.writeHeader('connection', 'close');
    this.#res.endWithoutBody();
  }

  #writeHead(): void {
    this.committed = true;
    const res = this.#res;
    res.writeStatus(STATUS_LINES.get(this.status) ?? String(this.status));
    writeHeaders(res, this.commonHeaders);
    writeHeaders(res, this.responseHeaders);
    if (this.requestBody?.abandoned === true) res.writeHeader('connection', 'close');
  }

  /** Runs a callback of the addon, in which an error would end the process. It costs the connection. */
  #run(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#server.report(error);
      this.destroy();
    }
  }

  get #bodiless(): boolean {
    return this.method === 'HEAD' || this.status === 204 || this.status === 304;
  }

  #awaitWritable(): void {
    this.#waitingMs = this.#server.now();
    if (this.#waiting) return;
    this.#waiting = true;
    this.#server.watch(this);
    this.#res.onWritable(() => {
      this.#waiting = false;
      this.#run(() => {
        if (!this.handedOver) this.listener?.onWritable();
      });
      return true;
    });
  }
}

function writeHeaders(res: HttpResponse, headers: readonly string[]): void {
  for (let i = 0; i < headers.length; i += 2) {
    const value = headers[i + 1] as string;
    res.writeHeader(headers[i] as string, NON_ASCII.test(value) ? Buffer.from(value, 'latin1') : value);
  }
}

const NON_ASCII = /[\u0080-\uffff]/;

/** Text that the addon has decoded as UTF-8, with one character per byte as in node:http and undici. */
function byteText(text: string): string {
  return NON_ASCII.test(text) ? Buffer.from(text).toString('latin1') : text;
}

class UwsServer implements Server {
  readonly name = 'uws';
  draining = false;
  readonly #options: ServerOptions;
  readonly #app: TemplatedApp;
  readonly #uws: typeof import('uWebSockets.js');
  /** Exchanges that receive a body or wait for their client to read. */
  readonly #watched = new IntrusiveSet<'watchSlot', UwsExchange>('watchSlot');
  #sweeper: TimerHandle | null = null;
  #listening: us_listen_socket | null = null;
  #closed = false;
  /** The addon never gives up its callbacks: what they refer to is taken from them by `close`. */
  readonly #open: { server: UwsServer | null } = { server: this };

  constructor(uws: typeof import('uWebSockets.js'), options: ServerOptions) {
    this.#uws = uws;
    this.#options = options;
    const open = this.#open;
    this.#app = uws.App().any('/*', (res, req) => open.server?.accept(res, req));
  }

  listen(address: Address): Promise<Address> {
    return new Promise((resolve, reject) => {
      this.#app.listen(address.host, address.port, (socket) => {
        if (socket === false) {
          reject(new Error(`cannot listen on ${address.host}:${address.port}: address in use or not permitted`));
          return;
        }
        this.#listening = socket;
        resolve({ host: address.host, port: this.#uws.us_socket_local_port(socket) });
      });
    });
  }

  drain(): Promise<void> {
    this.draining = true;
    if (this.#listening !== null) this.#uws.us_listen_socket_close(this.#listening);
    this.#listening = null;
    return Promise.resolve();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.draining = true;
    this.#listening = null;
    if (this.#sweeper !== null) this.#options.clock.clearTimeout(this.#sweeper);
    this.#app.close();
    this.#open.server = null;
  }

  report(error: unknown): void {
    this.#options.onError?.(error);
  }

  now(): number {
    return this.#options.clock.now();
  }

  watch(exchange: UwsExchange): void {
    this.#watched.add(exchange);
    this.#sweeper ??= this.#options.clock.setTimeout(() => this.#sweep(), SWEEP_MS);
  }

  unwatch(exchange: UwsExchange): void {
    this.#watched.delete(exchange);
  }

  accept(res: HttpResponse, req: HttpRequest): void {
    const headers: string[] = [];
    req.forEach((name, value) => {
      headers.push(name, NON_ASCII.test(value) ? byteText(value) : value);
    });
    const method = req.getCaseSensitiveMethod();
    const remoteAddress = Buffer.from(res.getRemoteAddressAsText()).toString('latin1');
    const head = {
      method,
      path: byteText(req.getUrl()),
      query: byteText(req.getQuery() ?? ''),
      headers,
      remoteAddress,
    };
    const exchange = new UwsExchange(this, res, head, this.#options.clock.now());
    const { framingError } = exchange;
    if (framingError !== null) {
      this.#options.onRefused?.(exchange);
      // In this turn the addon would read what follows as another request instead of closing the connection.
      setImmediate(() => respondError(exchange, framingError, this.#options.decorate));
      return;
    }
    if (method !== 'GET' && method !== 'HEAD') exchange.receive(this.#options);
    try {
      this.#options.handler(exchange);
    } catch (error) {
      this.#options.onError?.(error);
      respondError(exchange, error, this.#options.decorate);
    }
  }

  #sweep(): void {
    this.#sweeper = null;
    const now = this.#options.clock.now();
    for (const exchange of this.#watched.list()) exchange.sweep(now, this.#options.limits);
    if (this.#watched.size > 0 && !this.#closed) {
      this.#sweeper = this.#options.clock.setTimeout(() => this.#sweep(), SWEEP_MS);
    }
  }
}

/**
 * Loads the addon and creates a server. Rejects when there is no binary for this platform and Node version.
 * The environment must have the header limit before the first call in the process (`config/env.ts`).
 */
export async function createUwsServer(options: ServerOptions): Promise<Server> {
  const uws = await import('uWebSockets.js');
  (uws as unknown as { _cfg(word: string): void })._cfg('silent');
  return new UwsServer(uws, options);
}
