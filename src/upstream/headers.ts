// Headers of requests and answers across the gateway. Hop-by-hop fields are removed in both directions (RFC 9110 §7.6.1), and
// so are those that the gateway writes itself. Lists are flat: name, value, name, value; names in lower case.

import { createHmac, randomBytes } from 'node:crypto';
import { HeadraceError } from '../errors.ts';
import { chosenHeaders } from '../net/flat-headers.ts';
import { listed } from '../net/http1-fields.ts';
import { AFFINITY_COOKIE } from '../routing/index.ts';
import type { Peers } from './peers.ts';

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

/** What is true of the body as it was sent (RFC 9110 §8.4, RFC 9530 §2 and §3): CRNs get bodies decoded, and some edited. */
const OF_SENT_BODY = ['content-encoding', 'content-digest', 'content-md5', 'digest', 'repr-digest'];

/** Framing, and what is set anew for every request. */
const REQUEST_FRAMING = [...HOP_BY_HOP, 'host', 'content-length', 'expect', 'x-request-id', 'request-id'];

/** What is meant for the gateway alone: cookies, credentials and payments. The credential that was checked is added again. */
const FOR_GATEWAY = [
  'api-key',
  'authorization',
  'cookie',
  'payment-required',
  'payment-response',
  'payment-signature',
  'x-api-key',
  'x-headrace-account',
  'x-payment',
  'x-payment-response',
];

/** What proxies say about the client or about the request it sent, beside `x-forwarded-*`. */
const FROM_PROXIES = [
  'cf-connecting-ip',
  'fastly-client-ip',
  'true-client-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-original-forwarded-for',
  'x-original-host',
  'x-original-uri',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
];

/**
 * What happens to a header of a request. `proxy`, `proxy-host` and `proxy-proto` pass when they come from a trusted proxy, in place of the
 * gateway's own; `for`, `forwarded` and `via` are continued then.
 */
type RequestRule =
  | 'pass'
  | 'dialect'
  | 'drop'
  | 'connection'
  | 'host'
  | 'encoding'
  | 'proxy'
  | 'proxy-host'
  | 'proxy-proto'
  | 'for'
  | 'forwarded'
  | 'via';

/** The rules of all names but those that pass, and those that begin with `x-forwarded-`. */
export const REQUEST_RULES: ReadonlyMap<string, RequestRule> = new Map<string, RequestRule>([
  ...[...REQUEST_FRAMING, ...OF_SENT_BODY, ...FOR_GATEWAY].map((name) => [name, 'drop'] as const),
  ...FROM_PROXIES.map((name) => [name, 'proxy'] as const),
  ['connection', 'connection'],
  ['host', 'host'],
  ['x-forwarded-host', 'proxy-host'],
  ['x-forwarded-proto', 'proxy-proto'],
  ['x-forwarded-for', 'for'],
  ['forwarded', 'forwarded'],
  ['via', 'via'],
  ['accept-encoding', 'encoding'],
]);

/** Names that mean something in the dialect of the client only. */
export const OF_DIALECT: ReadonlySet<string> = new Set(['anthropic-version', 'anthropic-beta', 'openai-beta']);

/** A name with its rule, and the beginning of its line: behind the end of the line before. */
interface Field {
  readonly rule: RequestRule;
  readonly start: string;
}

/** Names that have been seen. Clients can invent names, so no more are kept than this. */
const FIELDS = new Map<string, Field>();
const MAX_FIELDS = 1024;

function fieldOf(name: string): Field {
  const other = name.startsWith('x-forwarded-') ? 'proxy' : OF_DIALECT.has(name) ? 'dialect' : 'pass';
  const field: Field = { rule: REQUEST_RULES.get(name) ?? other, start: `\r\n${name}: ` };
  if (FIELDS.size < MAX_FIELDS) FIELDS.set(name, field);
  return field;
}

/** What is the same for the headers of all requests. */
export interface RequestHeaderRules {
  readonly peers: Peers;
  /** Scheme by which clients reach the gateway. */
  readonly scheme: string;
  /** Name of this gateway in `Via`, from `viaName`. */
  readonly via: string;
}

/** What the headers of one request are made from. */
export interface RequestHeaderInput {
  /** Headers of the client: valid by RFC 9110 §5. */
  readonly headers: readonly string[];
  readonly remoteAddress: string;
  readonly requestId: string;
  /** Header lines with the credential that was checked, from `credentialLines`. */
  readonly credential: string;
  /** The answer will be parsed (cut at event boundaries, metered), so it must not be compressed. */
  readonly readable: boolean;
  /** Account of the client where a CRN must tell accounts apart; absent or empty: it need not. */
  readonly account?: string;
  /** Of `headers` and `remoteAddress`, where requests before may have had the same ones. */
  readonly kept?: KeptLines | undefined;
}

type ClientLines = Pick<RequestLines, 'common' | 'dialect'>;

