// The validation kit: which values pass and as what, and the exact entry of every mistake.
import fc from 'fast-check';
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import {
  creditPurchase,
  fetchRequest,
  parseJsonBody,
  proxyRequest,
  readBody,
  searchRequest,
  searchRequestOf,
  toJsonSchema,
  validate,
} from '../../src/api/schema.ts';
import type { ObjectSchema, Schema } from '../../src/api/schema.ts';

const integer: Schema = { type: 'integer' };
const number: Schema = { type: 'number' };
const boolean: Schema = { type: 'boolean' };
const url: Schema = { type: 'url' };
const kind: Schema = { type: 'enum', values: ['web', 'news', 'images', 'academic'] };
const pair: Schema = { type: 'array', items: { type: 'enum', values: ['a', 'b'] }, minItems: 2, maxItems: 3 };

t.test('texts of known forms are normalised, and others refused', (t) => {
  const read = (format: 'date' | 'hostname' | 'language' | 'country', text: unknown): unknown => {
    const checked = validate({ type: 'format', format }, text, ['body']);
    return 'value' in checked ? checked.value : checked.errors[0]?.msg;
  };
  const wrong = {
    date: 'Input should be a date as YYYY-MM-DD',
    hostname: 'Input should be a host name, such as example.com',
    language: 'Input should be a language of ISO 639-1, such as en',
    country: 'Input should be a country of ISO 3166-1, such as DE',
  };
  t.equal(read('date', ' 2024-02-29 '), '2024-02-29');
  for (const text of ['2023-02-29', '2024-13-01', '2024-1-1', '24-01-01', '2024-01-01T00:00:00Z', '', 'today'])
    t.equal(read('date', text), wrong.date, text);
  t.equal(read('hostname', 'Example.COM.'), 'example.com');
  t.equal(read('hostname', 'bücher.example'), 'xn--bcher-kva.example');
  t.equal(read('hostname', '127.0.0.1'), '127.0.0.1');
  for (const text of [
    '',
    'https://a.example',
    'a.example/x',
    'a.example:80',
    'a b',
    'me@a',
    '[::1]',
    '..',
    'a'.repeat(300),
  ])
    t.equal(read('hostname', text), wrong.hostname, text);
  t.equal(read('language', 'EN'), 'en');
  for (const text of ['', 'xx', 'english', 'en-US', 'e1']) t.equal(read('language', text), wrong.language, text);
  t.equal(read('country', 'de'), 'DE');
  t.equal(read('country', 'uk'), 'GB');
  t.equal(read('country', 'SU'), 'RU');
  t.equal(read('language', 'iw'), 'he');
  t.equal(read('language', 'sh'), 'sr');
  t.equal(read('language', 'tl'), 'tl');
  for (const text of ['', 'XX', 'ZZ', 'EU', 'Germany', '276']) t.equal(read('country', text), wrong.country, text);
  t.equal(read('date', 20240101), 'Input should be a valid string');
  t.end();
});

t.test('a word or an object', (t) => {
  const schema: Schema = {
    type: 'word or object',
    word: { type: 'enum', values: ['day', 'week'] },
    object: { type: 'object', fields: { from: { type: 'format', format: 'date' } } },
  };
  t.same(validate(schema, 'day', []), { value: 'day' });
  t.same(validate(schema, { from: '2024-01-01' }, []), { value: { from: '2024-01-01' } });
  t.match(validate(schema, 'year', ['body', 'time_range']), {
    errors: [{ loc: ['body', 'time_range'], msg: "Input should be 'day' or 'week'" }],
  });
  t.match(validate(schema, { from: 'now' }, ['body', 'time_range']), {
    errors: [{ loc: ['body', 'time_range', 'from'] }],
  });
  t.match(validate(schema, [], []), { errors: [{ type: 'literal_error' }] });
  t.same(toJsonSchema(schema), {
    anyOf: [
      { type: 'string', enum: ['day', 'week'] },
      { type: 'object', properties: { from: { type: 'string', format: 'date' } } },
    ],
  });
  t.end();
});

