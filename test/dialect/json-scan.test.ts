// The WebAssembly module beside the scan in JavaScript: the same tapes of random texts, and nothing taken that JavaScript refuses.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { scanMembers, skipValue } from '../../src/dialect/json-scan.ts';
import { nameId, readName } from '../../src/dialect/json-names.ts';
import { NAME, NODE, readByModule, scannedNumbers, Spans } from '../../src/dialect/json-scan-module.ts';
import { found, memberTable } from '../../src/dialect/member-table.ts';
import { mutated, Random } from '../support/random.ts';
import { randomJson } from './translation/json-texts.ts';

const MAX_DEPTH = 64;
const WORDS = NODE * 4096;
const USAGE = memberTable(['usage']);

const QUOTE = 0x22;

interface Read {
  readonly end: number;
  readonly words: readonly number[];
  readonly hasAddress: boolean;
}

/** The words of a tape, with the names of strings that have not been looked at. */
function wordsOf({ count, words }: Spans, text: Buffer): number[] {
  const all = [...words.slice(0, count)];
  for (let node = 0; node < count; node += NODE) {
    const [start = 0, end = 0] = all.slice(node, node + 2);
    if (all[node + NAME] === -1) all[node + NAME] = text[start] === QUOTE ? readName(text, start, end) : 0;
  }
  return all;
}

/** What JavaScript reads; undefined when it refuses the text. */
function byJavaScript(text: Buffer, maxDepth = MAX_DEPTH): Read | undefined {
  const spans = new Spans(WORDS, true);
  const end = skipValue(text, 0, text.length, 0, maxDepth, spans);
  return end < 0 ? undefined : { end, words: wordsOf(spans, text), hasAddress: spans.hasAddress };
}

/** What the module reads; undefined when it gives up. */
function byModule(text: Buffer, maxDepth = MAX_DEPTH): Read | undefined {
  const spans = new Spans(WORDS, true);
  const end = readByModule(text, 0, text.length, maxDepth, spans);
  return end === 0 ? undefined : { end, words: wordsOf(spans, text), hasAddress: spans.hasAddress };
}

/** A list, so that all keys are nested ones, and long enough for the module. */
function listOf(json: string): string {
  return `[${json},"${'a text that is long enough for the module '.repeat(2)}"]`;
}

t.test('the module leaves the tape that JavaScript leaves', (t) => {
  const random = new Random(11);
  let taken = 0;
  for (let i = 0; i < 5000; i++) {
    const text = Buffer.from(listOf(randomJson(random, 4)));
    const read = byModule(text);
    if (read === undefined) continue;
    taken++;
    const expected = byJavaScript(text);
    if (JSON.stringify(read) !== JSON.stringify(expected)) t.strictSame(read, expected, text.toString());
  }
  t.ok(taken > 2500, `it gives up at few texts: read ${taken} of 5000`);
  t.end();
});

t.test('the module takes no text that JavaScript refuses, and reads mutated ones alike', (t) => {
  const random = new Random(12);
  let taken = 0;
  for (let i = 0; i < 10_000; i++) {
    const text = mutated(Buffer.from(listOf(randomJson(random, 4))), random);
    const read = byModule(text);
    if (read === undefined) continue;
    taken++;
    const expected = byJavaScript(text);
    if (JSON.stringify(read) !== JSON.stringify(expected))
      t.strictSame(read, expected, JSON.stringify(text.toString()));
  }
  t.ok(taken > 100, `some mutations leave valid JSON: ${taken}`);
  t.end();
});

t.test('escapes and ends of strings are found anywhere in the sixteen bytes that are looked at', (t) => {
  const valid = ['\\n', '\\"', '\\\\', '\\\\\\"', '\\"\\"', '\\/\\u00e9', '\\u005C\\\\', 'é'];
  const broken = ['\\x', '\\u00g0', '\\u12', '\n', '\\\n', '"', '\\\\"'];
  for (let before = 0; before < 35; before++) {
    for (const after of [0, 1, 14, 15, 16, 17]) {
      const textOf = (middle: string): Buffer =>
        Buffer.from(listOf(`"${'x'.repeat(before)}${middle}${'x'.repeat(after)}"`));
      for (const middle of valid) {
        const read = byModule(textOf(middle));
        assert.ok(read !== undefined, middle);
        assert.deepEqual(read, byJavaScript(textOf(middle)));
      }
      for (const middle of broken) assert.equal(byModule(textOf(middle)), undefined, JSON.stringify(middle));
    }
  }
  t.end();
});

