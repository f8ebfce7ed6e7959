// Random JSON text in every legal spelling: white space, escapes in keys and strings, duplicate keys, numbers of all forms.

import type { Random } from '../../support/random.ts';

const PIECES = [
  ...[
    'a',
    'xyz',
    ' ',
    'é',
    '€',
    '𝒳',
    '\ud800',
    '"',
    '\\',
    '/',
    '\n',
    '\t',
    '\r',
    '\b',
    '\f',
    '\u0000',
    '\u001f',
    '\u007f',
  ],
  ...['{', '}', '[', ']', ':', ',', '\\"', '\\u0022', 'const a = "b\\n";\n', 'x'.repeat(20), '</s>', '\u2028'],
];
const NUMBERS = ['0', '-0', '1', '17', '-1.5e+3', '1E9', '0.25', '-0e-0', '12345678901234567890', '1e400', '0.1'];
const SPACES = ['', '', '', ' ', '\n', '\r\n  ', '\t'];
const KEYS = ['a', 'b', 'type', 'text', '__proto__', 'é', '', 'toString', 'a"b', 'content'];

/** Text of up to `pieces` pieces: plain, escaped, unicode, control characters, lone surrogates. */
export function randomText(random: Random, pieces: number): string {
  return Array.from({ length: random.below(pieces + 1) }, () => random.pick(PIECES)).join('');
}

/** `value` as a JSON string, each character plain or as one of its escapes. */
export function spelled(random: Random, value: string): string {
  const escapes = random.pick([0, 0, 0.1, 1]);
  let json = '"';
  for (let at = 0; at < value.length; at++) {
    const unit = value[at] as string;
    const code = value.charCodeAt(at);
    // A pair of surrogates is escaped as a whole or not at all: one half alone is no UTF-8.
    const isPair =
      code >= 0xd800 && code < 0xdc00 && value.charCodeAt(at + 1) >= 0xdc00 && value.charCodeAt(at + 1) < 0xe000;
    if (random.chance(escapes)) {
      json += unit === '/' ? '\\/' : escapeOf(code);
      if (isPair) json += escapeOf(value.charCodeAt(++at));
    } else if (isPair) {
      json += unit + (value[++at] as string);
    } else {
      json += JSON.stringify(unit).slice(1, -1);
    }
  }
  return `${json}"`;
}

function escapeOf(code: number): string {
  return `\\u${code.toString(16).padStart(4, '0')}`;
}

/** A JSON text of at most `depth` levels of containers. */
export function randomJson(random: Random, depth: number): string {
  const space = (): string => random.pick(SPACES);
  const kind = random.below(depth > 0 ? 8 : 5);
  if (kind < 2) return spelled(random, randomText(random, 6));
  if (kind === 2) return random.pick(NUMBERS);
  if (kind < 5) return random.pick(['true', 'false', 'null']);
  const items = Array.from({ length: random.below(5) }, () => {
    const value = `${space()}${randomJson(random, depth - 1)}${space()}`;
    return kind === 5 ? value : `${space()}${spelled(random, random.pick(KEYS))}${space()}:${value}`;
  });
  const inside = items.length === 0 ? space() : items.join(',');
  return kind === 5 ? `[${inside}]` : `{${inside}}`;
}

/** A JSON text of `value` in a random legal spelling. */
export function spelledJson(random: Random, value: unknown): string {
  const space = (): string => random.pick(['', '', '', '', ' ', '\n  ', '\t']);
  if (typeof value === 'string') return spelled(random, value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => space() + spelledJson(random, item) + space()).join(',')}]`;
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(
      ([key, member]) =>
        `${space()}${spelled(random, key)}${space()}:${space()}${spelledJson(random, member)}${space()}`,
    );
  return `{${members.join(',')}}`;
}
