// Headers of requests and answers across the gateway. Hop-by-hop fields are removed in both directions (RFC 9110 §7.6.1), and
// so are those that the gateway writes itself. Lists are flat: name, value, name, value; names in lower case.

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** Framing, and what is set anew for every request. */
const REQUEST_DROPPED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'host',
  'content-length',
  'expect',
  'x-request-id',
  'request-id',
]);

/** Framing, headers that the gateway writes itself, and the CRN's CORS policy. */
const RESPONSE_DROPPED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'content-length',
  'date',
  'x-request-id',
  'request-id',
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
]);

/** What the request headers are made from. */
export interface RequestHeaderInput {
  /** Headers of the client. */
  readonly headers: readonly string[];
  readonly requestId: string;
  /** The client's key, when it came in `x-api-key`: CRNs read it as a bearer token. */
  readonly bearer: string | undefined;
  /** The answer will be parsed (cut at event boundaries, metered), so it must not be compressed. */
  readonly readable: boolean;
}

/** The headers of a request for a CRN; see `withCredential` for a CRN with a credential of its own. */
export function requestHeaders(input: RequestHeaderInput): string[] {
  const { headers, readable } = input;
  const named = connectionNames(headers);
  const out: string[] = [];
  let encoding = false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (REQUEST_DROPPED.has(name) || named?.includes(name) === true) continue;
    if (name === 'accept-encoding') {
      if (readable) continue;
      encoding = true;
    }
    out.push(name, headers[i + 1] as string);
  }
  if (!encoding) out.push('accept-encoding', 'identity');
  if (input.bearer !== undefined) out.push('authorization', `Bearer ${input.bearer}`);
  out.push('x-request-id', input.requestId);
  return out;
}

/** The same headers with the gateway's own credential in place of the client's. */
export function withCredential(headers: readonly string[], apiKey: string): string[] {
  const out: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name !== 'authorization' && name !== 'x-api-key') out.push(name, headers[i + 1] as string);
  }
  out.push('authorization', `Bearer ${apiKey}`);
  return out;
}

/** The head of an answer, read once. */
export interface ResponseHead {
  readonly status: number;
  /** End-to-end headers. */
  readonly headers: string[];
  /** -1 when the CRN does not say. */
  readonly contentLength: number;
  readonly contentType: string;
  readonly encoded: boolean;
}

/** Reads the head of a CRN's answer. Repeated fields, such as Set-Cookie, stay repeated. */
export function responseHead(status: number, fields: readonly string[]): ResponseHead {
  const headers: string[] = [];
  let contentLength = -1;
  let contentType = '';
  let encoded = false;
  let connection: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (name === 'content-length') contentLength = Number(value);
    else if (name === 'content-type') contentType = value.toLowerCase();
    else if (name === 'content-encoding') encoded = value.toLowerCase() !== 'identity';
    else if (name === 'connection') connection = connection === undefined ? value : `${connection},${value}`;
    if (!RESPONSE_DROPPED.has(name)) headers.push(name, value);
  }
  const kept = connection === undefined || PLAIN_CONNECTION.test(connection) ? headers : without(headers, connection);
  return { status, headers: kept, contentLength, contentType, encoded };
}

const PLAIN_CONNECTION = /^(?:close|keep-alive)$/i;

/** Names that a Connection field declares to be hop-by-hop, beside the two that are not names. */
function connectionNames(headers: readonly string[]): string[] | undefined {
  let names: string[] | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] === 'connection' && !PLAIN_CONNECTION.test(headers[i + 1] as string)) {
      names = [...(names ?? []), ...splitNames(headers[i + 1] as string)];
    }
  }
  return names;
}

function splitNames(value: string): string[] {
  return value.split(',').map((name) => name.trim().toLowerCase());
}

function without(headers: readonly string[], connection: string): string[] {
  const names = splitNames(connection);
  const out: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if (!names.includes(headers[i] as string)) out.push(headers[i] as string, headers[i + 1] as string);
  }
  return out;
}