t.test('strings that are names have their ids, and no others', (t) => {
  // Other tests have none of these names.
  const letters = '~!#$%&()*+-./0123456789:;<=>?@[]^_`{|}ABCDEFGHIJ';
  const names = Array.from({ length: 48 }, (_, at) => letters.slice(0, at + 1));
  const ids = new Map(names.map((name) => [name, nameId(name)]));
  t.equal(new Set(ids.values()).size, 48);
  t.equal(nameId('~'), ids.get('~'), 'a name is known once');
  t.throws(() => nameId(''), RangeError);
  t.throws(() => nameId(`${letters},`), RangeError, 'a name of 49 characters');
  let known = 0;
  for (const name of names) {
    const others = [name.slice(1), `${name},`, `${name.slice(0, -1)},`, `,${name.slice(1)}`];
    for (let at = 0; at < name.length; at++) others.push(`${name.slice(0, at)},${name.slice(at + 1)}`);
    for (const text of [name, ...others]) {
      for (const json of [listOf(JSON.stringify(text)), listOf(`{${JSON.stringify(text)}:1}`)]) {
        const read = byModule(Buffer.from(json));
        const place = json.startsWith('[{') ? 2 * NODE : NODE;
        const id = read?.words[place + NAME];
        if (id !== (ids.get(text) ?? 0)) t.equal(id, ids.get(text), json);
        if (id !== 0) known++;
        const own = byJavaScript(Buffer.from(json));
        if (own?.words[place + NAME] !== id) t.strictSame(read, own, json);
      }
    }
  }
  t.equal(known, 96);
  const escaped = Buffer.from(listOf(String.raw`["\u007e!","\u007e,","~!\n"]`));
  t.strictSame(
    [2, 3, 4].map((node) => byModule(escaped)?.words[node * NODE + NAME]),
    [ids.get('~!'), 0, 0],
    'however a name is written',
  );
  t.end();
});

t.test('numbers, names, escapes and white space by examples', (t) => {
  const good = [
    ...['0', '-0', '1.5', '-1.5e+3', '1E9', '0.25', '-0e-0', '123456789012345678901234567890'],
    ...[
      'true',
      'false',
      'null',
      '""',
      '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D"',
      '[]',
      '{}',
      ' [ ] ',
      '{ "a" : { } }',
    ],
    ...[
      '"\u00e9\u{1f600}"',
      '{"a":1,"a":2}',
      '\t\r\n 1 \t\r\n',
      '"sixteen bytes ab"',
      '"a text of thirty-three bytes, yes"',
    ],
  ];
  const bad = [
    ...['01', '-', '1.', '.5', '1e', '1e+', '+1', 'tru', 'trux', 'fals', 'nul', 'NaN', 'Infinity'],
    ...[
      '"\\x"',
      '"\\u12g4"',
      '"\u0001"',
      '"\n"',
      '{"a"}',
      '{"a":}',
      '{a:1}',
      '{"a":1,}',
      '[1,]',
      '[1 2]',
      '[1',
      '{"a":1',
      '"',
    ],
    ...['\u00a01', '\f1', '{"a":1]', '[1}', ',', ':', ''],
  ];
  for (const each of good) {
    const text = Buffer.from(listOf(each));
    t.strictSame(byModule(text), byJavaScript(text), each);
    t.ok(byModule(text) !== undefined, each);
  }
  for (const each of bad) t.equal(byModule(Buffer.from(listOf(each))), undefined, each);
  t.end();
});

