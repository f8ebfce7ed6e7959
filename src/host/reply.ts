// The HTTP answer to one request: whole bodies, event streams, backpressure, and faults within an answer. Events are buffered
// until `flush`, which writes them as one chunk. Frames are built with LF, so that a fault can rewrite or cut them anywhere.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { TimerHandle } from '../actor/index.ts';
import { WriteProgress } from '../ingress/accepted-socket.ts';
import type { TimerSet } from '../net/timer-set.ts';
import type { Fault } from './faults.ts';
import type { Frames, Json } from './formats/format.ts';
import type { JournalEntry } from './journal.ts';
/** Gathered events are written once they exceed this many characters, so that fast streams stay within memory. */
const GATHER_CHARACTERS = 16_384;

/** The fault of all answers without one, compared by identity once per token. */
export const NO_FAULT: Fault = {};

/** What breaks a connection: reset (RST), end (FIN) or nothing at all (the socket stays, silent). */
type Break = 'reset' | 'end' | 'stall';

/** As `timeouts.clientIdle` of a gateway: a client that reads nothing keeps a place in the engine. */
const CLIENT_IDLE_MS = 120_000;

const CRLF = Buffer.from('\r\n');

/** The answer to one request. */
export class Reply {
  readonly entry: JournalEntry;
  /** Value of the header `x-request-id` of the answer. */
  readonly id: string;
  /** Set once the request is read; none before. */
  fault: Fault = NO_FAULT;
  readonly #res: ServerResponse;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timers: TimerSet;
  #idleTimer: TimerHandle | undefined;
  #gathered = '';
  #done = false;
  #cut = false;
  #held = false;
  #isClosing = false;
  #isStreaming = false;
  #onExhaust: (() => void) | undefined;
  /** While the client's socket is full: one for all generations of the answer. */
  #resting: Promise<void> | undefined;

