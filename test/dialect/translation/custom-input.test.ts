// The input of a custom tool is the same in whatever pieces the arguments come, and however a model has written them.

import t from 'tap';
import { CustomInput, customInputOf } from '../../../src/dialect/translation/custom-input.ts';
import { Random } from '../../support/random.ts';

/** The input that is given out for arguments in these pieces; the rest at the end. */
function read(...pieces: string[]): string {
  const input = new CustomInput();
  const added = pieces.map((piece) => input.add(piece));
  t.ok(
    added.every((text) => text.isWellFormed()),
    'can be written as UTF-8',
  );
  const given = added.map((text) => JSON.parse(`"${text}"`) as string).join('');
  t.equal(input.given, given.length);
  return given + customInputOf(pieces.join('')).slice(input.given);
}

t.test('gives out what is complete', async (t) => {
  const input = new CustomInput();
  t.same(
    ['{"in', 'put": "a', 'b\\', 'n\\u00', 'e9\\ud83d', '\\ud', 'e00', 'c"', '}', 'x'].map((piece) => input.add(piece)),
    ['', 'a', 'b', '\\n', '\\u00e9', '', '\\ud83d\\ude00', 'c', '', ''],
  );
});

t.test('escapes the halves of a character that a server has cut in two', async (t) => {
  const input = new CustomInput();
  t.same(
    ['{"input":"a\ud83c', '\udf0ab"}'].map((piece) => input.add(piece)),
    ['a\\ud83c', '\\udf0ab'],
  );
});

t.test('takes arguments that are none for the input', async (t) => {
  for (const args of ['', 'text', '{"other":"x"}', '{"input":3}', `{"${'x'.repeat(100)}":"x"}`, '{"input":"']) {
    t.equal(customInputOf(args), args);
    t.equal(read(...args), args);
  }
});

t.test('reads what models write wrongly as far as it can', async (t) => {
  for (const [args, expected] of [
    ['{"input":"two\nlines"}', 'two\nlines'],
    ['{"input":"cut of', 'cut of'],
    ['{"input":"a","more":[1]}', 'a'],
    ['{"input":"a\\ud83db, which is no pair"}', 'a\ud83db, which is no pair'],
    ['{"input":"a\\d+ is no escape of JSON"}', 'a'],
  ] as const) {
    t.equal(customInputOf(args), expected, args);
    t.equal(read(...args), expected, args);
    t.equal(read(args), expected, args);
  }
});

t.test('any pieces give the same', async (t) => {
  const random = new Random(3);
  const words = ['a', '"', '\\', '\n', 'é', '\u{1f30a}', '\0', '{"input":"', '}', '\u2028'];
  for (let turn = 0; turn < 500; turn++) {
    const input = Array.from({ length: random.below(30) }, () => random.pick(words)).join('');
    const json = JSON.stringify({ input }, null, random.below(3));
    const ascii = json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    const args = random.pick([json, ascii]);
    const pieces: string[] = [];
    for (let at = 0, size = 0; at < args.length; at += size)
      pieces.push(args.slice(at, at + (size = 1 + random.below(8))));
    t.equal(read(...pieces), input);
  }
});
