// The tape compared with JSON.parse on random and on broken texts, and what the writer makes of its values.
import assert from 'node:assert/strict';
import t from 'tap';
import { bodyTape, scanBody } from '../../src/dialect/body-scan.ts';

import { nameIds } from '../../src/dialect/json-names.ts';
import { JsonTape, MAX_READ_VALUES } from '../../src/dialect/json-tape.ts';
import { JsonWriter, type WrittenText } from '../../src/dialect/translation/json-writer.ts';
import { HeadraceError } from '../../src/errors.ts';
import { freedBlocks } from '../support/freed-blocks.ts';
import { mutated, Random } from '../support/random.ts';
import { nodesOf } from '../support/tape-nodes.ts';
import { randomJson, randomText, spelled } from './translation/json-texts.ts';

// Known before texts are read.
const NAME = nameIds('a', 'b', 'c', 'd', 'e', 'f', 'n', 'none', 'text', 'texts', 'type');

const tape = new JsonTape();
const out = new JsonWriter(tape);

/** The value at a node, by navigation alone. */
function valueAt(node: number): unknown {
  if (tape.isArray(node)) {
    const items: unknown[] = [];
    for (let item = tape.first(node); item < tape.next(node); item = tape.next(item)) items.push(valueAt(item));
    return items;
  }
  if (tape.isObject(node)) {
    const entries: [string, unknown][] = [];
    for (let key = tape.first(node); key < tape.next(node); key = tape.next(tape.valueOf(key))) {
      entries.push([tape.string(key) as string, valueAt(tape.valueOf(key))]);
    }
    return Object.fromEntries(entries);
  }
  if (tape.isString(node)) return tape.string(node);
  if (tape.isNull(node)) return null;
  return tape.isTrue(node) || tape.isFalse(node) ? tape.isTrue(node) : tape.number(node);
}

/** Offset of the refusal; undefined when the text is read. */
function refusal(text: Buffer): number | undefined {
  try {
    tape.read(text);
    return undefined;
  } catch (error) {
    if (!(error instanceof HeadraceError) || error.code !== 'HR_REQUEST_INVALID') throw error;
    return error.validation?.[0]?.loc[1] as number;
  }
}

function parsed(text: Buffer): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text.toString()) as unknown };
  } catch {
    return undefined;
  }
}

t.test('reads what JSON.parse reads', (t) => {
  const random = new Random(1);
  let containers = 0;
  for (let round = 0; round < 10_000; round++) {
    const text = Buffer.from(` ${randomJson(random, 5)}\n`);
    tape.read(text);
    assert.deepEqual(valueAt(JsonTape.ROOT), JSON.parse(text.toString()), text.toString());
    if (!tape.isEmpty(JsonTape.ROOT)) containers++;
  }
  t.ok(containers > 5000);
  t.end();
});

/** Whether only what stands in long strings is wrong: bytes behind the first 16 are for the server to judge. */
function onlyLongStringsAreBroken(text: Buffer): boolean {
  const shortened = text
    .toString()
    .replace(/"(?:[^"\\]|\\[^])*"/g, (all) => (Buffer.byteLength(all) > 18 ? '""' : all));
  return parsed(Buffer.from(shortened)) !== undefined;
}

t.test('a scan of a body leaves the same as reading it, and it is not read again', (t) => {
  const random = new Random(2);
  for (let round = 0; round < 2000; round++) {
    const list = Array.from({ length: random.below(12) }, () => randomJson(random, 3));
    const members = [`"a":${randomJson(random, 4)}`, `"model":"m"`, `"input":[${list.join()}]`];
    const body = Buffer.from(` { ${members.join(' ,')} }`);
    tape.read(body);
    assert(scanBody(body).ok);
    assert.deepEqual(nodesOf(bodyTape), nodesOf(tape), body.toString());
    body.fill(0);
    bodyTape.read(body);
    assert.deepEqual(nodesOf(bodyTape), nodesOf(tape));
  }
  const broken = Buffer.from('{"model":"m"} x');
  scanBody(broken);
  t.throws(() => bodyTape.read(broken), { code: 'HR_REQUEST_INVALID' });
  t.end();
});

