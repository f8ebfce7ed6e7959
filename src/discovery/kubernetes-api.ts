// Requests to the API server of Kubernetes with the service account of a pod. Token and certificate authority are read anew for each
// request, since the kubelet replaces them while the pod runs.

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../actor/index.ts';
import { environment } from '../config/env.ts';
import { type Connection, ConnectionPool, type DispatchError, type DispatchHandler } from '../net/client.ts';

export interface KubernetesApiSettings {
  /** Base URL; without it the one that the environment of pods names. */
  readonly server?: string;
  /** Folder of the service account: `token`, `ca.crt` and `namespace`. */
  readonly account: string;
}

export interface ApiRequest {
  /** Path below the base URL, and query. */
  readonly path: string;
  /** Of `Accept`. */
  readonly accept: string;
  readonly signal: AbortSignal;
  /** Largest body that is collected. */
  readonly maxBytes: number;
  /** Of a watch: gets the body of an answer with status 200 in pieces, which are valid until it returns. */
  readonly onData?: (piece: Buffer) => void;
  /** The head of an answer with status 200 has come. */
  readonly onStart?: () => void;
}

export interface ApiAnswer {
  readonly status: number;
  /** Empty where `onData` got it. */
  readonly body: Buffer;
  /** How long the API server asks to wait, in milliseconds; 0 when it does not. */
  readonly retryAfterMs: number;
}

/** Tokens and certificates are smaller. */
const MAX_FILE_BYTES = 256 * 1024;
/** A list and a watch for each of slices and pods, and what is being closed. */
const CONNECTIONS = 8;
const KEEP_ALIVE_MS = 30_000;

export class KubernetesApi {
  readonly #settings: KubernetesApiSettings;
  readonly #clock: Clock;
  #pool: ConnectionPool | null = null;
  #poolKey = '';
  #basePath = '';
  #closed = false;

  constructor(settings: KubernetesApiSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** The namespace of the pod. */
  async namespace(): Promise<string> {
    const text = await this.#read('namespace');
    if (text === null) throw new Error(`${join(this.#settings.account, 'namespace')} does not exist; set namespace`);
    return text.trim();
  }

  /** Resolves when the answer is complete, whatever its status. */
  async request(request: ApiRequest): Promise<ApiAnswer> {
    const [pool, token] = await Promise.all([this.#connections(), this.#read('token')]);
    request.signal.throwIfAborted();
    if (this.#closed) throw new Error('the source is closed');
    const headers = ['accept', request.accept, 'user-agent', 'headrace'];
    if (token !== null) headers.push('authorization', `Bearer ${token.trim()}`);
    const below = { ...request, path: this.#basePath + request.path };
    return new Promise((resolve, reject) => new Call(pool, below, headers, resolve, reject).begin());
  }

  /** Requests that have not been sent fail. */
  close(): void {
    this.#closed = true;
    this.#pool?.close();
  }

  async #connections(): Promise<ConnectionPool> {
    const server = this.#settings.server ?? serverOf(environment());
    const ca = server.startsWith('https:') ? await this.#read('ca.crt') : null;
    const key = `${server}\n${ca ?? ''}`;
    if (this.#pool === null || (key !== this.#poolKey && !this.#closed)) {
      this.#pool?.close();
      this.#poolKey = key;
      const { origin, pathname } = new URL(server);
      this.#basePath = pathname.replace(/\/$/, '');
      this.#pool = new ConnectionPool(origin, {
        maxConnections: CONNECTIONS,
        keepAliveMs: KEEP_ALIVE_MS,
        clock: this.#clock,
        ...(ca !== null && { ca }),
      });
    }
    return this.#pool;
  }

  /** The text of a file of the account; null when there is none. */
  async #read(name: string): Promise<string | null> {
    const path = join(this.#settings.account, name);
    try {
      const file = await open(path);
      try {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(MAX_FILE_BYTES + 1), 0, MAX_FILE_BYTES + 1, 0);
        if (bytesRead > MAX_FILE_BYTES) throw new Error(`${path} is larger than 256 KiB`);
        return buffer.toString('utf8', 0, bytesRead);
      } finally {
        await file.close();
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
  }
}

function serverOf(env: Readonly<Record<string, string | undefined>>): string {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (host === undefined || host === '') throw new Error('KUBERNETES_SERVICE_HOST is not set; set server');
  return `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** One request. */
class Call implements DispatchHandler {
  readonly #pool: ConnectionPool;
  readonly #request: ApiRequest;
  readonly #headers: readonly string[];
  readonly #resolve: (answer: ApiAnswer) => void;
  readonly #reject: (error: Error) => void;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #status = 0;
  #retryAfterMs = 0;
  #connection: Connection | null = null;
  #retried = false;
  #done = false;

  constructor(
    pool: ConnectionPool,
    request: ApiRequest,
    headers: readonly string[],
    resolve: (answer: ApiAnswer) => void,
    reject: (error: Error) => void,
  ) {
    this.#pool = pool;
    this.#request = request;
    this.#headers = headers;
    this.#resolve = resolve;
    this.#reject = reject;
    request.signal.addEventListener('abort', this.#leave);
  }

  begin(fresh = false): void {
    const { path } = this.#request;
    const options = { method: 'GET', path, headers: this.#headers, body: Buffer.alloc(0) } as const;
    const connection = this.#pool.dispatch(options, this, fresh);
    // A request that failed at once may have been sent again by then.
    if (connection !== null) this.#connection = connection;
  }

  onRequestSent(): void {
    // Nothing to note: the caller's signal limits the time.
  }

  onResponseStart(status: number, headers: readonly string[]): void {
    this.#status = status;
    for (let at = 0; at < headers.length; at += 2) {
      const seconds = headers[at] === 'retry-after' ? Number(headers[at + 1]) : NaN;
      if (seconds > 0) this.#retryAfterMs = seconds * 1000;
    }
    if (status === 200) this.#request.onStart?.();
  }

  onResponseData(chunk: Buffer): void {
    if (this.#done) return;
    const { maxBytes, onData } = this.#request;
    if (onData !== undefined && this.#status === 200) {
      onData(chunk);
      return;
    }
    this.#bytes += chunk.byteLength;
    if (this.#bytes > maxBytes) this.#fail(new Error(`the answer is longer than ${maxBytes} bytes`));
    else this.#pieces.push(Buffer.from(chunk));
  }

  onResponseEnd(): void {
    if (!this.#end()) return;
    this.#resolve({ status: this.#status, body: Buffer.concat(this.#pieces), retryAfterMs: this.#retryAfterMs });
  }

  onResponseError(error: DispatchError): void {
    this.#connection = null;
    if (error.fault === 'stale' && !this.#retried && !this.#done) {
      // The API server closed an idle connection as the request was sent.
      this.#retried = true;
      this.begin(true);
      return;
    }
    this.#fail(error);
  }

  readonly #leave = (): void => this.#fail(this.#request.signal.reason as Error);

  #fail(error: Error): void {
    const connection = this.#connection;
    if (!this.#end()) return;
    connection?.abort(this);
    this.#reject(error);
  }

  #end(): boolean {
    if (this.#done) return false;
    this.#done = true;
    this.#connection = null;
    this.#request.signal.removeEventListener('abort', this.#leave);
    return true;
  }
}