t.test('lax conversion takes what clients commonly send', (t) => {
  const cases: [Schema, unknown, unknown][] = [
    [integer, '5', 5],
    [integer, ' +1_000 ', 1000],
    [integer, '5.00', 5],
    [integer, true, 1],
    [integer, -0, 0],
    [number, '1.5', 1.5],
    [number, '.5e1', 5],
    [number, '1_000.5', 1000.5],
    [number, false, 0],
    [boolean, 'YES', true],
    [boolean, 'off', false],
    [boolean, 1, true],
    [boolean, 0, false],
    [kind, 'news', 'news'],
    [pair, ['a', 'b'], ['a', 'b']],
    [url, ' http://x ', 'http://x'],
    [url, 'https://user@é.com:8080/a?b#c', 'https://user@é.com:8080/a?b#c'],
    [{ type: 'string', maxLength: 1 }, '😀', '😀'],
    [{ type: 'map', values: integer }, { a: '1' }, { a: 1 }],
    [{ type: 'any' }, null, null],
  ];
  for (const [schema, value, expected] of cases) t.strictSame(validate(schema, value, []), { value: expected });
  t.end();
});

t.test('each mistake has its type and sentence', (t) => {
  const int = 'Input should be a valid integer';
  const float = 'Input should be a valid number';
  const bool = 'Input should be a valid boolean';
  const badUrl = 'Input should be a valid URL,';
  const kinds = "Input should be 'web', 'news', 'images' or 'academic'";
  const cases: [Schema, unknown, string, string][] = [
    [{ type: 'string' }, 5, 'string_type', 'Input should be a valid string'],
    [{ type: 'string' }, null, 'string_type', 'Input should be a valid string'],
    [{ type: 'string', minLength: 1 }, '', 'string_too_short', 'String should have at least 1 character'],
    [{ type: 'string', minLength: 2 }, '😀', 'string_too_short', 'String should have at least 2 characters'],
    [{ type: 'string', maxLength: 2 }, 'abc', 'string_too_long', 'String should have at most 2 characters'],
    [{ type: 'string', pattern: '^a+$' }, 'b', 'string_pattern_mismatch', "String should match pattern '^a+$'"],
    [
      { type: 'string' },
      '\ud800',
      'string_unicode',
      'Input should be a valid string, unable to parse raw data as a unicode string',
    ],
    [integer, null, 'int_type', int],
    [integer, [], 'int_type', int],
    [integer, 'ten', 'int_parsing', `${int}, unable to parse string as an integer`],
    [integer, '5.10', 'int_parsing', `${int}, unable to parse string as an integer`],
    [integer, 1.5, 'int_from_float', `${int}, got a number with a fractional part`],
    [integer, Infinity, 'finite_number', 'Input should be a finite number'],
    [number, {}, 'float_type', float],
    [number, `${'1'.repeat(1e6)}x`, 'float_parsing', `${float}, unable to parse string as a number`],
    [number, '', 'float_parsing', `${float}, unable to parse string as a number`],
    [number, '1__0', 'float_parsing', `${float}, unable to parse string as a number`],
    [number, '-inf', 'finite_number', 'Input should be a finite number'],
    [number, '1e400', 'finite_number', 'Input should be a finite number'],
    [{ type: 'integer', minimum: 1 }, 0, 'greater_than_equal', 'Input should be greater than or equal to 1'],
    [{ type: 'integer', maximum: 50 }, 51, 'less_than_equal', 'Input should be less than or equal to 50'],
    [{ type: 'number', exclusiveMinimum: 0 }, 0, 'greater_than', 'Input should be greater than 0'],
    [{ type: 'number', exclusiveMaximum: 50 }, 50, 'less_than', 'Input should be less than 50'],
    [boolean, null, 'bool_type', bool],
    [boolean, 1.5, 'bool_type', bool],
    [boolean, 2, 'bool_parsing', `${bool}, unable to interpret input`],
    [boolean, 'maybe', 'bool_parsing', `${bool}, unable to interpret input`],
    [kind, 'video', 'literal_error', kinds],
    [kind, null, 'literal_error', kinds],
    [{ type: 'enum', values: ['a', 'b'] }, 'c', 'literal_error', "Input should be 'a' or 'b'"],
    [{ type: 'enum', values: ['a'] }, 'c', 'literal_error', "Input should be 'a'"],
    [pair, 'ab', 'list_type', 'Input should be a valid list'],
    [pair, ['a'], 'too_short', 'List should have at least 2 items after validation, not 1'],
    [pair, ['x', 'x', 'x', 'x'], 'too_long', 'List should have at most 3 items after validation, not 4'],
    [{ type: 'map', values: integer }, [], 'dict_type', 'Input should be a valid dictionary'],
    [url, 5, 'url_type', 'URL input should be a string or URL'],
    [url, '', 'url_parsing', `${badUrl} input is empty`],
    [url, '/x', 'url_parsing', `${badUrl} relative URL without a base`],
    [url, 'http://', 'url_parsing', `${badUrl} empty host`],
    [url, 'http://user@:80', 'url_parsing', `${badUrl} empty host`],
    [url, 'http://x:99999', 'url_parsing', `${badUrl} invalid port number`],
    [url, 'http://[::1', 'url_parsing', `${badUrl} invalid IPv6 address`],
    [url, 'http://1.2.3.999', 'url_parsing', `${badUrl} invalid IPv4 address`],
    [url, 'http://a b', 'url_parsing', `${badUrl} invalid international domain name`],
    [url, 'ftp://x', 'url_scheme', "URL scheme should be 'http' or 'https'"],
    [url, `http://x/${'a'.repeat(2080)}`, 'url_too_long', 'URL should have at most 2083 characters'],
    [
      { type: 'object', fields: {} },
      null,
      'model_attributes_type',
      'Input should be a valid dictionary or object to extract fields from',
    ],
  ];
  for (const [schema, value, type, msg] of cases) {
    t.strictSame(validate(schema, value, ['body', 'x']), { errors: [{ loc: ['body', 'x'], msg, type }] }, type);
  }
  t.end();
});

