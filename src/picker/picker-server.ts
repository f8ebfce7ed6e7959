// The gRPC server of a picker: a stream for each HTTP request of a data plane, and health by `grpc.health.v1`. The packages for gRPC are
// loaded at the first use: a gateway without a picker does not need them.

import { isIP } from 'node:net';
import type {
  experimental,
  ServerDuplexStream,
  ServerUnaryCall,
  sendUnaryData,
  Server as GrpcServer,
  ServiceDefinition,
} from '@grpc/grpc-js';
import type { Member } from '../routing/index.ts';
import { PickedRequest, type PickerDependencies } from './picked-request.ts';
import {
  EXTERNAL_PROCESSOR,
  HEALTH_SERVICE,
  type ProcessingRequest,
  type ProcessingResponse,
  servicesOf,
  SERVING_STATUS,
} from './protocol.ts';

/** The packages for gRPC. */
export interface Grpc {
  readonly library: typeof import('@grpc/grpc-js');
  readonly services: Readonly<Record<string, ServiceDefinition>>;
}

/** Rejects when the packages are not installed. */
export async function loadGrpc(): Promise<Grpc> {
  const [library, { fromJSON }] = await Promise.all([import('@grpc/grpc-js'), import('@grpc/proto-loader')]);
  return { library, services: servicesOf(fromJSON) };
}

/** PEM of a certificate chain and of its key, which fit. */
export interface TlsIdentity {
  readonly certificate: Buffer;
  readonly key: Buffer;
}

export interface PickerServerOptions extends Omit<PickerDependencies, 'endpointOf'> {
  readonly grpc: Grpc;
  /** Null: plain HTTP/2. */
  readonly tls: TlsIdentity | null;
  /** Whether requests may be picked for; health says so. */
  readonly isReady: () => boolean;
}

export interface PickerServer {
  /** Resolves with the port. Rejects when it is taken. */
  listen(address: { readonly host: string; readonly port: number }): Promise<number>;
  /** New connections get this certificate. Only where one was given at the start. */
  useTls(identity: TlsIdentity): void;
  /** HTTP requests that are under way. */
  readonly streams: number;
  /** Takes no new connections, and resolves when the streams under way have ended, or were cut off after `drainMs`. */
  close(drainMs: number): Promise<void>;
}

/** Connections whose data plane has vanished are noticed within these times. */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_TIMEOUT_MS = 10_000;

/** Streams of one connection at a time; data planes open more connections. */
const MAX_STREAMS = 16_384;

/** What a message may be longer than a buffered body of twice the limit: a body up to there is answered with 413, and longer ones end the stream. */
const MESSAGE_HEAD_BYTES = 1024 * 1024;

type Stream = ServerDuplexStream<ProcessingRequest, ProcessingResponse>;

/** Names that the picker protocol gives to checks. */
const LIVENESS = 'liveness';
const READINESS = new Set(['', 'readiness', EXTERNAL_PROCESSOR, HEALTH_SERVICE]);

export function createPickerServer(options: PickerServerOptions): PickerServer {
  return new RunningServer(options);
}

/** Gives the library's server a certificate, and each later one. */
class ServedCertificate implements experimental.CertificateProvider {
  readonly #listeners = new Set<experimental.IdentityCertificateUpdateListener>();
  #identity: experimental.IdentityCertificateUpdate;

  constructor(identity: TlsIdentity) {
    this.#identity = updateOf(identity);
  }

