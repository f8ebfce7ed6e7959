// What tables of fields do with each kind of row, and with fields that have none.
import t from 'tap';
import {
  carried,
  dropped,
  FieldTable,
  passed,
  refused,
  TypeTable,
} from '../../../src/dialect/translation/field-table.ts';
import { untranslatable } from '../../../src/dialect/translation/untranslatable.ts';
import { nameIds } from '../../../src/dialect/json-names.ts';
import { JsonTape } from '../../../src/dialect/json-tape.ts';
import { JsonWriter } from '../../../src/dialect/translation/json-writer.ts';

// Known before texts are read.
const NAME = nameIds('a', 'b', 'c', 'note');

const tape = new JsonTape();
const out = new JsonWriter(tape);
const deps = { tape, out };

const PARTS = new TypeTable(
  deps,
  'parts[]',
  [
    passed('text', 'Is the same.'),
    carried('note_*', 'part', 'Becomes a text.', (part) => {
      out.next('{"type":"text","text":');
      out.value(tape.member(part, NAME.note));
      out.latin1('}');
    }),
    dropped('mark', 'Says nothing.'),
    refused('file', 'The server has no files.'),
  ],
  { action: 'refused', note: 'Nobody knows this part.' },
);

const BODY = new FieldTable(
  deps,
  '',
  [
    passed('model', 'Is the same.'),
    carried('limit', 'max_limit', 'Has another name.'),
    carried('parts', 'content', 'A list of parts.', (parts) => {
      out.next('"content":[');
      for (let part = tape.first(parts); part < tape.next(parts); part = tape.next(part)) PARTS.write(part);
      out.latin1(']');
    }),
    carried('size', 'content', 'Stands in the content.', null),
    dropped('store', 'Nothing is stored.'),
    refused('files', 'The server has no files.'),
  ],
  { action: 'passed', note: 'Fields without a row pass.' },
);

function written(table: FieldTable, body: unknown): unknown {
  tape.read(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)));
  out.begin();
  out.latin1('{');
  table.write(JsonTape.ROOT);
  out.latin1('}');
  return JSON.parse(out.take().text.toString());
}

t.test('writes fields in the order in which they came, and those without a row behind them', (t) => {
  const body = String.raw`{"top_k":40,"store":true,"limit":10,"\u006dodel":"m","min_p": 0.10,"size":1,"min_p":0.2}`;
  tape.read(Buffer.from(body));
  out.begin();
  out.latin1('{');
  BODY.write(JsonTape.ROOT);
  out.latin1('}');
  const expected = String.raw`{"max_limit":10,"\u006dodel":"m","top_k":40,"min_p": 0.10,"min_p":0.2}`;
  t.equal(out.take().text.toString(), expected, 'a field that keeps its name is as it was written');
  t.strictSame(written(BODY, {}), {});
  t.end();
});

t.test('takes null for absent, and the last of two members with one name', (t) => {
  t.strictSame(written(BODY, { limit: null, files: null, other: null }), { other: null });
  t.strictSame(written(BODY, '{"limit":1,"files":["a"],"limit":2,"files":[]}'), { max_limit: 2 });
  t.end();
});

t.test('refuses by name what says something', (t) => {
  for (const files of [null, false, '', [], {}]) t.strictSame(written(BODY, { files }), {});
  for (const files of [true, 0, 'a', ['a'], { a: 1 }]) {
    t.throws(() => written(BODY, { files }), {
      code: 'HR_REQUEST_UNTRANSLATABLE',
      status: 422,
      subject: 'files: The server has no files.',
      validation: [{ loc: ['body', 'files'], msg: 'The server has no files.', type: 'untranslatable' }],
    });
  }
  t.end();
});

t.test('treats objects by their type', (t) => {
  const parts = [{ type: 'text', text: 'a', extra: 1 }, { type: 'mark' }, { type: 'note_2026', note: 'b' }];
  t.strictSame(written(BODY, { parts }), { content: [parts[0], { type: 'text', text: 'b' }] });
  t.throws(() => written(BODY, { parts: [...parts, { type: 'file' }] }), {
    code: 'HR_REQUEST_UNTRANSLATABLE',
    subject: 'parts.3.type: file: The server has no files.',
    validation: [{ loc: ['body', 'parts', 3, 'type'], msg: 'file: The server has no files.', type: 'untranslatable' }],
  });
  t.throws(() => written(BODY, { parts: [{ type: 'x'.repeat(1000) }] }), {
    code: 'HR_REQUEST_UNTRANSLATABLE',
    subject: `parts.0.type: ${'x'.repeat(64)}: Nobody knows this part.`,
  });
  t.throws(() => written(BODY, { parts: ['a'] }), {
    code: 'HR_REQUEST_UNTRANSLATABLE',
    subject: 'parts.0: Nobody knows this part.',
  });
  t.end();
});

t.test('passes, drops or refuses what has no row', (t) => {
  const table = (action: 'dropped' | 'refused'): FieldTable =>
    new FieldTable(deps, 'x', [passed('a', 'Is the same.')], { action, note: 'Has no row.' });
  t.strictSame(written(table('dropped'), { a: 1, b: 2 }), { a: 1 });
  t.throws(() => written(table('refused'), { a: 1, b: 2 }), {
    code: 'HR_REQUEST_UNTRANSLATABLE',
    subject: 'b: Has no row.',
  });
  const types = new TypeTable(deps, 'x', [], { action: 'passed', note: 'Passes.' });
  tape.read(Buffer.from('{"type":"new", "a":1}'));
  out.begin();
  types.write(JsonTape.ROOT);
  t.equal(out.take().text.toString(), '{"type":"new", "a":1}');
  t.end();
});

t.test('names a value anywhere in the body', (t) => {
  tape.read(Buffer.from('{"a":[{"b":{"c":1}}]}'));
  const item = tape.first(tape.member(JsonTape.ROOT, NAME.a));
  const value = tape.member(tape.member(item, NAME.b), NAME.c);
  t.match(untranslatable(tape, value, 'Is a number.'), {
    code: 'HR_REQUEST_UNTRANSLATABLE',
    status: 422,
    retryable: false,
    message: 'The servers of this model speak another dialect, which cannot say this: a.0.b.c: Is a number.',
    validation: [{ loc: ['body', 'a', 0, 'b', 'c'], msg: 'Is a number.', type: 'untranslatable' }],
  });
  t.end();
});
