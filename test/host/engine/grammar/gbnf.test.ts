import { parseGrammar } from '../../../../src/host/engine/grammar/gbnf.ts';
import { GrammarError } from '../../../../src/host/engine/grammar/grammar-rules.ts';
import { createMatcher, matches } from '../../../../src/host/engine/grammar/matcher.ts';
import fc from 'fast-check';
import t from 'tap';

type Check = (value: boolean, message: string) => boolean;

const encoder = new TextEncoder();
function accepts(grammar: string, text: string): boolean {
  return matches(createMatcher(parseGrammar(grammar)), encoder.encode(text));
}
function check(t: { ok: Check; notOk: Check }, grammar: string, good: readonly string[], bad: readonly string[]): void {
  for (const text of good) t.ok(accepts(grammar, text), `takes '${text}'`);
  for (const text of bad) t.notOk(accepts(grammar, text), `refuses '${text}'`);
}

t.test('literals, choices, groups and references', async (t) => {
  check(t, 'root ::= "a" b | "c"\nb ::= ("x" | "yz")', ['ax', 'ayz', 'c'], ['', 'a', 'cx', 'axx']);
  check(t, 'root ::= (\n  "a" # first\n  | "b"\n) |\n  "c"\n', ['a', 'b', 'c'], ['d']);
  check(t, 'root ::= ""', [''], ['a']);
});

t.test('repetitions', async (t) => {
  check(t, 'root ::= "ab"*', ['', 'ab', 'abab'], ['a', 'aba', 'abb']);
  check(t, 'root ::= "a"+ "b"?', ['a', 'aab'], ['', 'b', 'abb']);
  check(t, 'root ::= "a"{2}', ['aa'], ['a', 'aaa']);
  check(t, 'root ::= "a"{1,3}', ['a', 'aa', 'aaa'], ['', 'aaaa']);
  check(t, 'root ::= [ab]{2,}', ['ab', 'bbaab'], ['a']);
  check(t, 'root ::= ("a"*)* "b"', ['b', 'aab'], ['a']);
});

t.test('ranges, negated ranges and escapes', async (t) => {
  check(t, 'root ::= [a-cx-]', ['a', 'c', 'x', '-'], ['d', '', 'aa']);
  check(t, 'root ::= [^a-c\\n]', ['d', 'é', '水', '🌊'], ['a', '\n', 'dd']);
  check(t, 'root ::= "\\x41\\u00e9\\U0001F30A\\t\\"\\\\"', ['Aé🌊\t"\\'], ['A']);
  check(t, 'root ::= [\\[\\]]', ['[', ']'], ['\\']);
  check(t, 'root ::= .', ['a', '水', '\n'], ['', 'ab']);
});

t.test('a range takes exactly the characters between its ends', async () => {
  const code = fc.integer({ min: 1, max: 0x10ffff });
  const escape = (code: number): string => `\\U${code.toString(16).padStart(8, '0')}`;
  const inRange = fc.tuple(code, code, fc.oneof(code, fc.constantFrom(0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000)));
  fc.assert(
    fc.property(inRange, ([a, b, probe]) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      const matcher = createMatcher(parseGrammar(`root ::= [${escape(from)}-${escape(to)}]`));
      return [from, to, probe, from - 1, to + 1]
        .filter((code) => code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff))
        .every((code) => matches(matcher, encoder.encode(String.fromCodePoint(code))) === (code >= from && code <= to));
    }),
    { numRuns: 500 },
  );
});

t.test('characters of ranges that overlap, in any order, are those of each of them', async () => {
  const code = fc.oneof(fc.integer({ min: 0x20, max: 0x7e }), fc.integer({ min: 0x700, max: 0x1100 })).filter(isPlain);
  const range = fc.tuple(code, code).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
  fc.assert(
    fc.property(fc.array(range, { minLength: 1, maxLength: 12 }), code, (ranges, asked) => {
      const inside = ranges.map((ends) => ends.map((end) => String.fromCodePoint(end)).join('-')).join('');
      const isIn = ranges.some(([from, to]) => asked >= from && asked <= to);
      return accepts(`root ::= [${inside}]`, String.fromCodePoint(asked)) === isIn;
    }),
  );
});

