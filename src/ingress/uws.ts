// Carrier on uWebSockets.js: the only file that imports it. Traps of the addon that this file owns:
// a request handler must not throw (it ends the process), every write is corked (uncorked writes cost ten times as
// much), the header limit is read from the environment when the addon loads, `end` on HEAD would send the body, of
// two Content-Length headers the first is silently used, its idle timer cuts uploads slower than 16 KiB/s, `end` that
// closes resets a client that still sends, `endWithoutBody` given a length waits for such a body, heads are read and
// written as UTF-8 and not as bytes, and a thread that exits with an open app aborts the process.

import { STATUS_CODES } from 'node:http';
import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import type { TimerHandle } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import { IntrusiveSet } from '../net/intrusive-set.ts';
import { Body, declaredLength } from './body.ts';
import { type BodyCallback, Exchange, type RequestHead } from './exchange.ts';
import { requestId } from './request-id.ts';
import { respondError } from './respond.ts';
import type { Address, Server, ServerOptions } from './server.ts';

/** How often unfinished bodies are looked at; well under the addon's 10 s idle cut. */
const SWEEP_MS = 1000;

/** Status lines, made once. */
const STATUS_LINES: ReadonlyMap<number, string> = new Map(
  Object.entries(STATUS_CODES).map(([status, text]) => [Number(status), `${status} ${text}`]),
);

class UwsExchange extends Exchange {
  /** Its place among those that are watched. */
  watchSlot = -1;
  readonly #res: HttpResponse;
  readonly #server: UwsServer;
  readonly #body: Body | null;
  /** Where this request ends is in doubt, so nothing behind it may be read as another. */
  readonly #misframed: boolean;
  #headers: readonly string[] = [];
  #contentLength = -1;
  /** Rest of a piece that `tryEnd` did not take. */
  #rest: Uint8Array | null = null;
  #restIsLast = false;
  #sentBytes = 0;
  /** The client has to read before more can be sent. */
  #waiting = false;
  /** All bytes of the declared length have been handed over. */
  #complete = false;

  constructor(
    server: UwsServer,
    res: HttpResponse,
    head: RequestHead,
    body: Body | HeadraceError | null,
    nowMs: number,
  ) {
    super(head, nowMs);
    this.#server = server;
    this.#res = res;
    this.#body = body instanceof Body ? body : null;
    this.#misframed = body instanceof HeadraceError;
    res.onAborted(() => this.abort());
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
    if (this.#rest !== null) {
      this.#rest = Buffer.concat([this.#rest, chunk]);
      return false;
    }
    let taken = true;
    this.#res.cork(() => {
      this.#writeHead();
      taken = this.#contentLength >= 0 ? this.#send(chunk, false) : this.#res.write(chunk);
    });
    if (this.#complete) this.finish();
    else if (!taken) this.#awaitWritable();
    return taken;
  }

  override end(chunk?: Uint8Array): void {
    if (this.finished) return;
    if (this.#rest !== null) {
      if (chunk !== undefined) this.#rest = Buffer.concat([this.#rest, chunk]);
      this.#restIsLast = true;
      return;
    }
    const first = !this.committed;
    this.#res.cork(() => {
      this.#writeHead();
      if (this.method === 'HEAD' || this.status === 204 || this.status === 304) this.#endWithoutBody();
      else if (first || this.#contentLength < 0) this.#res.end(chunk, first && this.#last);
      else if (chunk !== undefined && chunk.byteLength > 0) this.#send(chunk, true);
    });
    if (this.#rest === null) this.finish();
    else this.#awaitWritable();
  }

  override destroy(): void {
    if (this.finished) return;
    this.finish();
    this.#res.close();
  }

  protected override close(): void {
    this.#server.forget(this);
    this.#body?.release();
    super.close();
  }

  /** Keeps a slow upload or a slow reader alive against the addon's idle cut; ends an upload by our own limit. */
  sweep(nowMs: number, bodyIdleMs: number): void {
    if (this.finished) return;
    const receiving = this.#body !== null && !this.#body.complete;
    if (!receiving && !this.#waiting) return;
    if (receiving && nowMs - this.#body.lastPieceMs >= bodyIdleMs) {
      this.#body.stall();
      return;
    }
    // Resuming re-arms the addon's idle timer; nothing else that it offers does.
    this.#res.pause();
    this.#res.resume();
  }

  /** Whether the connection is closed with the answer. */
  get #last(): boolean {
    return this.#misframed || this.#body?.stalled === true || (this.#server.draining && !this.#lingers);
  }

  /** Whether the client is told to close the connection; the addon's idle timer ends one that does not. */
  get #lingers(): boolean {
    return this.#body?.abandoned === true;
  }

  #endWithoutBody(): void {
    if (this.method === 'HEAD' && this.#contentLength >= 0) {
      this.#res.writeHeader('content-length', String(this.#contentLength));
    }
    if (this.#last) this.#res.writeHeader('connection', 'close');
    this.#res.endWithoutBody();
  }

  #writeHead(): void {
    if (this.committed) return;
    this.committed = true;
    const res = this.#res;
    res.writeStatus(STATUS_LINES.get(this.status) ?? String(this.status));
    writeHeaders(res, this.standing);
    writeHeaders(res, this.#headers);
    if (this.#lingers) res.writeHeader('connection', 'close');
  }

  /** Sends part of a body of known length. */
  #send(chunk: Uint8Array, isLast: boolean): boolean {
    const [ok, done] = this.#res.tryEnd(chunk, this.#contentLength);
    this.#complete = done;
    if (ok || done) {
      this.#sentBytes += chunk.byteLength;
      return true;
    }
    this.#rest = chunk;
    this.#restIsLast = isLast;
    return false;
  }

  #awaitWritable(): void {
    this.#waiting = true;
    this.#server.watch(this);
    this.#res.onWritable((offset) => {
      if (this.finished) return true;
      if (this.#rest !== null && !this.#sendRest(offset)) return false;
      this.#waiting = false;
      if (!this.finished) this.onWritable?.();
      return true;
    });
  }

  #sendRest(offset: number): boolean {
    const rest = this.#rest;
    if (rest === null) return true;
    const unsent = rest.subarray(offset - this.#sentBytes);
    const [ok, done] = this.#res.tryEnd(unsent, this.#contentLength);
    if (!ok && !done) return false;
    this.#sentBytes += rest.byteLength;
    this.#rest = null;
    if (this.#restIsLast || done) this.finish();
    return true;
  }
}