t.test('the module gives up at what it has no room for', (t) => {
  const deep = (levels: number): Buffer => Buffer.from('['.repeat(levels) + ' '.repeat(64) + ']'.repeat(levels));
  t.ok(byModule(deep(MAX_DEPTH)) !== undefined, 'the deepest nesting that is allowed');
  t.equal(byModule(deep(MAX_DEPTH + 1)), undefined, 'one more');
  t.equal(byModule(deep(600), 1000), undefined, 'more levels than it has room for');
  t.equal(byModule(Buffer.from('[1]')), undefined, 'a text that is not worth the copy');
  t.equal(byModule(Buffer.from(`["${'x'.repeat(4 * 1024 * 1024)}"]`)), undefined, 'a text of more than 4 MiB');
  const nodes = (count: number): Buffer => Buffer.from(`[${Array.from({ length: count }, () => '1').join(',')}]`);
  t.equal(byModule(nodes(65_000))?.words.length, 65_001 * NODE, 'nearly as many values as a tape has');
  t.equal(byModule(nodes(66_000)), undefined, 'more values than a tape has');
  t.equal(byModule(Buffer.from(`{"a\\u0062":"${'x'.repeat(64)}"}`)), undefined, 'a key that is written with an escape');
  t.end();
});

t.test('offsets count from the beginning of the bytes, wherever the text begins', (t) => {
  const object = `{"model":"atlas","padding":"${'x'.repeat(64)}","messages":[1,[2],{"a":3}]}`;
  const body = Buffer.from(`   ${object} behind`);
  const table = memberTable(['model', 'messages', 'absent', 'n'], ['messages']);
  const into = found(table);
  const end = scanMembers(body, 3, body.length, table, into, 8);
  t.equal(body.toString('latin1', 3, end), object);
  const texts = [0, 2].map((at) => body.toString('latin1', into.spans[at], into.spans[at + 1]));
  t.strictSame(texts, ['"atlas"', '[1,[2],{"a":3}]']);
  t.strictSame(into.spans.slice(4), [-1, -1, -1, -1]);
  const elements = [0, 2, 4].map((at) => body.toString('latin1', into.elements[at], into.elements[at + 1]));
  t.strictSame(elements, ['1', '[2]', '{"a":3}']);
  t.end();
});

t.test('numbers are those that JSON.parse reads, other values are none', (t) => {
  const table = memberTable(['prompt_tokens', 'n', 'details', 'cached_tokens']);
  const number = fc.oneof(
    fc.nat(100_000).map(String),
    fc.constantFrom('0', '-1', '1.5', '1e3', '999999999999999', '9999999999999999', '12345678901234567890'),
  );
  const value = fc.oneof(number, number, fc.constantFrom('null', 'true', '"7"', '[1]', '{}'));
  const members = fc.array(fc.tuple(fc.constantFrom('prompt_tokens', 'n', 'cached_tokens', 'total', 'x'), value));
  const objectOf = (entries: readonly (readonly [string, string])[]): string =>
    `{${entries.map(([name, text]) => `"${name}":${text}`).join(',')}}`;
  fc.assert(
    fc.property(members, members, (outer, inner) => {
      const usage = objectOf([...outer, ['details', objectOf(inner)]]);
      const body = Buffer.from(`{"padding":"${'x'.repeat(64)}","usage":${usage}}`);
      const into = found(USAGE);
      scanMembers(body, 0, body.length, USAGE, into, 8);
      const numbers = scannedNumbers(body, into.spans[0] as number, table);
      const expected = JSON.parse(usage) as Record<string, unknown>;
      const { details } = expected as { details: Record<string, unknown> };
      const deep = numbers?.['details'] as Record<string, unknown>;
      const same = (one: Record<string, unknown>, other: Record<string, unknown>, name: string): boolean =>
        typeof other[name] === 'number' ? one[name] === other[name] : !Number.isFinite(one[name] as number);
      return (
        ['prompt_tokens', 'n', 'cached_tokens'].every((name) => same(numbers ?? {}, expected, name)) &&
        ['prompt_tokens', 'n', 'cached_tokens'].every((name) => same(deep, details, name))
      );
    }),
    { numRuns: 500 },
  );
  const other = Buffer.from('{"usage":{"n":1}}');
  t.equal(scannedNumbers(other, 9, table), undefined, 'of a text that was not read by the module');
  t.end();
});
