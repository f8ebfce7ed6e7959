// Server-sent events (WHATWG HTML 9.2.5, 9.2.6): EventSplitter cuts a byte stream into whole events, parseEvents decodes text.
// The splitter changes no byte and no order. Line ends are LF, CRLF or CR, in any mixture.

import { parseJson } from '../config/json-text.ts';

const LF = 0x0a;
const CR = 0x0d;

const DEFAULT_MAX_HELD_BYTES = 1024 * 1024;
const FIRST_HOLD_BYTES = 1024;
/** A buffer that grew past this for one event is not kept for the rest of the stream. */
const LARGEST_IDLE_HOLD_BYTES = 16 * 1024;
const EMPTY: Buffer = Buffer.alloc(0);

export interface EventSplitterOptions {
  /** Most bytes of an unfinished event that are held; an event that is longer passes in parts. Default 1 MiB. */
  readonly maxHeldBytes?: number;
}

/** Splits a byte stream behind the blank lines that end its events. One instance per stream. */
export class EventSplitter {
  readonly #maxHeldBytes: number;
  #hold: Buffer = EMPTY;
  #held = 0;
  #midEvent = false;
  /** The last two bytes pushed, the older one in the high byte. A stream begins like a new line. */
  #last = (LF << 8) | LF;

  constructor(options?: EventSplitterOptions) {
    this.#maxHeldBytes = options?.maxHeldBytes ?? DEFAULT_MAX_HELD_BYTES;
  }

  /** Bytes held because their event has not ended. */
  get held(): number {
    return this.#held;
  }

  /** Whether the bytes returned so far end inside an event, so that no other event may follow them. */
  get midEvent(): boolean {
    return this.#midEvent;
  }

