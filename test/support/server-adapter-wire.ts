// HTTP/1.1 client on a raw socket: writes given bytes and reads responses, so that tests see framing, resets and partial
// responses.

import { connect, type Socket } from 'node:net';
import type { InjectRequest } from '../../src/ingress/inject.ts';

/** One response, in the form of `inject`. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  text(): string;
  json<T = unknown>(): T;
}

/** How the server's side of a connection ended. */
export type End = 'fin' | 'reset';

/** Cleans up what was started: a test, or a script. */
export interface Scope {
  teardown(run: () => unknown): void;
}

/** Opens a connection to a local port; it is torn down with the test. */
export function dial(t: Scope, port: number): Wire {
  const wire = new Wire(connect(port, '127.0.0.1'));
  t.teardown(() => wire.leave());
  return wire;
}

export class Wire {
  readonly socket: Socket;
  /** Resolves when the server has closed the connection. */
  readonly ended: Promise<End>;
  /** Answers with status 1xx met on the way, by status. */
  readonly interim: number[] = [];
  /** Bytes that belong to no response yet, joined when they are read. */
  #pieces: Buffer[] = [];
  #length = 0;
  #end: End | null = null;
  #wake: (() => void)[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (piece) => {
      this.#pieces.push(piece as Buffer);
      this.#length += piece.length;
      this.#stir();
    });
    this.ended = new Promise((resolve) => {
      const over = (end: End): void => {
        this.#end ??= end;
        this.#stir();
        resolve(this.#end);
      };
      socket.on('end', () => over('fin'));
      socket.on('error', () => over('reset'));
      socket.on('close', () => over('fin'));
    });
  }

  /** Sends bytes; latin1 text. Resolves when they have left the process, or the connection has ended. */
  async send(bytes: string | Uint8Array): Promise<void> {
    if (this.socket.destroyed) return;
    const data = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
    await new Promise<void>((resolve) => this.socket.write(data, () => resolve()));
  }

  /** Destroys the connection. */
  leave(): void {
    this.socket.destroy();
  }

  /** Bytes received that belong to no response yet. */
  get pending(): string {
    return this.#bytes.toString('latin1');
  }

  /** Waits until the pending bytes contain this text; throws when the connection ends first. */
  async shows(text: string): Promise<void> {
    while (!this.pending.includes(text)) await this.#more(text);
  }

  /** The next final response, read completely. With `method` HEAD it has no body. Throws when the connection ends first. */
  async answer(method = 'GET'): Promise<Answer> {
    for (;;) {
      const { status, headers } = await this.#head();
      if (status < 200) {
        this.interim.push(status);
        continue;
      }
      const body = method === 'HEAD' || status === 204 ? Buffer.alloc(0) : await this.#body(headers);
      const text = (): string => body.toString();
      return { status, headers, body, text, json: <T>() => JSON.parse(text()) as T };
    }
  }

  async #head(): Promise<{ status: number; headers: Record<string, string> }> {
    await this.shows('\r\n\r\n');
    const end = this.#bytes.indexOf('\r\n\r\n');
    const [first = '', ...lines] = this.#take(end + 4)
      .toString('latin1')
      .trimEnd()
      .split('\r\n');
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      const known = headers[name];
      headers[name] = known === undefined ? value : known + (name === 'set-cookie' ? '\n' : ', ') + value;
    }
    return { status: Number(first.split(' ')[1]), headers };
  }

  async #body(headers: Readonly<Record<string, string>>): Promise<Buffer> {
    if (headers['transfer-encoding'] === 'chunked') return this.#chunks();
    const length = Number(headers['content-length']);
    if (Number.isNaN(length)) {
      await this.ended;
      return this.#take(this.#length);
    }
    while (this.#length < length) await this.#more('the whole body');
    return this.#take(length);
  }

  async #chunks(): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (;;) {
      await this.shows('\r\n');
      const size = parseInt(this.#take(this.#bytes.indexOf('\r\n') + 2).toString('latin1'), 16);
      while (this.#length < size + 2) await this.#more('the whole chunk');
      const piece = this.#take(size + 2);
      if (size === 0) return Buffer.concat(pieces);
      pieces.push(piece.subarray(0, size));
    }
  }

  #take(length: number): Buffer {
    const taken = this.#bytes.subarray(0, length);
    this.#pieces = [this.#bytes.subarray(length)];
    this.#length -= length;
    return taken;
  }

  get #bytes(): Buffer {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0] as Buffer;
  }

  async #more(what: string): Promise<void> {
    if (this.#end !== null) {
      throw new Error(`the connection ended (${this.#end}) before ${what}; got: ${this.pending.slice(0, 200)}`);
    }
    await new Promise<void>((resolve) => this.#wake.push(resolve));
  }

  #stir(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const wake of waiting) wake();
  }
}

/** The bytes of a request with its `content-length`. Bodies as `inject` takes them. */
export function encode(request: InjectRequest): Buffer {
  const { body } = request;
  const bytes =
    body === undefined ? '' : typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  const headers: Record<string, string> = { host: 'gateway.test', ...request.headers };
  if (bytes !== body && body !== undefined) headers['content-type'] ??= 'application/json';
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(bytes));
  const method = request.method ?? (body === undefined ? 'GET' : 'POST');
  return Buffer.concat([Buffer.from(head(method, request.path, headers), 'latin1'), Buffer.from(bytes)]);
}

/** The head of a request, nothing added. */
export function head(method: string, path: string, headers: Readonly<Record<string, string>> | string[]): string {
  const lines = Array.isArray(headers) ? headers : Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return `${[`${method} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`;
}
