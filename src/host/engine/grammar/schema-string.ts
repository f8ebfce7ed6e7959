// Strings of a JSON schema as GBNF: text of bounded length, common formats, and regular expressions without look-around,
// back-references and word boundaries. Only printable ASCII is generated, unless an expression contains other characters.
import { literal, oneOf, SchemaError } from './grammar-rules.ts';

/** What a schema says about a string. */
export interface StringBounds {
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  readonly pattern?: string | undefined;
  readonly format?: string | undefined;
}

/** Longest text where the schema does not say; also how far a string goes beyond its least length. */
const DEFAULT_LENGTH = 40;
/** Repetitions of the grammar notation end here. */
const MAX_LENGTH = 2000;

const OCTET = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]\\d|\\d)';
const DATE = '(19|20)\\d\\d-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])';
const TIME = '([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\dZ';
const HOST = '[a-z]{2,10}\\.(com|org|net)';

/** The formats that are obeyed, as patterns; every other format only describes. */
const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: 'P[1-9]\\d?D',
  email: `[a-z]{2,10}@${HOST}`,
  hostname: HOST,
  ipv4: `${OCTET}\\.${OCTET}\\.${OCTET}\\.${OCTET}`,
  ipv6: '([0-9a-f]{4}:){7}[0-9a-f]{4}',
  uri: `https://${HOST}/[a-z]{1,10}`,
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}',
};

/** GBNF of a string with its quotes. Throws a SchemaError for bounds that no string keeps, or none this compiler finds. */
export function stringRule(bounds: StringBounds, where: string): string {
  const minLength = bounds.minLength ?? 0;
  const maxLength = bounds.maxLength ?? Infinity;
  if (minLength > Math.min(maxLength, MAX_LENGTH)) {
    throw new SchemaError(`schema, ${where}: no string is that long`);
  }
  const format = bounds.format === undefined ? undefined : FORMATS[bounds.format];
  if (bounds.pattern !== undefined && format !== undefined) {
    throw new SchemaError(`schema, ${where}: pattern and format together are not supported`);
  }
  const pattern = bounds.pattern ?? format;
  if (pattern !== undefined) return `"\\"" ${patternRule(pattern, minLength, maxLength, where)} "\\""`;
  // An empty string says nothing, so there is one only where nothing else fits.
  const shortest = Math.max(minLength, Math.min(1, maxLength));
  const longest = Math.min(maxLength, MAX_LENGTH, shortest + DEFAULT_LENGTH);
  if (longest < 1) return '"\\"\\""';
  return `"\\"" [A-Za-z0-9] [ A-Za-z0-9.,'!?-]{${Math.floor(shortest) - 1},${Math.floor(longest) - 1}} "\\""`;
}

/** GBNF with the least and the greatest number of characters it stands for. */
interface Part {
  readonly body: string;
  readonly least: number;
  readonly most: number;
}

/** How far an unbounded repetition goes beyond its least count; tried in this order until the lengths fit. */
const REACHES = [12, 4, 1, 0, 32, 128];
/** Characters of an expression, and repetitions, that are taken on; a class of characters takes up to 40 us. */
const MAX_PATTERN = 1000;
const MAX_REPETITIONS = 1000;
const PRINTABLE: readonly string[] = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at));
const WORD = PRINTABLE.filter((character) => /\w/.test(character));
const SHORTHANDS: Readonly<Record<string, readonly string[]>> = {
  d: Array.from('0123456789'),
  D: PRINTABLE.filter((character) => /\D/.test(character)),
  w: WORD,
  W: PRINTABLE.filter((character) => /\W/.test(character)),
  s: [' '],
  S: PRINTABLE.filter((character) => character !== ' '),
};
const CONTROLS: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v' };

/**
 * GBNF of the texts that match the whole expression, as the inside of a JSON string, with lengths in the bounds. Throws a
 * SchemaError when the expression is not supported or no bound on its repetitions keeps the lengths.
 */
function patternRule(pattern: string, minLength: number, maxLength: number, where: string): string {
  if (pattern.length > MAX_PATTERN) throw new SchemaError(`schema, ${where}: the pattern is too long`);
  for (const reach of REACHES) {
    const { body, least, most } = new PatternParser(pattern, reach, where).parse();
    if (least >= minLength && most <= maxLength) return body;
  }
  throw new SchemaError(`schema, ${where}: pattern with these lengths is not supported`);
}

class PatternParser {
  readonly #text: readonly string[];
  readonly #reach: number;
  readonly #where: string;
  #at = 0;

  constructor(pattern: string, reach: number, where: string) {
    this.#text = Array.from(pattern);
    this.#reach = reach;
    this.#where = where;
  }

