// The Model Context Protocol over standard input and output: every message that comes in is a request to an endpoint of Streamable HTTP,
// in this process or elsewhere, and what comes back is written out. One message is one line of JSON.

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

/** Longest line in characters, as of the body of a request. */
const MOST_LENGTH = 1024 * 1024;

/** Requests under way; further ones wait in the pipe. */
const MOST_REQUESTS = 32;

const LINE_TOO_LONG = `a line has at most ${MOST_LENGTH} characters`;

/** JSON-RPC 2.0, section 5.1, and the first of its codes that are left to servers. */
const PARSE_ERROR = -32_700;
const SERVER_ERROR = -32_000;

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';

/** Runs until the input ends and every request has been answered, or `signal` ends it at once. */
export class StdioBridge {
  readonly #options: StdioBridgeOptions;
  readonly #running = new Map<string | number, AbortController>();
  readonly #sent = new Set<Promise<void>>();
  /** What the handshake of the revisions until 2025-11-25 has agreed on. */
  #version: string | null = null;
  #session: string | null = null;

  constructor(options: StdioBridgeOptions) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { stdin, stdout } = this.#options;
    const leave = (): void => {
      for (const running of this.#running.values()) running.abort();
      stdin.removeListener('data', onData);
      ended.resolve();
    };
    const ended = Promise.withResolvers<void>();
    let text = '';
    let isTooLong = false;
    const onData = (piece: string | Buffer): void => {
      text += piece.toString();
      const lines = text.split('\n');
      text = lines.pop() as string;
      // The end of a line that has been answered.
      if (isTooLong && lines.shift() !== undefined) isTooLong = false;
      for (const line of lines) this.#take(line);
      if (!isTooLong && text.length <= MOST_LENGTH) return;
      text = '';
      if (!isTooLong) void this.#write(errorOf(null, PARSE_ERROR, LINE_TOO_LONG));
      isTooLong = true;
    };
    stdin.setEncoding('utf8');
    stdin.on('data', onData);
    stdin.once('end', () => {
      if (!isTooLong && text.trim() !== '') this.#take(text);
      ended.resolve();
    });
    // A client that reads no more has gone.
    stdout.once('error', leave);
    signal.addEventListener('abort', leave, { once: true });
    await ended.promise;
    await Promise.all(this.#sent);
    stdin.pause();
  }

  #take(line: string): void {
    if (line.trim() === '') return;
    let message: unknown;
    try {
      if (line.length > MOST_LENGTH) throw new Error(LINE_TOO_LONG);
      message = JSON.parse(line);
    } catch {
      void this.#write(errorOf(null, PARSE_ERROR, 'Parse error: each line is one message of JSON'));
      return;
    }
    // Batches are of revision 2025-03-26 alone; their responses may come one by one. An empty one is refused as a message.
    const messages = Array.isArray(message) && message.length > 0 ? (message as unknown[]) : [message];
    for (const each of messages) this.#begin((each ?? {}) as Json);
  }

  #begin(message: Json): void {
    const { id, method, params } = message as { id?: unknown; method?: unknown; params?: Json };
    if (method === 'notifications/cancelled') {
      this.#running.get(params?.['requestId'] as string | number)?.abort();
      return;
    }
    // Nothing is asked of clients, so that no answer of theirs is awaited.
    if (method === undefined && id !== undefined) return;
    const isRequest = typeof id === 'string' || typeof id === 'number';
    const abort = new AbortController();
    if (isRequest) this.#running.set(id, abort);
    const done = this.#send(message, isRequest ? id : null, abort.signal).finally(() => {
      this.#sent.delete(done);
      if (isRequest && this.#running.get(id) === abort) this.#running.delete(id);
      if (this.#sent.size < MOST_REQUESTS) this.#options.stdin.resume();
    });
    this.#sent.add(done);
    if (this.#sent.size >= MOST_REQUESTS) this.#options.stdin.pause();
  }

  async #send(message: Json, id: string | number | null, signal: AbortSignal): Promise<void> {
    const { complain, send } = this.#options;
    try {
      const response = await send(JSON.stringify(message), this.#headersOf(message), signal);
      let answered = false;
      for await (const answer of messagesOf(response)) {
        if (signal.aborted) return;
        answered ||= 'id' in answer;
        if (message['method'] === 'initialize') this.#agreed(answer, response);
        // The endpoint cannot know the id of a message that it refuses as a whole.
        await this.#write(answer['id'] === null && id !== null ? { ...answer, id } : answer);
      }
      if (answered || id === null || signal.aborted) return;
      await this.#write(errorOf(id, SERVER_ERROR, await refusalOf(response)));
    } catch (error) {
      if (signal.aborted) return;
      const sentence = `the gateway does not answer: ${reasonOf(error)}`;
      complain(sentence);
      if (id !== null) await this.#write(errorOf(id, SERVER_ERROR, sentence));
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

  async #write(message: Json): Promise<void> {
    const { stdout } = this.#options;
    if (stdout.write(`${JSON.stringify(message)}\n`)) return;
    await new Promise<void>((resolve) => {
      const over = (): void => {
        stdout.removeListener('drain', over);
        stdout.removeListener('error', over);
        resolve();
      };
      stdout.on('drain', over);
      stdout.on('error', over);
    });
  }
}

/** The messages of a response: of its events as they come, or its JSON. */
async function* messagesOf(response: Response): AsyncGenerator<Json> {
  const type = response.headers.get('content-type') ?? '';
  if (response.body === null) return;
  if (!type.startsWith('text/event-stream')) {
    if (!response.ok && response.status !== 400) return;
    const text = await response.text();
    if (text === '') return;
    const message = JSON.parse(text) as unknown;
    for (const each of Array.isArray(message) ? (message as Json[]) : [message as Json]) {
      if (each['jsonrpc'] === '2.0') yield each;
    }
    return;
  }
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(piece, { stream: true });
    const events = text.split('\n\n');
    text = events.pop() as string;
    for (const event of events) {
      const data = event.split('\n').flatMap((line) => (line.startsWith('data: ') ? [line.slice(6)] : []));
      if (data.length > 0 && data[0] !== '') yield JSON.parse(data.join('\n')) as Json;
    }
  }
}

/** Why a gateway has refused a message as a whole: its sentence, where it is one of ours. */
async function refusalOf(response: Response): Promise<string> {
  const { headers, status } = response;
  const text = response.bodyUsed ? '' : await response.text();
  let detail = '';
  try {
    const said = (JSON.parse(text) as { detail?: unknown }).detail;
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
