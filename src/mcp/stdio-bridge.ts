// The Model Context Protocol over standard input and output: every message that comes in is a request to an endpoint of Streamable HTTP,
// in this process or elsewhere, and what comes back is written out. One message is one line of JSON.

import { parseJson } from '../config/json-text.ts';

/** Sends one message. Rejects when there is no endpoint to answer. */
export type SendMessage = (
  message: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
) => Promise<Response>;

export interface StdioBridgeOptions {
  readonly stdin: NodeJS.ReadableStream;
  readonly stdout: NodeJS.WritableStream;
  readonly send: SendMessage;
  /** Takes what goes wrong, in a sentence; for standard error. */
  readonly complain: (sentence: string) => void;
}

type Json = Readonly<Record<string, unknown>>;

/** A message that is passed on. */
interface Call {
  readonly message: Json;
  /** The message as it came: numbers keep their digits. */
  readonly text: string;
  /** Null for a notification. */
  readonly id: string | number | null;
  readonly abort: AbortController;
}

/** Longest line, as of the body of a request. */
const MOST_BYTES = 1024 * 1024;

/** Messages under way. */
const MOST_RUNNING = 32;

/** Characters of messages that have been read and wait: further ones stay in the pipe, and with them cancellations. */
const MOST_WAITING = 1024 * 1024;

const LINE_TOO_LONG = `a line has at most ${MOST_BYTES} bytes`;
const NO_JSON = 'Parse error: each line is one message of JSON';

/** JSON-RPC 2.0, section 5.1, and the first of its codes that are left to servers. */
const PARSE_ERROR = -32_700;
const SERVER_ERROR = -32_000;

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';

const NEW_LINE = 0x0a;

/** Runs until the input ends and every request has been answered, or until `signal`, a broken input or a broken output ends it at once. */
export class StdioBridge {
  readonly #options: StdioBridgeOptions;
  /** In the order in which they came. */
  readonly #waiting = new Set<Call>();
  #waitingLength = 0;
  readonly #running = new Set<Call>();
  /** Resolves when the output takes more; null while it does. */
  #drained: PromiseWithResolvers<void> | null = null;
  #hasEnded = false;
  readonly #over = Promise.withResolvers<void>();
  /** What the handshake of the revisions until 2025-11-25 has agreed on. */
  #version: string | null = null;
  #session: string | null = null;

  constructor(options: StdioBridgeOptions) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { stdin, stdout } = this.#options;
    const refuse = (): void => this.#write(errorOf(null, PARSE_ERROR, LINE_TOO_LONG));
    const input = new Lines((line) => this.#take(line), MOST_BYTES, refuse);
    const onData = (piece: string | Buffer): void => {
      input.add(typeof piece === 'string' ? Buffer.from(piece) : piece);
      this.#advance();
    };
    const onEnd = (): void => {
      input.end();
      this.#hasEnded = true;
      this.#advance();
    };
    const onDrain = (): void => {
      this.#drained?.resolve();
      this.#drained = null;
      this.#advance();
    };
    const leave = (): void => {
      stdin.off('data', onData);
      this.#waiting.clear();
      for (const { abort } of this.#running) abort.abort();
      this.#hasEnded = true;
      onDrain();
    };
    stdin.on('data', onData).once('end', onEnd).on('error', leave);
    // A client that reads no more has gone.
    stdout.on('drain', onDrain).on('error', leave);
    signal.addEventListener('abort', leave, { once: true });
    await this.#over.promise;
    stdin.pause();
    stdin.off('data', onData).off('end', onEnd).off('error', leave);
    stdout.off('drain', onDrain).off('error', leave);
  }

  /** Begins what may begin, and reads on where there is room. */
  #advance(): void {
    for (const call of this.#waiting) {
      if (this.#running.size >= MOST_RUNNING) break;
      this.#waiting.delete(call);
      this.#waitingLength -= call.text.length;
      this.#running.add(call);
      void this.#send(call).finally(() => {
        this.#running.delete(call);
        this.#advance();
      });
    }
    if (this.#hasEnded) {
      if (this.#running.size === 0 && this.#waiting.size === 0) this.#over.resolve();
    } else if (this.#drained === null && this.#waitingLength < MOST_WAITING) {
      this.#options.stdin.resume();
    } else {
      this.#options.stdin.pause();
    }
  }