t.test('a host with a letter of Latin-1 stays valid however often it is checked', (t) => {
  const checks = Array.from({ length: 20_000 }, () => validate(url, 'http://é.com', []));
  t.ok(checks.every((checked) => 'value' in checked));
  t.end();
});

t.test('all mistakes are told at once, in field order, with their places', (t) => {
  const sent = { extra: 1, search_type: 'video', max_results: 0, engines: ['engine_a', 'engine_z', 7] };
  const engines = "Input should be 'engine_a', 'engine_b', 'engine_c', 'engine_d' or 'engine_e'";
  t.strictSame(validate(searchRequest, sent, ['body']), {
    errors: [
      { loc: ['body', 'query'], msg: 'Field required', type: 'missing' },
      { loc: ['body', 'engines', 1], msg: engines, type: 'literal_error' },
      { loc: ['body', 'engines', 2], msg: engines, type: 'literal_error' },
      { loc: ['body', 'max_results'], msg: 'Input should be greater than or equal to 1', type: 'greater_than_equal' },
      {
        loc: ['body', 'search_type'],
        msg: "Input should be 'web', 'news', 'images' or 'academic'",
        type: 'literal_error',
      },
    ],
  });
  t.end();
});

t.test('of many mistakes the first hundred are told', (t) => {
  const list = validate({ type: 'array', items: integer }, new Array(5000).fill('x'), ['body']);
  t.match(list, { errors: { length: 100, 99: { loc: ['body', 99], type: 'int_parsing' } } });
  const map = validate({ type: 'map', values: integer }, { ...new Array(5000).fill('x') }, ['body']);
  t.match(map, { errors: { length: 100 } });
  t.end();
});

