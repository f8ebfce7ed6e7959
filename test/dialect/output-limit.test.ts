// Reading and writing the output limit of a request: all spellings of a limit, and that nothing else of a body changes.

import fc from 'fast-check';
import t from 'tap';
import { dialectOf } from '../../src/dialect/dialects.ts';
import { type Scan, scanBody, type ScannedBody } from '../../src/dialect/body-scan.ts';
import { dialectLimit, edited, limitEdits, outputLimitOf } from '../../src/dialect/output-limit.ts';

const PATHS = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages', '/completions'];
const NAMES = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict'];

function scanned(body: Buffer): ScannedBody {
  const scan: Scan = scanBody(body);
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return scan;
}

function limitOf(text: string, path = '/v1/chat/completions'): number | undefined {
  const body = Buffer.from(text);
  return outputLimitOf(dialectOf(path), body, scanned(body));
}

function limited(text: string, limit: number, path = '/v1/chat/completions'): string {
  const body = Buffer.from(text);
  return edited(body, limitEdits(dialectOf(path), body, scanned(body), limit)).toString();
}

t.test('knows that completions without a word on the limit are 16 tokens long', (t) => {
  const limitFor = (members: string, path: string): number | undefined => {
    return dialectLimit(dialectOf(path), scanned(Buffer.from(`{"model":"m","prompt":"p"${members}}`)));
  };
  t.equal(limitFor('', '/v1/completions'), 16);
  t.equal(limitFor(',"max_tokens":null', '/v1/completions'), undefined, 'a server decides what null means');
  t.equal(limitFor(',"n_predict":100', '/v1/completions'), undefined, 'llama-server reads it');
  for (const path of PATHS) if (path !== '/v1/completions') t.equal(limitFor('', path), undefined, path);
  t.end();
});

t.test('reads the limit that the servers of a dialect obey', (t) => {
  const rows: [path: string, members: string, limit: number | undefined][] = [
    ['/v1/chat/completions', '"max_tokens":7', 7],
    ['/v1/chat/completions', '"max_completion_tokens":7', 7],
    ['/v1/chat/completions', '"max_tokens":4,"max_completion_tokens":5', 5],
    ['/v1/chat/completions', '"max_tokens":4,"max_completion_tokens":null', 4],
    ['/v1/chat/completions', '"n_predict":7', undefined],
    ['/v1/chat/completions', '"max_output_tokens":7', undefined],
    ['/v1/completions', '"max_tokens":0', 0],
    ['/v1/completions', '"max_completion_tokens":7', undefined],
    ['/v1/responses', '"max_output_tokens":7,"max_tokens":9', 7],
    ['/v1/messages', '"max_tokens":7', 7],
    ['/completions', '"n_predict":7', 7],
    ['/completions', '"max_tokens":7', undefined],
    ['/v1/other', '"n_predict":7,"max_tokens":9', undefined],
    ['/v1/messages', '"max_tokens":"7"', 7],
    ['/v1/messages', '"max_tokens":" 7 "', 7],
    ['/v1/messages', '"max_tokens":"7.0"', 7],
    ['/v1/messages', '"max_tokens":7.9', 7],
    ['/v1/messages', '"max_tokens":7e2', 700],
    ['/v1/messages', '"max_tokens":-0', 0],
    ['/v1/messages', '"max_tokens":-1', undefined],
    ['/v1/messages', '"max_tokens":"-1"', undefined],
    ['/v1/messages', '"max_tokens":""', undefined],
    ['/v1/messages', '"max_tokens":"many"', undefined],
    ['/v1/messages', '"max_tokens":null', undefined],
    ['/v1/messages', '"max_tokens":true', undefined],
    ['/v1/messages', '"max_tokens":[7]', undefined],
    ['/v1/messages', '"max_tokens":{}', undefined],
    ['/v1/messages', '"max_tokens":1e999', Number.MAX_SAFE_INTEGER],
    ['/v1/messages', `"max_tokens":${'9'.repeat(400)}`, Number.MAX_SAFE_INTEGER],
    ['/v1/messages', '"max_tokens":"1e30"', Number.MAX_SAFE_INTEGER],
    ['/v1/messages', '"max_tokens":7,"max_tokens":9', 9],
    ['/v1/messages', '"max_t\\u006fkens":7', 7],
    ['/v1/messages', '"metadata":{"max_tokens":7}', undefined],
  ];
  for (const [path, members, limit] of rows) t.equal(limitOf(`{"model":"m",${members}}`, path), limit, members);
  t.end();
});

