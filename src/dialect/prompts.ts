// How many prompts a completions request brings: `prompt` is one text, one array of tokens, or an array of either, and every
// prompt of such an array gets answers of its own. Called for requests that are charged, before their price is held.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN = 0x5b;
const CLOSE = 0x5d;

/** Prompts in the JSON value from `start` to `end`; 1 for all that is no list of texts or of arrays, and for none (-1). */
export function promptsIn(body: Buffer, start: number, end: number): number {
  if (start < 0 || body[start] !== OPEN) return 1;
  const first = body[skipSpace(body, start + 1, end)];
  if (first !== QUOTE && first !== OPEN) return 1;
  let prompts = 1;
  let depth = 0;
  for (let at = start; at < end; at++) {
    const byte = body[at];
    if (byte === QUOTE) at = endOfText(body, at, end);
    else if (byte === OPEN) depth++;
    else if (byte === CLOSE) depth--;
    else if (byte === COMMA && depth === 1) {
      prompts++;
      // Texts mixed with tokens are the parts of one prompt.
      if (body[skipSpace(body, at + 1, end)] !== first) return 1;
    }
  }
  return prompts;
}

function skipSpace(body: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && body[at]! <= 0x20) at++;
  return at;
}

/** Place of the quote that closes the text whose first quote is at `from`. */
function endOfText(body: Buffer, from: number, end: number): number {
  for (let at = body.indexOf(QUOTE, from + 1); at >= 0 && at < end; at = body.indexOf(QUOTE, at + 1)) {
    let escapes = 0;
    while (body[at - 1 - escapes] === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return at;
  }
  return end;
}