/** Characters that are none of the notation. */
function isPlain(code: number): boolean {
  return !String.raw`]\-^`.includes(String.fromCodePoint(code));
}

t.test('half a character is a state of its own, and wrong bytes lead nowhere', async (t) => {
  const matcher = createMatcher(parseGrammar('root ::= [水é]'));
  const [first, second, third] = encoder.encode('水');
  const half = matcher.step(matcher.step(matcher.start, first!)!, second!);
  t.equal(half?.accepting, false);
  t.equal(matcher.step(half!, third!)?.accepting, true);
  t.equal(matcher.step(half!, 0x41), null);
  t.equal(matcher.step(matcher.start, 0x80), null);
  const any = createMatcher(parseGrammar('root ::= .'));
  t.notOk(matches(any, [0xed, 0xa0, 0x80]), 'a surrogate is no character');
  t.notOk(matches(any, [0xc0, 0x80]), 'nor is one in too many bytes');
});

t.test('nesting without end is matched', async (t) => {
  const grammar = 'root ::= "(" root ")" | "[" root* "]" | "x"';
  check(t, grammar, ['x', '((x))', '[x(x)[]]', `${'('.repeat(500)}x${')'.repeat(500)}`], ['((x)', '[)']);
});

t.test('a grammar with many readings of one text stays in bounds', async (t) => {
  check(t, 'root ::= a a a a\na ::= "x"* | "x" a | b a?\nb ::= "x" b? "x"?', ['x'.repeat(60)], ['xy']);
});

t.test('a class of many characters in many places adds a state for each place, not for each character', async (t) => {
  const many = Array.from({ length: 1000 }, (_, at) => String.fromCodePoint(0x5000 + 2 * at)).join('');
  const places = Array.from({ length: 1000 }, (_, at) => `s "${at}"`).join(' | ');
  const matcher = createMatcher(parseGrammar(`s ::= [${many}]\nroot ::= ${places}`));
  const before = matcher.size;
  t.ok(matcher.step(matcher.start, 0xe5));
  t.ok(matcher.size - before < 10_000, `${matcher.size - before}`);
  t.ok(matches(matcher, encoder.encode('\u50027')));
  t.notOk(matches(matcher, encoder.encode('\u50037')));
});

t.test('an invalid grammar is refused with its line', async (t) => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['', /no rule 'root'/],
    ['root ::= other', /'other' is not defined/],
    ['root := "a"', /expected ::=/],
    ['root ::= "a', /unterminated literal or range/],
    ['root ::= [a', /unterminated literal or range/],
    ['root ::= "a")', /end of the rule/],
    ['root ::= ("a"', /expected \)/],
    ['root ::= "\\q"', /unknown escape/],
    ['root ::= "\\x4"', /hexadecimal/],
    ['root ::= [z-a]', /end of a range is below its start/],
    ['root ::= "a"{3,1}', /upper bound of a repetition is below/],
    ['root ::= "a"{1,99999}', /more than 2000/],
    ['root ::= "a"\nroot ::= "b"', /line 2: rule 'root' is defined twice/],
    [`root ::= ${'('.repeat(300)}`, /too deeply/],
  ];
  for (const [grammar, message] of refused) {
    t.throws(() => parseGrammar(grammar), { name: 'GrammarError', message });
  }
});

t.test('left recursion is refused, direct, by another rule, and behind an empty one', async (t) => {
  for (const grammar of [
    'root ::= root "a" | "b"',
    'root ::= x "a"\nx ::= y\ny ::= root "b" | "c"',
    'root ::= e root "a" | "b"\ne ::= "x"?',
  ]) {
    t.throws(() => createMatcher(parseGrammar(grammar)), { name: 'GrammarError', message: /begins with itself/ });
  }
  check(t, 'root ::= e root | "b"\ne ::= "x"?', ['b', 'xxb'], ['x']);
});

