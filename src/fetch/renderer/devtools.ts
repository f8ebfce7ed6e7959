// One connection to a browser by Chrome's DevTools protocol, with flat sessions: commands and their answers, and events by session.
// It is never opened again: whoever uses it opens another one. What the browser sends is checked; a connection that breaks the protocol,
// or does not answer, is closed. Messages never hold the URL of the browser, whose query may be a secret.

import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import WebSocket from 'ws';
import type { Clock, TimerHandle } from '../../actor/index.ts';
import { membersOf, isJsonObject, parsedJson } from '../../net/json-object.ts';

/** A command or a connection failed; the message says how. */
export class DevToolsError extends Error {
  override readonly name = 'DevToolsError';
}

export type Fields = Readonly<Record<string, unknown>>;

export type EventListener = (method: string, params: Fields) => void;

export interface DevToolsOptions {
  /** `ws:`, `wss:`, or `http:`, `https:`, where `/json/version` says the WebSocket. */
  readonly url: string;
  readonly clock: Clock;
  /** Longest time to connect, and longest wait for the answer to a command that the browser itself carries out. */
  readonly timeoutMs: number;
  /** Called once, and never before the connection has been handed out. */
  readonly onClose: (reason: string) => void;
}

/** A page is the largest message. Its text is bounded in the browser; JSON may write a character in six bytes. */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;

/** Bytes that may wait to be sent: commands are small, so that more means a browser that does not read. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

/** Commands without an answer. */
const MAX_PENDING = 20_000;

/** Of the answer to `/json/version`. */
const MAX_VERSION_BYTES = 65_536;

/** Chrome answers 500 to other names in the Host field, against DNS rebinding. */
const LOCAL_NAME = 'localhost';

interface Pending {
  readonly sessionId: string;
  readonly method: string;
  readonly resolve: (result: Fields) => void;
  readonly reject: (error: Error) => void;
  readonly timer: TimerHandle | null;
}

/** Opens a connection; rejects with a `DevToolsError`. */
export async function connectDevTools(options: DevToolsOptions): Promise<DevTools> {
  const { clock, timeoutMs, url } = options;
  const late = new AbortController();
  const timer = clock.setTimeout(() => late.abort(), timeoutMs);
  try {
    const endpoint = new URL(url);
    if (endpoint.protocol === 'ws:' || endpoint.protocol === 'wss:') return await open(endpoint, late.signal, options);
    return await open(await findSocket(endpoint, late.signal), late.signal, options);
  } finally {
    clock.clearTimeout(timer);
  }
}

export class DevTools {
  readonly #socket: WebSocket;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onClose: (reason: string) => void;
  readonly #pending = new Map<number, Pending>();
  /** By session; that of the browser is ''. */
  readonly #listeners = new Map<string, EventListener>();
  #count = 0;
  #closed: DevToolsError | null = null;

