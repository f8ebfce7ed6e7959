// Reads the events of a chat completions stream. Nearly every event differs from the one before in a text alone, and in digits of
// what stands before its choices, such as a time: such an event is compared and not parsed. Every other one is parsed. Pieces are
// read during the call only.

import { EventSplitter, lineEndIn } from '../../net/sse.ts';
import { isFilled } from '../dialect.ts';
import { skipSpace } from '../json-scan.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const ZERO = 0x30;
const NINE = 0x39;
const CHOICES = Buffer.from('"choices"');
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');
const DONE = '[DONE]';

/** Longest event: a call of a tool may write a file in one event. */
const MAX_EVENT_BYTES = 32 * 1024 * 1024;

/** 1 at the bytes that may follow a backslash. */
const IS_ESCAPED = new Uint8Array(256);
for (const byte of Buffer.from('"\\/bfnrtu')) IS_ESCAPED[byte] = 1;

const HEX = /^[\da-f]{4}$/i;

export type ChatObject = Readonly<Record<string, unknown>>;

/** Takes the events of a stream in their order. */
export interface ChatEventListener {
  /** An event. */
  onChunk(data: ChatObject): void;
  /**
   * More of the only text that the last chunk had, as it is written in JSON: `piece` from `start` to `end`. What it belongs to (a
   * member of the delta, of a tool call) is the same.
   */
  onText(piece: Buffer, start: number, end: number): void;
  /** `[DONE]`. */
  onDone(): void;
  /** The server reports an error: the value that describes it. */
  onError(error: unknown): void;
  /** A line that clients ignore, without line end. */
  onComment(line: string): void;
}

/** Members of a delta that hold a text. */
const TEXTS = ['content', 'reasoning_content', 'reasoning', 'refusal'] as const;

export class ChatEventReader {
  readonly #listener: ChatEventListener;
  readonly #splitter = new EventSplitter({ maxHeldBytes: MAX_EVENT_BYTES });
  #isFirst = true;
  /** Bytes of the last parsed event before its text, and from the closing quote to its end. Null: it was of another kind. */
  #before: Buffer | null = null;
  /** How many bytes of `#before` stand before its choices. */
  #leading = 0;
  #after: Buffer = BYTE_ORDER_MARK;

  constructor(listener: ChatEventListener) {
    this.#listener = listener;
  }

  /** The next bytes of the stream, cut anywhere. */
  read(piece: Buffer): void {
    const events = this.#splitter.push(piece);
    if (this.#splitter.midEvent) {
      this.#listener.onError({ message: `The server sent an event of more than ${MAX_EVENT_BYTES} bytes` });
      return;
    }
    if (events !== undefined) this.#read(events);
  }

  /** The stream has ended. The blank line behind its last event may be missing. */
  end(): void {
    const rest = this.#splitter.take();
    if (rest.length > 0) this.#read(Buffer.concat([rest, Buffer.from('\n\n')]));
  }

