// The JSON scanner compared with JSON.parse, one example of each validation error, and the number of prompts.
import fc from 'fast-check';
import t from 'tap';
import { bodyTape, named, promptsIn, scanBody, type ScannedBody, SPAN } from '../../src/dialect/body-scan.ts';
import { JsonTape } from '../../src/dialect/json-tape.ts';
import { LONG } from '../support/long.ts';
import { nodesOf } from '../support/tape-nodes.ts';

const NAMES = Object.keys(SPAN) as (keyof typeof SPAN)[];

function read(text: string): ScannedBody {
  const scan = scanBody(Buffer.from(text), { requireModel: false });
  if (!scan.ok) throw new Error(`rejected ${text}: ${JSON.stringify(scan.errors)}`);
  return scan;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t'), maxLength: 3 });

/** JSON text of a string, each character written plainly or as an escape. */
function quoted(value: string, escapes: readonly boolean[]): string {
  const units = Array.from({ length: value.length }, (_, at) => {
    const code = `\\u${value.charCodeAt(at).toString(16).padStart(4, '0')}`;
    return escapes[at % escapes.length] ? code : JSON.stringify(value[at]).slice(1, -1);
  });
  return `"${units.join('')}"`;
}

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('"', '\\', 'a', 'é', '{', ']'), maxLength: 200 }),
  fc.string({ unit: fc.constantFrom('x', 'y'), minLength: 60, maxLength: 300 }),
);
const jsonString = fc
  .tuple(text, fc.array(fc.boolean(), { minLength: 1, maxLength: 5 }))
  .map(([value, escapes]) => quoted(value, escapes));
const scalar = fc.oneof(
  jsonString,
  fc.constantFrom('true', 'false', 'null', '0', '-0', '-1.5e+3', '1E9', '0.25', '-0e-0'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.integer().map(String),
);

function object(key: fc.Arbitrary<string>, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const entry = fc.tuple(space, key, space, space, value, space);
  const joined = fc
    .array(entry, { maxLength: 6 })
    .map((entries) => entries.map(([a, name, b, c, raw, d]) => `${a}${name}${b}:${c}${raw}${d}`).join(','));
  return fc.tuple(space, joined).map(([inside, all]) => `{${all === '' ? inside : all}}`);
}

const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    scalar,
    fc
      .tuple(
        space,
        fc.array(
          fc.tuple(space, tie('value'), space).map((parts) => parts.join('')),
          { maxLength: 4 },
        ),
      )
      .map(([inside, all]) => `[${all.length === 0 ? inside : all.join(',')}]`),
    object(jsonString, tie('value')),
  ),
}));

const knownKey = fc
  .tuple(fc.constantFrom(...NAMES), fc.array(fc.constantFrom(false, false, true), { minLength: 1, maxLength: 3 }))
  .map(([name, escapes]) => quoted(name, escapes));
const key = fc.oneof(knownKey, knownKey, jsonString);
const body = fc
  .tuple(space, object(key, fc.oneof(value, fc.constant('true'))), space)
  .map(([before, inside, after]) => before + inside + after);

t.test('finds the members that JSON.parse finds, the last of duplicates', (t) => {
  fc.assert(
    fc.property(body, (json) => {
      const bytes = Buffer.from(json);
      const expected = JSON.parse(bytes.toString()) as Record<string, unknown>;
      const scan = scanBody(bytes, { requireModel: false });
      const model = Object.hasOwn(expected, 'model') ? expected['model'] : '';
      if (typeof model !== 'string' && model !== null) return !scan.ok && scan.errors[0]?.type === 'string_type';
      if (!scan.ok || scan.model !== (model ?? '') || scan.stream !== (expected['stream'] === true)) return false;
      return NAMES.every((name) => {
        const [start = -1, end] = scan.spans.slice(SPAN[name], SPAN[name] + 2);
        if (start < 0) return !Object.hasOwn(expected, name);
        const parsed = JSON.parse(bytes.toString('utf8', start, end)) as unknown;
        return JSON.stringify(parsed) === JSON.stringify(expected[name]);
      });
    }),
    { numRuns: LONG ? 3000 : 1000 },
  );
  t.end();
});

