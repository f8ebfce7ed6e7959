// What is wrong with JSON text, before it is parsed and after: brackets that are nested too deep, and the position of a syntax error for
// the 422 entry of a broken body. Positions are those of Python's `json` module, in code points. Nesting is kept in a list, so that no
// input can exhaust the stack.

const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const FOUR_HEX_DIGITS = /[\da-fA-F]{4}/y;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;

/** Position of the first bracket of an object or list in UTF-8 that is nested deeper than `maxDepth`; -1: there is none. */
export function tooDeepAt(body: Uint8Array, maxDepth: number): number {
  let depth = 0;
  let position = -1;
  let isText = false;
  let isEscaped = false;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at] as number;
    // Further bytes of a character are no position of their own.
    if ((byte & 0xc0) !== 0x80) position++;
    if (isText) {
      if (isEscaped) isEscaped = false;
      else if (byte === BACKSLASH) isEscaped = true;
      else if (byte === QUOTE) isText = false;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (++depth > maxDepth) return position;
    } else if (byte === OPEN_OBJECT + TO_CLOSING || byte === OPEN_ARRAY + TO_CLOSING) {
      depth--;
    } else if (byte === QUOTE) {
      isText = true;
    } else if (depth === 0 && !isSpace(byte)) {
      // Neither an object nor a list, such as a form.
      return -1;
    }
  }
  return -1;
}

/** Offset of the first mistake in `text`, in code points; the length of the text when it has none. */
export function jsonMistakeOffset(text: string): number {
  const at = firstMistake(text);
  let offset = at;
  for (let i = 0; i < at; i++) {
    if ((text.codePointAt(i) as number) > 0xffff) {
      offset--;
      i++;
    }
  }
  return offset;
}

/** The same place in UTF-16 units. One turn of the loop reads one value, after its key when it stands in an object. */
function firstMistake(text: string): number {
  /** Brackets that close what is open. */
  const open: number[] = [];
  let at = skipSpace(text, 0);
  for (;;) {
    if (open.at(-1) === OPEN_OBJECT + TO_CLOSING) {
      if (text.charCodeAt(at) !== QUOTE) return at;
      at = readString(text, at);
      if (at < 0) return ~at;
      at = skipSpace(text, at);
      if (text.charCodeAt(at) !== COLON) return at;
      at = skipSpace(text, at + 1);
    }
    const first = text.charCodeAt(at);
    if (first === OPEN_OBJECT || first === OPEN_ARRAY) {
      open.push(first + TO_CLOSING);
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== first + TO_CLOSING) continue;
    } else {
      at = first === QUOTE ? readString(text, at) : readScalar(text, at);
      if (at < 0) return ~at;
      at = skipSpace(text, at);
    }
    while (open.length > 0 && text.charCodeAt(at) === open.at(-1)) {
      open.pop();
      at = skipSpace(text, at + 1);
    }
    if (open.length === 0 || text.charCodeAt(at) !== COMMA) return at;
    at = skipSpace(text, at + 1);
  }
}

/** The place behind a scalar, or `~place` of the mistake. */
function readScalar(text: string, start: number): number {
  SCALAR.lastIndex = start;
  return SCALAR.test(text) ? SCALAR.lastIndex : ~start;
}

/** The place behind a string, or `~place` of the mistake in it. */
function readString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) return i + 1;
    if (code < 0x20) return ~i;
    if (code !== BACKSLASH || i + 1 === text.length) continue;
    if (!'"\\/bfnrtu'.includes(text[i + 1] as string)) return ~i;
    i++;
    FOUR_HEX_DIGITS.lastIndex = i + 1;
    if (text[i] === 'u' && !FOUR_HEX_DIGITS.test(text)) return ~i;
  }
  return ~start;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}
