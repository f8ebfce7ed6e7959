// Adapter for servers of node:http, in which the gateway is mounted as a request listener. How requests are framed is up to that
// server. Same behavior as the gateway's own server otherwise, at about three times the cost per request.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { unreferenced } from '../actor/index.ts';
import { type Deadline, DeadlineQueue, type Expirable } from '../net/deadline.ts';
import { WriteProgress } from './accepted-socket.ts';
import { Body } from './body.ts';
import { checkHead, type EndCause, Exchange, type RequestHead } from './exchange.ts';
import { respondError } from './respond.ts';
import type { ServerOptions } from './server.ts';

/** Longest time that the rest of a refused body is read, so that the client can read the response. */
const LINGER_MS = 30_000;

const LISTS = ['set-cookie', 'vary'];

/** Scheme and authority of a request target in absolute form (RFC 9112 §3.2.2). */
const ABSOLUTE = /^https?:\/\/[^/?]*/i;

class NodeExchange extends Exchange implements Expirable {
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #options: ServerOptions;
  readonly #draining: () => boolean;
  /** Runs while the client has to read. */
  readonly #deadline: Deadline;
  readonly #progress: WriteProgress;

  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    head: RequestHead,
    options: ServerOptions,
    deadlines: DeadlineQueue,
    draining: () => boolean,
  ) {
    super(head, options.clock.now());
    this.#req = req;
    this.#res = res;
    this.#options = options;
    this.#draining = draining;
    this.#deadline = deadlines.deadline(this);
    this.#progress = new WriteProgress(req.socket);
    res.on('close', () => {
      if (!res.writableFinished) this.ended('gone');
    });
    res.on('error', () => this.ended('gone'));
    res.on('drain', () => {
      this.#deadline.clear();
      if (!this.handedOver) this.listener?.onWritable();
    });
    res.on('finish', () => this.ended('delivered'));
  }

  /** The body that pieces are added to. */
  expectBody({ budget, limits }: ServerOptions): Body {
    this.requestBody = new Body(budget, limits, this.declaredBytes, this.receivedMs);
    return this.requestBody;
  }

  protected override get sendsTrailers(): boolean {
    return this.#req.httpVersionMinor > 0 && this.method !== 'HEAD';
  }

  override write(chunk: Uint8Array): boolean {
    if (this.handedOver) return true;
    this.#writeHead();
    // The caller may reuse the memory of the piece.
    const taken = this.#res.write(Buffer.from(chunk));
    if (!taken) this.#watchProgress();
    return taken;
  }

  override end(chunk?: Uint8Array): void {
    if (this.handedOver) return;
    const lingers = this.requestBody?.abandoned === true;
    this.#writeHead();
    const bodiless = this.method === 'HEAD' || this.status === 204 || this.status === 304;
    const last = bodiless || chunk === undefined ? undefined : Buffer.from(chunk);
    if (this.trailerSource !== null && !bodiless) {
      const flat = this.trailerSource.trailers();
      for (let i = 0; i < flat.length; i += 2) this.#res.addTrailers([[flat[i] as string, flat[i + 1] as string]]);
    }
    if (lingers) this.#endAfterRequest(last);
    else this.#res.end(last);
    this.handedOver = true;
    if (this.#res.writableLength > 0) this.#watchProgress();
  }

  override destroy(): void {
    if (this.handedOver) return;
    this.ended('broken');
    this.#res.destroy();
  }

  /** @internal The client has not taken everything yet. */
  expire(): void {
    const { clock, limits } = this.#options;
    if (this.#progress.idleMs(clock.now()) < limits.clientIdleMs) {
      this.#deadline.set(this.#progress.intervalMs(limits.clientIdleMs));
      return;
    }
    this.ended('gone');
    this.#res.destroy();
  }

  protected override ended(cause: EndCause): void {
    this.#deadline.clear();
    super.ended(cause);
  }

  #watchProgress(): void {
    const { clock, limits } = this.#options;
    this.#progress.begin(clock.now());
    this.#deadline.set(this.#progress.intervalMs(limits.clientIdleMs));
  }

  #writeHead(): void {
    if (this.committed) return;
    this.committed = true;
    const headers = [...this.#listsBefore(), ...this.commonHeaders, ...this.responseHeaders];
    if (this.contentLength >= 0 && this.status !== 204) headers.push('content-length', String(this.contentLength));
    const { abandoned = false, stalled = false } = this.requestBody ?? {};
    if (this.#draining() || abandoned || stalled) headers.push('connection', 'close');
    this.#res.writeHead(this.status, headers);
    // Behind another response node:http would put this head before a `100 Continue` that waits too, and the body behind it.
    if (this.#res.socket === null) this.#res.flushHeaders();
  }

  /** What is mounted before has set of the headers that are lists, of which `writeHead` would keep the gateway's own values only. */
  #listsBefore(): string[] {
    return LISTS.flatMap((name) => [this.#res.getHeader(name) ?? []].flat().flatMap((value) => [name, String(value)]));
  }

  /** Sends the whole response, but lets node:http close the connection only after the client has sent its body. */
  #endAfterRequest(last: Uint8Array | undefined): void {
    const res = this.#res;
    if (last === undefined) res.flushHeaders();
    else res.write(last);
    const { clock } = this.#options;
    const end = (): void => {
      clock.clearTimeout(timer);
      res.end();
    };
    const timer = clock.setTimeout(end, LINGER_MS);
    this.#req.once('end', end);
    res.once('close', end);
  }
}

/** A node:http listener that turns requests into exchanges. */
export function createNodeListener(
  options: ServerOptions,
  draining: () => boolean = () => false,
): (req: IncomingMessage, res: ServerResponse) => void {
  // A response that is being sent has a connection, which keeps the process alive; a program that has closed its server ends at once.
  const deadlines = new DeadlineQueue(unreferenced(options.clock));
  return (req, res) => {
    // A framework that has mounted the listener makes the URL relative to the mount point.
    const url = (req.url ?? '/').replace(ABSOLUTE, '');
    const cut = url.indexOf('?');
    const headers = req.rawHeaders.map((word, index) => (index % 2 === 0 ? word.toLowerCase() : word));
    const head: RequestHead = {
      method: req.method ?? 'GET',
      path: (cut < 0 ? url : url.slice(0, cut)) || '/',
      query: cut < 0 ? '' : url.slice(cut + 1),
      headers,
      remoteAddress: req.socket.remoteAddress ?? '',
    };
    const exchange = new NodeExchange(req, res, head, options, deadlines, draining);
    // What is mounted before this listener may have changed the head.
    const fault = exchange.framingError ?? checkHead(head);
    if (fault !== null) {
      options.onRefused?.(exchange);
      respondError(exchange, fault, options.decorate);
      return;
    }
    const body = head.method === 'GET' || head.method === 'HEAD' ? null : exchange.expectBody(options);
    try {
      options.handler(exchange);
    } catch (error) {
      options.onError?.(error);
      respondError(exchange, error, options.decorate);
    }
    if (body !== null) collect(req, res, body, exchange, options);
  };
}

function collect(
  req: IncomingMessage,
  res: ServerResponse,
  body: Body,
  exchange: Exchange,
  options: ServerOptions,
): void {
  const parsed: unknown = (req as { body?: unknown }).body;
  // A body parser that was mounted before has read the stream: no more data will come, so the body is rebuilt.
  if (req.readableEnded || (parsed !== undefined && req.complete && req.readableLength === 0)) {
    exchange.contentEncoding = undefined;
    body.append(bytesOf(parsed), true, options.clock.now());
    return;
  }
  const idle = (): void => body.stall();
  let timer = options.clock.setTimeout(idle, options.limits.bodyIdleMs);
  const stop = (): void => options.clock.clearTimeout(timer);
  const add = (piece: Uint8Array, isLast: boolean): void => {
    try {
      body.append(piece, isLast, options.clock.now());
    } catch (error) {
      options.onError?.(error);
      exchange.destroy();
    }
  };
  req.on('data', (piece: Buffer) => {
    stop();
    if (exchange.handedOver || body.settled) return;
    add(piece, false);
    if (!body.settled) timer = options.clock.setTimeout(idle, options.limits.bodyIdleMs);
  });
  req.on('end', () => {
    stop();
    add(new Uint8Array(0), true);
  });
  req.on('close', stop);
  // A request that was answered before its body came is detached from its socket and never closes.
  res.on('close', stop);
}

function bytesOf(parsed: unknown): Uint8Array {
  if (parsed instanceof Uint8Array) return parsed;
  return Buffer.from(typeof parsed === 'string' ? parsed : (JSON.stringify(parsed) ?? ''));
}
