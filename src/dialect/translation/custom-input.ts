// The input of a custom tool, which is a text, out of the JSON arguments `{"input": "…"}` that a model writes for the function in its
// place. While the arguments come, the text in them is given out as far as it is complete.

import { parseJson } from '../../config/json-text.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';

const OPENING = /^\s*\{\s*"input"\s*:\s*"/;
/** Arguments that have not begun like that by now are others. */
const MAX_OPENING_CHARS = 64;
/** The inside of a JSON string as far as it is complete. Pairs of escaped surrogates are not cut. */
const INSIDE = /^(?:[^"\\]+|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[\da-fA-F]{4}|u[\da-fA-F]{4}\\u[\da-fA-F]{4}))*/;
/** What is longer and begins no inside is no escape. */
const MAX_ESCAPE_CHARS = 12;
/** Models forget to escape line ends, and servers cut characters into surrogates, which UTF-8 does not have alone. */
const TO_ESCAPE = /[\p{Cc}\p{Cs}]/gu;

export class CustomInput {
  #state: 'opening' | 'inside' | 'over' = 'opening';
  /** Arguments that have not been given out. */
  #rest = '';
  /** UTF-16 units of the input that have been given out. */
  given = 0;

  /**
   * Takes more of the arguments.
   * @returns more of the input, as it is written between the quotes of JSON
   */
  add(text: string): string {
    if (this.#state === 'over') return '';
    this.#rest += text;
    if (this.#state === 'opening') {
      const [opening] = OPENING.exec(this.#rest) ?? [];
      if (opening !== undefined) {
        this.#state = 'inside';
        this.#rest = this.#rest.slice(opening.length);
      } else if (this.#rest.length > MAX_OPENING_CHARS) this.#state = 'over';
    }
    if (this.#state !== 'inside') return '';
    const [inside = ''] = INSIDE.exec(this.#rest) ?? [];
    this.#rest = this.#rest.slice(inside.length);
    if (this.#rest.startsWith('"') || this.#rest.length >= MAX_ESCAPE_CHARS) this.#state = 'over';
    const escaped = inside.replace(TO_ESCAPE, (char) => JSON.stringify(char).slice(1, -1));
    this.given += (parseJson(`"${escaped}"`) as string).length;
    return escaped;
  }
}

/** The input in whole arguments. Those that are not written as they should be are the input themselves. */
export function customInputOf(args: string): string {
  const { input } = membersOf(parsedJson(args));
  if (typeof input === 'string') return input;
  const custom = new CustomInput();
  const inside = custom.add(args);
  return custom.given === 0 ? args : (parseJson(`"${inside}"`) as string);
}