t.test('remembers the first elements of messages or input', (t) => {
  fc.assert(
    fc.property(
      fc.array(value, { maxLength: 12 }),
      fc.constantFrom('messages', 'input'),
      space,
      (elements, name, gap) => {
        const json = `{"a":[1],"${name}":[${elements.map((element) => gap + element + gap).join(',')}],"b":[2]}`;
        const bytes = Buffer.from(json);
        const { turns } = read(json);
        const kept = elements.slice(0, 8);
        if (turns.length !== 2 * kept.length) return false;
        return kept.every((element, at) =>
          bytes.subarray(turns[2 * at], turns[2 * at + 1]).equals(Buffer.from(element)),
        );
      },
    ),
    { numRuns: 1000 },
  );
  t.same(read('{"messages":[1,2],"messages":"text"}').turns, [], 'a later duplicate that is no array has none');
  t.end();
});

/** One edit at a random place, biased to the characters that carry structure. */
const edited = fc
  .tuple(
    body,
    fc.nat(),
    fc.constantFrom('delete', 'insert', 'replace', 'cut'),
    fc.constantFrom(...'{}[]",:\\0-.eE1tn \u0001x'),
  )
  .map(([json, place, edit, char]) => {
    const at = place % (json.length + 1);
    if (edit === 'cut') return json.slice(0, at);
    return json.slice(0, at) + (edit === 'delete' ? '' : char) + json.slice(edit === 'insert' ? at : at + 1);
  });

/** Whether JSON.parse rejects `json` only because of the contents of strings above 16 bytes. */
function onlyLongStringsAreBroken(json: string): boolean {
  return parses(json.replace(/"(?:[^"\\]|\\[^])*"/g, (all) => (Buffer.byteLength(all) > 18 ? '""' : all)));
}

t.test('rejects what JSON.parse rejects, except inside long strings', (t) => {
  let broken = 0;
  fc.assert(
    fc.property(edited, (json) => {
      const bytes = Buffer.from(json);
      const scan = scanBody(bytes, { requireModel: false });
      const refused = !scan.ok && (scan.errors[0]?.type === 'json_invalid' || bytes.length === 0);
      if (parses(bytes.toString())) return !refused;
      broken++;
      return refused || onlyLongStringsAreBroken(json);
    }),
    { numRuns: LONG ? 6000 : 2000 },
  );
  t.ok(broken > 1000, 'the edits break enough bodies');
  t.end();
});

t.test('rejects broken keys and broken strings that it reads, at any length', (t) => {
  const long = 'x'.repeat(500);
  for (const bad of ['\u0001', '\\x', '\\u12g4', '\n', '\\']) {
    for (const json of [
      `{"model":"m","${long}${bad}":1}`,
      `{"model":"${long}${bad}"}`,
      `{"model":"m","session_id":"${long}${bad}"}`,
      `{"model":"m","prompt_cache_key":"${long}${bad}"}`,
    ]) {
      const scan = scanBody(Buffer.from(json));
      t.notOk(scan.ok, JSON.stringify(bad));
      t.notOk(parses(json));
    }
  }
  t.ok(
    scanBody(Buffer.from(`{"model":"m","prompt":"${long}\u0001"}`)).ok,
    'a control character far inside a string is for the CRN to judge',
  );
  t.notOk(scanBody(Buffer.from('{"model":"m","prompt":"x\u0001"}')).ok, 'near the start it is found');
  t.end();
});

t.test('never throws on random bytes', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const buffer = Buffer.from(bytes);
      return (
        typeof scanBody(buffer).ok === 'boolean' &&
        typeof scanBody(Buffer.concat([Buffer.from('{"model":"'), buffer])).ok === 'boolean'
      );
    }),
    { numRuns: LONG ? 3000 : 1000 },
  );
  t.end();
});