  #read(events: Buffer): void {
    let pos = 0;
    if (this.#isFirst) {
      this.#isFirst = false;
      if (events.indexOf(BYTE_ORDER_MARK) === 0) pos = BYTE_ORDER_MARK.length;
    }
    const usesCr = events.includes(CR, pos);
    while (pos < events.length) {
      const next = this.#repeated(events, pos);
      pos = next > 0 ? next : this.#event(events, pos, usesCr);
    }
  }

  /** Reads the event at `start` if it differs from the last one as most do. Returns where it ends; 0 if it does not. */
  #repeated(bytes: Buffer, start: number): number {
    const before = this.#before;
    if (before === null) return 0;
    const from = start + before.length;
    if (from >= bytes.length || !startsLike(bytes, start, before, this.#leading)) return 0;
    let to = from;
    for (;;) {
      const byte = bytes[to] as number;
      if (byte === QUOTE) break;
      if (byte === BACKSLASH) {
        const escaped = bytes[++to] as number;
        if (IS_ESCAPED[escaped] !== 1) return 0;
        if (escaped === LETTER_U && !HEX.test(bytes.toString('latin1', to + 1, to + 5))) return 0;
      } else if (!(byte >= SPACE)) {
        return 0;
      }
      to++;
    }
    const end = to + this.#after.length;
    if (end > bytes.length || this.#after.compare(bytes, to, end) !== 0) return 0;
    this.#listener.onText(bytes, from, to);
    return end;
  }

  /** Reads the event at `start` line by line. Returns where it ends. */
  #event(bytes: Buffer, start: number, usesCr: boolean): number {
    let name = '';
    let hasErrorField = false;
    let data: string | undefined;
    let pos = start;
    while (pos < bytes.length) {
      const end = lineEndIn(bytes, pos, usesCr);
      const next = bytes[end] === CR && bytes[end + 1] === LF ? end + 2 : end + 1;
      if (end === pos) {
        this.#dispatch(name, data, hasErrorField, bytes.subarray(start, next));
        return next;
      }
      const line = bytes.toString('utf8', pos, end);
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
      if (field === 'data') data = data === undefined ? value : `${data}\n${value}`;
      else if (field === 'event') name = value;
      else if (field === 'error') {
        hasErrorField = true;
        data ??= value;
      } else if (field === '') this.#listener.onComment(line);
      pos = next;
    }
    return pos;
  }

  #dispatch(name: string, data: string | undefined, hasErrorField: boolean, event: Buffer): void {
    if (data === undefined || data.trim() === '') return;
    if (data.trim() === DONE) {
      this.#listener.onDone();
      return;
    }
    const value = parsedJson(data);
    const chunk = membersOf(value);
    const { error } = chunk;
    this.#before = null;
    const isError = name === 'error' || hasErrorField || chunk['object'] === 'error' || chunk['type'] === 'error';
    if (isError) this.#listener.onError(isFilled(error) ? error : (value ?? data));
    else if (value === undefined) this.#listener.onError({ message: 'The server sent an event that is not JSON' });
    else {
      if (!isFilled(error) || isFilled(chunk['choices'])) this.#listener.onChunk(chunk);
      if (isFilled(error)) this.#listener.onError(error);
      else this.#learn(chunk, event);
    }
  }

  /** Prepares for events like this one. */
  #learn(chunk: ChatObject, event: Buffer): void {
    const name = onlyText(chunk);
    if (name === undefined) return;
    const key = Buffer.from(`"${name}"`);
    const at = event.indexOf(key);
    // Of two members of one name it is unclear which is meant.
    if (at < 0 || event.indexOf(key, at + 1) >= 0) return;
    const colon = skipSpace(event, at + key.length, event.length);
    const open = skipSpace(event, colon + 1, event.length);
    if (event[colon] !== COLON || event[open] !== QUOTE) return;
    let close = open + 1;
    while (event[close] !== QUOTE) close += event[close] === BACKSLASH ? 2 : 1;
    const choices = event.indexOf(CHOICES);
    this.#leading = choices < open ? Math.max(choices, 0) : 0;
    this.#before = Buffer.from(event.subarray(0, open + 1));
    this.#after = Buffer.from(event.subarray(close));
  }
}

/** Whether `bytes` have `expected` at `start`, of which the first `leading` bytes may differ in their digits. */
function startsLike(bytes: Buffer, start: number, expected: Buffer, leading: number): boolean {
  if (expected.compare(bytes, start, start + expected.length) === 0) return true;
  for (let at = 0; at < leading; at++) {
    const byte = bytes[start + at] as number;
    const known = expected[at] as number;
    if (byte !== known && !(isDigit(byte) && isDigit(known))) return false;
  }
  return expected.compare(bytes, start + leading, start + expected.length, leading) === 0;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

/** The name of the member with the only text of a chunk that says nothing else; undefined if it says more. */
function onlyText({ choices, usage }: ChatObject): string | undefined {
  if (!Array.isArray(choices) || choices.length !== 1 || isFilled(usage)) return undefined;
  const { delta, finish_reason: reason, index, logprobs } = membersOf(choices[0]);
  if (isFilled(reason) || isFilled(logprobs) || (index ?? 0) !== 0) return undefined;
  let name: string | undefined;
  const members = membersOf(delta);
  for (const key of Object.keys(members)) {
    if (key === 'role' || !isFilled(members[key])) continue;
    if (name !== undefined) return undefined;
    name = key;
  }
  if (name === 'tool_calls') return hasArgumentsOnly(members[name]) ? 'arguments' : undefined;
  return TEXTS.some((text) => text === name) && typeof members[name as string] === 'string' ? name : undefined;
}

function hasArgumentsOnly(calls: unknown): boolean {
  if (!Array.isArray(calls) || calls.length !== 1) return false;
  const { function: called, id, index } = membersOf(calls[0]);
  const { arguments: text, name } = membersOf(called);
  return typeof index === 'number' && !isFilled(id) && !isFilled(name) && typeof text === 'string' && text !== '';
}