  /** `headers` go out with every answer. */
  constructor(
    res: ServerResponse,
    entry: JournalEntry,
    id: string,
    headers: Readonly<Record<string, string>>,
    timers: TimerSet,
  ) {
    this.#res = res;
    this.#timers = timers;
    this.entry = entry;
    this.id = id;
    this.#headers = headers;
    res.on('close', () => {
      this.#done = true;
      if (this.#idleTimer !== undefined) timers.cancel(this.#idleTimer);
      entry.close(this.#cut ? 'cut' : res.writableFinished ? 'finished' : 'aborted');
    });
  }

  /** True when nothing more may be written: ended, cut by a fault, or the client has left. */
  get done(): boolean {
    return this.#done;
  }

  /** Whether events may leave together with the next ones: those of an answer with a fault leave one by one. */
  get mayGather(): boolean {
    return this.fault === NO_FAULT;
  }

  /** Calls back once when the exchange is over, whichever way. */
  onClose(callback: () => void): void {
    this.#res.once('close', callback);
  }

  /** What to do when a fault makes the engine run out of memory. */
  onExhaust(callback: () => void): void {
    this.#onExhaust = callback;
  }

  /** Ends the stream with this event, which reports a failure. */
  fail(frame: string): void {
    if (this.#done) return;
    this.#gathered += frame;
    this.#endBroken();
  }

  /** Adds a line that clients of event streams ignore. */
  comment(text: string): void {
    if (!this.#done) this.#gathered += `: ${text}\n\n`;
  }

  /** Resolves when a full socket can take more, or the connection is closed; undefined when it can take more now. */
  rest(): Promise<void> | undefined {
    const socket = this.#res.socket ?? this.#res;
    if (!this.#held && (this.#done || !socket.writableNeedDrain)) return undefined;
    this.#watchReader();
    return (this.#resting ??= new Promise((resolve) => {
      const go = (): void => {
        socket.off('drain', go);
        this.#res.off('close', go);
        this.#resting = undefined;
        resolve();
      };
      socket.once('drain', go);
      this.#res.once('close', go);
    }));
  }

  /** Answers with a JSON body. */
  json(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): void {
    this.body(status, 'application/json', Buffer.from(JSON.stringify(value)), headers);
  }

  /** Answers with a whole body; the faults that count events act in its middle. */
  body(status: number, type: string, body: Buffer, headers: Readonly<Record<string, string>> = {}): void {
    if (this.#done) return;
    const { resetAfter, truncateAfter, stallAfter, endAfter, malformedAfter, split } = this.fault;
    const half = body.subarray(0, body.length >> 1);
    const broken = endAfter !== undefined || malformedAfter !== undefined;
    const sent = broken ? half : body;
    this.#head(status, { 'content-type': type, ...headers, 'content-length': String(sent.length) });
    if (resetAfter !== undefined) return this.#break('reset', half);
    if (truncateAfter !== undefined) return this.#break('end', half);
    if (stallAfter !== undefined) return this.#break('stall', half);
    this.#done = true;
    this.#cut = broken;
    if (split === true) this.#writeSplit(sent);
    this.#res.end(split === true ? undefined : sent);
    this.#watchReader();
  }

  /** Closes the connection once the client has taken nothing of what waits for it for `CLIENT_IDLE_MS`. */
  #watchReader(): void {
    const { socket } = this.#res.req;
    if (this.#held || this.#idleTimer !== undefined || socket.writableLength === 0) return;
    const progress = new WriteProgress(socket);
    progress.begin(this.#timers.now());
    const check = (): void => {
      this.#idleTimer = undefined;
      if (socket.writableLength === 0) return;
      if (progress.idleMs(this.#timers.now()) >= CLIENT_IDLE_MS) return this.drop();
      this.#idleTimer = this.#timers.after(progress.intervalMs(CLIENT_IDLE_MS), check);
    };
    this.#idleTimer = this.#timers.after(progress.intervalMs(CLIENT_IDLE_MS), check);
  }

  /** Starts a stream of server-sent events; its headers are sent with the first flush. */
  open(): void {
    this.#head(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    });
  }

  /** Passes on an answer as it comes; rests while the client's socket is full. Rejects as `chunks` does. */
  async pass(
    status: number,
    headers: Readonly<Record<string, string>>,
    chunks: AsyncIterable<Uint8Array>,
  ): Promise<void> {
    if (this.#done) return;
    this.#head(status, headers);
    for await (const chunk of chunks) {
      if (this.#done) return;
      this.#res.write(chunk);
      await this.rest();
    }
    if (this.#done) return;
    this.#done = true;
    this.#res.end();
  }

  /** Adds one event, or acts out the fault that is due in its place. */
  event(frame: string, frames: Pick<Frames, 'failure'>): void {
    if (this.#done) return;
    if (this.fault !== NO_FAULT) return this.#faultyEvent(frame, frames);
    this.entry.events++;
    this.#gathered += frame;
    if (this.#gathered.length > GATHER_CHARACTERS) this.flush();
  }

  #faultyEvent(frame: string, frames: Pick<Frames, 'failure'>): void {
    const { resetAfter, truncateAfter, stallAfter, endAfter, errorAfter, malformedAfter, oomAfter } = this.fault;
    const sent = this.entry.events;
    if (resetAfter === sent) return this.#breakStream('reset', frame);
    if (truncateAfter === sent) return this.#breakStream('end', frame);
    if (stallAfter === sent) return this.#breakStream('stall', frame);
    if (endAfter === sent) return this.#endBroken();
    if (oomAfter === sent) this.#onExhaust?.();
    if (this.#done) return;
    if (errorAfter === sent) return this.fail(frames.failure('the simulated engine failed'));
    this.entry.events++;
    this.#gathered +=
      malformedAfter === sent ? `${frame.slice(0, Math.ceil(frame.length * 0.6)).trimEnd()}\n\n` : frame;
    if (this.#gathered.length > GATHER_CHARACTERS) this.flush();
  }

  /** Adds the event that closes the stream, unless a fault leaves it out. */
  lastEvent(frame: string, frames: Pick<Frames, 'failure'>): void {
    if (this.fault.noDone === true) this.#cut = true;
    else this.event(frame, frames);
  }

  /** Writes what was gathered. */
  flush(): void {
    if (this.#gathered === '') return;
    const gathered = this.#gathered;
    this.#gathered = '';
    if (this.fault === NO_FAULT) return this.#write(gathered);
    const text = this.fault.crlf === true ? gathered.replaceAll('\n', '\r\n') : gathered;
    if (this.fault.split === true) this.#writeSplit(Buffer.from(text));
    else if (this.fault.splitUtf8 === true) this.#writeWithinCharacters(Buffer.from(text));
    else this.#write(text);
  }

  /** Ends the stream at once. */
  end(): void {
    if (this.#done) return;
    this.#done = true;
    this.flush();
    this.#res.end();
    this.#watchReader();
  }

  /** Leaves the request without an answer; a held reply ends with its client or its host. */
  hold(): void {
    this.#done = true;
    this.#held = true;
    if (this.#isClosing) this.drop();
  }

  /** The host waits for its requests from now on: one that a fault keeps open and silent, now or later, is cut. */
  dropHeld(): void {
    this.#isClosing = true;
    if (this.#held) this.drop();
  }

  /** Resets the connection now, without another byte. */
  reset(): void {
    this.drop(resetNow);
  }

  /** Closes the connection now, as when the process has ended. */
  drop(close: (socket: Socket) => void = (socket) => socket.destroy()): void {
    this.#done = true;
    this.#cut = true;
    this.#gathered = '';
    close(this.#res.req.socket);
  }

  #head(status: number, headers: Json): void {
    this.entry.status = status;
    this.#res.writeHead(status, { ...this.#headers, ...headers } as Record<string, string>);
  }

  /**
   * Writes to the socket itself, the head together with the first bytes: a chunk is one text, which is half the work of three writes, and
   * leaves at once, where a response gathers all that one turn writes.
   */
  #write(bytes: string | Buffer): void {
    const res = this.#res;
    const { socket } = res;
    // Behind another response of its connection, it keeps what is written until its turn.
    if (socket === null || res.writableLength !== socket.writableLength) {
      if (bytes.length > 0) res.write(bytes);
      else res.flushHeaders();
      return;
    }
    const isFirst = !this.#isStreaming;
    if (isFirst) {
      this.#isStreaming = true;
      socket.cork();
      res.flushHeaders();
    }
    if (!res.chunkedEncoding) socket.write(bytes);
    else if (bytes.length > 0) writeChunk(socket, bytes);
    if (isFirst) socket.uncork();
  }

  /** Cuts after the first byte of every character that has more than one. */
  #writeWithinCharacters(bytes: Buffer): void {
    let from = 0;
    for (let at = 0; at < bytes.length; at++) {
      if (bytes[at]! < 0xc0) continue;
      this.#write(bytes.subarray(from, at + 1));
      from = at + 1;
    }
    this.#write(bytes.subarray(from));
  }

  #writeSplit(bytes: Buffer): void {
    for (const byte of bytes) this.#write(Buffer.of(byte));
  }

  #breakStream(how: Break, next: string): void {
    this.flush();
    this.#break(how, this.fault.partial === true ? Buffer.from(next.slice(0, next.length >> 1)) : Buffer.alloc(0));
  }

  #break(how: Break, last: Buffer): void {
    this.#done = true;
    this.#cut = how !== 'stall';
    const { socket } = this.#res.req;
    this.#write(last);
    if (how === 'stall') this.hold();
    // An empty write is answered after everything before it has left, so a reset cannot overtake the data; two turns
    // later the client has read it. A reset that comes with the data looks like a clean end to clients on libuv.
    if (how === 'reset') socket.write('', () => setImmediate(() => setImmediate(resetNow, socket)));
    if (how === 'end') socket.destroySoon();
  }

  #endBroken(): void {
    this.end();
    this.#cut = true;
  }
}

function writeChunk(socket: Socket, bytes: string | Buffer): void {
  const length = Buffer.byteLength(bytes);
  const size = length.toString(16);
  // Text of one byte a character is copied to the socket as it is.
  if (typeof bytes === 'string') socket.write(`${size}\r\n${bytes}\r\n`, length === bytes.length ? 'latin1' : 'utf8');
  else socket.write(Buffer.concat([Buffer.from(`${size}\r\n`), bytes, CRLF]));
}

/** Sends RST at once; left to itself `resetAndDestroy` ends the socket first, and clients take that FIN for an end. */
function resetNow(socket: Socket): void {
  socket.destroySoon = () => void socket.destroy();
  socket.resetAndDestroy();
}