  parse(): Part {
    const part = this.#choice();
    if (this.#at < this.#text.length) this.#fail(`'${this.#text[this.#at]}'`);
    return part;
  }

  #choice(): Part {
    const parts = [this.#sequence()];
    while (this.#take('|')) parts.push(this.#sequence());
    return {
      body: oneOf(parts.map(({ body }) => body)),
      least: Math.min(...parts.map(({ least }) => least)),
      most: Math.max(...parts.map(({ most }) => most)),
    };
  }

  #sequence(): Part {
    const bodies: string[] = [];
    let least = 0;
    let most = 0;
    this.#take('^');
    for (;;) {
      const next = this.#text[this.#at];
      if (next === '$' && [undefined, '|', ')'].includes(this.#text[this.#at + 1])) this.#at++;
      if (this.#at >= this.#text.length || this.#text[this.#at] === '|' || this.#text[this.#at] === ')') break;
      const part = this.#repeated(this.#atom());
      bodies.push(part.body);
      least += part.least;
      most += part.most;
    }
    return { body: bodies.length === 0 ? '""' : bodies.join(' '), least, most };
  }

  #repeated(part: Part): Part {
    let bounds: readonly [number, number];
    if (this.#take('*')) bounds = [0, Infinity];
    else if (this.#take('+')) bounds = [1, Infinity];
    else if (this.#take('?')) bounds = [0, 1];
    else {
      const rest = this.#text.slice(this.#at, this.#at + 24).join('');
      const match = /^\{(\d+)(,?)(\d*)\}/.exec(rest);
      if (match === null) return part;
      this.#at += match[0].length;
      const least = Number(match[1]);
      bounds = [least, match[2] === '' ? least : match[3] === '' ? Infinity : Number(match[3])];
    }
    this.#take('?');
    if (bounds[0] > MAX_REPETITIONS) this.#fail('so many repetitions');
    const [least, most] = [bounds[0], Math.min(bounds[1], bounds[0] + this.#reach)];
    return { body: `(${part.body}){${least},${most}}`, least: part.least * least, most: part.most * most };
  }

  #atom(): Part {
    if (this.#take('(')) {
      if (this.#take('?') && !this.#take(':')) this.#group();
      const part = this.#choice();
      if (!this.#take(')')) this.#fail('an unterminated group');
      return { ...part, body: `(${part.body})` };
    }
    if (this.#take('[')) return this.#oneCharacter(this.#class());
    if (this.#take('.')) return this.#oneCharacter(PRINTABLE);
    const character = this.#text[this.#at]!;
    if ('^$*+?'.includes(character)) this.#fail(`'${character}' there`);
    return this.#oneCharacter(this.#character());
  }

  /** The name of a named group; every other kind of special group is refused. */
  #group(): void {
    const match = /^<([A-Za-z]\w*)>/.exec(this.#text.slice(this.#at).join(''));
    if (match === null) this.#fail('look-around');
    this.#at += match[0].length;
  }

  #class(): readonly string[] {
    const negated = this.#take('^');
    const found = new Set<string>();
    while (!this.#take(']')) {
      if (this.#at >= this.#text.length) this.#fail('an unterminated class');
      const from = this.#character();
      const isRange = this.#text[this.#at] === '-' && this.#text[this.#at + 1] !== ']' && from.length === 1;
      if (!isRange) for (const character of from) found.add(character);
      else {
        this.#at++;
        for (const character of this.#between(from[0]!, this.#character()[0]!)) found.add(character);
      }
    }
    return negated ? PRINTABLE.filter((character) => !found.has(character)) : [...found];
  }

  /** The characters of a range; of a long one beyond ASCII, its first ones. */
  #between(from: string, to: string): string[] {
    const [first, last] = [from.codePointAt(0)!, to.codePointAt(0)!];
    if (last < first) this.#fail('a range whose end is below its start');
    const characters: string[] = [];
    for (let code = first; code <= Math.min(last, first + 255); code++) characters.push(String.fromCodePoint(code));
    return characters;
  }

  /** One character or shorthand of characters. */
  #character(): readonly string[] {
    const character = this.#text[this.#at++]!;
    if (character !== '\\') return [character];
    const kind = this.#text[this.#at++] ?? this.#fail('a backslash at the end');
    if (SHORTHANDS[kind] !== undefined) return SHORTHANDS[kind];
    if (CONTROLS[kind] !== undefined) return [CONTROLS[kind]];
    const digits = kind === 'u' ? 4 : kind === 'x' ? 2 : 0;
    if (digits === 0) return /[A-Za-z0-9]/.test(kind) ? this.#fail(`'\\${kind}'`) : [kind];
    const hex = this.#text.slice(this.#at, this.#at + digits).join('');
    if (!/^[\da-f]+$/i.test(hex) || hex.length < digits) this.#fail(`'\\${kind}${hex}'`);
    this.#at += digits;
    return [String.fromCharCode(Number.parseInt(hex, 16))];
  }

  /** One character out of several, those that JSON escapes in their escaped form. */
  #oneCharacter(characters: readonly string[]): Part {
    if (characters.length === 0) this.#fail('an empty class');
    let body = BODIES.get(characters);
    if (body === undefined) {
      const plain = characters.filter((character) => !isEscaped(character));
      const bodies = characters.filter(isEscaped).map((character) => literal(JSON.stringify(character).slice(1, -1)));
      if (plain.length > 0) bodies.unshift(`[${plain.map(inClass).join('')}]`);
      body = oneOf(bodies);
      BODIES.set(characters, body);
    }
    return { body, least: 1, most: 1 };
  }

  #take(expected: string): boolean {
    if (this.#text[this.#at] !== expected) return false;
    this.#at++;
    return true;
  }

  #fail(what: string): never {
    throw new SchemaError(`schema, ${this.#where}: pattern with ${what} is not supported`);
  }
}

/** By the list of characters: shorthands have one for all patterns. */
const BODIES = new WeakMap<readonly string[], string>();

/** Whether JSON writes the character in another way. */
function isEscaped(character: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return /["\\\x00-\x1f\ud800-\udfff]/.test(character) && JSON.stringify(character).length !== character.length + 2;
}

function inClass(character: string): string {
  return /[\]\\[^-]/.test(character) ? `\\${character}` : character;
}
