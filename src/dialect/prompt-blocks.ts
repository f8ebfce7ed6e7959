// The prompt of a request as a chain of hashed blocks, for an index of what is in the KV caches of servers. The prompt is read in the
// order in which chat templates write it: tools, system text, messages. Only what a template renders counts; docs/locality.md has
// the list. Bodies were scanned before, so they are valid JSON of any shape. Messages are read from the tape of that scan.

import type { Dialect } from './dialect.ts';
import { bodyTape, type ScannedBody, SPAN } from './body-scan.ts';
import { CHECKED_DEPTH, skipSpace, skipValue } from './json-scan.ts';
import { nameIds, placesById } from './json-names.ts';
import { JsonTape, MAX_READ_VALUES } from './json-tape.ts';
import {
  begin,
  blockBytes,
  chainBlocks,
  hashes,
  moveTo,
  putAttachment,
  putByte,
  putString,
  putToken,
  putUnread,
  putValue,
  seedChain,
  sizeOf,
  takeBack,
} from './prompt-stream.ts';

export { blockBytes };

/** The blocks of one prompt. */
export interface PromptBlocks {
  /** Two words (low, high) per whole block: the hash of everything up to its end. Scratch memory: valid until the next call. */
  readonly hashes: Int32Array;
  /** Whole blocks. */
  readonly count: number;
  /** Bytes of the prompt in template order, the rest behind the last whole block and the part beyond 1 MiB included. */
  readonly bytes: number;
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const OPEN_ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const LETTER_N = 0x6e;

/** Levels of objects in messages that are read by their members: message, part, result of a tool, part of that, and its source. */
const READ_LEVELS = 8;
/** The same in a list of attachments: an object with `url`, or with an object that has it. */
const SOURCE_LEVELS = 2;
/** Most members of an object that are ordered. */
const MOST_MEMBERS = 24;
/** Most values of a prompt beside tokens that are read one by one; more are only counted, so that a million cost no more than scanning them. */
const MOST_VALUES = 100_000;

// Marks between texts: control characters, which no text in the stream contains.
const MARK_MEMBER = 0x01; // to 0x17, by the place of the member
const MARK_PART = 0x18;
const MARK_TOKENS = 0x19;
const MARK_MESSAGE = 0x1b;
const MARK_TOOLS = 0x1c;
const MARK_SYSTEM = 0x1d;
const MARK_OPTION = 0x1e;

/** How the value of a member of a message counts. */
const KIND = {
  /** Not rendered by templates. */
  nothing: 0,
  /** A string as its text; any other value as it is written. */
  text: 1,
  /** The same without a mark before it. */
  bare: 2,
  /** A text, or a list of parts. */
  parts: 3,
  /** An object with members of this table, or a list of such objects. */
  object: 4,
  /** An image, a sound or a file: an address, base64, an object with either, or a list. */
  attachment: 5,
} as const;
type Kind = (typeof KIND)[keyof typeof KIND];

interface Key {
  /** Members count in the order of their places, in whichever order they stand. */
  readonly place: number;
  readonly kind: Kind;
}

/** Members of messages, items, parts, calls and sources of attachments; all others do not count. */
const PLACES: readonly (readonly [names: readonly string[], kind: Kind])[] = [
  // Opaque to all but the server that made them. `data` is that of thinking which nobody can read; in a source it is the attachment.
  [['signature', 'encrypted_content', 'data'], KIND.nothing],
  [['role'], KIND.text],
  [['id'], KIND.text],
  [['tool_call_id', 'tool_use_id', 'call_id'], KIND.text],
  [['name'], KIND.text],
  [['function', 'custom'], KIND.object],
  [['arguments', 'input', 'action', 'operation'], KIND.text],
  [['reasoning_content', 'reasoning', 'thinking'], KIND.parts],
  [['summary'], KIND.parts],
  [['text'], KIND.bare],
  [['content', 'output'], KIND.parts],
  [['refusal'], KIND.text],
  [['tool_calls', 'function_call'], KIND.object],
  [['is_error'], KIND.text],
  [['source', 'image', 'images', 'image_url', 'audio', 'audio_url', 'input_audio'], KIND.attachment],
  [['video', 'video_url', 'file', 'file_data', 'file_id', 'file_url', 'url', 'result'], KIND.attachment],
  [['filename', 'title', 'context', 'detail'], KIND.text],
];

/** Places of members that are named in the code. */
const ROLE_PLACE = placeOf('role');
const ID_PLACE = placeOf('id');
const CONTENT_PLACE = placeOf('content');
const USER = Buffer.from('user');

function placeOf(name: string): number {
  return PLACES.findIndex(([names]) => names.includes(name));
}

const KEYS: readonly Key[] = PLACES.flatMap(([names, kind], place) => names.map(() => ({ place, kind })));
const KEY_PLACES = placesById(PLACES.flatMap(([names]) => names));
const NAME = nameIds('prompt_string', 'multimodal_data');

/** Lines that clients put before a text and change with every request; up to the end of the line they do not count. */
const VOLATILE_LINES = [
  // Claude Code, first block of `system`: `x-anthropic-billing-header: cc_version=…; cc_entrypoint=…; cch=…;`.
  Buffer.from('x-anthropic-billing-header:'),
];
const LINE_END = Buffer.from('\\n');
/** 1 at the first bytes of those lines. */
const MAY_BE_VOLATILE = new Uint8Array(256);
for (const line of VOLATILE_LINES) MAY_BE_VOLATILE[line[0] as number] = 1;

let valuesLeft = 0;

/** Places and offsets of the members of the objects that are being read, innermost last. */
const places = new Uint8Array(MOST_MEMBERS * (READ_LEVELS + SOURCE_LEVELS));
const offsets = new Int32Array(MOST_MEMBERS * (READ_LEVELS + SOURCE_LEVELS));
let memberCount = 0;

const NO_BYTES: Buffer = Buffer.alloc(0);

class Blocks implements PromptBlocks {
  readonly hashes: Int32Array = hashes;
  count = 0;
  bytes = 0;
}

const blocks = new Blocks();

/**
 * Reads the prompt of a scanned body.
 * @param seed uint32 of what separates caches: the model, and the account where accounts share nothing
 * @returns the same object for every call; without a dialect it has no blocks
 */
export function promptBlocks(
  body: Buffer,
  scan: ScannedBody,
  dialect: Dialect | undefined,
  seed: number,
): PromptBlocks {
  blocks.count = blocks.bytes = 0;
  if (dialect === undefined) return blocks;
  const { spans } = scan;
  valuesLeft = MOST_VALUES;
  isReadable = scan.values <= MAX_READ_VALUES;
  memberCount = 0;
  begin();
  for (let at = 0; at < OPTIONS.length; at++) putOption(body, spans, OPTIONS[at] as number);
  seedChain(seed);
  putTools(body, spans, SPAN.tools);
  putTools(body, spans, SPAN.functions);
  putSystem(body, spans, SPAN.system);
  putSystem(body, spans, SPAN.instructions);
  const conversation = SPAN[dialect.conversation];
  const start = spans[conversation] as number;
  const end = spans[conversation + 1] as number;
  if (dialect.name === 'llama') {
    putSystem(body, spans, SPAN.system_prompt);
    for (const at of INFILL) putSystem(body, spans, at);
  }
  if (start >= 0) {
    if (conversation === SPAN.prompt) putPrompt(body, start, end);
    else putMemberAt(body, start, end, putMessages);
  }
  const images = spans[SPAN.image_data] as number;
  if (dialect.name === 'llama' && images >= 0) {
    putMemberAt(body, images, spans[SPAN.image_data + 1] as number, putAttachments);
  }
  bodyTape.release();
  promptTape.release();
  text = NO_BYTES;
  blocks.bytes = sizeOf();
  blocks.count = chainBlocks();
  return blocks;
}

/** Members that change how the whole prompt is rendered, or which cache is used. */
const OPTIONS = [
  SPAN.cache_salt,
  SPAN.lora,
  SPAN.lora_path,
  SPAN.chat_template,
  SPAN.chat_template_kwargs,
  SPAN.reasoning_effort,
  SPAN.reasoning,
  SPAN.documents,
] as const;

/** In the order of llama-server's template for infills. */
const INFILL = [SPAN.input_extra, SPAN.input_prefix, SPAN.input_suffix] as const;

function putOption(body: Buffer, spans: readonly number[], at: number): void {
  const start = spans[at] as number;
  if (start < 0 || body[start] === LETTER_N) return;
  putByte(MARK_OPTION);
  putByte(at);
  putValue(body, start, spans[at + 1] as number, 0);
}

function isFilled(body: Buffer, start: number, end: number): boolean {
  if (start < 0 || body[start] === LETTER_N) return false;
  const first = body[start] as number;
  if (first === QUOTE) return end - start > 2;
  if (first !== OPEN_ARRAY) return true;
  return skipSpace(body, start + 1, end) < end - 1;
}

/** Tools as they are written but for cache marks, which are members of the tools: objects in a list. */
function putTools(body: Buffer, spans: readonly number[], at: number): void {
  const start = spans[at] as number;
  const end = spans[at + 1] as number;
  if (!isFilled(body, start, end)) return;
  putByte(MARK_TOOLS);
  putValue(body, start, end, 2);
}

function startsWith(body: Buffer, start: number, text: Buffer): boolean {
  let at = 0;
  while (at < text.length && body[start + at] === text[at]) at++;
  return at === text.length;
}

/** As `skipSpace`, for where there is mostly none. */
function nextToken(body: Buffer, at: number, end: number): number {
  return (body[at] as number) > SPACE ? at : skipSpace(body, at, end);
}

/** The next item of a list, behind the comma after the one that ends at `at`. */
function nextItem(body: Buffer, at: number, end: number): number {
  const pos = nextToken(body, at, end);
  return body[pos] === COMMA ? nextToken(body, pos + 1, end) : pos;
}

/** Appends the text of a string but for a volatile line at its beginning. `isPlain`: see `putString`. */
function putText(body: Buffer, start: number, end: number, isPlain: boolean): void {
  let from = start;
  if (MAY_BE_VOLATILE[body[start + 1] as number] !== 0) {
    for (const line of VOLATILE_LINES) {
      if (!startsWith(body, start + 1, line)) continue;
      const lineEnd = body.subarray(start, end).indexOf(LINE_END);
      if (lineEnd < 0) return;
      from = start + lineEnd;
      while (body[from] === BACKSLASH && body[from + 1] === LETTER_N) from += 2;
      from--;
      break;
    }
  }
  putString(body, from, end, isPlain);
}

// What follows reads the values of a tape.

/** The tape that is read, and its text. */
let tape = bodyTape;
let text = NO_BYTES;

/** Whether the values of the body, and of each part of it, go on a tape. */
let isReadable = false;

function read(by: JsonTape, source: Buffer): void {
  by.read(source);
  tape = by;
  text = source;
}

/** Appends a member of the body that begins at `start`, by its node. */
function putMemberAt(body: Buffer, start: number, end: number, put: (node: number) => void): void {
  if (!isReadable) return putUnread(end - start);
  read(bodyTape, body);
  const last = tape.next(JsonTape.ROOT);
  let key = tape.first(JsonTape.ROOT);
  while (key < last && tape.start(tape.valueOf(key)) !== start) key = tape.next(tape.valueOf(key));
  if (key < last) put(tape.valueOf(key));
}

function putSystem(body: Buffer, spans: readonly number[], at: number): void {
  const start = spans[at] as number;
  const end = spans[at + 1] as number;
  if (!isFilled(body, start, end)) return;
  const before = sizeOf();
  putByte(MARK_SYSTEM);
  putMemberAt(body, start, end, putContent);
  if (sizeOf() === before + 1) takeBack(before);
}

function putContent(node: number): void {
  putParts(node, READ_LEVELS);
}

/** The first byte of a value, which tells its type. */
function firstOf(node: number): number {
  return text[tape.start(node)] as number;
}

function putMessages(node: number): void {
  const first = firstOf(node);
  if (first === LETTER_N) return;
  if (first !== OPEN_ARRAY) {
    // The responses dialect takes a text for the message of a user.
    putByte(MARK_MESSAGE);
    putByte(MARK_MEMBER + ROLE_PLACE);
    for (let at = 0; at < USER.length; at++) putByte(USER[at] as number);
    putByte(MARK_MEMBER + CONTENT_PLACE);
    putContent(node);
    return;
  }
  const end = tape.next(node);
  for (let item = tape.first(node); item < end; item = tape.next(item)) {
    putByte(MARK_MESSAGE);
    if (firstOf(item) === OPEN_OBJECT) putObject(item, READ_LEVELS, true, false);
    else putScalar(item);
  }
}

/** Appends a value that is no object with known members. */
function putScalar(node: number): void {
  if (firstOf(node) === QUOTE) putText(text, tape.start(node), tape.end(node), tape.isPlain);
  else putWhole(node);
}

function putWhole(node: number): void {
  putValue(text, tape.start(node), tape.end(node), 0);
}

/** Appends a text, or the parts of a list. */
function putParts(node: number, levels: number): void {
  const first = firstOf(node);
  if (first === OPEN_OBJECT) return putObject(node, levels - 1, false, false);
  if (first === LETTER_N) return;
  if (first !== OPEN_ARRAY) return putScalar(node);
  if (levels <= 0) return putWhole(node);
  let isSeparate = false;
  const end = tape.next(node);
  for (let item = tape.first(node); item < end; item = tape.next(item)) {
    const before = sizeOf();
    if (isSeparate) putByte(MARK_PART);
    if (firstOf(item) === OPEN_OBJECT) putObject(item, levels - 1, false, false);
    else putScalar(item);
    if (isSeparate && sizeOf() === before + 1) takeBack(before);
    else if (sizeOf() > before) isSeparate = true;
  }
}

/** Appends the members of a message, a part, a call or a source in the order of their places. */
function putObject(node: number, levels: number, isMessage: boolean, isSource: boolean): void {
  if (levels <= 0) return putWhole(node);
  const base = memberCount;
  let isKnown = false;
  const end = tape.next(node);
  for (let key = tape.first(node); key < end; key = tape.next(tape.valueOf(key))) {
    const at = KEY_PLACES[tape.name(key)] as number;
    if (at < 0) continue;
    const known = KEYS[at] as Key;
    // The ids of items are the server's; those of calls are in the prompt.
    if (isMessage && known.place === ID_PLACE) continue;
    isKnown = true;
    const isData = isSource && known.place === 0;
    if (known.place > 0 || isData) {
      putMember(tape.valueOf(key), levels, known.place, isData ? KIND.attachment : known.kind, base, isSource);
    }
  }
  memberCount = base;
  // Of another kind, such as a reference to an item that the server has.
  if (!isKnown) putValue(text, tape.start(node), tape.end(node), 1);
}

/** Appends a value at its place among the members of the object that began with member `base`. */
function putMember(node: number, levels: number, place: number, kind: Kind, base: number, isSource: boolean): void {
  const from = sizeOf();
  // Of a member that is null or empty nothing remains.
  if (firstOf(node) === LETTER_N) return;
  if (kind !== KIND.bare) putByte(MARK_MEMBER + place);
  const marked = sizeOf();
  putKind(node, levels, kind, isSource);
  if (sizeOf() === marked) return takeBack(from);
  // An object has each member once; of one with more, the rest stands in the order in which it is written.
  if (memberCount - base === MOST_MEMBERS) return;
  let at = memberCount;
  while (at > base && (places[at - 1] as number) > place) at--;
  if (at < memberCount) {
    const to = offsets[at] as number;
    const length = sizeOf() - from;
    moveTo(to, from);
    for (let later = memberCount; later > at; later--) {
      places[later] = places[later - 1] as number;
      offsets[later] = (offsets[later - 1] as number) + length;
    }
    offsets[at] = to;
  } else {
    offsets[at] = from;
  }
  places[at] = place;
  memberCount++;
}

function putKind(node: number, levels: number, kind: Kind, isSource: boolean): void {
  if (kind === KIND.parts || kind === KIND.bare) return putParts(node, levels);
  if (kind === KIND.text) return putScalar(node);
  const first = firstOf(node);
  if (kind === KIND.object) {
    if (first === OPEN_OBJECT) putObject(node, levels - 1, false, false);
    else putParts(node, levels);
  } else if (first === OPEN_OBJECT) {
    putObject(node, levels - 1, false, true);
  } else if (first === QUOTE) {
    putFile(node, isSource);
  } else if (first === OPEN_ARRAY) {
    putAttachments(node);
  } else {
    putScalar(node);
  }
}

const DATA_URL = Buffer.from('data:');
/** A shorter string is an address or the name of a file. */
const ADDRESS_BYTES = 256;
/** Bytes of a string that show whether it is base64. */
const SAMPLE_BYTES = 64;

/** Appends the string of an attachment: by its content, or as the text that it is. */
function putFile(node: number, isSource: boolean): void {
  let content = text;
  let from = tape.start(node) + 1;
  let to = tape.end(node) - 1;
  // Some writers escape the slashes of base64. A view without a copy keeps the search inside the string.
  if (content.subarray(from, to).includes(BACKSLASH)) {
    content = Buffer.from(tape.string(node) ?? '');
    from = 0;
    to = content.length;
  }
  if (startsWith(content, from, DATA_URL)) {
    const comma = content.indexOf(COMMA, from);
    if (comma > 0 && comma < to) from = comma + 1;
  } else if (isSource && to - from > ADDRESS_BYTES && !isBase64(content, from)) {
    return putString(text, tape.start(node), tape.end(node), tape.isPlain);
  }
  if (to > from) putAttachment(content, from, to);
}

function isBase64(body: Buffer, from: number): boolean {
  for (let pos = from; pos < from + SAMPLE_BYTES; pos++) {
    const byte = body[pos] as number;
    const letter = byte | 0x20;
    const isLetter = letter >= 0x61 && letter <= 0x7a;
    // Digits, `+`, `/`, and `-` and `_` of base64url.
    if (!isLetter && !(byte >= 0x2f && byte <= 0x39) && byte !== 0x2b && byte !== MINUS && byte !== 0x5f) return false;
  }
  return true;
}

/** Appends a prompt: a text, tokens, a list of either, or an object with a text and attachments. Several prompts follow one another. */
function putPrompt(body: Buffer, start: number, end: number): void {
  const first = body[start];
  if (first === OPEN_OBJECT) return putPromptObject(body, start, end);
  if (first !== OPEN_ARRAY) {
    if (isFilled(body, start, end)) putOne(body, start, end);
    return;
  }
  let depth = 0;
  let isTokens = false;
  let isSeparate = false;
  let pos = start;
  while (pos < end) {
    const byte = body[pos] as number;
    if (byte === OPEN_ARRAY) {
      depth++;
      if (depth > 1 && isSeparate) putByte(MARK_PART);
      isTokens = false;
      pos++;
    } else if (byte === OPEN_ARRAY + 2 || byte === COMMA) {
      pos++;
    } else if ((byte >= 0x30 && byte <= 0x39) || byte === MINUS) {
      if (!isTokens) putByte(MARK_TOKENS);
      isTokens = isSeparate = true;
      pos = putTokens(body, pos, end);
    } else {
      if (valuesLeft-- <= 0) return putUnread(end - pos);
      const valueEnd = skipValue(body, pos, end, 0, CHECKED_DEPTH);
      if (valueEnd < 0) return;
      if (isSeparate) putByte(MARK_PART);
      isTokens = false;
      isSeparate = true;
      if (byte === OPEN_OBJECT) putPromptObject(body, pos, valueEnd);
      else putOne(body, pos, valueEnd);
      pos = valueEnd;
    }
    pos = skipSpace(body, pos, end);
  }
}

/** Appends a value of a prompt that is no object. */
function putOne(body: Buffer, start: number, end: number): void {
  if (body[start] === QUOTE) putText(body, start, end, body === bodyTape.body && bodyTape.isPlain);
  else putValue(body, start, end, 0);
}

/** Appends the numbers from `start` on as tokens, up to what is no number; returns what follows the last one. */
function putTokens(body: Buffer, start: number, end: number): number {
  let pos = start;
  for (;;) {
    const first = pos;
    let id = 0;
    let byte = body[pos] as number;
    while (byte >= 0x30 && byte <= 0x39) {
      id = (Math.imul(id, 10) + byte - 0x30) | 0;
      byte = body[++pos] as number;
    }
    if (pos === first || byte === 0x2e || (byte | 0x20) === 0x65) {
      // Negative, or with a fraction or an exponent: most are no tokens, and servers refuse them.
      if (valuesLeft-- <= 0) {
        putUnread(end - first);
        return end;
      }
      pos = skipValue(body, first, end, 0, 1);
      if (pos < 0) return end;
      id = Number(body.toString('latin1', first, pos)) | 0;
    }
    putToken(id);
    const next = nextItem(body, pos, end);
    byte = body[next] as number;
    if (byte < 0x30 || byte > 0x39 || next === pos) return pos;
    pos = next;
  }
}

/** The values of one object in a prompt. */
const promptTape = new JsonTape();

/** llama-server: `{ prompt_string, multimodal_data: [base64, …] }`. */
function putPromptObject(body: Buffer, start: number, end: number): void {
  if (!isReadable) return putUnread(end - start);
  read(promptTape, body.subarray(start, end));
  const prompt = tape.member(JsonTape.ROOT, NAME.prompt_string);
  if (prompt < 0) return putWhole(JsonTape.ROOT);
  putScalar(prompt);
  putAttachments(tape.member(JsonTape.ROOT, NAME.multimodal_data));
}

/** Appends a list of attachments: strings of base64, or objects with one as `data`. */
function putAttachments(node: number): void {
  if (!tape.isArray(node)) return;
  const end = tape.next(node);
  for (let item = tape.first(node); item < end; item = tape.next(item)) {
    putByte(MARK_PART);
    const first = firstOf(item);
    if (first === QUOTE) putFile(item, true);
    else if (first === OPEN_OBJECT) putObject(item, SOURCE_LEVELS, false, true);
    else putScalar(item);
  }
}
