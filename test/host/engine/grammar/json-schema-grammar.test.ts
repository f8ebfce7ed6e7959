import { CallReader } from '../../../../src/host/dialect-answer.ts';
import { schemaGrammar, toolCallGrammar } from '../../../../src/host/engine/grammar/json-schema-grammar.ts';
import { createLanguageModel } from '../../../../src/host/engine/model/language-model.ts';
import { SPECIAL } from '../../../../src/host/engine/model/vocabulary.ts';
import { createTokenGrammar } from '../../../../src/host/engine/sampling/grammar-mask.ts';
import { createRandom } from '../../../../src/host/engine/sampling/random.ts';
import { createSampling } from '../../../../src/host/engine/sampling/sampler.ts';
import { type SamplingOptions, DEFAULT_SAMPLING } from '../../../../src/host/engine/sampling/sampling-options.ts';
import { isValid } from './validate.ts';

import t from 'tap';

/** The calls in a text, as hosts read them. */
function readCalls(text: string): { name: string; arguments: string }[] {
  const calls: { name: string; arguments: string }[] = [];
  const reader = new CallReader({
    begin: (name) => void calls.push({ name, arguments: '' }),
    more: (more) => void (calls.at(-1)!.arguments += more),
  });
  reader.push(text);
  reader.end(text.endsWith('}'));
  return calls;
}

const model = createLanguageModel(1);
const sampling = createSampling(model);
const MOST_TOKENS = 3000;

/** Texts that the model writes under a grammar, one per seed. */
function write(grammar: string, seeds: number, options: Partial<SamplingOptions> = {}): string[] {
  const compiled = createTokenGrammar(grammar, model.vocabulary);
  return Array.from({ length: seeds }, (_, seed) => {
    const sampler = sampling.start({
      options: { ...DEFAULT_SAMPLING, ...options },
      prompt: Int32Array.of(SPECIAL.bos, SPECIAL.call),
      random: createRandom(seed),
      grammar: compiled,
    });
    const tokens: number[] = [];
    for (let token = sampler.next(); token !== SPECIAL.eos; token = sampler.next()) {
      tokens.push(token);
      if (tokens.length === MOST_TOKENS) throw new Error('no end');
    }
    return model.tokenizer.detokenize(tokens);
  });
}

const ADDRESS = {
  type: 'object',
  properties: { street: { type: 'string', minLength: 3 }, zip: { type: 'string', pattern: '^[0-9]{5}(-[0-9]{4})?$' } },
  required: ['street'],
  additionalProperties: false,
};