t.test('returns the validation error of each mistake', (t) => {
  const missing = { loc: ['body'], msg: 'Field required', type: 'missing' };
  const notAnObject = {
    loc: ['body'],
    msg: 'Input should be a valid dictionary or object to extract fields from',
    type: 'model_attributes_type',
  };
  const broken = (offset: number) => ({ loc: ['body', offset], msg: 'JSON decode error', type: 'json_invalid' });
  const noModel = { loc: ['body', 'model'], msg: 'Field required', type: 'missing' };
  const modelType = { loc: ['body', 'model'], msg: 'Input should be a valid string', type: 'string_type' };
  const rows: [string, object][] = [
    ['', missing],
    ['null', missing],
    [' null\n', missing],
    ['[]', notAnObject],
    ['[{"model":"m"}]', notAnObject],
    ['"text"', notAnObject],
    ['12.5', notAnObject],
    ['true', notAnObject],
    ['{}', noModel],
    ['{ }', noModel],
    ['{"models":"m"}', noModel],
    ['{"a":{"model":"m"}}', noModel],
    ['{"model":null}', modelType],
    ['{"model":1}', modelType],
    ['{"model":["m"]}', modelType],
    ['{"model":"m","model":false}', modelType],
    ['not json', broken(0)],
    ['  ', broken(2)],
    ['{not json', broken(1)],
    ['{"model":', broken(9)],
    ['{"model":"m"', broken(12)],
    ['{"model":"m', broken(9)],
    ['{"model":"m",}', broken(13)],
    ['{"model":"m"}}', broken(13)],
    ['{"model":"m"} x', broken(14)],
    ['{"é":"😀",}', broken(9)],
    ['{"model" "m"}', broken(9)],
    ['{"model":"m","n":01}', broken(18)],
    ['{"model":"m","n":1.}', broken(18)],
    ['{"model":"m","n":1e}', broken(18)],
    ['{"model":"m","n":-}', broken(17)],
    ['{"model":"m","n":NaN}', broken(17)],
    ['{"model":"m","n":tru}', broken(17)],
    ['{"model":"m","n":[1,]}', broken(20)],
    ['{"model":"m","n":[1}', broken(19)],
    ['{"model":"m","n":{1:2}}', broken(18)],
    ["{'model':'m'}", broken(1)],
    ['\uFEFF{"model":"m"}', broken(0)],
  ];
  for (const [json, entry] of rows) t.strictSame(scanBody(Buffer.from(json)), { ok: false, errors: [entry] }, json);
  t.end();
});

t.test('reads each model as it is written, whichever names came before', async () => {
  // Few letters, so that names of one length with the same ends follow one another.
  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '"', '\\', '\u{ffff}'), maxLength: 5 });
  const escapes = fc.array(fc.boolean(), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(fc.array(fc.tuple(name, escapes), { maxLength: 30 }), (names) => {
      for (const [model, escaped] of names) t.equal(read(`{"model":${quoted(model, escaped)}}`).model, model);
    }),
  );
  // As many names as share a place; none of them is the one before.
  for (const model of ['axxxb', 'ayyyb', 'axxxb', 'x'.repeat(200), 'x'.repeat(200)]) {
    t.equal(read(`{"model":"${model}"}`).model, model);
  }
  t.equal(read('{"model":"__proto__"}').model, '__proto__');
});

t.test('does not require a model where the dialect does not', (t) => {
  t.equal(read('{"prompt":"x"}').model, '');
  t.equal(read('{"model":null}').model, '');
  t.equal(read('{"model":"m"}').model, 'm');
  t.notOk(scanBody(Buffer.from('{"model":5}'), { requireModel: false }).ok);
  t.end();
});

t.test('stream is true for the literal true only', (t) => {
  t.equal(read('{"stream":true}').stream, true);
  t.equal(read('{"stream":true,"stream":false}').stream, false);
  for (const other of ['"true"', '1', 'null', '{"a":true}']) t.equal(read(`{"stream":${other}}`).stream, false, other);
  t.end();
});

t.test('the session is session_id, else prompt_cache_key', (t) => {
  t.equal(read('{"prompt_cache_key":"b","session_id":"a"}').session, 'a');
  t.equal(read('{"prompt_cache_key":"b","session_id":""}').session, 'b');
  t.equal(read('{"prompt_cache_key":"b","session_id":7}').session, 'b');
  t.equal(read(`{"session_id":"${'s'.repeat(512)}"}`).session, 's'.repeat(512));
  t.equal(read(`{"session_id":"${'s'.repeat(513)}"}`).session, undefined);
  t.equal(read('{"session_id":"\\u0061\\n"}').session, 'a\n');
  t.equal(read('{}').session, undefined);
  t.end();
});

