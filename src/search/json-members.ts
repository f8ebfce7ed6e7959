// Reads some members of a JSON text (RFC 8259) from its bytes. Neither the text nor the other members are made, which would take
// most of the memory of a response. What is read equals what `JSON.parse` gives for these members.

import { parseJson } from '../config/json-text.ts';
import { strippedAscii } from './text.ts';

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPENING_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/** Far above any page of results: text of more levels is left to `JSON.parse`, which needs no stack for them. */
const MAX_DEPTH = 32;

/** Stands for a string with escapes. Greater than any bytes in one, and stays through every byte after it. */
const ESCAPED = 0x7fffffff;

const NO_BYTES = Buffer.alloc(0);

/** Text that is malformed or needs `JSON.parse`. */
const UNREADABLE = new SyntaxError('not readable by members');

/** Reads the members of the given names, in objects at any depth. */
export class JsonMembers {
  readonly #names: readonly string[];
  readonly #texts: ReadonlySet<string>;
  #bytes: Buffer = NO_BYTES;
  #at = 0;
  #depth = 0;

  /**
   * Names of ASCII characters. `texts`: those of text with markup, for `plainText` alone; some of it is stripped as it is read, which
   * takes half of the memory.
   */
  constructor(names: readonly string[], texts: readonly string[] = []) {
    this.#names = names;
    this.#texts = new Set(texts);
  }

  /** The value with only these members in its objects; undefined for malformed and unusual text. */
  read(bytes: Buffer): unknown {
    this.#bytes = bytes;
    this.#at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
    this.#depth = 0;
    try {
      const value = this.#value(true);
      return this.#next() === undefined ? value : undefined;
    } catch {
      return undefined;
    } finally {
      this.#bytes = NO_BYTES;
    }
  }

  /** The next byte that is no white space; undefined at the end. */
  #next(): number | undefined {
    const bytes = this.#bytes;
    for (;;) {
      const byte = bytes[this.#at];
      if (byte !== SPACE && byte !== LINE_FEED && byte !== CARRIAGE_RETURN && byte !== TAB) return byte;
      this.#at++;
    }
  }

  #expect(byte: number): void {
    if (this.#next() !== byte) throw UNREADABLE;
    this.#at++;
  }

  /** Passes the byte if it is the next. */
  #passes(byte: number): boolean {
    if (this.#next() !== byte) return false;
    this.#at++;
    return true;
  }

  /** The value, which may be a text; undefined where it is not wanted. */
  #value(isWanted: boolean, isText = false): unknown {
    switch (this.#next()) {
      case QUOTE:
        return this.#string(isWanted, isText);
      case OPENING_BRACE:
        return this.#object(isWanted);
      case OPENING_BRACKET:
        return this.#array(isWanted);
      default:
        return this.#literal();
    }
  }

  #object(isWanted: boolean): unknown {
    const made: Record<string, unknown> | undefined = isWanted ? {} : undefined;
    this.#enter();
    if (!this.#passes(CLOSING_BRACE)) {
      do {
        this.#next();
        const name = this.#name();
        this.#expect(COLON);
        const value = this.#value(isWanted && name !== undefined, name !== undefined && this.#texts.has(name));
        if (made !== undefined && name !== undefined) made[name] = value;
      } while (this.#passes(COMMA));
      this.#expect(CLOSING_BRACE);
    }
    this.#depth--;
    return made;
  }

  #array(isWanted: boolean): unknown {
    const made: unknown[] | undefined = isWanted ? [] : undefined;
    this.#enter();
    if (!this.#passes(CLOSING_BRACKET)) {
      do {
        const value = this.#value(isWanted);
        made?.push(value);
      } while (this.#passes(COMMA));
      this.#expect(CLOSING_BRACKET);
    }
    this.#depth--;
    return made;
  }

  #enter(): void {
    this.#at++;
    if (++this.#depth > MAX_DEPTH) throw UNREADABLE;
  }

  /** The name of a member; undefined for all but the names wanted. */
  #name(): string | undefined {
    const from = this.#at + 1;
    if (this.#bytes[this.#at] !== QUOTE) throw UNREADABLE;
    const seen = this.#passString();
    if (seen === ESCAPED) throw UNREADABLE;
    const length = this.#at - 1 - from;
    for (let index = 0; index < this.#names.length; index++) {
      const name = this.#names[index] as string;
      if (name.length === length && this.#isAt(from, name)) return name;
    }
    return undefined;
  }

  #isAt(from: number, name: string): boolean {
    for (let at = 0; at < name.length; at++) if (this.#bytes[from + at] !== name.charCodeAt(at)) return false;
    return true;
  }

  #string(isWanted: boolean, isText: boolean): unknown {
    const from = this.#at;
    const seen = this.#passString();
    // Checks the escapes, too.
    if (seen === ESCAPED) return parseJson(this.#bytes.toString('utf8', from, this.#at));
    if (!isWanted) return undefined;
    const [start, end] = [from + 1, this.#at - 1];
    if (seen >= 0x80) return this.#bytes.toString('utf8', start, end);
    return (isText ? strippedAscii(this.#bytes, start, end) : undefined) ?? this.#bytes.toString('latin1', start, end);
  }

  /** Passes a string with its quotes: gives all its bytes in one, or `ESCAPED`. */
  #passString(): number {
    const bytes = this.#bytes;
    let seen = 0;
    for (let at = this.#at + 1; ; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.#at = at + 1;
        return seen;
      }
      if (byte === undefined || byte < SPACE) throw UNREADABLE;
      if (byte === BACKSLASH) {
        seen = ESCAPED;
        at++;
      } else {
        seen |= byte;
      }
    }
  }

  /** A number, `true`, `false` or `null`. */
  #literal(): unknown {
    const from = this.#at;
    while (isOfLiteral(this.#bytes[this.#at])) this.#at++;
    return parseJson(this.#bytes.toString('latin1', from, this.#at));
  }
}

/** Letters, digits and `+`, `-`, `.`. */
function isOfLiteral(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const letter = byte | 0x20;
  return (
    (letter >= 0x61 && letter <= 0x7a) ||
    (byte >= 0x30 && byte <= 0x39) ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e
  );
}