/** Rules that each refer to the next one, with `rest` behind it. */
function chain(rules: number, rest: string): string {
  const links = Array.from({ length: rules }, (_, at) => `r${at} ::= r${at + 1}${rest}\n`);
  return `root ::= r0\n${links.join('')}r${rules} ::= ""\n`;
}

function cpuMs(run: () => void): number {
  const start = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

t.test('long grammars are compiled in linear time', async (t) => {
  const grammars = {
    'rules that begin with the next one': chain(20_000, ' "x"'),
    'rules that are nothing but the next one': chain(20_000, ''),
    'a repetition of repetitions': `root ::= "a"${'{0,2000}'.repeat(24)}`,
    'a long text': `root ::= "${'a'.repeat(300_000)}"`,
  };
  for (const [name, grammar] of Object.entries(grammars)) {
    const ms = cpuMs(() => createMatcher(parseGrammar(grammar)));
    t.ok(ms < 3000, `${name}: ${ms.toFixed(0)} ms`);
  }
});

t.test('a grammar that unrolls to too much is refused', async (t) => {
  const tooLarge = { name: 'GrammarError', message: /too large/ };
  t.throws(() => parseGrammar(`root ::= ${'"a"{2000} '.repeat(1000)}`), tooLarge);
  t.throws(() => parseGrammar(`root ::= ("a" "b")${'{2000}'.repeat(1000)}`), tooLarge);
  t.throws(() => parseGrammar(`root ::= [${'a'.repeat(125_001)}]`), tooLarge);
  const tooLong = { name: 'GrammarError', message: 'grammar: longer than 1000000 characters' };
  t.throws(() => parseGrammar(`root ::= [${'a'.repeat(1_000_000)}]`), tooLong);
  t.throws(() => parseGrammar(`root ::= "a"${' |'.repeat(500_000)}`), tooLong);
});

t.test('rules that begin with each other are refused, wherever they stand', async (t) => {
  t.throws(() => createMatcher(parseGrammar('root ::= "a" x\nx ::= y "b"\ny ::= e z\nz ::= x | "c"\ne ::= "d"?')), {
    message: /rule '[xy]' begins with itself/,
  });
  check(t, 'root ::= x "a"\nx ::= y "b" | y\ny ::= "c" x | "d"', ['da', 'dba', 'cda', 'cdbba'], ['a', 'dbba']);
});

t.test('whatever is given as a grammar, it is taken or refused with a GrammarError', async () => {
  const part = fc.constantFrom(
    'root',
    ' ::= ',
    '"a"',
    '[a-c]',
    '(',
    ')',
    '|',
    '*',
    '?',
    '{1,3}',
    '\n',
    'b',
    '#',
    '\\',
    '.',
    '^',
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(part).map((parts) => `root ::= ${parts.join('')}`),
      ),
      (text) => {
        try {
          matches(createMatcher(parseGrammar(text)), encoder.encode('aab'));
          return true;
        } catch (error) {
          return error instanceof GrammarError;
        }
      },
    ),
    { numRuns: 3000 },
  );
});

/** States that are in memory as long as the start is. */
function reachable(start: object): number {
  const found = new Set<object>([start]);
  for (const state of found) {
    const { next } = state as { next: readonly (object | null | undefined)[] };
    for (const other of next) if (other) found.add(other);
  }
  return found.size;
}

t.test('a long nested text leaves no more states than are kept', async (t) => {
  const matcher = createMatcher(parseGrammar('root ::= "(" root ")" | "x"'));
  let state = matcher.start;
  for (let depth = 0; depth < 30_000; depth++) state = matcher.step(state, 40)!;
  t.ok(reachable(matcher.start) < 10_000);
  t.ok(matcher.size < 500_000);
  t.notOk(state.accepting);
  state = matcher.step(state, 120)!;
  for (let depth = 0; depth < 30_000; depth++) state = matcher.step(state, 41)!;
  t.ok(state.accepting, 'the text goes on as if nothing had been forgotten');
  t.equal(matcher.step(state, 41), null);
});
