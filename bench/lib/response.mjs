// HTTP/1.1 response parser of the load clients: heads, bodies of known length and chunked bodies, event by event. It is the
// client's hot path and strict: anything but the expected response is an error.

import { STAMP_DIGITS, STAMP_PREFIX } from './traffic.mjs';

const HEAD_END = Buffer.from('\r\n\r\n');
const EVENT_END = Buffer.from('\n\n');
const LF = 10;
const STAMP_AT = STAMP_PREFIX.length;
const FIRST_BYTE_OF_EVENT = STAMP_PREFIX.charCodeAt(0);

const LENGTH = /\r\ncontent-length: *(\d+)/i;
const STREAM = /\r\ncontent-type: *text\/event-stream/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;

/** Parser states: what the next bytes are. */
const HEAD = 0;
const BODY = 1;
const CHUNK_SIZE = 2;
const CHUNK_DATA = 3;
const CHUNK_END = 4;
const TRAILER = 5;

export class ResponseReader {
  #state = HEAD;
  /** Bytes of a head or of a chunk's size line that came without its end. */
  #kept = null;
  #left = 0;
  #lastByte = 0;
  /** Whether the body is an event stream. */
  #streams = false;
  /** Bytes of the body so far. */
  bodyBytes = 0;
  /** Events seen to their end, the closing [DONE] included. */
  events = 0;
  status = 0;
  #onEvent;

  /** `onEvent(index, stampUs)` is called at the end of each event; the stamp is 0 when the event came in pieces. */
  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  /** Parses bytes; true when they complete a response. Throws on bytes that are not HTTP or that follow the response. */
  push(bytes) {
    let at = 0;
    if (this.#kept !== null) {
      bytes = Buffer.concat([this.#kept, bytes]);
      this.#kept = null;
    }
    while (at < bytes.length) {
      const next = this.#step(bytes, at);
      if (next < 0) {
        this.#kept = Buffer.from(bytes.subarray(at));
        return false;
      }
      at = next;
      if (this.#state !== HEAD) continue;
      if (at !== bytes.length) throw new Error('bytes after the answer');
      return true;
    }
    return false;
  }

  /** Forgets the last answer. */
  reset() {
    this.bodyBytes = 0;
    this.events = 0;
    this.status = 0;
  }

  /** Reads one element at `at`; returns where it ends, or -1 when it is not complete. */
  #step(bytes, at) {
    switch (this.#state) {
      case HEAD:
        return this.#head(bytes, at);
      case BODY: {
        const end = Math.min(bytes.length, at + this.#left);
        this.#left -= end - at;
        this.bodyBytes += end - at;
        // A stream that was over before its first byte left the peer may have a length.
        if (this.#streams) this.#countEvents(bytes, at, end);
        if (this.#left === 0) this.#state = HEAD;
        return end;
      }
      case CHUNK_SIZE:
        return this.#chunkSize(bytes, at);
      case CHUNK_DATA:
        return this.#chunkData(bytes, at);
      default:
        return this.#lineEnd(bytes, at);
    }
  }

  #head(bytes, at) {
    const end = bytes.indexOf(HEAD_END, at);
    if (end < 0) return -1;
    const head = bytes.latin1Slice(at, end);
    if (!head.startsWith('HTTP/1.1 ')) throw new Error(`no HTTP answer: ${head.slice(0, 40)}`);
    this.status = Number(head.slice(9, 12));
    this.#streams = STREAM.test(head);
    const length = LENGTH.exec(head);
    if (length !== null) {
      this.#left = Number(length[1]);
      this.#state = this.#left === 0 ? HEAD : BODY;
    } else if (CHUNKED.test(head)) this.#state = CHUNK_SIZE;
    else throw new Error('an answer without a length');
    return end + 4;
  }

  #chunkSize(bytes, at) {
    const end = bytes.indexOf(LF, at);
    if (end < 0) return -1;
    this.#left = Number.parseInt(bytes.latin1Slice(at, end), 16);
    if (Number.isNaN(this.#left)) throw new Error('no chunk size');
    this.#state = this.#left === 0 ? TRAILER : CHUNK_DATA;
    return end + 1;
  }

  #chunkData(bytes, at) {
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    this.bodyBytes += end - at;
    this.#countEvents(bytes, at, end);
    if (this.#left === 0) this.#state = CHUNK_END;
    return end;
  }

  /** The line end after a chunk, or after the last one (no trailers are expected). */
  #lineEnd(bytes, at) {
    if (bytes.length - at < 2) return -1;
    this.#state = this.#state === TRAILER ? HEAD : CHUNK_SIZE;
    return at + 2;
  }

  #countEvents(bytes, from, to) {
    // An event's end may lie across two pieces.
    if (this.#lastByte === LF && bytes[from] === LF) this.#onEvent(this.events++, 0);
    let start = from;
    for (;;) {
      const end = bytes.indexOf(EVENT_END, start);
      if (end < 0 || end + 2 > to) break;
      this.#onEvent(this.events++, stampOf(bytes, start, end));
      start = end + 2;
    }
    // After a whole event there is nothing left that a following line feed could complete.
    this.#lastByte = start === to ? 0 : bytes[to - 1];
  }
}

function stampOf(bytes, start, end) {
  if (end - start < STAMP_AT + STAMP_DIGITS || bytes[start] !== FIRST_BYTE_OF_EVENT) return 0;
  let stamp = 0;
  for (let at = start + STAMP_AT; at < start + STAMP_AT + STAMP_DIGITS; at++) {
    const digit = bytes[at] - 48;
    if (digit < 0 || digit > 9) return 0;
    stamp = stamp * 10 + digit;
  }
  return stamp;
}
