// The parts of two gRPC services that a picker uses: Envoy's `envoy.service.ext_proc.v3.ExternalProcessor`, with the messages that it
// refers to, and `grpc.health.v1.Health`. Fields that are not listed are skipped when a message is read.

import type { ServiceDefinition } from '@grpc/grpc-js';

/** A value of `google.protobuf.Struct`. */
export interface Value {
  readonly string_value?: string;
  readonly list_value?: { readonly values?: readonly Value[] };
  readonly struct_value?: Struct;
}

export interface Struct {
  readonly fields?: Readonly<Record<string, Value>>;
}

export interface HeaderMap {
  readonly headers?: readonly { readonly key?: string; readonly value?: string; readonly raw_value?: Buffer }[];
}

/** `NONE` 0, `STREAMED` 1, `BUFFERED` 2, `BUFFERED_PARTIAL` 3, `FULL_DUPLEX_STREAMED` 4. */
export const BODY_MODE = { none: 0, buffered: 2, duplex: 4 } as const;

/** A message from the data plane. Exactly one of the six parts is there. */
export interface ProcessingRequest {
  readonly request_headers?: { readonly headers?: HeaderMap; readonly end_of_stream?: boolean };
  readonly response_headers?: { readonly headers?: HeaderMap; readonly end_of_stream?: boolean };
  readonly request_body?: { readonly body?: Buffer; readonly end_of_stream?: boolean };
  readonly response_body?: { readonly body?: Buffer; readonly end_of_stream?: boolean };
  readonly request_trailers?: object;
  readonly response_trailers?: object;
  readonly metadata_context?: { readonly filter_metadata?: Readonly<Record<string, Struct>> };
  readonly observability_mode?: boolean;
  /** In the first message only, and not from every data plane. */
  readonly protocol_config?: { readonly request_body_mode?: number; readonly response_body_mode?: number };
}

export interface HeaderMutation {
  readonly set_headers?: readonly {
    readonly header: { readonly key: string; readonly raw_value: Buffer };
    readonly append_action: number;
  }[];
  /** Names. */
  readonly remove_headers?: readonly string[];
}

export interface CommonResponse {
  readonly header_mutation?: HeaderMutation;
  readonly body_mutation?: { readonly streamed_response: { readonly body: Buffer; readonly end_of_stream: boolean } };
  readonly clear_route_cache?: boolean;
}

interface PartResponse {
  readonly response?: CommonResponse;
}

/** A message to the data plane. Exactly one of the seven parts is there. */
export interface ProcessingResponse {
  readonly request_headers?: PartResponse;
  readonly response_headers?: PartResponse;
  readonly request_body?: PartResponse;
  readonly response_body?: PartResponse;
  readonly request_trailers?: object;
  readonly response_trailers?: object;
  readonly immediate_response?: {
    readonly status: { readonly code: number };
    readonly headers: HeaderMutation;
    readonly body: Buffer;
    readonly details: string;
  };
  readonly dynamic_metadata?: Struct;
}

/** `grpc.health.v1.HealthCheckResponse.ServingStatus`. */
export const SERVING_STATUS = { serving: 1, notServing: 2 } as const;

/** `OVERWRITE_IF_EXISTS_OR_ADD` of `HeaderValueOption.HeaderAppendAction`. */
const OVERWRITE = 2;

/** Sets headers, given as a flat list. */
export function setHeaders(...flat: readonly string[]): HeaderMutation {
  const set_headers = [];
  for (let at = 0; at < flat.length; at += 2) {
    const header = { key: flat[at] as string, raw_value: Buffer.from(flat[at + 1] as string) };
    set_headers.push({ header, append_action: OVERWRITE });
  }
  return { set_headers };
}

/** The value of a header; undefined without it. */
export function headerIn(map: HeaderMap | undefined, name: string): string | undefined {
  const found = map?.headers?.find(({ key }) => key === name);
  // Envoy sends raw bytes; others send text.
  return found === undefined ? undefined : found.raw_value?.length ? found.raw_value.toString('latin1') : found.value;
}

type Fields = Readonly<Record<string, readonly [type: string, id: number]>>;

/** A message, of which `oneof` names a group of fields. */
const message = (fields: Fields, oneof: readonly [name: string, fields: Fields] | null = null): object => ({
  ...(oneof !== null && { oneofs: { [oneof[0]]: { oneof: Object.keys(oneof[1]) } } }),
  fields: Object.fromEntries(
    Object.entries({ ...oneof?.[1], ...fields }).map(([name, [type, id]]) => {
      if (type.startsWith('repeated ')) return [name, { rule: 'repeated', type: type.slice('repeated '.length), id }];
      if (type.startsWith('map ')) return [name, { keyType: 'string', type: type.slice('map '.length), id }];
      return [name, { type, id }];
    }),
  ),
});

