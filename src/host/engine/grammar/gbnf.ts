// Parser for GBNF, the grammar notation of llama.cpp: `name ::= alternatives`, "literals", [ranges], [^negated], rule names,
// ( groups ), `|`, postfix * + ? and {m,n}, `.`, # comments. Groups and repetitions become rules of their own, so the result
// has only sequences and alternatives.
import { GrammarError } from './grammar-rules.ts';
/** Code points from `from` to `to`, both included. */
export interface CodeRange {
  readonly from: number;
  readonly to: number;
}

/** One step of a sequence: one character out of ranges, or a rule by its index. */
export type Element =
  | { readonly kind: 'characters'; readonly ranges: readonly CodeRange[] }
  | { readonly kind: 'rule'; readonly rule: number };

/** Alternatives, each a sequence. */
export type Rule = readonly (readonly Element[])[];

/** A parsed grammar; every rule index is defined. */
export interface Grammar {
  readonly rules: readonly Rule[];
  /** Index of the rule `root`. */
  readonly root: number;
  /** Name of every rule; made-up ones end in a number. */
  readonly names: readonly string[];
}

const MAX_CHARACTER = 0x10ffff;
/** Longest text that is parsed; each of its characters takes up to a microsecond and 100 bytes. */
const MAX_LENGTH = 1_000_000;
/** Largest bound of a repetition, as in llama.cpp. */
const MAX_REPETITIONS = 2000;
const MAX_RULES = 50_000;
/** Elements of all sequences together, as long as the longest schema that is taken on: repetitions multiply. */
const MAX_ELEMENTS = 500_000;
/** Elements that take as long as a range of characters: it has up to four bytes. */
const RANGE_ELEMENTS = 4;
const MAX_DEPTH = 200;
const ESCAPES: Readonly<Record<string, string>> = {
  t: '\t',
  r: '\r',
  n: '\n',
  '\\': '\\',
  '"': '"',
  '[': '[',
  ']': ']',
  '-': '-',
  '^': '^',
};
const HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** Parses a grammar. Throws a GrammarError that names the line for anything that is not a usable grammar. */
export function parseGrammar(text: string): Grammar {
  if (text.length > MAX_LENGTH) throw new GrammarError(`grammar: longer than ${MAX_LENGTH} characters`);
  return new Parser(text).parse();
}

