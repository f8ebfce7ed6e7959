// How many prompts a completions request brings: `prompt` is one text, one array of tokens, or an array of either, and every
// prompt of such an array gets answers of its own. Called for requests that are charged, before their price is held.

import { COMMA, OPEN_ARRAY, QUOTE, skipSpace, skipValue } from './members.ts';

/** A prompt is a text or an array of tokens; what nests deeper than any body may by default is none. */
const PROMPT_MAX_DEPTH = 256;

/** Prompts in the JSON value from `start` to `end`; 1 for all that is no list of texts or of arrays, and for none (-1). */
export function promptsIn(body: Buffer, start: number, end: number): number {
  if (start < 0 || body[start] !== OPEN_ARRAY) return 1;
  let pos = skipSpace(body, start + 1, end);
  const first = body[pos];
  if (first !== QUOTE && first !== OPEN_ARRAY) return 1;
  for (let prompts = 1; ; prompts++) {
    pos = skipSpace(body, skipValue(body, pos, end, 0, PROMPT_MAX_DEPTH), end);
    if (body[pos] !== COMMA) return prompts;
    pos = skipSpace(body, pos + 1, end);
    // Texts mixed with tokens are the parts of one prompt.
    if (body[pos] !== first) return 1;
  }
}
