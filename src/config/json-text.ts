// Parses JSON that a stranger wrote: a page, a search engine, a server, a file.

/** V8 14.6 corrupts its memory when it refuses an object that is nested some 10,000 levels deep, and the process ends. */
const MAX_DEPTH = 1000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;

/** As `JSON.parse`. Throws a `SyntaxError` also for text that is nested deeper than 1000 levels. */
export function parseJson(text: string): unknown {
  if (text.length > MAX_DEPTH && isTooDeep(text))
    throw new SyntaxError(`JSON is nested deeper than ${MAX_DEPTH} levels`);
  return JSON.parse(text);
}

/** Right up to the first mistake in the text, where the parser stops. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = closingQuote(text, at);
      if (at < 0) return false;
    } else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
      if (++depth > MAX_DEPTH) return true;
    } else if (code === OPEN_ARRAY + TO_CLOSING || code === OPEN_OBJECT + TO_CLOSING) {
      depth--;
    }
  }
  return false;
}

/** Position of the quote that closes the string opened at `opening`; -1 without one. */
function closingQuote(text: string, opening: number): number {
  for (let at = text.indexOf('"', opening + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let before = at;
    while (text.charCodeAt(before - 1) === BACKSLASH) before--;
    if ((at - before) % 2 === 0) return at;
  }
  return -1;
}