function writeHeaders(res: HttpResponse, headers: readonly string[]): void {
  for (let i = 0; i < headers.length; i += 2) {
    const value = headers[i + 1] as string;
    res.writeHeader(headers[i] as string, NON_ASCII.test(value) ? Buffer.from(value, 'latin1') : value);
  }
}

const NON_ASCII = /[\u0080-\uffff]/;

/** One character for each byte, as node:http and undici have it, of text that the addon has read as UTF-8. */
function byteText(text: string): string {
  return NON_ASCII.test(text) ? Buffer.from(text).toString('latin1') : text;
}

class UwsServer implements Server {
  readonly name = 'uws';
  draining = false;
  readonly #options: ServerOptions;
  readonly #app: TemplatedApp;
  readonly #uws: typeof import('uWebSockets.js');
  /** Exchanges that receive a body or wait for their client to read: the only ones that need a sweep. */
  readonly #watched = new IntrusiveSet<'watchSlot', UwsExchange>('watchSlot');
  #sweeper: TimerHandle | null = null;
  #listening: us_listen_socket | null = null;
  #closed = false;

  constructor(uws: typeof import('uWebSockets.js'), options: ServerOptions) {
    this.#uws = uws;
    this.#options = options;
    this.#app = uws.App().any('/*', (res, req) => this.#accept(res, req));
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

  drain(): void {
    this.draining = true;
    if (this.#listening !== null) this.#uws.us_listen_socket_close(this.#listening);
    this.#listening = null;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.draining = true;
    this.#listening = null;
    if (this.#sweeper !== null) this.#options.clock.clearTimeout(this.#sweeper);
    this.#app.close();
  }

  watch(exchange: UwsExchange): void {
    this.#watched.add(exchange);
    this.#sweeper ??= this.#options.clock.setTimeout(() => this.#sweep(), SWEEP_MS);
  }

  forget(exchange: UwsExchange): void {
    this.#watched.delete(exchange);
  }

  #accept(res: HttpResponse, req: HttpRequest): void {
    const now = this.#options.clock.now();
    const headers: string[] = [];
    req.forEach((name, value) => {
      headers.push(name, byteText(value));
    });
    const method = req.getCaseSensitiveMethod();
    const head: RequestHead = {
      method,
      path: byteText(req.getUrl()),
      query: byteText(req.getQuery() ?? ''),
      headers,
      requestId: requestId(headers),
    };
    const body = method === 'GET' || method === 'HEAD' ? null : this.#receive(headers, now);
    const exchange = new UwsExchange(this, res, head, body, now);
    if (body instanceof HeadraceError) {
      // In this turn the addon would go on to read what follows as another request instead of closing.
      setImmediate(() => respondError(exchange, body));
      return;
    }
    if (body !== null) this.#collect(exchange, res, body);
    try {
      this.#options.handler(exchange);
    } catch (error) {
      respondError(exchange, error);
    }
  }

  #receive(headers: readonly string[], nowMs: number): Body | HeadraceError {
    try {
      return new Body(this.#options.budget, this.#options.limits, declaredLength(headers), nowMs);
    } catch (error) {
      return error as HeadraceError;
    }
  }

  #collect(exchange: UwsExchange, res: HttpResponse, body: Body): void {
    res.onData((piece, isLast) => {
      body.append(new Uint8Array(piece), isLast, this.#options.clock.now());
      if (isLast) this.#watched.delete(exchange);
    });
    this.watch(exchange);
  }

  #sweep(): void {
    this.#sweeper = null;
    const now = this.#options.clock.now();
    for (const exchange of this.#watched.list()) exchange.sweep(now, this.#options.limits.bodyIdleMs);
    if (this.#watched.size > 0 && !this.#closed) {
      this.#sweeper = this.#options.clock.setTimeout(() => this.#sweep(), SWEEP_MS);
    }
  }
}

/**
 * Loads the addon and makes a server. Rejects where no binary fits this platform and Node version.
 * The environment must hold the header limit before the first call in the process (`config/env.ts`).
 */
export async function createUwsServer(options: ServerOptions): Promise<Server> {
  const uws = await import('uWebSockets.js');
  (uws as unknown as { _cfg(word: string): void })._cfg('silent');
  return new UwsServer(uws, options);
}