const PART = message({ response: ['CommonResponse', 1] });
const HEADERS = message({ headers: ['envoy.config.core.v3.HeaderMap', 1], end_of_stream: ['bool', 3] });
const BODY = message({ body: ['bytes', 1], end_of_stream: ['bool', 2] });

const EXTERNAL_PROCESSING = {
  ProtocolConfiguration: message({ request_body_mode: ['int32', 1], response_body_mode: ['int32', 2] }),
  HttpHeaders: HEADERS,
  HttpBody: BODY,
  HttpTrailers: message({}),
  ProcessingRequest: message(
    {
      metadata_context: ['envoy.config.core.v3.Metadata', 8],
      observability_mode: ['bool', 10],
      protocol_config: ['ProtocolConfiguration', 11],
    },
    [
      'request',
      {
        request_headers: ['HttpHeaders', 2],
        response_headers: ['HttpHeaders', 3],
        request_body: ['HttpBody', 4],
        response_body: ['HttpBody', 5],
        request_trailers: ['HttpTrailers', 6],
        response_trailers: ['HttpTrailers', 7],
      },
    ],
  ),
  HeaderMutation: message({
    set_headers: ['repeated envoy.config.core.v3.HeaderValueOption', 1],
    remove_headers: ['repeated string', 2],
  }),
  StreamedBodyResponse: BODY,
  BodyMutation: message({ streamed_response: ['StreamedBodyResponse', 3] }),
  CommonResponse: message({
    header_mutation: ['HeaderMutation', 2],
    body_mutation: ['BodyMutation', 3],
    clear_route_cache: ['bool', 5],
  }),
  PartResponse: PART,
  TrailersResponse: message({}),
  HttpStatus: message({ code: ['int32', 1] }),
  ImmediateResponse: message({
    status: ['HttpStatus', 1],
    headers: ['HeaderMutation', 2],
    body: ['bytes', 3],
    details: ['string', 5],
  }),
  ProcessingResponse: message({ dynamic_metadata: ['google.protobuf.Struct', 8] }, [
    'response',
    {
      request_headers: ['PartResponse', 1],
      response_headers: ['PartResponse', 2],
      request_body: ['PartResponse', 3],
      response_body: ['PartResponse', 4],
      request_trailers: ['TrailersResponse', 5],
      response_trailers: ['TrailersResponse', 6],
      immediate_response: ['ImmediateResponse', 7],
    },
  ]),
  ExternalProcessor: {
    methods: {
      Process: {
        requestType: 'ProcessingRequest',
        requestStream: true,
        responseType: 'ProcessingResponse',
        responseStream: true,
      },
    },
  },
};

const CORE = {
  HeaderValue: message({ key: ['string', 1], value: ['string', 2], raw_value: ['bytes', 3] }),
  HeaderMap: message({ headers: ['repeated HeaderValue', 1] }),
  HeaderValueOption: message({ header: ['HeaderValue', 1], append_action: ['int32', 3] }),
  Metadata: message({ filter_metadata: ['map google.protobuf.Struct', 1] }),
};

const STRUCT = {
  Struct: message({ fields: ['map Value', 1] }),
  ListValue: message({ values: ['repeated Value', 1] }),
  Value: message({}, [
    'kind',
    { string_value: ['string', 3], struct_value: ['Struct', 5], list_value: ['ListValue', 6] },
  ]),
};

const HEALTH = {
  HealthCheckRequest: message({ service: ['string', 1] }),
  HealthCheckResponse: message({ status: ['int32', 1] }),
  Health: { methods: { Check: { requestType: 'HealthCheckRequest', responseType: 'HealthCheckResponse' } } },
};

const inPackage = (path: string, nested: object): object =>
  path.split('.').reduceRight<object>((inner, name) => ({ nested: { [name]: inner } }), { nested });

/** Full names of the services. */
export const EXTERNAL_PROCESSOR = 'envoy.service.ext_proc.v3.ExternalProcessor';
export const HEALTH_SERVICE = 'grpc.health.v1.Health';

/** The two services, for servers and clients. `fromJSON` of `@grpc/proto-loader`. */
export function servicesOf(
  fromJSON: typeof import('@grpc/proto-loader').fromJSON,
): Readonly<Record<string, ServiceDefinition>> {
  const files = [
    inPackage('envoy.service.ext_proc.v3', EXTERNAL_PROCESSING),
    inPackage('envoy.config.core.v3', CORE),
    inPackage('google.protobuf', STRUCT),
    inPackage('grpc.health.v1', HEALTH),
  ];
  const options = { keepCase: true, oneofs: false, defaults: false };
  return fromJSON(files.reduce(merged), options) as Readonly<Record<string, ServiceDefinition>>;
}

function merged(one: object, other: object): object {
  const sum: Record<string, unknown> = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const known = sum[name];
    sum[name] = typeof known === 'object' && known !== null ? merged(known, value as object) : value;
  }
  return sum;
}