t.test('a body of very many values is scanned without keeping them, and read where they are wanted', (t) => {
  const texts = Array.from({ length: 100_000 }, (_, at) => `${at}`);
  const wide = Buffer.from(JSON.stringify({ texts, model: 'm', input: [1, [2]] }));
  const scan = scanBody(wide);
  t.ok(scan.ok && scan.model === 'm' && scan.turns.length === 4);
  bodyTape.read(wide);
  t.equal(bodyTape.string(bodyTape.first(bodyTape.member(JsonTape.ROOT, NAME.texts))), '0');
  tape.read(wide);
  t.strictSame(nodesOf(bodyTape), nodesOf(tape));
  bodyTape.release();
  tape.release();
  const large = Buffer.from(JSON.stringify({ model: 'm', text: 'x'.repeat(4 * 1024 * 1024) }));
  scanBody(large);
  t.not(bodyTape.body, large, 'a large body is not kept');
  t.end();
});

t.test('refuses what JSON.parse refuses, except inside long strings, and says where', (t) => {
  const random = new Random(2);
  let refused = 0;
  for (let round = 0; round < 10_000; round++) {
    const text = mutated(Buffer.from(randomJson(random, 4)), random);
    const expected = parsed(text);
    const at = refusal(text);
    if (at !== undefined) refused++;
    if (expected === undefined) assert(at !== undefined || onlyLongStringsAreBroken(text), text.toString('latin1'));
    else assert.deepEqual(at ?? valueAt(JsonTape.ROOT), expected.value, text.toString('latin1'));
  }
  t.ok(refused > 3000, 'the changes break enough texts');
  for (const [text, at] of [
    ['', 0],
    ['{"a":1', 6],
    ['{"é":tru}', 5],
    ['[1,]', 3],
    ['[,1]', 1],
    ['{,}', 1],
    ['{"a" 1}', 5],
    ['{"a":1 "b"}', 7],
    ['{"a":1,}', 7],
    ['{1:2}', 1],
    ['[1}', 2],
    ['1 2', 2],
    ['["a', 1],
  ] as const) {
    t.equal(refusal(Buffer.from(text)), at, text);
  }
  t.end();
});

t.test('reads deep and wide texts, and refuses what is deeper than 65,536 levels', (t) => {
  const depth = 65_536;
  t.equal(refusal(Buffer.from('['.repeat(depth) + ']'.repeat(depth))), undefined);
  t.equal(refusal(Buffer.from('['.repeat(depth + 1))), depth);
  const wide = Buffer.from(JSON.stringify({ numbers: Array.from({ length: 100_000 }, (_, at) => at) }));
  tape.read(wide);
  t.strictSame(valueAt(JsonTape.ROOT), JSON.parse(wide.toString()));
  tape.release();
  tape.read(Buffer.from('[1]'));
  t.strictSame(valueAt(JsonTape.ROOT), [1], 'what a large text took is given back, and the tape goes on');
  t.end();
});

t.test('refuses what has more values than are read one by one, and goes on', (t) => {
  tape.read(Buffer.from(`[${'1,'.repeat(MAX_READ_VALUES - 3)}1]`));
  t.equal(tape.values, MAX_READ_VALUES - 1);
  for (const more of [MAX_READ_VALUES, 4 * MAX_READ_VALUES]) {
    t.throws(() => tape.read(Buffer.from(`[${'1,'.repeat(more)}1]`)), {
      code: 'HR_REQUEST_UNTRANSLATABLE',
      validation: [{ loc: ['body'], msg: 'It has more than 262144 values and keys.' }],
    });
  }
  tape.release();
  tape.read(Buffer.from('[1]'));
  t.strictSame(valueAt(JsonTape.ROOT), [1]);
  t.end();
});

