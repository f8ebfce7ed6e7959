import fc from 'fast-check';
import t from 'tap';
import { readAffinity, writeAffinity } from '../../src/routing/affinity-cookie.ts';
import { type Member, ModelTable } from '../../src/routing/model-table.ts';

const memberAt = (url: string): Member => ({
  url,
  server: 0,
  member: 0,
  hash: 0,
  apiKey: undefined,
  weight: 1,
  dialects: 0,
});

const table = (models: Record<string, readonly string[]>): ModelTable =>
  new ModelTable({
    version: 1,
    models: Object.entries(models).map(([id, urls]) => ({ id, members: urls.map(memberAt), budget: 0 })),
  });

const POOL = { 'Big/Model': ['http://a:1', 'http://b:1/x%20y'], other: ['http://c:1'], 'modèle;ü😀': ['http://d:1'] };

/** Characters that every server adapter passes in a cookie value: ASCII without controls and `;`. */
const SAFE = /^[\x20-\x3a\x3c-\x7e]*$/;

t.test('readAffinity reads raw and percent-encoded values', async (t) => {
  const text = '{"Big/Model":"http://b:1/x%20y"}';
  for (const value of [text, encodeURIComponent(text)]) {
    t.same([...readAffinity(value)], [['big/model', 'http://b:1/x%20y']]);
  }
});

t.test('writeAffinity adds the CRN, keeps valid entries, and returns undefined when nothing changes', async (t) => {
  const known = readAffinity('{"other":"http://c:1","gone":"http://c:1","big/model":"http://evil"}');
  t.equal(
    writeAffinity(known, table(POOL), 'Big/Model', 'http://a:1'),
    '{"other":"http://c:1","Big/Model":"http://a:1"}',
  );
  t.equal(writeAffinity(readAffinity('{"BIG/model":"http://a:1"}'), table(POOL), 'Big/Model', 'http://a:1'), undefined);
});

t.test('readAffinity never throws and skips what is no string', async (t) => {
  const hostile = [
    '',
    '%',
    '%zz',
    '{',
    '[]',
    '"a"',
    'null',
    '1',
    '{"a":1}',
    '{"a":{"b":"c"}}',
    `{"a":"${'x'.repeat(5000)}"}`,
  ];
  for (const value of [undefined, ...hostile]) t.equal(readAffinity(value).size, 0, String(value).slice(0, 20));
  t.same(
    [...readAffinity('{"__proto__":"http://a:1","a":1,"b":"c"}')],
    [
      ['__proto__', 'http://a:1'],
      ['b', 'c'],
    ],
  );
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json()), (value) => readAffinity(value) instanceof Map),
    { numRuns: 2000 },
  );
});

const models = Object.keys(POOL);
const choice = fc
  .constantFrom(...models)
  .chain((id) => fc.constantFrom(...(POOL[id as keyof typeof POOL] as string[])).map((url) => [id, url] as const));
const cookie = fc
  .dictionary(
    fc.oneof(fc.constantFrom(...models, '__proto__'), fc.string()),
    fc.oneof(fc.string(), fc.constantFrom(...Object.values(POOL).flat())),
  )
  .map((entries) => JSON.stringify(entries));

t.test('a written cookie reads back, is safe in a header, and names CRNs of the pool only', async () => {
  fc.assert(
    fc.property(cookie, choice, fc.boolean(), (value, [id, url], encoded) => {
      const known = readAffinity(encoded ? encodeURIComponent(value) : value);
      const written = writeAffinity(known, table(POOL), id, url);
      if (written === undefined) return known.get(id.toLowerCase()) === url;
      const read = readAffinity(written);
      const inPool = [...read].every(([model, preferred]) =>
        table(POOL)
          .find(model)
          ?.members.some((one) => one.url === preferred),
      );
      const kept = [...known].every(([model, preferred]) => {
        const found = table(POOL).find(model);
        if (found === undefined || found.id === id) return true;
        return !found.members.some((one) => one.url === preferred) || read.get(found.id.toLowerCase()) !== undefined;
      });
      return SAFE.test(written) && read.get(id.toLowerCase()) === url && inPool && kept;
    }),
    { numRuns: 3000 },
  );
});

t.test('a cookie above 4096 characters keeps the last entry only', async (t) => {
  const pool = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [`model-${at}`, [`http://${'h'.repeat(60)}:${at}`]]),
  );
  let value: string | undefined;
  for (const [id, [url]] of Object.entries(pool)) {
    value = writeAffinity(readAffinity(value), table(pool), id, url as string) ?? value;
    t.ok((value as string).length <= 4096);
    t.equal(readAffinity(value).get(id), url);
  }
});

t.test('a model may be called __proto__', async (t) => {
  const odd = table(Object.fromEntries([['__proto__', ['http://a:1']]]));
  const written = writeAffinity(new Map(), odd, '__proto__', 'http://a:1');
  t.equal(readAffinity(written).get('__proto__'), 'http://a:1');
});
