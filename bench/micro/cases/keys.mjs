// Cases of the API key check: one key again and again, a thousand keys in turn, and the hash alone.

const COUNT = 1000;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  // Older builds call the table `KeyRing`.
  const { hashKey, KeyRing, KeyTable = KeyRing } = await load('src/billing/index.js', 'src/account/index.js');
  const keys = Array.from({ length: COUNT }, (_, at) => `sk-bench-${String(at).padStart(32, '0')}`);
  const table = new KeyTable(keys.map((key, at) => ({ hash: hashKey(key), id: `key-${at}`, account: 'bench' })));
  if (table.check(keys[0]).kind !== 'good') throw new Error('the key is not accepted');
  let next = 0;
  return {
    'key, the same each time': () => table.check(keys[0]),
    [`key, ${COUNT} by turns`]: () => table.check(keys[(next = next + 1 === COUNT ? 0 : next + 1)]),
    'key, hashed': () => hashKey(keys[0]),
  };
}
