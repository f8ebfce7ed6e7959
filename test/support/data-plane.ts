// The part of a data plane that talks to an endpoint picker, and a picker with hosts behind it.

import { once } from 'node:events';
import { connect } from 'node:tls';
import * as grpc from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';
import type { Test } from 'tap';
import { serveGateway, type ServedGateway } from '../../src/gateway/gateway.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { Host } from '../../src/host/index.ts';
import { createPickerServer, type PickerServer } from '../../src/picker/index.ts';
import {
  EXTERNAL_PROCESSOR,
  HEALTH_SERVICE,
  type ProcessingRequest,
  type ProcessingResponse,
  servicesOf,
} from '../../src/picker/protocol.ts';
import { settingsFor } from './system.ts';

const SERVICES = servicesOf(fromJSON);

export interface Picker {
  readonly gateway: ServedGateway;
  readonly server: PickerServer;
  readonly port: number;
}

export interface PickerOptions {
  readonly settings?: SettingsInput;
  readonly tls?: { readonly certificate: Buffer; readonly key: Buffer };
  readonly fallbacks?: number;
  readonly isReady?: () => boolean;
}

/** Starts a picker for these hosts, and waits until each has been probed. */
export async function startPicker(t: Test, hosts: readonly Host[], options: PickerOptions = {}): Promise<Picker> {
  const { fallbacks = 0, isReady = () => true, tls = null } = options;
  const resolution = resolveSettings(settingsFor(hosts, { admin: null, store: null, threads: 0, ...options.settings }));
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  const gateway = serveGateway(resolution.settings);
  const { plane } = gateway;
  const server = createPickerServer({
    ...{ grpc: { library: grpc, services: SERVICES }, tls, fallbacks, isReady, budget: plane.budget },
    deps: () => plane.deps,
    maxBodyBytes: () => plane.limits.maxBodyBytes,
  });
  t.teardown(async () => {
    await server.close(0);
    await gateway.close();
  });
  await gateway.ready();
  return { gateway, server, port: await server.listen({ host: '127.0.0.1', port: 0 }) };
}

/** Sends messages as they are, and keeps what comes back. */
export class DataPlane {
  readonly #processor: grpc.Client;
  readonly #health: grpc.Client;

  constructor(t: Test, port: number, credentials: grpc.ChannelCredentials = grpc.credentials.createInsecure()) {
    const make = (name: string): grpc.Client => {
      const Client = grpc.makeGenericClientConstructor(SERVICES[name] as grpc.ServiceDefinition, name);
      // By a name of the certificate: Node.js 26 refuses an address as the name of a TLS server, which the client would send.
      return new Client(`127.0.0.1:${port}`, credentials, { 'grpc.ssl_target_name_override': 'secure.test' });
    };
    this.#processor = make(EXTERNAL_PROCESSOR);
    this.#health = make(HEALTH_SERVICE);
    t.teardown(() => {
      this.#processor.close();
      this.#health.close();
    });
  }

  /** Begins an HTTP request. */
  begin(): HttpRequest {
    const client = this.#processor as unknown as {
      Process(): grpc.ClientDuplexStream<ProcessingRequest, ProcessingResponse>;
    };
    return new HttpRequest(client.Process());
  }

  /** Status of a service, or the code of the error. */
  check(service: string): Promise<number | string> {
    const client = this.#health as unknown as {
      Check(
        request: { service: string },
        done: (error: grpc.ServiceError | null, answer?: { status?: number }) => void,
      ): void;
    };
    return new Promise((resolve) =>
      client.Check({ service }, (error, answer) =>
        resolve(error === null ? (answer?.status ?? 0) : grpc.status[error.code]),
      ),
    );
  }
}

/** SHA-256 fingerprint of the certificate that a new connection gets. */
export async function certificateAt(port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  try {
    await once(socket, 'secureConnect');
    return socket.getPeerCertificate().fingerprint256;
  } finally {
    socket.destroy();
  }
}

/** One HTTP request as its data plane tells of it. */
export class HttpRequest {
  readonly #stream: grpc.ClientDuplexStream<ProcessingRequest, ProcessingResponse>;
  readonly #received: ProcessingResponse[] = [];
  #waiting: ((message: ProcessingResponse | null) => void) | null = null;
  #isOver = false;

  constructor(stream: grpc.ClientDuplexStream<ProcessingRequest, ProcessingResponse>) {
    this.#stream = stream;
    stream.on('data', (message: ProcessingResponse) => {
      if (this.#waiting === null) this.#received.push(message);
      else this.#take(message);
    });
    const over = (): void => {
      this.#isOver = true;
      this.#take(null);
    };
    // Of a stream that is cancelled before it has begun, there is only an error.
    for (const event of ['end', 'error', 'close']) stream.on(event, over);
  }

  #take(message: ProcessingResponse | null): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.(message);
  }

  send(message: ProcessingRequest): void {
    this.#stream.write(message);
  }

  /** The next message; null when the picker has ended the stream. */
  next(): Promise<ProcessingResponse | null> {
    const first = this.#received.shift();
    if (first !== undefined || this.#isOver) return Promise.resolve(first ?? null);
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  end(): void {
    this.#stream.end();
  }

  cancel(): void {
    this.#stream.cancel();
  }
}

/** How bodies are sent. */
export const MODES = {
  duplex: { request_body_mode: 4, response_body_mode: 4 },
  buffered: { request_body_mode: 2, response_body_mode: 0 },
  none: { request_body_mode: 0, response_body_mode: 0 },
} as const;

/** The head of a request. */
export function requestHeaders(
  headers: Readonly<Record<string, string>>,
  more: Omit<ProcessingRequest, 'request_headers'> & { readonly isEnd?: boolean } = {},
): ProcessingRequest {
  const { isEnd = false, ...rest } = more;
  return { request_headers: { headers: headerMap(headers), end_of_stream: isEnd }, ...rest };
}

export function responseHeaders(
  status: number,
  isEnd = false,
  more: Readonly<Record<string, string>> = {},
): ProcessingRequest {
  return { response_headers: { headers: headerMap({ ':status': String(status), ...more }), end_of_stream: isEnd } };
}

function headerMap(headers: Readonly<Record<string, string>>): { headers: { key: string; raw_value: Buffer }[] } {
  return { headers: Object.entries(headers).map(([key, value]) => ({ key, raw_value: Buffer.from(value) })) };
}

/** Where a message sends the request, by its header; undefined when it does not say. */
export function destinationOf(message: ProcessingResponse | null): string | undefined {
  const mutation = (message?.request_headers ?? message?.request_body)?.response?.header_mutation;
  const set = mutation?.set_headers?.find(({ header }) => header.key === 'x-gateway-destination-endpoint');
  return set?.header.raw_value.toString();
}

/** The same by its metadata. */
export function destinationInMetadata(message: ProcessingResponse | null): string | undefined {
  const struct = message?.dynamic_metadata?.fields?.['envoy.lb']?.struct_value;
  return struct?.fields?.['x-gateway-destination-endpoint']?.string_value;
}