const SCHEMAS: Readonly<Record<string, unknown>> = {
  'an object of all plain types': {
    type: 'object',
    properties: {
      s: { type: 'string' },
      i: { type: 'integer' },
      n: { type: 'number' },
      b: { type: 'boolean' },
      z: { type: 'null' },
    },
    required: ['s', 'i', 'n', 'b', 'z'],
    additionalProperties: false,
  },
  'optional properties': {
    type: 'object',
    properties: { a: { type: 'integer' }, b: { const: 1 }, c: { enum: ['x'] } },
  },
  'enums and constants': { enum: ['a "quoted" one', 'back\\slash', 3, null, { deep: [1, 2] }, 'é\n'] },
  'an enum narrowed by a type': { type: 'string', enum: ['a', 1, null] },
  'integers in a range': { type: 'integer', minimum: -17, maximum: 1234 },
  'negative integers': { type: 'integer', exclusiveMaximum: -5 },
  'one integer': { type: 'integer', exclusiveMinimum: 6, exclusiveMaximum: 8 },
  'numbers in a small range': { type: 'number', minimum: 0.001, maximum: 0.0042 },
  'numbers around zero': { type: 'number', minimum: -1.5, maximum: 1.5 },
  multiples: { type: 'integer', multipleOf: 7, minimum: 10, maximum: 100 },
  'integer multiples of a fraction': { type: 'integer', multipleOf: 1.5, minimum: -10, maximum: 10 },
  'integer multiples of a tiny fraction': { type: 'integer', multipleOf: 1e-7, minimum: 0, maximum: 1e15 },
  'integer multiples beyond a fraction': { type: 'integer', multipleOf: 1e-7, minimum: 10_000_000_000.5 },
  'decimal multiples': { type: 'number', multipleOf: 0.1, minimum: 0.5, maximum: 2 },
  'strings of a length': { type: 'string', minLength: 5, maxLength: 9 },
  'strings of a pattern': { type: 'string', pattern: '^(?:[A-Z]{2}-\\d{3,}|[^a-z\\s"]+x?)$', maxLength: 20 },
  'a pattern with quotes and backslashes': { type: 'string', pattern: '^["\\\\]{1,6}$' },
  'dates and times': { type: 'string', format: 'date-time' },
  addresses: { type: 'string', format: 'uri' },
  arrays: { type: 'array', items: ADDRESS, minItems: 1, maxItems: 3 },
  'arrays without limits': { type: 'array', items: { type: 'integer' } },
  tuples: { type: 'array', prefixItems: [{ type: 'boolean' }, { type: 'integer' }], items: false, minItems: 2 },
  'unique items': { type: 'array', items: { type: 'boolean' }, uniqueItems: true },
  'anything at all': {},
  'free objects': { type: 'object', additionalProperties: { type: 'integer' }, minProperties: 2, maxProperties: 4 },
  'free objects beside declared ones': {
    type: 'object',
    properties: { key1: { type: 'string' } },
    additionalProperties: { type: 'boolean' },
    required: ['key1', 'extra'],
  },
  'any of': {
    anyOf: [{ type: 'integer', minimum: 3 }, { type: 'string', maxLength: 4 }, { type: 'null' }],
    maximum: 9,
  },
  'one of': {
    oneOf: [
      {
        type: 'object',
        properties: { kind: { const: 'circle' }, r: { type: 'number', minimum: 0 } },
        required: ['kind', 'r'],
      },
      { type: 'object', properties: { kind: { const: 'line' }, to: { type: 'integer' } }, required: ['kind', 'to'] },
    ],
  },
  'all of': {
    allOf: [{ $ref: '#/$defs/base' }, { properties: { b: { minimum: 5 } }, required: ['b'] }],
    $defs: {
      base: {
        type: 'object',
        properties: { a: { type: 'string' }, b: { type: 'integer', maximum: 8 } },
        required: ['a'],
      },
    },
  },
  'a tree': {
    $defs: {
      node: {
        type: 'object',
        properties: {
          value: { type: 'integer' },
          next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
          children: { type: 'array', items: { $ref: '#/$defs/node' } },
        },
        required: ['value', 'next'],
        additionalProperties: false,
      },
    },
    $ref: '#/$defs/node',
  },
  'several types': { type: ['string', 'null', 'integer'], maxLength: 3, maximum: 5 },
};

for (const [name, schema] of Object.entries(SCHEMAS)) {
  t.test(`generates what satisfies the schema: ${name}`, async (t) => {
    const grammar = schemaGrammar(schema);
    const texts = [...write(grammar, 25), ...write(grammar, 15, { temperature: 3, topK: 0, topP: 1, minP: 0 })];
    for (const text of texts) if (!isValid(JSON.parse(text), schema)) t.fail(text);
    t.ok(texts.length === 40);
  });
}

t.test('optional properties are sometimes there and sometimes not', async (t) => {
  const schema = { type: 'object', properties: { a: { type: 'boolean' }, b: { type: 'boolean' } }, required: ['b'] };
  const texts = write(schemaGrammar(schema), 60);
  t.ok(texts.some((text) => text.includes('"a"')));
  t.ok(texts.some((text) => !text.includes('"a"')));
});

t.test('properties may have the names of an object itself', async (t) => {
  const schema: unknown = JSON.parse(
    '{"allOf":[{"type":"object"},{"properties":{}},{"properties":{"__proto__":{"type":"null"}},"required":["__proto__"]}]}',
  );
  t.same(write(schemaGrammar(schema), 1), ['{"__proto__":null}']);
});

