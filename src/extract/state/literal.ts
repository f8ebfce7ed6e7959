// Parses JavaScript literals without running code: JSON with the errors that pages make, object literals of scripts, and the
// function call that Nuxt 2 writes. Bounded in depth and in the number of values; linear in the length of the text.

import { parseJson } from '../../config/json-text.ts';

/** Deeper values end the parse. */
const MAX_DEPTH = 250;
const MAX_VALUES = 500_000;

/** Thrown where the text is not a literal; never leaves this file. */
class NotLiteral extends Error {}

export interface Literal {
  /** Undefined where there is no literal. */
  readonly value: unknown;
  /** One past the last character of the literal, or past what was read until the text turned out to be none. */
  readonly end: number;
}

/** The literal at `from`. Identifiers are `undefined`. */
export function parseLiteral(text: string, from = 0): Literal {
  const reader = new LiteralReader(text, from);
  return literalOf(reader, () => reader.value(0));
}

/**
 * The result of `(function(a,b){a.x=1;return {…}}(1,"two"))`, where statements before `return` are assignments to properties
 * of parameters.
 */
export function parseCall(text: string, from = 0): Literal {
  const reader = new LiteralReader(text, from);
  return literalOf(reader, () => reader.call());
}

function literalOf(reader: LiteralReader, read: () => unknown): Literal {
  try {
    const value = read();
    return { value, end: reader.at };
  } catch (error) {
    // JSON in strings of JSON may be nested deeper than the stack.
    if (!(error instanceof NotLiteral || error instanceof RangeError)) throw error;
    return { value: undefined, end: reader.at };
  }
}

/** Objects as keys have no use, and to write one as a text may fail or take long. */
function keyOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) throw new NotLiteral();
  return String(value);
}