t.test('writes a lower limit, and nothing where there is one already', (t) => {
  const rows: [path: string, before: string, after: string][] = [
    ['/v1/chat/completions', '{"model":"m"}', '{"max_tokens":50,"model":"m"}'],
    ['/v1/chat/completions', ' {\n "model": "m"}', ' {"max_tokens":50,\n "model": "m"}'],
    ['/v1/completions', '{"model":"m"}', '{"max_tokens":50,"model":"m"}'],
    ['/v1/responses', '{"model":"m"}', '{"max_output_tokens":50,"model":"m"}'],
    ['/v1/messages', '{"model":"m"}', '{"max_tokens":50,"model":"m"}'],
    ['/completions', '{"model":"m"}', '{"n_predict":50,"model":"m"}'],
    ['/v1/other', '{"model":"m"}', '{"model":"m"}'],
    ['/v1/other', '{"model":"m","max_tokens":90}', '{"model":"m","max_tokens":50}'],
    ['/v1/messages', '{"model":"m","max_tokens":50}', '{"model":"m","max_tokens":50}'],
    ['/v1/messages', '{"model":"m","max_tokens":0}', '{"model":"m","max_tokens":0}'],
    ['/v1/messages', '{"model":"m","max_tokens":51}', '{"model":"m","max_tokens":50}'],
    ['/v1/messages', '{"model":"m","max_tokens": 99999999999999999999 }', '{"model":"m","max_tokens": 50 }'],
    ['/v1/messages', '{"model":"m","max_tokens":null}', '{"model":"m","max_tokens":50}'],
    ['/v1/messages', '{"model":"m","max_tokens":-1}', '{"model":"m","max_tokens":50}'],
    ['/v1/messages', '{"model":"m","max_tokens":"9"}', '{"model":"m","max_tokens":9}'],
    ['/v1/messages', '{"model":"m","max_tokens":"many"}', '{"model":"m","max_tokens":50}'],
    ['/v1/messages', '{"model":"m","max_tokens":9.5}', '{"model":"m","max_tokens":9}'],
    ['/v1/messages', '{"max_tokens":{"a":[1]},"model":"m"}', '{"max_tokens":50,"model":"m"}'],
    ['/v1/messages', '{"max_tokens":99,"model":"m","max_tokens":7}', '{"max_tokens":50,"model":"m","max_tokens":7}'],
    ['/v1/messages', '{"max_tok\\u0065ns":99,"model":"m"}', '{"max_tok\\u0065ns":50,"model":"m"}'],
    [
      '/v1/chat/completions',
      '{"model":"m","max_completion_tokens":90,"max_tokens":80}',
      '{"model":"m","max_completion_tokens":50,"max_tokens":50}',
    ],
    [
      '/v1/chat/completions',
      '{"model":"m","n_predict":-1,"max_completion_tokens":9}',
      '{"model":"m","n_predict":50,"max_completion_tokens":9}',
    ],
    ['/completions', '{"model":"m","max_tokens":90}', '{"n_predict":50,"model":"m","max_tokens":50}'],
  ];
  for (const [path, before, after] of rows) t.equal(limited(before, 50, path), after, `${path} ${before}`);
  t.end();
});

t.test('the same body comes back when nothing is to be changed', (t) => {
  const body = Buffer.from('{"model":"m","max_tokens":50}');
  t.equal(edited(body, limitEdits(dialectOf('/v1/messages'), body, scanned(body), 50)), body);
  t.end();
});

/** Members of a body in order, duplicates included: each value with the white space around it. */
const anyMembers = fc.array(
  fc.tuple(
    fc.oneof(fc.constantFrom(...NAMES, 'n', 'prompt', 'max_tokens ', 'a"b'), fc.string()),
    fc.oneof(
      fc.jsonValue().map((value) => JSON.stringify(value)),
      fc.constantFrom('null', '-1', '0', '"12"', '1e3', '12.5', '"x"', '100000', '18446744073709551616'),
      fc.nat(200).map(String),
    ),
    fc.constantFrom('', ' ', '\n\t'),
  ),
);

t.test('whatever the body, every limit in it is small, and all the rest stays byte for byte', (t) => {
  let cut = 0;
  fc.assert(
    fc.property(fc.constantFrom(...PATHS), anyMembers, fc.integer({ min: 1, max: 150 }), (path, members, limit) => {
      const print = (values: readonly string[]): string =>
        `{${['"model":"m"', ...members.map(([name, , space], at) => `${space}${JSON.stringify(name)}${space}:${space}${values[at] as string}${space}`)].join(',')}}`;
      const before = print(members.map(([, value]) => value));
      const after = limited(before, limit, path);
      const isAdded = !after.startsWith('{"model"');
      const rest = isAdded ? `{${after.slice(after.indexOf(',') + 1)}` : after;
      // The values of limits, as they stand in the new body; all others as they were.
      let pos = '{"model":"m"'.length;
      const values: string[] = [];
      for (const [name, value, space] of members) {
        const key = `,${space}${JSON.stringify(name)}${space}:${space}`;
        if (!rest.startsWith(key, pos)) return false;
        pos += key.length;
        const found = NAMES.includes(name) ? (/^\d+/.exec(rest.slice(pos))?.[0] ?? '') : value;
        if (!rest.startsWith(found + space, pos)) return false;
        if (NAMES.includes(name) && !(Number(found) <= limit)) return false;
        if (found !== value) cut++;
        pos += found.length + space.length;
        values.push(found);
      }
      if (rest !== print(values)) return false;
      const parsed = JSON.parse(after) as Record<string, unknown>;
      const expected = JSON.parse(before) as Record<string, unknown>;
      for (const name of NAMES) delete expected[name];
      const others = Object.fromEntries(Object.entries(parsed).filter(([name]) => !NAMES.includes(name)));
      const isSet =
        { '/v1/responses': ['max_output_tokens'], '/completions': ['n_predict'] }[path] ?? NAMES.slice(0, 2);
      return (
        JSON.stringify(others) === JSON.stringify(expected) &&
        isSet.some((name) => typeof parsed[name] === 'number') &&
        limited(after, limit, path) === after
      );
    }),
    { numRuns: 2000 },
  );
  t.ok(cut > 100, `${cut} values were changed`);
  t.end();
});

t.test('lowers very many limits in one pass', (t) => {
  const repeated = (limit: number): string => `{${`"max_tokens":${limit},`.repeat(200_000)}"model":"m"}`;
  t.ok(limited(repeated(99), 5) === repeated(5));
  t.end();
});
