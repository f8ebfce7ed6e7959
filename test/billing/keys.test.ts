import fc from 'fast-check';
import t from 'tap';
import { hashKey, KeyTable, presentedKey } from '../../src/billing/index.ts';

const RING = new KeyTable([
  { hash: hashKey('hr_one'), account: 'first' },
  { hash: hashKey('hr_two'), account: 'second' },
]);

t.test('a key is valid when its hash is known, and belongs to an account', async (t) => {
  t.equal(RING.size, 2);
  const plain = { kind: 'good', key: null, lineage: null, prepaid: false, expiresMs: Infinity, allowance: null };
  t.same(RING.check('hr_one'), { ...plain, account: 'first' });
  t.same(RING.check('hr_two'), { ...plain, account: 'second' });
  t.same(RING.check('hr_one'), { ...plain, account: 'first' }, 'also when it is remembered');
});

t.test('no key, an empty one and the placeholder of wallets count as none', async (t) => {
  for (const key of [undefined, '', 'x402']) t.same(RING.check(key), { kind: 'none' }, `${key}`);
});

t.test('every other text is an invalid key', async (t) => {
  for (const key of ['hr_on', 'hr_one ', 'HR_ONE', hashKey('hr_one'), 'X402', '__proto__', 'k'.repeat(513)]) {
    t.same(RING.check(key), { kind: 'bad' }, key.slice(0, 20));
    t.same(RING.check(key), { kind: 'bad' }, 'also the second time');
  }
  fc.assert(fc.property(fc.string({ minLength: 5 }), (key) => RING.check(key).kind === 'bad'));
});

t.test('a flood of unknown keys does not invalidate a good one', async (t) => {
  for (let i = 0; i < 12_000; i++) RING.check(`unknown-${i}`);
  t.match(RING.check('hr_one'), { kind: 'good' });
});

t.test(
  'keys of the store are added, changed and removed, and those of the configuration take precedence',
  async (t) => {
    const table = new KeyTable([{ hash: hashKey('both'), account: 'configured' }]);
    const stored = { hash: hashKey('hr_s'), account: 's', id: 'k1', prepaid: true };
    t.equal(table.check('hr_s').kind, 'bad');
    table.update({ reset: false, put: [stored, { hash: hashKey('both'), account: 'stored' }], drop: [] });
    t.match(
      table.check('hr_s'),
      { kind: 'good', account: 's', key: 'k1', prepaid: true },
      'what was bad is looked up again',
    );
    t.match(table.check('both'), { account: 'configured' });
    table.update({ reset: false, put: [], drop: [stored.hash] });
    t.equal(table.check('hr_s').kind, 'bad');
    table.update({ reset: true, put: [stored], drop: [] });
    table.configure([]);
    t.equal(table.check('hr_s').kind, 'good', 'a new configuration leaves the store alone');
    t.equal(table.check('both').kind, 'bad');
  },
);

t.test('an expired key is invalid, also when the cache has it as valid', async (t) => {
  let nowMs = 999;
  const table = new KeyTable([{ hash: hashKey('hr_e'), account: 'a', expiresMs: 1000 }], () => nowMs);
  t.equal(table.check('hr_e').kind, 'good');
  nowMs = 1000;
  t.equal(table.check('hr_e').kind, 'bad');
});

t.test('a table with a store is complete once it has all keys of the store', async (t) => {
  t.ok(new KeyTable([]).isComplete);
  const table = new KeyTable([], undefined, true);
  table.update({ reset: false, put: [], drop: ['hash'] });
  t.notOk(table.isComplete);
  table.update({ reset: true, put: [], drop: [] });
  t.ok(table.isComplete);
});

t.test('a key of the greatest length is looked up', async (t) => {
  const key = 'k'.repeat(512);
  t.match(new KeyTable([{ hash: hashKey(key), account: 'a' }]).check(key), { kind: 'good' });
});

t.test('hashes are SHA-256 in hex', async (t) => {
  t.equal(hashKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});

t.test('the key stands in Authorization first, then in x-api-key', async (t) => {
  const cases: [string | undefined, string | undefined, string | undefined, string | undefined][] = [
    [undefined, undefined, undefined, undefined],
    ['Bearer k', undefined, 'k', undefined],
    ['bEARER   k  ', undefined, 'k', undefined],
    ['Bearer k', 'other', 'k', undefined],
    [undefined, 'k', 'k', 'k'],
    ['', 'k', 'k', 'k'],
    ['Bearer x402', 'k', 'x402', undefined],
  ];
  for (const [authorization, apiKey, key, bearer] of cases) {
    t.same(presentedKey(authorization, apiKey), { key, bearer }, `${authorization} ${apiKey}`);
  }
});

t.test('credentials of another form are invalid, even when they contain a valid key', async (t) => {
  for (const authorization of [
    'hr_one',
    'Basic hr_one',
    'Bearer',
    'Bearer hr_one x',
    'Bearerhr_one',
    'Bearer\thr_one',
  ]) {
    t.same(RING.check(presentedKey(authorization, 'hr_one').key), { kind: 'bad' }, authorization);
  }
});
