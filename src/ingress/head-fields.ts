// What the headers of a request say to the gateway. Clients send most requests of a connection with the same headers, which are read once.

import { KeptLines } from '../upstream/index.ts';

/** Request ids appear in headers and logs: only characters that are safe in both are accepted. */
const SAFE_ID = /^[\w.:/+=-]{1,128}$/;
/** Fifteen digits are below 2^53. */
const LENGTH = /^\d{1,15}$/;

/** Headers by which clients name their session, in order of preference. */
export const SESSION_HEADERS = [
  'session_id',
  'x-session-id',
  'x-claude-code-session-id',
  'x-conversation-id',
  'x-openwebui-chat-id',
];

const JSON_TYPE = /^application\/(?:[^;\s]+\+)?json\s*(?:;|$)/i;

/** What is read of the headers of a request; serves every request of a connection whose head differs in Content-Length alone. */
export class HeadFields {
  /** `x-request-id`, else `x-client-request-id`, when it is safe; else empty. */
  readonly requestId: string;
  /** The first header of each name. */
  readonly authorization: string | undefined;
  /** `x-api-key`, else `api-key`, in which Azure's clients send it. */
  readonly apiKey: string | undefined;
  readonly contentType: string | undefined;
  /** Whether the content type is JSON. */
  readonly isJson: boolean;
  /** All values, joined by commas. */
  readonly contentEncoding: string | undefined;
  readonly cookie: string | undefined;
  readonly origin: string | undefined;
  /** The preferred one of the session headers that are not empty. */
  readonly session: string | undefined;
  /** Length of the body: 0 when there is none, -1 when it is chunked. */
  readonly declaredBytes: number;
  /** What is wrong with the length (RFC 9112 §6.3); empty when nothing is. */
  readonly lengthFault: string;
  /** The lines for CRNs that were made of them. */
  readonly lines: KeptLines = new KeptLines();

  /** Of names in lower case and values, alternating. */
  constructor(headers: readonly string[]) {
    let id = '';
    let clientId = '';
    let authorization: string | undefined;
    let apiKey: string | undefined;
    let azureKey: string | undefined;
    let contentType: string | undefined;
    let encoding: string | undefined;
    let cookie: string | undefined;
    let origin: string | undefined;
    let sessionRank = SESSION_HEADERS.length;
    let session: string | undefined;
    let length = -1;
    let chunked = false;
    let fault = '';
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string;
      const value = headers[i + 1] as string;
      switch (name) {
        case 'x-request-id':
          if (id === '' && SAFE_ID.test(value)) id = value;
          break;
        case 'x-client-request-id':
          if (SAFE_ID.test(value)) clientId = value;
          break;
        case 'authorization':
          authorization ??= value;
          break;
        case 'x-api-key':
          apiKey ??= value;
          break;
        case 'content-type':
          contentType ??= value;
          break;
        case 'content-encoding':
          encoding = encoding === undefined ? value : `${encoding},${value}`;
          break;
        case 'api-key':
          azureKey ??= value;
          break;
        case 'cookie':
          cookie ??= value;
          break;
        case 'origin':
          origin ??= value;
          break;
        case 'transfer-encoding':
          chunked = true;
          break;
        case 'content-length':
          if (!LENGTH.test(value)) fault = 'bad Content-Length';
          else if (length >= 0 && length !== Number(value)) fault ||= 'conflicting Content-Length';
          else length = Number(value);
          break;
        default: {
          const rank = value === '' ? -1 : SESSION_HEADERS.indexOf(name);
          if (rank >= 0 && rank < sessionRank) {
            sessionRank = rank;
            session = value;
          }
        }
      }
    }
    this.requestId = id || clientId;
    this.authorization = authorization;
    this.apiKey = apiKey ?? azureKey;
    this.contentType = contentType;
    this.isJson = contentType !== undefined && JSON_TYPE.test(contentType);
    this.contentEncoding = encoding;
    this.cookie = cookie;
    this.origin = origin;
    this.session = session;
    this.declaredBytes = length < 0 && !chunked ? 0 : length;
    this.lengthFault = fault;
  }
}