class Parser {
  readonly #text: string;
  #at = 0;
  #depth = 0;
  #elements = 0;
  readonly #rules: (Rule | undefined)[] = [];
  readonly #names: string[] = [];
  readonly #indexes = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
  }

  parse(): Grammar {
    this.#space(true);
    while (this.#at < this.#text.length) this.#definition();
    const root = this.#indexes.get('root');
    if (root === undefined) throw new GrammarError("grammar: no rule 'root'");
    for (const [index, rule] of this.#rules.entries()) {
      if (rule === undefined) throw new GrammarError(`grammar: rule '${this.#names[index]}' is not defined`);
    }
    return { rules: this.#rules as Rule[], root, names: this.#names };
  }

  #definition(): void {
    const name = this.#name();
    if (name === '') this.#fail('expected a rule name');
    const index = this.#indexOf(name);
    this.#space(false);
    if (!this.#take('::=')) this.#fail(`expected ::= after '${name}'`);
    if (this.#rules[index] !== undefined) this.#fail(`rule '${name}' is defined twice`);
    this.#space(true);
    this.#rules[index] = this.#alternatives(name, false);
    if (this.#at < this.#text.length && !/[\r\n]/.test(this.#peek())) this.#fail('expected the end of the rule');
    this.#space(true);
  }

  #alternatives(name: string, nested: boolean): Rule {
    if (++this.#depth > MAX_DEPTH) this.#fail('groups are nested too deeply');
    const alternatives = [this.#sequence(name, nested)];
    while (this.#take('|')) {
      this.#space(true);
      alternatives.push(this.#sequence(name, nested));
    }
    this.#depth--;
    return alternatives;
  }

  #sequence(name: string, nested: boolean): Element[] {
    const elements: Element[] = [];
    for (;;) {
      const symbol = this.#symbol(name);
      if (symbol === null) return elements;
      this.#space(nested);
      let repeated = symbol;
      for (let bounds = this.#bounds(); bounds !== null; bounds = this.#bounds()) {
        repeated = this.#repeat(name, repeated, bounds);
        this.#space(nested);
      }
      this.#count(repeated.length);
      for (const element of repeated) elements.push(element);
    }
  }

  /** The next symbol as the elements it stands for, or null where none begins. */
  #symbol(name: string): Element[] | null {
    if (this.#take('"')) return this.#literal();
    if (this.#take('[')) return [this.#class()];
    if (this.#take('.')) return [{ kind: 'characters', ranges: complement([]) }];
    if (this.#take('(')) {
      this.#space(true);
      const rule = this.#addRule(name, this.#alternatives(name, true));
      if (!this.#take(')')) this.#fail('expected )');
      return [{ kind: 'rule', rule }];
    }
    const reference = this.#name();
    return reference === '' ? null : [{ kind: 'rule', rule: this.#indexOf(reference) }];
  }

  #literal(): Element[] {
    const elements: Element[] = [];
    while (!this.#take('"')) {
      const code = this.#character();
      elements.push({ kind: 'characters', ranges: [{ from: code, to: code }] });
    }
    return elements;
  }

  #class(): Element {
    const negated = this.#take('^');
    const ranges: CodeRange[] = [];
    while (!this.#take(']')) {
      const from = this.#character();
      const isRange = this.#peek() === '-' && this.#text[this.#at + 1] !== ']';
      if (isRange) this.#at++;
      const to = isRange ? this.#character() : from;
      if (to < from) this.#fail('the end of a range is below its start');
      ranges.push({ from, to });
      this.#count(RANGE_ELEMENTS);
    }
    return { kind: 'characters', ranges: negated ? complement(ranges) : ranges };
  }

  /** Code point of one character, escaped or not. */
  #character(): number {
    const code = this.#text.codePointAt(this.#at);
    if (code === undefined) this.#fail('unterminated literal or range');
    if (code !== 0x5c) {
      this.#at += code > 0xffff ? 2 : 1;
      return code;
    }
    const kind = this.#text[this.#at + 1] ?? '';
    this.#at += 2;
    const digits = HEX_DIGITS[kind];
    if (digits === undefined) return ESCAPES[kind]?.codePointAt(0) ?? this.#fail(`unknown escape \\${kind}`);
    const hex = this.#text.slice(this.#at, this.#at + digits);
    const value = /^[\da-f]+$/i.test(hex) && hex.length === digits ? Number.parseInt(hex, 16) : Infinity;
    if (value > MAX_CHARACTER) this.#fail(`\\${kind} needs ${digits} hexadecimal digits of a character`);
    this.#at += digits;
    return value;
  }

  #bounds(): readonly [least: number, most: number] | null {
    if (this.#take('*')) return [0, Infinity];
    if (this.#take('+')) return [1, Infinity];
    if (this.#take('?')) return [0, 1];
    if (this.#peek() !== '{') return null;
    const match = /^\{\s*(\d+)\s*(,?)\s*(\d*)\s*\}/.exec(this.#text.slice(this.#at, this.#at + 64));
    if (match === null) this.#fail('expected {m}, {m,} or {m,n}');
    const least = Number(match[1]);
    const most = match[2] === '' ? least : match[3] === '' ? Infinity : Number(match[3]);
    if (most < least) this.#fail('the upper bound of a repetition is below the lower');
    if (Math.max(least, most === Infinity ? 0 : most) > MAX_REPETITIONS) {
      this.#fail(`a repetition of more than ${MAX_REPETITIONS}`);
    }
    this.#at += match[0].length;
    return [least, most];
  }

  /** Repeats a symbol by rules: S* is R ::= S R | nothing, and S{0,n} a chain of n such rules. */
  #repeat(name: string, symbol: Element[], [least, most]: readonly [number, number]): Element[] {
    const once: Element[] = symbol.length === 1 ? symbol : [{ kind: 'rule', rule: this.#addRule(name, [symbol]) }];
    this.#count(least);
    const repeated = Array.from({ length: least }, () => once[0]!);
    if (most === Infinity) {
      const rule = this.#addRule(name, []);
      this.#rules[rule] = [[...once, { kind: 'rule', rule }], []];
      return [...repeated, { kind: 'rule', rule }];
    }
    let rest: Element[] = [];
    for (let left = least; left < most; left++) {
      rest = [{ kind: 'rule', rule: this.#addRule(name, [[...once, ...rest], []]) }];
    }
    return [...repeated, ...rest];
  }

  /** Refuses a grammar that unrolls to too many elements, before they take memory. */
  #count(elements: number): void {
    this.#elements += elements;
    if (this.#elements > MAX_ELEMENTS) this.#fail('the grammar is too large');
  }

  #addRule(name: string, rule: Rule): number {
    if (this.#rules.length >= MAX_RULES) this.#fail('the grammar is too large');
    this.#names.push(`${name}.${this.#rules.length}`);
    return this.#rules.push(rule) - 1;
  }

  #indexOf(name: string): number {
    let index = this.#indexes.get(name);
    if (index === undefined) {
      index = this.#rules.push(undefined) - 1;
      this.#names.push(name);
      this.#indexes.set(name, index);
    }
    return index;
  }

  #name(): string {
    const from = this.#at;
    while (/[A-Za-z0-9-]/.test(this.#peek())) this.#at++;
    return this.#text.slice(from, this.#at);
  }

  #space(newlines: boolean): void {
    for (;;) {
      const next = this.#peek();
      if (next === '#') while (this.#at < this.#text.length && !/[\r\n]/.test(this.#peek())) this.#at++;
      else if (next === ' ' || next === '\t' || (newlines && (next === '\r' || next === '\n'))) this.#at++;
      else return;
    }
  }

  #peek(): string {
    return this.#text[this.#at] ?? '';
  }

  #take(expected: string): boolean {
    if (!this.#text.startsWith(expected, this.#at)) return false;
    this.#at += expected.length;
    return true;
  }

  #fail(what: string): never {
    const line = this.#text.slice(0, this.#at).split('\n').length;
    throw new GrammarError(`grammar, line ${line}: ${what}`);
  }
}

/** All characters that are in none of the ranges. */
function complement(ranges: readonly CodeRange[]): CodeRange[] {
  const rest: CodeRange[] = [];
  let from = 0;
  for (const range of [...ranges].sort((a, b) => a.from - b.from)) {
    if (range.from > from) rest.push({ from, to: range.from - 1 });
    from = Math.max(from, range.to + 1);
  }
  if (from <= MAX_CHARACTER) rest.push({ from, to: MAX_CHARACTER });
  return rest;
}
