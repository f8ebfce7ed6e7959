// The answer of one CRN on its way to the client: whole server-sent events only, backpressure both ways, comments in
// silent streams, and an error event in the request's dialect when the CRN breaks off. Until the first byte leaves,
// nothing is committed and the owner may still try another CRN.

import { type Dialect, endsWell, errorEvent, type UsageWatch } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import { EventSplitter } from '../net/sse.ts';
import type { Downstream } from './downstream.ts';
import type { ResponseHead } from './headers.ts';

export interface RelaySettings {
  /** Silence after which a comment is sent on an event stream, in milliseconds; null: never. */
  readonly keepAliveMs: number | null;
  /** Longest time a client may refuse to read, in milliseconds. */
  readonly clientIdleMs: number;
  /** Most bytes of an unfinished event held back. */
  readonly heldEventBytes: number;
}

/** What a relay hears from and asks of its attempt. */
export interface RelaySource {
  pause(): void;
  resume(): void;
  /** The client reads too slowly: give up. */
  abandon(): void;
  /** Headers to add when the answer is committed. */
  extraHeaders(): readonly string[];
  /** So many bytes of a stream have been handed to the client. */
  relayed(bytes: number): void;
  /** Looks on while a good answer passes; null when nobody counts. */
  readonly usage: UsageWatch | null;
}

/** Pieces kept of a stream's end, to see whether it ended well. A usage chunk may follow the one that says so. */
const TAIL_PIECES = 4;
const TAIL_BYTES = 4096;

const KEEP_ALIVE = Buffer.from(': keep-alive\n\n');
const SEQUENCE = /"sequence_number"\s*:\s*(\d+)/g;

export class Relay implements Expirable {
  readonly #downstream: Downstream;
  readonly #head: ResponseHead;
  readonly #dialect: Dialect | undefined;
  readonly #settings: RelaySettings;
  readonly #source: RelaySource;
  readonly #splitter: EventSplitter | null;
  readonly #tail: Buffer[] = [];
  readonly #usage: UsageWatch | null;
  readonly #deadline: Deadline;
  #waiting = false;
  #started = false;

  constructor(
    downstream: Downstream,
    head: ResponseHead,
    dialect: Dialect | undefined,
    settings: RelaySettings,
    source: RelaySource,
    deadlines: DeadlineQueue,
  ) {
    this.#downstream = downstream;
    this.#head = head;
    this.#dialect = dialect;
    this.#settings = settings;
    this.#source = source;
    const events = head.contentType.startsWith('text/event-stream') && !head.encoded;
    this.#splitter = events ? new EventSplitter({ maxHeldBytes: settings.heldEventBytes }) : null;
    this.#usage = head.status < 300 ? source.usage : null;
    this.#usage?.begin(events ? this.#tail : null);
    this.#deadline = deadlines.deadline(this);
    this.#armKeepAlive();
  }

  /** Whether bytes of this answer have left for the client. */
  get committed(): boolean {
    return this.#started;
  }

  data(chunk: Buffer): void {
    if (this.#splitter === null) {
      this.#usage?.data(chunk);
      if (!this.#started && chunk.byteLength === this.#head.contentLength) this.#finish(chunk);
      else this.#write(chunk);
      return;
    }
    const whole = this.#splitter.push(chunk);
    if (whole === undefined) return;
    this.#keep(whole);
    const passed = this.#usage === null ? whole : this.#usage.events(whole);
    if (passed === undefined) return;
    this.#write(passed);
    this.#source.relayed(passed.byteLength);
  }

  /** The CRN's answer is complete as HTTP. False when it is not complete as a stream and was not committed yet. */
  end(): ErrorCode | null {
    if (this.#splitter === null) {
      this.#finish();
      return null;
    }
    const rest = this.#splitter.take();
    const success = this.#head.status < 300;
    if (success && !endsWell(this.#dialect, Buffer.concat([this.#lastBytes(), rest]))) {
      if (this.#started) this.broken('HR_STREAM_TRUNCATED');
      return 'HR_STREAM_TRUNCATED';
    }
    if (rest.byteLength === 0) this.#finish();
    else {
      this.#keep(rest);
      this.#finish(this.#usage === null ? rest : this.#usage.events(rest));
    }
    return null;
  }

  #keep(piece: Buffer): void {
    if (this.#tail.length === TAIL_PIECES) this.#tail.shift();
    this.#tail.push(piece);
  }

  /** The CRN broke off after the answer was committed. */
  broken(code: ErrorCode): void {
    this.#deadline.clear();
    this.#downstream.errorCode = code;
    const { midEvent } = this.#splitter ?? { midEvent: true };
    if (midEvent) {
      this.#downstream.destroy();
      return;
    }
    const { message, status } = new HeadraceError(code);
    const event = errorEvent(this.#dialect, { code, message, status, sequence: this.#nextSequence() });
    this.#downstream.write(Buffer.from(event));
    this.#downstream.end();
  }

  /** Nothing more will come: takes the deadline back. */
  close(): void {
    this.#deadline.clear();
    this.#downstream.onWritable = null;
  }

  /** @internal Silence of the CRN, or of a client that does not read. */
  expire(): void {
    if (this.#downstream.finished) return;
    if (this.#waiting) {
      this.#source.abandon();
      this.#downstream.destroy();
      return;
    }
    if (this.#splitter?.midEvent === false) this.#write(KEEP_ALIVE);
  }

  #write(bytes: Uint8Array): void {
    this.#commit(-1);
    if (this.#downstream.write(bytes)) {
      this.#armKeepAlive();
      return;
    }
    if (this.#waiting || this.#downstream.finished) return;
    this.#waiting = true;
    this.#deadline.set(this.#settings.clientIdleMs);
    this.#source.pause();
    const writable = (): void => this.#writable();
    this.#downstream.onWritable = writable;
  }

  #writable(): void {
    if (!this.#waiting) return;
    this.#waiting = false;
    this.#deadline.clear();
    this.#armKeepAlive();
    this.#source.resume();
  }

  #finish(last?: Uint8Array): void {
    this.#deadline.clear();
    this.#commit(last?.byteLength ?? 0);
    this.#downstream.end(last);
  }

  #commit(wholeBytes: number): void {
    if (this.#started) return;
    this.#started = true;
    const { status, headers, contentLength } = this.#head;
    const length = this.#splitter === null ? Math.max(contentLength, wholeBytes) : -1;
    this.#downstream.start(status, [...headers, ...this.#source.extraHeaders()], length);
  }

  #armKeepAlive(): void {
    const { keepAliveMs } = this.#settings;
    if (keepAliveMs !== null && this.#splitter !== null && !this.#waiting) this.#deadline.set(keepAliveMs);
  }

  #lastBytes(): Buffer {
    const tail = Buffer.concat(this.#tail);
    return tail.subarray(Math.max(tail.byteLength - TAIL_BYTES, 0));
  }

  #nextSequence(): number {
    let last = -1;
    for (const match of this.#lastBytes().toString('latin1').matchAll(SEQUENCE)) last = Number(match[1]);
    return last + 1;
  }
}
