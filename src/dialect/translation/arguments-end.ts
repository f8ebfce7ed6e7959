// Finds the end of the arguments of a tool call, which come as the pieces of a JSON string that holds JSON. Nothing is kept of them.

import { parseJson } from '../../config/json-text.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
/** In ASCII both closing brackets are their opening bracket plus two. */
const TO_CLOSING = 2;

export class ArgumentsEnd {
  /** Whether the arguments are complete, or no more of them is expected. */
  reached = false;
  /** Whether any of them have come. */
  seen = false;
  #depth = 0;
  #inText = false;
  /** The next character is escaped. */
  #escaped = false;

  /**
   * Reads on in `[start, end)`, the content of a JSON string as it is written; escapes are not cut.
   * @returns the offset behind the arguments, at most `end`
   */
  find(bytes: Buffer, start: number, end: number): number {
    if (this.reached) return start;
    if (end > start) this.seen = true;
    let pos = start;
    while (pos < end) {
      let char = bytes[pos++] as number;
      if (char === BACKSLASH) {
        char = bytes[pos++] as number;
        if (char === LETTER_U) {
          char = Number.parseInt(bytes.toString('latin1', pos, pos + 4), 16);
          pos += 4;
        } else if (char !== QUOTE && char !== BACKSLASH) {
          // Line ends and the like have no meaning here.
          char = 0;
        }
      }
      if (this.#escaped) this.#escaped = false;
      else if (this.#inText) {
        if (char === BACKSLASH) this.#escaped = true;
        else if (char === QUOTE) this.#inText = false;
      } else if (char === QUOTE) this.#inText = true;
      else if (char === OPEN_OBJECT || char === OPEN_ARRAY) this.#depth++;
      else if ((char === OPEN_OBJECT + TO_CLOSING || char === OPEN_ARRAY + TO_CLOSING) && --this.#depth === 0) {
        this.reached = true;
        return pos;
      }
    }
    return end;
  }
}

/** The arguments in `text`, without what models write behind them, such as one bracket too many. */
export function argumentsIn(text: string): string {
  const json = Buffer.from(JSON.stringify(text));
  const end = new ArgumentsEnd().find(json, 1, json.length - 1);
  return end === json.length - 1 ? text : (parseJson(`${json.toString('utf8', 0, end)}"`) as string);
}
