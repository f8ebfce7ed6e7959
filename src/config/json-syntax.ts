// What is wrong with JSON text, before it is parsed and after: brackets that are nested too deep, and the position of a syntax error for
// the 422 entry of a broken body. Positions are those of Python's `json` module, in code points. Nesting is kept in a list, so that no
// input can exhaust the stack.

/** Names by the code of their first letter. */
const WORDS: Readonly<Record<number, string>> = { 0x74: 'true', 0x66: 'false', 0x6e: 'null' };
/** 1 at the characters that follow a backslash. */
const IS_ESCAPE = new Uint8Array(128);
for (const character of '"\\/bfnrtu') IS_ESCAPE[character.charCodeAt(0)] = 1;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const PLUS = 0x2b;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const LETTER_E = 0x65;
const LETTER_U = 0x75;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Bytes of a string that are read one by one before the rest is searched. */
const NEAR_BYTES = 64;

/** Position of the first bracket of an object or list in UTF-8 that is nested deeper than `maxDepth`; -1: there is none. */
export function tooDeepAt(body: Uint8Array, maxDepth: number): number {
  let depth = 0;
  // Decoders drop a byte order mark, and what follows is parsed.
  const start = BYTE_ORDER_MARK.every((byte, at) => body[at] === byte) ? BYTE_ORDER_MARK.length : 0;
  for (let at = start; at < body.length; at++) {
    const byte = body[at] as number;
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++depth > maxDepth) return charactersIn(body, start, at);
    } else if (byte === OPEN_OBJECT + TO_CLOSING || byte === OPEN_ARRAY + TO_CLOSING) {
      depth--;
    } else if (byte === QUOTE) {
      at = closingQuote(body, at);
    } else if (depth === 0 && !isSpace(byte)) {
      // Neither an object nor a list, such as a form.
      return -1;
    }
  }
  return -1;
}

/** Whether JSON in UTF-8 has more than `most` brackets that open, commas and colons: about as many as values and keys. */
export function hasMoreValues(body: Uint8Array, most: number): boolean {
  let values = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at] as number;
    if (byte === QUOTE) {
      at = closingQuote(body, at);
    } else if (byte === COMMA || byte === COLON || byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++values > most) return true;
    }
  }
  return false;
}

/** Place of the quote that closes the string opened at `opening`; the length of the body without one. */
function closingQuote(body: Uint8Array, opening: number): number {
  let at = opening + 1;
  for (;;) {
    // Short strings are read faster here, images by `indexOf`.
    for (const near = Math.min(at + NEAR_BYTES, body.length); at < near; at++) {
      const byte = body[at] as number;
      if (byte === QUOTE) return at;
      if (byte === BACKSLASH) at++;
    }
    const quote = body.indexOf(QUOTE, at);
    if (quote < 0) return body.length;
    let before = quote;
    while (before > at && body[before - 1] === BACKSLASH) before--;
    if ((quote - before) % 2 === 0) return quote;
    at = quote + 1;
  }
}

function charactersIn(body: Uint8Array, start: number, end: number): number {
  let count = 0;
  // Further bytes of a character are no position of their own.
  for (let at = start; at < end; at++) if (((body[at] as number) & 0xc0) !== 0x80) count++;
  return count;
}

/** Offset of the first mistake in `text`, in code points; the length of the text when it has none. Takes a few milliseconds for a megabyte. */
export function jsonMistakeOffset(text: string): number {
  const at = firstMistake(text);
  let offset = at;
  for (let i = 0; i + 1 < at; i++) {
    if (!isHighSurrogate(text.charCodeAt(i)) || !isLowSurrogate(text.charCodeAt(i + 1))) continue;
    offset--;
    i++;
  }
  return offset;
}

function isHighSurrogate(code: number): boolean {
  return (code & 0xfc00) === 0xd800;
}

function isLowSurrogate(code: number): boolean {
  return (code & 0xfc00) === 0xdc00;
}

/** The same place in UTF-16 units. One turn of the loop reads one value, after its key when it stands in an object. */
function firstMistake(text: string): number {
  /** Brackets that close what is open, but for the innermost one. */
  const open: number[] = [];
  /** The bracket that closes the innermost object or list; 0 outside of all. */
  let closing = 0;
  let at = skipSpace(text, 0);
  for (;;) {
    if (closing === OPEN_OBJECT + TO_CLOSING) {
      if (text.charCodeAt(at) !== QUOTE) return at;
      at = readString(text, at);
      if (at < 0) return ~at;
      at = skipSpace(text, at);
      if (text.charCodeAt(at) !== COLON) return at;
      at = skipSpace(text, at + 1);
    }
    const first = text.charCodeAt(at);
    if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
      open.push(closing);
      closing = first + TO_CLOSING;
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== closing) continue;
    } else {
      at = first === QUOTE ? readString(text, at) : readScalar(text, at, first);
      if (at < 0) return ~at;
      at = skipSpace(text, at);
    }
    while (closing !== 0 && text.charCodeAt(at) === closing) {
      closing = open.pop() as number;
      at = skipSpace(text, at + 1);
    }
    if (closing === 0 || text.charCodeAt(at) !== COMMA) return at;
    at = skipSpace(text, at + 1);
  }
}

/** The place behind a name or a number (RFC 8259 §3 and §6) that begins with `first`, or `~place` of the mistake. */
function readScalar(text: string, start: number, first: number): number {
  const word = WORDS[first];
  if (word !== undefined) return text.startsWith(word, start) ? start + word.length : ~start;
  const digits = first === MINUS ? start + 1 : start;
  let end = text.charCodeAt(digits) === ZERO ? digits + 1 : skipDigits(text, digits);
  if (end === digits) return ~start;
  if (text.charCodeAt(end) === POINT) {
    const fraction = skipDigits(text, end + 1);
    if (fraction > end + 1) end = fraction;
  }
  if ((text.charCodeAt(end) | 0x20) === LETTER_E) {
    const sign = text.charCodeAt(end + 1);
    const from = sign === PLUS || sign === MINUS ? end + 2 : end + 1;
    const exponent = skipDigits(text, from);
    if (exponent > from) end = exponent;
  }
  return end;
}

function skipDigits(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at++;
  return at;
}

/** The place behind a string, or `~place` of the mistake in it. */
function readString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) return i + 1;
    if (code < 0x20) return ~i;
    if (code !== BACKSLASH || i + 1 === text.length) continue;
    const escape = text.charCodeAt(i + 1);
    if (escape >= IS_ESCAPE.length || IS_ESCAPE[escape] !== 1) return ~i;
    i++;
    if (escape !== LETTER_U) continue;
    for (let digit = i + 1; digit <= i + 4; digit++) if (!isHexDigit(text.charCodeAt(digit))) return ~i;
  }
  return ~start;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= ZERO + 9;
}

function isHexDigit(code: number): boolean {
  const letter = code | 0x20;
  return isDigit(code) || (letter >= 0x61 && letter <= 0x66);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}