  #take(line: string | null): void {
    if (line?.trim() === '') return;
    let message: unknown;
    let texts: string[];
    try {
      if (line === null) throw new Error('not UTF-8');
      message = parseJson(line);
      // Batches are of revision 2025-03-26 alone; their responses may come one by one. An empty one is refused as a message.
      const isBatch = Array.isArray(message) && message.length > 0;
      texts = isBatch ? (message as unknown[]).map((each) => JSON.stringify(each)) : [line];
      if (!isBatch) message = [message];
    } catch {
      this.#write(errorOf(null, PARSE_ERROR, NO_JSON));
      return;
    }
    for (const [at, each] of (message as unknown[]).entries()) this.#enqueue((each ?? {}) as Json, texts[at] as string);
  }

  #enqueue(message: Json, text: string): void {
    const { error, id, method, params, result } = message as Json & { readonly params?: Json };
    if (method === 'notifications/cancelled') {
      this.#cancel(params?.['requestId']);
      return;
    }
    // Nothing is asked of clients, so that no answer of theirs is awaited.
    if (method === undefined && (result !== undefined || error !== undefined)) return;
    const isRequest = typeof id === 'string' || typeof id === 'number';
    this.#waiting.add({ message, text, id: isRequest ? id : null, abort: new AbortController() });
    this.#waitingLength += text.length;
  }

  #cancel(id: unknown): void {
    if (typeof id !== 'string' && typeof id !== 'number') return;
    for (const call of this.#waiting) {
      if (call.id !== id) continue;
      this.#waiting.delete(call);
      this.#waitingLength -= call.text.length;
    }
    for (const call of this.#running) if (call.id === id) call.abort.abort();
  }

  async #send({ abort: { signal }, id, message, text: sent }: Call): Promise<void> {
    const { complain, send } = this.#options;
    try {
      const response = await send(sent, this.#headersOf(message), signal);
      const isStream = isEventStream(response);
      const text = isStream ? '' : await response.text();
      let answered = false;
      for await (const answer of isStream ? eventsOf(response) : messagesOf(text)) {
        if (signal.aborted) return;
        answered ||= 'id' in answer;
        if (message['method'] === 'initialize') this.#agreed(answer, response);
        // The endpoint cannot know the id of a message that it refuses as a whole.
        this.#write(answer['id'] === null && id !== null ? { ...answer, id } : answer);
        await this.#drained?.promise;
      }
      if (answered || id === null || signal.aborted) return;
      this.#write(errorOf(id, SERVER_ERROR, refusalOf(response, text)));
    } catch (error) {
      if (signal.aborted) return;
      const sentence = `the gateway does not answer: ${reasonOf(error)}`;
      complain(sentence);
      if (id !== null) this.#write(errorOf(id, SERVER_ERROR, sentence));
    }
  }

  /** Since revision 2026-07-28 they repeat what the message says. */
  #headersOf({ method, params }: Json): Record<string, string> {
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    };
    const { _meta, name, uri } = (params ?? {}) as { _meta?: Json; name?: unknown; uri?: unknown };
    const version = _meta?.[VERSION_KEY] ?? this.#version;
    if (typeof version === 'string') headers['mcp-protocol-version'] = headerText(version);
    if (typeof _meta?.[VERSION_KEY] === 'string') {
      headers['mcp-method'] = headerText(String(method));
      const subject = name ?? uri;
      if (typeof subject === 'string') headers['mcp-name'] = headerText(subject);
    } else if (this.#session !== null) {
      headers['mcp-session-id'] = this.#session;
    }
    return headers;
  }

  #agreed({ result }: Json, { headers }: Response): void {
    const version = (result as { protocolVersion?: unknown } | undefined)?.protocolVersion;
    if (typeof version !== 'string') return;
    this.#version = version;
    this.#session = headers.get('mcp-session-id');
  }

  #write(message: Json): void {
    if (!this.#options.stdout.write(`${JSON.stringify(message)}\n`)) this.#drained ??= Promise.withResolvers();
  }
}

