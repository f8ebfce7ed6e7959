// The HTTP parser of Node.js, llhttp in strict mode, without sockets: what it reads from the bytes of one connection.

import { METHODS } from 'node:http';

/** A message as llhttp reports it. */
export interface LlhttpMessage {
  readonly method: string;
  readonly target: string;
  readonly status: number;
  readonly minor: number;
  /** Names in lower case and values without outer blanks, alternating; one character per byte. */
  readonly fields: readonly string[];
  readonly keepAlive: boolean;
  /** The message asks for another protocol: llhttp reads nothing behind it. */
  readonly upgrade: boolean;
  body: string;
  complete: boolean;
}

export interface LlhttpResult {
  readonly messages: LlhttpMessage[];
  /** Code of the error that stopped it; empty without one. */
  readonly error: string;
}

type Callback = (...values: never[]) => number | void;

interface HTTPParser {
  [callback: number]: Callback;
  initialize(type: number, resource: object, maxHeaderSize: number, lenient: number): void;
  execute(bytes: Buffer): number | (Error & { code: string });
  finish(): undefined | (Error & { code: string });
  close(): void;
}

interface Bindings {
  readonly HTTPParser: {
    new (): HTTPParser;
    readonly REQUEST: number;
    readonly RESPONSE: number;
    readonly kOnHeaders: number;
    readonly kOnHeadersComplete: number;
    readonly kOnBody: number;
    readonly kOnMessageComplete: number;
  };
}

const { HTTPParser } = process.getBuiltinModule('node:_http_common') as unknown as Bindings;

/** The methods by their numbers, which llhttp reports. */
const methods = new Map<number, string>();

/** Longest head; beyond those of the tests. */
const HEAD_BYTES = 1_000_000;

interface LlhttpOptions {
  /** The connection closes after the bytes. */
  readonly ended?: boolean;
  /** The request of the response was HEAD. */
  readonly toHead?: boolean;
}

/** What llhttp reads from `bytes`, given in one piece. */
export function llhttpRead(
  type: 'request' | 'response',
  bytes: Buffer,
  { ended = false, toHead = false }: LlhttpOptions = {},
): LlhttpResult {
  const parser = new HTTPParser();
  const messages: LlhttpMessage[] = [];
  let early: string[] = [];
  let earlyTarget = '';
  const inBody = (): boolean => messages.length > 0 && messages.at(-1)?.complete === false;
  // Lines come here first when there are more than 32; those of trailers come after the head.
  const onHeaders = (lines: string[], target: string): void => {
    if (inBody()) return;
    early.push(...lines);
    earlyTarget += target;
  };
  const onHeadersComplete = (
    _major: number,
    minor: number,
    lines: string[] | undefined,
    method: number,
    target: string | undefined,
    status: number,
    _reason: string,
    upgrade: boolean,
    keepAlive: boolean,
  ): number => {
    const fields = [...early, ...(lines ?? [])].map((word, at) =>
      at % 2 === 0 ? word.toLowerCase() : word.replace(/^[\t ]+|[\t ]+$/g, ''),
    );
    messages.push({
      method: methods.get(method) ?? String(method ?? ''),
      target: earlyTarget + (target ?? ''),
      status: status ?? 0,
      minor,
      fields,
      keepAlive,
      upgrade,
      body: '',
      complete: false,
    });
    early = [];
    earlyTarget = '';
    return toHead ? 1 : 0;
  };
  const onBody = (piece: Buffer): void => {
    (messages.at(-1) as LlhttpMessage).body += piece.toString('latin1');
  };
  const onMessageComplete = (): void => {
    (messages.at(-1) as LlhttpMessage).complete = true;
  };
  parser[HTTPParser.kOnHeaders] = onHeaders as Callback;
  parser[HTTPParser.kOnHeadersComplete] = onHeadersComplete as Callback;
  parser[HTTPParser.kOnBody] = onBody as Callback;
  parser[HTTPParser.kOnMessageComplete] = onMessageComplete as Callback;
  parser.initialize(type === 'request' ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, HEAD_BYTES, 0);
  let result = bytes.byteLength === 0 ? 0 : parser.execute(bytes);
  if (typeof result === 'number' && ended) result = parser.finish() ?? 0;
  parser.close();
  return { messages, error: typeof result === 'number' ? '' : result.code };
}

for (const method of METHODS) {
  const number = llhttpRead('request', Buffer.from(`${method} / HTTP/1.1\r\n\r\n`)).messages[0]?.method;
  if (number !== undefined) methods.set(Number(number), method);
}

/** The methods that llhttp knows in HTTP. */
export const LLHTTP_METHODS: ReadonlySet<string> = new Set(methods.values());

const CHUNK_EXTENSION = /^([\da-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n/gim;

/**
 * `bytes` without the extensions of chunks and the blanks before them. Our parsers skip them; llhttp refuses blanks, and extensions
 * that are not of the form `;name=value`.
 */
export function withoutExtensions(bytes: Buffer): Buffer {
  return Buffer.from(bytes.toString('latin1').replace(CHUNK_EXTENSION, '$1\r\n'), 'latin1');
}