const IDENTIFIER = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /[+-]?(?:0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)n?/y;
const BLANK = /[\s\ufeff]+|\/\/[^\n\r]*/y;
const SLASH = 47;
/** Characters of a string up to its end, an escape or a line end. */
const PLAIN: Readonly<Record<string, RegExp>> = {
  '"': /[^"\\]*/y,
  "'": /[^'\\]*/y,
  '`': /[^`\\$]*/y,
};
const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', 0: '\0' };

const CONSTANTS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['true', true],
  ['false', false],
  ['null', null],
  ['undefined', undefined],
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
]);

class LiteralReader {
  readonly #text: string;
  #names: ReadonlyMap<string, unknown> = new Map();
  #values = 0;
  /** Characters of texts that were parsed as JSON. */
  #parsed = 0;
  at: number;

  constructor(text: string, from: number) {
    this.#text = text;
    this.at = from;
  }

  value(depth: number): unknown {
    if (depth > MAX_DEPTH || ++this.#values > MAX_VALUES) throw new NotLiteral();
    this.#skip();
    const character = this.#text[this.at] ?? '';
    switch (character) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(']', depth);
      case '"':
      case "'":
      case '`':
        return this.#string(character);
      case '(': {
        this.at++;
        const inner = this.value(depth + 1);
        this.#expect(')');
        return inner;
      }
      case '!':
        this.at++;
        return !(this.value(depth + 1) as boolean);
      default: {
        const number = this.#match(NUMBER);
        return number === '' ? this.#named(depth) : numberOf(number);
      }
    }
  }

  /** Reads a function call; see `parseCall`. */
  call(): unknown {
    const wraps = this.#accept('(');
    if (this.#word() !== 'function') throw new NotLiteral();
    this.#word();
    this.#expect('(');
    const parameters: string[] = [];
    while (!this.#accept(')')) {
      const name = this.#word();
      if (name === '') throw new NotLiteral();
      parameters.push(name);
      this.#accept(',');
    }
    this.#expect('{');
    const body = this.at;
    this.at = this.#bodyEnd();
    const closesFirst = wraps && this.#accept(')');
    this.#expect('(');
    const values = this.#array(')', 0);
    if (wraps && !closesFirst) this.#accept(')');
    const { at } = this;
    this.#names = new Map(parameters.map((name, index) => [name, values[index]]));
    this.at = body;
    const value = this.#body();
    this.at = at;
    return value;
  }

  /** One past the brace that closes the body at hand. */
  #bodyEnd(): number {
    const text = this.#text;
    let depth = 1;
    while (this.at < text.length) {
      const character = text[this.at] as string;
      if (PLAIN[character] !== undefined) {
        this.#string(character);
        continue;
      }
      this.at++;
      if (character === '{') depth++;
      if (character === '}' && --depth === 0) return this.at;
    }
    throw new NotLiteral();
  }

  /** Assignments, and the value that is returned. */
  #body(): unknown {
    for (;;) {
      const name = this.#word();
      if (name === 'return') return this.value(0);
      if (name === '' || !this.#names.has(name)) throw new NotLiteral();
      this.#assign(this.#names.get(name));
      if (!this.#accept(';') && !this.#accept(',')) throw new NotLiteral();
    }
  }

  /** Reads `.a["b"]=value` and sets the property. */
  #assign(root: unknown): void {
    let owner = root;
    for (;;) {
      const key = this.#accept('.') ? this.#word() : this.#index();
      if (this.#accept('=')) {
        const value = this.value(0);
        if (Array.isArray(owner)) this.#setElement(owner, key, value);
        else if (typeof owner === 'object' && owner !== null) define(owner, key, value);
        return;
      }
      owner = propertyOf(owner, key);
    }
  }

  /** The elements that an index leaves out count: one assignment makes an array of any length. */
  #setElement(array: unknown[], key: string, value: unknown): void {
    if (!/^\d{1,6}$/.test(key)) return;
    this.#values += Math.max(Number(key) - array.length, 0);
    if (this.#values > MAX_VALUES) throw new NotLiteral();
    array[Number(key)] = value;
  }

  #index(): string {
    this.#expect('[');
    const key = keyOf(this.value(0));
    this.#expect(']');
    return key;
  }

  #object(depth: number): Record<string, unknown> {
    this.at++;
    const object: Record<string, unknown> = {};
    for (;;) {
      this.#skipCommas();
      if (this.#accept('}')) return object;
      const key = this.#key(depth);
      if (this.#accept(':')) define(object, key, this.value(depth + 1));
      else define(object, key, this.#names.get(key));
      this.#skip();
      if (!',}'.includes(this.#text[this.at] ?? ' ')) throw new NotLiteral();
    }
  }

  #key(depth: number): string {
    const character = this.#text[this.at] ?? '';
    if (character === '"' || character === "'") return this.#string(character);
    if (character === '[') {
      this.at++;
      const key = keyOf(this.value(depth + 1));
      this.#expect(']');
      return key;
    }
    const key = this.#match(IDENTIFIER) || this.#match(NUMBER);
    if (key === '') throw new NotLiteral();
    return key;
  }

  /** Values up to `close`, for arrays and for arguments. */
  #array(close: ')' | ']', depth: number): unknown[] {
    if (close === ']') this.at++;
    const values: unknown[] = [];
    for (;;) {
      this.#skipCommas();
      if (this.#accept(close)) return values;
      values.push(this.value(depth + 1));
      this.#skip();
      if (this.#text[this.at] !== ',' && this.#text[this.at] !== close) throw new NotLiteral();
    }
  }

  /** A constant, a bound name, or one of the calls that state serialisers write. */
  #named(depth: number): unknown {
    const name = this.#word();
    if (name === '') throw new NotLiteral();
    if (name === 'void') {
      this.value(depth + 1);
      return undefined;
    }
    if (name === 'new') {
      const [first] = this.#arguments(this.#word(), depth);
      return first;
    }
    if (CONSTANTS.has(name)) return CONSTANTS.get(name);
    let path = name;
    while (this.#text[this.at] === '.') {
      this.at++;
      path += `.${this.#word()}`;
    }
    if (this.#text[this.at] !== '(') return path === name ? this.#names.get(name) : undefined;
    const [first] = this.#arguments(path, depth);
    if (path === 'JSON.parse' && typeof first === 'string') {
      // Texts that are written here are shorter together; a name may stand for the same one any number of times.
      if ((this.#parsed += first.length) > this.#text.length) throw new NotLiteral();
      return jsonOf(first);
    }
    if (path === 'Array') return [];
    if (path === 'Object.create') return {};
    if (/^(?:Object\.freeze|decodeURIComponent|unescape|Symbol|BigInt|Number|String|Date|URL)$/.test(path))
      return first;
    throw new NotLiteral();
  }

  #arguments(name: string, depth: number): unknown[] {
    if (name === '') throw new NotLiteral();
    this.#skip();
    if (this.#text[this.at] !== '(') return [];
    this.at++;
    return this.#array(')', depth + 1);
  }

  #string(quote: string): string {
    const text = this.#text;
    const plain = PLAIN[quote] as RegExp;
    const parts: string[] = [];
    this.at++;
    for (;;) {
      plain.lastIndex = this.at;
      const [part = ''] = plain.exec(text) ?? [];
      if (part !== '') parts.push(part);
      this.at += part.length;
      const character = text[this.at++];
      if (character === quote) return parts.length === 1 ? (parts[0] as string) : parts.join('');
      if (character === '$' && text[this.at] !== '{') parts.push('$');
      else if (character === '\\') parts.push(this.#escape());
      else throw new NotLiteral();
    }
  }

  /** The character of an escape sequence after its backslash. */
  #escape(): string {
    const text = this.#text;
    const character = text[this.at++] ?? '';
    const code = { x: /[\da-fA-F]{2}/y, u: /[\da-fA-F]{4}|\{[\da-fA-F]{1,6}\}/y }[character];
    if (code !== undefined) {
      const digits = this.#match(code).replaceAll(/[{}]/g, '');
      const point = Number.parseInt(digits, 16);
      return digits === '' || point > 0x10ffff ? '\ufffd' : String.fromCodePoint(point);
    }
    if (character === '\r' && text[this.at] === '\n') this.at++;
    if ('\r\n\u2028\u2029'.includes(character)) return '';
    return Object.hasOwn(ESCAPES, character) ? (ESCAPES[character] as string) : character;
  }

  #word(): string {
    this.#skip();
    return this.#match(IDENTIFIER);
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.#text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }

  #skip(): void {
    const text = this.#text;
    for (;;) {
      const code = text.charCodeAt(this.at);
      if (code > 32 && code !== SLASH && code <= 127) return;
      if (this.#match(BLANK) === '' && !text.startsWith('/*', this.at)) return;
      if (text.startsWith('/*', this.at)) this.#skipComment();
    }
  }

  /** One without an end is read to the end of the text once. */
  #skipComment(): void {
    const close = this.#text.indexOf('*/', this.at + 2);
    this.at = close < 0 ? this.#text.length : close + 2;
    if (close < 0) throw new NotLiteral();
  }

  #skipCommas(): void {
    while (this.#accept(','));
    this.#skip();
  }

  #accept(character: string): boolean {
    this.#skip();
    if (this.#text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  #expect(character: string): void {
    if (!this.#accept(character)) throw new NotLiteral();
  }
}

/** Defines an own property, but none named `__proto__`. */
function define(owner: object, key: string, value: unknown): void {
  if (key === '__proto__') return;
  (owner as Record<string, unknown>)[key] = value;
}

function propertyOf(owner: unknown, key: string): unknown {
  return typeof owner === 'object' && owner !== null && Object.hasOwn(owner, key)
    ? (owner as Readonly<Record<string, unknown>>)[key]
    : undefined;
}

function numberOf(text: string): number {
  const digits = text.endsWith('n') ? text.slice(0, -1) : text;
  return digits.startsWith('-') ? -Number(digits.slice(1)) : Number(digits);
}

/** The value of JSON, also of JSON with trailing commas, comments or line ends in strings; null for anything else. */
export function jsonOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return parseLiteral(text).value ?? null;
  }
}