t.test('limits the depth of nesting', (t) => {
  const nested = (depth: number): Buffer =>
    Buffer.from(`{"model":"m","a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`);
  t.ok(scanBody(nested(256)).ok);
  t.notOk(scanBody(nested(257)).ok);
  t.ok(scanBody(nested(5), { maxDepth: 5 }).ok);
  t.notOk(scanBody(nested(6), { maxDepth: 5 }).ok);
  t.ok(scanBody(nested(5000), { maxDepth: 5000 }).ok);
  t.notOk(scanBody(Buffer.from('{"model":"m","messages":[{"a":1}]}'), { maxDepth: 2 }).ok);
  t.notOk(scanBody(Buffer.from('{"model":"m","messages":[]}'), { maxDepth: 1 }).ok);
  t.end();
});

t.test('white space between tokens changes nothing, also at the end of a body that is cut', async () => {
  const compact =
    '{"model":"m","messages":[{"role":"user","content":"a b"},[1,-2.5e3,true,null,{}]],"stream":true,"n":12}';
  const tokens = compact.match(/"[^"]*"|[{}[\],:]|[^"{}[\],:\s]+/g) ?? [];
  fc.assert(
    fc.property(fc.array(space, { minLength: 1, maxLength: 8 }), fc.nat(tokens.length), (gaps, cut) => {
      const spaced = tokens.map((token, at) => `${gaps[at % gaps.length]}${token}`);
      const whole = read(spaced.join('') + gaps[0]);
      const same = whole.model === 'm' && whole.stream && whole.turns.length === 4;
      const scan = scanBody(Buffer.from(spaced.slice(0, cut).join('') + gaps[0]));
      return same && (cut === tokens.length) === scan.ok;
    }),
    { numRuns: 2000 },
  );
});

function prompts(json: string): number {
  const body = Buffer.from(`{"prompt":${json},"model":"m"}`);
  return promptsIn(body, 10, 10 + Buffer.byteLength(json));
}

t.test('a text, an array of tokens and a mixture with a token are one prompt', async (t) => {
  for (const json of ['"a, b"', '[1, 2, 3]', '[]', '[ ]', 'null', '["a", 1]', '[{}, [1], 2]', '{"id": ["a", "b"]}']) {
    t.equal(prompts(json), 1, json);
  }
  t.equal(promptsIn(Buffer.from('{}'), -1, -1), 1, 'no prompt counts as one');
});

t.test('an array without a token has as many prompts as elements', async (t) => {
  t.equal(prompts('["a"]'), 1);
  t.equal(prompts('[[1], "a"]'), 2);
  t.equal(prompts('["a", [1], "b", ["c", 2]]'), 4);
  t.equal(prompts('[{"prompt_string": "a"}, {"prompt_string": "b"}]'), 2);
  t.equal(prompts('["a","b, c","d"]'), 3);
  t.equal(prompts('[ [1, 2],\n [3], [] ]'), 3);
  t.equal(prompts(String.raw`["\"," , "\\", "\\\","]`), 3);
});

t.test('the contents of texts do not change the number of prompts', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'binary' }), { minLength: 1 }),
      fc.constantFrom(undefined, 2),
      (list, space) => {
        return prompts(JSON.stringify(list, null, space)) === list.length;
      },
    ),
  );
});

t.test('another model is written where the model stands, and all that was found is found there again', async () => {
  const member = fc.tuple(fc.constantFrom(...NAMES, 'other'), value);
  const model = fc.tuple(fc.constant('model'), jsonString);
  fc.assert(
    fc.property(fc.array(member), model, fc.array(fc.oneof(member, model)), fc.string(), (before, one, after, name) => {
      const members = [...before, one, ...after.filter(([key]) => key !== 'model'), ['model', '"alias"'] as const];
      const textOf = (id: (value: string) => string): string =>
        `{${members.map(([key, raw]) => `"${key}" : ${key === 'model' ? id(raw) : raw}`).join(', ')} }`;
      const body = Buffer.from(textOf((raw) => raw));
      const scan = scanBody(body);
      const expected = Buffer.from(textOf(() => JSON.stringify(name)));
      if (!scan.ok || name.toLowerCase() === 'alias') return;
      const renamed = named(body, scan, name);
      if (!renamed.body.equals(expected)) throw new Error(`${body.toString()} became ${renamed.body.toString()}`);
      // A model that was no text may have had values of its own.
      const again = { ...scanBody(expected), values: scan.values };
      if (JSON.stringify(again) !== JSON.stringify(renamed.scan))
        throw new Error(`found elsewhere: ${body.toString()}`);
    }),
  );
});