t.test('finds members by name in any spelling, the last of duplicates', (t) => {
  const json = String.raw`{"a":1,"type":"x","\u0074ype":"t\u0065xt","A":2,"n":null,"e":[],"f":{"a":3}}`;
  tape.read(Buffer.from(json));
  const at = (name: keyof typeof NAME): number => tape.member(JsonTape.ROOT, NAME[name]);
  t.equal(tape.name(at('type')), NAME.text);
  t.not(tape.name(at('type')), NAME.texts);
  t.equal(tape.name(at('a')), 0, 'a number is no string');
  t.equal(tape.number(at('a')), 1);
  t.ok(Number.isNaN(tape.number(at('type'))));
  t.ok(Number.isNaN(tape.number(at('none'))));
  t.equal(tape.string(at('a')), undefined);
  t.equal(tape.string(at('none')), undefined);
  t.equal(at('b'), JsonTape.NONE);
  t.equal(tape.member(at('a'), NAME.a), JsonTape.NONE, 'a number has no members');
  t.equal(tape.member(JsonTape.NONE, NAME.a), JsonTape.NONE);
  t.equal(tape.number(tape.member(at('f'), NAME.a)), 3);
  t.ok(tape.isEmpty(at('n')) && tape.isEmpty(at('e')));
  t.notOk(tape.isEmpty(at('f')) || tape.isEmpty(at('a')) || tape.isEmpty(at('type')));
  t.end();
});

t.test('says where a value is', (t) => {
  tape.read(Buffer.from('{"a":[{},{"b":1,"c":[2,3]}],"d":4}'));
  const list = tape.member(JsonTape.ROOT, NAME.a);
  const inner = tape.next(tape.first(list));
  const items = tape.member(inner, NAME.c);
  t.strictSame(tape.path(JsonTape.ROOT), []);
  t.strictSame(tape.path(JsonTape.NONE), []);
  t.strictSame(tape.path(list), ['a']);
  t.strictSame(tape.path(inner), ['a', 1]);
  t.strictSame(tape.path(tape.member(inner, NAME.b)), ['a', 1, 'b']);
  t.strictSame(tape.path(tape.next(tape.first(items))), ['a', 1, 'c', 1]);
  t.strictSame(tape.path(tape.member(JsonTape.ROOT, NAME.d)), ['d']);
  t.end();
});

t.test('writes values as they were written, and commas between members and items', (t) => {
  tape.read(Buffer.from(String.raw`{ "a" : [ 1.0, "\u0041" ], "b":"x\ny", "c":{} }`));
  out.begin();
  out.latin1('{');
  out.carry('"list":', tape.member(JsonTape.ROOT, NAME.a));
  out.member(tape.first(JsonTape.ROOT));
  out.next('"text":"<');
  out.inside(tape.member(JsonTape.ROOT, NAME.b));
  out.latin1('>"');
  const { length } = out;
  out.next('"gone":1');
  out.takeBack(length);
  out.next('"flag":true');
  out.next('"items":[');
  out.item(tape.member(JsonTape.ROOT, NAME.c));
  out.next('0]}');
  const expected = String.raw`{"list":[ 1.0, "\u0041" ],"a" : [ 1.0, "\u0041" ],"text":"<x\ny>","flag":true,"items":[{},0]}`;
  t.equal(out.take().text.toString(), expected);
  t.end();
});

t.test('quotes JSON as the inside of a string', (t) => {
  const random = new Random(3);
  t.plan(1);
  for (let round = 0; round < 3000; round++) {
    const text = randomJson(random, 4);
    tape.read(Buffer.from(text));
    out.begin();
    out.latin1('"');
    out.quoted(JsonTape.ROOT);
    out.latin1('"');
    const written = JSON.parse(out.take().text.toString()) as string;
    assert.equal(written, text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, ''));
  }
  t.pass();
});