  use(identity: TlsIdentity): void {
    this.#identity = updateOf(identity);
    for (const listener of this.#listeners) listener(this.#identity);
  }

  addIdentityCertificateListener(listener: experimental.IdentityCertificateUpdateListener): void {
    this.#listeners.add(listener);
    process.nextTick(listener, this.#identity);
  }

  removeIdentityCertificateListener(listener: experimental.IdentityCertificateUpdateListener): void {
    this.#listeners.delete(listener);
  }

  // Data planes are not asked for certificates.
  addCaCertificateListener(): void {}
  removeCaCertificateListener(): void {}
}

function updateOf({ certificate, key }: TlsIdentity): experimental.IdentityCertificateUpdate {
  return { certificate, privateKey: key };
}

class RunningServer implements PickerServer {
  readonly #options: PickerServerOptions;
  readonly #server: GrpcServer;
  readonly #dependencies: PickerDependencies;
  readonly #tls: ServedCertificate | null;
  #streams = 0;
  #isClosing = false;

  constructor(options: PickerServerOptions) {
    this.#options = options;
    const { library, services } = options.grpc;
    this.#dependencies = { ...options, endpointOf };
    this.#tls = options.tls === null ? null : new ServedCertificate(options.tls);
    this.#server = new library.Server({
      'grpc.keepalive_time_ms': KEEPALIVE_MS,
      'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
      'grpc.max_concurrent_streams': MAX_STREAMS,
      // Of the limit at the start: a reload that raises it further needs a restart.
      'grpc.max_receive_message_length': Math.min(2 * options.maxBodyBytes() + MESSAGE_HEAD_BYTES, 2 ** 31 - 1),
    });
    this.#server.addService(services[EXTERNAL_PROCESSOR] as ServiceDefinition, {
      Process: (stream: Stream) => this.#process(stream),
    });
    this.#server.addService(services[HEALTH_SERVICE] as ServiceDefinition, {
      Check: (
        call: ServerUnaryCall<{ readonly service?: string }, object>,
        answer: sendUnaryData<{ readonly status: number }>,
      ) => this.#check(call.request.service ?? '', answer),
    });
  }

  get streams(): number {
    return this.#streams;
  }

  listen({ host, port }: { readonly host: string; readonly port: number }): Promise<number> {
    const { ServerCredentials, experimental } = this.#options.grpc.library;
    const credentials =
      this.#tls === null
        ? ServerCredentials.createInsecure()
        : experimental.createCertificateProviderServerCredentials(this.#tls, null, false);
    const authority = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(authority, credentials, (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
  }

  useTls(identity: TlsIdentity): void {
    this.#tls?.use(identity);
  }

  async close(drainMs: number): Promise<void> {
    this.#isClosing = true;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.#server.forceShutdown(), drainMs);
      this.#server.tryShutdown(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #process(stream: Stream): void {
    let request: PickedRequest | null = null;
    const begin = (): PickedRequest => {
      this.#streams++;
      return new PickedRequest(this.#dependencies, { write: (response) => send(stream, response) });
    };
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      if (request !== null) this.#streams--;
      request?.end();
      if (!stream.writableEnded) stream.end();
    };
    stream.on('data', (message: ProcessingRequest) => (request ??= begin()).receive(message));
    for (const event of ['end', 'cancelled', 'error', 'close']) stream.on(event, over);
  }

  #check(service: string, answer: sendUnaryData<{ readonly status: number }>): void {
    const { grpc, isReady } = this.#options;
    const isServing = service === LIVENESS || (isReady() && !this.#isClosing);
    if (service === LIVENESS || READINESS.has(service)) {
      answer(null, { status: isServing ? SERVING_STATUS.serving : SERVING_STATUS.notServing });
    } else {
      answer({ code: grpc.library.status.NOT_FOUND, details: 'there is no such service' });
    }
  }
}

/** Until the data plane reads what it is sent, nothing more is taken from it. */
function send(stream: Stream, response: ProcessingResponse): void {
  if (stream.cancelled || stream.writableEnded || stream.write(response) || stream.isPaused()) return;
  stream.pause();
  stream.once('drain', () => stream.resume());
}

const ENDPOINTS = new WeakMap<Member, string>();

/** `ip:port` of a CRN; undefined where its base URL has a name. */
function endpointOf(member: Member): string | undefined {
  const known = ENDPOINTS.get(member);
  if (known !== undefined) return known === '' ? undefined : known;
  const { hostname, port, protocol } = new URL(member.url);
  const isAddress = isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
  const endpoint = isAddress ? `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}` : '';
  ENDPOINTS.set(member, endpoint);
  return endpoint === '' ? undefined : endpoint;
}