  /**
   * Takes the next bytes of the stream. The caller may reuse `chunk`: held bytes are copied.
   * @returns the bytes up to the last event that has ended (or all, when `midEvent`); undefined when there are none.
   * Without held bytes this is a view of `chunk` (`chunk` itself when it ends with an event), otherwise a new buffer.
   */
  push(chunk: Buffer): Buffer | undefined {
    const length = chunk.length;
    if (length === 0) return undefined;
    // The usual chunk consists of whole events.
    if (this.#held === 0 && length > 1 && chunk[length - 1] === LF && chunk[length - 2] === LF) {
      this.#midEvent = false;
      this.#last = (LF << 8) | LF;
      return chunk;
    }
    const boundary = this.#lastBoundary(chunk);
    this.#last =
      (((length > 1 ? (chunk[length - 2] as number) : this.#last) & 0xff) << 8) | (chunk[length - 1] as number);
    const unfinished = boundary < 0 ? this.#held + length : length - boundary;
    this.#midEvent = unfinished > this.#maxHeldBytes || (boundary < 0 && this.#midEvent);
    if (this.#midEvent) return this.#release(chunk);
    const passes = boundary > 0 || (boundary === 0 && this.#held > 0);
    const whole = passes ? this.#release(boundary === length ? chunk : chunk.subarray(0, boundary)) : undefined;
    if (boundary < length) this.#keep(boundary < 0 ? chunk : chunk.subarray(boundary));
    return whole;
  }

  /** Returns the held bytes, the beginning of an event that never ended, and holds nothing any more. */
  take(): Buffer {
    return this.#held === 0 ? EMPTY : this.#release(EMPTY);
  }

  #release(bytes: Buffer): Buffer {
    if (this.#held === 0) return bytes;
    const whole = Buffer.allocUnsafe(this.#held + bytes.length);
    this.#hold.copy(whole, 0, 0, this.#held);
    bytes.copy(whole, this.#held);
    this.#held = 0;
    if (this.#hold.length > LARGEST_IDLE_HOLD_BYTES) this.#hold = EMPTY;
    return whole;
  }

  #keep(bytes: Buffer): void {
    const needed = this.#held + bytes.length;
    if (needed > this.#hold.length) {
      const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#hold.length, FIRST_HOLD_BYTES));
      this.#hold.copy(larger, 0, 0, this.#held);
      this.#hold = larger;
    }
    bytes.copy(this.#hold, this.#held);
    this.#held = needed;
  }

  /** The offset behind the last blank line in `chunk`, -1 when it has none; 0 when one ended just before it. */
  #lastBoundary(chunk: Buffer): number {
    const length = chunk.length;
    if (length > 1 && chunk[length - 1] === LF && chunk[length - 2] === LF) return length;
    let lf = chunk.lastIndexOf(LF);
    let cr = chunk.lastIndexOf(CR);
    while (lf >= 0 || cr >= 0) {
      const end = Math.max(lf, cr);
      if (this.#endsBlankLine(chunk, end)) return end + 1;
      if (end === lf) lf = end === 0 ? -1 : chunk.lastIndexOf(LF, end - 1);
      else cr = end === 0 ? -1 : chunk.lastIndexOf(CR, end - 1);
    }
    return this.#last === ((LF << 8) | CR) && chunk[0] !== LF ? 0 : -1;
  }

  /** Whether the line end at `end` closes an empty line. */
  #endsBlankLine(chunk: Buffer, end: number): boolean {
    const byte = this.#byteAt(chunk, end);
    const before = this.#byteAt(chunk, end - 1);
    // LF CR at the end of a chunk may become LF CRLF, whose LF belongs to this event.
    if (byte === CR) return before === CR || (before === LF && end + 1 < chunk.length);
    if (before === LF) return true;
    if (before !== CR) return false;
    const earlier = this.#byteAt(chunk, end - 2);
    return earlier === LF || earlier === CR;
  }

  #byteAt(chunk: Buffer, pos: number): number {
    if (pos >= 0) return chunk[pos] as number;
    return pos === -1 ? this.#last & 0xff : this.#last >> 8;
  }
}

/** The line end at or behind `start`; the end of `bytes` where there is none. `usesCr`: whether they have a CR. */
export function lineEndIn(bytes: Buffer, start: number, usesCr: boolean): number {
  if (!usesCr) {
    const lf = bytes.indexOf(LF, start);
    return lf < 0 ? bytes.length : lf;
  }
  // Two searches, each for every line, read on to the end of the bytes for what is not there.
  let end = start;
  while (end < bytes.length && bytes[end] !== LF && bytes[end] !== CR) end++;
  return end;
}

/** Splits bytes that are whole events. Each has its blank line; comments count as events. */
export function splitEvents(bytes: Buffer): Buffer[] {
  const events: Buffer[] = [];
  let start = 0;
  let lineStart = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== LF && byte !== CR) continue;
    const endsEvent = at === lineStart && at > start;
    if (byte === CR && bytes[at + 1] === LF) at++;
    lineStart = at + 1;
    if (!endsEvent) continue;
    events.push(bytes.subarray(start, lineStart));
    start = lineStart;
  }
  if (start < bytes.length) events.push(bytes.subarray(start));
  return events;
}

/** A decoded event. */
export interface ServerSentEvent {
  /** The event's name, absent when it has none. */
  readonly event?: string;
  /** Its data lines, joined by line feeds. */
  readonly data: string;
}

/** Decodes the events in `text`. Leaves out comments, events without data and an unfinished last event. */
export function parseEvents(text: string): ServerSentEvent[] {
  const events: ServerSentEvent[] = [];
  let event: string | undefined;
  let data: string[] = [];
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/);
  lines.pop();
  for (const line of lines) {
    if (line === '') {
      if (data.length > 0) events.push({ ...(event === undefined ? {} : { event }), data: data.join('\n') });
      event = undefined;
      data = [];
      continue;
    }
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) as RegExpExecArray;
    if (field === 'data') data.push(value ?? '');
    else if (field === 'event') event = value || undefined;
  }
  return events;
}

/** Whether the rest of a stream is an event of which only the blank line behind it is missing. */
export function isWholeButItsEnd(rest: Buffer): boolean {
  const events = parseEvents(`${rest.toString()}\n\n`);
  return events.length > 0 && events.every(({ data }) => data === '[DONE]' || isJson(data));
}

function isJson(text: string): boolean {
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}