/** The lines that were made last of the same headers of a client at the same address. */
export class KeptLines {
  /** @internal */
  rules: RequestHeaderRules | null = null;
  /** @internal */
  readable = false;
  /** @internal */
  lines: ClientLines | undefined;

  /** @internal */
  keep(rules: RequestHeaderRules, readable: boolean, { common, dialect }: ClientLines): void {
    this.rules = rules;
    this.readable = readable;
    // Text that was joined would be copied from its parts by each head that it is written to.
    this.lines = { common: Buffer.from(common, 'latin1').toString('latin1'), dialect };
  }
}

/** Headers of a request as lines of its head. */
export interface RequestLines {
  /** All but those that follow. */
  readonly common: string;
  /** Those that mean something in the dialect of the client only; empty: none. */
  readonly dialect: string;
  /** The client's credential; empty without one. */
  readonly credential: string;
  /** See `RequestHeaderInput`; empty: none. */
  readonly account: string;
}

/** A random name by which a gateway finds itself in `Via`. */
export function viaName(): string {
  return `headrace-${randomBytes(8).toString('hex')}`;
}

/** Entries of gateways in `Via`. Those of other proxies are nobody's business; these end loops over several gateways. */
const GATEWAY_ENTRY = /1\.[01] headrace-[\da-f]{16}(?![^,\s])/g;

/**
 * The headers of a request for a CRN. Throws 508 when the request has passed this gateway before (RFC 5842 §7.2): a gateway
 * that is among its own CRNs would send it round for ever.
 */
export function requestLines(rules: RequestHeaderRules, input: RequestHeaderInput): RequestLines {
  const { account = '', credential, kept, readable, requestId } = input;
  let lines = kept?.lines;
  if (lines === undefined || kept?.rules !== rules || kept.readable !== readable) {
    lines = clientLines(rules, input, input.headers);
    kept?.keep(rules, readable, lines);
  }
  return { common: `x-request-id: ${requestId}${lines.common}`, dialect: lines.dialect, credential, account };
}

/** All lines but the first and the credential. Common ones begin with the end of the line before. */
function clientLines(rules: RequestHeaderRules, input: RequestHeaderInput, headers: readonly string[]): ClientLines {
  const { readable } = input;
  const { address, isTrusted } = rules.peers.of(input.remoteAddress);
  let common = '';
  let dialect = '';
  let host = '';
  let via = '';
  let forwardedFor = '';
  let forwarded = '';
  let hasHost = false;
  let hasProto = false;
  let hasEncoding = false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const value = headers[i + 1] as string;
    const { rule, start } = FIELDS.get(name) ?? fieldOf(name);
    switch (rule) {
      case 'pass':
        common += start;
        common += value;
        break;
      case 'dialect':
        dialect += `${name}: ${value}\r\n`;
        break;
      case 'drop':
        break;
      case 'connection':
        if (!PLAIN_CONNECTION.test(value)) return clientLines(rules, input, withoutNamed(headers));
        break;
      case 'host':
        host = value;
        break;
      case 'encoding':
        if (readable) break;
        hasEncoding = true;
        common += start + value;
        break;
      case 'for':
        if (isTrusted) forwardedFor += `${value}, `;
        break;
      case 'forwarded':
        if (isTrusted) forwarded += `${value}, `;
        break;
      case 'via':
        if (value.includes(rules.via)) throw new HeadraceError('HR_ROUTE_LOOP');
        for (const entry of isTrusted ? [value] : (value.match(GATEWAY_ENTRY) ?? [])) via += `${entry}, `;
        break;
      default:
        if (!isTrusted) break;
        hasHost ||= rule === 'proxy-host';
        hasProto ||= rule === 'proxy-proto';
        common += start + value;
    }
  }
  if (!hasEncoding) common += '\r\naccept-encoding: identity';
  if (address !== '') common += `\r\nx-forwarded-for: ${forwardedFor}${address}`;
  if (!hasHost && host !== '') common += `\r\nx-forwarded-host: ${host}`;
  if (!hasProto) common += `\r\nx-forwarded-proto: ${rules.scheme}`;
  if (forwarded !== '') common += `\r\nforwarded: ${forwarded}for=${forwardedNode(address)}`;
  common += `\r\nvia: ${via}1.1 ${rules.via}\r\n`;
  return { common, dialect };
}

/** The headers without those that Connection names; loops are found all the same. */
function withoutNamed(headers: readonly string[]): string[] {
  const named = connectionNames(headers);
  return chosenHeaders(headers, (name) => name !== 'connection' && (name === 'via' || named?.includes(name) !== true));
}

/** RFC 7239 §6: addresses of IPv6 are in brackets and in quotes. */
function forwardedNode(address: string): string {
  return address.includes(':') ? `"[${address}]"` : address;
}

/** What a client presented as its credential. */
export interface PresentedCredential {
  readonly authorization: string | undefined;
  readonly apiKey: string | undefined;
  /** The client's key, when it came in `x-api-key` alone: CRNs read it as a bearer token. */
  readonly bearer: string | undefined;
}