t.test('quotes anywhere in the sixteen bytes that are looked at', (t) => {
  for (let before = 0; before < 35; before++) {
    for (const middle of ['"a"', String.raw`"\\\n"`, '[\n\t\r1]', '""', '{\n}']) {
      const text = `[${'1,'.repeat(before)}${middle},${' '.repeat(before)}2]`;
      tape.read(Buffer.from(text));
      out.begin();
      out.next('"');
      out.quoted(JsonTape.ROOT);
      out.latin1('"');
      const written = out.take().text.toString();
      const controls = { '\t': '0009', '\n': '000a', '\r': '000d' };
      const expected = text
        .replace(/["\\]/g, String.raw`\$&`)
        .replace(/[\t\n\r]/g, (byte) => `\\u${controls[byte as keyof typeof controls]}`);
      assert.equal(written, `"${expected}"`);
    }
  }
  t.end();
});

t.test('writes a text that becomes longer than the memory of the module', (t) => {
  const value = 'abcd\n"'.repeat(50_000);
  tape.read(Buffer.from(JSON.stringify([{ a: value }, 'é'])));
  const object = tape.first(JsonTape.ROOT);
  out.begin();
  out.latin1('[');
  for (let round = 0; round < 4; round++) {
    out.item(object);
    out.next('"');
    out.quoted(object);
    out.latin1('"');
    out.item(tape.next(object));
  }
  out.latin1(']');
  const written = JSON.parse(out.take().text.toString()) as unknown[];
  const expected = [{ a: value }, JSON.stringify({ a: value }), 'é'];
  t.strictSame(written, [...expected, ...expected, ...expected, ...expected]);
  t.end();
});

t.test('copies the right text when another one has been scanned meanwhile', (t) => {
  const text = JSON.stringify({ a: 'x'.repeat(100), b: { c: 'é"' } });
  tape.read(Buffer.from(text));
  const inner = tape.member(JsonTape.ROOT, NAME.b);
  const written: string[] = [];
  for (const scan of [() => undefined, () => scanBody(Buffer.from(`{"model":"${'m'.repeat(200)}"}`))]) {
    out.begin();
    scan();
    out.latin1('[');
    out.item(JsonTape.ROOT);
    out.next('"');
    out.quoted(inner);
    out.latin1('"]');
    written.push(out.take().text.toString());
  }
  const expected = JSON.stringify([JSON.parse(text), JSON.stringify({ c: 'é"' })]);
  t.strictSame(written, [expected, expected]);
  t.end();
});

t.test('writes large texts, and gives back what they took', (t) => {
  const random = new Random(4);
  const texts = Array.from({ length: 100 }, () => randomText(random, 8000));
  const json = `[${texts.map((text) => spelled(random, text)).join(',')}]`;
  tape.read(Buffer.from(json));
  out.begin();
  out.value(JsonTape.ROOT);
  const first = out.take();
  t.equal(first.text.toString(), json);
  out.begin();
  out.latin1('[]');
  t.equal(out.take().text.toString(), '[]');
  t.equal(first.text.toString(), json, 'what was taken stays');
  t.end();
});

t.test('a text is plain when it has no escape with a shorter form', (t) => {
  const filler = 'x'.repeat(100);
  for (const [value, isPlain] of [
    ['a\\n\\"\\\\', true],
    ['/', true],
    ['\\/', false],
    ['\\u00e9', false],
    ['\\\\u00e9', true],
  ] as const) {
    for (const text of [`{"a":"${value}","b":"${filler}"}`, `{"b":"${filler}","a":["${value}"]}`]) {
      tape.read(Buffer.from(text));
      t.equal(tape.isPlain, isPlain, text);
    }
  }
  // A key with escapes.
  tape.read(Buffer.from(`{"\\n":"${filler}"}`));
  t.equal(tape.isPlain, false);
  t.end();
});

t.test('memory of texts that are given back is used again; that of large ones, and of small ones, is freed', (t) => {
  const freed = freedBlocks(t);
  const written = (bytes: number): WrittenText => {
    tape.read(Buffer.from(JSON.stringify('x'.repeat(bytes))));
    out.begin();
    out.value(JsonTape.ROOT);
    return out.take();
  };
  const sizeOf = ({ memory }: WrittenText): number => memory.bytes.byteLength;
  // Whatever other tests have given back.
  for (let count = 0; count < 64; count++) written(200_000);
  const texts = [300_000, 40_000, 60_000, 100_000].map(written);
  const sizes = texts.map(sizeOf);
  for (const text of texts) JsonWriter.give(text);
  t.strictSame(freed.splice(0), [sizes[0]], 'too large to be kept');
  const again = [90_000, 50_000].map(written);
  t.strictSame(again.map(sizeOf), [sizes[3], sizes[2]]);
  const large = written(50_000);
  t.strictSame(freed.splice(0), [sizes[1]], 'too small for the next text');
  t.ok(sizeOf(large) > (sizes[1] ?? 0));
  for (const text of Array.from({ length: 10 }, () => written(200_000))) JsonWriter.give(text);
  t.equal(freed.length, 5, 'of the rest a megabyte is kept');
  t.end();
});