  /** @internal */
  constructor(socket: WebSocket, { clock, onClose, timeoutMs }: DevToolsOptions) {
    this.#socket = socket;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onClose = onClose;
    socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    socket.on('close', () => this.#end('the connection was closed'));
    socket.on('error', (error: NodeJS.ErrnoException) => this.#end(`the connection broke${codeOf(error)}`));
  }

  /** Sends a command. Without a session it is one of the browser, which must answer it in time. Rejects with a `DevToolsError`. */
  send(method: string, params: Fields = {}, sessionId = ''): Promise<Fields> {
    if (this.#closed !== null) return Promise.reject(this.#closed);
    if (this.#pending.size >= MAX_PENDING || this.#socket.bufferedAmount > MAX_WAITING_BYTES) {
      this.close('it does not read its commands');
      return Promise.reject(this.#closed ?? new DevToolsError('closed'));
    }
    const id = ++this.#count;
    const { promise, resolve, reject } = Promise.withResolvers<Fields>();
    const late = (): void => this.close(`no answer to ${method}`);
    const timer = sessionId === '' ? this.#clock.setTimeout(late, this.#timeoutMs) : null;
    this.#pending.set(id, { sessionId, method, resolve, reject, timer });
    this.#socket.send(JSON.stringify({ id, method, params, ...(sessionId !== '' && { sessionId }) }));
    return promise;
  }

  /** Calls back with the events of a session, or with those of the browser ('') that name none. */
  listen(sessionId: string, listener: EventListener): void {
    this.#listeners.set(sessionId, listener);
  }

  /** Ends a session on this side: its commands fail, and its events are dropped. */
  forget(sessionId: string): void {
    this.#listeners.delete(sessionId);
    for (const [id, pending] of this.#pending)
      if (pending.sessionId === sessionId) this.#settle(id)?.reject(new DevToolsError('the page was closed'));
  }

  /** Ends it at once; commands without an answer fail with the reason. */
  close(reason: string): void {
    this.#end(reason);
    this.#socket.terminate();
  }

  #end(reason: string): void {
    if (this.#closed !== null) return;
    this.#closed = new DevToolsError(reason);
    for (const id of this.#pending.keys()) this.#settle(id)?.reject(this.#closed);
    this.#listeners.clear();
    this.#onClose(reason);
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    if (pending === undefined) return undefined;
    this.#pending.delete(id);
    if (pending.timer !== null) this.#clock.clearTimeout(pending.timer);
    return pending;
  }

  #receive(data: WebSocket.RawData, isBinary: boolean): void {
    if (this.#closed !== null) return;
    const message = isBinary ? undefined : parsedJson((data as Buffer).toString());
    if (!isJsonObject(message)) {
      this.close('it does not speak the DevTools protocol');
      return;
    }
    const { error, id, method, params, result } = message;
    if (typeof id === 'number') {
      const pending = this.#settle(id);
      if (error === undefined) pending?.resolve(membersOf(result));
      // What the browser says may quote the page.
      else pending?.reject(new DevToolsError(`${pending.method} failed`, { cause: error }));
    } else if (typeof method === 'string') {
      const sessionId = typeof message['sessionId'] === 'string' ? message['sessionId'] : '';
      this.#listeners.get(sessionId)?.(method, membersOf(params));
    }
  }
}

/** A field that must be a text. */
export function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string') throw new DevToolsError(`an answer without ${name}`);
  return value;
}

async function open(url: URL, signal: AbortSignal, options: DevToolsOptions): Promise<DevTools> {
  try {
    return await handshake(url, signal, {}, options);
  } catch (error) {
    if (!(error instanceof RefusedError) || error.status !== 500) throw error;
    return await handshake(url, signal, { host: LOCAL_NAME }, options);
  }
}

/** The browser answered, with another status than asked for. */
class RefusedError extends DevToolsError {
  readonly status: number;

  constructor(status: number) {
    super(`status ${status}`);
    this.status = status;
  }
}

function handshake(
  url: URL,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>>,
  options: DevToolsOptions,
): Promise<DevTools> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, {
      headers,
      maxPayload: MAX_MESSAGE_BYTES,
      perMessageDeflate: false,
      followRedirects: false,
    });
    const fail = (error: Error): void => {
      signal.removeEventListener('abort', late);
      // A failed handshake emits an error of its own.
      socket.on('error', () => undefined).terminate();
      reject(error);
    };
    const late = (): void => fail(new DevToolsError('no connection in time'));
    signal.addEventListener('abort', late, { once: true });
    if (signal.aborted) late();
    socket.once('open', () => {
      signal.removeEventListener('abort', late);
      socket.removeAllListeners();
      // Listens from here on: what follows the handshake may be broken, and an error that nobody hears would end the process.
      resolve(new DevTools(socket, options));
    });
    socket.once('unexpected-response', (_request, response) => fail(new RefusedError(response.statusCode ?? 0)));
    socket.once('error', (error: NodeJS.ErrnoException) => fail(new DevToolsError(`no connection${codeOf(error)}`)));
  });
}

/** The WebSocket of a browser, by its `/json/version`. Host and query are those of the configured URL, as the browser sees others. */
async function findSocket(url: URL, signal: AbortSignal): Promise<URL> {
  const asked = new URL(url);
  const base = url.pathname.replace(/\/+$/, '');
  asked.pathname = `${base}/json/version`;
  let body: Fields;
  try {
    body = await getJson(asked, signal, {});
  } catch (error) {
    if (!(error instanceof RefusedError) || error.status !== 500) throw error;
    body = await getJson(asked, signal, { host: LOCAL_NAME });
  }
  const said = URL.parse(textOf(body, 'webSocketDebuggerUrl'));
  if (said === null) throw new DevToolsError('an answer without webSocketDebuggerUrl');
  const found = new URL(url);
  found.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  found.pathname = said.pathname.startsWith(base) ? said.pathname : base + said.pathname;
  for (const [name, value] of said.searchParams) found.searchParams.set(name, value);
  return found;
}

function getJson(url: URL, signal: AbortSignal, headers: Readonly<Record<string, string>>): Promise<Fields> {
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp;
    const fail = (error: NodeJS.ErrnoException): void =>
      reject(new DevToolsError(signal.aborted ? 'no connection in time' : `no connection${codeOf(error)}`));
    const sent = request(url, { headers, signal, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      response.on('error', fail).on('data', (piece: Buffer) => {
        bytes += piece.byteLength;
        pieces.push(piece);
        if (bytes > MAX_VERSION_BYTES) sent.destroy();
      });
      response.on('close', () => {
        const body = parsedJson(Buffer.concat(pieces).toString());
        if (response.statusCode !== 200) reject(new RefusedError(response.statusCode ?? 0));
        else if (isJsonObject(body)) resolve(body);
        else reject(new DevToolsError('it does not speak the DevTools protocol'));
      });
    });
    sent.on('error', fail).end();
  });
}

/** The code of a system error, such as ` (ECONNREFUSED)`. Its message may hold the URL. */
function codeOf({ code }: NodeJS.ErrnoException): string {
  return code === undefined ? '' : ` (${code})`;
}