t.test('a list with a bad item is not called too short as well', (t) => {
  const entry = { loc: ['body', 0], msg: "Input should be 'a' or 'b'", type: 'literal_error' };
  t.strictSame(validate(pair, ['x'], ['body']), { errors: [entry] });
  t.end();
});

t.test('defaults fill absent fields and are never shared between requests', (t) => {
  const first = validate(searchRequest, { query: 'q', other: 1 }, ['body']);
  const second = validate(searchRequest, { query: 'q' }, ['body']);
  t.strictSame(first, {
    value: { query: 'q', engines: ['engine_a', 'engine_b', 'engine_c'], max_results: 10, search_type: 'web', page: 1 },
  });
  t.not('value' in first && first.value.engines, 'value' in second && second.value.engines);
  t.match(validate(searchRequestOf(['x', 'y'], ['y']), { query: 'q' }, []), { value: { engines: ['y'] } });
  t.end();
});

t.test('fields beyond the known ones are kept only where the description says so', (t) => {
  const sent = JSON.parse('{"model":"m","temperature":1,"__proto__":{"a":1}}') as unknown;
  const proxied = validate(proxyRequest, sent, ['body']);
  t.equal(JSON.stringify(proxied), '{"value":{"model":"m","temperature":1,"__proto__":{"a":1}}}');
  t.strictSame(validate(creditPurchase, { address: 'a', amount: '5', x: 1 }, []), {
    value: { address: 'a', amount: 5 },
  });
  t.end();
});

t.test('a field named like an inherited member counts as absent', (t) => {
  const odd: ObjectSchema<{ valueOf: string }> = {
    type: 'object',
    fields: { valueOf: { type: 'string', required: true } },
  };
  t.match(validate(odd, {}, ['body']), { errors: [{ loc: ['body', 'valueOf'], type: 'missing' }] });
  t.end();
});

t.test('the body itself can be the mistake', (t) => {
  const notAnObject = 'Input should be a valid dictionary or object to extract fields from';
  const cases: [string, string | undefined, unknown][] = [
    ['', 'application/json', { loc: ['body'], msg: 'Field required', type: 'missing' }],
    ['', 'text/plain', { loc: ['body'], msg: 'Field required', type: 'missing' }],
    ['null', undefined, { loc: ['body'], msg: 'Field required', type: 'missing' }],
    ['[]', undefined, { loc: ['body'], msg: notAnObject, type: 'model_attributes_type' }],
    ['5', undefined, { loc: ['body'], msg: notAnObject, type: 'model_attributes_type' }],
    ['{"a":1,}', undefined, { loc: ['body', 7], msg: 'JSON decode error', type: 'json_invalid' }],
  ];
  for (const [text, contentType, entry] of cases) {
    t.strictSame(parseJsonBody(Buffer.from(text), contentType), { errors: [entry] }, text);
  }
  for (const contentType of ['text/plain', 'application/jsonp']) {
    const hint = `Content-Type should be application/json, not ${contentType}`;
    const entry = { loc: ['body'], msg: notAnObject, type: 'model_attributes_type', hint };
    t.strictSame(parseJsonBody(Buffer.from('{}'), contentType), { errors: [entry] }, contentType);
  }
  for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80]]) {
    const body = Buffer.concat([Buffer.from('{"query":"'), Buffer.from(bytes), Buffer.from('"}')]);
    t.match(parseJsonBody(body, undefined), { errors: [{ type: 'json_invalid', hint: 'JSON should be UTF-8' }] });
  }
  for (const contentType of [undefined, 'application/json', 'Application/JSON ; charset=utf-8', 'application/x+json']) {
    t.strictSame(parseJsonBody(Buffer.from('\ufeff{"a":1}'), contentType), { value: { a: 1 } });
  }
  t.end();
});