t.test('what cannot be obeyed is refused by name', async (t) => {
  const refused: readonly (readonly [unknown, RegExp])[] = [
    [{ not: {} }, /#: keyword not/],
    [{ type: 'object', properties: { a: { if: true } } }, /#\/properties\/a: keyword if/],
    [{ type: 'text' }, /no type 'text'/],
    [{ $ref: 'https://example.com/s' }, /only local references/],
    [{ $ref: '#/$defs/none' }, /is not defined/],
    [{ type: 'integer', minimum: 3, maximum: 2 }, /no number/],
    [{ type: 'number', multipleOf: 1e-7, minimum: 1e10 }, /no number/],
    [{ type: 'integer', multipleOf: 1e-20 }, /multiples of 1e-20/],
    [{ type: 'string', minLength: 5, maxLength: 4 }, /that long/],
    [{ type: 'string', minLength: '5' }, /minLength must be a number/],
    [{ type: 'string', pattern: '(?=a)b' }, /look-around/],
    [{ type: 'string', pattern: '\\bword' }, /'\\b'/],
    [{ type: 'string', pattern: '^abc$', maxLength: 2 }, /these lengths/],
    [{ type: 'array', uniqueItems: true, minItems: 2 }, /uniqueItems/],
    [{ allOf: [{ pattern: 'a' }, { pattern: 'b' }] }, /two different values of pattern/],
    [{ type: 'object', properties: { a: false }, required: ['a'] }, /no value satisfies/],
    [
      {
        $defs: { a: { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, required: ['a'] } },
        $ref: '#/$defs/a',
      },
      /no value satisfies/,
    ],
    [{ allOf: [{ required: true }] }, /required must be an array/],
    [{ type: 'object', required: [1] }, /required must be an array of strings/],
    [{ type: [{ toString: 1 }] }, /type must be a string or an array of strings/],
    [{ $ref: 5 }, /\$ref must be a string/],
    [{ type: 'object', properties: [] }, /properties must be an object/],
    [{ type: 'string', pattern: '('.repeat(5000) }, /too long/],
    [{ type: 'string', pattern: 'a{5000}' }, /so many repetitions/],
    [false, /no value satisfies/],
    ['string', /neither an object nor a boolean/],
  ];
  for (const [schema, message] of refused) t.throws(() => schemaGrammar(schema), { name: 'SchemaError', message });
});

t.test('long patterns and values count as often as a schema refers to them', async (t) => {
  const refersTo = (long: unknown, times: number): unknown => ({
    anyOf: Array.from({ length: times }, () => ({ $ref: '#/$defs/long' })),
    $defs: { long },
  });
  for (const [long, characters] of [
    [{ type: 'string', pattern: '.'.repeat(1000) }, 1000],
    [{ type: 'string', pattern: '[\\S-z]'.repeat(140) }, 980],
    [{ enum: ['a'.repeat(100_000), 'b'] }, 100_000],
  ] as const) {
    t.ok(schemaGrammar(refersTo(long, 3)).length > characters);
    t.throws(() => schemaGrammar(refersTo(long, 100)), { name: 'SchemaError', message: /too large/ });
  }
});

const TOOLS = [
  { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
  { name: 'now' },
  {
    name: 'say "hi"',
    parameters: { type: 'object', properties: { n: { type: 'integer', maximum: 3 } }, required: ['n'] },
  },
];

t.test('tool calls name a tool and satisfy its parameters', async (t) => {
  const names = new Set<string>();
  for (const text of write(toolCallGrammar(TOOLS, 3), 60, { temperature: 5, topK: 0, topP: 1, minP: 0 })) {
    const calls = readCalls(text);
    if (calls.length < 1 || calls.length > 3) t.fail(text);
    for (const call of calls) {
      names.add(call.name);
      const tool = TOOLS.find(({ name }) => name === call.name);
      if (!isValid(JSON.parse(call.arguments), tool!.parameters ?? { type: 'object', additionalProperties: false })) {
        t.fail(text);
      }
    }
  }
  t.strictSame([...names].sort(), ['get_weather', 'now', 'say "hi"']);
});

t.test('a call that was cut off keeps its name and the begin of its arguments', async (t) => {
  t.strictSame(readCalls('{"name":"a","arguments":{"x":1}}\n{"name":"b","arguments":{"y":'), [
    { name: 'a', arguments: '{"x":1}' },
    { name: 'b', arguments: '{"y":' },
  ]);
  t.strictSame(readCalls('{"name":"a'), []);
});

t.test('long schemas are compiled in linear time, or refused', async (t) => {
  const many = <T>(length: number, of: (at: number) => T): T[] => Array.from({ length }, (_, at) => of(at));
  const values = many(8000, (at) => `v${at}`);
  const schemas = {
    'a long list of values': { enum: values },
    'two long lists of values': { allOf: [{ enum: values }, { enum: many(8000, (at) => `v${at + 7999}`) }] },
    'a list of values beside many branches': { enum: values, anyOf: many(4000, () => ({})) },
    'many parts': { allOf: many(6000, (at) => ({ properties: { [`p${at}`]: { type: 'null' } } })) },
    'parts of parts': { allOf: many(20_000, () => ({ allOf: [{ title: 'x' }] })) },
    'many made-up properties': { minProperties: 5_000_000 },
    'objects of made-up properties': {
      properties: Object.fromEntries(many(200, (at) => [`p${at}`, { minProperties: 10_000 }])),
    },
  };
  for (const [name, schema] of Object.entries(schemas)) {
    const start = process.cpuUsage();
    try {
      schemaGrammar(schema);
    } catch (error) {
      t.match(error, { name: 'SchemaError', message: /too large/ });
    }
    const { user, system } = process.cpuUsage(start);
    t.ok(user + system < 2_000_000, `${name}: ${((user + system) / 1000).toFixed(0)} ms`);
  }
});