/** The header lines of the one credential that was checked. Others of the same request are not passed on. */
export function credentialLines({ authorization = '', apiKey, bearer }: PresentedCredential): string {
  if (bearer !== undefined) return `x-api-key: ${apiKey}\r\nauthorization: Bearer ${bearer}\r\n`;
  return authorization === '' ? '' : `authorization: ${authorization}\r\n`;
}

/** All lines of a request for one CRN: with the gateway's own credential in place of the client's where it has one. */
export function linesFor({ common, dialect, credential, account }: RequestLines, apiKey: string | undefined): string {
  if (apiKey === undefined) return common + dialect + credential;
  const mark = account === '' ? '' : `x-headrace-account: ${accountMark(account, apiKey)}\r\n`;
  return `${common}${dialect}authorization: Bearer ${apiKey}\r\n${mark}`;
}

/**
 * Tells a CRN the accounts behind the gateway's own credential apart, without their names. Alike on all gateways with this
 * credential, and not to be guessed without it.
 */
function accountMark(account: string, apiKey: string): string {
  return createHmac('sha256', apiKey).update(account).digest('base64url').slice(0, 22);
}

/** The headers of a request without framing and what is for one connection only. */
export function endToEndHeaders(headers: readonly string[]): string[] {
  const named = connectionNames(headers);
  return chosenHeaders(headers, (name) => !FRAMING.has(name) && named?.includes(name) !== true);
}

const FRAMING: ReadonlySet<string> = new Set(REQUEST_FRAMING);

/** What is left of rate limits: the CRN's tell of the gateway's own credential, and the client gets those of its key. */
const RATE_LIMITS = ['requests', 'tokens'].flatMap((kind) =>
  ['limit', 'remaining', 'reset'].flatMap((part) => [
    `x-ratelimit-${part}-${kind}`,
    `anthropic-ratelimit-${kind}-${part}`,
  ]),
);

/** What is between the client and one gateway: a CRN may be a gateway too, with prices, limits and a store of its own. */
const OF_GATEWAY = [
  'payment-required',
  'payment-response',
  'x-headrace-affinity',
  'x-headrace-cost',
  'x-headrace-output-limit',
  'x-headrace-stored',
  'x-headrace-translated',
  'x-payment-response',
];

/** Framing, headers that the gateway writes itself, the CRN's CORS policy, and what tells of the CRN or leads to it. */
const RESPONSE_DROPPED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  ...RATE_LIMITS,
  ...OF_GATEWAY,
  'alt-svc',
  'content-length',
  'date',
  'x-request-id',
  'request-id',
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
  'server',
  'via',
]);

/** The affinity cookie is the gateway's own: a CRN must not choose for its clients. */
const OWN_COOKIE = new RegExp(`^\\s*${AFFINITY_COOKIE}\\s*=`);

/** Changing the case of a text is a call of the runtime. */
const USUAL_TYPE = 'application/json';

/** The head of an answer, read once. */
export interface ResponseHead {
  readonly status: number;
  /** End-to-end headers. */
  readonly headers: string[];
  /** -1 when the CRN does not say. */
  readonly contentLength: number;
  readonly contentType: string;
  readonly encoded: boolean;
  /** The body ends where the connection ends: nothing says whether it is whole. */
  readonly byClose: boolean;
}

/** Reads the head of a CRN's answer. Repeated fields, such as Set-Cookie, stay repeated. */
export function responseHead(status: number, fields: readonly string[]): ResponseHead {
  const headers: string[] = [];
  let contentLength = -1;
  let contentType = '';
  let encoded = false;
  let chunked = false;
  let connection: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (name === 'content-length') contentLength = Number(value);
    else if (name === 'content-type') contentType = value === USUAL_TYPE ? USUAL_TYPE : value.toLowerCase();
    else if (name === 'content-encoding') encoded = value.toLowerCase() !== 'identity';
    else if (name === 'transfer-encoding') chunked = true;
    else if (name === 'connection') connection = connection === undefined ? value : `${connection},${value}`;
    if (RESPONSE_DROPPED.has(name) || (name === 'set-cookie' && OWN_COOKIE.test(value))) continue;
    headers.push(name, value);
  }
  const kept = connection === undefined || PLAIN_CONNECTION.test(connection) ? headers : without(headers, connection);
  const byClose = contentLength < 0 && !chunked && status !== 204;
  return { status, headers: kept, contentLength, contentType, encoded, byClose };
}

const PLAIN_CONNECTION = /^(?:close|keep-alive)$/i;

/** Names that a Connection field declares to be hop-by-hop, beside the two that are not names. */
function connectionNames(headers: readonly string[]): string[] | undefined {
  let names: string[] | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] === 'connection' && !PLAIN_CONNECTION.test(headers[i + 1] as string)) {
      names = [...(names ?? []), ...listed((headers[i + 1] as string).toLowerCase())];
    }
  }
  return names;
}

function without(headers: readonly string[], connection: string): string[] {
  const names = listed(connection.toLowerCase());
  return chosenHeaders(headers, (name) => !names.includes(name));
}