t.test('broken JSON is located where a Python client would locate it', (t) => {
  const cases: [string, number][] = [
    ['{', 1],
    ['{"a"', 4],
    ['{"a":', 5],
    ['{"a":1', 6],
    ['{"a":1,', 7],
    ['{a:1}', 1],
    ['{"a" 1}', 5],
    ['{"a":1 "b":2}', 7],
    ['[1,]', 3],
    ['[1 2]', 3],
    ['[1}', 2],
    ['{"a":1]', 6],
    ['  x', 2],
    ['tru', 0],
    ['01', 1],
    ['1.', 1],
    ['-', 0],
    ['{} x', 3],
    ['{"a":{"b":[]}} x', 15],
    ['"abc', 0],
    ['{"a":"b\\', 5],
    ['"a\\x"', 2],
    ['"a\\u12"', 3],
    ['"\\u00e9\\q"', 7],
    ['"a\nb"', 2],
    ['{"a":"😀",}', 9],
    ['{"a":"😀" x', 9],
    ['NaN', 0],
  ];
  for (const [text, offset] of cases) {
    t.match(parseJsonBody(Buffer.from(text), undefined), { errors: [{ loc: ['body', offset] }] }, text);
  }
  t.match(parseJsonBody(Buffer.from('['.repeat(1_000_000)), undefined), { errors: [{ loc: ['body', 1_000_000] }] });
  t.end();
});

t.test('whatever the body holds, the answer is a value or entries of exactly three keys', (t) => {
  const body = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.json(),
    fc.anything().map((value) => JSON.stringify(value) ?? ''),
  );
  fc.assert(
    fc.property(body, (text) => {
      const parsed = parseJsonBody(Buffer.from(text), undefined);
      const checked = 'errors' in parsed ? parsed : validate(searchRequest, parsed.value, ['body']);
      if ('value' in checked) return typeof checked.value.query === 'string';
      return checked.errors.every((entry) => Object.keys(entry).sort().join() === 'loc,msg,type');
    }),
    { numRuns: 500 },
  );
  t.end();
});

t.test('a body is read whole or refused with its entries', (t) => {
  t.strictSame(readBody(fetchRequest, Buffer.from('{"url":"http://x/"}'), 'application/json'), {
    url: 'http://x/',
    format: 'text',
    include: [],
  });
  for (const text of ['{', '{"url":5}']) {
    try {
      readBody(fetchRequest, Buffer.from(text), 'application/json');
      t.fail('refuses');
    } catch (error) {
      t.ok(error instanceof HeadraceError);
      t.match(error, { code: 'HR_REQUEST_INVALID', validation: [{ loc: ['body'] }] });
    }
  }
  t.end();
});

t.test('the same description is written as JSON Schema', (t) => {
  const components = {};
  t.strictSame(toJsonSchema(fetchRequest, components), { $ref: '#/components/schemas/FetchRequest' });
  t.match(components, { FetchRequest: { title: 'FetchRequest', properties: { url: { format: 'uri' } } } });
  t.strictSame(toJsonSchema(proxyRequest), {
    type: 'object',
    properties: { model: { type: 'string', description: 'The model id; upper and lower case are alike.' } },
    required: ['model'],
    additionalProperties: true,
  });
  t.match(toJsonSchema(searchRequest), {
    properties: {
      engines: { type: 'array', minItems: 1, default: ['engine_a', 'engine_b', 'engine_c'], items: { type: 'string' } },
      max_results: { type: 'integer', minimum: 1, maximum: 100, default: 10 },
    },
    required: ['query'],
  });
  t.strictSame(toJsonSchema({ type: 'map', values: { type: 'any' }, example: { a: 1 } }), {
    type: 'object',
    additionalProperties: {},
    examples: [{ a: 1 }],
  });
  t.end();
});