t.test('the values of a body with one model are known when it is renamed, without another scan', async (t) => {
  const member = fc.tuple(fc.constantFrom(...NAMES, 'other'), value).filter(([name]) => name !== 'model');
  fc.assert(
    fc.property(
      fc.array(member),
      fc.array(member),
      fc.constantFrom('b', 'atlas-27b', 'stream'),
      (before, after, name) => {
        const textOf = (model: string): Buffer =>
          Buffer.from(
            `{ ${[...before, ['model', `"${model}"`], ...after].map(([key, raw]) => `"${key}":${raw}`).join()} }`,
          );
        const body = textOf('alias');
        const scan = scanBody(body);
        if (!scan.ok || !bodyTape.isWhole) return;
        const renamed = named(body, scan, name);
        t.equal(bodyTape.body, renamed.body);
        const again = new JsonTape();
        again.read(textOf(name));
        if (nodesOf(again).join() !== nodesOf(bodyTape).join()) throw new Error(`values elsewhere: ${body.toString()}`);
        // Of short texts it is not known.
        if (bodyTape.isPlain && /\\[u/]/.test(renamed.body.toString('latin1')))
          throw new Error(`not plain: ${body.toString()}`);
      },
    ),
  );
  const scan = read('{"model":"alias"}');
  named(Buffer.from('{"model":"alias"}'), scan, 'a"b');
  t.not(bodyTape.body.toString(), '{"model":"a\\"b"}', 'a name with escapes is read again');
});

t.test('a body that names its model very often is renamed in one pass', async (t) => {
  const times = 200_000;
  const repeated = (name: string): string => `{${`"model":"${name}",`.repeat(times)}"messages":[]}`;
  const renamed = named(Buffer.from(repeated('a')), read(repeated('a')), 'atlas');
  t.ok(renamed.body.equals(Buffer.from(repeated('atlas'))));
  t.strictSame(renamed.scan, scanBody(renamed.body));
});

t.test('a model that stands there in any case is left as it was written', async (t) => {
  const body = Buffer.from('{"model":"ATLAS"}');
  const scan = read('{"model":"ATLAS"}');
  t.same(named(body, scan, 'atlas'), { body, scan });
  t.equal(named(body, scan, 'atlas').body, body);
});

t.test('counts values and keys, and refuses more than are allowed', (t) => {
  const count = (value: unknown): number =>
    typeof value !== 'object' || value === null
      ? 1
      : Object.values(value).reduce<number>((sum, each) => sum + count(each) + (Array.isArray(value) ? 0 : 1), 1);
  const bodies: unknown[] = [
    { model: 'm' },
    { model: 'm', messages: [{ role: 'user', content: [{ text: 'a' }, 1, null] }], x: { y: [] } },
    { model: 'm', x: 'long '.repeat(500_000) },
    { model: 'm', x: Array.from({ length: 40_000 }, () => ({ a: [1] })) },
    { model: 'm', x: Array.from({ length: 200_000 }, () => []) },
  ];
  for (const value of bodies) {
    const body = Buffer.from(JSON.stringify(value));
    const values = count(value);
    t.match(scanBody(body), { ok: true, values });
    t.match(scanBody(body, { maxValues: values }), { ok: true, values });
    const msg = `JSON should have at most ${values - 1} values and keys`;
    t.strictSame(scanBody(body, { maxValues: values - 1 }), {
      ok: false,
      errors: [{ loc: ['body'], msg, type: 'too_many_values' }],
    });
  }
  const broken = Buffer.from(`{"x":[${'[],'.repeat(200_000)}x`);
  t.match(scanBody(broken, { maxValues: 1000 }), { errors: [{ type: 'too_many_values' }] }, 'what follows is not read');
  t.match(scanBody(broken), { errors: [{ type: 'json_invalid' }] });
  t.end();
});

t.test('finds the end of texts full of escapes', (t) => {
  const pieces = fc.constantFrom('\\"', '\\\\', '\\n', 'a', 'b'.repeat(70), '\\\\\\"');
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 300 }), (parts) => {
      const text = `"${parts.join('')}"`;
      const { spans } = read(`{"prompt":${text},"n":1}`);
      return spans[SPAN.prompt + 1] === 10 + text.length && spans[SPAN.n] === 10 + text.length + 5;
    }),
  );
  t.pass('held');
  t.end();
});