/** Makes lines of the pieces of a text, in time that their length takes. */
class Lines {
  /** Takes a line without its end; null where it is not UTF-8. */
  readonly #onLine: (line: string | null) => void;
  readonly #mostBytes: number;
  readonly #onTooLong: () => void;
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(onLine: (line: string | null) => void, mostBytes = Infinity, onTooLong = (): void => undefined) {
    this.#onLine = onLine;
    this.#mostBytes = mostBytes;
    this.#onTooLong = onTooLong;
  }

  add(piece: Uint8Array): void {
    let from = 0;
    for (let to = piece.indexOf(NEW_LINE); to >= 0; to = piece.indexOf(NEW_LINE, from)) {
      this.#append(piece.subarray(from, to));
      this.end();
      from = to + 1;
    }
    this.#append(piece.subarray(from));
  }

  /** The line is whole. */
  end(): void {
    if (this.#length <= this.#mostBytes) this.#onLine(textOf(Buffer.concat(this.#pieces)));
    this.#pieces = [];
    this.#length = 0;
  }

  /** Of a line that is too long, which is said once, nothing is kept. */
  #append(piece: Uint8Array): void {
    const wasTooLong = this.#length > this.#mostBytes;
    this.#length += piece.length;
    if (this.#length <= this.#mostBytes) this.#pieces.push(piece);
    else if (!wasTooLong) {
      this.#pieces = [];
      this.#onTooLong();
    }
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Without a byte order mark; null where the bytes are not UTF-8. */
function textOf(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

function isEventStream({ body, headers }: Response): boolean {
  return body !== null && (headers.get('content-type') ?? '').startsWith('text/event-stream');
}

/** The messages of a response in JSON; none where it is anything else. */
function messagesOf(text: string): Json[] {
  try {
    const message = parseJson(text) as Json | Json[];
    return [message].flat().filter((each) => each['jsonrpc'] === '2.0');
  } catch {
    return [];
  }
}

/** The messages of the events of a response as they come (WHATWG HTML, "Server-sent events"). */
async function* eventsOf({ body }: Response): AsyncGenerator<Json> {
  const lines: (string | null)[] = [];
  const input = new Lines((line) => lines.push(line));
  let data: string[] = [];
  for await (const piece of body as unknown as AsyncIterable<Uint8Array>) {
    input.add(piece);
    for (const line of lines.splice(0)) {
      if (line === null) throw new Error('an answer that is not UTF-8');
      const [, text] = /^data: ?(.*?)\r?$/s.exec(line) ?? [];
      if (text !== undefined) data.push(text);
      if (line.trim() !== '' || data.length === 0) continue;
      const message = data.join('\n');
      data = [];
      if (message !== '') yield parseJson(message) as Json;
    }
  }
}

/** Why a gateway has refused a message as a whole: its sentence, where it is one of ours. */
function refusalOf({ headers, status }: Response, text: string): string {
  let detail = '';
  try {
    const said = (parseJson(text) as { detail?: unknown }).detail;
    if (typeof said === 'string') detail = said;
  } catch {
    // Another server than a gateway may answer with anything.
  }
  const code = headers.get('x-headrace-error');
  return `the gateway answers ${status}${code === null ? '' : ` ${code}`}${detail === '' ? '' : `: ${detail}`}`;
}

function errorOf(id: string | number | null, code: number, message: string): Json {
  return { jsonrpc: '2.0', id, error: { code, message } };
}

/** As the revision 2026-07-28 writes text into headers that they could not carry. */
function headerText(text: string): string {
  return /^[\x21-\x7e]+$/.test(text) ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}

function reasonOf(error: unknown): string {
  const { cause, message } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}
